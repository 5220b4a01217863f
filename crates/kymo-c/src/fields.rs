//! The fields of the vocabulary's events, for calls that show records. A kernel that makes none of
//! these is not linked with it.
//!
//! Made by `tests/header.rs` from the declarations of the crate `kymo`.

use kymo::event::FieldType;
use kymo::history::KnownField;

/// Words of a record's fields that `struct kymo_record` holds: `KYMO_RECORD_WORDS`.
pub const RECORD_WORDS: usize = 32;

/// By the event's id, in the order in which they are written.
#[rustfmt::skip]
pub static FIELDS: &[(u16, &[KnownField])] = &[
    (1, &[
        ("prev_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("next_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("prev_state", FieldType::Enumeration { bits: 8, labels: &[("Runnable", 0), ("Blocked", 1), ("Sleeping", 2), ("Suspended", 3), ("Ended", 4)] }),
        ("reason", FieldType::Enumeration { bits: 8, labels: &[("Preempted", 0), ("Expired", 1), ("Yielded", 2), ("Waits", 3), ("Suspended", 4), ("Ended", 5), ("Idle", 6)] }),
        ("next_prio", FieldType::Signed { bits: 16 }),
    ]),
    (4, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("waker_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("target_cpu", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (71, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("waker_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("target_cpu", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (15, &[
    ]),
    (16, &[
    ]),
    (64, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("parent_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("prio", FieldType::Signed { bits: 16 }),
    ]),
    (65, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("prev_state", FieldType::Enumeration { bits: 8, labels: &[("Runnable", 0), ("Blocked", 1), ("Sleeping", 2), ("Suspended", 3), ("Ended", 4)] }),
    ]),
    (66, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (67, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (68, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("ticks", FieldType::Unsigned { bits: 64, base: 10 }),
    ]),
    (69, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (70, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("oldprio", FieldType::Signed { bits: 16 }),
        ("newprio", FieldType::Signed { bits: 16 }),
        ("lock", FieldType::Unsigned { bits: 64, base: 16 }),
    ]),
    (72, &[
        ("cpu", FieldType::Unsigned { bits: 32, base: 10 }),
        ("len", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (32, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (48, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("prio", FieldType::Signed { bits: 16 }),
        ("state", FieldType::Enumeration { bits: 8, labels: &[("Runnable", 0), ("Blocked", 1), ("Sleeping", 2), ("Suspended", 3), ("Ended", 4)] }),
        ("cpu", FieldType::Unsigned { bits: 32, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (2, &[
        ("irq", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (3, &[
        ("irq", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (80, &[
        ("cause", FieldType::Unsigned { bits: 32, base: 10 }),
        ("ip", FieldType::Unsigned { bits: 64, base: 16 }),
        ("value", FieldType::Unsigned { bits: 64, base: 10 }),
    ]),
    (35, &[
        ("irq", FieldType::Unsigned { bits: 32, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (5, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
        ("arg0", FieldType::Unsigned { bits: 64, base: 10 }),
    ]),
    (6, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
        ("ret", FieldType::Signed { bits: 64 }),
    ]),
    (36, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (7, &[
        ("lock", FieldType::Unsigned { bits: 64, base: 16 }),
        ("owner_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("kind", FieldType::Enumeration { bits: 8, labels: &[("Mutex", 0), ("Semaphore", 1), ("Spin", 2)] }),
    ]),
    (8, &[
        ("lock", FieldType::Unsigned { bits: 64, base: 16 }),
        ("kind", FieldType::Enumeration { bits: 8, labels: &[("Mutex", 0), ("Semaphore", 1), ("Spin", 2)] }),
        ("contended", FieldType::Enumeration { bits: 8, labels: &[("false", 0), ("true", 1)] }),
    ]),
    (9, &[
        ("lock", FieldType::Unsigned { bits: 64, base: 16 }),
        ("kind", FieldType::Enumeration { bits: 8, labels: &[("Mutex", 0), ("Semaphore", 1), ("Spin", 2)] }),
    ]),
    (96, &[
        ("lock", FieldType::Unsigned { bits: 64, base: 16 }),
        ("error", FieldType::Signed { bits: 32 }),
        ("kind", FieldType::Enumeration { bits: 8, labels: &[("Mutex", 0), ("Semaphore", 1), ("Spin", 2)] }),
    ]),
    (34, &[
        ("lock", FieldType::Unsigned { bits: 64, base: 16 }),
        ("kind", FieldType::Enumeration { bits: 8, labels: &[("Mutex", 0), ("Semaphore", 1), ("Spin", 2)] }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (50, &[
        ("lock", FieldType::Unsigned { bits: 64, base: 16 }),
        ("owner_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("kind", FieldType::Enumeration { bits: 8, labels: &[("Mutex", 0), ("Semaphore", 1), ("Spin", 2)] }),
    ]),
    (10, &[
        ("address", FieldType::Unsigned { bits: 64, base: 16 }),
        ("ip", FieldType::Unsigned { bits: 64, base: 16 }),
        ("cause", FieldType::Enumeration { bits: 8, labels: &[("Load", 0), ("Store", 1), ("Fetch", 2)] }),
        ("user", FieldType::Enumeration { bits: 8, labels: &[("false", 0), ("true", 1)] }),
    ]),
    (11, &[
        ("pfn", FieldType::Unsigned { bits: 64, base: 10 }),
        ("order", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (12, &[
        ("pfn", FieldType::Unsigned { bits: 64, base: 10 }),
        ("order", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (13, &[
        ("port", FieldType::Unsigned { bits: 64, base: 16 }),
        ("target_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("len", FieldType::Unsigned { bits: 32, base: 10 }),
        ("path", FieldType::Enumeration { bits: 8, labels: &[("Fast", 0), ("Slow", 1)] }),
    ]),
    (14, &[
        ("port", FieldType::Unsigned { bits: 64, base: 16 }),
        ("source_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("len", FieldType::Unsigned { bits: 32, base: 10 }),
        ("path", FieldType::Enumeration { bits: 8, labels: &[("Fast", 0), ("Slow", 1)] }),
    ]),
    (112, &[
        ("pipe", FieldType::Unsigned { bits: 64, base: 16 }),
        ("len", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (113, &[
        ("pipe", FieldType::Unsigned { bits: 64, base: 16 }),
        ("len", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (114, &[
        ("queue", FieldType::Unsigned { bits: 64, base: 16 }),
        ("depth", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (115, &[
        ("queue", FieldType::Unsigned { bits: 64, base: 16 }),
        ("depth", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (130, &[
        ("parent_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("parent_pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("child_tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("child_pid", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (131, &[
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("status", FieldType::Signed { bits: 32 }),
    ]),
    (128, &[
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("filename", FieldType::Text { max: 64 }),
    ]),
    (129, &[
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("killer_tid", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (33, &[
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (49, &[
        ("pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("parent_pid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (20, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
        ("value", FieldType::Unsigned { bits: 64, base: 10 }),
    ]),
    (17, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (18, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
    ]),
    (19, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
        ("value", FieldType::Signed { bits: 64 }),
    ]),
    (37, &[
        ("id", FieldType::Unsigned { bits: 32, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (160, &[
        ("ip", FieldType::Unsigned { bits: 64, base: 16 }),
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("period", FieldType::Unsigned { bits: 64, base: 10 }),
        ("missed", FieldType::Unsigned { bits: 32, base: 10 }),
        ("mode", FieldType::Enumeration { bits: 8, labels: &[("User", 0), ("Kernel", 1), ("Idle", 2)] }),
        ("kernel_callers", FieldType::Unsigned { bits: 8, base: 10 }),
        ("kernel_end", FieldType::Enumeration { bits: 8, labels: &[("Absent", 0), ("Complete", 1), ("Cut", 2), ("Misaligned", 3), ("Unmapped", 4), ("NotRising", 5), ("NotCode", 6)] }),
        ("user_end", FieldType::Enumeration { bits: 8, labels: &[("Absent", 0), ("Complete", 1), ("Cut", 2), ("Misaligned", 3), ("Unmapped", 4), ("NotRising", 5), ("NotCode", 6)] }),
        ("callchain", FieldType::Sequence { element: &FieldType::Unsigned { bits: 64, base: 16 }, max: 127 }),
    ]),
    (162, &[
        ("period", FieldType::Unsigned { bits: 64, base: 10 }),
        ("depth", FieldType::Unsigned { bits: 32, base: 10 }),
        ("driver", FieldType::Enumeration { bits: 8, labels: &[("Timer", 0), ("Nmi", 1), ("Ipi", 2), ("ThreadTime", 3), ("Cycles", 4), ("Instructions", 5)] }),
    ]),
    (144, &[
        ("channel", FieldType::Enumeration { bits: 32, labels: &[("Events", 0), ("Names", 1), ("Samples", 2)] }),
        ("count", FieldType::Unsigned { bits: 32, base: 10 }),
        ("ticks", FieldType::Unsigned { bits: 64, base: 10 }),
    ]),
    (145, &[
        ("recorded", FieldType::Unsigned { bits: 64, base: 10 }),
        ("reused", FieldType::Unsigned { bits: 64, base: 10 }),
        ("discarded", FieldType::Unsigned { bits: 64, base: 10 }),
        ("too_large", FieldType::Unsigned { bits: 64, base: 10 }),
        ("clock_back", FieldType::Unsigned { bits: 64, base: 10 }),
        ("abandoned", FieldType::Unsigned { bits: 64, base: 10 }),
        ("without_ring", FieldType::Unsigned { bits: 64, base: 10 }),
    ]),
    (152, &[
        ("cpu", FieldType::Unsigned { bits: 32, base: 10 }),
        ("counter", FieldType::Unsigned { bits: 32, base: 10 }),
        ("value", FieldType::Unsigned { bits: 64, base: 10 }),
    ]),
    (153, &[
        ("cpu", FieldType::Unsigned { bits: 32, base: 10 }),
        ("counter", FieldType::Unsigned { bits: 32, base: 10 }),
        ("value", FieldType::Signed { bits: 64 }),
    ]),
    (154, &[
        ("cpu", FieldType::Unsigned { bits: 32, base: 10 }),
        ("counter", FieldType::Unsigned { bits: 32, base: 10 }),
        ("sum", FieldType::Unsigned { bits: 64, base: 10 }),
        ("first", FieldType::Unsigned { bits: 32, base: 10 }),
        ("buckets", FieldType::Sequence { element: &FieldType::Unsigned { bits: 64, base: 10 }, max: 16 }),
    ]),
    (176, &[
        ("group", FieldType::Unsigned { bits: 8, base: 10 }),
        ("groups", FieldType::Unsigned { bits: 8, base: 10 }),
        ("place", FieldType::Unsigned { bits: 8, base: 10 }),
        ("events", FieldType::Unsigned { bits: 8, base: 10 }),
        ("name", FieldType::Text { max: 64 }),
    ]),
    (177, &[
        ("time_enabled", FieldType::Unsigned { bits: 64, base: 10 }),
        ("time_running", FieldType::Unsigned { bits: 64, base: 10 }),
        ("group", FieldType::Unsigned { bits: 8, base: 10 }),
        ("counts", FieldType::Sequence { element: &FieldType::Unsigned { bits: 64, base: 10 }, max: 16 }),
    ]),
    (161, &[
        ("event", FieldType::Unsigned { bits: 32, base: 10 }),
        ("ip", FieldType::Unsigned { bits: 64, base: 16 }),
        ("tid", FieldType::Unsigned { bits: 32, base: 10 }),
        ("kernel_callers", FieldType::Unsigned { bits: 8, base: 10 }),
        ("kernel_end", FieldType::Enumeration { bits: 8, labels: &[("Absent", 0), ("Complete", 1), ("Cut", 2), ("Misaligned", 3), ("Unmapped", 4), ("NotRising", 5), ("NotCode", 6)] }),
        ("user_end", FieldType::Enumeration { bits: 8, labels: &[("Absent", 0), ("Complete", 1), ("Cut", 2), ("Misaligned", 3), ("Unmapped", 4), ("NotRising", 5), ("NotCode", 6)] }),
        ("callchain", FieldType::Sequence { element: &FieldType::Unsigned { bits: 64, base: 16 }, max: 127 }),
    ]),
    (178, &[
        ("event", FieldType::Unsigned { bits: 16, base: 10 }),
        ("group", FieldType::Unsigned { bits: 8, base: 10 }),
        ("turns", FieldType::Unsigned { bits: 32, base: 10 }),
        ("counts", FieldType::Sequence { element: &FieldType::Unsigned { bits: 64, base: 10 }, max: 16 }),
    ]),
];
