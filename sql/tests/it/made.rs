//! A trace whose events follow from a seed, and answers as JSON.

use kymo::Text;
use kymo::vocabulary::{
    Counter, Irq, IrqEnter, IrqExit, LockAcquired, LockKind, LockReleased, LockWait, Object, Pid,
    ProcessName, SwitchReason, Syscall, SyscallEnter, SyscallExit, ThreadName, ThreadState, Tid,
};
use kymo_made::Made;
use kymo_sql::{Answer, Error, Limits, Session, Traces};
use serde_json::Value;

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
