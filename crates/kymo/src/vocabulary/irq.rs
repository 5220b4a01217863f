//! Interrupts.

use super::Irq;

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
