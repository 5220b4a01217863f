//! Events in words, one a line: `TIME CPU WHAT`. Times are in nanoseconds and increase.
//!
//! ```text
//! 10 0 switch 0 runnable 5    CPU 0 goes from its idle thread to thread 5
//! 20 1 wake 5 by 0            an interrupt wakes thread 5; `by 7`: thread 7; `by ?`: not known
//! 30 0 wait 9 for 6           the running thread waits for lock 9, which thread 6 holds
//! 40 - lost 0 20..40          events of CPU 0 were lost between 20 and 40; `lost * 20..40`: of
//!                             any CPU; `lost 0 20..`: their end is not known
//! 40 0 loses 3                CPU 0 lost 3 events, and its next packet begins at 40
//! 50 - damaged 0 packet       a packet of CPU 0 cannot be read; `end`: nothing behind it either;
//!                             `clamped`: a time was corrected
//! ```
//!
//! The other words are in [`event`]. [`crate::shown`] puts changes into words.

use kymo::event::Event as _;
use kymo::vocabulary::*;
use kymo::{ChannelKind, Irq, Sequence, Text};
use kymo_ctf::{Consequence, DecodeError, ItemRef, Loss, LossKind, Problem, Trace};
use kymo_machine::{Machine, Taken};
use kymo_made::Made;

use crate::shown::shown;

/// What the machine said of each line, and the machine after the last one.
pub struct Played {
    /// The changes of each line.
    pub changes: Vec<Vec<String>>,
    pub taken: Vec<Taken>,
    pub machine: Machine,
}

impl Played {
    /// The changes whose first word is one of `kinds`, of all lines.
    pub fn of(&self, kinds: &str) -> Vec<&str> {
        let is_of = |change: &&str| {
            let kind = change.split(' ').next();
            kinds.split(' ').any(|of| Some(of) == kind)
        };
        let all = self.changes.iter().flatten().map(String::as_str);
        all.filter(is_of).collect()
    }
}

/// Plays these lines.
pub fn play(lines: &str) -> Played {
    play_to(lines, None)
}

/// The changes of these lines whose first word is one of `kinds`.
pub fn changes(kinds: &str, lines: &str) -> Vec<String> {
    play(lines)
        .of(kinds)
        .into_iter()
        .map(str::to_owned)
        .collect()
}

/// Plays these lines, and ends all states at a time.
pub fn play_to(lines: &str, end: Option<i64>) -> Played {
    let lines: Vec<Vec<&str>> = lines
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|words: &Vec<&str>| !words.is_empty())
        .collect();
    let name = std::thread::current()
        .name()
        .unwrap_or("main")
        .replace("::", "-");
    let mut made = Made::new(&format!("machine-{name}"));
    for words in &lines {
        if words[1] != "-" {
            event(
                &mut made,
                number(words[0]),
                number(words[1]) as u32,
                &words[2..],
            );
        }
    }
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let (mut reader, mut machine) = (map.read(), Machine::new());
    // Another one is kept as text between any two lines, and must see the same.
    let mut kept = saved(&machine);
    let (mut all, mut taken) = (Vec::new(), Vec::new());
    for words in &lines {
        let mut restored: Machine = serde_json::from_str(&kept).unwrap();
        let item = (words[1] != "-").then(|| reader.next().unwrap());
        taken.push(take(&mut machine, item.as_ref(), words));
        assert_eq!(
            take(&mut restored, item.as_ref(), words),
            taken[taken.len() - 1]
        );
        assert_eq!(restored.changes(), machine.changes(), "{words:?}");
        assert_eq!(restored.is_foreign(), machine.is_foreign());
        assert_eq!(restored.live_state(), machine.live_state());
        kept = saved(&restored);
        if words[1] != "-" && words[2] != "loses" {
            assert_eq!(
                machine.now(),
                number(words[0]) as i64,
                "{words:?}: times must increase"
            );
        }
        all.push(
            machine
                .changes()
                .iter()
                .map(|of| shown(&machine, of))
                .collect(),
        );
    }
    assert!(reader.next().is_none());
    assert_eq!(kept, saved(&machine));
    if let Some(end) = end {
        machine.finish(end);
        all.push(
            machine
                .changes()
                .iter()
                .map(|of| shown(&machine, of))
                .collect(),
        );
    }
    Played {
        changes: all,
        taken,
        machine,
    }
}

fn saved(machine: &Machine) -> String {
    serde_json::to_string(machine).unwrap()
}

/// Adds the item, or the one that these words describe.
fn take(machine: &mut Machine, item: Option<&ItemRef<'_>>, words: &[&str]) -> Taken {
    match item {
        Some(item) => machine.add(item),
        None => by_hand(machine, &words[2..]),
    }
}

fn number(word: &str) -> u64 {
    word.parse()
        .unwrap_or_else(|_| panic!("{word} is no number"))
}

fn stream(word: &str) -> (Option<u64>, String) {
    match word {
        "*" => (None, "events_0".to_owned()),
        "names" | "samples" => (Some(0), format!("{word}_0")),
        cpu => (Some(number(cpu)), format!("events_{cpu}")),
    }
}

/// Adds a loss or a problem.
fn by_hand(machine: &mut Machine, words: &[&str]) -> Taken {
    let (cpu, stream) = stream(words[1]);
    match *words {
        ["lost", _, times] => {
            let (begin, end) = times.split_once("..").unwrap();
            let time = |word: &str| (!word.is_empty()).then(|| i128::from(number(word)));
            let loss = Loss {
                stream: stream.into(),
                cpu,
                kind: LossKind::Events,
                count: 1,
                begin: None,
                end: None,
                begin_nanos: time(begin),
                end_nanos: time(end),
            };
            machine.add(&ItemRef::Loss(&loss))
        }
        ["damaged", _, how] => {
            let consequence = match how {
                "packet" => Consequence::PacketLost { resumes: 0 },
                "end" => Consequence::StreamEnds,
                "clamped" => Consequence::Clamped,
                _ => panic!("{how}"),
            };
            let problem = Problem {
                stream: stream.into(),
                packet: 0,
                offset: 0,
                reason: DecodeError::Truncated { available: 0 },
                consequence,
            };
            machine.add(&ItemRef::Problem(&problem))
        }
        _ => panic!("{words:?}"),
    }
}

fn tid(word: &str) -> Tid {
    match word {
        "?" => Tid::UNKNOWN,
        word => Tid(number(word) as u32),
    }
}

fn state(word: &str, prev: &str) -> (ThreadState, SwitchReason) {
    match word {
        "runnable" if prev == "0" => (ThreadState::Runnable, SwitchReason::Idle),
        "runnable" => (ThreadState::Runnable, SwitchReason::Expired),
        "blocked" => (ThreadState::Blocked, SwitchReason::Waits),
        "sleeping" => (ThreadState::Sleeping, SwitchReason::Waits),
        "suspended" => (ThreadState::Suspended, SwitchReason::Suspended),
        "ended" => (ThreadState::Ended, SwitchReason::Ended),
        _ => panic!("{word} is no state"),
    }
}

fn kind(word: &str) -> LockKind {
    match word {
        "semaphore" => LockKind::Semaphore,
        "spin" => LockKind::Spin,
        _ => LockKind::Mutex,
    }
}

/// Adds the event of these words.
fn event(made: &mut Made, time: u64, cpu: u32, words: &[&str]) {
    let n32 = |word: &str| number(word) as u32;
    macro_rules! add {
        ($event:expr) => {
            made.event(cpu, time, $event)
        };
    }
    match *words {
        // Scheduling.
        ["switch", prev, how, next] => {
            let (state, reason) = state(how, prev);
            made.switch(cpu, time, (n32(prev), state, reason), (n32(next), 3));
        }
        ["loses", events] => made.lose(cpu, number(events), time),
        ["wake", of, "by", by] => {
            made.event(
                cpu,
                time,
                SchedWakeup {
                    tid: tid(of),
                    waker_tid: tid(by),
                    target_cpu: Cpu(cpu),
                },
            );
        }
        ["wake-new", of, "by", by] => add!(SchedWakeupNew {
            tid: tid(of),
            waker_tid: tid(by),
            target_cpu: Cpu(cpu),
        }),
        ["create", of, "in", pid] => add!(ThreadCreate {
            tid: tid(of),
            pid: Pid(n32(pid)),
            parent_tid: Tid(0),
            prio: 7,
        }),
        ["exit", of] => add!(ThreadExit {
            tid: tid(of),
            pid: Pid(1),
            prev_state: ThreadState::Ended,
        }),
        ["suspend", of] => add!(ThreadSuspend { tid: tid(of) }),
        ["resume", of] => add!(ThreadResume { tid: tid(of) }),
        ["priority", of, newprio] => add!(SchedPriority {
            tid: tid(of),
            oldprio: 0,
            newprio: number(newprio) as i16,
            lock: Object(0),
        }),
        ["queue-of", "?", len] => add!(RunQueue {
            cpu: Cpu::UNKNOWN,
            len: n32(len)
        }),
        ["queue-of", of, len] => add!(RunQueue {
            cpu: Cpu(n32(of)),
            len: n32(len)
        }),
        ["chooses"] => add!(SchedEnter {}),
        ["chose"] => add!(SchedExit {}),
        ["state-of", of, "is", how, "name", name] => add!(ThreadStateDump {
            tid: tid(of),
            pid: Pid(4),
            prio: 9,
            state: state(how, of).0,
            cpu: Cpu::UNKNOWN,
            name: Text::new(name),
        }),
        // Interrupts and calls.
        ["irq", irq] => add!(IrqEnter { irq: Irq(n32(irq)) }),
        ["irq-end", irq] => add!(IrqExit { irq: Irq(n32(irq)) }),
        ["call", id] => add!(SyscallEnter {
            id: Syscall(n32(id)),
            arg0: 0
        }),
        ["return", id, ret] => {
            add!(SyscallExit {
                id: Syscall(n32(id)),
                ret: ret.parse().unwrap()
            });
        }
        ["fault", who] => add!(PageFault {
            address: Address(0x1000),
            ip: Address(0x2000),
            cause: FaultCause::Store,
            user: who == "user",
        }),
        // Locks.
        ["wait", lock, "for", owner] => add!(LockWait {
            lock: Object(number(lock)),
            owner_tid: tid(owner),
            kind: LockKind::Mutex,
        }),
        ["acquire", lock, ref how @ ..] => add!(LockAcquired {
            lock: Object(number(lock)),
            kind: kind(how.first().unwrap_or(&"")),
            contended: how.contains(&"contended"),
        }),
        ["release", lock, ref how @ ..] => add!(LockReleased {
            lock: Object(number(lock)),
            kind: kind(how.first().unwrap_or(&"")),
        }),
        ["lock-state", lock, "held-by", owner] => add!(LockStateDump {
            lock: Object(number(lock)),
            owner_tid: tid(owner),
            kind: LockKind::Mutex,
        }),
        ["fail", lock] => add!(LockFailed {
            lock: Object(number(lock)),
            error: 1,
            kind: LockKind::Mutex,
        }),
        // Messages.
        ["send", len] => add!(IpcSend {
            port: Object(1),
            target_tid: Tid(1),
            len: n32(len),
            path: IpcPath::Fast,
        }),
        ["receive", len] => add!(IpcReceive {
            port: Object(1),
            source_tid: Tid(1),
            len: n32(len),
            path: IpcPath::Slow,
        }),
        ["write", len] => add!(PipeWrite {
            pipe: Object(1),
            len: n32(len)
        }),
        ["read", len] => add!(PipeRead {
            pipe: Object(1),
            len: n32(len)
        }),
        ["put"] => add!(QueueSend {
            queue: Object(1),
            depth: 1
        }),
        ["get"] => add!(QueueReceive {
            queue: Object(1),
            depth: 0
        }),
        // Processes.
        ["fork", parent, "to", pid, child] => add!(ProcessFork {
            parent_tid: Tid(0),
            parent_pid: Pid(n32(parent)),
            child_tid: tid(child),
            child_pid: Pid(n32(pid)),
        }),
        ["exec", pid, of, path] => add!(ProcessExec {
            pid: Pid(n32(pid)),
            tid: tid(of),
            filename: Text::new(path),
        }),
        ["process-exit", pid, of] => add!(ProcessExit {
            tid: tid(of),
            pid: Pid(n32(pid)),
            status: 0,
        }),
        // Programs.
        ["span", id] => add!(SpanBegin { id: n32(id) }),
        ["span-end", id] => add!(SpanEnd { id: n32(id) }),
        ["counter", id, value] => {
            add!(Counter {
                id: n32(id),
                value: value.parse().unwrap()
            });
        }
        ["mark", id] => add!(Mark {
            id: n32(id),
            value: 0
        }),
        // Names.
        ["name", what, of, name] => {
            let name = Text::new(name);
            match what {
                "thread" => add!(ThreadName { tid: tid(of), name }),
                "process" => add!(ProcessName {
                    pid: Pid(n32(of)),
                    name
                }),
                "lock" => add!(LockName {
                    lock: Object(number(of)),
                    kind: LockKind::Spin,
                    name,
                }),
                "irq" => add!(IrqName {
                    irq: Irq(n32(of)),
                    name
                }),
                "call" => add!(SyscallName {
                    id: Syscall(n32(of)),
                    name
                }),
                "user" => add!(UserName { id: n32(of), name }),
                "counted" => {
                    // The group, how many there are, the place, and how many it has.
                    let numbers: Vec<u8> = of.split('/').map(|of| of.parse().unwrap()).collect();
                    let (group, groups, place, events) = match numbers[..] {
                        [group, groups, place, events] => (group, groups, place, events),
                        _ => (0, 1, numbers[0], 2),
                    };
                    add!(CountedEvent {
                        group,
                        groups,
                        place,
                        events,
                        name
                    })
                }
                _ => panic!("{what}"),
            }
        }
        // The recording's own.
        ["group", group, enabled, running, ref counts @ ..] => add!(GroupCount {
            group: group.parse().unwrap(),
            time_enabled: number(enabled),
            time_running: number(running),
            counts: numbers(counts),
        }),
        ["count", group, at, turns, ref counts @ ..] => add!(EventCount {
            event: match at {
                "call" => SyscallEnter::ID as u16,
                "irq" => IrqEnter::ID as u16,
                _ => SchedSwitch::ID as u16,
            },
            group: group.parse().unwrap(),
            turns: n32(turns),
            counts: numbers(counts),
        }),
        ["own-counter", of, counter, value] => add!(CounterValue {
            cpu: Cpu(n32(of)),
            counter: n32(counter),
            value: number(value),
        }),
        ["own-gauge", of, counter, value] => add!(GaugeValue {
            cpu: Cpu(n32(of)),
            counter: n32(counter),
            value: value.parse().unwrap(),
        }),
        ["own-histogram", of, counter, sum, first, ref buckets @ ..] => add!(HistogramValue {
            cpu: Cpu(n32(of)),
            counter: n32(counter),
            sum: number(sum),
            first: n32(first),
            buckets: numbers(buckets),
        }),
        ["session-end", recorded, discarded] => add!(SessionEnd {
            recorded: number(recorded),
            reused: 0,
            discarded: number(discarded),
            too_large: 0,
            clock_back: 0,
            abandoned: 0,
            without_ring: 0,
        }),
        ["clock-step", ticks] => add!(ClockStep {
            ticks: number(ticks)
        }),
        ["clock-behind", count, ticks] => add!(ClockBack {
            channel: ChannelKind::Events,
            count: n32(count),
            ticks: number(ticks),
        }),
        _ => panic!("{words:?} is no event"),
    }
}

fn numbers<const N: usize>(words: &[&str]) -> Sequence<u64, N> {
    let numbers: Vec<u64> = words.iter().map(|word| number(word)).collect();
    Sequence::new(&numbers)
}
