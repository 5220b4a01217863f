//! `kernels/demo` on x86-64 and AArch64, traced and sampled at the same time: NMIs and pseudo-NMIs
//! write samples in the middle of trace records, on x86-64 also of those that NMIs write.

use std::fs;
use std::ops::Range;
use std::path::Path;

use kymo_ctf::{Event, Item, LossKind, Trace, Value};
use kymo_e2e::demo::{AARCH64, Arch, LEDGER, X86_64, is_the_librarys, ledger, sum};
use kymo_e2e::{babeltrace, kymo, patience, recording, run, scratch};

const HARTS: usize = 4;
/// What runs, and the addresses of the kernel and its programs.
const RUNS: [(Arch, &str, Range<u64>); 2] = [
    (X86_64, "run=all run=nmis", 0x20_0000..0x8000_0000),
    (AARCH64, "run=all", 0x4020_0000..0xc000_0000),
];

/// What a trace has, each record of it read.
#[derive(Debug, Default)]
struct Seen {
    /// The kernel's operations by hart, recorded or counted as lost.
    operations: [u64; HARTS],
    /// All events, the samples and the library's own included.
    events: u64,
    lost: u64,
    samples: u64,
    missed: u64,
    samples_lost: u64,
}

fn number(event: &Event, name: &str) -> u64 {
    event.fields.get(name).and_then(Value::as_u64).unwrap()
}

/// A sample's fields fit together.
fn check(event: &Event, addresses: &Range<u64>) {
    let callers = match event.fields.get("callchain") {
        Some(Value::Array(callers)) => callers,
        other => panic!("{other:?}"),
    };
    assert!(number(event, "kernel_callers") as usize <= callers.len());
    let all = callers.iter().map(|caller| caller.as_u64().unwrap());
    for address in all.chain([number(event, "ip")]) {
        assert!(addresses.contains(&address), "{address:#x} in {event:?}");
    }
    assert!(
        number(event, "mode") <= 2 && number(event, "user_end") <= 6,
        "{event:?}"
    );
    assert!(number(event, "period") > 0, "{event:?}");
}

fn read(trace: &Path, addresses: &Range<u64>) -> Seen {
    let mut seen = Seen::default();
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => {
                seen.events += 1;
                if event.name() == "sample" {
                    check(&event, addresses);
                    seen.samples += 1;
                    seen.missed += number(&event, "missed");
                } else if event.name() != "sampling" && !is_the_librarys(&event) {
                    seen.operations[event.cpu().unwrap() as usize] += 1;
                }
            }
            Item::Loss(loss) if loss.kind == LossKind::Events => {
                let (channel, hart) = loss.stream.rsplit_once('_').unwrap();
                if channel == "samples" {
                    seen.samples_lost += loss.count;
                } else {
                    seen.operations[hart.parse::<usize>().unwrap()] += loss.count;
                    seen.lost += loss.count;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    seen
}

/// How many samples have the ring's code as their innermost function, as line tables tell.
fn in_the_ring(trace: &Path) -> u64 {
    let mut command = kymo(["flame"]);
    command.arg(trace).args(["--format", "folded"]);
    let text = String::from_utf8(run(&mut command, 0).stdout).unwrap();
    let count = |line: &str| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let innermost = stack.rsplit(';').next().unwrap();
        let is_in = innermost.contains("kymo::ring::") || innermost.contains("kymo::arch::");
        if is_in { count.parse().unwrap() } else { 0 }
    };
    text.lines().map(count).sum()
}

/// both channels' records are whole, and everything is there or counted.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn samples_in_the_middle_of_trace_records() {
    for (arch, words, addresses) in &RUNS {
        let mut rates = RATES.into_iter();
        let is_hit = rates.any(|rate| samples_between(arch, words, addresses, rate));
        assert!(is_hit, "{}: no sample in the ring's code", arch.name);
    }
}

/// Rates of samples, in Hz, of which one finds the ring's code. On a busy host, samples are due all
/// the time at the highest, and each is taken where the one before returned to.
const RATES: [u32; 5] = [20_000, 8_000, 4_000, 2_000, 20_000];

/// Checks a run at a rate. Whether samples were taken in the ring's code, and not few.
fn samples_between(arch: &Arch, words: &str, addresses: &Range<u64>, rate: u32) -> bool {
    let out = scratch(&format!("sample-stress-{}", arch.name)).join("trace");
    let mut command = recording(&arch.kernel(), &out);
    command.args(["--mode", "trace,sample", "--driver", "nmi"]);
    command.args(["--hz", &rate.to_string()]);
    command.args([
        "--keep-ram",
        "--timeout",
        patience(),
        "--cpus",
        &HARTS.to_string(),
    ]);
    let append = format!("{words} rounds=500 kymo=discard,reader=host");
    let output = run(command.args(["--append", &append]), 0);

    let ram = out.join(".ram");
    let ledger = ledger(arch, &ram, LEDGER, HARTS);
    fs::remove_file(ram).unwrap();
    let seen = read(&out, addresses);
    let operations: Vec<u64> = ledger
        .iter()
        .map(|hart| sum(std::slice::from_ref(hart)))
        .collect();
    assert_eq!(seen.operations.to_vec(), operations, "{seen:?}");

    let says = String::from_utf8(output.stdout).unwrap();
    let line = says.lines().find(|line| line.contains("samples were due"));
    let words = line.unwrap().split(' ');
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let (due, open) = (numbers[0], numbers[2]);
    let all = seen.samples + seen.missed + seen.samples_lost + open;
    assert_eq!(all, due, "{seen:?}, {open} open");

    let (events, _) = babeltrace::compare(&out);
    assert_eq!(events, seen.events);
    run(kymo(["check"]).arg(&out), 0);
    let nested = in_the_ring(&out);
    println!(
        "{}, {rate} Hz: {seen:?}, {nested} samples in the ring's code",
        arch.name
    );
    seen.samples > 200 && nested > 0
}
