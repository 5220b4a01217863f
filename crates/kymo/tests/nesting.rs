//! A writer is stopped after every instruction, as an interrupt, a crash or a reader on another CPU
//! may find it.
//!
//! # Method
//! The x86 trap flag makes the processor raise SIGTRAP after each instruction of the real
//! [`Tracer::record`]. The handler runs on the writer's own thread, between two of its
//! instructions, and there
//! - **nests**: further writers run from beginning to end, up to three deep, as interrupts do
//!   (`LocalCas` only: `Masked` has none);
//! - **takes a crash dump**: nobody writes while the handler runs, so the memory as it stands is
//!   what a dump would hold. It is read in place, by a reader of its own, by the rules of dumps;
//! - **reads**: a live reader goes on from where it was, and releases what it read where it is the
//!   session's consumer.
//!
//! Without nesting every instruction of a call is tried, for every number of records before that
//! call up to more than a lap of the ring. With nesting the points are drawn from a seed, which
//! every failure names.
//!
//! # The invariant
//! At every instruction, for calls of `record` that returned and calls in flight (outer and nested
//! ones):
//!
//! > returned <= records in the dump + losses counted <= returned + in flight
//!
//! and every record is there once, with the payload that its call gave it and the time that its
//! call read last. No time is clamped, no packet given up, and nothing is unreadable, but for dumps
//! under nesting: what nested writers recorded stands behind the hole of the writer that died. A
//! live reader never sees any of these, in `Discard` it misses nothing that was recorded, and at
//! rest its count is exact.
//!
//! # Environment
//! - `KYMO_SEED`: the first seed, instead of the fixed one. A failure's own seed repeats it at
//!   once.
//! - `KYMO_NESTING_SECONDS`: how long each of the nested tests goes on drawing, instead of a fixed
//!   number of trials.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kymo::arch::x86_64::{TscCas, tsc};
use kymo::event::Event;
use kymo::platform::{ByPointer, Control, ControlPointer, Interrupts, LocalCas, Masked, Platform};
use kymo::ring::Reserve;
use kymo::ring::layout::CONTROL_OFFSET;
use kymo::ring::reader::{ChannelReader, Losses, Region, View};
use kymo::ring::source::{Consume, Live, Source};
use kymo::{ChannelKind, Clock, Config, Consumer, Memory, Overflow, Tracer, Vocabulary};

// --- What is recorded.

kymo::event! { #[id(21)] struct Short { seq: u32, check: u32 } }
kymo::event! { #[id(40)] struct Medium { seq: u32, check: u32, second: u32, third: u32 } }

static VOCABULARY: Vocabulary = kymo::vocabulary![Short, Medium];

/// Word `index` of the payload of call `seq`, behind the first.
fn check_of(seq: u32, index: u32) -> u32 {
    (seq + index).wrapping_mul(0x9e37_79b9) ^ 0x5bd1_e995
}

/// Two sizes, so that packets end in different ways.
fn is_medium(seq: u32) -> bool {
    seq % 4 == 3
}

/// Bytes of the record of call `seq`, with the usual header.
fn record_size(seq: u32) -> u64 {
    if is_medium(seq) { 24 } else { 12 }
}

/// One call: the code that is stepped.
fn record<R: Writer>(seq: u32) {
    let check = check_of(seq, 1);
    if is_medium(seq) {
        Tracer::<Stepped<R>>::record(Medium {
            seq,
            check,
            second: check_of(seq, 2),
            third: check_of(seq, 3),
        });
    } else {
        Tracer::<Stepped<R>>::record(Short { seq, check });
    }
}

fn is_as_recorded(id: u32, payload: &[u32]) -> Option<u32> {
    let &seq = payload.first()?;
    let (expected_id, words) = if is_medium(seq) {
        (Medium::ID, 4)
    } else {
        (Short::ID, 2)
    };
    let good = id == expected_id
        && payload.len() == words
        && (1..)
            .zip(&payload[1..])
            .all(|(index, &word)| word == check_of(seq, index));
    good.then_some(seq)
}

// --- The machine: one CPU, which is this thread.

const PACKET_SIZE: u32 = 256;
/// Most calls in a trial.
const CALLS: usize = 1024;
/// Nested writers stop here, and leave room for the calls after.
const NESTED_CALLS: u32 = 600;
/// More records than this fit into no packet.
const RECORDS_IN_A_PACKET: u32 = 17;
/// About how many instructions a call takes: on the fast path; to a little behind the swap that
/// opens a packet; to the end of a call that opens one.
const FAST_STEPS: u64 = 90;
const SWAP_STEPS: u64 = 200;
const OPENING_STEPS: u64 = 900;

/// What the platform, the handler and the test share, one a thread as the trap flag is.
///
/// The handler comes between any two instructions of the stepped code, so: no locks, and no borrow
/// that lasts. What stepped code writes is atomic (`clock`, `times`); the cells it only reads, and
/// the handler leaves those as it found them. All other cells are touched by the handler and
/// outside of stepping only. Nothing has a destructor: the first access in a handler allocates
/// nothing.
struct Machine {
    plan: Cell<Plan>,
    record: Cell<fn(u32)>,
    control: Cell<*const Control>,
    clock: AtomicU64,
    /// Whether `times` are filled in.
    knows_times: Cell<bool>,
    /// The time that each call read last.
    times: [AtomicU64; CALLS],
    /// The innermost call; [`CALLS`] outside of any.
    current: Cell<usize>,
    /// How many handlers are at work: how deep the innermost call is nested.
    depth: Cell<u32>,

    calls: Cell<u32>,
    returned: Cell<u64>,
    in_flight: Cell<u64>,
    steps: Cell<u64>,
    random: Cell<Random>,
    memory: Cell<Option<Live>>,
    /// A reader at the channel's beginning, to be copied.
    beginning: Cell<Option<ChannelReader>>,
    reader: Cell<Option<ChannelReader>>,
    read: Cell<Seen>,
    failure: Cell<Option<Failure>>,
}

thread_local! {
    static MACHINE: Machine = const {
        Machine {
            plan: Cell::new(Plan::NONE),
            record: Cell::new(|_| {}),
            control: Cell::new(std::ptr::null()),
            clock: AtomicU64::new(0),
            knows_times: Cell::new(true),
            times: [const { AtomicU64::new(0) }; CALLS],
            current: Cell::new(CALLS),
            depth: Cell::new(0),
            calls: Cell::new(0),
            returned: Cell::new(0),
            in_flight: Cell::new(0),
            steps: Cell::new(0),
            random: Cell::new(Random(0)),
            memory: Cell::new(None),
            beginning: Cell::new(None),
            reader: Cell::new(None),
            read: Cell::new(Seen::NONE),
            failure: Cell::new(None),
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

/// A way to reserve, and the clock that goes with it.
trait Writer: Reserve + 'static {
    /// Whether the clock is the test's own, which knows what each call has read. Else it is the
    /// processor's.
    const KNOWS_TIMES: bool = true;
}
impl Writer for LocalCas {}
impl Writer for Masked<NoInterrupts> {}
impl Writer for TscCas {
    const KNOWS_TIMES: bool = false;
}

struct Stepped<R>(PhantomData<R>);
// SAFETY: see `Block`. A nested writer runs to its end inside of the outer one, as an interrupt
// does; with `Masked` none runs.
unsafe impl<R: Writer> Platform for Stepped<R> {
    type Reserve = R;
    type Local = ByPointer<Block>;
    fn clock() -> u64 {
        if R::KNOWS_TIMES {
            MACHINE.with(Machine::tick)
        } else {
            tsc()
        }
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        MACHINE.with(|machine| machine.depth.get())
    }
}

struct NoInterrupts;
// SAFETY: no trial with `Masked` nests.
unsafe impl Interrupts for NoInterrupts {
    fn mask() -> usize {
        0
    }
    fn restore(_: usize) {}
}

/// What one trial does. Everything else follows from it.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    overflow: Overflow,
    consumer: Consumer,
    packets: u32,
    /// Ticks from one reading of the clock to the next.
    rate: u64,
    /// Calls before the stepped one.
    prefill: u32,
    /// Whether more calls follow, until the next one is going to open a packet.
    prefill_to_the_end: bool,
    /// How deep nested writers go; 0 for none.
    depth: u32,
    /// The instruction of the outer call after which nested writers run.
    nest_at: u64,
    /// How many nested writers run there, one after the other.
    burst: u32,
    /// A dump is taken at one boundary in this many, 0 for none; with nesting only from `nest_at`
    /// on.
    dump_one_in: u64,
    /// A live read is made at one boundary in this many, 0 for none.
    live_one_in: u64,
}

impl Plan {
    const NONE: Plan = Plan {
        seed: 0,
        overflow: Overflow::Discard,
        consumer: Consumer::None,
        packets: 4,
        rate: 1,
        prefill: 0,
        prefill_to_the_end: false,
        depth: 0,
        nest_at: 0,
        burst: 0,
        dump_one_in: 0,
        live_one_in: 0,
    };

    fn config(&self) -> Config {
        Config {
            cpus: 1,
            packet_size: PACKET_SIZE,
            packets: self.packets,
            names_packets: 4,
            overflow: self.overflow,
            consumer: self.consumer,
            clock: Clock::at(1_000_000_000),
            seed: 1,
            hosted: true,
            ..Config::DEFAULT
        }
    }
}

/// A small generator of numbers (SplitMix64), the same on every run.
#[derive(Clone, Copy)]
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.next(N as u64) as usize]
    }

    fn one_in(&mut self, of: u64) -> bool {
        of > 0 && self.next(of) == 0
    }
}

/// Calls whose records were seen.
#[derive(Clone, Copy)]
struct Seen([u64; CALLS / 64]);

impl Seen {
    const NONE: Seen = Seen([0; CALLS / 64]);

    /// Returns `false` if the call was there already, or cannot be.
    fn insert(&mut self, seq: u32) -> bool {
        let Some(word) = self.0.get_mut(seq as usize / 64) else {
            return false;
        };
        let bit = 1 << (seq % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Where it went wrong. Plain values, for the handler neither panics nor allocates.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "read by Debug")]
struct Failure {
    what: &'static str,
    why: Fault,
    step: u64,
    depth: u32,
    calls: u32,
}

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "read by Debug")]
enum Fault {
    /// The reader was led out of the memory.
    Outside,
    /// A record that no call made.
    Record { id: u32, first_word: Option<u32> },
    /// A record came twice.
    Twice(u32),
    /// A record does not have the time that its call read.
    Time { seq: u32, found: u64, read: u64 },
    /// Something that must not have happened at all.
    Losses(Losses),
    /// The invariant.
    Sum {
        records: u64,
        losses: Losses,
        returned: u64,
        in_flight: u64,
    },
}

/// Uses the value in a cell. No stepped code runs meanwhile, so nobody finds the cell empty.
fn with<T, V>(cell: &Cell<Option<T>>, f: impl FnOnce(&mut T) -> V) -> V {
    let mut value = cell.take().expect("a trial runs");
    let result = f(&mut value);
    cell.set(Some(value));
    result
}

impl Machine {
    // --- Calls.

    fn tick(&self) -> u64 {
        let rate = self.plan.get().rate;
        // One instruction: a nested writer's reading is never taken back.
        let now = self.clock.fetch_add(rate, Relaxed) + rate;
        if let Some(time) = self.times.get(self.current.get()) {
            time.store(now, Relaxed);
        }
        now
    }

    fn random<V>(&self, draw: impl FnOnce(&mut Random) -> V) -> V {
        let mut random = self.random.get();
        let value = draw(&mut random);
        self.random.set(random);
        value
    }

    /// One call of `record`, stepped or not.
    fn call(&self, stepped: bool) {
        let seq = self.calls.get();
        self.calls.set(seq + 1);
        self.in_flight.set(self.in_flight.get() + 1);
        let outer = self.current.replace(seq as usize);
        let record = self.record.get();
        if stepped {
            step(record, seq)
        } else {
            record(seq)
        }
        self.current.set(outer);
        self.in_flight.set(self.in_flight.get() - 1);
        self.returned.set(self.returned.get() + 1);
    }

    fn calls(&self, count: u32) {
        for _ in 0..count {
            self.call(false);
        }
    }

    /// `LocalCas`: whether the next call finds no room in the open packet. The position is the
    /// first word of the control block.
    fn next_opens_a_packet(&self) -> bool {
        let pos = with(&self.memory, |memory| {
            memory.load_long(CONTROL_OFFSET as u64)
        })
        .expect("inside");
        let packet_size = u64::from(PACKET_SIZE);
        pos % packet_size + record_size(self.calls.get()) > packet_size - 4
    }

    // --- Between two instructions.

    fn between_instructions(&self) {
        let depth = self.depth.get() + 1;
        self.depth.set(depth);
        if depth == 1 {
            self.steps.set(self.steps.get() + 1);
        }
        self.nest(depth);
        self.look();
        self.depth.set(depth - 1);
    }

    /// Writers that interrupt the one that is stepped. Some of them are stepped, and interrupted,
    /// in turn.
    fn nest(&self, depth: u32) {
        let plan = self.plan.get();
        let burst = match depth {
            _ if depth > plan.depth => 0,
            1 if self.steps.get() == plan.nest_at => plan.burst,
            1 => 0,
            _ => self.random(|random| {
                if random.one_in(40) {
                    random.pick([1, 2, 20, 45])
                } else {
                    0
                }
            }),
        };
        for _ in 0..burst {
            if self.calls.get() < NESTED_CALLS {
                self.call(depth < plan.depth && self.random(|random| random.one_in(8)));
            }
        }
    }

    fn look(&self) {
        let plan = self.plan.get();
        let dump = self.steps.get() >= plan.nest_at
            && self.random(|random| random.one_in(plan.dump_one_in));
        let live = self.random(|random| random.one_in(plan.live_one_in));
        if dump {
            self.note("a dump", self.dump());
        }
        if live {
            self.note("a live read", self.read());
        }
    }

    /// Keeps the first failure.
    fn note(&self, what: &'static str, result: Result<(), Fault>) {
        if let (Err(why), None) = (result, self.failure.get()) {
            let (step, depth, calls) = (self.steps.get(), self.depth.get(), self.calls.get());
            self.failure.set(Some(Failure {
                what,
                why,
                step,
                depth,
                calls,
            }));
        }
    }

    // --- Readers.

    /// The machine dies here: what does its memory say?
    fn dump(&self) -> Result<(), Fault> {
        let mut reader = with(&self.beginning, |beginning| beginning.clone());
        let mut seen = Seen::NONE;
        self.walk(&mut reader, View::PostMortem, &mut seen)?;
        let losses = reader.losses();
        let holes = if self.plan.get().depth > 0 {
            losses.unreadable
        } else {
            0
        };
        nothing_spoilt(&Losses {
            unreadable: losses.unreadable - holes,
            ..losses
        })?;
        self.account(seen.count(), losses)
    }

    /// The live reader goes on.
    fn read(&self) -> Result<(), Fault> {
        let plan = self.plan.get();
        let mut seen = self.read.get();
        with(&self.reader, |reader| {
            let result = self.walk(reader, View::Live, &mut seen);
            self.read.set(seen);
            result?;
            if plan.consumer != Consumer::None {
                with(&self.memory, |memory| reader.release(memory)).map_err(|_| Fault::Outside)?;
            }
            let losses = reader.losses();
            nothing_spoilt(&losses)?;
            if plan.overflow == Overflow::Discard && losses.overwritten + losses.packets > 0 {
                Err(Fault::Losses(losses))
            } else {
                Ok(())
            }
        })
    }

    /// Nobody writes any more: the live reader has it all.
    fn read_to_the_end(&self) -> Result<(), Fault> {
        self.read()?;
        let losses = with(&self.reader, |reader| reader.losses());
        self.account(self.read.get().count(), losses)
    }

    fn account(&self, records: u64, losses: Losses) -> Result<(), Fault> {
        let (returned, in_flight) = (self.returned.get(), self.in_flight.get());
        let sum = records + losses.events();
        let good = (returned..=returned + in_flight).contains(&sum);
        if good {
            Ok(())
        } else {
            Err(Fault::Sum {
                records,
                losses,
                returned,
                in_flight,
            })
        }
    }

    /// Reads what there is, and checks each record.
    fn walk(&self, reader: &mut ChannelReader, view: View, seen: &mut Seen) -> Result<(), Fault> {
        let mut scratch = [0; PACKET_SIZE as usize / 4];
        with(&self.memory, |memory| {
            while let Some(mut batch) = reader
                .read(memory, view, &mut scratch)
                .map_err(|_| Fault::Outside)?
            {
                while let Some(record) = batch.next_record(&VOCABULARY) {
                    let (id, first_word) = (record.id, record.payload.first().copied());
                    let seq = is_as_recorded(id, record.payload)
                        .ok_or(Fault::Record { id, first_word })?;
                    if !seen.insert(seq) {
                        return Err(Fault::Twice(seq));
                    }
                    let read = self.times[seq as usize].load(Relaxed);
                    if self.knows_times.get() && record.time != read {
                        return Err(Fault::Time {
                            seq,
                            found: record.time,
                            read,
                        });
                    }
                }
            }
            reader.refresh_dropped(memory).map_err(|_| Fault::Outside)
        })
    }

    // --- A trial.

    fn set_up<R: Writer>(&self, plan: Plan, memory: Memory) {
        let live = memory.live();
        let beginning = Region::open(&live)
            .unwrap()
            .channel(&live, 0, ChannelKind::Events)
            .unwrap();
        self.record.set(record::<R>);
        self.control.set(memory.control(0));
        for count in [&self.returned, &self.in_flight, &self.steps] {
            count.set(0);
        }
        self.calls.set(0);
        self.random.set(Random(plan.seed));
        self.memory.set(Some(live));
        self.reader.set(Some(beginning.clone()));
        self.beginning.set(Some(beginning));
        self.read.set(Seen::NONE);
        self.failure.set(None);
    }

    fn run(&self, plan: Plan) {
        self.calls(plan.prefill);
        while plan.prefill_to_the_end && !self.next_opens_a_packet() {
            self.call(false);
        }
        if plan.consumer != Consumer::None {
            self.note("the consumer before", self.read());
        }
        self.call(true);
        let after = self.random(|random| random.next(60)) as u32;
        self.calls(after);
        self.note("the last dump", self.dump());
        self.note("the last live read", self.read_to_the_end());
    }
}

/// Losses that cannot be where no writer died.
fn nothing_spoilt(losses: &Losses) -> Result<(), Fault> {
    let good = losses.clamped
        + losses.unreadable
        + losses.clock_back
        + losses.abandoned
        + losses.too_large
        == 0;
    if good {
        Ok(())
    } else {
        Err(Fault::Losses(*losses))
    }
}

/// Calls `record(seq)` with a trap after each instruction.
#[inline(never)]
fn step(record: fn(u32), seq: u32) {
    // SAFETY: sets the trap flag, nothing else; `on_trap` is installed. Not `nostack`, so the stack
    // is there to push on.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    record(seq);
    // SAFETY: clears it again.
    unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// The kernel clears the trap flag on the way in and puts it back on the way out. Neither panics
/// nor allocates.
extern "C" fn on_trap(_: libc::c_int) {
    MACHINE.with(Machine::between_instructions);
}

/// The handler is the process's; what it acts on is the thread's, and so is the trap flag: tests
/// may run side by side.
fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all zero is a valid `sigaction`: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_trap as extern "C" fn(libc::c_int) as usize;
        // Handlers nest.
        action.sa_flags = libc::SA_NODEFER;
        // SAFETY: `on_trap` touches thread-local cells and the ring's memory, by the rules that
        // `Machine` states.
        let status = unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) };
        assert_eq!(status, 0, "SIGTRAP cannot be handled");
    });
}

fn memory() -> Memory {
    install_handler();
    let layout = std::alloc::Layout::from_size_align(32 << 10, 4096).unwrap();
    // SAFETY: the size is not zero; the memory is never freed.
    unsafe { Memory::new(std::alloc::alloc_zeroed(layout), layout.size(), 1) }
}

/// One stepped call in a session of its own.
fn trial<R: Writer>(memory: Memory, plan: Plan) {
    let base = memory.control(0).wrapping_byte_sub(CONTROL_OFFSET).cast();
    // SAFETY: the memory of `memory`, over which no session runs.
    let zeroed = unsafe { Live::new(base, memory.live().len()) };
    for offset in (0..zeroed.len()).step_by(8) {
        zeroed.store_long(offset, 0).unwrap();
    }
    MACHINE.with(|machine| {
        machine.clock.store(1000, Relaxed);
        machine.knows_times.set(R::KNOWS_TIMES);
        machine.plan.set(plan);
        let session = Tracer::<Stepped<R>>::start(memory, &plan.config(), &VOCABULARY).unwrap();
        machine.set_up::<R>(plan, memory);
        machine.run(plan);
        session.stop().unwrap();
        assert!(machine.steps.get() > 20, "the trap flag does nothing here");
        if let Some(failure) = machine.failure.get() {
            panic!("KYMO_SEED={}: {failure:?} with {plan:?}", plan.seed);
        }
    });
}

// --- Scenarios.

/// What a full ring does, and who consumes.
const POLICIES: [(Overflow, Consumer); 3] = [
    (Overflow::Overwrite, Consumer::None),
    (Overflow::Discard, Consumer::None),
    (Overflow::Discard, Consumer::Host),
];

/// One window for all records; a new one for every second reading of the clock; a new one for every
/// reading.
const RATES: [u64; 3] = [1, 1 << 26, 1 << 27];

fn first_seed() -> u64 {
    std::env::var("KYMO_SEED").map_or(1, |seed| seed.parse().expect("KYMO_SEED is a number"))
}

fn nested_seconds() -> Option<Duration> {
    let seconds = std::env::var("KYMO_NESTING_SECONDS").ok()?;
    Some(Duration::from_secs(
        seconds.parse().expect("KYMO_NESTING_SECONDS is a number"),
    ))
}

/// A dump at each instruction, a live read at one in a few; every number of records before, to more
/// than a lap.
fn every_instruction<R: Writer>(
    packets: u32,
    (overflow, consumer): (Overflow, Consumer),
    rates: &[u64],
) {
    let (memory, seed) = (memory(), first_seed());
    for &rate in rates {
        for prefill in 0..(packets + 1) * RECORDS_IN_A_PACKET {
            let plan = Plan {
                seed,
                overflow,
                consumer,
                packets,
                rate,
                prefill,
                dump_one_in: 1,
                live_one_in: 3,
                ..Plan::NONE
            };
            trial::<R>(memory, plan);
        }
    }
}

/// Rings of any number of packets, for `Masked` can have them.
fn masked(policy: (Overflow, Consumer)) {
    every_instruction::<Masked<NoInterrupts>>(4, policy, &RATES[..2]);
    every_instruction::<Masked<NoInterrupts>>(5, policy, &RATES[1..]);
}

fn local_cas(policy: (Overflow, Consumer)) {
    every_instruction::<LocalCas>(4, policy, &RATES);
    every_instruction::<LocalCas>(8, policy, &RATES[..1]);
}

fn nested_plan(seed: u64, (overflow, consumer): (Overflow, Consumer)) -> Plan {
    let random = &mut Random(seed);
    let packets = random.pick([4, 8]);
    let opening = random.next(4) > 0;
    let steps = if opening {
        random.pick([SWAP_STEPS, OPENING_STEPS])
    } else {
        FAST_STEPS
    };
    Plan {
        seed,
        overflow,
        consumer,
        packets,
        rate: random.pick(RATES),
        prefill: random.next(u64::from((packets + 2) * RECORDS_IN_A_PACKET)) as u32,
        prefill_to_the_end: opening,
        depth: random.pick([1, 2, 3]),
        nest_at: 1 + random.next(steps),
        burst: random.pick([1, 2, 10, 18, 40, 60, 100, 150]),
        dump_one_in: random.pick([0, 2, 10]),
        live_one_in: random.pick([0, 2, 30, 200]),
    }
}

/// Nested writers at instructions drawn from the seed.
fn nested<R: Writer>(policy: (Overflow, Consumer)) {
    const TRIALS: u64 = 100;
    let (memory, began, seconds) = (memory(), Instant::now(), nested_seconds());
    for count in 0.. {
        if seconds.map_or(count == TRIALS, |seconds| began.elapsed() >= seconds) {
            break;
        }
        trial::<R>(memory, nested_plan(first_seed() + count, policy));
    }
}

#[test]
fn masked_in_a_flight_recorder() {
    masked(POLICIES[0]);
}

#[test]
fn masked_in_a_ring_that_stays_full() {
    masked(POLICIES[1]);
}

#[test]
fn masked_in_a_ring_that_is_consumed() {
    masked(POLICIES[2]);
}

#[test]
fn local_cas_in_a_flight_recorder() {
    local_cas(POLICIES[0]);
}

#[test]
fn local_cas_in_a_ring_that_stays_full() {
    local_cas(POLICIES[1]);
}

#[test]
fn local_cas_in_a_ring_that_is_consumed() {
    local_cas(POLICIES[2]);
}

#[test]
fn nested_writers_in_a_flight_recorder() {
    nested::<LocalCas>(POLICIES[0]);
}

#[test]
fn nested_writers_in_a_ring_that_stays_full() {
    nested::<LocalCas>(POLICIES[1]);
}

#[test]
fn nested_writers_in_a_ring_that_is_consumed() {
    nested::<LocalCas>(POLICIES[2]);
}

/// The hot path in one piece. Its clock is the processor's, whose times nobody knows beforehand:
/// their order is checked.
#[test]
fn tsc_cas_in_a_flight_recorder() {
    every_instruction::<TscCas>(4, POLICIES[0], &RATES[..1]);
    nested::<TscCas>(POLICIES[0]);
}

#[test]
fn tsc_cas_in_a_ring_that_stays_full() {
    every_instruction::<TscCas>(4, POLICIES[1], &RATES[..1]);
    nested::<TscCas>(POLICIES[1]);
}

#[test]
fn tsc_cas_in_a_ring_that_is_consumed() {
    every_instruction::<TscCas>(8, POLICIES[2], &RATES[..1]);
    nested::<TscCas>(POLICIES[2]);
}
