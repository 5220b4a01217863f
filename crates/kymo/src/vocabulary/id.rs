//! Ids as types, at full width.

use crate::event::{Encoder, Field, FieldType, FieldValues, ReadField};

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident($inner:ty), $ty:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub $inner);

        impl Field for $name {
            const TYPE: FieldType = $ty;
            #[inline(always)]
            fn encode(self, out: &mut Encoder<'_>) {
                self.0.encode(out);
            }
        }

        crate::event::read_integers! { unsigned -> u64: $name; }
    )*};
}

id! {
    /// A thread. 0 is the idle thread, and every CPU has its own; other threads have other numbers.
    Tid(u32), FieldType::Unsigned { bits: 32, base: 10 };
    /// A CPU, counted from 0 as in [`Config::cpus`](crate::Config::cpus).
    Cpu(u32), FieldType::Unsigned { bits: 32, base: 10 };
    /// A process.
    Pid(u32), FieldType::Unsigned { bits: 32, base: 10 };
    /// A system call, in the kernel's numbering.
    Syscall(u32), FieldType::Unsigned { bits: 32, base: 10 };
    /// A lock, semaphore, pipe, queue or port, by any number or address that is unique while it
    /// lives.
    Object(u64), FieldType::Unsigned { bits: 64, base: 16 };
    /// An interrupt line or vector, in the kernel's numbering.
    Irq(u32), FieldType::Unsigned { bits: 32, base: 10 };
    /// An address of the kernel or a process, shown in hexadecimal.
    Address(u64), FieldType::Unsigned { bits: 64, base: 16 };
}

impl Tid {
    /// The idle thread of the CPU that records the event. It is never named anything but idle,
    /// created, woken, blocked or ended: `kymo check` reports a thread 0 that is.
    pub const IDLE: Tid = Tid(0);
    /// A thread that the kernel does not know at this place. Readers derive it if they can.
    pub const UNKNOWN: Tid = Tid(u32::MAX);
}

impl Cpu {
    /// A CPU that the kernel does not know at this place, or none in particular.
    pub const UNKNOWN: Cpu = Cpu(u32::MAX);
}
