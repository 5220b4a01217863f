use std::cell::Cell;

use super::*;
use crate::channel::ChannelKind;
use crate::event::Vocabulary;
use crate::ring::config::Config;
use crate::ring::layout::{Clock, Overflow};
use crate::ring::masked::Masked;
use crate::ring::reader::{Region, View};
use crate::session::Session;
use crate::thread_cpu::{BLOCK, NoInterrupts, OneThread, leaked};
use crate::vocabulary::Address;
use core::ops::Range;

static VOCABULARY: Vocabulary = crate::vocabulary![Sample, EventStack, Sampling];

const WORD: usize = size_of::<usize>();
const KERNEL: Range<usize> = 0x1000..0x2000;
const USER: Range<usize> = 0x4_0000..0x5_0000;
/// Where the program's stack begins, for the program.
const USER_STACK: usize = 0x70_0000;

/// Memory made of a kernel stack, and of a program's pages that lie elsewhere.
struct Made {
    kernel: Box<[usize]>,
    user: Box<[usize]>,
    /// Words of the program's stack that are mapped, in pages of four words.
    mapped: Range<usize>,
    registers: Option<Registers>,
    link: Option<usize>,
    /// Called at each look at the kernel stack.
    interrupt: Option<fn(&Made)>,
}

impl Made {
    fn new() -> Made {
        Made {
            kernel: vec![0; 64].into(),
            user: vec![0; 64].into(),
            mapped: 0..64,
            registers: None,
            link: None,
            interrupt: None,
        }
    }

    fn kernel_address(&self, word: usize) -> usize {
        self.kernel.as_ptr() as usize + WORD * word
    }

    /// Writes frames at these words of the kernel stack, which return to code at 0x1000 + the word.
    /// Gives the frame pointer of the first.
    fn kernel_chain(&mut self, words: &[usize]) -> usize {
        for (index, &word) in words.iter().enumerate() {
            let next = words.get(index + 1);
            self.kernel[word] = next.map_or(0, |&next| self.kernel_address(next) + TO_POINTER);
            self.kernel[word + 1] = KERNEL.start + word;
        }
        self.kernel_address(words[0]) + TO_POINTER
    }

    /// Writes frames to the program's stack, which return to code at 0x4_0000 + the word.
    fn user_chain(&mut self, words: &[usize]) -> usize {
        for (index, &word) in words.iter().enumerate() {
            let next = words.get(index + 1);
            self.user[word] = next.map_or(0, |&next| USER_STACK + WORD * next + TO_POINTER);
            self.user[word + 1] = USER.start + word;
        }
        USER_STACK + WORD * words[0] + TO_POINTER
    }
}

/// From a frame's words to where its frame pointer points, by the calling convention.
const TO_POINTER: usize = if cfg!(any(target_arch = "riscv64", target_arch = "riscv32")) {
    2 * WORD
} else {
    0
};

impl Memory for Made {
    fn kernel_text(&self) -> Range<usize> {
        KERNEL
    }

    fn kernel_stack(&self, address: usize) -> Option<Window> {
        if let Some(interrupt) = self.interrupt {
            interrupt(self);
        }
        let range = self.kernel_address(0)..self.kernel_address(64);
        // SAFETY: the array.
        range
            .contains(&address)
            .then(|| unsafe { Window::new(range, self.kernel.as_ptr().cast()) })
    }

    fn link(&self) -> Option<usize> {
        self.link
    }

    fn user_registers(&self) -> Option<Registers> {
        self.registers
    }

    fn user_text(&self) -> Range<usize> {
        USER
    }

    fn user_stack(&self, address: usize) -> Option<Window> {
        let word = address.checked_sub(USER_STACK)? / WORD;
        let page = word / 4 * 4;
        let page = page.max(self.mapped.start)..(page + 4).min(self.mapped.end);
        let addresses = USER_STACK + WORD * page.start..USER_STACK + WORD * page.end;
        let at = self.user.get(page)?.as_ptr().cast();
        // SAFETY: a part of the array.
        Some(unsafe { Window::new(addresses, at) })
    }
}

/// What a chain of at most `depth` callers is found to be: the callers, how many of them are the
/// kernel's, and how its parts end.
fn found(
    made: &Made,
    depth: usize,
    fp: usize,
    is_user: bool,
) -> (Vec<usize>, usize, [ChainEnd; 2]) {
    let places: Vec<AtomicUsize> = (0..depth).map(|_| AtomicUsize::new(7)).collect();
    let mut callers = Callers::new(&places);
    let ip = 0x1234;
    let chain = unwind(&mut callers, Registers { ip, fp }, is_user, made);
    let callers = callers.found().iter().map(|place| place.load(Relaxed));
    let ends = [chain.kernel_end, chain.user_end];
    (callers.collect(), chain.kernel_callers, ends)
}

use ChainEnd::{Absent, Complete, Cut, Misaligned, NotCode, NotRising, Unmapped};

/// A function that calls none may have stored the caller's frame pointer alone: the link register
/// has the return address. It counts for the first frame only, and only if the rest fits.
#[test]
fn the_link_register_has_the_caller_of_a_leaf() {
    let mut made = Made::new();
    let caller = made.kernel_chain(&[10, 20]);
    // The frame of the leaf: a word of anything, then the caller's frame pointer.
    (made.kernel[4], made.kernel[5]) = (0x77, caller);
    let fp = made.kernel_address(4) + TO_POINTER;
    let ends = |kernel| [kernel, ChainEnd::Absent];
    let broken = (vec![], 0, ends(ChainEnd::NotCode));
    assert_eq!(found(&made, 9, fp, false), broken);
    made.link = Some(KERNEL.end);
    assert_eq!(found(&made, 9, fp, false), broken);
    made.link = Some(KERNEL.start + 0x123);
    let all = vec![KERNEL.start + 0x123, KERNEL.start + 10, KERNEL.start + 20];
    let complete = ends(ChainEnd::Complete);
    assert_eq!(found(&made, 9, fp, false), (all.clone(), 3, complete));
    assert_eq!(
        found(&made, 1, fp, false),
        (all[..1].to_vec(), 1, ends(ChainEnd::Cut))
    );
    // A function that has stored its return address.
    assert_eq!(
        found(&made, 9, caller, false),
        (all[1..].to_vec(), 2, complete)
    );
    // No other frame is that of a leaf.
    (made.kernel[21], made.kernel[30]) = (made.kernel_address(30) + TO_POINTER, 0);
    assert_eq!(
        found(&made, 9, fp, false),
        (all[..2].to_vec(), 2, ends(ChainEnd::NotCode))
    );
    // What stands there leads downwards, or off the stack.
    for wrong in [fp, fp - 2 * WORD, made.kernel_address(64)] {
        made.kernel[5] = wrong;
        assert_eq!(found(&made, 9, fp, false), broken);
    }
}

#[test]
fn a_chain_is_followed_to_its_end_and_cut_at_the_depth() {
    let mut made = Made::new();
    let fp = made.kernel_chain(&[2, 8, 20]);
    let all = vec![0x1002, 0x1008, 0x1014];
    assert_eq!(
        found(&made, 9, fp, false),
        (all.clone(), 3, [Complete, Absent])
    );
    // There are as many as there is place for: nothing is cut.
    assert_eq!(
        found(&made, 3, fp, false),
        (all.clone(), 3, [Complete, Absent])
    );
    assert_eq!(
        found(&made, 2, fp, false),
        (all[..2].to_vec(), 2, [Cut, Absent])
    );
    assert_eq!(found(&made, 0, fp, false), (vec![], 0, [Cut, Absent]));
    assert_eq!(found(&made, 9, 0, false), (vec![], 0, [Complete, Absent]));
    // A return address of zero ends a chain as a frame pointer of zero does.
    made.kernel[21] = 0;
    assert_eq!(
        found(&made, 9, fp, false),
        (all[..2].to_vec(), 2, [Complete, Absent])
    );
}

#[test]
fn a_chain_goes_on_from_the_kernel_into_the_program() {
    let mut made = Made::new();
    let fp = made.user_chain(&[2, 4, 9, 30]);
    let program = [
        USER.start + 2,
        USER.start + 4,
        USER.start + 9,
        USER.start + 30,
    ];
    assert_eq!(
        found(&made, 9, fp, true),
        (program.to_vec(), 0, [Absent, Complete])
    );
    assert_eq!(
        found(&made, 3, fp, true),
        (program[..3].to_vec(), 0, [Absent, Cut])
    );
    made.registers = Some(Registers {
        ip: USER.start + 1,
        fp,
    });
    let kernel = made.kernel_chain(&[2, 8]);
    let mut both = vec![0x1002, 0x1008, USER.start + 1];
    both.extend(program);
    assert_eq!(
        found(&made, 9, kernel, false),
        (both.clone(), 2, [Complete, Complete])
    );
    assert_eq!(
        found(&made, 7, kernel, false),
        (both.clone(), 2, [Complete, Complete])
    );
    assert_eq!(
        found(&made, 3, kernel, false),
        (both[..3].to_vec(), 2, [Complete, Cut])
    );
    assert_eq!(
        found(&made, 2, kernel, false),
        (both[..2].to_vec(), 2, [Complete, Cut])
    );
    // Without the kernel's part, the program's would seem to have called what was found.
    assert_eq!(
        found(&made, 1, kernel, false),
        (both[..1].to_vec(), 1, [Cut, Absent])
    );
    // What stands where the program's registers would be is none of its code.
    let kept = made.registers.replace(Registers { ip: 0x77, fp });
    assert_eq!(
        found(&made, 9, kernel, false),
        (both[..2].to_vec(), 2, [Complete, NotCode])
    );
    made.registers = kept;
    // A broken part in the kernel does not hide the program's, whose beginning is known.
    made.kernel[9] = 0x9999;
    assert_eq!(found(&made, 9, kernel, false).2, [NotCode, Complete]);
}

#[test]
fn a_broken_chain_ends_where_it_breaks_and_says_why() {
    let ends = |made: &Made, fp| {
        let (callers, of_them, [end, user]) = found(made, 9, fp, false);
        assert_eq!((callers.len(), user), (of_them, Absent));
        (of_them, end)
    };
    let mut made = Made::new();
    let fp = made.kernel_chain(&[2, 8, 20]);
    assert_eq!(ends(&made, fp + 1), (0, Misaligned));
    assert_eq!(ends(&made, 8), (0, Unmapped));
    assert_eq!(ends(&made, usize::MAX - WORD + 1), (0, Unmapped));
    // The last word of the stack is no place for two.
    let last = made.kernel_address(63) + TO_POINTER;
    assert_eq!(ends(&made, last), (0, Unmapped));
    made.kernel[62] = 0;
    made.kernel[63] = KERNEL.start;
    assert_eq!(ends(&made, last - WORD), (1, Complete));

    for (frame, pointer, end) in [
        (8, made.kernel_address(20) + TO_POINTER + 2, Misaligned),
        (8, 0x10, Unmapped),
        (8, made.kernel_address(64) + TO_POINTER, Unmapped),
        (8, usize::MAX - 7, Unmapped),
        // To itself, and to one before.
        (8, made.kernel_address(8) + TO_POINTER, NotRising),
        (8, made.kernel_address(2) + TO_POINTER, NotRising),
    ] {
        let fp = made.kernel_chain(&[2, 8, 20]);
        made.kernel[frame] = pointer;
        assert_eq!(ends(&made, fp), (2, end), "{pointer:#x}");
    }
    for address in [KERNEL.start - 1, KERNEL.end, usize::MAX, 1] {
        let fp = made.kernel_chain(&[2, 8, 20]);
        made.kernel[9] = address;
        assert_eq!(ends(&made, fp), (1, NotCode), "{address:#x}");
    }
}

/// A program cannot make the kernel read what is not mapped for it, nor have it run in circles.
#[test]
fn a_programs_stack_is_read_where_it_is_mapped() {
    let mut made = Made::new();
    made.mapped = 8..22;
    let fp = made.user_chain(&[9, 14, 20, 30]);
    let (callers, _, ends) = found(&made, 9, fp, true);
    assert_eq!((callers.len(), ends), (3, [Absent, Unmapped]));
    // One word of the frame is on a page that is not mapped.
    let fp = made.user_chain(&[9, 21]);
    assert_eq!(found(&made, 9, fp, true).2, [Absent, Unmapped]);
    let fp = made.user_chain(&[9, 14, 11]);
    let (callers, _, ends) = found(&made, 9, fp, true);
    assert_eq!((callers.len(), ends), (2, [Absent, NotRising]));
    // Not even the kernel's own stack, whose address a program may have guessed.
    let fp = made.kernel_chain(&[2, 8]);
    assert_eq!(found(&made, 9, fp, true), (vec![], 0, [Absent, Unmapped]));
}

type Kymo = Tracer<OneThread<Masked<NoInterrupts>>>;

fn start() -> Session<OneThread<Masked<NoInterrupts>>> {
    let config = Config {
        cpus: 1,
        packet_size: 4096,
        packets: 4,
        names_packets: 4,
        samples_packets: 16,
        overflow: Overflow::Discard,
        clock: Clock::at(1_000_000),
        hosted: true,
        ..Config::DEFAULT
    };
    let memory = leaked(1 << 20, 1);
    BLOCK.set(memory.control(0));
    Kymo::start(memory, &config, &VOCABULARY).unwrap()
}

/// The records of the samples' channel: id and words.
fn records(session: &Session<OneThread<Masked<NoInterrupts>>>) -> Vec<(u32, Vec<u32>)> {
    let live = session.live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, ChannelKind::Samples).unwrap();
    let (mut all, mut scratch) = (Vec::new(), vec![0; reader.scratch_words()]);
    while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
        while let Some(record) = batch.next_record(&VOCABULARY) {
            all.push((record.id, record.payload.to_vec()));
        }
    }
    all
}

fn interrupted(fp: usize, mode: CpuMode) -> Interrupted {
    Interrupted {
        registers: Registers {
            ip: 0x7_0000_1234_u64 as usize,
            fp,
        },
        mode,
        tid: Tid(5),
        period: 0x3_0000_0007,
        missed: 9,
    }
}

fn encoded<E: Event>(event: E) -> Vec<u32> {
    let (words, len) = event.encode();
    words.as_ref()[..len].to_vec()
}

/// The words of samples are those that the events' declarations describe.
#[test]
fn a_sample_is_the_declared_event() {
    let session = start();
    let sampler: Sampler<1> = Sampler::new();
    let mut made = Made::new();
    made.registers = Some(Registers {
        ip: USER.start + 1,
        fp: 8,
    });
    let fp = made.kernel_chain(&[2, 8, 20]);
    let callers = [0x1002, 0x1008, 0x1014, USER.start as u64 + 1].map(Address);
    let at = interrupted(fp, CpuMode::Kernel);
    assert!(Kymo::sample(&sampler, 0, &at, &made));
    sampler.set(&Sampling {
        depth: 2,
        ..sampler.settings()
    });
    // SAFETY: a test thread has no interrupts.
    assert!(unsafe { Kymo::sample_masked(&sampler, 0, &at, &made) });
    sampler.set(&Sampling {
        depth: 9,
        ..sampler.settings()
    });
    let fp = at.registers.fp;
    assert!(Kymo::event_stack(&sampler, 0, (77, fp), Tid(6), &made));
    assert!(Kymo::event_stack(&sampler, 0, (78, 8), Tid(6), &made));

    let sample = Sample {
        ip: Address(0x7_0000_1234_u64 as usize as u64),
        tid: Tid(5),
        period: 0x3_0000_0007,
        missed: 9,
        mode: CpuMode::Kernel,
        kernel_callers: 3,
        kernel_end: Complete,
        user_end: Unmapped,
        callchain: crate::Sequence::new(&callers),
    };
    let stack = EventStack {
        event: 77,
        ip: callers[0],
        tid: Tid(6),
        kernel_callers: 2,
        kernel_end: Complete,
        user_end: Unmapped,
        callchain: crate::Sequence::new(&callers[1..]),
    };
    let unknown = EventStack {
        event: 78,
        ip: Address(0),
        kernel_callers: 0,
        kernel_end: Unmapped,
        callchain: crate::Sequence::new(&callers[3..]),
        ..stack
    };
    // The depth is reached, and there are more.
    let mut cut = Sample {
        kernel_callers: 2,
        kernel_end: Cut,
        user_end: Absent,
        callchain: crate::Sequence::new(&callers[..2]),
        ..sample
    };
    cut.tid = Tid(5);
    let mut cut = encoded(cut);
    cut[8 - 1] |= 1 << 31;
    assert_eq!(
        records(&session),
        [
            (Sample::ID, encoded(sample)),
            (Sample::ID, cut),
            (EventStack::ID, encoded(stack)),
            (EventStack::ID, encoded(unknown))
        ]
    );
}

#[test]
fn a_programs_chain_that_is_cut_says_so() {
    let session = start();
    let sampler: Sampler<1> = Sampler::new();
    sampler.set(&Sampling {
        depth: 2,
        ..sampler.settings()
    });
    let mut made = Made::new();
    let fp = made.user_chain(&[2, 4, 9]);
    let at = interrupted(fp, CpuMode::User);
    assert!(Kymo::sample(&sampler, 0, &at, &made));
    let (_, words) = records(&session).remove(0);
    assert_eq!(words[6], (Absent as u32) << 16 | (Cut as u32) << 24);
    assert_eq!((words[7], words.len()), (1 << 31 | 2, 8 + 2 * 2));
}

#[test]
fn samples_that_are_off_and_cpus_beyond_the_sampler_do_no_harm() {
    let session = start();
    let sampler: Sampler<1> = Sampler::new();
    let mut made = Made::new();
    let fp = made.kernel_chain(&[2, 8]);
    let at = interrupted(fp, CpuMode::Idle);
    // There is no place for its callers, which it says.
    assert!(Kymo::sample(&sampler, 7, &at, &made));
    let (_, words) = records(&session).remove(0);
    assert_eq!((words.len(), words[7]), (8, 1 << 31));
    assert_eq!(words[6], 2 | (Cut as u32) << 16);
    session.switch(&Sample::SCHEMA, false).unwrap();
    assert!(!Kymo::sample(&sampler, 0, &at, &made));
    assert_eq!(records(&session).len(), 1);
}

thread_local! {
    static SAMPLER: &'static Sampler<1> = Box::leak(Box::new(Sampler::new()));
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A sample that is interrupted by one, which is interrupted by one: each keeps its callers. A
/// third level finds no place for its own, and says so.
#[test]
fn samples_nest() {
    fn again(made: &Made) {
        if DEPTH.get() < 2 {
            DEPTH.set(DEPTH.get() + 1);
            let fp = made.kernel_address(2 + 6 * DEPTH.get() as usize) + TO_POINTER;
            let at = interrupted(fp, CpuMode::Kernel);
            assert!(SAMPLER.with(|sampler| Kymo::sample(sampler, 0, &at, made)));
        }
    }
    let session = start();
    let mut made = Made::new();
    let fp = made.kernel_chain(&[2, 8, 14, 20]);
    made.interrupt = Some(again);
    let at = interrupted(fp, CpuMode::Kernel);
    assert!(SAMPLER.with(|sampler| Kymo::sample(sampler, 0, &at, &made)));
    let callers: Vec<(Vec<u32>, bool)> = records(&session)
        .into_iter()
        .map(|(_, words)| {
            let low = words[8..].chunks(2).map(|pair| pair[0]).collect();
            (low, words[7] >> 31 != 0)
        })
        .collect();
    assert_eq!(
        callers,
        [
            (vec![], true),
            (vec![0x1008, 0x100e, 0x1014], false),
            (vec![0x1002, 0x1008, 0x100e, 0x1014], false),
        ]
    );
    // All of them have given back their places.
    assert!(SAMPLER.with(|sampler| sampler.cpus[0].used.load(Relaxed)) == 0);
}

#[test]
fn intervals_vary_around_the_period() {
    let sampler: Sampler<2> = Sampler::new();
    for period in [1u64, 2, 3, 1000, 1_000_000_007, 1 << 62] {
        sampler.set(&Sampling {
            period,
            ..sampler.settings()
        });
        let next: Vec<u64> = (0..4000).map(|_| sampler.next(0)).collect();
        let bounds = (period - period / 4).max(1)..=period + period / 4 + 1;
        assert!(next.iter().all(|ticks| bounds.contains(ticks)), "{period}");
        let mean = next.iter().map(|&ticks| ticks as f64).sum::<f64>() / 4000.0;
        // Within 1 %, or the rounding of small numbers.
        assert!(
            (mean / period as f64 - 1.0).abs() < 0.01 + 0.5 / period as f64,
            "{period} {mean}"
        );
        if period >= 1000 {
            let fresh: Sampler<2> = Sampler::new();
            fresh.set(&sampler.settings());
            let [one, other] = [0, 1].map(|cpu| [(); 20].map(|()| fresh.next(cpu)));
            assert_ne!(one, other, "CPUs do not keep step");
            let mut kinds = next.clone();
            kinds.sort_unstable();
            kinds.dedup();
            assert!(kinds.len() > 400);
        }
    }
}

/// The longest period that `start` accepts, and a longer one.
#[test]
fn the_longest_period_is_drawn_out_and_no_longer_one_is_taken() {
    let sampler = Sampler::<1>::new();
    for period in [LONGEST_PERIOD, u64::MAX] {
        sampler.set(&Sampling {
            period,
            ..sampler.settings()
        });
        assert_eq!(sampler.settings().period, LONGEST_PERIOD);
        for _ in 0..1_000 {
            let next = sampler.next(0);
            let quarter = LONGEST_PERIOD / 4;
            assert!(next.abs_diff(LONGEST_PERIOD) <= quarter + 1, "{next}");
        }
    }
}
