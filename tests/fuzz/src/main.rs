//! A coverage-guided fuzzer of kymo-ctf, and of what reads a region, on the stable compiler.
//!
//!     kymo-fuzz TARGET CORPUS SECONDS     mutates until the time is up or something is found
//!     kymo-fuzz TARGET CORPUS replay      runs every input of the corpus once
//!
//! `cargo xtask fuzz ctf` builds it with LLVM's coverage pass, which is an option of code
//! generation and needs no nightly compiler. An input is a find if it panics, takes more than ten
//! seconds of the processor, allocates out of proportion to its size, is a trace that changes when
//! it is converted, or is memory in which no session can begin; it is then in `CORPUS/found`. What
//! kills the process leaves its input in `CORPUS/current`. Exit codes: 0 nothing found, 1 a find,
//! 2 wrong usage.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a tool of the repository's own"
)]

mod converting;
mod counters;
mod decoding;
mod memory;
mod mutate;
mod redox;
mod region;
#[path = "../../../crates/kymo-ctf/tests/it/convert/same.rs"]
#[allow(dead_code, reason = "what only parts of traces need")]
mod same;
mod targets;
#[path = "../../../crates/kymo/tests/thread_cpu/mod.rs"]
mod thread_cpu;
#[path = "../../../crates/kymo-ctf/src/decode/told.rs"]
mod told;

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mutate::Random;
use targets::Target;

/// Limit on an input's CPU time.
const LIMIT: Duration = Duration::from_secs(10);
/// Limit on an input's memory: a base, and an addition for each byte of the input.
const MEMORY: (usize, usize) = (64 << 20, 4096);

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Number of the current input, odd while it runs; a thread checks that it advances.
static RUN: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, corpus, mode] = &arguments[..] else {
        return usage();
    };
    let Some(target) = Target::of(target) else {
        return usage();
    };
    let corpus = PathBuf::from(corpus);
    fs::create_dir_all(corpus.join("inputs")).unwrap();
    let mut fuzzer = Fuzzer::new(target, &corpus);
    let found = match mode.parse::<u64>() {
        Ok(seconds) => fuzzer.run(Duration::from_secs(seconds)),
        Err(_) if mode == "replay" => fuzzer.replay(),
        Err(_) => return usage(),
    };
    match found {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("found: {reason}: {}", corpus.join("found").display());
            ExitCode::from(1)
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: kymo-fuzz tsdl|json|stream|convert|region|redox CORPUS SECONDS|replay");
    ExitCode::from(2)
}

/// Why an input is a find.
type Found = String;

struct Fuzzer {
    target: Target,
    corpus: PathBuf,
    current: fs::File,
    inputs: Vec<Vec<u8>>,
    /// Counter values reached so far, by power of two; inputs that reach new ones are kept.
    seen: Vec<u8>,
    random: Random,
    executions: u64,
}

impl Fuzzer {
    fn new(target: Target, corpus: &Path) -> Self {
        let hook = std::panic::take_hook();
        // A panic inside a run is reported as a find.
        std::panic::set_hook(Box::new(move |info| {
            if RUN.load(Ordering::Relaxed).is_multiple_of(2) {
                hook(info);
            }
        }));
        let watched = corpus.to_owned();
        std::thread::spawn(move || watch(&watched));
        let seed = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |time| time.as_nanos() as u64);
        Fuzzer {
            target,
            corpus: corpus.to_owned(),
            current: fs::File::create(corpus.join("current")).unwrap(),
            inputs: Vec::new(),
            seen: vec![0; counters::count()],
            random: Random::new(seed),
            executions: 0,
        }
    }

    /// Inputs of the conformance set, followed by those of earlier runs.
    fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = self.target.seeds();
        let mut kept: Vec<PathBuf> = fs::read_dir(self.corpus.join("inputs"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        kept.sort();
        seeds.extend(kept.iter().map(|path| fs::read(path).unwrap()));
        seeds
    }

    /// Runs every input once, for a coverage measurement.
    fn replay(&mut self) -> Result<(), Found> {
        let seeds = self.seeds();
        for seed in &seeds {
            self.execute(seed)?;
        }
        println!("{}: {} inputs", self.target.name(), seeds.len());
        Ok(())
    }

    fn run(&mut self, time: Duration) -> Result<(), Found> {
        if self.seen.is_empty() {
            return Err("this program was built without coverage counters".to_owned());
        }
        let begin = Instant::now();
        for seed in self.seeds() {
            self.try_input(seed, false)?;
        }
        println!(
            "{}: {} seeds reach {} edges",
            self.target.name(),
            self.inputs.len(),
            self.edges()
        );
        let mut shown = Instant::now();
        while begin.elapsed() < time {
            let pick = self.random.below(self.inputs.len());
            let other = self.random.below(self.inputs.len());
            let input = mutate::input(
                &self.inputs[pick],
                &self.inputs[other],
                self.target,
                &mut self.random,
            );
            self.try_input(input, true)?;
            if shown.elapsed() > Duration::from_secs(30) {
                shown = Instant::now();
                self.show(begin.elapsed());
            }
        }
        self.show(begin.elapsed());
        Ok(())
    }

    fn show(&self, elapsed: Duration) {
        println!(
            "{}: {} s, {} executions ({:.0} a second), {} inputs, {} edges",
            self.target.name(),
            elapsed.as_secs(),
            self.executions,
            self.executions as f64 / elapsed.as_secs_f64(),
            self.inputs.len(),
            self.edges()
        );
        std::io::stdout().flush().unwrap();
    }

    fn edges(&self) -> usize {
        self.seen.iter().filter(|&&seen| seen != 0).count()
    }

    /// Runs an input, and keeps it if it reaches something new.
    fn try_input(&mut self, input: Vec<u8>, keep: bool) -> Result<(), Found> {
        self.execute(&input)?;
        let mut new = false;
        counters::each(|place, count| {
            // 1, 2, 3, 4 to 7, 8 to 15 and so on to 64 and more are distinguished.
            let class = 1u8
                << if count < 4 {
                    count - 1
                } else {
                    (count.ilog2() as u8 + 1).min(7)
                };
            new |= self.seen[place] & class == 0;
            self.seen[place] |= class;
        });
        if new || self.inputs.is_empty() {
            if keep {
                let name = format!("{:016x}", hash(&input));
                fs::write(self.corpus.join("inputs").join(name), &input).unwrap();
            }
            self.inputs.push(input);
        }
        Ok(())
    }

    fn execute(&mut self, input: &[u8]) -> Result<(), Found> {
        self.executions += 1;
        // A single system call, so that the input remains if this process is killed.
        let length = (input.len() as u64).to_le_bytes();
        self.current
            .write_all_at(&[&length[..], input].concat(), 0)
            .unwrap();
        counters::clear();
        memory::begin();
        RUN.fetch_add(1, Ordering::Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.target.execute(input, &self.corpus)
        }));
        RUN.fetch_add(1, Ordering::Relaxed);
        let most = memory::most();
        let limit = MEMORY.0 + MEMORY.1 * input.len();
        let reason = match result {
            Err(panic) => {
                let words = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or(panic.downcast_ref::<&str>().copied());
                format!("a panic: {}", words.unwrap_or("without words"))
            }
            Ok(()) if most > limit => {
                format!("{most} bytes of memory for an input of {}", input.len())
            }
            Ok(()) => return Ok(()),
        };
        fs::write(self.corpus.join("found"), input).unwrap();
        Err(reason)
    }
}

/// CPU time of this process, which does not depend on the load of the machine.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Ends the process if an input takes too long; the input is in `current`.
fn watch(corpus: &Path) {
    let (mut last, mut since) = (0, cpu_time());
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let run = RUN.load(Ordering::Relaxed);
        if run != last || run.is_multiple_of(2) {
            (last, since) = (run, cpu_time());
        } else if cpu_time() - since > LIMIT {
            eprintln!(
                "found: an input that takes more than {} s: {}",
                LIMIT.as_secs(),
                corpus.join("current").display()
            );
            std::process::exit(1);
        }
    }
}

/// FNV-1a: a name for an input.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// All distinct inputs.
fn distinct(inputs: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut seen = HashSet::new();
    inputs
        .into_iter()
        .filter(|input| seen.insert(hash(input)))
        .collect()
}
