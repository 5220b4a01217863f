//! The fields of a tracepoint are evaluated once when it records, and never when it is off or
//! tracing is compiled out.
//!
//! `cargo xtask test unit` runs it with the feature `trace` and without.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;

use kymo::{COMPILED_IN, trace, trace_masked};
use kymo_hosted::{Hosted, Options};

kymo::event! { #[id(21)] pub struct Sum { pub a: u32, pub b: u32 } }

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Sum];
type Kymo = kymo::Tracer<Hosted>;

#[test]
fn fields_are_evaluated_only_when_they_are_recorded() {
    assert_eq!(COMPILED_IN, cfg!(feature = "trace"));
    let evaluations = Cell::new(0);
    let evaluate = || {
        evaluations.set(evaluations.get() + 1);
        evaluations.get()
    };
    let call = || {
        trace!(Sum {
            a: evaluate(),
            b: evaluate()
        });
        // SAFETY: a thread's ring is its own.
        unsafe {
            trace_masked!(Sum {
                a: evaluate(),
                b: evaluate()
            })
        };
    };

    call();
    assert_eq!(evaluations.get(), 0, "no session");
    let session = kymo_hosted::start(
        &Options {
            packets: 4,
            ..Options::default()
        },
        &VOCABULARY,
    )
    .unwrap();
    call();
    let once = if COMPILED_IN { 4 } else { 0 };
    assert_eq!(evaluations.get(), once, "two calls, two fields each");
    session.stop().unwrap();
    call();
    assert_eq!(evaluations.get(), once, "stopped");

    let directory = std::env::temp_dir().join(format!("kymo-evaluation-{}", std::process::id()));
    let events = session.save(&directory).unwrap().events();
    assert_eq!(std::fs::remove_dir_all(directory).is_ok(), COMPILED_IN);
    // The session's end is an event too.
    let end = u64::from(COMPILED_IN);
    assert_eq!(events, once as u64 / 2 + end);
}
