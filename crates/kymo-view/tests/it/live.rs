//! A trace that is shown while it is recorded, by requests over TCP.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use kymo::vocabulary::{SwitchReason, ThreadState};
use kymo_ctf::Trace;
use kymo_index::{Key, Options};
use kymo_made::{Made, US};
use kymo_profile::{Chains, LoadedFile, Profile, Unwind};
use kymo_view::{FindCode, Server, Symbols, View};
use serde_json::Value;

use crate::flame::sample;
use crate::{Site, folder, status};

/// The answer about the whole trace; `None` before there is one.
fn shown(site: &Site) -> Option<Value> {
    let (head, body) = site.get("api/trace");
    match status(&head) {
        503 => None,
        200 => Some(serde_json::from_slice(&body).unwrap()),
        other => panic!("{other}"),
    }
}

/// The next answer for which this holds.
fn until(site: &Site, holds: impl Fn(&Value) -> bool) -> Value {
    loop {
        match shown(site).filter(&holds) {
            Some(shown) => return shown,
            None => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn turn(made: &mut Made, number: u64) {
    let (prev, next) = if number.is_multiple_of(2) {
        (5, 6)
    } else {
        (6, 5)
    };
    let how = (prev, ThreadState::Runnable, SwitchReason::Expired);
    made.switch(0, number * US, how, (next, 0));
}

/// How many there are in a round.
const SAMPLES: u64 = 50;
/// Whether the code of the machine is found.
static HAS_CODE: AtomicBool = AtomicBool::new(true);

/// Knows no names.
#[derive(Debug)]
struct Code;

impl Symbols for Code {
    fn unwind(&self) -> Option<Box<Unwind<'_>>> {
        None
    }

    fn symbolize(&self, _: &Trace, chains: Chains) -> Result<(Profile, Vec<String>), String> {
        let profile = chains.symbolize(|_| None::<LoadedFile<'_, '_>>);
        Ok((profile, Vec::new()))
    }

    fn account(&self, _: &Profile) -> String {
        "Code has been found.".to_owned()
    }
}

#[test]
fn a_trace_is_shown_while_it_is_recorded_and_afterwards() {
    let mut made = Made::with_samples("view-live");
    let path = made.finish().to_owned();
    // Nothing was recorded so far, not even the metadata.
    let metadata = fs::read(path.join("metadata")).unwrap();
    fs::remove_file(path.join("metadata")).unwrap();
    let over: &AtomicBool = Box::leak(Box::default());
    let server: &Server = Box::leak(Box::new(Server::new(View::new("live"), 0).unwrap()));
    let site = Site::in_folder(server, folder(), made);
    let made = &mut Made::with_samples("view-live-events");
    let folder = site.folder.clone();
    let follows = {
        let (path, folder) = (path.clone(), folder.clone());
        thread::spawn(move || {
            let over = || over.load(Relaxed);
            let code: Arc<FindCode> = Arc::new(|trace: &Trace| {
                assert!(trace.metadata().trace().uuid.is_some());
                match HAS_CODE.load(Relaxed) {
                    true => Ok(Box::new(Code)),
                    false => Err("There is no such kernel.".to_owned()),
                }
            });
            server.view().follow(&path, &folder, &code, over)
        })
    };
    assert_eq!(shown(&site), None);
    // Half written.
    fs::write(path.join("metadata"), &metadata[..metadata.len() / 2]).unwrap();
    thread::sleep(Duration::from_millis(600));
    assert_eq!(shown(&site), None);
    fs::write(path.join("metadata"), &metadata).unwrap();
    let mut read = 0;
    for round in 0..4 {
        for number in 0..5_000 {
            turn(made, round * 5_000 + number);
        }
        for number in 0..SAMPLES {
            let at = (round * 5_000 + number) * US;
            made.event(0, at, sample(5, &[0x8000_0000 + number % 2, 0x8000_0100]));
        }
        let from = made.finish();
        for stream in ["events_0", "samples_0"] {
            fs::copy(from.join(stream), path.join(stream)).unwrap();
        }
        let wanted = (round + 1) * (5_000 + SAMPLES);
        let shown = until(&site, |shown| shown["events"].as_u64() >= Some(wanted));
        assert_eq!(shown["events"], wanted);
        assert_eq!(shown["is_recorded"], true);
        assert_eq!(shown["is_whole"], false);
        let span = shown["span_ns"].as_u64().unwrap();
        assert!(span > read);
        read = span;
        // What is in view is there, and its report.
        let number = shown["rows"].as_array().unwrap().len();
        let window = format!(
            "api/window?from=0&to={span}&columns=500&rows=0-{}",
            number - 1
        );
        let (head, window) = site.get(&window);
        assert_eq!(status(&head), 200);
        assert!(window.len() > 4 * (1 + number + 5 * 100));
        let (head, report) = site.get(&format!("api/report?from=0&to={span}"));
        assert_eq!(status(&head), 200);
        let report: Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["events"], wanted);
        // A condition holds for it too.
        let only = format!("api/events?from=0&to={span}&where=next_tid+%3D+5");
        let (_, only) = site.get(&only);
        let only: Value = serde_json::from_slice(&only).unwrap();
        assert_eq!(only["count"], (round + 1) * 5_000 / 2);
        assert_eq!(only["events"].as_array().unwrap().len(), 50);
        // And the samples so far, with the code that is known now.
        let flame = format!("api/flame?from=0&to={span}");
        let (head, tree) = site.get(&flame);
        assert_eq!(status(&head), 200);
        let tree: Value = serde_json::from_slice(&tree).unwrap();
        assert_eq!(tree["total"], (round + 1) * SAMPLES);
        assert_eq!(tree["account"][0], "Code has been found.");
        HAS_CODE.store(false, Relaxed);
        let (head, said) = site.get(&flame);
        assert_eq!(status(&head), 500);
        assert_eq!(
            String::from_utf8(said).unwrap(),
            "There is no such kernel.\n"
        );
        HAS_CODE.store(true, Relaxed);
    }
    over.store(true, Relaxed);
    follows.join().unwrap().unwrap();
    // What was shown stays until all has been read.
    assert_eq!(shown(&site).unwrap()["events"], 4 * (5_000 + SAMPLES));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    turn(made, 30_000);
    fs::copy(made.finish().join("events_0"), path.join("events_0")).unwrap();
    let trace = Trace::open(&path).unwrap();
    let map = trace.map();
    let index = Key::of(&trace, &map).unwrap().path_in(&folder);
    server.view().open(trace, map);
    assert_eq!(shown(&site).unwrap()["is_recorded"], true);
    server.view().read(&index, Options::default()).unwrap();
    let shown = shown(&site).unwrap();
    assert_eq!(shown["is_recorded"], false);
    assert_eq!(shown["is_whole"], true);
    assert_eq!(shown["events"], 4 * (5_000 + SAMPLES) + 1);
    assert_eq!(status(&site.get("api/flame?from=0&to=1000").0), 200);
}
