//! One CPU: at every step of a sample, an event or an event's callers, an NMI does another of
//! these; up to two are nested in the first.
//!
//! A step is an atomic operation, a look at a stack, a fence, or a reading of the clock. What
//! interrupts a step ends before the step is done.
//!
//! # Invariants
//! - Each leaves one complete record in its channel.
//! - A sample's callers are those of its own chain: all of them in the outer two samples. The third
//!   has as many as there are places left, and says that its callers are cut.
//! - Afterwards all places are free.

use std::cell::RefCell;
use std::sync::Arc;

use super::period::Settled;
use super::*;
use crate::channel::ChannelKind;
use crate::event::Vocabulary;
use crate::platform::{ByPointer, LocalCas};
use crate::ring::config::Config;
use crate::ring::harness::{BLOCK, Block, check_of, leaked};
use crate::ring::layout::{Clock, Overflow};
use crate::ring::models::explore;
use crate::ring::reader::{ChannelReader, Region, View};
use crate::session::Session;
use crate::sync::modelled::{self, Step};

crate::event! { #[id(21)] struct Beat { seq: u32, check: u32 } }
static VOCABULARY: Vocabulary = crate::vocabulary![Beat, Sample, EventStack, Sampling];

struct Cpu;
// SAFETY: see `Block`. What nests runs to its end inside of what it interrupts.
unsafe impl Platform for Cpu {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        modelled::step(Step::Private);
        machine(|machine| {
            machine.clock += 1;
            machine.clock
        })
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        machine(|machine| machine.depth as u32)
    }
}
type Kymo = Tracer<Cpu>;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Sample,
    Stack,
    Event,
    /// The depth is changed, to that of a chain's first caller.
    Set,
}

/// Most callers, so that there is place for two samples and a part of a third.
const DEPTH: u32 = 100;
const PART: usize = 2 * MAX_CALLERS - 2 * DEPTH as usize;
/// Callers of the chains, by how deep what is done nests. The last is longer than that part.
const CHAINS: [usize; 3] = [3, 2, PART + 2];

const TEXT: usize = 0x1000;

/// Caller `index` of the chain at this depth.
fn caller(depth: usize, index: usize) -> usize {
    TEXT * (depth + 1) + index
}

struct Machine {
    acts: &'static [Act],
    /// The step of what is done at each depth at which the next comes.
    at: [u32; 3],
    steps: [u32; 3],
    depth: usize,
    /// What was done in this trial.
    done: Vec<(usize, Act)>,
    clock: u64,
}

thread_local! {
    static MACHINE: RefCell<Machine> = const {
        RefCell::new(Machine {
            acts: &[],
            at: [0; 3],
            steps: [0; 3],
            depth: 0,
            done: Vec::new(),
            clock: 1000,
        })
    };
    static SAMPLER: &'static Sampler<1> = Box::leak(Box::new(Sampler::new()));
}

fn machine<T>(f: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with_borrow_mut(f)
}

fn set(depth: u32) {
    SAMPLER.with(|sampler| {
        sampler.set(&Sampling {
            depth,
            ..sampler.settings()
        })
    });
}

/// The stack of what is done at a depth.
struct Stack(Vec<usize>);

impl Stack {
    fn new(depth: usize) -> Stack {
        let mut stack = Stack(vec![0; 2 * CHAINS[depth]]);
        for index in 0..CHAINS[depth] {
            let is_last = index + 1 == CHAINS[depth];
            stack.0[2 * index] = if is_last { 0 } else { stack.pointer(index + 1) };
            stack.0[2 * index + 1] = caller(depth, index);
        }
        stack
    }

    /// The frame pointer for frame `index`.
    fn pointer(&self, index: usize) -> usize {
        self.0.as_ptr().wrapping_add(2 * index).addr() + unwind::RECORD_TO_POINTER
    }
}

impl Memory for Stack {
    fn kernel_text(&self) -> Range<usize> {
        TEXT..TEXT * (CHAINS.len() + 1)
    }

    fn kernel_stack(&self, _: usize) -> Option<Window> {
        let words = self.0.as_ptr_range();
        // SAFETY: the words of the stack.
        Some(unsafe { Window::new(words.start.addr()..words.end.addr(), words.start.cast()) })
    }
}

/// What a sample at this depth is taken of.
fn interrupted(depth: usize, fp: usize) -> Interrupted {
    Interrupted {
        registers: Registers {
            ip: 0x77 + depth,
            fp,
        },
        mode: CpuMode::Kernel,
        tid: Tid(5 + depth as u32),
        period: (depth as u64) << 33 | 9,
        missed: 1 << depth,
    }
}

fn perform(depth: usize, act: Act) {
    machine(|machine| machine.done.push((depth, act)));
    let stack = Stack::new(depth);
    let at = interrupted(depth, stack.pointer(0));
    let seq = depth as u32;
    let is_recorded = match act {
        Act::Sample => SAMPLER.with(|sampler| Kymo::sample(sampler, 0, &at, &stack)),
        Act::Stack => {
            let event = (seq, at.registers.fp);
            SAMPLER.with(|sampler| Kymo::event_stack(sampler, 0, event, at.tid, &stack))
        }
        Act::Event => Kymo::record(Beat {
            seq,
            check: check_of(seq),
        }),
        Act::Set => {
            set(1);
            true
        }
    };
    assert!(is_recorded, "{act:?} at depth {depth}");
}

/// Called at every step: does what is to interrupt it.
fn at_step(_: Step) {
    let next = machine(|machine| {
        let depth = machine.depth;
        let is_here = machine.steps[depth] == machine.at[depth];
        machine.steps[depth] += 1;
        let act = *machine.acts.get(depth + 1).filter(|_| is_here)?;
        machine.depth = depth + 1;
        Some((depth, act))
    });
    if let Some((depth, act)) = next {
        perform(depth + 1, act);
        machine(|machine| machine.depth = depth);
    }
}

/// The words of what was done at this depth, with this many callers.
fn words(depth: usize, act: Act, count: usize) -> Vec<u32> {
    let end = if count == CHAINS[depth] {
        ChainEnd::Complete
    } else {
        ChainEnd::Cut
    };
    let cut = u32::from(end == ChainEnd::Cut) << 31;
    let at = interrupted(depth, 0);
    let callers = (0..count).map(|index| caller(depth, index) as u32);
    let mut callers: Vec<u32> = callers.flat_map(|low| [low, 0]).collect();
    let mut words = match act {
        Act::Sample => {
            let [low, high] = [at.period as u32, (at.period >> 32) as u32];
            let chain = (CpuMode::Kernel as u32) | (count as u32) << 8 | (end as u32) << 16;
            let ip = at.registers.ip as u32;
            vec![
                ip,
                0,
                at.tid.0,
                low,
                high,
                at.missed,
                chain,
                count as u32 | cut,
            ]
        }
        _ => {
            let behind = callers.split_off(2.min(callers.len()));
            let ip = std::mem::replace(&mut callers, behind).first().copied();
            let count = count.saturating_sub(1) as u32;
            let chain = count | (end as u32) << 8;
            vec![
                depth as u32,
                ip.unwrap_or(0),
                0,
                at.tid.0,
                chain,
                count | cut,
            ]
        }
    };
    words.append(&mut callers);
    words
}

/// The session, and readers of its two channels.
struct Recording {
    session: Session<Cpu>,
    readers: [ChannelReader; 2],
}

impl Recording {
    fn start() -> Recording {
        let config = Config {
            cpus: 1,
            packet_size: 4096,
            packets: 4,
            names_packets: 4,
            samples_packets: 4,
            overflow: Overflow::Overwrite,
            clock: Clock::at(1_000_000),
            hosted: true,
            ..Config::DEFAULT
        };
        let memory = leaked(1 << 20, 1);
        BLOCK.set(memory.control(0));
        let session = Kymo::start(memory, &config, &VOCABULARY).unwrap();
        let live = session.live();
        let region = Region::open(&live).unwrap();
        let readers = [ChannelKind::Events, ChannelKind::Samples]
            .map(|kind| region.channel(&live, 0, kind).unwrap());
        Recording { session, readers }
    }

    /// The records since the last call: id and words.
    fn read(&mut self) -> Vec<(u32, Vec<u32>)> {
        let live = self.session.live();
        let mut all = Vec::new();
        for reader in &mut self.readers {
            let mut scratch = vec![0; reader.scratch_words()];
            while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
                while let Some(record) = batch.next_record(&VOCABULARY) {
                    all.push((record.id, record.payload.to_vec()));
                }
            }
            let losses = reader.losses();
            assert_eq!((losses.events(), losses.unreadable), (0, 0), "{losses:?}");
        }
        all
    }
}

/// The numbers of callers that what was done may have kept.
fn counts(depth: usize, is_set: bool) -> Vec<usize> {
    let all = CHAINS[depth];
    match depth {
        _ if is_set => vec![1, all],
        2 => vec![PART, all],
        _ => vec![all],
    }
}

/// Does the first act, with the others interrupting it at every step.
fn everywhere(acts: &'static [Act]) {
    let (mut recording, mut trials) = (Recording::start(), 0);
    let mut at = [0; 3];
    loop {
        set(DEPTH);
        let clock = machine(|machine| machine.clock);
        machine(|machine| {
            *machine = Machine {
                acts,
                at,
                steps: [0; 3],
                depth: 0,
                done: Vec::new(),
                clock,
            }
        });
        modelled::on_step(Some(at_step));
        perform(0, acts[0]);
        modelled::on_step(None);
        trials += 1;

        let (steps, done) = machine(|machine| (machine.steps, machine.done.clone()));
        let mut found = recording.read();
        let is_set = done.iter().any(|&(_, act)| act == Act::Set);
        for &(depth, act) in done.iter().filter(|(_, act)| *act != Act::Set) {
            let expected: Vec<(u32, Vec<u32>)> = match act {
                Act::Event => vec![(Beat::ID, vec![depth as u32, check_of(depth as u32)])],
                act => {
                    let id = [EventStack::ID, Sample::ID][usize::from(act == Act::Sample)];
                    let counts = counts(depth, is_set).into_iter();
                    counts.map(|count| (id, words(depth, act, count))).collect()
                }
            };
            let place = found.iter().position(|record| expected.contains(record));
            let place = place.unwrap_or_else(|| {
                panic!("{act:?} at depth {depth} of {acts:?}, steps {at:?}: {found:x?}")
            });
            found.remove(place);
        }
        assert!(found.is_empty(), "{acts:?}, steps {at:?}: {found:x?}");
        let used = SAMPLER.with(|sampler| sampler.cpus[0].used.load(Relaxed));
        assert_eq!(used, 0, "{acts:?}, steps {at:?}: places are in use");

        let inner = 0..acts.len() - 1;
        let Some(next) = inner.rev().find(|&depth| at[depth] < steps[depth]) else {
            break;
        };
        at[next] += 1;
        at[next + 1..].fill(0);
    }
    println!("{acts:?}: {trials} trials");
}

#[test]
fn a_sample_at_every_step_of_a_sample() {
    everywhere(&[Act::Sample, Act::Sample]);
    everywhere(&[Act::Sample, Act::Sample, Act::Sample]);
}

/// An event is in another channel than samples; its callers are in the same one.
#[test]
fn a_sample_at_every_step_of_an_event() {
    everywhere(&[Act::Event, Act::Sample]);
    everywhere(&[Act::Event, Act::Sample, Act::Sample]);
    everywhere(&[Act::Stack, Act::Sample]);
    everywhere(&[Act::Stack, Act::Sample, Act::Sample]);
}

/// An NMI may record events of its own too.
#[test]
fn an_event_at_every_step_of_a_sample() {
    everywhere(&[Act::Sample, Act::Event]);
    everywhere(&[Act::Sample, Act::Stack, Act::Sample]);
}

/// A sample that has begun keeps to the depth that it has found.
#[test]
fn settings_change_at_every_step_of_a_sample() {
    everywhere(&[Act::Sample, Act::Set]);
    everywhere(&[Act::Sample, Act::Sample, Act::Set]);
}

/// On 32-bit processors, whoever loads the period while it is set, on another CPU or in an
/// interrupt, gets the earlier or the new one, however different their halves are.
#[test]
fn a_period_is_never_torn() {
    explore("period", 3, || {
        const PERIODS: [u64; 3] = [(4 << 31) + 5, 7, (9 << 31) + 1];
        let period = Arc::new(Settled::new(PERIODS[0]));
        period.watch();
        let read = period.clone();
        let reader = loom::thread::spawn(move || read.load(Relaxed));
        PERIODS[1..]
            .iter()
            .for_each(|&value| period.store(value, Relaxed));
        let found = reader.join().unwrap();
        assert!(PERIODS.contains(&found), "{found:#x} of {PERIODS:x?}");
        assert_eq!(period.load(Relaxed), PERIODS[2]);
    });
}
