//! What the kernel's own operations take, compared with targets (`bench.toml`).
//!
//! Every operation is done as often as `rounds` says. A mark is set between two of them: in the
//! kernel, or by a program's system call `mark`. Each sample is what passed from one mark to the
//! next, in instructions and cycles where the processor counts them, and in the clock's time; less
//! the median of what the marks themselves take. Percentiles are of all samples.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kymo::count::pmu::Pmu as _;
use kymo::count::{EventKind, Exclude, Hardware};

use super::processes;
use crate::arch::pmu::Pmu;
use crate::console::println;
use crate::lock::Spin;
use crate::syscall::PRIO;
use crate::{SETTINGS, arch, counting, frame, run, thread};

/// Most rounds.
const MOST: usize = 1000;
/// Samples before those that count: caches and lazy work come up to speed.
const WARM_UP: usize = 10;

/// The targets: `operation.unit.statistic = N` below the architecture's name in brackets. The test
/// is passed where every figure is at most its target.
const TARGETS: &str = include_str!("../../bench.toml");

/// The units, in the order of a reading.
const UNITS: [&str; 3] = ["instructions", "cycles", "ns"];

/// Instructions and cycles, where they are counted, and the clock.
type Reading = [Option<u64>; 3];

/// The samples of an operation.
struct Samples {
    last: Reading,
    /// By unit.
    values: [[u64; MOST + WARM_UP]; 3],
    len: usize,
}

static SAMPLES: Spin<Samples> = Spin::new(Samples {
    last: [None; 3],
    values: [[0; MOST + WARM_UP]; 3],
    len: 0,
});
/// Whether marks make samples.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// A median, a 90th and a 99th percentile and a maximum by unit; `None` where it is not counted.
type Figures = [Option<[u64; 4]>; 3];
const STATISTICS: [&str; 4] = ["p50", "p90", "p99", "max"];

/// Runs all operations. True if every target is met.
pub fn run(rounds: u32) -> bool {
    let harts = arch::harts();
    if harts > 1 {
        println!("bench: {harts} harts would share the work: start QEMU with -smp 1.");
        return false;
    }
    if rounds as usize > MOST {
        println!("bench: {MOST} rounds of each, which is the most, instead of {rounds}.");
    }
    let rounds = (rounds as usize).clamp(1, MOST);
    if let Some(line) = lines().find_map(|line| line.err()) {
        println!("bench: \"{line}\" is no target: write OPERATION.UNIT.STATISTIC = NUMBER.");
        return false;
    }
    if !start_counters() {
        println!("bench: this processor counts no instructions and cycles: the clock is read.");
    }
    let nothing = median(measure(rounds, |times| (0..times).for_each(|_| mark())));
    let call = measure(rounds, |times| program("nothing", times));
    let with_call = median(call);
    let switch = measure(rounds, switches);
    let page_fault = measure(rounds, |times| program("page_fault", times));
    let ipc = measure(rounds, |times| {
        processes([
            (format_args!("server {}", times - 1), PRIO),
            (format_args!("bench ipc {}", times - 1), PRIO),
        ]);
    });
    let alloc = measure(rounds, allocations);
    stop_counters();
    println!("bench: {rounds} rounds of each operation");
    let results = [
        ("system_call", call, nothing),
        ("thread_switch", switch, nothing),
        ("ipc_round_trip", ipc, with_call),
        ("page_fault", page_fault, with_call),
        ("frame_allocation", alloc, nothing),
    ];
    let met = results.map(|(operation, figures, less)| report(operation, &figures, less));
    let strays = lines().flatten().filter(|target| {
        let is_known = results
            .iter()
            .any(|(operation, ..)| *operation == target.operation);
        !is_known
    });
    let mut are_known = true;
    for stray in strays {
        println!("bench: there is no operation \"{}\".", stray.operation);
        are_known = false;
    }
    are_known && met.iter().all(|met| *met)
}

/// This hart's counters, while the workload runs: instructions and cycles by number, if there are
/// any.
static COUNTERS: Spin<Option<(Pmu, [Option<u32>; 2])>> = Spin::new(None);

/// Starts them, where the processor has some.
fn start_counters() -> bool {
    if counting::is_in_use() {
        println!("bench: the session counts, so the counters are not free; times are of the clock");
        return false;
    }
    let mut pmu = arch::pmu::new();
    let (mut numbers, mut taken) = ([None; 2], 0);
    let events = [Hardware::Instructions, Hardware::Cycles].map(EventKind::Hardware);
    for (event, number) in events.into_iter().zip(&mut numbers) {
        let can = pmu.counters(event, Exclude::default()) & !taken;
        let counter = can.trailing_zeros();
        if can != 0 && pmu.program(counter, event, Exclude::default(), 0) {
            (*number, taken) = (Some(counter), taken | 1 << counter);
        }
    }
    pmu.start(taken);
    *COUNTERS.lock() = Some((pmu, numbers));
    taken != 0
}

fn stop_counters() {
    if let Some((mut pmu, numbers)) = COUNTERS.lock().take() {
        pmu.stop(
            numbers
                .into_iter()
                .flatten()
                .fold(0, |set, number| set | 1 << number),
        );
    }
}

fn read_counters() -> [Option<u64>; 2] {
    let counters = COUNTERS.lock();
    let Some((pmu, numbers)) = &*counters else {
        return [None; 2];
    };
    numbers.map(|number| number.map(|number| pmu.read(number)))
}

/// What a mark reads.
#[inline(never)]
fn read() -> Reading {
    let [instructions, cycles] = read_counters();
    let ns = u128::from(arch::timer::time()) * 1_000_000_000;
    let ns = (ns / u128::from(arch::timer::frequency())) as u64;
    [instructions, cycles, Some(ns)]
}

/// Takes a sample, from the mark before to this one, if a benchmark runs. A program's call `mark`
/// comes here too.
pub fn mark() {
    if !IS_ON.load(Relaxed) {
        return;
    }
    let on = arch::mask();
    let now = read();
    let mut samples = SAMPLES.lock();
    let Samples { last, values, len } = &mut *samples;
    if last[2].is_some() && *len < values[0].len() {
        for unit in 0..UNITS.len() {
            let passed = now[unit]
                .zip(last[unit])
                .map(|(now, last)| now.saturating_sub(last));
            values[unit][*len] = passed.unwrap_or(0);
        }
        *len += 1;
    }
    // What was done here is no part of the next sample.
    *last = read();
    drop(samples);
    arch::restore(on);
}

/// The next mark begins anew.
fn forget() {
    SAMPLES.lock().last = [None; 3];
}

/// Calls `work`, which is to set one mark more than there are samples.
fn measure(rounds: usize, work: impl FnOnce(usize)) -> Figures {
    {
        let mut samples = SAMPLES.lock();
        (samples.len, samples.last) = (0, [None; 3]);
    }
    IS_ON.store(true, Relaxed);
    work(rounds + WARM_UP + 1);
    IS_ON.store(false, Relaxed);
    let is_counted = read_counters().map(|count| count.is_some());
    let mut samples = SAMPLES.lock();
    let len = samples.len;
    assert_eq!(len, rounds + WARM_UP, "as many samples as were asked for");
    let mut figures = [None; 3];
    for (unit, values) in samples.values.iter_mut().enumerate() {
        let values = &mut values[WARM_UP..len];
        values.sort_unstable();
        if unit == 2 || is_counted[unit] {
            let at = |per_cent: usize| values[(values.len() * per_cent).div_ceil(100).max(1) - 1];
            figures[unit] = Some([at(50), at(90), at(99), at(100)]);
        }
    }
    figures
}

fn median(figures: Figures) -> [u64; 3] {
    figures.map(|unit| unit.map_or(0, |[p50, ..]| p50))
}

/// Runs the program that marks, with an operation between marks.
fn program(operation: &str, times: usize) {
    processes([(format_args!("bench {operation} {}", times - 1), PRIO)]);
}

/// Two threads that give the hart to each other, each with a mark before.
fn switches(times: usize) {
    let half = |times: usize| {
        for _ in 0..times {
            mark();
            thread::yield_now();
        }
    };
    let threads = [times.div_ceil(2), times / 2]
        .map(|times| thread::spawn("bench", run::WORKLOAD_PRIO - 1, half, times));
    threads.into_iter().for_each(thread::join);
}

/// Allocates one frame between two marks; frees it where nobody measures.
fn allocations(times: usize) {
    for _ in 1..times {
        forget();
        mark();
        let taken = frame::alloc(0).expect("there is memory");
        mark();
        frame::free(taken, 0);
    }
}

/// A line of the targets.
struct Target<'a> {
    operation: &'a str,
    unit: &'a str,
    statistic: &'a str,
    most: u64,
}

/// The targets of this architecture, those of the command line
/// (`target=OPERATION.UNIT.STATISTIC:N`) behind those of the file; the later one holds. The error
/// is the line.
fn lines() -> impl Iterator<Item = Result<Target<'static>, &'static str>> {
    let mut is_ours = false;
    let file = TARGETS.lines().map(str::trim).filter_map(move |line| {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            is_ours = name == arch::NAME;
            return None;
        }
        let is_blank = line.is_empty() || line.starts_with('#');
        (is_ours && !is_blank).then(|| parse(line, '='))
    });
    let line = SETTINGS.lock().line;
    let words = line.split_ascii_whitespace();
    let own = words.filter_map(|word| word.strip_prefix("target="));
    file.chain(own.map(|word| parse(word, ':')))
}

fn parse(line: &'static str, sign: char) -> Result<Target<'static>, &'static str> {
    let found = || {
        let (key, most) = line.split_once(sign)?;
        let mut parts = key.trim().split('.');
        let target = Target {
            operation: parts.next()?,
            unit: parts.next().filter(|unit| UNITS.contains(unit))?,
            statistic: parts.next().filter(|name| STATISTICS.contains(name))?,
            most: most.trim().parse().ok()?,
        };
        parts.next().is_none().then_some(target)
    };
    found().ok_or(line)
}

/// Prints the figures of an operation, a line a unit, each with its target behind. True if all are
/// met; a target of what is not counted here is not.
fn report(operation: &str, figures: &Figures, less: [u64; 3]) -> bool {
    let mut are_met = true;
    for (unit, name) in UNITS.into_iter().enumerate() {
        let target = |statistic: &str| {
            let ours = lines().flatten().filter(|target| {
                (target.operation, target.unit, target.statistic) == (operation, name, statistic)
            });
            ours.last().map(|target| target.most)
        };
        let targets = STATISTICS.map(target);
        let Some(found) = figures[unit] else {
            if targets.iter().any(Option::is_some) {
                println!(
                    "BENCH {operation} {name}: not counted here, but there are targets: MISSED"
                );
                are_met = false;
            }
            continue;
        };
        let found = found.map(|value| value.saturating_sub(less[unit]));
        let is_met = |(value, most): (&u64, &Option<u64>)| most.is_none_or(|most| *value <= most);
        let met = found.iter().zip(&targets).all(is_met);
        are_met &= met;
        let [p50, p90, p99, max] = found;
        let [most50, most90, most99, most] = targets.map(Most);
        let verdict = match targets {
            [None, None, None, None] => "no target",
            _ if met => "met",
            _ => "MISSED",
        };
        println!(
            "BENCH {operation} {name}: p50 {p50}{most50}, p90 {p90}{most90}, p99 {p99}{most99}, \
             max {max}{most}: {verdict}"
        );
    }
    are_met
}

/// A target behind its figure.
struct Most(Option<u64>);

impl core::fmt::Display for Most {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.map_or(Ok(()), |most| write!(f, " of {most}"))
    }
}
