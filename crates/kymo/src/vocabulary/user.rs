//! Marks, spans and counters of programs and of the kernel's own code.

use super::NAME_BYTES;
use crate::Text;

crate::event! {
    /// A point of interest.
    #[id(20)]
    pub struct Mark {
        /// A number of the program's choice.
        pub id: u32,
        /// A value of the program's choice.
        pub value: u64,
    }
}

crate::event! {
    /// A span of work begins. Spans of one thread nest.
    #[id(17)]
    pub struct SpanBegin {
        /// A number of the program's choice.
        pub id: u32,
    }
}

crate::event! {
    /// The running thread's innermost span ends.
    #[id(18)]
    pub struct SpanEnd {
        /// Its number.
        pub id: u32,
    }
}

crate::event! {
    /// A counter has a new value.
    #[id(19)]
    pub struct Counter {
        /// A number of the program's choice.
        pub id: u32,
        /// The value.
        pub value: i64,
    }
}

crate::event! {
    /// The name of a mark, span or counter.
    #[id(37)]
    #[channel(Names)]
    pub struct UserName {
        /// Its number.
        pub id: u32,
        /// Its name.
        pub name: Text<NAME_BYTES>,
    }
}

super::subject! {
    Mark,
    SpanBegin,
    SpanEnd,
    Counter,
    UserName,
}
