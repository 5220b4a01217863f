//! Interrupts and exceptions.

use super::{Address, Irq, NAME_BYTES};
use crate::Text;

crate::event! {
    /// An interrupt handler begins.
    #[id(2)]
    #[name("irq_handler_entry")]
    pub struct IrqEnter {
        /// The line.
        pub irq: Irq,
    }
}

crate::event! {
    /// The innermost interrupt handler on this CPU ends.
    #[id(3)]
    #[name("irq_handler_exit")]
    pub struct IrqExit {
        /// The line.
        pub irq: Irq,
    }
}

crate::event! {
    /// An exception other than a page fault or a system call.
    #[id(80)]
    pub struct Exception {
        /// Its number, as the processor counts.
        pub cause: u32,
        /// The instruction that caused it.
        pub ip: Address,
        /// The processor's further information, such as an address or an instruction.
        pub value: u64,
    }
}

crate::event! {
    /// The name of an interrupt line.
    #[id(35)]
    #[channel(Names)]
    pub struct IrqName {
        /// The line.
        pub irq: Irq,
        /// Its name, usually the device's.
        pub name: Text<NAME_BYTES>,
    }
}

super::subject! {
    IrqEnter,
    IrqExit,
    Exception,
    IrqName,
}
