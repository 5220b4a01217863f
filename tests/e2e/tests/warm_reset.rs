//! A machine that is reset while it records: the kernel takes out the last session's trace before
//! it begins a new one.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use kymo_capture::locate;
use kymo_ctf::{Item, Trace};
use kymo_e2e::demo::ARCHES;
use kymo_e2e::{babeltrace, kymo, patience, run, scratch, wait_until};

/// Has QEMU's monitor execute a command.
fn execute(monitor: &mut BufReader<UnixStream>, command: &str) {
    let text = format!("{{\"execute\":\"{command}\"}}\n");
    monitor.get_mut().write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    while !line.contains("\"return\"") {
        line.clear();
        assert!(monitor.read_line(&mut line).unwrap() > 0, "{command}");
        assert!(!line.contains("\"error\""), "{command}: {line}");
    }
}

/// The events with the values of the kernel's own counters.
const COUNTERS: [&str; 3] = ["kymo_counter", "kymo_gauge", "kymo_histogram"];

/// Time, CPU, name and fields of each event, and the number of lost ones. Without the values of the
/// kernel's own counters: `kymo recover` takes them from the memory, and the kernel that has booted
/// anew has cleared them.
fn events(trace: &Path) -> (Vec<String>, u64) {
    let (mut events, mut lost) = (Vec::new(), 0);
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) if COUNTERS.contains(&event.name()) => {}
            Item::Event(event) => {
                let (name, cpu) = (event.name(), event.cpu());
                events.push(format!(
                    "{:?} {cpu:?} {name} {:?}",
                    event.time, event.fields
                ));
            }
            Item::Loss(loss) => lost += loss.count,
            other => panic!("{other:?}"),
        }
    }
    (events, lost)
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_last_sessions_trace_is_sent_after_a_reset() {
    for arch in &ARCHES {
        let folder = scratch(&format!("warm-reset-{}", arch.name));
        let at = |name: &str| folder.join(name).display().to_string();
        let mut qemu = arch.qemu(Some(Path::new(&at("ram"))));
        // It would end the machine.
        qemu.retain(|word| word != "-no-reboot");
        let mut record = kymo([
            "record",
            "--timeout",
            patience(),
            "--via",
            "syscall",
            "--out",
        ]);
        record
            .arg(at("trace"))
            .arg("--")
            .args(qemu)
            .args(["-smp", "2"])
            .args(["-qmp", &format!("unix:{},server=on,wait=off", at("qmp"))])
            .args(["-append", "kymo=start,send workload=all rounds=1000000"])
            .arg("-kernel")
            .arg(arch.kernel());
        record
            .stdout(fs::File::create(at("serial")).unwrap())
            .stderr(Stdio::piped());
        let record = record.spawn().unwrap();
        let ram = folder.join("ram");
        let found = || locate::region(&ram, &locate::segments(&ram, None)?);
        wait_until(|| found().is_ok());
        let recover = |image: &str, out: &str| {
            run(&mut kymo(["recover", &at(image), "--out", &at(out)]), 0);
            events(Path::new(&at(out)))
        };

        let mut monitor = BufReader::new(UnixStream::connect(at("qmp")).unwrap());
        execute(&mut monitor, "qmp_capabilities");
        let (before, lost) = (1..)
            .find_map(|turn| {
                sleep(Duration::from_millis(500));
                execute(&mut monitor, "stop");
                fs::copy(&ram, at("ram-before")).unwrap();
                let found = recover("ram-before", &format!("before-{turn}"));
                if found.0.len() > 1000 {
                    return Some(found);
                }
                assert!(turn < 60, "{} events", found.0.len());
                execute(&mut monitor, "cont");
                None
            })
            .unwrap();
        for command in ["system_reset", "cont"] {
            execute(&mut monitor, command);
        }
        let said = || fs::read_to_string(at("serial")).unwrap_or_default();
        wait_until(|| said().matches("demo: recording on 2 harts").count() == 2);
        assert!(
            said().contains("demo: the last session has left 5 channels"),
            "{}",
            said()
        );
        // The next session records, too.
        let next = found().unwrap().header;
        execute(&mut monitor, "quit");
        let output = record.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");

        let (sent, lost_too) = events(Path::new(&at("trace")));
        assert!(
            sent == before,
            "{} events, not {}",
            sent.len(),
            before.len()
        );
        assert_eq!(lost_too, lost);
        assert_eq!(
            babeltrace::compare(Path::new(&at("trace"))).0,
            sent.len() as u64
        );
        let last = locate::region(
            Path::new(&at("ram-before")),
            &locate::segments(Path::new(&at("ram-before")), None).unwrap(),
        );
        assert!(next.session_id > last.unwrap().header.session_id);
        assert_ne!(recover("ram", "after").0, before);
    }
}
