//! The standard kernel events, one file per subject. Events that Linux has too, and their fields,
//! have Linux's names.
//!
//! Events do not name the running thread: the switches do. Numbers are wide enough for any kernel.
//!
//! Of the compact ids, 1 to 20 belong to this vocabulary and 21 to 29 to the kernel that uses it.
//! Ids 32 to 999 belong to this vocabulary, in blocks of 16 per subject; 1000 to 2047 to the
//! kernel.

/// Lists the events that a subject's file declares.
macro_rules! subject {
    ($($event:ident,)*) => {
        pub(super) const EVENTS: crate::Vocabulary = crate::vocabulary![$($event),*];
        pub(super) const TYPES: &[(&str, &str)] =
            &[$((stringify!($event), <$event as crate::event::Event>::SCHEMA.name)),*];
    };
}
use subject;

mod count;
mod counter;
mod id;
mod ipc;
mod irq;
mod lock;
mod memory;
mod process;
mod sample;
mod sched;
mod session;
mod syscall;
mod user;

pub use count::*;
pub use counter::*;
pub use id::{Address, Cpu, Irq, Object, Pid, Syscall, Tid};
pub use ipc::*;
pub use irq::*;
pub use lock::*;
pub use memory::*;
pub use process::*;
pub use sample::*;
pub use sched::*;
pub use session::*;
pub use syscall::*;
pub use user::*;

/// Version of these declarations. It grows when an event or a field changes its meaning or is
/// removed, not when one is added.
pub const VERSION: u16 = 1;

/// Most bytes of a name, or of a program's path, in these events. Longer ones are cut, and marked
/// as cut.
pub const NAME_BYTES: usize = 64;

/// All events of the vocabulary.
pub static ALL: crate::Vocabulary = crate::vocabulary![
    sched::EVENTS,
    irq::EVENTS,
    syscall::EVENTS,
    lock::EVENTS,
    memory::EVENTS,
    ipc::EVENTS,
    process::EVENTS,
    user::EVENTS,
    sample::EVENTS,
    count::EVENTS,
    session::EVENTS,
    counter::EVENTS;
];

/// Each event's type in this module and its name in a trace, one list per subject, for tools that
/// find the types in a kernel's debug information.
pub const TYPES: &[&[(&str, &str)]] = &[
    sched::TYPES,
    irq::TYPES,
    syscall::TYPES,
    lock::TYPES,
    memory::TYPES,
    ipc::TYPES,
    process::TYPES,
    user::TYPES,
    sample::TYPES,
    count::TYPES,
    session::TYPES,
    counter::TYPES,
];
