//! Two threads, each pinned to a CPU, that execute orders and sleep in between.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::peer::{Peer, Record, THREADS};
use crate::single_step::{self, Steps};

/// An order to a worker.
enum Order {
    /// Make `count` calls, and answer the time in nanoseconds. `together`: begin when this many
    /// threads have arrived.
    Time {
        record: Record,
        count: u32,
        together: Option<u32>,
    },
    /// Make `calls` calls, and answer their instructions.
    Count { record: Record, calls: usize },
    /// Make `count` calls with the numbers from `first` on.
    Record {
        record: Record,
        first: u32,
        count: u32,
    },
}

enum Answer {
    Entered,
    Nanoseconds(f64),
    Steps(Steps),
}

struct Worker {
    orders: Sender<Order>,
    answers: Receiver<Result<Answer>>,
    thread: JoinHandle<()>,
}

/// The worker threads.
pub struct Workers {
    workers: Vec<Worker>,
    /// Calls of each `record`, by thread.
    calls: Vec<(Record, [u64; THREADS])>,
}

/// Number of arrivals at the start of common measurements; never reset.
static ARRIVED: AtomicU32 = AtomicU32::new(0);

/// The second field of the event that thread `thread` records with the first field `a`.
pub fn second_field(thread: usize, a: u32) -> u32 {
    a ^ (0x5a00_0000 + thread as u32)
}

/// The measuring loop, with the same machine code for every peer.
#[inline(never)]
fn repeat(record: Record, thread: usize, first: u32, count: u32) {
    let flip = second_field(thread, 0);
    for a in first..first + count {
        record(a, a ^ flip);
    }
}

impl Workers {
    /// Starts the threads, each of which enters every peer.
    pub fn start(peers: &[Peer]) -> Result<Workers> {
        let workers = (0..THREADS).map(|thread| {
            let enter: Vec<_> = peers.iter().map(|peer| peer.enter).collect();
            let (orders, inbox) = channel();
            let (outbox, answers) = channel();
            let thread = std::thread::Builder::new()
                .name(format!("cpu{thread}"))
                .spawn(move || {
                    let entered =
                        pin(thread).and_then(|()| enter.iter().try_for_each(|enter| enter(thread)));
                    let _ = outbox.send(entered.map(|()| Answer::Entered));
                    for order in inbox {
                        let _ = outbox.send(obey(thread, order));
                    }
                })?;
            Ok(Worker {
                orders,
                answers,
                thread,
            })
        });
        let workers = Workers {
            workers: workers.collect::<Result<_>>()?,
            calls: Vec::new(),
        };
        for worker in &workers.workers {
            worker.answers.recv().context("a worker has ended")??;
        }
        Ok(workers)
    }

    /// Nanoseconds that each of these threads takes for `count` calls, all at the same time.
    pub fn time(&mut self, record: Record, threads: &[usize], count: u32) -> Result<Vec<f64>> {
        let together = (threads.len() > 1).then_some(threads.len() as u32);
        for &thread in threads {
            self.order(
                thread,
                Order::Time {
                    record,
                    count,
                    together,
                },
                record,
                count.into(),
            )?;
        }
        threads
            .iter()
            .map(|&thread| match self.answer(thread)? {
                Answer::Nanoseconds(nanoseconds) => Ok(nanoseconds),
                _ => bail!("a worker has answered another question"),
            })
            .collect()
    }

    /// Counts the instructions of each of `calls` calls on thread 0.
    pub fn count(&mut self, record: Record, calls: usize) -> Result<Steps> {
        self.order(0, Order::Count { record, calls }, record, calls as u64)?;
        match self.answer(0)? {
            Answer::Steps(steps) => Ok(steps),
            _ => bail!("a worker has answered another question"),
        }
    }

    /// Makes every thread record `first..first + count`.
    pub fn record(&mut self, record: Record, first: u32, count: u32) -> Result<()> {
        for thread in 0..THREADS {
            self.order(
                thread,
                Order::Record {
                    record,
                    first,
                    count,
                },
                record,
                count.into(),
            )?;
        }
        (0..THREADS).try_for_each(|thread| self.answer(thread).map(drop))
    }

    /// Number of calls of `record` by each thread.
    pub fn calls(&self, record: Record) -> [u64; THREADS] {
        self.calls
            .iter()
            .find(|(other, _)| std::ptr::fn_addr_eq(*other, record))
            .map_or([0; THREADS], |(_, calls)| *calls)
    }

    /// Ends the threads.
    pub fn end(&mut self) -> Result<()> {
        for worker in self.workers.drain(..) {
            drop(worker.orders);
            if worker.thread.join().is_err() {
                bail!("a worker has panicked");
            }
        }
        Ok(())
    }

    fn order(&mut self, thread: usize, order: Order, record: Record, calls: u64) -> Result<()> {
        let known = self
            .calls
            .iter()
            .position(|(other, _)| std::ptr::fn_addr_eq(*other, record));
        let index = known.unwrap_or_else(|| {
            self.calls.push((record, [0; THREADS]));
            self.calls.len() - 1
        });
        if let Some(count) = self
            .calls
            .get_mut(index)
            .and_then(|(_, calls)| calls.get_mut(thread))
        {
            *count += calls;
        }
        let worker = self
            .workers
            .get(thread)
            .context("there is no such worker")?;
        worker.orders.send(order).ok().context("a worker has ended")
    }

    fn answer(&self, thread: usize) -> Result<Answer> {
        self.workers
            .get(thread)
            .context("there is no such worker")?
            .answers
            .recv()
            .context("a worker has ended")?
    }
}

fn obey(thread: usize, order: Order) -> Result<Answer> {
    match order {
        Order::Time {
            record,
            count,
            together,
        } => {
            let record = black_box(record);
            if let Some(threads) = together {
                let goal = (ARRIVED.fetch_add(1, SeqCst) / threads + 1) * threads;
                while ARRIVED.load(SeqCst) < goal {
                    spin_loop();
                }
            }
            let begin = Instant::now();
            repeat(record, thread, 0, count);
            Ok(Answer::Nanoseconds(begin.elapsed().as_nanos() as f64))
        }
        Order::Count { record, calls } => {
            let record = black_box(record);
            single_step::count(record as usize, calls, || {
                repeat(record, thread, 0, calls as u32)
            })
            .map(Answer::Steps)
        }
        Order::Record {
            record,
            first,
            count,
        } => {
            repeat(black_box(record), thread, first, count);
            Ok(Answer::Entered)
        }
    }
}

/// Pins thread number `thread` to the CPU of this index among those that the process may use.
fn pin(thread: usize) -> Result<()> {
    // SAFETY: the set is plain memory, and large enough for the calls, which are given its size.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed) != 0 {
            bail!(
                "the CPUs of this process cannot be asked for: {}",
                std::io::Error::last_os_error()
            );
        }
        let cpu = (0..libc::CPU_SETSIZE as usize)
            .filter(|&cpu| libc::CPU_ISSET(cpu, &allowed))
            .nth(thread);
        let cpu = cpu.context("two CPUs are needed, and this process has only one")?;
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut only);
        if libc::sched_setaffinity(0, size_of_val(&only), &only) != 0 {
            bail!(
                "a thread cannot be pinned to CPU {cpu}: {}",
                std::io::Error::last_os_error()
            );
        }
    }
    Ok(())
}
