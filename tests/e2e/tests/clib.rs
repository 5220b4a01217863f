//! kernels/tiny-c, a kernel in C that is linked with the library for such kernels: its trace, and
//! what the library takes of its image, its memory and its time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use kymo_ctf::{Item, LossKind, Trace, Value};
use kymo_e2e::{built, kymo, patience, run, scratch};
use object::{Object, ObjectSection, ObjectSymbol};
use serde_json::Value as Json;

/// Runs the kernel to its end.
fn boot(more: &[String]) {
    let mut qemu = Command::new("qemu-system-riscv32");
    qemu.args(["-bios", "none", "-display", "none", "-serial", "none"]);
    qemu.args([
        "-monitor",
        "none",
        "-icount",
        "shift=0,sleep=off",
        "-m",
        "16M",
    ]);
    if !more.iter().any(|word| word.starts_with("virt")) {
        qemu.args(["-M", "virt"]);
    }
    run(qemu.args(more).arg("-kernel").arg(built("KYMO_TINY_C")), 0);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_memory_of_a_kernel_in_c_has_its_trace() {
    let folder = scratch("clib");
    let ram = folder.join("ram");
    let file = format!(
        "memory-backend-file,id=ram,size=16M,share=on,mem-path={}",
        ram.display()
    );
    let machine = ["-M", "virt,memory-backend=ram", "-object", &file].map(str::to_owned);
    boot(&machine);
    let trace = folder.join("trace");
    run(
        &mut kymo(["recover".as_ref(), "--out".as_ref(), &*trace, &*ram] as [&Path; 4]),
        0,
    );
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut lost = 0;
    let mut last = None;
    for item in Trace::open(&trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                *counts.entry(event.name().to_owned()).or_default() += 1;
                if event.name() == "sensor" {
                    let field = |name| match event.fields.get(name) {
                        Some(Value::UInt(number)) => i128::from(*number),
                        Some(Value::Int(number)) => i128::from(*number),
                        other => panic!("{name}: {other:?}"),
                    };
                    assert_eq!(field("channel"), -field("value") % 4);
                    last = Some(field("value"));
                }
            }
            Item::Loss(loss) if loss.kind == LossKind::Events => lost += loss.count,
            _ => {}
        }
    }
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    assert_eq!(last, Some(-999), "the newest record is there");
    assert_eq!((count("thread_name"), count("kymo_session_end")), (2, 1));
    // 1,000 switches and sensors, and ten more switches and watchdogs; 64 KiB have room for all.
    assert_eq!(
        (count("sched_switch"), count("sensor"), count("watchdog")),
        (1010, 1000, 10)
    );
    assert_eq!(lost, 0);
}

fn budgets() -> toml::Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    table["clib"].as_table().unwrap().clone()
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_library_keeps_to_its_budget_of_memory() {
    let size_in = |image: &str, section: &str| {
        let bytes = fs::read(built(image)).unwrap();
        let image = object::File::parse(&*bytes).unwrap();
        image.section_by_name(section).unwrap().size()
    };
    let size = |section: &str| size_in("KYMO_TINY_C", section);
    let budgets = budgets();
    // It must not be far below either: a library that is not linked takes nothing.
    for (name, found) in [
        ("text", size(".kymo.text")),
        (
            "text_recorder",
            size_in("KYMO_TINY_C_RECORDER", ".kymo.text"),
        ),
        ("ram", size(".kymo.data") + size(".kymo.bss")),
    ] {
        let budget = budgets[name].as_integer().unwrap() as u64;
        println!("libkymo.a for RV32, {name}: {found} bytes ({budget})");
        assert!(
            found <= budget && found >= budget / 2,
            "{name}: {found} bytes, not {budget}"
        );
    }
    println!(
        "libkymo.a for RV32, metadata and tables: {} bytes",
        size(".kymo.rodata")
    );
}

/// The names in an image.
fn symbols(image: &str) -> Vec<String> {
    let bytes = fs::read(built(image)).unwrap();
    let image = object::File::parse(&*bytes).unwrap();
    let names = image.symbols().filter_map(|symbol| symbol.name().ok());
    names.map(str::to_owned).collect()
}

/// What calls take of a stack, as a firmware finds that has painted it.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn calls_keep_to_their_budget_of_stack() {
    let mut qemu = Command::new("qemu-system-riscv32");
    qemu.args(["-M", "virt", "-bios", "none", "-display", "none"]);
    qemu.args(["-monitor", "none", "-serial", "stdio", "-kernel"]);
    let output = run(qemu.arg(built("KYMO_FIRMWARE_C_STACK")), 0);
    let console = String::from_utf8(output.stdout).unwrap();
    let budgets = budgets();
    let stacks = budgets
        .iter()
        .filter(|(name, _)| name.starts_with("stack_"));
    let mut measured = 0;
    for (name, budget) in stacks {
        let line = console.lines().find_map(|line| line.strip_prefix(name));
        let found = line.and_then(|line| line.strip_prefix(" = ")).unwrap();
        let (found, budget) = (found.parse::<i64>().unwrap(), budget.as_integer().unwrap());
        println!("libkymo.a for RV32, {name}: {found} bytes ({budget})");
        // A call that does nothing takes nothing.
        assert!(
            found <= budget && found >= budget / 2,
            "{name}: {found} bytes, not {budget}"
        );
        measured += 1;
    }
    assert_eq!(measured, console.lines().count(), "{console}");
}

/// Nothing can panic, and nothing formats, not even what prints records.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn no_code_that_panics_or_formats_is_linked() {
    for (image, function) in [
        ("KYMO_TINY_C", "kymo_record_3"),
        ("KYMO_FIRMWARE_C_DUMP", "kymo_dump_on_panic"),
        ("KYMO_FIRMWARE_C_SEND", "kymo_send_finish"),
        ("KYMO_FIRMWARE_C_STACK", "kymo_counting_tick"),
    ] {
        let names = symbols(image);
        assert!(names.iter().any(|name| name == function), "{image}");
        for part in [
            "4core9panicking",
            "panic_",
            "4core3fmt9Formatter",
            "4core3fmt5write",
            "Display",
        ] {
            let found = names.iter().find(|name| name.contains(part));
            assert_eq!(found, None, "{image}: {part}");
        }
    }
}

/// L-03, L-04 and L-07 in C: the firmware shows what it has recorded, with names, the task that ran
/// and its own events; a panic too.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_firmware_shows_its_newest_records() {
    let mut qemu = Command::new("qemu-system-riscv32");
    qemu.args(["-M", "virt", "-bios", "none", "-display", "none"]);
    // Time is that of instructions: no interrupt comes before the firmware masks them.
    qemu.args(["-icount", "shift=0,sleep=off", "-monitor", "none"]);
    qemu.args(["-serial", "stdio", "-kernel"]);
    let output = run(qemu.arg(built("KYMO_FIRMWARE_C_DUMP")), 0);
    let console = String::from_utf8(output.stdout).unwrap();
    let part = |name: &str| -> Vec<&str> {
        let (_, rest) = console.split_once(&format!("- {name}\n")).unwrap();
        let part = rest.split("\n- ").next().unwrap();
        part.lines()
            .map(|line| line.split_once(" cpu0 ").map_or(line, |(_, event)| event))
            .collect()
    };
    let dumped = part("dump");
    assert_eq!(
        dumped.first(),
        Some(&"kymo: 28 retained, 0 overwritten, 0 discarded"),
        "{console}"
    );
    assert_eq!(dumped.len(), 1 + 28, "{console}");
    for line in [
        "irq_name irq=7 name=\"timer\"",
        "[1 main] sched_switch prev_tid=1 (main) next_tid=2 (worker) prev_state=Blocked \
         reason=Waits next_prio=2",
        "[2 worker] sample_taken sequence=7 value=-7",
        "[2 worker] alarm",
        "[3 greedy] sched_wakeup tid=1 (main) waker_tid=3 (greedy) target_cpu=0",
    ] {
        assert!(dumped.contains(&line), "{line}\n{console}");
    }
    let waited = dumped.iter().find(|line| line.contains("lock_wait"));
    let waited = waited.unwrap();
    assert!(waited.starts_with("[3 greedy] lock_wait lock=0x8"));
    assert!(waited.ends_with(" (bus) owner_tid=2 (worker) kind=Mutex"));
    assert_eq!(part("newest"), [&dumped[..1], &dumped[27..]].concat());
    assert_eq!(
        part("records"),
        ["record 11: task 2, 8 bytes, value -7: [2 worker] sample_taken sequence=7 value=-7"]
    );
    assert_eq!(
        part("cleared"),
        [
            "kymo: 1 retained, 0 overwritten, 0 discarded",
            "[1 main] sample_taken sequence=8 value=-8",
            "record 0: task 1, 8 bytes, value -8: [1 main] sample_taken sequence=8 value=-8",
        ]
    );
    assert_eq!(
        part("panic"),
        [
            "kymo: 2 retained, 0 overwritten, 0 discarded",
            "[1 main] alarm"
        ]
    );
}

/// P-27 in C: frames that a firmware writes to a file of the host, and those in its up-buffer, are
/// received whole.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_a_firmware_sends_in_frames_is_received() {
    let folder = scratch("clib-send");
    let mut qemu = Command::new("qemu-system-riscv32");
    qemu.args(["-M", "virt,memory-backend=ram", "-bios", "none"]);
    qemu.args(["-display", "none", "-monitor", "none", "-serial", "stdio"]);
    qemu.args(["-m", "16M", "-object"]);
    qemu.arg("memory-backend-file,id=ram,size=16M,share=on,mem-path=ram");
    qemu.args(["-semihosting-config", "enable=on,target=native", "-kernel"]);
    let output = run(
        qemu.arg(built("KYMO_FIRMWARE_C_SEND")).current_dir(&folder),
        0,
    );
    let console = String::from_utf8(output.stdout).unwrap();
    for (line, file) in [("--file", "kymo.frames"), ("--rtt", "ram")] {
        let out = folder.join(file).with_extension("trace");
        let mut record = kymo(["record", "--timeout", patience(), line]);
        run(record.arg(folder.join(file)).arg("--out").arg(&out), 0);
        let mut sequences = Vec::new();
        for item in Trace::open(&out).unwrap().events() {
            match item.unwrap() {
                Item::Event(event) if event.name() == "sample_taken" => {
                    let sequence = event.fields.get("sequence").unwrap();
                    sequences.push(sequence.as_u64().unwrap());
                }
                Item::Loss(loss) => panic!("{line}: {loss:?}\n{console}"),
                _ => {}
            }
        }
        // Those of two tasks.
        sequences.sort_unstable();
        let all: Vec<u64> = (0..300).flat_map(|number| [number; 2]).collect();
        assert_eq!(sequences, all, "{line}\n{console}");
    }
    assert_eq!(console.matches("error 0, ").count(), 2, "{console}");
    assert_eq!(console.matches(" 0 dropped").count(), 2, "{console}");
}

/// The instructions of one call that records, by function.
fn measured() -> BTreeMap<String, u64> {
    let bytes = fs::read(built("KYMO_TINY_C")).unwrap();
    let image = object::File::parse(&*bytes).unwrap();
    let mut ranges = String::new();
    for symbol in image.symbols() {
        let name = symbol.name().unwrap();
        if symbol.size() > 0
            && ["probe_", "kymo_record_", "kymo_count", "kymo_observe"]
                .iter()
                .any(|begin| name.starts_with(begin))
        {
            let (start, end) = (symbol.address(), symbol.address() + symbol.size());
            ranges.push_str(&format!(",name={name},start={start:#x},end={end:#x}"));
        }
    }
    let out = scratch("clib-cost").join("report.json");
    let plugin = built("KYMO_COST_PLUGIN").display().to_string();
    let plugin = format!("{plugin}{ranges},out={}", out.display());
    boot(&["-plugin".to_owned(), plugin]);
    let report: Json = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let functions = report["functions"].as_array().unwrap().iter();
    let median = |function: &Json| {
        let histogram = function["per_call"]["instructions"]["histogram"]
            .as_array()
            .unwrap();
        // The most frequent.
        let pair = histogram
            .iter()
            .max_by_key(|pair| pair[1].as_u64().unwrap())?;
        pair[0].as_u64()
    };
    let named = |function: &Json| {
        let name = function["name"].as_str().unwrap().to_owned();
        Some((name, median(function)?))
    };
    functions.filter_map(named).collect()
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_task_switch_keeps_to_its_budget_of_instructions() {
    let measured = measured();
    let budgets = budgets();
    for name in [
        "probe_switch_masked",
        "kymo_record_3_masked",
        "probe_count_masked",
        "kymo_count",
        "kymo_observe_masked",
    ] {
        let budget = budgets[name].as_integer().unwrap() as u64;
        let found = measured[name];
        println!("RV32, {name}: {found} instructions ({budget})");
        assert_eq!(found, budget, "{name}: {measured:?}");
    }
}
