//! A trace whose events follow from a seed, and answers as JSON.

use kymo::Text;
use kymo::vocabulary::{
    Counter, Irq, IrqEnter, IrqExit, LockAcquired, LockKind, LockReleased, LockWait, Object, Pid,
    ProcessName, SwitchReason, Syscall, SyscallEnter, SyscallExit, ThreadName, ThreadState, Tid,
};
use kymo_made::Made;
use kymo_made::lttng::{Lttng, RELEASES, Task};
use kymo_sql::{Answer, Error, Limits, Session, Traces};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Numbers that follow from a seed (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    pub fn pick<'p, T>(&mut self, from: &'p [T]) -> &'p T {
        &from[self.below(from.len() as u64) as usize]
    }
}

/// Two CPUs on which threads switch, wake each other, call, wait for a lock, count and are
/// interrupted.
pub fn busy(name: &str, seed: u64, steps: u64) -> Made {
    let (mut made, mut random) = (Made::new(name), Random(seed));
    for tid in 1..=6 {
        let name = format!("{}-{tid}", if tid < 4 { "ui" } else { "work" });
        let name = Text::new(&name);
        made.event(
            0,
            0,
            ThreadName {
                tid: Tid(tid),
                name,
            },
        );
    }
    for pid in 1..=2 {
        made.event(
            0,
            0,
            ProcessName {
                pid: Pid(pid),
                name: Text::new(&format!("program-{pid}")),
            },
        );
    }
    for cpu in 0..2 {
        let tids = [3 * cpu + 1, 3 * cpu + 2, 3 * cpu + 3];
        let (mut now, mut running) = (1, tids[0]);
        let lock = Object(u64::from(cpu) + 0xffff_8000_0000_0000);
        let kind = LockKind::Mutex;
        for _ in 0..steps {
            now += 1 + random.below(1_000);
            let end = now + 1 + random.below(500);
            match random.below(6) {
                0 => {
                    let next = *random.pick(&tids);
                    if next != running {
                        let left = (running, ThreadState::Blocked, SwitchReason::Waits);
                        made.switch(cpu, now, left, (next, 1));
                        running = next;
                    }
                }
                1 => {
                    let woken = *random.pick(&tids);
                    if woken != running {
                        made.wake(cpu, now, woken, running);
                    }
                }
                2 => {
                    let id = Syscall(random.below(3) as u32);
                    made.event(cpu, now, SyscallEnter { id, arg0: 0 });
                    let ret = random.below(3) as i64 - 1;
                    made.event(cpu, end, SyscallExit { id, ret });
                    now = end;
                }
                5 => {
                    let value = random.below(100) as i64 - 50;
                    made.event(cpu, now, Counter { id: 7 + cpu, value });
                }
                3 => {
                    let irq = Irq(random.below(2) as u32);
                    made.event(cpu, now, IrqEnter { irq });
                    made.event(cpu, end, IrqExit { irq });
                    now = end;
                }
                _ => {
                    let owner_tid = Tid(0);
                    made.event(
                        cpu,
                        now,
                        LockWait {
                            lock,
                            owner_tid,
                            kind,
                        },
                    );
                    let contended = true;
                    made.event(
                        cpu,
                        end,
                        LockAcquired {
                            lock,
                            kind,
                            contended,
                        },
                    );
                    now = end + 1 + random.below(50);
                    made.event(cpu, now, LockReleased { lock, kind });
                }
            }
        }
    }
    made
}

/// A trace of the Linux kernel, as LTTng records it: on two CPUs, threads switch, wake each other,
/// call, are interrupted and create processes. It has no locks and no counters, and its system
/// calls have names, but no numbers.
pub fn linux(name: &str, seed: u64, steps: u64) -> Lttng {
    let states = RELEASES[3];
    let mut made = Lttng::new(name, states.release, 2, steps * 2_000);
    let mut random = Random(seed);
    for cpu in 0..2 {
        let own = 100 * (cpu as i32 + 1);
        let tasks: [Task<'_>; 4] = [
            ("swapper", 0),
            ("bash", own),
            ("ui-server", own + 1),
            ("kworker", own + 2),
        ];
        let stream = made.cpu(cpu);
        stream.state(0, tasks[1]);
        stream.state(0, tasks[2]);
        let (mut now, mut running, mut child) = (1, tasks[0], own + 10);
        for _ in 0..steps {
            now += 1 + random.below(1_000);
            let end = now + 1 + random.below(500);
            match random.below(6) {
                0 | 1 => {
                    let next = *random.pick(&tasks);
                    let state = *random.pick(&[1, 2, states.preempted, states.killable]);
                    if next != running {
                        let state = if running.1 == 0 { 0 } else { state };
                        stream.switch(now, running, state, next);
                        running = next;
                    }
                }
                2 => {
                    let woken = *random.pick(&tasks[1..]);
                    if woken != running {
                        stream.waking(now, woken);
                        stream.wakeup(now + 1, woken);
                        now += 1;
                    }
                }
                3 if running.1 != 0 => {
                    stream.read_entry(now);
                    stream.read_exit(end, random.below(3) as i64 - 1);
                    now = end;
                }
                4 => {
                    stream.irq_entry(now, 1, "eth0");
                    stream.irq_exit(end, 1);
                    // A soft interrupt may have the line's number.
                    stream.softirq_entry(end + 1, 1);
                    now = end + 1 + random.below(300);
                    stream.softirq_exit(now, 1);
                }
                _ if running == tasks[1] => {
                    stream.fork(now, running, child);
                    child += 1;
                }
                _ => {}
            }
        }
    }
    made
}

/// Traces on which ready questions are asked: two of Kymo's, and one of LTTng's.
pub struct Three {
    made: [Made; 2],
    linux: Lttng,
}

impl Three {
    pub fn new(name: &str, seed: u64, steps: u64) -> Three {
        Three {
            made: [busy(name, seed, steps), busy(name, seed + 100, steps)],
            linux: linux(name, seed, 3 * steps),
        }
    }

    /// Adds losses: of both CPUs to the first trace, twice of one to the second, none to LTTng's.
    pub fn lose(&mut self) {
        let [one, other] = &mut self.made;
        one.lose(0, 17, 1_000_000);
        one.lose(1, 4, 1_000_000);
        other.lose(1, 5, 1_000_000);
        other.lose(1, 6, 2_000_000);
    }

    /// Their folders. That of LTTng is the last.
    pub fn paths(&mut self) -> [PathBuf; 3] {
        let [one, other] = &mut self.made;
        [one.finish(), other.finish(), self.linux.finish()].map(Path::to_owned)
    }
}

/// The rows of an answer, as objects.
pub fn rows(session: &Session, sql: &str) -> Result<Vec<Value>, Error> {
    asked(session, sql, &[])
}

pub fn asked(
    session: &Session,
    sql: &str,
    parameters: &[(String, String)],
) -> Result<Vec<Value>, Error> {
    use datafusion::arrow::json::writer::{LineDelimited, WriterBuilder};
    let builder = WriterBuilder::new().with_explicit_nulls(true);
    let mut writer = builder.build::<_, LineDelimited>(Vec::new());
    session.ask(sql, parameters, &mut |answer| {
        if let Answer::Rows(batch) = answer {
            writer.write(&batch).unwrap();
        }
        Ok(())
    })?;
    let text = String::from_utf8(writer.into_inner()).unwrap();
    Ok(text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect())
}

pub fn session(traces: &[&std::path::Path]) -> Session {
    let traces = Traces::open(traces).unwrap();
    Session::new(&traces, Limits::default()).unwrap()
}
