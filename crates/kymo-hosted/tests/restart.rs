//! A second session, while a thread is still inside a record of the first.

#![cfg(feature = "trace")]
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use kymo::Overflow;
use kymo_capture::ChannelSummary;
use kymo_hosted::{Hosted, Options};

type Kymo = kymo::Tracer<Hosted>;
kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Beat];

/// The thread's record is reserved and not written when the first session is stopped and the second
/// one is started. That one waits: written later, the record would spoil a packet of the second
/// session, and an overwriting ring would drop everything from there on.
#[test]
fn a_start_waits_for_a_thread_inside_a_record() {
    let options = Options {
        packets: 4,
        overflow: Overflow::Overwrite,
        ..Options::default()
    };
    let first = kymo_hosted::start(&options, &VOCABULARY).unwrap();
    let (inside, starts) = (Barrier::new(2), Barrier::new(2));
    let written = AtomicBool::new(false);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            Kymo::record_in_place::<Beat>(1, |out| {
                inside.wait();
                starts.wait();
                thread::sleep(Duration::from_millis(300));
                out.push(7);
                written.store(true, SeqCst);
            });
            starts.wait();
            (0..10_000).for_each(|seq| _ = Kymo::record(Beat { seq }));
        });
        inside.wait();
        first.stop().unwrap();
        starts.wait();
        let second = kymo_hosted::start(&options, &VOCABULARY);
        let waited = written.load(SeqCst);
        starts.wait();
        let second = second.unwrap();
        thread.join().unwrap();
        assert!(waited, "the second session began before");
        second.stop().unwrap();
        let directory = std::env::temp_dir().join(format!("kymo-restart-{}", std::process::id()));
        let summary = second.save(&directory).unwrap();
        std::fs::remove_dir_all(directory).unwrap();
        let dropped = |sum, channel: &ChannelSummary| sum + channel.losses.dropped;
        assert_eq!(summary.channels.iter().fold(0, dropped), 0);
        assert!(summary.events() > 500, "{} events", summary.events());
    });
}
