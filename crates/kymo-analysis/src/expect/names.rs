//! Which number is called what, as the trace tells it.

use std::collections::{HashMap, HashSet};

use kymo::event::Event as _;
use kymo::vocabulary::{Counter, Mark, SpanBegin, SpanEnd};
use kymo::vocabulary::{
    IrqName, LockName, ProcessName, ProcessStateDump, SchedSwitch, SyscallEnter, SyscallExit,
    SyscallName, ThreadCreate, ThreadExit, ThreadName, ThreadStateDump, UserName,
};
use kymo_ctf::Event;

/// What has names.
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
    /// Of a field of an event.
    pub(super) fn of(event: &str, field: &str) -> Option<NameClass> {
        const SYSCALLS: [&str; 2] = [SyscallEnter::SCHEMA.name, SyscallExit::SCHEMA.name];
        const USER: [&str; 4] = [
            Mark::SCHEMA.name,
            SpanBegin::SCHEMA.name,
            SpanEnd::SCHEMA.name,
            Counter::SCHEMA.name,
        ];
        match field {
            "pid" => Some(NameClass::Process),
            "lock" => Some(NameClass::Lock),
            "irq" => Some(NameClass::Irq),
            "id" if SYSCALLS.contains(&event) => Some(NameClass::Syscall),
            "id" if USER.contains(&event) => Some(NameClass::User),
            _ if field == "tid" || field.ends_with("_tid") => Some(NameClass::Thread),
            _ => None,
        }
    }

    /// For messages.
    pub(super) fn one(self) -> &'static str {
        match self {
            NameClass::Thread => "thread",
            NameClass::Process => "process",
            NameClass::Lock => "lock",
            NameClass::Irq => "interrupt",
            NameClass::Syscall => "system call",
            NameClass::User => "mark, span or counter",
        }
    }
}

/// A name, which may have been cut to the room that its event has.
#[derive(Clone, Debug)]
pub(super) struct Name {
    text: String,
    cut: bool,
}

impl Name {
    pub(super) fn is(&self, wanted: &str) -> bool {
        if self.cut {
            wanted.starts_with(&self.text)
        } else {
            wanted == self.text
        }
    }
}

/// A name that was told just now.
pub(super) type Told = (NameClass, u64);

#[derive(Debug, Default)]
pub(super) struct Names {
    names: HashMap<(NameClass, u64), Name>,
    /// Threads that have ended, whose numbers may be used again.
    over: HashSet<u64>,
}

impl Names {
    /// Events that tell names, or begin and end what has one.
    pub(super) const TELLERS: [&'static str; 11] = [
        ThreadName::SCHEMA.name,
        ThreadStateDump::SCHEMA.name,
        ProcessName::SCHEMA.name,
        ProcessStateDump::SCHEMA.name,
        LockName::SCHEMA.name,
        IrqName::SCHEMA.name,
        SyscallName::SCHEMA.name,
        UserName::SCHEMA.name,
        SchedSwitch::SCHEMA.name,
        ThreadCreate::SCHEMA.name,
        ThreadExit::SCHEMA.name,
    ];

    pub(super) fn get(&self, class: NameClass, number: u64) -> Option<&Name> {
        self.names.get(&(class, number))
    }

    /// Takes note of what the event tells. Gives the numbers that have a name by now.
    pub(super) fn hear(&mut self, event: &Event) -> [Option<Told>; 2] {
        const THREAD: &str = ThreadName::SCHEMA.name;
        const THREAD_STATE: &str = ThreadStateDump::SCHEMA.name;
        const PROCESS: &str = ProcessName::SCHEMA.name;
        const PROCESS_STATE: &str = ProcessStateDump::SCHEMA.name;
        const LOCK: &str = LockName::SCHEMA.name;
        const IRQ: &str = IrqName::SCHEMA.name;
        const SYSCALL: &str = SyscallName::SCHEMA.name;
        const USER: &str = UserName::SCHEMA.name;
        const SWITCH: &str = SchedSwitch::SCHEMA.name;
        const CREATE: &str = ThreadCreate::SCHEMA.name;
        const EXIT: &str = ThreadExit::SCHEMA.name;
        let tid = || event.fields.get("tid")?.as_u64();
        match event.name() {
            THREAD | THREAD_STATE => [self.tell(NameClass::Thread, event, "tid", "name"), None],
            PROCESS | PROCESS_STATE => [self.tell(NameClass::Process, event, "pid", "name"), None],
            LOCK => [self.tell(NameClass::Lock, event, "lock", "name"), None],
            IRQ => [self.tell(NameClass::Irq, event, "irq", "name"), None],
            SYSCALL => [self.tell(NameClass::Syscall, event, "id", "name"), None],
            USER => [self.tell(NameClass::User, event, "id", "name"), None],
            // Linux's switches carry the names themselves.
            SWITCH => [("prev_tid", "prev_comm"), ("next_tid", "next_comm")]
                .map(|(number, name)| self.tell(NameClass::Thread, event, number, name)),
            EXIT => {
                self.over.extend(tid());
                [None, None]
            }
            CREATE => {
                // The number is another thread's from here on, unless that one's name has come
                // already.
                if let Some(tid) = tid().filter(|tid| self.over.remove(tid)) {
                    self.names.remove(&(NameClass::Thread, tid));
                }
                [None, None]
            }
            _ => [None, None],
        }
    }

    fn tell(&mut self, class: NameClass, event: &Event, number: &str, name: &str) -> Option<Told> {
        let number = event.fields.get(number)?.as_u64()?;
        let text = event.fields.get(name)?.as_str()?;
        let cut = event
            .fields
            .get("_name_cut")
            .and_then(|cut| cut.as_u64())
            .is_some_and(|cut| cut > 0);
        if class == NameClass::Thread {
            self.over.remove(&number);
        }
        match self.names.get_mut(&(class, number)) {
            Some(have) if have.text == text && have.cut == cut => {}
            Some(have) => {
                *have = Name {
                    text: text.to_owned(),
                    cut,
                }
            }
            None => {
                self.names.insert(
                    (class, number),
                    Name {
                        text: text.to_owned(),
                        cut,
                    },
                );
            }
        }
        Some((class, number))
    }

    pub(super) fn live(&self) -> usize {
        self.names.len() + self.over.len()
    }
}
