//! The chapter "Counters of the kernel's own".

use kymo::platform::{Masked, Platform};

struct Virt;
struct Scheduler { ready: [Vec; 4] }
struct Vec;
impl Vec {
    fn push(&mut self, thread: u32) {}
    fn len(&self) -> usize { 0 }
}

kymo::counter! {
    /// Threads that were put into a run queue.
    #[id(0)] #[unit(threads)] #[unnested]
    pub struct Enqueues;
}
kymo::gauge! {
    /// Threads in all run queues.
    #[id(1)] #[unit(threads)] #[unnested]
    pub struct ReadyThreads;
}
kymo::histogram! {
    /// Length of a run queue after a thread was put into it.
    #[id(2)] #[unit(threads)] #[unnested]
    pub struct QueueLength;
}
const COUNTERS: kymo::counter::Counters = kymo::counters![Enqueues, ReadyThreads, QueueLength];

// SAFETY: see `your_kernel.rs`.
unsafe impl Platform for Virt {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;
    const COUNTERS: kymo::counter::Counters = COUNTERS;

    fn clock() -> u64 { kymo::arch::riscv::time() }
    fn synchronize() {}
}

type Kymo = kymo::Tracer<Virt>;

static REGION: kymo::RegionMemory<{ 40 << 20 }, 8, { COUNTERS.words() }> = kymo::RegionMemory::new();

impl Scheduler {
    fn enqueue(&mut self, hart: usize, thread: u32) {
        self.ready[hart].push(thread);
        Kymo::add::<Enqueues>(1);
        Kymo::add::<ReadyThreads>(1);
        Kymo::observe::<QueueLength>(self.ready[hart].len() as u64);
    }
}

fn configuration() -> kymo::Config {
    kymo::Config { counters_period: 10_000_000 / 10, ..kymo::Config::DEFAULT } // ten times a second
}

fn timer_interrupt() {
    Kymo::tick();
}

fn totals() {
    let memory = REGION.memory();
    let (put_in, ready) = (memory.total::<Enqueues>(), memory.total::<ReadyThreads>());
    let lengths = memory.observed::<QueueLength>(0);    // of CPU 0
}
