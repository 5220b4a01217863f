//! The standard kernel events, one file a subject. Where Linux has the event, its name and its fields' names are used.
//!
//! Compact ids 1 to 20 belong to this vocabulary, 21 to 29 to the kernel that carries it.

mod id;
mod irq;
mod sched;

pub use id::{Address, Irq, Tid};
pub use irq::{IrqEnter, IrqExit};
pub use sched::{SchedSwitch, ThreadName};
