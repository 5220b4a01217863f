//! The small target of the book's chapter "Recipes": its memory is enough.

#![cfg(all(feature = "trace", target_pointer_width = "64"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod thread_cpu;

use kymo::platform::{LocalCas, Masked};
use kymo::ring::Reserve;
use kymo::vocabulary::{
    IrqEnter, IrqExit, SchedSwitch, SwitchReason, ThreadName, ThreadState, Tid,
};
use kymo::{Clock, Config, History, Text, Tracer};
use thread_cpu::{BLOCK, NoInterrupts, OneThread, leaked};

kymo::event! {
    /// The sensor has a value.
    #[id(21)]
    pub struct Sample { pub value: u32 }
}
static VOCABULARY: kymo::Vocabulary =
    kymo::vocabulary![SchedSwitch, IrqEnter, IrqExit, ThreadName, Sample];

type Small<R> = OneThread<R, 3>;

fn holds_what_the_book_says<R: Reserve + 'static>() {
    let memory = leaked(16 << 10, 1);
    let config = Config {
        packet_size: 256,
        packets: 8,
        names_packets: 4,
        clock: Clock::at(32_768),
        ..Config::DEFAULT
    };
    let session = Tracer::<Small<R>>::start(memory, &config, &VOCABULARY).unwrap();
    let history = History::new(memory, &VOCABULARY);
    BLOCK.set(memory.control(0));
    for tid in 1..=10 {
        let name = Text::new("a thread's name");
        Tracer::<Small<R>>::record(ThreadName {
            tid: Tid(tid),
            name,
        });
    }
    for switch in 0..1000 {
        Tracer::<Small<R>>::record(SchedSwitch {
            prev_tid: Tid(1 + switch % 10),
            next_tid: Tid(1 + (switch + 1) % 10),
            prev_state: ThreadState::Runnable,
            reason: SwitchReason::Expired,
            next_prio: 0,
        });
    }
    let kept = history.counts().retained;
    // Ten of them are the names.
    assert!((80..=110).contains(&kept), "{kept}");
    let mut text = String::new();
    history.dump(&mut text, 50).unwrap();
    let switches = text.lines().filter(|line| line.contains("sched_switch"));
    let named = switches.filter(|line| line.matches("(a thread's name)").count() == 2);
    assert_eq!(named.count(), 50, "{text}");
    session.stop().unwrap();
}

#[test]
fn sixteen_kilobytes_are_enough() {
    holds_what_the_book_says::<LocalCas>();
    holds_what_the_book_says::<Masked<NoInterrupts>>();
}
