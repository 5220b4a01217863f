//! A simulated kernel: threads of several processes on four CPUs, whose events are consistent.
//!
//! The same seed gives the same trace. The kernel counts its operations, so that a report of the
//! trace can be compared with the counts.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result};
use kymo::Text;
use kymo::vocabulary::{
    Address, FaultCause, FrameAlloc, FrameFree, IpcPath, IpcReceive, IpcSend, Irq, IrqEnter,
    IrqExit, IrqName, LockAcquired, LockKind, LockName, LockReleased, LockWait, Object, PageFault,
    Pid, ProcessName, SchedEnter, SchedSwitch, SchedWakeup, SwitchReason, Syscall, SyscallEnter,
    SyscallExit, SyscallName, ThreadCreate, ThreadExit, ThreadName, ThreadState, Tid,
};

use crate::stream::Writer;

/// CPUs.
pub(super) const CPUS: u32 = 4;
/// Number of processes, and of each one's threads at the beginning.
const PROCESSES: u32 = 24;
const THREADS: u32 = 8;
/// System calls, and interrupt lines.
const CALLS: u32 = 40;
const TIMER: u32 = 7;
const DEVICE: u32 = 33;
/// Longest time slice of a thread, in nanoseconds.
const SLICE: u64 = 200_000;

/// What it did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// By number: calls, errors, and the longest, in nanoseconds.
    pub(super) calls: BTreeMap<u32, (u64, u64, u64)>,
    /// By line.
    pub(super) interrupts: BTreeMap<u32, u64>,
    /// By process.
    pub(super) faults: BTreeMap<u32, u64>,
    /// By lock: acquired, of these after a wait, and the longest wait.
    pub(super) locks: BTreeMap<u64, (u64, u64, u64)>,
    /// Threads that were woken and then ran.
    pub(super) wakes: u64,
    /// All threads that ever existed, without the idle ones.
    pub(super) threads: u64,
    /// The time for which each CPU ran threads other than the idle one, from its first switch on.
    pub(super) busy: [u64; CPUS as usize],
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    tid: u32,
    pid: u32,
    woken: bool,
    /// The call in which it sleeps, and since when.
    call: Option<(u32, u64)>,
    /// The lock that it was given at its wake-up, and the start of its wait.
    wants: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Cpu {
    time: u64,
    /// `None` is the idle thread.
    running: Option<Thread>,
    since: u64,
    ready: VecDeque<Thread>,
    /// Sleeping threads, and their wake-up times.
    asleep: VecDeque<(u64, Thread)>,
    frames: Vec<u64>,
}

/// The machine.
pub(super) struct Kernel<'a> {
    out: &'a mut Writer,
    cpus: Vec<Cpu>,
    random: u64,
    tids: u32,
    frames: u64,
    pub(super) known: Known,
}

impl<'a> Kernel<'a> {
    /// Starts the kernel with its first threads, and records all names.
    pub(super) fn boot(out: &'a mut Writer) -> Result<Kernel<'a>> {
        let cpus = (0..CPUS).map(|_| Cpu::default()).collect();
        let mut kernel = Kernel {
            out,
            cpus,
            random: 0x9e37_79b9_7f4a_7c15,
            tids: 70_000,
            frames: 0x8_0000,
            known: Known::default(),
        };
        for pid in 1..=PROCESSES {
            kernel.out.event(
                0,
                0,
                ProcessName {
                    pid: Pid(pid),
                    name: Text::new(&format!("server-{pid}")),
                },
            )?;
        }
        for id in 0..CALLS {
            kernel.out.event(
                0,
                0,
                SyscallName {
                    id: Syscall(id),
                    name: Text::new(&format!("call_{id}")),
                },
            )?;
        }
        for (irq, name) in [(TIMER, "timer"), (DEVICE, "disk")] {
            kernel.out.event(
                0,
                0,
                IrqName {
                    irq: Irq(irq),
                    name: Text::new(name),
                },
            )?;
        }
        for cpu in 0..CPUS {
            let name = LockName {
                lock: lock(cpu),
                kind: LockKind::Mutex,
                name: Text::new(&format!("cache-{cpu}")),
            };
            kernel.out.event(0, 0, name)?;
            kernel.out.event(
                cpu,
                0,
                ThreadName {
                    tid: Tid(0),
                    name: Text::new("idle"),
                },
            )?;
        }
        for thread in 0..PROCESSES * THREADS {
            let cpu = thread % CPUS;
            let thread = kernel.new_thread(cpu, 1 + thread / THREADS)?;
            kernel.cpu(cpu)?.ready.push_back(thread);
        }
        Ok(kernel)
    }

    /// Bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.out.bytes()
    }

    /// Advances the CPU whose time is the earliest.
    pub(super) fn step(&mut self) -> Result<()> {
        let behind = (0..CPUS)
            .min_by_key(|&cpu| self.cpus.get(cpu as usize).map_or(u64::MAX, |cpu| cpu.time));
        let cpu = behind.context("there are CPUs")?;
        self.wake_sleepers(cpu)?;
        let Some(thread) = self.cpu(cpu)?.running else {
            if self.cpu(cpu)?.ready.is_empty() {
                self.pass(cpu, 20_000)?;
                self.interrupt(cpu, TIMER)?;
            } else {
                self.switch(cpu, ThreadState::Runnable, SwitchReason::Idle)?;
            }
            return Ok(());
        };
        match self.below(100) {
            0..52 => self.call(cpu)?,
            52..64 => self.fault(cpu, thread)?,
            64..80 => self.locked(cpu)?,
            80..86 => self.interrupt(cpu, DEVICE)?,
            86..89 => self.contended(cpu, thread)?,
            89..94 => self.sleeps(cpu, thread)?,
            94 if self.below(1_000) == 0 => self.replaced(cpu, thread)?,
            _ => self.pass(cpu, 1_000)?,
        }
        if let Some(running) = self.cpu(cpu)?.running
            && self.cpu(cpu)?.time > self.cpu(cpu)?.since + SLICE
        {
            self.interrupt(cpu, TIMER)?;
            self.leave(cpu, running)?;
        }
        Ok(())
    }

    /// Ends the run, and adds up the CPUs' times.
    pub(super) fn halt(mut self) -> Result<Known> {
        let end = self.cpus.iter().map(|cpu| cpu.time).max().unwrap_or(0);
        // Running threads count as running until the last event.
        let last = self.record(CPUS - 1, SchedEnter {})?.max(end);
        for cpu in 0..CPUS {
            let Cpu { since, running, .. } = self.cpu(cpu)?;
            let ran = if running.is_some() { last - *since } else { 0 };
            self.busy(cpu, ran);
        }
        Ok(self.known)
    }

    fn busy(&mut self, cpu: u32, time: u64) {
        if let Some(busy) = self.known.busy.get_mut(cpu as usize) {
            *busy += time;
        }
    }

    fn cpu(&mut self, cpu: u32) -> Result<&mut Cpu> {
        self.cpus
            .get_mut(cpu as usize)
            .context("there is no such CPU")
    }

    /// Marsaglia's xorshift*.
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    /// Lets up to twice `about` nanoseconds pass.
    fn pass(&mut self, cpu: u32, about: u64) -> Result<()> {
        let time = 1 + self.below(2 * about);
        self.cpu(cpu)?.time += time;
        Ok(())
    }

    /// Records the event slightly later than the previous one.
    fn record<E: kymo::event::Event>(&mut self, cpu: u32, event: E) -> Result<u64> {
        self.pass(cpu, 150)?;
        let time = self.cpu(cpu)?.time;
        self.out.event(cpu, time, event)?;
        Ok(time)
    }

    fn new_thread(&mut self, cpu: u32, pid: u32) -> Result<Thread> {
        self.tids += 1;
        let tid = self.tids;
        self.known.threads += 1;
        let time = self.record(
            cpu,
            ThreadCreate {
                tid: Tid(tid),
                pid: Pid(pid),
                parent_tid: Tid(0),
                prio: 4,
            },
        )?;
        self.out.event(
            cpu,
            time,
            ThreadName {
                tid: Tid(tid),
                name: Text::new(&format!("worker-{tid}")),
            },
        )?;
        Ok(Thread {
            tid,
            pid,
            ..Thread::default()
        })
    }

    fn interrupt(&mut self, cpu: u32, irq: u32) -> Result<()> {
        self.record(cpu, IrqEnter { irq: Irq(irq) })?;
        self.record(cpu, IrqExit { irq: Irq(irq) })?;
        *self.known.interrupts.entry(irq).or_default() += 1;
        Ok(())
    }

    fn enter(&mut self, cpu: u32) -> Result<(u32, u64)> {
        let id = u32::try_from(self.below(u64::from(CALLS)))?;
        let arg0 = self.below(1 << 40);
        let since = self.record(
            cpu,
            SyscallEnter {
                id: Syscall(id),
                arg0,
            },
        )?;
        self.known.calls.entry(id).or_default().0 += 1;
        Ok((id, since))
    }

    fn exit(&mut self, cpu: u32, (id, since): (u32, u64)) -> Result<()> {
        let fails = self.below(20) == 0;
        let now = self.record(
            cpu,
            SyscallExit {
                id: Syscall(id),
                ret: if fails { -11 } else { 0 },
            },
        )?;
        let (_, errors, longest) = self.known.calls.entry(id).or_default();
        *errors += u64::from(fails);
        *longest = (*longest).max(now - since);
        Ok(())
    }

    fn call(&mut self, cpu: u32) -> Result<()> {
        let call = self.enter(cpu)?;
        let thread = self.cpu(cpu)?.running.context("a thread calls")?;
        match self.below(8) {
            0 => self.fault(cpu, thread)?,
            1 => self.locked(cpu)?,
            2 => {
                let (port, path) = (Object(0x9000 + u64::from(thread.pid)), IpcPath::Fast);
                self.record(
                    cpu,
                    IpcSend {
                        port,
                        target_tid: Tid(0),
                        path,
                        len: 32,
                    },
                )?;
                self.record(
                    cpu,
                    IpcReceive {
                        port,
                        source_tid: Tid(0),
                        path,
                        len: 32,
                    },
                )?;
            }
            _ => self.pass(cpu, 400)?,
        }
        self.exit(cpu, call)
    }

    fn fault(&mut self, cpu: u32, thread: Thread) -> Result<()> {
        let address = Address(0x4000_0000 + (self.below(1 << 20) << 12));
        self.record(
            cpu,
            PageFault {
                address,
                ip: Address(0x1_0000),
                cause: FaultCause::Store,
                user: true,
            },
        )?;
        *self.known.faults.entry(thread.pid).or_default() += 1;
        self.frames += 1;
        let pfn = self.frames;
        self.record(cpu, FrameAlloc { pfn, order: 0 })?;
        let frames = &mut self.cpu(cpu)?.frames;
        frames.push(pfn);
        if frames.len() > 64 {
            let pfn = frames.swap_remove(7);
            self.record(cpu, FrameFree { pfn, order: 0 })?;
        }
        Ok(())
    }

    fn locked(&mut self, cpu: u32) -> Result<()> {
        let kind = LockKind::Mutex;
        self.record(
            cpu,
            LockAcquired {
                lock: lock(cpu),
                kind,
                contended: false,
            },
        )?;
        self.record(
            cpu,
            LockReleased {
                lock: lock(cpu),
                kind,
            },
        )?;
        self.known.locks.entry(lock(cpu).0).or_default().0 += 1;
        Ok(())
    }

    /// Switches the CPU to the next ready thread, or to the idle thread. Does not requeue the
    /// running thread.
    fn switch(&mut self, cpu: u32, prev_state: ThreadState, reason: SwitchReason) -> Result<()> {
        let next = self.cpu(cpu)?.ready.pop_front();
        let prev = self.cpu(cpu)?.running;
        let tid = |thread: Option<Thread>| Tid(thread.map_or(0, |thread| thread.tid));
        let switch = SchedSwitch {
            prev_tid: tid(prev),
            next_tid: tid(next),
            prev_state,
            reason,
            next_prio: 4,
        };
        let time = self.record(cpu, switch)?;
        let Cpu { since, running, .. } = self.cpu(cpu)?;
        let ran = if prev.is_some() { time - *since } else { 0 };
        (*running, *since) = (next, time);
        self.busy(cpu, ran);
        let Some(mut thread) = next else {
            return Ok(());
        };
        self.known.wakes += u64::from(std::mem::take(&mut thread.woken));
        if let Some((lock, since)) = thread.wants.take() {
            let (lock, kind) = (Object(lock), LockKind::Mutex);
            let now = self.record(
                cpu,
                LockAcquired {
                    lock,
                    kind,
                    contended: true,
                },
            )?;
            self.record(cpu, LockReleased { lock, kind })?;
            let (acquired, contended, longest) = self.known.locks.entry(lock.0).or_default();
            (*acquired, *contended, *longest) =
                (*acquired + 1, *contended + 1, (*longest).max(now - since));
        }
        if let Some(call) = thread.call.take() {
            self.exit(cpu, call)?;
        }
        self.cpu(cpu)?.running = Some(thread);
        Ok(())
    }

    fn wake(&mut self, cpu: u32, mut thread: Thread, waker: u32) -> Result<()> {
        self.record(
            cpu,
            SchedWakeup {
                tid: Tid(thread.tid),
                waker_tid: Tid(waker),
                target_cpu: kymo::vocabulary::Cpu(cpu),
            },
        )?;
        thread.woken = true;
        self.cpu(cpu)?.ready.push_back(thread);
        Ok(())
    }

    fn wake_sleepers(&mut self, cpu: u32) -> Result<()> {
        loop {
            let Cpu { time, asleep, .. } = self.cpu(cpu)?;
            let Some(&(_, thread)) = asleep.front().filter(|(until, _)| *until <= *time) else {
                return Ok(());
            };
            asleep.pop_front();
            self.record(cpu, IrqEnter { irq: Irq(DEVICE) })?;
            self.wake(cpu, thread, 0)?;
            self.record(cpu, IrqExit { irq: Irq(DEVICE) })?;
            *self.known.interrupts.entry(DEVICE).or_default() += 1;
        }
    }

    /// Ends the thread's time slice. Sometimes the thread moves to another CPU that is idle or
    /// earlier in time.
    fn leave(&mut self, cpu: u32, thread: Thread) -> Result<()> {
        self.switch(cpu, ThreadState::Runnable, SwitchReason::Expired)?;
        let other = u32::try_from(self.below(u64::from(CPUS)))?;
        let now = self.cpu(cpu)?.time;
        // A thread may run there only after it has left this CPU.
        let to = if self.cpu(other)?.time > now {
            other
        } else {
            cpu
        };
        self.cpu(to)?.ready.push_back(thread);
        Ok(())
    }

    fn sleeps(&mut self, cpu: u32, mut thread: Thread) -> Result<()> {
        let (state, reason) = (ThreadState::Sleeping, SwitchReason::Waits);
        thread.call = Some(self.enter(cpu)?);
        self.switch(cpu, state, reason)?;
        // In order, so that those that wake first come first.
        let until = self
            .cpu(cpu)?
            .asleep
            .back()
            .map_or(0, |(until, _)| *until)
            .max(self.cpu(cpu)?.time)
            + 20_000;
        self.cpu(cpu)?.asleep.push_back((until, thread));
        Ok(())
    }

    /// The thread holds the CPU's lock when it is preempted; the next one waits for it, and gets it
    /// when this one continues.
    fn contended(&mut self, cpu: u32, thread: Thread) -> Result<()> {
        let (lock, kind) = (lock(cpu), LockKind::Mutex);
        let is_free = |thread: &Thread| thread.call.is_none() && thread.wants.is_none();
        if !self.cpu(cpu)?.ready.front().is_some_and(is_free) {
            return self.pass(cpu, 1_000);
        }
        self.record(
            cpu,
            LockAcquired {
                lock,
                kind,
                contended: false,
            },
        )?;
        self.known.locks.entry(lock.0).or_default().0 += 1;
        self.switch(cpu, ThreadState::Runnable, SwitchReason::Preempted)?;
        let mut waiter = self.cpu(cpu)?.running.context("one was ready")?;
        let since = self.record(
            cpu,
            LockWait {
                lock,
                owner_tid: Tid(thread.tid),
                kind,
            },
        )?;
        waiter.wants = Some((lock.0, since));
        self.cpu(cpu)?.ready.push_front(thread);
        self.switch(cpu, ThreadState::Blocked, SwitchReason::Waits)?;
        self.record(cpu, LockReleased { lock, kind })?;
        self.wake(cpu, waiter, thread.tid)
    }

    /// The thread ends, and its process creates another one.
    fn replaced(&mut self, cpu: u32, thread: Thread) -> Result<()> {
        let next = self.new_thread(cpu, thread.pid)?;
        self.wake(cpu, next, thread.tid)?;
        let (tid, pid) = (Tid(thread.tid), Pid(thread.pid));
        self.record(
            cpu,
            ThreadExit {
                tid,
                pid,
                prev_state: ThreadState::Runnable,
            },
        )?;
        self.switch(cpu, ThreadState::Ended, SwitchReason::Ended)
    }
}

/// The lock of a CPU.
fn lock(cpu: u32) -> Object {
    Object(0xffff_8000_0000 + 0x40 * u64::from(cpu))
}
