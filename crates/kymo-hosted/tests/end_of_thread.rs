//! What a thread records while it ends, and who has its ring then.

#![cfg(feature = "trace")]
#![allow(missing_docs, clippy::unwrap_used)]

use std::thread;

use kymo::ChannelKind;
use kymo_hosted::{Hosted, Options};

type Kymo = kymo::Tracer<Hosted>;
kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Beat];

/// Records its number when the thread that has it ends.
struct AtTheEnd(u32);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        Kymo::record(Beat { seq: self.0 });
    }
}

thread_local! {
    static FIRST: AtTheEnd = const { AtTheEnd(100) };
    static LAST: AtTheEnd = const { AtTheEnd(200) };
}

/// A thread gives its ring back when it ends. What its destructors record behind that is counted as
/// lost: the ring may be another thread's by then.
#[test]
fn a_thread_that_ends_leaves_its_ring_to_the_next_one() {
    let options = Options {
        max_threads: 1,
        packets: 4,
        ..Options::default()
    };
    let session = kymo_hosted::start(&options, &VOCABULARY).unwrap();
    for seq in 0..3 {
        thread::spawn(move || {
            // One of the two is destroyed before the ring is given back, and one behind that,
            // whichever order the system has.
            FIRST.with(|_| ());
            assert!(Kymo::record(Beat { seq }), "thread {seq} has no ring");
            LAST.with(|_| ());
        })
        .join()
        .unwrap();
    }
    let directory = std::env::temp_dir().join(format!("kymo-end-{}", std::process::id()));
    let summary = session.save(&directory).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let events: Vec<_> = summary
        .channels
        .iter()
        .filter(|channel| channel.kind == ChannelKind::Events)
        .map(|channel| (channel.cpu, channel.events, channel.losses.dropped))
        .collect();
    assert_eq!(events, [(0, 6, 0), (1, 0, 3)]);
}
