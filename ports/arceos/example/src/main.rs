//! An ArceOS application whose tasks compute, yield to each other, sleep, wait and lock. At its end
//! it prints what it has counted itself, so that a test can compare the trace with it.

#![no_std]
#![no_main]

extern crate alloc;
#[macro_use]
extern crate axstd;

use alloc::format;
use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::time::Duration;

use axtask::{AxCpuMask, AxTaskRef, TaskInner, WaitQueue};
// port: begin
use kymo::trace;
use kymo_arceos::{CPUS, Kymo, Mutex};

kymo::event! {
    /// A task has done a unit of its work.
    #[id(21)]
    pub struct Work { pub unit: u32 }
}

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![kymo_arceos::EVENTS; Work];

static REGION: kymo::RegionMemory<{ 16 << 20 }, CPUS> = kymo::RegionMemory::new();

const CONFIG: kymo::Config = kymo::Config {
    packets: 512,
    samples_packets: 128,
    ..kymo::Config::DEFAULT
};
// port: end

/// Units of work of each task that computes.
const UNITS: u32 = 300;
/// How often each of two tasks has the turn.
const TURNS: u32 = 200;
/// How often the sleeper sleeps.
const SLEEPS: u32 = 25;
/// How often each of the tasks that share a mutex locks it.
const LOCKS: u32 = 100;
/// What goes through the queue.
const MESSAGES: u32 = 50;

/// Which of two tasks has the turn, and how often each of them has gone on after a yield.
static TURN: AtomicU32 = AtomicU32::new(0);
static RESUMED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// How often each of them has had the turn.
static TAKEN: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// How often each of them has yielded, and how often that let the other one run.
static YIELDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
static LET_RUN: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// 1: they may begin. 2: they may end.
static PHASE: AtomicU32 = AtomicU32::new(0);
static PHASE_CHANGED: WaitQueue = WaitQueue::new();

/// Tasks that share a mutex, and how many of them have come to it.
const SHARERS: u32 = 3;
static ASKED: AtomicU32 = AtomicU32::new(0);
/// How often it was locked.
static SHARED: Mutex<u64> = Mutex::new(0);

/// Messages sent and not received.
static FULL: AtomicU32 = AtomicU32::new(0);
static SENT: WaitQueue = WaitQueue::new();
/// Timer ticks of the CPU that booted.
static TICKS: AtomicU32 = AtomicU32::new(0);

#[unsafe(no_mangle)]
fn main() {
    // port: begin
    let session = match kymo_arceos::start(&REGION, &CONFIG, &VOCABULARY) {
        Ok(session) => session,
        Err(error) => return println!("arceos: cannot record: {error}."),
    };
    kymo_arceos::name_mutex(&SHARED, "shared");
    // port: end
    let cpus = axhal::cpu_num();
    // The callback is of this CPU, on which `main` stays until it waits.
    let tick_cpu = axhal::percpu::this_cpu_id();
    axtask::register_timer_callback(|_| _ = TICKS.fetch_add(1, Relaxed));
    let mut tasks = Vec::new();
    for me in [0, 1] {
        tasks.push(spawn_on(1, move || take_turns(me), &format!("turns {me}")));
    }
    tasks.push(spawn_on(0, sleep, "sleeper"));
    tasks.push(spawn_on(cpus - 1, receive, "receiver"));
    for name in ["compute a", "compute b"] {
        tasks.push(kymo_arceos::spawn(compute, name));
    }
    for name in ["lock a", "lock b", "lock c"] {
        tasks.push(kymo_arceos::spawn(share, name));
    }
    enter_phase(1);
    tasks.push(spawn_on(0, send, "sender"));
    while [0, 1].map(|me| TAKEN[me].load(Acquire)) != [TURNS; 2] {
        axstd::thread::sleep(Duration::from_millis(5));
    }
    enter_phase(2);
    let count = tasks.len();
    tasks.into_iter().for_each(|task| _ = task.join());
    let ticks = TICKS.load(Relaxed);
    // port: begin
    if let Err(error) = session.stop() {
        println!("arceos: cannot stop: {error}.");
    }
    // port: end
    for me in [0, 1] {
        let [yields, let_run] = [&YIELDS, &LET_RUN].map(|counts| counts[me].load(Relaxed));
        println!("arceos: turns_{me}: yields={yields} let_run={let_run}");
    }
    let locks = *SHARED.lock();
    let work = 2 * UNITS;
    println!("arceos: cpus={cpus} tasks={count} sleeps={SLEEPS}");
    println!("arceos: locks={locks} work={work} ticks={ticks} tick_cpu={tick_cpu}");
}

/// Spawns a task that stays on this CPU.
fn spawn_on(cpu: usize, f: impl FnOnce() + Send + 'static, name: &str) -> AxTaskRef {
    let task = TaskInner::new(f, name.into(), 0x10000);
    task.set_cpumask(AxCpuMask::one_shot(cpu));
    // port: begin
    kymo_arceos::spawn_task(task)
    // port: end
}

fn enter_phase(phase: u32) {
    PHASE.store(phase, Release);
    PHASE_CHANGED.notify_all(false);
}

fn wait_for_phase(phase: u32) {
    PHASE_CHANGED.wait_until(|| PHASE.load(Acquire) >= phase);
}

/// Two tasks on one CPU yield to each other.
fn take_turns(me: usize) {
    wait_for_phase(1);
    RESUMED[me].fetch_add(1, Relaxed);
    for _ in 0..TURNS {
        while TURN.load(Acquire) != me as u32 {
            let before = RESUMED[1 - me].load(Relaxed);
            YIELDS[me].fetch_add(1, Relaxed);
            axtask::yield_now();
            RESUMED[me].fetch_add(1, Relaxed);
            let ran = RESUMED[1 - me].load(Relaxed) != before;
            LET_RUN[me].fetch_add(u32::from(ran), Relaxed);
        }
        TURN.store(1 - me as u32, Release);
        TAKEN[me].fetch_add(1, Release);
    }
    wait_for_phase(2);
}

fn sleep() {
    for _ in 0..SLEEPS {
        axstd::thread::sleep(Duration::from_millis(8));
    }
}

fn compute() {
    for unit in 0..UNITS {
        black_box(collatz(unit));
        // port: begin
        trace!(Work { unit });
        // port: end
    }
}

/// The longest of Collatz's sequences from some numbers.
#[inline(never)]
fn collatz(unit: u32) -> u32 {
    let length = |start: u64| {
        let (mut n, mut length) = (start, 0);
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            length += 1;
        }
        length
    };
    let first = u64::from(unit) * 500 + 1;
    (first..first + 500).map(length).max().unwrap_or(0)
}

fn share() {
    ASKED.fetch_add(1, Release);
    for _ in 0..LOCKS {
        let mut count = SHARED.lock();
        if *count == 0 {
            // Kept until the others wait for it, however the machine schedules them.
            while ASKED.load(Acquire) < SHARERS {
                axstd::thread::sleep(Duration::from_millis(1));
            }
            axstd::thread::sleep(Duration::from_millis(10));
        }
        black_box(collatz(1));
        *count += 1;
    }
}

fn send() {
    for _ in 0..MESSAGES {
        FULL.fetch_add(1, Release);
        SENT.notify_one(false);
        axtask::yield_now();
    }
}

fn receive() {
    for _ in 0..MESSAGES {
        SENT.wait_until(|| {
            FULL.fetch_update(Acquire, Acquire, |full| full.checked_sub(1))
                .is_ok()
        });
    }
}
