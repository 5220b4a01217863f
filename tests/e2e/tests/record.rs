//! `kernels/hello` recorded: all its events are in the trace or counted as lost, by its own ledger
//! and by its markers' sequence numbers, and babeltrace2 agrees.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;

use kymo_ctf::{Item, Trace};
use kymo_e2e::demo::ARCHES;
use kymo_e2e::{babeltrace, hello, ledger, patience, record, recording, scratch};

/// The events of one hart in the trace.
#[derive(Default, Debug)]
struct Seen {
    events: u64,
    markers: u64,
    names: u64,
    ends: u64,
    lost: u64,
    /// By thread: number of markers, the last one's sequence number, and the count of missing
    /// numbers up to the last.
    threads: BTreeMap<u64, (u64, u64, u64)>,
}

fn seen(trace: &Path, harts: usize) -> Vec<Seen> {
    let mut all: Vec<Seen> = (0..harts).map(|_| Seen::default()).collect();
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                let hart = &mut all[event.cpu().unwrap() as usize];
                let field = |name: &str| event.fields.get(name).unwrap().as_u64().unwrap();
                if event.name() == "thread_name" {
                    hart.names += 1;
                    continue;
                }
                // The hart that powers off stops the session.
                if event.name() == "kymo_session_end" {
                    hart.ends += 1;
                    continue;
                }
                hart.events += 1;
                if event.name() == "marker" {
                    hart.markers += 1;
                    let (seen, last, missing) = hart.threads.entry(field("tid")).or_default();
                    let seq = field("seq");
                    assert!(seq > *last, "marker {seq} comes after {last}");
                    *missing += seq - *last - 1;
                    (*seen, *last) = (*seen + 1, seq);
                }
            }
            Item::Loss(loss)
                if loss.stream.starts_with("events") && loss.kind == kymo_ctf::LossKind::Events =>
            {
                all[loss.cpu.unwrap() as usize].lost += loss.count;
            }
            Item::Loss(_) => {}
            other => panic!("{other:?}"),
        }
    }
    all
}

/// Records, and compares the trace with the ledger. Returns the events in the trace and the events
/// lost.
fn account(name: &str, append: &str, more: &[&str]) -> (u64, u64) {
    let out = scratch(name).join("trace");
    let mut options = vec!["--keep-ram"];
    options.extend(more);
    record(&out, append, &options);
    let ledger = ledger::read(&out.join(".ram"), &hello(), 4);
    fs::remove_file(out.join(".ram")).unwrap();
    let seen = seen(&out, 4);
    for (hart, (ledger, seen)) in ledger.iter().zip(&seen).enumerate() {
        assert_eq!(
            seen.events + seen.lost,
            ledger.events(),
            "hart {hart}: {seen:?} {ledger:?}"
        );
        assert_eq!(seen.names, ledger.thread_name, "hart {hart}");
        // By the markers' own numbers: the missing ones, plus the lost events of other names, equal
        // the reported losses.
        let mut missing = 0;
        for (thread, &last) in ledger.last.iter().enumerate() {
            let tid = 2 * hart as u64 + thread as u64 + 1;
            let (count, highest, gaps) = seen.threads.get(&tid).copied().unwrap_or_default();
            assert_eq!(count + gaps, highest);
            missing += gaps + (last - highest);
        }
        assert_eq!(seen.markers + missing, ledger.marker, "hart {hart}");
        let others_lost = ledger.events() - ledger.marker - (seen.events - seen.markers);
        assert_eq!(
            missing + others_lost,
            seen.lost,
            "hart {hart}: the gaps in the numbers are the losses reported"
        );
    }
    let (events, losses) = babeltrace::compare(&out);
    let (written, lost) = seen.iter().fold((0, 0), |sum, hart| {
        (sum.0 + hart.events + hart.names, sum.1 + hart.lost)
    });
    let ends: u64 = seen.iter().map(|hart| hart.ends).sum();
    assert_eq!((events, ends), (written + 1, 1));
    assert_eq!(
        losses.values().map(|lost| lost.0).sum::<u64>(),
        lost,
        "babeltrace2 tells the same losses"
    );
    println!(
        "{name}: {written} events in the trace, {lost} lost, {} written",
        written + lost
    );
    (written, lost)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_million_events_live_and_none_lost() {
    // The rings hold all events, so nothing is lost even on a slow host.
    for append in ["kymo=rolling", "kymo=discard,reader=host"] {
        let (events, lost) = account("million", append, &[]);
        assert!(
            events >= 1_200_000 && lost == 0,
            "{append}: {events} events, {lost} lost"
        );
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn discard_without_a_consumer_keeps_the_oldest_and_counts_the_rest() {
    let (events, lost) = account("discard", "kymo=discard events=300000 packets=16", &[]);
    assert!(events > 10_000 && lost > 100_000, "{events} {lost}");
}

/// What four rings of four packets of 512 bytes hold at least, however late the host reads them.
const RINGS: u64 = 300;

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn discard_with_a_slow_host_loses_and_counts() {
    let (events, lost) = account(
        "slow-host",
        "kymo=discard,reader=host work=markers events=2000000 packets=4 packet_size=512",
        &[],
    );
    assert!(events > RINGS && lost > 1000, "{events} {lost}");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn overwrite_keeps_the_newest_and_counts_what_was_overwritten() {
    let (events, lost) = account(
        "overwrite",
        "kymo=rolling work=markers events=2000000 packets=4 packet_size=512",
        &[],
    );
    assert!(events > RINGS && lost > 1000, "{events} {lost}");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn overwrite_read_live_accounts_for_every_marker() {
    account(
        "overwrite-live",
        "kymo=rolling work=markers events=1000000 packets=64",
        &[],
    );
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_recording_under_icount_is_the_same_every_time() {
    let folder = scratch("deterministic");
    type Files = BTreeMap<String, Vec<u8>>;
    let mut first: Option<(Vec<u8>, Files)> = None;
    for turn in 0..3 {
        let out = folder.join(format!("run{turn}"));
        // The rings hold all events, so a live reader loses none.
        let output = record(
            &out,
            "kymo=discard events=40000 packets=256 offset_s=1700000000",
            &["--deterministic", "--keep-ram"],
        );
        // `kymo flame` finds the kernel by it.
        let note = fs::read_to_string(out.join(".kymo-images")).unwrap();
        assert!(
            note.contains(r#""name":"kernel""#) && note.contains("build_id"),
            "{note}"
        );
        // Compare the trace recovered from the memory, as a live reader splits packets at other
        // places.
        let recovered = folder.join(format!("recovered{turn}"));
        let ram = out.join(".ram");
        kymo_e2e::run(
            &mut kymo_e2e::kymo([
                "recover".as_ref(),
                ram.as_os_str(),
                "--out".as_ref(),
                recovered.as_os_str(),
            ]),
            0,
        );
        fs::remove_file(ram).unwrap();
        let files: Files = fs::read_dir(&recovered)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    fs::read(entry.path()).unwrap(),
                )
            })
            .collect();
        assert!(files.len() == 9 && files.values().map(Vec::len).sum::<usize>() > 400_000);
        let (live, _) = babeltrace::compare(&out);
        let (dead, _) = babeltrace::compare(&recovered);
        assert_eq!(
            live, dead,
            "the live trace and the recovered one hold the same events"
        );
        assert!(live >= 40_000);
        match &first {
            None => first = Some((output.stdout, files)),
            Some((serial, first)) => {
                assert_eq!(*serial, output.stdout, "serial output of run {turn}");
                for (name, bytes) in first {
                    assert!(files[name] == *bytes, "{name} of run {turn} differs");
                }
            }
        }
    }
    let metadata = fs::read_to_string(folder.join("run0/metadata")).unwrap();
    assert!(
        metadata.contains("offset_s = 1700000000;"),
        "the clock's offset comes from the command line"
    );
}

/// The machine's console gets what is typed after its prompt, and the end of the input does not end
/// the machine. Without the option it gets nothing.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_kernel_reads_the_standard_input() {
    for arch in &ARCHES {
        for (name, is_given) in [("stdin-given", true), ("stdin-not-given", false)] {
            let out = scratch(&format!("{name}-{}", arch.name)).join("trace");
            let mut command = recording(&arch.kernel(), &out);
            command.args(["--timeout", if is_given { patience() } else { "5" }]);
            command.args(["--append", "workload=echo"]);
            command.args(is_given.then_some("--stdin"));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut running = command.spawn().unwrap();
            let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
            let prompt = lines.find(|line| line.as_ref().unwrap().ends_with("type a line"));
            assert!(prompt.is_some(), "{name}");
            let mut input = running.stdin.take().unwrap();
            input.write_all(b"hello, kernel\n").unwrap();
            drop(input);
            let read = lines.any(|line| line.unwrap().ends_with("demo: read hello, kernel"));
            let code = running.wait().unwrap().code();
            let expected = if is_given {
                (true, Some(0))
            } else {
                (false, Some(1))
            };
            assert_eq!((read, code), expected, "{name}");
        }
    }
}
