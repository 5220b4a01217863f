//! Objects that a number in an event identifies, and their names.

use std::collections::HashSet;

use kymo::event::Event as _;
use kymo::vocabulary::{Counter, Mark, SpanBegin, SpanEnd, SyscallEnter, SyscallExit};
use kymo_ctf::EventRef;
use kymo_machine::{CallKey, Change, IrqLine, Machine, Named};

/// The kinds of objects with names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NameClass {
    Thread,
    Process,
    Lock,
    Irq,
    Syscall,
    User,
}

impl NameClass {
    /// The kind of object that a field of an event identifies.
    pub(super) fn of(event: &str, field: &str) -> Option<NameClass> {
        const SYSCALLS: [&str; 2] = [SyscallEnter::SCHEMA.name, SyscallExit::SCHEMA.name];
        const USER: [&str; 4] = [
            Mark::SCHEMA.name,
            SpanBegin::SCHEMA.name,
            SpanEnd::SCHEMA.name,
            Counter::SCHEMA.name,
        ];
        match field {
            "pid" | "parent_pid" | "child_pid" => Some(NameClass::Process),
            "lock" => Some(NameClass::Lock),
            "irq" => Some(NameClass::Irq),
            "id" if SYSCALLS.contains(&event) => Some(NameClass::Syscall),
            "id" if USER.contains(&event) => Some(NameClass::User),
            _ if field == "tid" || field.ends_with("_tid") => Some(NameClass::Thread),
            _ => None,
        }
    }

    /// For messages.
    pub(super) fn label(self) -> &'static str {
        match self {
            NameClass::Thread => "thread",
            NameClass::Process => "process",
            NameClass::Lock => "lock",
            NameClass::Irq => "interrupt",
            NameClass::Syscall => "system call",
            NameClass::User => "mark, span or counter",
        }
    }

    /// The object of this kind and number; `None` if the machine has not met it yet.
    fn object(self, machine: &Machine, number: u64, cpu: Option<u64>) -> Option<Named> {
        match self {
            NameClass::Thread => machine.thread_of(number, cpu).map(Named::Thread),
            NameClass::Syscall => machine.call_of(number).map(Named::Call),
            NameClass::Process => Some(Named::Process(number)),
            NameClass::Lock => Some(Named::Lock(number)),
            NameClass::Irq => Some(Named::Irq(IrqLine::hard(number))),
            NameClass::User => Some(Named::User(number)),
        }
    }

    fn of_named(named: Named) -> NameClass {
        match named {
            Named::Thread(_) => NameClass::Thread,
            Named::Process(_) => NameClass::Process,
            Named::Lock(_) => NameClass::Lock,
            Named::Irq(_) => NameClass::Irq,
            Named::Call(_) => NameClass::Syscall,
            Named::User(_) => NameClass::User,
        }
    }
}

/// The object that a number in an event identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Numbered {
    class: NameClass,
    number: u64,
    /// The object; `None` for a thread or system call that the machine has not met yet.
    met: Option<Named>,
}

/// The machine's names, and the objects whose names were cut to the length of their events' fields.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) machine: &'a Machine,
    pub(super) cut: &'a HashSet<Named>,
}

impl Names<'_> {
    /// The object that `number` identifies in an event of this CPU.
    pub(super) fn numbered(&self, class: NameClass, number: u64, cpu: Option<u64>) -> Numbered {
        let met = class.object(self.machine, number, cpu);
        Numbered { class, number, met }
    }

    /// Whether the number identifies the object that has just got a name.
    pub(super) fn is(&self, of: &Numbered, named: Named) -> bool {
        of.met.map_or_else(
            || match named {
                Named::Thread(id) if of.class == NameClass::Thread => {
                    let thread = self.machine.thread(id);
                    thread.is_some_and(|thread| thread.tid == of.number)
                }
                Named::Call(id) if of.class == NameClass::Syscall => {
                    let call = self.machine.call(id);
                    call.is_some_and(|(key, _)| *key == CallKey::Number(of.number))
                }
                _ => false,
            },
            |met| met == named,
        )
    }

    /// Whether the object has one of these names; `None` if it has no name yet.
    pub(super) fn calls(&self, of: &Numbered, wanted: &[String]) -> Option<bool> {
        let named = of.met?;
        self.machine.name(named)?;
        Some(wanted.iter().any(|wanted| self.is_called(named, wanted)))
    }

    /// Whether the object has this name. A cut name need only match the beginning.
    pub(super) fn is_called(&self, named: Named, wanted: &str) -> bool {
        self.machine.name(named).is_some_and(|name| {
            wanted == name || self.cut.contains(&named) && wanted.starts_with(name)
        })
    }

    /// Whether the object is of this class and has this name.
    pub(super) fn is_class_called(&self, named: Named, class: NameClass, wanted: &str) -> bool {
        NameClass::of_named(named) == class && self.is_called(named, wanted)
    }
}

/// The fields of an event whose numbers identify something with a name, and these names, which the
/// machine knows so far. A thread 0 has a name only where it is an idle thread.
pub fn named_fields<'e, 'm>(event: &EventRef<'e>, machine: &'m Machine) -> Vec<(&'e str, &'m str)> {
    let parts = [event.fields(), event.context(), event.stream_context()];
    let fields = parts.into_iter().flat_map(|part| part.iter());
    let named = fields.filter_map(|field| {
        let class = NameClass::of(event.name(), field.name)?;
        let number = field.value.as_u64()?;
        let is_idle = matches!(&**field.name, "tid" | "prev_tid" | "next_tid");
        if class == NameClass::Thread && number == 0 && !is_idle {
            return None;
        }
        let object = class.object(machine, number, event.cpu())?;
        let name: &'e str = field.name;
        Some((name, machine.name(object)?))
    });
    named.collect()
}

/// Objects that the last event gave a new name.
pub(super) fn named(machine: &Machine) -> impl Iterator<Item = Named> {
    machine.changes().iter().filter_map(|change| match change {
        Change::Named(named) => Some(*named),
        _ => None,
    })
}

/// Whether the name in the event was cut. Kymo's events have the number of missing bytes.
pub(super) fn is_cut(event: &EventRef<'_>) -> bool {
    let cut = event.field("_name_cut").and_then(|cut| cut.as_u64());
    cut.is_some_and(|cut| cut > 0)
}
