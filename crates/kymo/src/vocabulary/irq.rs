//! Interrupts and exceptions.

use super::{Address, Irq};
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
    /// The interrupt handler that began last on this CPU ends.
    #[id(3)]
    #[name("irq_handler_exit")]
    pub struct IrqExit {
        /// The line.
        pub irq: Irq,
    }
}

crate::event! {
    /// An exception that is no page fault and no system call.
    #[id(80)]
    pub struct Exception {
        /// The processor's number for it.
        pub cause: u32,
        /// The instruction that caused it.
        pub ip: Address,
        /// What the processor says besides: an address, an instruction.
        pub value: u64,
    }
}

crate::event! {
    /// What an interrupt line is for.
    #[id(35)]
    #[channel(Names)]
    pub struct IrqName {
        /// The line.
        pub irq: Irq,
        /// The device, or what else it is.
        pub name: Text<16>,
    }
}

super::subject! {
    IrqEnter,
    IrqExit,
    Exception,
    IrqName,
}
