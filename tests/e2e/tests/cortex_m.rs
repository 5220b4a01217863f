//! `kernels/cortex-m` on QEMU's mps2-an385, as machine code for Armv7-M and for Armv6-M, which has
//! no compare-and-swap: what an event costs, and interrupts at any instruction of a writer.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kymo_ctf::{Item, LossKind, Trace};
use kymo_e2e::{babeltrace, built, kymo, limited, run, scratch};
use object::{Object, ObjectSection, ObjectSymbol};
use serde_json::Value as Json;

/// The kernel's names in `budgets.toml` and its images.
const TARGETS: [(&str, &str); 2] = [
    ("thumbv7m", "KYMO_CORTEX_M_THUMBV7M"),
    ("thumbv6m", "KYMO_CORTEX_M_THUMBV6M"),
];

/// A kernel's image.
struct Image {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Image {
    fn of(variable: &str) -> Image {
        let path = built(variable);
        let bytes = fs::read(&path).unwrap();
        Image { path, bytes }
    }

    /// Where a function begins, and its machine code in half words.
    fn function(&self, name: &str) -> (u64, Vec<u16>) {
        let file = object::File::parse(&*self.bytes).unwrap();
        let mut symbols = file.symbols();
        let symbol = symbols.find(|symbol| symbol.name() == Ok(name)).unwrap();
        // The lowest bit says that it is Thumb code.
        let start = symbol.address() & !1;
        let section = file.section_by_name(".text").unwrap();
        let code = section.data_range(start, symbol.size()).unwrap().unwrap();
        let halves = code.as_chunks::<2>().0.iter();
        (
            start,
            halves.map(|half| u16::from_le_bytes(*half)).collect(),
        )
    }

    /// Runs the kernel in a folder, to which it writes `kymo.frames`. Returns its console.
    fn boot(&self, folder: &Path, plugin: Option<String>) -> String {
        let mut qemu = limited("qemu-system-arm");
        qemu.args(["-M", "mps2-an385"]);
        qemu.current_dir(folder);
        qemu.args(["-icount", "shift=0,sleep=off", "-display", "none"]);
        qemu.args(["-serial", "none", "-monitor", "none"]);
        qemu.args(["-semihosting-config", "enable=on,target=native"]);
        if let Some(plugin) = plugin {
            qemu.arg("-plugin").arg(plugin);
        }
        let output = run(qemu.arg("-kernel").arg(&self.path), 0);
        // Semihosting writes to QEMU's standard error.
        String::from_utf8(output.stderr).unwrap()
    }
}

/// The numbers of the lines `WHAT KEY VALUE` of a console, by key.
fn numbers(console: &str, what: &str) -> BTreeMap<u64, u64> {
    let lines = console.lines().filter_map(|line| line.strip_prefix(what));
    lines
        .map(|line| {
            let (key, value) = line.trim().split_once(' ').unwrap();
            (key.parse().unwrap(), value.parse().unwrap())
        })
        .collect()
}

/// Offsets of the instructions of a function: those before interrupts are masked, and those while
/// they are masked.
fn unmasked_and_masked(code: &[u16]) -> [Vec<u64>; 2] {
    let (mut at, mut is_masked, mut offsets) = (0, false, [Vec::new(), Vec::new()]);
    while let Some(&first) = code.get(at) {
        offsets[usize::from(is_masked)].push(2 * at as u64);
        // `cpsid i`, and `msr PRIMASK, rN`.
        is_masked |= first == 0xb672;
        if first & 0xfff0 == 0xf380 && code.get(at + 1) == Some(&0x8810) {
            return offsets;
        }
        at += if first >> 11 >= 0b11101 { 2 } else { 1 };
    }
    panic!("interrupts stay masked: {code:x?}");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn interrupts_at_any_instruction_lose_and_tear_nothing() {
    for (target, variable) in TARGETS {
        let image = Image::of(variable);
        let folder = scratch(&format!("cortex-m-{target}"));
        let console = image.boot(&folder, None);
        let trace = folder.join("trace");
        let mut record = kymo(["record", "--file"]);
        record.arg(folder.join("kymo.frames")).arg("--out");
        run(record.arg(&trace), 0);

        // Of each writer, which numbers its records: the next number, and how many there are.
        let (mut next, mut found, mut lost) = ([0_u64; 3], [0_u64; 3], 0);
        for item in Trace::open(&trace).unwrap().events() {
            match item.unwrap() {
                Item::Event(event) if event.name() == "written" => {
                    let number = |name: &str| event.fields.get(name).unwrap().as_u64().unwrap();
                    let (writer, seq) = (number("writer") as usize, number("seq"));
                    assert!(seq >= next[writer], "{target}: {writer} wrote {seq} again");
                    next[writer] = seq + 1;
                    found[writer] += 1;
                }
                Item::Event(event) if event.name() == "kymo_session_end" => {}
                Item::Event(event) => panic!("{target}: {}", event.name()),
                Item::Loss(loss) if loss.kind == LossKind::Events => lost += loss.count,
                _ => {}
            }
        }
        let written = numbers(&console, "written ");
        let written = [0, 1, 2].map(|writer| written[&writer]);
        // Each has written many times, the last record has arrived, and what has not is counted.
        assert!(written.iter().all(|&of| of > 2_000), "{written:?}");
        assert_eq!(next, written, "{target}");
        assert!(lost > 0, "{target}: the ring was full at the beginning");
        let (written, found) = (written.iter().sum::<u64>(), found.iter().sum::<u64>());
        assert_eq!(found + lost, written, "{target}");

        // SysTick came at every instruction of the writer where it could, and at no other.
        let places = numbers(&console, "place ");
        let (_, code) = image.function("kymo_thread_writes");
        let [unmasked, masked] = unmasked_and_masked(&code);
        let is_place = |offset: &&u64| places.contains_key(offset);
        assert!(
            unmasked.len() >= 5 && masked.len() >= 15,
            "{target}: {code:x?}"
        );
        assert!(
            unmasked.iter().all(|at| is_place(&at)),
            "{target}: {places:?}"
        );
        assert_eq!(masked.iter().find(is_place), None, "{target}");
        babeltrace::compare(&trace);
    }
}

/// Calls of each probe: some while events are recorded, then some while they are not.
const CALLS: u64 = 2500;
const CALLS_OFF: u64 = 500;

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_event_takes_what_its_budget_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let mut wrong = String::new();
    for (target, variable) in TARGETS {
        let image = Image::of(variable);
        let folder = scratch(&format!("cortex-m-cost-{target}"));
        let budgets = table["cortex_m"].as_array().unwrap().iter();
        let budgets = budgets.filter(|budget| budget["target"].as_str() == Some(target));
        let budgets: BTreeMap<&str, &toml::Value> = budgets
            .map(|budget| (budget["probe"].as_str().unwrap(), budget))
            .collect();
        assert_eq!(budgets.len(), 2, "{target}");
        let mut plugin = built("KYMO_COST_PLUGIN")
            .into_os_string()
            .into_string()
            .unwrap();
        for name in budgets.keys() {
            let (start, code) = image.function(name);
            let end = start + 2 * code.len() as u64;
            plugin += &format!(",name={name},start={start:#x},end={end:#x}");
        }
        image.boot(&folder, Some(plugin + ",out=report.json"));
        let report = fs::read_to_string(folder.join("report.json")).unwrap();
        let report: Json = serde_json::from_str(&report).unwrap();
        for function in report["functions"].as_array().unwrap() {
            let name = function["name"].as_str().unwrap();
            let of = |quantity: &str| histogram(&function["per_call"][quantity]["histogram"]);
            let instructions = of("instructions");
            let (off, calls_off) = instructions.first_key_value().unwrap();
            let calls = (instructions.values().sum(), *calls_off);
            assert_eq!(calls, (CALLS, CALLS_OFF), "{target}: {name}");
            let found = [
                ("instructions", median(&instructions)),
                ("loads", median(&of("loads"))),
                ("stores", median(&of("stores"))),
                ("off", *off),
            ];
            for (what, found) in found {
                let budget = budgets[name][what].as_integer().unwrap() as u64;
                if found != budget {
                    wrong += &format!("{target}: {name}: {found} {what}, not {budget}\n");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "not what budgets.toml says:\n{wrong}");
}

/// A histogram of the plugin's report: calls by value.
fn histogram(report: &Json) -> BTreeMap<u64, u64> {
    let pairs = report.as_array().unwrap().iter();
    pairs
        .map(|pair| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap()))
        .collect()
}

/// The value that half of the calls do not exceed.
fn median(histogram: &BTreeMap<u64, u64>) -> u64 {
    let (calls, mut below) = (histogram.values().sum::<u64>(), 0);
    let middle = histogram.iter().find(|&(_, count)| {
        below += count;
        2 * below >= calls
    });
    *middle.expect("it was called").0
}
