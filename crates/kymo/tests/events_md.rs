//! docs/src/events.md is what the declarations say.
//! `KYMO_BLESS=1 cargo test -p kymo --test events_md` writes it anew.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use kymo::ChannelKind;
use kymo::event::{Event as _, EventSchema, FieldType};
use kymo::vocabulary::{ALL, ClockStep, Cpu, TYPES, Tid};

/// What other tracers record (docs/rules.md), and what Kymo's event is called: rule, their event,
/// Kymo's.
const COVERS: [(&str, &str, &str); 47] = [
    ("P 0x20", "interrupt_enter", "irq_handler_entry"),
    ("P 0x21", "interrupt_exit", "irq_handler_exit"),
    ("P 0x22", "thread_scheduling", "sched_switch"),
    ("P 0x23", "thread_preempted", "sched_switch"),
    ("P 0x24", "thread_enqueued", "sched_switch"),
    ("P 0x25", "thread_waking", "sched_wakeup"),
    ("P 0x26", "thread_create", "thread_create"),
    ("P 0x26", "thread_create's name", "thread_name"),
    ("P 0x27", "thread_end", "thread_exit"),
    ("P 0x28", "syscall_enter", "sys_enter"),
    ("P 0x29", "syscall_exit", "sys_exit"),
    ("P 0x2a", "sched_enter", "sched_enter"),
    ("P 0x2b", "sched_exit", "sched_exit"),
    ("P 0x2c", "lock_name", "lock_name"),
    ("P 0x2d", "lock_set_enter", "lock_wait"),
    ("P 0x2e", "lock_set_acquired", "lock_acquired"),
    ("P 0x2f", "lock_set_exit", "lock_failed"),
    ("P 0x30", "lock_clear", "lock_release"),
    ("P 0x31", "thread_priority", "sched_pi_setprio"),
    ("P 0x32", "process_kill", "process_kill"),
    ("P 0x33", "process_exec", "sched_process_exec"),
    ("L", "TASK_CREATE", "thread_create"),
    ("L", "TASK_DESTROY", "thread_exit"),
    ("L", "TASK_SWITCH", "sched_switch"),
    ("L", "TASK_SUSPEND", "thread_suspend"),
    ("L", "TASK_RESUME", "thread_resume"),
    ("L", "TASK_DELAY", "thread_delay"),
    ("L", "TASK_YIELD", "thread_yield"),
    ("L", "SEM_WAIT", "lock_acquired"),
    ("L", "SEM_POST", "lock_release"),
    ("L", "MUTEX_LOCK", "lock_acquired"),
    ("L", "MUTEX_UNLOCK", "lock_release"),
    ("L", "PIPE_READ", "pipe_read"),
    ("L", "PIPE_WRITE", "pipe_write"),
    ("L", "MQUEUE_SEND", "queue_send"),
    ("L", "MQUEUE_RECV", "queue_receive"),
    ("L", "ISR_ENTER", "irq_handler_entry"),
    ("L", "ISR_EXIT", "irq_handler_exit"),
    ("L", "EXCEPTION", "exception"),
    ("V-02", "SyscallEntry", "sys_enter"),
    ("V-02", "SyscallExit", "sys_exit"),
    ("V-02", "SchedSwitchOut, SchedSwitchIn", "sched_switch"),
    ("V-02", "IpcFastSend, IpcSlowPath", "ipc_send"),
    ("V-02", "IpcFastReceive", "ipc_receive"),
    ("V-02", "FrameAlloc", "mm_page_alloc"),
    ("V-02", "FrameFree", "mm_page_free"),
    ("V-02", "PageFault", "page_fault"),
];

fn type_name(ty: &FieldType) -> String {
    match ty {
        FieldType::Unsigned { bits, base: 16 } => format!("u{bits}, hexadecimal"),
        FieldType::Unsigned { bits, .. } => format!("u{bits}"),
        FieldType::Signed { bits } => format!("i{bits}"),
        FieldType::Enumeration { bits, labels } => {
            let labels: Vec<_> = labels
                .iter()
                .map(|(label, value)| format!("{value} {label}"))
                .collect();
            format!("u{bits}: {}", labels.join(", "))
        }
        FieldType::Array { element, len } => format!("[{}; {len}]", type_name(element)),
        FieldType::Text { max } => format!("text, at most {max} bytes"),
        FieldType::Sequence { element, max } => format!("up to {max} of {}", type_name(element)),
        other => panic!("the page cannot show {other:?}"),
    }
}

fn subject(event: &EventSchema) -> &'static str {
    match (event.channel, event.name) {
        (_, "kymo_counter" | "kymo_gauge" | "kymo_histogram") => "Marks, spans, counters",
        (_, name) if name.starts_with("kymo_") => "The recording itself",
        (ChannelKind::Names, _) => "Names and states",
        (ChannelKind::Samples, _) => "Samples",
        (_, name)
            if ["thread_", "sched_"]
                .iter()
                .any(|start| name.starts_with(start))
                && !name.starts_with("sched_process_") =>
        {
            "Scheduling"
        }
        (_, name) if name.starts_with("irq_") || name == "exception" => "Interrupts and exceptions",
        (_, name) if name.starts_with("sys_") => "System calls",
        (_, name) if name.starts_with("lock_") => "Locks",
        (_, name) if name.starts_with("mm_") || name == "page_fault" => "Memory",
        (_, name)
            if ["ipc_", "pipe_", "queue_"]
                .iter()
                .any(|start| name.starts_with(start)) =>
        {
            "Messages"
        }
        (_, name) if name.contains("process") => "Processes",
        _ => "Marks, spans, counters",
    }
}

/// The files that declare the events.
const SOURCES: [&str; 12] = [
    include_str!("../src/vocabulary/count.rs"),
    include_str!("../src/vocabulary/counter.rs"),
    include_str!("../src/vocabulary/ipc.rs"),
    include_str!("../src/vocabulary/irq.rs"),
    include_str!("../src/vocabulary/lock.rs"),
    include_str!("../src/vocabulary/memory.rs"),
    include_str!("../src/vocabulary/process.rs"),
    include_str!("../src/vocabulary/sample.rs"),
    include_str!("../src/vocabulary/sched.rs"),
    include_str!("../src/vocabulary/session.rs"),
    include_str!("../src/vocabulary/syscall.rs"),
    include_str!("../src/vocabulary/user.rs"),
];

/// The type of a field in the declaration of an event's type.
fn rust_type(event: &str, field: &str) -> String {
    let head = format!("pub struct {event} {{");
    let body = SOURCES
        .iter()
        .find_map(|source| source.split_once(&head))
        .unwrap_or_else(|| panic!("{event} is not declared in SOURCES"))
        .1;
    let field = format!("pub {field}: ");
    let line = body
        .lines()
        .find_map(|line| line.trim().strip_prefix(&field));
    let ty = line.and_then(|line| line.strip_suffix(',')).unwrap();
    ty.replace("NAME_BYTES", "64")
        .replace("MAX_CALLERS", "127")
        .replace("MAX_EVENTS", "16")
        .replace("BUCKETS_AT_ONCE", "16")
}

/// The type of the event of this name.
fn rust_name(name: &str) -> &'static str {
    let step = ("ClockStep", ClockStep::SCHEMA.name);
    let mut types = TYPES.iter().copied().flatten().chain([&step]);
    let found = types.find(|(_, of)| *of == name);
    found.unwrap_or_else(|| panic!("{name} has no type")).0
}

fn page() -> String {
    let mut out = String::from(
        "# The events\n\n\
         Made from the declarations by a test of the crate `kymo` (`tests/events_md.rs`), which fails where this page says something else.\n\n\
         The headings are the names in a trace; below each stands the type in `kymo::vocabulary`, which has the types of its fields, too\n\
         (`Text` is `kymo::Text`). List those that your kernel records, or all of them: `kymo::vocabulary![kymo::vocabulary::ALL; MyEvent]`. Where Linux has the event, this is its name there, and the names of its fields.\n\
         Bytes are those of a record in the ring; texts and sequences add their length, rounded up to 4.\n",
    );
    let events = || ALL.events().iter().copied().chain([&ClockStep::SCHEMA]);
    let mut subjects: Vec<&str> = Vec::new();
    for event in events() {
        if !subjects.contains(&subject(event)) {
            subjects.push(subject(event));
        }
    }
    for name in subjects {
        writeln!(out, "\n## {name}").unwrap();
        for event in events().filter(|event| subject(event) == name) {
            let texts = event.shape().tails();
            let bytes = 4 * (event.header_words() + event.shape().fixed_words() + texts);
            writeln!(
                out,
                "\n### `{}`\n\n{}\n",
                event.name,
                event.doc.split_whitespace().collect::<Vec<_>>().join(" ")
            )
            .unwrap();
            write!(
                out,
                "`{}`, id {}, {bytes} bytes{}",
                rust_name(event.name),
                event.id,
                match (texts, event.channel) {
                    (0, _) => "",
                    _ if event.name == "stack_copy" => " and its words",
                    _ if event.name == "kymo_histogram" => " and its buckets",
                    (_, ChannelKind::Samples) => " and its callers",
                    _ => " and its text",
                }
            )
            .unwrap();
            let covers: Vec<_> = COVERS
                .iter()
                .filter(|(.., ours)| *ours == event.name)
                .collect();
            for (index, (rule, theirs, _)) in covers.iter().enumerate() {
                write!(
                    out,
                    "{} {rule} ({theirs})",
                    if index == 0 { ". Covers" } else { "," }
                )
                .unwrap();
            }
            writeln!(out, ".").unwrap();
            if !event.fields.is_empty() {
                writeln!(
                    out,
                    "\n| field | type | in the trace | |\n| --- | --- | --- | --- |"
                )
                .unwrap();
            }
            for field in event.fields {
                let doc = field.doc.split_whitespace().collect::<Vec<_>>().join(" ");
                writeln!(
                    out,
                    "| `{}` | `{}` | {} | {doc} |",
                    field.name,
                    rust_type(rust_name(event.name), field.name),
                    type_name(&field.ty)
                )
                .unwrap();
            }
        }
    }
    out
}

#[test]
fn the_page_of_events_is_what_the_declarations_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/events.md");
    if std::env::var_os("KYMO_BLESS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == page(),
        "docs/src/events.md is out of date: KYMO_BLESS=1 cargo test -p kymo --test events_md"
    );
}

/// P, L and V: every event of theirs has one here.
#[test]
fn every_event_that_others_record_is_there() {
    for (rule, theirs, ours) in COVERS {
        assert!(
            ALL.events().iter().any(|event| event.name == ours),
            "{rule}: {theirs} should be {ours}"
        );
    }
}

/// Frequent events have one-word headers; at least 8 of these are left to the kernel.
#[test]
fn ids_are_left_to_the_kernel() {
    let compact = ALL
        .events()
        .iter()
        .filter(|event| event.id < 30)
        .map(|event| event.id)
        .max()
        .unwrap();
    assert!(29 - compact >= 8, "{compact}");
    assert!(
        ALL.events().iter().all(|event| event.id < 1000),
        "from 1000 on ids are the kernel's"
    );
}

/// Other kernels' names have up to 63 bytes.
#[test]
fn names_of_63_bytes_are_not_cut() {
    for event in ALL.events() {
        for field in event.fields {
            if let FieldType::Text { max } = field.ty {
                assert!(max >= 63, "{}.{}: {max} bytes", event.name, field.name);
            }
        }
    }
}

/// Thread 0 is every CPU's idle thread, and what is unknown is no number that a kernel gives.
#[test]
fn the_idle_thread_and_the_unknown_have_numbers() {
    assert_eq!((Tid::IDLE, Tid::UNKNOWN), (Tid(0), Tid(u32::MAX)));
    assert_eq!(Cpu::UNKNOWN, Cpu(u32::MAX));
}
