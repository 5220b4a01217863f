//! The threads of a program have their numbers and names in its trace.

#![cfg(feature = "trace")]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use kymo::Overflow;
use kymo_ctf::{ItemRef, Trace};
use kymo_hosted::{Hosted, Options, THREADS};
use kymo_machine::Machine;

type Kymo = kymo::Tracer<Hosted>;
kymo::event! { #[id(21)] pub struct Beat { pub seq: u32 } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![THREADS; Beat];

/// Who recorded each beat of the trace: the name and the process of the thread, by `seq`; and the
/// numbers of all threads that recorded one.
fn beats(directory: &Path) -> (BTreeMap<u64, (String, String)>, Vec<u64>) {
    let trace = Trace::open(directory).unwrap();
    let map = trace.map();
    let (mut reader, mut machine) = (map.read(), Machine::new());
    let (mut beats, mut numbers) = (BTreeMap::new(), Vec::new());
    while let Some(item) = reader.next() {
        machine.add(&item);
        let ItemRef::Event(event) = &item else {
            continue;
        };
        if &*event.class().name != "beat" {
            continue;
        }
        let Some(id) = machine.running(event.cpu().unwrap()) else {
            continue;
        };
        let thread = machine.thread(id).unwrap();
        assert_eq!(machine.context(event), (Some(thread.tid), thread.pid));
        let process = machine.process(thread.pid.unwrap()).unwrap();
        let seq = event.fields().get("seq").unwrap().as_u64();
        let name = thread.name.as_deref().unwrap().to_owned();
        beats.insert(seq.unwrap(), (name, process.to_string()));
        numbers.push(thread.tid);
    }
    numbers.sort_unstable();
    numbers.dedup();
    (beats, numbers)
}

/// A thread names itself at its first record; a ring that another thread takes over is that one's
/// from then on; a later session names the threads that have kept their rings; a loss hides no
/// thread's ring.
#[test]
fn events_are_their_threads() {
    let options = Options {
        max_threads: 3,
        packets: 4,
        overflow: Overflow::Overwrite,
        ..Options::default()
    };
    let directory = |name: &str| {
        let of = format!("kymo-threads-{name}-{}", std::process::id());
        std::env::temp_dir().join(of)
    };
    let session = kymo_hosted::start(&options, &VOCABULARY).unwrap();
    let named = |name: &str, work: fn()| {
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(work).unwrap().join().unwrap();
    };
    // One after another, so that the same ring is both.
    named("baker", || _ = Kymo::record(Beat { seq: 1 }));
    named("a miller with a long name", || {
        (2..5_000).for_each(|seq| _ = Kymo::record(Beat { seq }));
    });
    let first = directory("first");
    let summary = session.save(&first).unwrap();
    assert!(summary.lost() > 0, "the ring is to be overwritten");
    let (beats_of, numbers) = beats(&first);
    std::fs::remove_dir_all(first).unwrap();
    let program = std::env::current_exe().unwrap();
    let program = program.file_name().unwrap().to_str().unwrap();
    let process = &program[..program.len().min(kymo::vocabulary::NAME_BYTES - 1)];
    let is = |seq: u64, name: &str, beats: &BTreeMap<u64, (String, String)>| {
        let (thread, of) = &beats[&seq];
        assert_eq!(thread, name, "{seq}");
        assert!(
            process.starts_with(&**of) && !of.is_empty(),
            "{process}: {of}"
        );
    };
    is(4_999, "a miller with a long name", &beats_of);
    assert_eq!(numbers.len(), 1, "the baker's beat is overwritten");

    let (ready, go) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        let smith = thread::Builder::new().name("smith".to_owned());
        let smith = smith.spawn_scoped(scope, || {
            // It has its ring before the session that sees its beat.
            assert!(kymo_hosted::ring_number().is_some());
            ready.wait();
            go.wait();
            Kymo::record(Beat { seq: 1 });
        });
        ready.wait();
        let session = kymo_hosted::start(&options, &VOCABULARY).unwrap();
        go.wait();
        smith.unwrap().join().unwrap();
        named("baker", || _ = Kymo::record(Beat { seq: 2 }));
        let second = directory("second");
        assert_eq!(session.save(&second).unwrap().lost(), 0);
        let (beats_of, numbers) = beats(&second);
        std::fs::remove_dir_all(second).unwrap();
        is(1, "smith", &beats_of);
        is(2, "baker", &beats_of);
        assert_eq!(numbers.len(), 2);
        assert!(numbers.iter().all(|tid| *tid > 0), "{numbers:?}");
    });
}
