//! Timelines of LTTng's Linux events, and of streams without a CPU.

use std::path::PathBuf;

use crate::decoded::{Balance, Packets};
use kymo_export::{Format, export};

/// Metadata of little-endian events, packed by bytes: id, time and fields.
const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := u8;
typealias integer { size = 32; align = 8; signed = false; } := u32;
typealias integer { size = 32; align = 8; signed = true; } := i32;
trace { major = 1; minor = 8; byte_order = le; };
env { tracer_name = "lttng-modules"; };
clock { name = c; freq = 1000000000; offset_s = 0; offset = 0; };
typealias integer { size = 32; align = 8; map = clock.c.value; } := time;
stream {
  packet.context := struct { u32 cpu_id; };
  event.header := struct { u8 id; time timestamp; };
  event.context := struct { i32 _vtid; };
};
event { id = 1; name = "sched_switch"; fields := struct { string _prev_comm; i32 _prev_tid; i32 _prev_state; string _next_comm; i32 _next_tid; }; };
event { id = 2; name = "sched_waking"; fields := struct { string _comm; i32 _tid; }; };
event { id = 3; name = "sched_wakeup"; fields := struct { string _comm; i32 _tid; }; };
event { id = 4; name = "syscall_entry_openat"; fields := struct { string _filename; }; };
event { id = 5; name = "syscall_exit_openat"; fields := struct { i32 _ret; }; };
event { id = 6; name = "irq_handler_entry"; fields := struct { i32 _irq; string _name; }; };
event { id = 7; name = "irq_handler_exit"; fields := struct { i32 _irq; }; };
event { id = 8; name = "irq_softirq_entry"; fields := struct { u32 _vec; }; };
event { id = 9; name = "irq_softirq_exit"; fields := struct { u32 _vec; }; };
event { id = 10; name = "sched_process_fork"; fields := struct { i32 _child_tid; i32 _child_pid; string _child_comm; }; };
event { id = 11; name = "sched_process_exec"; fields := struct { string _filename; i32 _tid; i32 _old_tid; }; };
event { id = 12; name = "sched_process_exit"; fields := struct { i32 _tid; }; };
event { id = 13; name = "lttng_statedump_process_state"; fields := struct { i32 _tid; i32 _pid; string _name; }; };
event { id = 14; name = "net:dev_queue"; fields := struct { u32 _len; }; };
"#;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

enum Part {
    Int(i32),
    Text(&'static str),
}

use Part::{Int, Text};

fn packets(
    name: &str,
    metadata: &str,
    header: &[u8],
    events: &[(u8, u32, i32, &[Part])],
) -> (Packets, Folder) {
    let folder =
        Folder(std::env::temp_dir().join(format!("kymo-export-{}-{name}", std::process::id())));
    let _ = std::fs::remove_dir_all(&folder.0);
    let trace = folder.0.join("trace");
    std::fs::create_dir_all(&trace).unwrap();
    let mut stream = header.to_vec();
    for (id, time, vtid, parts) in events {
        stream.push(*id);
        stream.extend(time.to_le_bytes());
        stream.extend(vtid.to_le_bytes());
        for part in *parts {
            match part {
                Int(value) => stream.extend(value.to_le_bytes()),
                Text(text) => {
                    stream.extend(text.as_bytes());
                    stream.push(0);
                }
            }
        }
    }
    std::fs::write(trace.join("metadata"), metadata).unwrap();
    std::fs::write(trace.join("channel0_0"), stream).unwrap();
    let out = folder.0.join("out");
    export(
        &kymo_ctf::Trace::open(&trace).unwrap(),
        Format::Perfetto,
        &out,
        |_| (),
    )
    .unwrap();
    crate::decoded::keep(&out, name);
    let packets = Packets::read(&std::fs::read(out).unwrap());
    Balance::check(&packets);
    (packets, folder)
}

#[test]
fn linux_events_are_on_the_same_tracks() {
    let (packets, _folder) = packets(
        "linux",
        METADATA,
        &0u32.to_le_bytes(),
        &[
            (13, 1, 7, &[Int(70), Int(70), Text("sh")]),
            // Before the first switch, the context names the thread.
            (4, 5, 70, &[Text("/etc/passwd")]),
            (5, 9, 70, &[Int(3)]),
            (
                1,
                10,
                70,
                &[Text("swapper/0"), Int(0), Int(0), Text("sh"), Int(70)],
            ),
            (10, 20, 70, &[Int(71), Int(71), Text("sh")]),
            (2, 21, 70, &[Text("sh"), Int(71)]),
            (3, 22, 70, &[Text("sh"), Int(71)]),
            (6, 30, 70, &[Int(5), Text("eth0")]),
            (7, 31, 70, &[Int(5)]),
            (8, 32, 70, &[Int(3)]),
            (14, 33, 70, &[Int(1500)]),
            (9, 34, 70, &[Int(3)]),
            (
                1,
                40,
                70,
                &[Text("sh"), Int(70), Int(1), Text("sh"), Int(71)],
            ),
            (11, 50, 71, &[Text("/bin/ls"), Int(71), Int(71)]),
            (12, 60, 71, &[Int(71)]),
            (
                1,
                70,
                71,
                &[Text("ls"), Int(71), Int(0x80), Text("swapper/0"), Int(0)],
            ),
        ],
    );
    let text = packets.to_text();
    let slices = packets.slices();
    let has = |name: &str, from: u64, to: u64| {
        slices
            .iter()
            .any(|slice| *slice == (name.to_owned(), from, to))
    };
    for (name, from, to) in [
        ("openat", 5, 9),
        ("running: CPU 0", 10, 40),
        ("runnable", 21, 40),
        ("eth0", 30, 31),
        ("softirq NET_RX", 32, 34),
        ("blocked", 40, 70),
        ("running: CPU 0", 40, 70),
        ("swapper/0", 70, 70),
    ] {
        assert!(has(name, from, to), "{name} {from} {to}: {text}");
    }
    for line in [
        "process 70 \"sh\"",
        "thread 70 of 70 \"sh\"",
        "process 71 \"ls\"",
        "thread 71 of 71 \"ls\"",
        "syscall \"openat\" filename=\"/etc/passwd\"",
        "end ret=3",
        "point event \"net:dev_queue\" len=1500",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    // `sched_waking` has the arrow; the wake-up of a runnable thread is only a point.
    assert_eq!(
        (packets.flows(), text.matches("\"wakes sh\"").count()),
        (1, 2),
        "{text}"
    );
}

#[test]
fn events_without_a_cpu_are_points_of_their_thread() {
    let metadata = METADATA.replace("u32 cpu_id;", "u32 other;");
    let (packets, _folder) = packets(
        "user",
        &metadata,
        &0u32.to_le_bytes(),
        &[(14, 3, 70, &[Int(1)]), (14, 3, 71, &[Int(2)])],
    );
    let text = packets.to_text();
    assert!(
        text.contains("\"thread 70\"") && text.contains("\"thread 71\""),
        "{text}"
    );
    assert_eq!(text.matches("     3 track").count(), 2, "{text}");
    assert!(packets.slices().is_empty());
}

#[test]
fn damage_is_drawn() {
    let (packets, _folder) = packets(
        "damage",
        METADATA,
        &0u32.to_le_bytes(),
        &[
            (1, 10, 7, &[Text("a"), Int(1), Int(0), Text("b"), Int(2)]),
            (99, 11, 7, &[]),
        ],
    );
    let text = packets.to_text();
    assert!(
        text.contains("lost damage")
            && text.contains("error=\"")
            && text.contains("channel0_0 damage"),
        "{text}"
    );
}

/// Chrome's viewer holds microseconds in floats. Those of a clock that counts from 1970 would lose
/// up to 125 ns, so they are relative to the trace's beginning.
#[test]
fn times_of_1970_are_exact_in_chromes_floats() {
    // The last trace that is drawn by its clock, the first that is not, and one of 2023.
    let exact = 1_u64 << 52;
    for (begin, base) in [
        (exact, None),
        (exact + 1, Some(exact + 1)),
        (1_700_000_000_000_000_000, Some(1_700_000_000_000_000_000)),
    ] {
        let folder = std::env::temp_dir().join(format!("kymo-1970-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let folder = Folder(folder);
        std::fs::create_dir_all(&folder.0).unwrap();
        let mut stream = 0_u32.to_le_bytes().to_vec();
        for time in (0..50_u32).map(|number| 137 * number) {
            stream.push(14);
            stream.extend([time, 70, 1500].map(u32::to_le_bytes).concat());
        }
        let offset = format!("offset_s = 0; offset = {begin};");
        let metadata = METADATA.replace("offset_s = 0; offset = 0;", &offset);
        std::fs::write(folder.0.join("metadata"), metadata).unwrap();
        std::fs::write(folder.0.join("channel0_0"), stream).unwrap();
        let out = folder.0.join("out.json");
        let trace = kymo_ctf::Trace::open(&folder.0).unwrap();
        export(&trace, Format::Chrome, &out, |_| ()).unwrap();
        let json = std::fs::read(&out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let said = json["otherData"]["begin_ns"].as_str();
        assert_eq!(said, base.map(|base| base.to_string()).as_deref());
        let events = json["traceEvents"].as_array().unwrap().iter();
        let points = events.filter(|event| event["ph"] == "i");
        let times: Vec<u64> = points
            .map(|event| (event["ts"].as_f64().unwrap() * 1000.0).round() as u64)
            .map(|nanos| nanos + base.unwrap_or(0) - begin)
            .collect();
        let wanted: Vec<u64> = (0..50).map(|number| 137 * number).collect();
        assert_eq!(times, wanted, "{begin}");
    }
}
