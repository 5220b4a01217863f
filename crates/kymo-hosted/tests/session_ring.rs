//! Starting and stopping a session takes no thread's ring.

#![cfg(feature = "trace")]
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Barrier;
use std::thread;

use kymo::ChannelKind;
use kymo_capture::Summary;
use kymo_hosted::{Hosted, HostedSession, Options, THREADS};

type Kymo = kymo::Tracer<Hosted>;
kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![THREADS; Beat];

const RINGS: u32 = 3;

fn start() -> HostedSession {
    let options = Options {
        max_threads: RINGS,
        packets: 4,
        ..Options::default()
    };
    kymo_hosted::start(&options, &VOCABULARY).unwrap()
}

fn save(session: &HostedSession) -> Summary {
    let directory = std::env::temp_dir().join(format!("kymo-session-{}", std::process::id()));
    let summary = session.save(&directory).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    summary
}

/// CPU, events and losses of each stream of names.
fn names(summary: &Summary) -> Vec<(u32, u64, u64)> {
    let channels = summary.channels.iter();
    let names = channels.filter(|channel| channel.kind == ChannelKind::Names);
    let counts = names.map(|channel| (channel.cpu, channel.events, channel.losses.dropped));
    counts.collect()
}

/// As many threads as rings record in each session, while the thread that starts and stops the
/// sessions records nothing.
#[test]
fn each_session_has_a_ring_for_each_thread() {
    let all_have_rings = Barrier::new(RINGS as usize);
    for _ in 0..3 {
        let session = start();
        thread::scope(|scope| {
            for seq in 0..RINGS {
                let all_have_rings = &all_have_rings;
                scope.spawn(move || {
                    let recorded = Kymo::record(Beat { seq });
                    all_have_rings.wait();
                    assert!(recorded, "thread {seq} has no ring");
                });
            }
        });
        let summary = save(&session);
        assert_eq!(summary.lost(), 0);
        // The session's end, in the stream that is no thread's.
        assert_eq!(names(&summary).last(), Some(&(RINGS, 1, 0)));
    }
    // Threads keep their rings from one session to the next: the start names them, though there is
    // no ring for that.
    let (ready, go) = (
        Barrier::new(RINGS as usize + 1),
        Barrier::new(RINGS as usize + 1),
    );
    thread::scope(|scope| {
        for _ in 0..RINGS {
            scope.spawn(|| {
                assert!(kymo_hosted::ring_number().is_some());
                ready.wait();
                go.wait();
            });
        }
        ready.wait();
        let session = start();
        let summary = save(&session);
        go.wait();
        assert_eq!(summary.lost(), 0);
        // The program, the threads, and the session's end.
        assert_eq!(
            names(&summary).last(),
            Some(&(RINGS, 1 + u64::from(RINGS) + 1, 0))
        );
    });
    // This thread's ring, as it records.
    let session = start();
    assert!(Kymo::record(Beat { seq: 0 }));
    assert_eq!(names(&save(&session)).last(), Some(&(RINGS, 0, 0)));
}
