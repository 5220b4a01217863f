//! What programs, or the kernel's own code, want to be seen.

use crate::Text;

crate::event! {
    /// A point of interest.
    #[id(20)]
    pub struct Mark {
        /// Which: a number of the program's choice.
        pub id: u32,
        /// What it wants to say.
        pub value: u64,
    }
}

crate::event! {
    /// A stretch of work begins. Those of one thread nest.
    #[id(17)]
    pub struct SpanBegin {
        /// Which: a number of the program's choice.
        pub id: u32,
    }
}

crate::event! {
    /// The stretch of work that the thread began last ends.
    #[id(18)]
    pub struct SpanEnd {
        /// Which.
        pub id: u32,
    }
}

crate::event! {
    /// A quantity has this value from here on.
    #[id(19)]
    pub struct Counter {
        /// Which: a number of the program's choice.
        pub id: u32,
        /// The value.
        pub value: i64,
    }
}

crate::event! {
    /// What a mark, span or counter is called.
    #[id(37)]
    #[channel(Names)]
    pub struct UserName {
        /// Which.
        pub id: u32,
        /// Its name.
        pub name: Text<24>,
    }
}

super::subject! {
    Mark,
    SpanBegin,
    SpanEnd,
    Counter,
    UserName,
}
