//! A sample is stopped after every instruction, as an NMI may find it, and there another is taken;
//! so is an event, and the callers of one.
//!
//! # Method
//! As in `nesting.rs`: the trap flag makes the processor raise SIGTRAP after each instruction of
//! the real [`Tracer::sample`]. The handler takes a sample of its own, and some of these are
//! stepped, and interrupted, in turn.
//!
//! # The invariant
//! Each leaves one whole record in its channel. Two samples that interrupt each other keep all
//! their callers; a third keeps them too, or has no place for any and says so. Afterwards the
//! places are free again: the next trial finds them so.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use kymo::event::Event;
use kymo::platform::{ByPointer, Control, ControlPointer, LocalCas, Platform};
use kymo::ring::reader::{ChannelReader, Region, View};
use kymo::sample::{Interrupted, Memory as Stacks, Registers, Sampler, Window};
use kymo::vocabulary::{ChainEnd, CpuMode, EventStack, MAX_CALLERS, Sample};
use kymo::{ChannelKind, Clock, Config, Memory, Overflow, Session, Tid, Tracer, Vocabulary};

kymo::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
static VOCABULARY: Vocabulary = kymo::vocabulary![Short, Sample, EventStack];

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Event,
    Sample,
    Callers,
}

/// Of every chain.
const CALLERS: usize = 3;
const TEXT: usize = 0x1000;
/// Samples that interrupt each other here, the first included.
const LEVELS: usize = 3;

/// The stack of what is done at each level: frames one behind the other.
static STACKS: [[AtomicUsize; 2 * CALLERS]; LEVELS] =
    [const { [const { AtomicUsize::new(0) }; 2 * CALLERS] }; LEVELS];

fn caller(level: usize, index: usize) -> usize {
    TEXT * (level + 1) + index
}

fn frame_pointer(level: usize, frame: usize) -> usize {
    STACKS[level]
        .as_ptr()
        .wrapping_add(2 * frame)
        .expose_provenance()
}

fn fill_stacks() {
    for (level, stack) in STACKS.iter().enumerate() {
        for frame in 0..CALLERS {
            let is_last = frame + 1 == CALLERS;
            let next = if is_last {
                0
            } else {
                frame_pointer(level, frame + 1)
            };
            stack[2 * frame].store(next, Relaxed);
            stack[2 * frame + 1].store(caller(level, frame), Relaxed);
        }
    }
}

struct Level(usize);

impl Stacks for Level {
    fn kernel_text(&self) -> std::ops::Range<usize> {
        TEXT..TEXT * (LEVELS + 1)
    }

    fn kernel_stack(&self, _: usize) -> Option<Window> {
        let words = STACKS[self.0].as_ptr_range();
        let range = words.start.addr()..words.end.addr();
        // SAFETY: a static.
        Some(unsafe { Window::new(range, words.start.cast()) })
    }
}

/// What the platform, the handler and the test share, one a thread as the trap flag is. See
/// `nesting.rs`.
struct Machine {
    control: Cell<*const Control>,
    clock: AtomicU64,
    sampler: Sampler<1>,
    acts: Cell<[Option<Act>; LEVELS]>,
    level: Cell<usize>,
    /// The instruction of each level at which the next comes, if any, and how many there were.
    at: Cell<[u64; LEVELS]>,
    steps: [Cell<u64>; LEVELS],
    /// What was done at each level. Stepped code sets these: one store each.
    done: [Cell<Option<Act>>; LEVELS],
    refused: Cell<bool>,
}

thread_local! {
    static MACHINE: Machine = const {
        Machine {
            control: Cell::new(std::ptr::null()),
            clock: AtomicU64::new(1000),
            sampler: Sampler::new(),
            acts: Cell::new([None; LEVELS]),
            level: Cell::new(0),
            at: Cell::new([0; LEVELS]),
            steps: [const { Cell::new(0) }; LEVELS],
            done: [const { Cell::new(None) }; LEVELS],
            refused: Cell::new(false),
        }
    };
}
const _: () = assert!(!std::mem::needs_drop::<Machine>());

struct Block;
// SAFETY: each test thread has memory of its own, which is leaked.
unsafe impl ControlPointer for Block {
    fn get() -> *const Control {
        MACHINE.with(|machine| machine.control.get())
    }
}

struct Stepped;
// SAFETY: see `Block`. What nests runs to its end inside of what it interrupts.
unsafe impl Platform for Stepped {
    type Reserve = LocalCas;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        MACHINE.with(|machine| machine.clock.fetch_add(1, Relaxed))
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        MACHINE.with(|machine| machine.level.get() as u32)
    }
}
type Kymo = Tracer<Stepped>;

impl Machine {
    fn perform(&self, level: usize) {
        let Some(act) = self.acts.get()[level] else {
            return;
        };
        self.done[level].set(Some(act));
        let at = interrupted(level);
        let seq = level as u32;
        let is_recorded = match act {
            Act::Event => Kymo::record(Short { seq, check: !seq }),
            Act::Sample => Kymo::sample(&self.sampler, 0, &at, &Level(level)),
            Act::Callers => {
                let event = (seq, at.registers.fp);
                Kymo::event_stack(&self.sampler, 0, event, at.tid, &Level(level))
            }
        };
        if !is_recorded {
            self.refused.set(true);
        }
    }

    fn between_instructions(&self) {
        let level = self.level.get();
        let steps = self.steps[level].get() + 1;
        self.steps[level].set(steps);
        if steps == self.at.get()[level] {
            self.level.set(level + 1);
            if self.at.get()[level + 1] > 0 {
                step(level + 1);
            } else {
                self.perform(level + 1);
            }
            self.level.set(level);
        }
    }
}

fn interrupted(level: usize) -> Interrupted {
    Interrupted {
        registers: Registers {
            ip: 0x77 + level,
            fp: frame_pointer(level, 0),
        },
        mode: CpuMode::Kernel,
        tid: Tid(5 + level as u32),
        period: (level as u64) << 33 | 9,
        missed: 1 << level,
    }
}

/// Performs what is to be done at this level with a trap after each instruction.
#[inline(never)]
fn step(level: usize) {
    // SAFETY: sets the trap flag, nothing else; `on_trap` is installed. Not `nostack`, so the stack
    // is there to push on.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    MACHINE.with(|machine| machine.perform(level));
    // SAFETY: clears it again.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// Neither panics nor allocates.
extern "C" fn on_trap(_: libc::c_int) {
    MACHINE.with(Machine::between_instructions);
}

fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        fill_stacks();
        // SAFETY: all zero is a valid `sigaction`: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_trap as extern "C" fn(libc::c_int) as usize;
        // Handlers nest.
        action.sa_flags = libc::SA_NODEFER;
        // SAFETY: `on_trap` touches thread-local cells and the ring's memory, as `nesting.rs` says.
        let status = unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) };
        assert_eq!(status, 0, "SIGTRAP cannot be handled");
    });
}

/// The words of what was done at this level, with all callers or none.
fn words(level: usize, act: Act, is_cut: bool) -> (u32, Vec<u32>) {
    let at = interrupted(level);
    let count = if is_cut { 0 } else { CALLERS };
    let end = if is_cut {
        ChainEnd::Cut
    } else {
        ChainEnd::Complete
    } as u32;
    let callers = (0..count).map(|index| caller(level, index) as u32);
    let callers: Vec<u32> = callers.flat_map(|low| [low, 0]).collect();
    let (cut, seq) = (u32::from(is_cut) << 31, level as u32);
    match act {
        Act::Event => (Short::ID, vec![seq, !seq]),
        Act::Sample => {
            let [low, high] = [at.period as u32, (at.period >> 32) as u32];
            let chain = (CpuMode::Kernel as u32) | (count as u32) << 8 | end << 16;
            let ip = at.registers.ip as u32;
            let len = count as u32 | cut;
            let fields = [ip, 0, at.tid.0, low, high, at.missed, chain, len];
            (Sample::ID, [&fields[..], &callers].concat())
        }
        Act::Callers => {
            let ip = callers.first().copied().unwrap_or(0);
            let count = count.saturating_sub(1) as u32;
            let fields = [seq, ip, 0, at.tid.0, count | end << 8, count | cut];
            let behind = callers.get(2..).unwrap_or_default();
            (EventStack::ID, [&fields[..], behind].concat())
        }
    }
}

struct Recording {
    session: Session<Stepped>,
    readers: [ChannelReader; 2],
}

impl Recording {
    fn start() -> Recording {
        install_handler();
        let layout = std::alloc::Layout::from_size_align(1 << 20, 4096).unwrap();
        // SAFETY: the size is not zero; the memory is never freed.
        let memory = unsafe { Memory::new(std::alloc::alloc_zeroed(layout), layout.size(), 1) };
        let config = Config {
            cpus: 1,
            packet_size: 4096,
            packets: 4,
            names_packets: 4,
            samples_packets: 4,
            overflow: Overflow::Overwrite,
            clock: Clock::at(1_000_000_000),
            hosted: true,
            ..Config::DEFAULT
        };
        MACHINE.with(|machine| machine.control.set(memory.control(0)));
        let session = Kymo::start(memory, &config, &VOCABULARY).unwrap();
        let live = session.live();
        let region = Region::open(&live).unwrap();
        let readers = [ChannelKind::Events, ChannelKind::Samples]
            .map(|kind| region.channel(&live, 0, kind).unwrap());
        Recording { session, readers }
    }

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

    /// Steps the first, with the others at these instructions. Gives how many instructions the
    /// first two have.
    fn trial(&mut self, acts: [Option<Act>; LEVELS], at: [u64; 2]) -> [u64; 2] {
        let (steps, done) = MACHINE.with(|machine| {
            machine.acts.set(acts);
            machine.at.set([at[0], at[1], 0]);
            machine.steps.iter().for_each(|steps| steps.set(0));
            machine.done.iter().for_each(|done| done.set(None));
            step(0);
            assert!(!machine.refused.get(), "{acts:?} at {at:?}: not recorded");
            (
                machine.steps.each_ref().map(Cell::get),
                machine.done.each_ref().map(Cell::get),
            )
        });
        let mut found = self.read();
        for (level, act) in done.into_iter().enumerate() {
            let Some(act) = act else { continue };
            let all = words(level, act, false);
            // Two have taken all places.
            let none = (level == 2).then(|| words(level, act, true));
            let place = found
                .iter()
                .position(|it| *it == all || none.as_ref() == Some(it));
            let place =
                place.unwrap_or_else(|| panic!("{act:?} of {acts:?} at {at:?}: {found:x?}"));
            found.remove(place);
        }
        assert!(found.is_empty(), "{acts:?} at {at:?}: {found:x?}");
        [steps[0], steps[1]]
    }
}

/// One comes at every instruction of the first; one more at some instruction of that.
fn everywhere(first: Act, second: Act, third: Act) {
    let mut recording = Recording::start();
    let (mut at, mut random) = (1, 1_u64);
    loop {
        let [steps, _] = recording.trial([Some(first), Some(second), None], [at, 0]);
        if steps < at {
            assert!(steps > 20, "the trap flag does nothing here");
            break;
        }
        if at % 5 == 0 {
            // As many as `second` has, roughly, when it is alone.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let inner = 1 + (random >> 33) % steps;
            recording.trial([Some(first), Some(second), Some(third)], [at, inner]);
        }
        at += 1;
    }
    println!("{first:?}, {second:?}, {third:?}: {at} instructions");
}

const _: () = assert!(CALLERS < MAX_CALLERS);

#[test]
fn a_sample_at_every_instruction_of_a_sample() {
    everywhere(Act::Sample, Act::Sample, Act::Sample);
}

#[test]
fn a_sample_at_every_instruction_of_an_event() {
    everywhere(Act::Event, Act::Sample, Act::Sample);
    everywhere(Act::Callers, Act::Sample, Act::Sample);
}

#[test]
fn an_event_at_every_instruction_of_a_sample() {
    everywhere(Act::Sample, Act::Event, Act::Sample);
    everywhere(Act::Sample, Act::Callers, Act::Sample);
}
