//! Other tracers' equivalents of the vocabulary's events: names, fields, numberings.
//!
//! They are LTTng's Linux events, with the field names of its kernel modules, and Linux's own as
//! `perf` writes them, in which LTTng's `tid` is `pid`. A field that is not listed has its
//! vocabulary name.

use std::sync::Arc;

use kymo_ctf::FieldAccess;

use super::{Condition, Meaning, Source, Tracer, linux, place};
use crate::irq::IrqLine;
use crate::understood::Understood;

/// An event's name, and the vocabulary events that it amounts to.
struct Alias {
    name: &'static str,
    events: &'static [Equivalent],
}

struct Equivalent {
    event: Understood,
    /// Fields of the vocabulary event that have other names or numbers.
    fields: &'static [(&'static str, FieldFrom)],
    /// Fields with the names of the event's threads, in the order of its thread fields.
    comms: &'static [&'static str],
    /// When this event applies, if not always.
    when: Option<When>,
}

/// Names of the fields that say whether an event applies.
#[derive(Clone, Copy)]
enum When {
    /// They are equal, or the trace lacks one.
    Same(&'static str, &'static str),
    /// They differ.
    Differ(&'static str, &'static str),
    /// It is not 0.
    Set(&'static str),
}

/// Source of a vocabulary field.
#[derive(Clone, Copy)]
enum FieldFrom {
    /// The first of these fields that exists.
    Any(&'static [&'static str]),
    /// The first field, if the second exists.
    Beside(&'static str, &'static str),
    /// The state of the leaving thread, in Linux's numbering.
    State(&'static str),
    /// The state of a thread, in the numbering of LTTng's state dump.
    Status(&'static str),
    /// The vector of a soft interrupt.
    SoftIrq(&'static str),
    Constant(u64),
    Nowhere,
}

use FieldFrom::{Any, Beside, Constant, Nowhere, SoftIrq, State, Status};

/// The event with these fields, without thread names or conditions.
const fn equivalent(event: Understood, fields: &'static [(&'static str, FieldFrom)]) -> Equivalent {
    Equivalent {
        event,
        fields,
        comms: &[],
        when: None,
    }
}

const fn named(
    event: Understood,
    fields: &'static [(&'static str, FieldFrom)],
    comms: &'static [&'static str],
) -> Equivalent {
    Equivalent {
        event,
        fields,
        comms,
        when: None,
    }
}

const TID: &[(&str, FieldFrom)] = &[("tid", Any(&["tid", "pid"])), ("pid", Beside("pid", "tid"))];
const USER_FAULT: &[Equivalent] = &[equivalent(Understood::PageFault, &[("user", Constant(1))])];
const KERNEL_FAULT: &[Equivalent] = &[equivalent(Understood::PageFault, &[("user", Constant(0))])];
const SOFT_ENTRY: &[Equivalent] = &[equivalent(Understood::IrqEnter, &[("irq", SoftIrq("vec"))])];
const SOFT_EXIT: &[Equivalent] = &[equivalent(Understood::IrqExit, &[("irq", SoftIrq("vec"))])];
const WAKES: &[Equivalent] = &[named(Understood::SchedWakeup, TID, &["comm"])];

const ALIASES: &[Alias] = &[
    Alias {
        name: "sched_switch",
        events: &[named(
            Understood::SchedSwitch,
            &[
                ("prev_tid", Any(&["prev_tid", "prev_pid"])),
                ("next_tid", Any(&["next_tid", "next_pid"])),
                ("prev_state", State("prev_state")),
            ],
            &["prev_comm", "next_comm"],
        )],
    },
    // Recorded on the waker's CPU; the `sched_wakeup` that follows may be on another CPU.
    Alias {
        name: "sched_waking",
        events: WAKES,
    },
    Alias {
        name: "sched_wakeup",
        events: WAKES,
    },
    Alias {
        name: "sched_wakeup_new",
        events: WAKES,
    },
    Alias {
        name: "sched_process_fork",
        events: &[named(
            Understood::ThreadCreate,
            &[
                ("tid", Any(&["child_tid", "child_pid"])),
                ("pid", Beside("child_pid", "child_tid")),
                ("parent_tid", Any(&["parent_tid", "parent_pid"])),
                ("prio", Nowhere),
            ],
            &["child_comm"],
        )],
    },
    Alias {
        name: "sched_process_exit",
        events: &[named(Understood::ThreadExit, TID, &["comm"])],
    },
    // The remaining thread has the process's number.
    Alias {
        name: "sched_process_exec",
        events: &[equivalent(
            Understood::ProcessExec,
            &[("tid", Any(&["tid", "pid"])), ("pid", Any(&["tid", "pid"]))],
        )],
    },
    Alias {
        name: "perf_comm",
        events: &[
            equivalent(
                Understood::ThreadStateDump,
                &[
                    ("name", Any(&["comm"])),
                    ("state", Nowhere),
                    ("prio", Nowhere),
                    ("cpu", Nowhere),
                ],
            ),
            Equivalent {
                event: Understood::ProcessName,
                fields: &[("name", Any(&["comm"]))],
                comms: &[],
                when: Some(When::Same("tid", "pid")),
            },
            // `kymo record` says whether the name is that of another program.
            Equivalent {
                event: Understood::ProcessExec,
                fields: &[("filename", Nowhere)],
                comms: &[],
                when: Some(When::Set("exec")),
            },
        ],
    },
    // A thread or a process, by whether the creator belongs to the same process.
    Alias {
        name: "perf_fork",
        events: &[
            Equivalent {
                event: Understood::ThreadCreate,
                fields: &[("parent_tid", Any(&["ptid"])), ("prio", Nowhere)],
                comms: &[],
                when: Some(When::Same("pid", "ppid")),
            },
            Equivalent {
                event: Understood::ProcessFork,
                fields: &[
                    ("parent_tid", Any(&["ptid"])),
                    ("parent_pid", Any(&["ppid"])),
                    ("child_tid", Any(&["tid"])),
                    ("child_pid", Any(&["pid"])),
                ],
                comms: &[],
                when: Some(When::Differ("pid", "ppid")),
            },
        ],
    },
    Alias {
        name: "perf_exit",
        events: &[equivalent(
            Understood::ThreadExit,
            &[("prev_state", Nowhere)],
        )],
    },
    Alias {
        name: "sched_pi_setprio",
        events: &[named(Understood::SchedPriority, TID, &["comm"])],
    },
    Alias {
        name: "lttng_statedump_process_state",
        events: &[
            equivalent(
                Understood::ThreadStateDump,
                &[("state", Status("status")), ("prio", Nowhere)],
            ),
            Equivalent {
                event: Understood::ProcessName,
                fields: &[],
                comms: &[],
                when: Some(When::Same("tid", "pid")),
            },
        ],
    },
    Alias {
        name: "lttng_statedump_interrupt",
        events: &[equivalent(
            Understood::IrqName,
            &[("name", Any(&["action", "name"]))],
        )],
    },
    Alias {
        name: "irq_handler_entry",
        events: &[
            equivalent(Understood::IrqName, &[]),
            equivalent(Understood::IrqEnter, &[]),
        ],
    },
    Alias {
        name: "softirq_entry",
        events: SOFT_ENTRY,
    },
    Alias {
        name: "softirq_exit",
        events: SOFT_EXIT,
    },
    Alias {
        name: "irq_softirq_entry",
        events: SOFT_ENTRY,
    },
    Alias {
        name: "irq_softirq_exit",
        events: SOFT_EXIT,
    },
    Alias {
        name: "x86_exceptions_page_fault_user",
        events: USER_FAULT,
    },
    Alias {
        name: "exceptions_page_fault_user",
        events: USER_FAULT,
    },
    Alias {
        name: "page_fault_user",
        events: USER_FAULT,
    },
    Alias {
        name: "x86_exceptions_page_fault_kernel",
        events: KERNEL_FAULT,
    },
    Alias {
        name: "exceptions_page_fault_kernel",
        events: KERNEL_FAULT,
    },
    Alias {
        name: "page_fault_kernel",
        events: KERNEL_FAULT,
    },
    Alias {
        name: "kmem_mm_page_alloc",
        events: &[equivalent(Understood::FrameAlloc, &[])],
    },
    Alias {
        name: "kmem_mm_page_free",
        events: &[equivalent(Understood::FrameFree, &[])],
    },
];

/// Linux's event systems, which `perf` puts before an event's name.
const SYSTEMS: [&str; 6] = [
    "sched:",
    "kmem:",
    "irq:",
    "raw_syscalls:",
    "syscalls:",
    "exceptions:",
];

/// Name prefixes of event classes for a single system call, and their vocabulary events.
const CALLS: [(&str, Understood); 6] = [
    ("syscall_entry_", Understood::SyscallEnter),
    ("syscall_exit_", Understood::SyscallExit),
    ("compat_syscall_entry_", Understood::SyscallEnter),
    ("compat_syscall_exit_", Understood::SyscallExit),
    ("sys_enter_", Understood::SyscallEnter),
    ("sys_exit_", Understood::SyscallExit),
];

fn base(name: &str) -> &str {
    let mut systems = SYSTEMS.iter();
    systems
        .find_map(|system| name.strip_prefix(system))
        .unwrap_or(name)
}

/// Whether an event with a name that Kymo uses too is another tracer's. Of the switches, only
/// Kymo's has a `reason`.
pub(super) fn is_foreign(name: &str, field: &dyn Fn(&str) -> Option<FieldAccess>) -> bool {
    ALIASES.iter().any(|alias| alias.name == base(name)) && field("reason").is_none()
}

/// Meanings of the records of a class; none if the name is unknown.
pub(super) fn meanings(
    name: &str,
    field: &dyn Fn(&str) -> Option<FieldAccess>,
    tracer: &Tracer,
) -> Box<[Meaning]> {
    let name = base(name);
    if let Some(alias) = ALIASES.iter().find(|alias| alias.name == name) {
        let meanings = alias.events.iter();
        return meanings.map(|event| event.meaning(field, tracer)).collect();
    }
    if let Some(event) = Understood::of(name) {
        return Box::from([equivalent(event, &[]).meaning(field, tracer)]);
    }
    let call = CALLS
        .iter()
        .find_map(|(start, event)| Some((name.strip_prefix(start)?, *event)));
    match call {
        Some((call, event)) => {
            let mut meaning = equivalent(event, &[("id", Nowhere)]).meaning(field, tracer);
            meaning.call = Some(Arc::from(call));
            Box::from([meaning])
        }
        None => Box::from([]),
    }
}

impl Equivalent {
    fn meaning(&self, field: &dyn Fn(&str) -> Option<FieldAccess>, tracer: &Tracer) -> Meaning {
        let mut meaning = Meaning::native(self.event, field);
        for (name, from) in self.fields {
            let place = place(self.event.fields(), name);
            if let Some(source) = place.and_then(|place| meaning.sources.get_mut(place)) {
                *source = from.source(field, tracer);
            }
        }
        let comm = |place: usize| field(self.comms.get(place)?);
        meaning.comms = [comm(0), comm(1)];
        meaning.condition = self.when.and_then(|when| when.condition(field));
        meaning
    }
}

impl When {
    fn condition(self, field: &dyn Fn(&str) -> Option<FieldAccess>) -> Option<Condition> {
        match self {
            When::Same(one, other) => Some(Condition::Same(field(one)?, field(other)?)),
            When::Differ(one, other) => Some(match field(one).zip(field(other)) {
                Some((one, other)) => Condition::Differ(one, other),
                None => Condition::Never,
            }),
            When::Set(name) => Some(field(name).map_or(Condition::Never, Condition::Set)),
        }
    }
}

impl FieldFrom {
    fn source(self, field: &dyn Fn(&str) -> Option<FieldAccess>, tracer: &Tracer) -> Source {
        let converted = |name, convert: fn(u64) -> Option<u64>| {
            field(name).map(|access| Source::Converted(access, convert))
        };
        let source = match self {
            Any(names) => names.iter().find_map(|name| field(name)).map(Source::Field),
            Beside(name, other) => field(other).and_then(|_| field(name)).map(Source::Field),
            State(name) => converted(name, tracer.states),
            Status(name) => converted(name, linux::dumped),
            SoftIrq(name) => converted(name, |vector| Some(IrqLine::soft(vector).0)),
            Constant(value) => Some(Source::Constant(value)),
            Nowhere => None,
        };
        source.unwrap_or(Source::Missing)
    }
}
