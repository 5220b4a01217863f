//! Profiles in other tools' formats.
//!
//! The step `export` gives the files that these tests write to the tools themselves.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use inferno::collapse::Collapse as _;
use inferno::collapse::perf::{Folder, Options};
use kymo_export::ProfileFormat;
use kymo_profile::redox::{Builder, Functions, Importer, PerfScript, Problems};
use kymo_profile::{
    By, Frame, FrameId, FunctionId, ImageId, Mode, PeriodUnit, Profile, ProfileFunction,
    ProfileImage, Row, Sample, Stack, StackId, Thread, Totals, Unit,
};
use serde_json::Value;

/// Kernel and program, an inlined function, two threads and an idle CPU. Every second sample of the
/// first row is of the other CPU.
pub(crate) fn profile() -> Profile {
    let image = |name: &str, is_kernel| ProfileImage {
        name: Arc::from(name),
        is_kernel,
        build_id: if is_kernel {
            "0a0b".to_owned()
        } else {
            String::new()
        },
        has_file: true,
        bias: if is_kernel { 0x1000 } else { 0 },
        damage: None,
        coverage: Default::default(),
    };
    let function = |name: &str, image: u32, begin| ProfileFunction {
        name: Arc::from(name),
        linkage_name: Arc::from("_ZN1f"),
        image: Some(ImageId(image)),
        begin,
    };
    let frame = |function, address, is_inlined, line| Frame {
        function: FunctionId(function),
        file: Some(Arc::from("src/main.rs")),
        line,
        address,
        is_inlined,
        is_kernel: function < 3,
    };
    let stack = |parent: Option<u32>, frame| Stack {
        parent: parent.map(StackId),
        frame: FrameId(frame),
    };
    let row = |thread, cpu, stack, mode, weight| Row {
        thread,
        cpu: Some(cpu),
        stack,
        mode,
        weight,
        ticks: weight * 1000,
    };
    let thread = |tid, name: &str, pid| Thread {
        tid,
        pid,
        name: Some(Arc::from(name)),
        process: pid.map(|_| Arc::from("shell")),
        cpu: None,
        is_foreign: false,
    };
    Profile {
        images: vec![image("kernel", true), image("/bin/my shell", false)],
        functions: vec![
            function("kernel::trap", 0, Some(0x100)),
            function("kernel::inlined<[u8; 4]>", 0, None),
            function("kernel::idle \"x\"", 0, Some(0x300)),
            function("shell::main", 1, Some(0x40)),
            function("my shell+0x1f", 1, None),
        ],
        frames: vec![
            frame(0, 0x1110, false, Some(7)),
            frame(1, 0x1110, true, Some(9)),
            frame(2, 0x1300, false, None),
            frame(3, 0x44, false, Some(3)),
            frame(4, 0x1f, false, None),
        ],
        stacks: vec![
            stack(None, 3),
            stack(Some(0), 0),
            stack(Some(1), 1),
            stack(None, 2),
            stack(None, 4),
        ],
        threads: vec![
            thread(5, "my worker 3", Some(2)),
            Thread {
                cpu: Some(1),
                ..Thread::default()
            },
            thread(6, "net", None),
        ],
        rows: vec![
            row(Some(0), 0, Some(StackId(2)), Mode::Kernel, 2),
            row(Some(1), 1, Some(StackId(3)), Mode::Idle, 1),
            row(Some(2), 0, Some(StackId(1)), Mode::Kernel, 1),
            row(Some(0), 1, Some(StackId(4)), Mode::User, 1),
            row(None, 0, None, Mode::Kernel, 1),
        ],
        samples: [(1_000_000_005, 0), (1_000_001_005, 1), (1_000_002_000, 0)]
            .into_iter()
            .chain([(1_000_003_000, 2), (1_000_003_001, 3), (1_000_004_000, 4)])
            .map(|(time_ns, row)| Sample { time_ns, row })
            .collect(),
        totals: Totals {
            kept: 6,
            ..Totals::default()
        },
        unit: Unit::Samples,
        clock: Some(Arc::new(clock())),
        span_ns: Some((1_000_000_005, 1_000_004_000)),
        period: Some(1000),
        period_unit: PeriodUnit::Ticks,
    }
}

/// A clock of 1 GHz with Unix times.
fn clock() -> kymo_ctf::ClockClass {
    let metadata = b"/* CTF 1.8 */
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; absolute = true; };
        stream { event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } t; }; };
        event { name = e; fields := struct {}; };";
    let metadata = kymo_ctf::Metadata::from_bytes(metadata).unwrap();
    (*metadata.clocks()[0]).clone()
}

/// Writes the profile, also for the step `export`.
pub(crate) fn written(format: ProfileFormat, profile: &Profile, file: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    format.write(profile, "a \"trace\"", &mut bytes).unwrap();
    keep(file, &bytes);
    bytes
}

fn keep(file: &str, bytes: &[u8]) {
    if let Some(folder) = std::env::var_os("KYMO_PROFILES") {
        fs::write(PathBuf::from(folder).join(file), bytes).unwrap();
    }
}

/// What `inferno-collapse-perf` makes of a text.
fn collapsed(script: &[u8]) -> BTreeMap<String, u64> {
    let mut out = Vec::new();
    let mut folder = Folder::from(Options::default());
    folder.collapse(script, &mut out).unwrap();
    counts(&String::from_utf8(out).unwrap())
}

pub(crate) fn counts(folded: &str) -> BTreeMap<String, u64> {
    let lines = folded.lines().map(|line| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), count.parse().unwrap())
    });
    lines.collect()
}

/// Without the outermost names, which are threads in one of them.
fn without_threads(counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (stack, count) in counts {
        let (_, stack) = stack.split_once(';').unwrap();
        *sums.entry(stack.to_owned()).or_default() += count;
    }
    sums
}

#[test]
fn perf_script_is_what_perf_prints() {
    let text = written(ProfileFormat::PerfScript, &profile(), "perf.txt");
    let text = String::from_utf8(text).unwrap();
    let wanted = "my_worker_3 2/5 [000] 1.000000005: samples:
\t            1110 kernel::inlined<[u8; 4]>+0x0 (inlined)
\t            1110 kernel::trap+0x10 ([kernel])
\t              44 shell::main+0x4 (/bin/my_shell)

idle/1 0/0 [001] 1.000001005: samples:
\t            1300 kernel::idle \"x\"+0x0 ([kernel])

";
    assert!(text.starts_with(wanted), "{text}");
    assert!(
        text.ends_with("unknown 0/0 [000] 1.000004000: samples:\n\n"),
        "{text}"
    );
}

#[test]
fn inferno_folds_perf_script_as_the_profile_is_folded() {
    let mut profile = profile();
    // inferno leaves out samples without frames.
    profile.rows.pop();
    profile.samples.pop();
    let folded = profile.folded(By::Nothing);
    keep("folded.txt", profile.folded(By::Thread).as_bytes());
    let script = written(ProfileFormat::PerfScript, &profile, "stacks.txt");
    assert_eq!(without_threads(&collapsed(&script)), counts(&folded));
    assert!(
        collapsed(&script)
            .keys()
            .any(|stack| stack.starts_with("my_worker_3;"))
    );
    // Without single samples, the rows say how many there are.
    profile.samples.clear();
    let script = written(ProfileFormat::PerfScript, &profile, "rows.txt");
    assert_eq!(without_threads(&collapsed(&script)), counts(&folded));
    // Of time that was spent, the rows have the nanoseconds.
    profile.unit = Unit::Nanoseconds;
    let script = written(ProfileFormat::PerfScript, &profile, "waits.txt");
    assert_eq!(without_threads(&collapsed(&script)), counts(&folded));
}

/// An arrow in a name is no inlined function, an end of line no end, a blank name no name.
#[test]
fn names_cannot_break_perf_script() {
    let mut profile = profile();
    profile.functions[0].name = Arc::from("<fn() -> u8 as Trait>::call");
    profile.functions[2].name = Arc::from(" ");
    profile.functions[3].name = Arc::from("a\n\nb 1/1 1.0: x:\n\tc");
    profile.threads[0].name = Some(Arc::from("12 34\n56/7"));
    let script = written(ProfileFormat::PerfScript, &profile, "names.txt");
    let wanted = [
        ("12_34_56/7;[my_shell]", 0),
        ("12_34_56/7;my shell+0x1f", 1),
        (
            "12_34_56/7;a  b 1/1 1.0: x:  c;<fn() \u{2192} u8 as Trait>::call;kernel::inlined<[u8: 4]>",
            2,
        ),
        ("idle/1;[[kernel]]", 1),
        (
            "net;a  b 1/1 1.0: x:  c;<fn() \u{2192} u8 as Trait>::call",
            1,
        ),
    ];
    let wanted = wanted.into_iter().filter(|(_, count)| *count > 0);
    let wanted: BTreeMap<String, u64> = wanted
        .map(|(stack, count)| (stack.to_owned(), count))
        .collect();
    assert_eq!(collapsed(&script), wanted);
}

/// Readers leave out a frame that begins with a bracket, as they take it for a process.
#[test]
fn a_name_in_brackets_is_a_frame_of_perf_script() {
    let mut profile = profile();
    profile.functions[3].name = Arc::from("(anonymous namespace)::work");
    profile.functions[0].name = Arc::from("(A, B)::trap");
    let script = written(ProfileFormat::PerfScript, &profile, "brackets.txt");
    let stacks = collapsed(&script);
    let wanted = "my_worker_3;::(anonymous namespace)::work;\u{ff08}A, B\u{ff09}::trap";
    let mut found = stacks.iter().filter(|(stack, _)| stack.starts_with(wanted));
    assert_eq!(found.next().map(|(_, count)| *count), Some(2), "{stacks:?}");
}

#[test]
fn speedscope_has_a_profile_for_each_thread() {
    let json: Value = serde_json::from_slice(&written(
        ProfileFormat::Speedscope,
        &profile(),
        "speedscope.json",
    ))
    .unwrap();
    let frames = json["shared"]["frames"].as_array().unwrap();
    assert_eq!(frames[1]["name"], "kernel::inlined<[u8; 4]>");
    assert_eq!(frames[1]["file"], "src/main.rs");
    assert_eq!(json["name"], "a \"trace\"");
    let profiles = json["profiles"].as_array().unwrap();
    let names: Vec<&str> = profiles
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "my worker 3 (5)",
            "idle (CPU 1)",
            "net (6)",
            "unknown thread"
        ]
    );
    let first = &profiles[0];
    assert_eq!(first["unit"], "nanoseconds");
    assert_eq!(
        first["samples"],
        serde_json::json!([[3, 0, 1], [3, 0, 1], [4]])
    );
    assert_eq!(first["weights"], serde_json::json!([1000, 1000, 1000]));
    assert_eq!(first["endValue"], 3000);
    assert_eq!(profiles[3]["samples"], serde_json::json!([[]]));

    let mut profile = profile();
    profile.clock = None;
    let json: Value = serde_json::from_slice(&written(
        ProfileFormat::Speedscope,
        &profile,
        "ticks.speedscope.json",
    ))
    .unwrap();
    assert_eq!(json["profiles"][0]["unit"], "none");
    assert_eq!(json["profiles"][0]["weights"], serde_json::json!([1, 1, 1]));
}

/// Firefox's weights end at the greatest number of 32 bits with a sign.
#[test]
fn weights_beyond_a_formats_range_are_its_greatest() {
    let most = u64::from(i32::MAX.cast_unsigned());
    for (weight, shown) in [
        (most - 1, most - 1),
        (most, most),
        (most + 1, most),
        (u64::MAX, most),
    ] {
        let mut profile = profile();
        profile.samples.clear();
        profile.unit = Unit::Bytes;
        profile.rows[0].weight = weight;
        let json = written(ProfileFormat::Firefox, &profile, "range.firefox.json");
        let json: Value = serde_json::from_slice(&json).unwrap();
        let threads = json["threads"].as_array().unwrap().iter();
        let weights = threads.map(|thread| thread["samples"]["weight"][0].as_u64().unwrap());
        assert_eq!(weights.max(), Some(shown), "{weight}");
    }
}

/// A period of cycles is not a time.
#[test]
fn samples_of_an_event_weigh_what_they_count() {
    let mut profile = profile();
    profile.period_unit = PeriodUnit::Events(Arc::from("cycles:u"));
    let json = |bytes: Vec<u8>| -> Value { serde_json::from_slice(&bytes).unwrap() };
    let speedscope = json(written(
        ProfileFormat::Speedscope,
        &profile,
        "cycles.speedscope.json",
    ));
    assert_eq!(speedscope["name"], "a \"trace\" (weights are cycles:u)");
    assert_eq!(speedscope["profiles"][0]["unit"], "none");
    assert_eq!(
        speedscope["profiles"][0]["weights"],
        serde_json::json!([1000, 1000, 1000])
    );
    let firefox = json(written(
        ProfileFormat::Firefox,
        &profile,
        "cycles.firefox.json",
    ));
    assert_eq!(
        firefox["meta"]["product"],
        "a \"trace\" (weights are cycles:u)"
    );
    let threads = firefox["threads"].as_array().unwrap();
    for thread in threads {
        let samples = &thread["samples"];
        assert!(
            samples["weight"]
                .as_array()
                .unwrap()
                .iter()
                .all(|of| *of == 1000)
        );
        let deltas = samples["threadCPUDelta"].as_array().unwrap();
        assert!(deltas.iter().all(|of| *of == 0), "{deltas:?}");
    }
    let bytes = written(ProfileFormat::Pprof, &profile, "cycles.pb.gz");
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(&*bytes)
        .read_to_end(&mut message)
        .unwrap();
    let message = fields(&message);
    let all = |number| message.iter().filter(move |field| field.0 == number);
    let strings: Vec<String> = all(6)
        .map(|field| String::from_utf8(field.2.clone()).unwrap())
        .collect();
    let types: Vec<[&str; 2]> = all(1)
        .map(|field| {
            let fields = fields(&field.2);
            [0, 1].map(|place| strings[fields[place].1 as usize].as_str())
        })
        .collect();
    assert_eq!(types, [["samples", "count"], ["cycles:u", "count"]]);
    let values: Vec<Vec<u64>> = all(2)
        .map(|field| {
            let fields = fields(&field.2);
            let values = fields.iter().filter(|field| field.0 == 2);
            values.map(|field| field.1).collect()
        })
        .collect();
    assert_eq!(values[0], [2, 2000]);
}

/// The fields of a message: the number, and a number or bytes.
pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let mut inner = Vec::new();
        if key & 7 == 2 {
            let (head, rest) = bytes.split_at(value as usize);
            (inner, bytes) = (head.to_vec(), rest);
        } else {
            assert_eq!(key & 7, 0);
        }
        fields.push((key >> 3, value, inner));
    }
    fields
}

#[test]
fn pprof_has_a_sample_for_each_row() {
    let bytes = written(ProfileFormat::Pprof, &profile(), "pprof.pb.gz");
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(&*bytes)
        .read_to_end(&mut message)
        .unwrap();
    let message = fields(&message);
    let of = |number| message.iter().filter(move |(field, ..)| *field == number);
    let strings: Vec<String> = of(6)
        .map(|(_, _, text)| String::from_utf8(text.clone()).unwrap())
        .collect();
    assert_eq!(strings[0], "");
    let samples: Vec<Vec<(u64, u64, Vec<u8>)>> =
        of(2).map(|(_, _, sample)| fields(sample)).collect();
    let values = |sample: &[(u64, u64, Vec<u8>)], number| -> Vec<u64> {
        let found = sample.iter().filter(|(field, ..)| *field == number);
        found.map(|(_, value, _)| *value).collect()
    };
    assert_eq!(samples.len(), 5);
    let counts: Vec<Vec<u64>> = samples.iter().map(|sample| values(sample, 2)).collect();
    assert_eq!(
        counts,
        [[2, 2000], [1, 1000], [1, 1000], [1, 1000], [1, 1000]]
    );
    // An inlined function and its caller are one location.
    assert_eq!(values(&samples[0], 1).len(), 2);
    assert!(values(&samples[4], 1).is_empty());
    assert_eq!((of(3).count(), of(4).count(), of(5).count()), (2, 5, 5));
    let location = fields(&of(4).next().unwrap().2);
    let lines: Vec<Vec<u64>> = location
        .iter()
        .filter(|(field, ..)| *field == 4)
        .map(|(_, _, line)| fields(line).iter().map(|(_, value, _)| *value).collect())
        .collect();
    assert_eq!(lines, [[2, 9], [1, 7]]);
    for text in [
        "kernel::inlined<[u8; 4]>",
        "my worker 3 (5)",
        "shell (2)",
        "samples",
        "cpu",
        "0a0b",
    ] {
        assert!(strings.iter().any(|string| string == text), "{text}");
    }
}

#[test]
fn firefox_has_the_samples_of_each_thread_at_their_times() {
    let json: Value =
        serde_json::from_slice(&written(ProfileFormat::Firefox, &profile(), "firefox.json"))
            .unwrap();
    assert_eq!(json["meta"]["product"], "a \"trace\"");
    assert_eq!(json["meta"]["startTime"], 1000.000005);
    assert_eq!(json["meta"]["interval"], 0.001);
    let threads = json["threads"].as_array().unwrap();
    let of = |name: &str| {
        threads
            .iter()
            .find(|thread| thread["name"] == name)
            .unwrap()
    };
    let samples = &of("my worker 3 (5)")["samples"];
    let deltas: Vec<f64> = samples["timeDeltas"]
        .as_array()
        .unwrap()
        .iter()
        .map(|delta| delta.as_f64().unwrap())
        .collect();
    assert_eq!(deltas, [0.0, 0.001995, 0.001001]);
    assert_eq!(samples["length"], 3);
    assert_eq!(
        of("unknown thread")["samples"]["stack"],
        serde_json::json!([null])
    );
    let categories = json["meta"]["categories"].as_array().unwrap();
    assert!(categories.iter().any(|category| category["name"] == "Idle"));
}

/// Of waits, a row has the nanoseconds of all of them, and none of them is too short to be shown.
#[test]
fn waits_have_their_time_once() {
    let mut profile = profile();
    profile.unit = Unit::Nanoseconds;
    profile.rows[0].weight = 2_000;
    let json = |format, file| -> Value {
        serde_json::from_slice(&written(format, &profile, file)).unwrap()
    };
    let speedscope = json(ProfileFormat::Speedscope, "waits.speedscope.json");
    assert_eq!(speedscope["profiles"][0]["unit"], "nanoseconds");
    assert_eq!(
        speedscope["profiles"][0]["weights"],
        serde_json::json!([2_000, 1])
    );
    let firefox = json(ProfileFormat::Firefox, "waits.firefox.json");
    assert_eq!(
        firefox["meta"]["product"],
        "a \"trace\" (weights are microseconds)"
    );
    let mut threads = firefox["threads"].as_array().unwrap().iter();
    let thread = threads
        .find(|thread| thread["name"] == "my worker 3 (5)")
        .unwrap();
    assert_eq!(thread["samples"]["weight"], serde_json::json!([2, 1]));
}

/// The samples of a Redox kernel are the same by every way to inferno.
#[test]
fn redox_samples_fold_as_the_script_of_their_own_tool() {
    const NM: &str = "ffffffff80001000 0000000000000020 T kernel::main
ffffffff80001020 0000000000000010 t kernel::work";
    const TEXT: &[u8] = b"dd 1 3b9aca05 ffffffff80001028 ffffffff80001020
[kmain] 0 3b9aca06 ffffffff80001008
[kmain] 0 3b9aca07 ffffffff80000000
dd 1 3b9aca08 ffffffff80001029 ffffffff80001020";
    let functions = Functions::from_nm(NM.as_bytes(), &mut Problems::default()).unwrap();
    let mut importer = Importer::new(functions, Vec::new(), Default::default());
    let mut builder = Builder::new("1".parse().ok());
    let mut text = Vec::new();
    let mut script = PerfScript::new(&mut text, "1".parse().ok());
    importer
        .run(TEXT, |sample| {
            builder.add(sample);
            script.add(sample)
        })
        .unwrap();
    script.finish().unwrap();
    let profile = builder.finish();
    let brackets = |stack: &str| stack.replace("[kernel::", "kernel::").replace(']', "");
    let theirs: BTreeMap<String, u64> = collapsed(&text)
        .into_iter()
        .map(|(stack, count)| (brackets(&stack), count))
        .collect();
    let wanted = BTreeMap::from([
        ("kernel;kernel::main".to_owned(), 1),
        ("kernel;kernel::main;kernel::work".to_owned(), 2),
        ("kernel;[[kernel".to_owned(), 1),
    ]);
    assert_eq!(theirs, wanted);
    let ours = counts(&profile.folded(By::Thread).replace("[unknown]", "[[kernel"));
    assert_eq!(ours, wanted);
    for (format, file) in [
        (ProfileFormat::Speedscope, "redox.speedscope.json"),
        (ProfileFormat::Pprof, "redox.pb.gz"),
        (ProfileFormat::Firefox, "redox.firefox.json"),
    ] {
        written(format, &profile, file);
    }
}
