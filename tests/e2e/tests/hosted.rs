//! A user-space program that records itself: every kind of field, several threads, a live reader,
//! more threads than rings.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::ring::reader::View;
use kymo::vocabulary::{
    IrqEnter, IrqExit, IrqName, SchedSwitch, SwitchReason, Syscall, SyscallEnter, SyscallExit,
    SyscallName, ThreadName, ThreadState,
};
use kymo::{Address, Irq, Overflow, Sequence, Text, Tid, trace};
use kymo_ctf::{Item, Trace, Value};
use kymo_e2e::{babeltrace, scratch};
use kymo_hosted::{Hosted, Options};

kymo::enumeration! {
    /// Why it stopped.
    pub enum Reason: u8 { Done = 0, Waits = 1, Failed = 200 }
}
kymo::event! {
    /// Every kind of field.
    #[id(21)]
    pub struct Everything {
        pub a: u8, pub b: u16, pub c: u32, pub d: u64, pub e: i8, pub f: i16, pub g: i32, pub h: i64,
        pub reason: Reason, pub yes: bool, pub at: Address, pub three: [u16; 3], pub grid: [[u8; 2]; 3], pub reasons: [Reason; 2],
        pub name: Text<12>, pub tids: Sequence<Tid, 4>, pub path: Text<20>, pub longs: Sequence<i64, 3>,
    }
}
kymo::event! { #[id(22)] pub struct Step { pub tid: Tid, pub seq: u32 } }
kymo::event! { #[id(700)] pub struct Rare { pub odd: u8 } }
kymo::event! { #[id(29)] pub struct Nothing {} }

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![
    ThreadName,
    Everything,
    Step,
    Rare,
    Nothing,
    SchedSwitch,
    SyscallEnter,
    SyscallExit,
    SyscallName,
    IrqEnter,
    IrqExit,
    IrqName
];
pub(crate) type Kymo = kymo::Tracer<Hosted>;

fn everything(seed: i64) {
    trace!(Everything {
        a: seed as u8,
        b: seed as u16,
        c: seed as u32,
        d: u64::MAX - seed as u64,
        e: -seed as i8,
        f: -seed as i16,
        g: i32::MIN + seed as i32,
        h: i64::MIN + seed,
        reason: if seed % 2 == 0 {
            Reason::Failed
        } else {
            Reason::Waits
        },
        yes: seed % 3 == 0,
        at: Address(0xffff_ffff_8000_0000 + seed as u64),
        three: [1, 2, seed as u16],
        grid: [[1, 2], [3, 4], [5, seed as u8]],
        reasons: [Reason::Done, Reason::Failed],
        name: Text::new(if seed % 5 == 0 {
            "a name that is cut"
        } else {
            "short"
        }),
        // Never empty: babeltrace2 2.0.4 prints an empty text as the previous one.
        path: Text::new(if seed % 4 == 3 {
            "x"
        } else {
            "/sbin/\u{e4}rger"
        }),
        tids: Sequence::new([70_000, 2, 3, 4, 5].map(Tid).split_at(seed as usize % 6).0),
        longs: Sequence::new([seed, i64::MIN, -1].split_at(seed as usize % 4).0),
    });
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_program_records_itself() {
    let folder = scratch("hosted");
    let options = Options {
        max_threads: 4,
        packet_size: 1024,
        packets: 64,
        overflow: Overflow::Overwrite,
        ..Options::default()
    };

    // A reader follows the writers; events for which it is too slow are counted.
    let session = kymo_hosted::start(&options, &VOCABULARY).unwrap();
    let (live, out) = (session.live(), folder.join("live"));
    let mut writer = session.writer(&out).unwrap();
    let calls = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3u32)
            .map(|tid| {
                let calls = &calls;
                scope.spawn(move || {
                    trace!(ThreadName {
                        tid: Tid(tid),
                        name: Text::new("worker")
                    });
                    for seq in 0..200_000 {
                        trace!(Step { tid: Tid(tid), seq });
                    }
                    trace!(Rare { odd: 7 });
                    trace!(Nothing {});
                    calls.fetch_add(200_003, Relaxed);
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            writer.poll(&live, View::Live).unwrap();
            writer.flush().unwrap();
        }
    });
    session.stop().unwrap();
    writer.poll(&live, View::PostMortem).unwrap();
    let summary = writer.finish(&live).unwrap();
    // The session's end is an event too.
    let recorded = calls.load(Relaxed) + 1;
    assert_eq!(summary.events() + summary.lost(), recorded);
    let (events, losses) = babeltrace::compare(&out);
    assert_eq!(events, summary.events());
    assert_eq!(
        losses.values().map(|lost| lost.0).sum::<u64>(),
        summary.lost()
    );
    assert!(session.stop().is_err(), "it is stopped");
    trace!(Nothing {}); // Off: goes nowhere.

    // Every kind of field, also read by babeltrace2, in the same rings.
    let session = kymo_hosted::start(&options, &VOCABULARY).unwrap();
    assert!(
        kymo_hosted::start(&options, &VOCABULARY).is_err(),
        "one session at a time"
    );
    (0..50).for_each(everything);
    let out = folder.join("fields");
    let summary = session.save(&out).unwrap();
    // And the session's end.
    assert_eq!((summary.events(), summary.lost()), (51, 0));
    assert_eq!(babeltrace::compare(&out).0, 51);
    let first = Trace::open(&out).unwrap().events().next().unwrap().unwrap();
    let Item::Event(event) = first else {
        panic!("{first:?}")
    };
    let field = |name: &str| event.fields.get(name).unwrap().clone();
    assert_eq!(field("d"), Value::UInt(u64::MAX));
    assert_eq!(field("h"), Value::Int(i64::MIN));
    assert_eq!(field("name"), Value::Str("a name that ".to_owned()));
    assert_eq!(field("_name_cut"), Value::UInt(1));
    assert_eq!(field("path"), Value::Str("/sbin/\u{e4}rger".to_owned()));
    let sequences = Trace::open(&out)
        .unwrap()
        .events()
        .filter_map(|item| match item.unwrap() {
            Item::Event(event) if event.name() != "kymo_session_end" => Some(
                ["tids", "_tids_cut", "longs"].map(|name| event.fields.get(name).unwrap().clone()),
            ),
            _ => None,
        });
    let tids = [70_000, 2, 3, 4].map(Value::UInt);
    for (seed, [found, cut, longs]) in sequences.enumerate() {
        let longs_told = [seed as i64, i64::MIN, -1].map(Value::Int);
        assert_eq!(
            (found, longs),
            (
                Value::Array(tids[..(seed % 6).min(4)].to_vec()),
                Value::Array(longs_told[..seed % 4].to_vec())
            )
        );
        assert_eq!(cut, Value::UInt(u64::from(seed % 6 == 5)));
    }
    assert!(
        fs::read_to_string(out.join("metadata"))
            .unwrap()
            .contains("\"Failed\" = 200")
    );

    // Numbers that do not fit into eight or sixteen bits (P-36).
    let session = kymo_hosted::start(&options, &VOCABULARY).unwrap();
    let (tid, id, irq) = (Tid(70_000), Syscall(300), Irq(300));
    let (prev_state, reason) = (ThreadState::Blocked, SwitchReason::Waits);
    trace!(ThreadName {
        tid,
        name: Text::new("far")
    });
    trace!(SyscallName {
        id,
        name: Text::new("late")
    });
    trace!(IrqName {
        irq,
        name: Text::new("msi")
    });
    trace!(SchedSwitch {
        prev_tid: Tid(1),
        next_tid: tid,
        prev_state,
        reason,
        next_prio: -300
    });
    trace!(SyscallEnter { id, arg0: u64::MAX });
    trace!(IrqEnter { irq });
    trace!(IrqExit { irq });
    trace!(SyscallExit { id, ret: i64::MIN });
    let out = folder.join("wide");
    assert_eq!(session.save(&out).unwrap().events(), 9);
    assert_eq!(babeltrace::compare(&out).0, 9);
    let events = Trace::open(&out)
        .unwrap()
        .events()
        .filter_map(|item| match item.unwrap() {
            Item::Event(event) => Some(event),
            _ => None,
        });
    let mut found = Vec::new();
    for event in events {
        for name in ["tid", "next_tid", "id", "irq"] {
            let value = event.fields.get(name).and_then(Value::as_u64);
            found.extend(value.map(|value| format!("{} {name}={value}", event.name())));
        }
    }
    found.sort_unstable();
    let expected = [
        "irq_handler_entry irq=300",
        "irq_handler_exit irq=300",
        "irq_name irq=300",
        "sched_switch next_tid=70000",
        "sys_enter id=300",
        "sys_exit id=300",
        "syscall_name id=300",
        "thread_name tid=70000",
    ];
    assert_eq!(found, expected);

    // More threads than rings, all in parallel, so that no ring is reused.
    let session = kymo_hosted::start(&options, &VOCABULARY).unwrap();
    let barrier = std::sync::Barrier::new(7);
    std::thread::scope(|scope| {
        for _ in 0..7 {
            scope.spawn(|| {
                trace!(Step {
                    tid: Tid(1),
                    seq: 0
                });
                barrier.wait();
                trace!(Step {
                    tid: Tid(1),
                    seq: 1
                });
                barrier.wait();
            });
        }
    });
    let out = folder.join("crowd");
    let summary = session.save(&out).unwrap();
    assert_eq!(summary.events() + summary.lost(), 15);
    // The test's own thread holds one of the four rings.
    assert_eq!(summary.lost(), 8, "four threads found no ring: {summary:?}");
    babeltrace::compare(&out);
    assert!(
        kymo_hosted::start(
            &Options {
                packets: 128,
                ..options
            },
            &VOCABULARY
        )
        .is_err(),
        "the threads keep their rings"
    );
}
