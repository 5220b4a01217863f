//! Critical paths of random schedules, compared with a walk that goes back tick by tick through
//! what the schedule is known to have done.

use kymo::vocabulary::{
    Irq, IrqEnter, IrqExit, LockAcquired, LockKind, LockReleased, LockWait, Object, SwitchReason,
    ThreadState, Tid,
};
use kymo_analysis::{CriticalPath, History, Note, SegmentKind, Stretch, Stretches, Who};
use kymo_ctf::Trace;
use kymo_made::Made;

const CPUS: usize = 2;
const THREADS: usize = 5;
const LOCKS: usize = 2;
const TICKS: usize = 240;
/// Nanoseconds of a tick. One event happens at the beginning of each.
const TICK: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs(usize),
    Ready,
    Blocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waker {
    Thread(usize),
    /// An interrupt's handler on a CPU, and the tick at which it began.
    Handler(usize, usize),
}

/// What is so from one tick to the next.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    threads: [State; THREADS],
    /// Lines of the open handlers, with the ticks of their begins.
    handlers: [Vec<(u32, usize)>; CPUS],
    holders: [Option<usize>; LOCKS],
    /// The lock for which each thread waits.
    waits: [Option<usize>; THREADS],
    /// The thread that was woken at the beginning of this tick, and its waker.
    woken: Option<(usize, Waker)>,
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn any(&mut self, from: impl Iterator<Item = usize>) -> Option<usize> {
        let all: Vec<usize> = from.collect();
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }
}

fn tid(thread: usize) -> u32 {
    thread as u32 + 1
}

/// A random schedule: its trace, and what was so at each tick.
struct Schedule {
    made: Made,
    random: Random,
    now: Moment,
    tick: usize,
}

impl Schedule {
    fn running(&self, cpu: usize) -> Option<usize> {
        (0..THREADS).find(|of| self.now.threads[*of] == State::Runs(cpu))
    }

    fn in_state(&mut self, state: State) -> Option<usize> {
        let threads = self.now.threads;
        self.random
            .any((0..THREADS).filter(|of| threads[*of] == state))
    }

    fn time(&self) -> u64 {
        self.tick as u64 * TICK
    }

    fn switch(&mut self, cpu: usize, left: State) {
        let prev = self.running(cpu);
        let next = self.in_state(State::Ready);
        let (state, reason) = match (prev, left) {
            (None, _) => (ThreadState::Runnable, SwitchReason::Idle),
            (_, State::Blocked) => (ThreadState::Blocked, SwitchReason::Waits),
            _ => (ThreadState::Runnable, SwitchReason::Preempted),
        };
        if prev.is_none() && next.is_none() {
            return;
        }
        if let Some(prev) = prev {
            self.now.threads[prev] = left;
        }
        if let Some(next) = next {
            self.now.threads[next] = State::Runs(cpu);
        }
        let number = |thread: Option<usize>| thread.map_or(0, tid);
        let (at, prev) = (self.time(), (number(prev), state, reason));
        self.made.switch(cpu as u32, at, prev, (number(next), 1));
    }

    fn wake(&mut self, cpu: usize, waker: Waker) {
        if let Some(woken) = self.in_state(State::Blocked) {
            self.now.threads[woken] = State::Ready;
            self.now.woken = Some((woken, waker));
            let by = match waker {
                Waker::Thread(thread) => tid(thread),
                Waker::Handler(..) => 0,
            };
            self.made.wake(cpu as u32, self.time(), tid(woken), by);
        }
    }

    /// The running thread acquires a lock, waits for it or releases it.
    fn lock(&mut self, cpu: usize, thread: usize) {
        let chosen = self.random.below(LOCKS);
        let (at, cpu, kind) = (self.time(), cpu as u32, LockKind::Mutex);
        let number = |lock: usize| Object(lock as u64 + 0x10);
        if let Some(index) = self.now.waits[thread] {
            if self.now.holders[index].is_none() {
                self.now.holders[index] = Some(thread);
                self.now.waits[thread] = None;
                let (lock, contended) = (number(index), true);
                let event = LockAcquired {
                    lock,
                    kind,
                    contended,
                };
                self.made.event(cpu, at, event);
            }
            return;
        }
        let lock = number(chosen);
        match self.now.holders[chosen] {
            Some(holder) if holder == thread => {
                self.now.holders[chosen] = None;
                self.made.event(cpu, at, LockReleased { lock, kind });
            }
            Some(_) => {
                self.now.waits[thread] = Some(chosen);
                let owner_tid = Tid::UNKNOWN;
                let event = LockWait {
                    lock,
                    owner_tid,
                    kind,
                };
                self.made.event(cpu, at, event);
            }
            None => {
                self.now.holders[chosen] = Some(thread);
                let contended = false;
                let event = LockAcquired {
                    lock,
                    kind,
                    contended,
                };
                self.made.event(cpu, at, event);
            }
        }
    }

    fn act(&mut self) {
        let cpu = self.random.below(CPUS);
        let running = self.running(cpu);
        let choice = self.random.below(12);
        let (at, line) = (self.time(), self.random.below(3) as u32);
        if let Some((line, begin)) = self.now.handlers[cpu].last().copied() {
            match choice {
                0..4 => {
                    self.now.handlers[cpu].pop();
                    self.made.event(cpu as u32, at, IrqExit { irq: Irq(line) });
                }
                4..8 => self.wake(cpu, Waker::Handler(cpu, begin)),
                8 if self.now.handlers[cpu].len() < 2 => self.interrupt(cpu, line + 3),
                _ => {}
            }
            return;
        }
        match (choice, running) {
            (0 | 1, _) => self.interrupt(cpu, line),
            (_, None) => self.switch(cpu, State::Ready),
            (2 | 3, Some(_)) => self.switch(cpu, State::Ready),
            (4 | 5, Some(_)) => self.switch(cpu, State::Blocked),
            (6 | 7, Some(thread)) => self.wake(cpu, Waker::Thread(thread)),
            (_, Some(thread)) => self.lock(cpu, thread),
        }
    }

    fn interrupt(&mut self, cpu: usize, line: u32) {
        self.now.handlers[cpu].push((line, self.tick));
        let at = self.time();
        self.made.event(cpu as u32, at, IrqEnter { irq: Irq(line) });
    }
}

/// The trace of a random schedule, and what was so at each tick.
pub(crate) fn schedule(seed: u64) -> (Made, Vec<Moment>) {
    let mut schedule = Schedule {
        made: Made::new(&format!("oracle-{seed}")),
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        now: Moment {
            threads: [State::Ready; THREADS],
            handlers: Default::default(),
            holders: [None; LOCKS],
            waits: [None; THREADS],
            woken: None,
        },
        tick: 0,
    };
    let mut moments = Vec::new();
    while schedule.tick < TICKS {
        schedule.now.woken = None;
        schedule.act();
        moments.push(schedule.now.clone());
        schedule.tick += 1;
    }
    (schedule.made, moments)
}

/// What is on the path at a tick: the followed thread, the kind, and the number of the thread or
/// interrupt that is responsible.
type Blame = (usize, SegmentKind, Option<String>);

/// Walks back tick by tick.
struct Oracle<'m> {
    moments: &'m [Moment],
    path: Vec<Option<Blame>>,
}

impl Oracle<'_> {
    /// The lock for which the thread waits, and who holds it.
    fn lock(&self, thread: usize, tick: usize) -> Option<(usize, Option<usize>)> {
        let lock = self.moments[tick].waits[thread]?;
        Some((lock, self.moments[tick].holders[lock]))
    }

    fn handler(&self, cpu: usize, tick: usize) -> Option<String> {
        let line = self.moments[tick].handlers[cpu].last();
        line.map(|(line, _)| format!("irq {line}"))
    }

    /// Blames somebody for each tick from `from` to before `to`, during which `followed` waited for
    /// `thread`.
    fn blame(&mut self, thread: usize, from: usize, to: usize, followed: &[usize]) {
        let mut at = to;
        while at > from {
            let tick = at - 1;
            let mine = |kind, by: Option<String>| Some((thread, kind, by));
            let context = self.lock(thread, tick);
            // Since when it is in this state, and waits for this holder.
            let mut begin = tick;
            while begin > from
                && self.lock(thread, begin - 1) == context
                && self.moments[begin - 1].threads[thread] == self.moments[tick].threads[thread]
            {
                begin -= 1;
            }
            if let Some((_, Some(holder))) = context {
                assert!(holder != thread);
                if !followed.contains(&holder) {
                    // The holder is followed for as long as it is the holder, whatever this thread
                    // does meanwhile.
                    while begin > from && self.lock(thread, begin - 1) == context {
                        begin -= 1;
                    }
                    let all = [followed, &[holder]].concat();
                    self.blame(holder, begin, at, &all);
                    at = begin;
                    continue;
                }
                let kind = match self.moments[tick].threads[thread] {
                    State::Runs(_) => SegmentKind::Running,
                    State::Ready => SegmentKind::Runnable,
                    State::Blocked => SegmentKind::Blocked,
                };
                self.path[tick] = mine(kind, Some(format!("thread {}", tid(holder))));
                at = tick;
                continue;
            }
            match self.moments[tick].threads[thread] {
                State::Runs(cpu) => {
                    self.path[tick] = match self.handler(cpu, tick) {
                        Some(line) => mine(SegmentKind::Interrupt, Some(line)),
                        None => mine(
                            SegmentKind::Running,
                            Some(format!("thread {}", tid(thread))),
                        ),
                    };
                    at = tick;
                }
                State::Ready => {
                    let cpu = self.gets(thread, tick);
                    let runs =
                        (0..THREADS).find(|of| self.moments[tick].threads[*of] == State::Runs(cpu));
                    let by = self.handler(cpu, tick).unwrap_or_else(|| match runs {
                        Some(other) => format!("thread {}", tid(other)),
                        None => format!("idle {cpu}"),
                    });
                    self.path[tick] = mine(SegmentKind::Runnable, Some(by));
                    at = tick;
                }
                State::Blocked => {
                    let woken = self.moments.get(at).and_then(|moment| moment.woken);
                    let waker = woken.filter(|(of, _)| *of == thread).map(|(_, by)| by);
                    match waker {
                        Some(Waker::Thread(waker)) => {
                            let all = [followed, &[waker]].concat();
                            self.blame(waker, begin, at, &all);
                        }
                        Some(Waker::Handler(cpu, since)) => {
                            let waking = self.moments[at].handlers[cpu].last().unwrap().0;
                            for tick in begin..at {
                                self.path[tick] = match tick >= since {
                                    true => mine(SegmentKind::Interrupt, self.handler(cpu, tick)),
                                    false => {
                                        mine(SegmentKind::Blocked, Some(format!("irq {waking}")))
                                    }
                                };
                            }
                        }
                        None => {
                            for tick in begin..at {
                                self.path[tick] = mine(SegmentKind::Blocked, None);
                            }
                        }
                    }
                    at = begin;
                }
            }
        }
    }

    /// The CPU that a ready thread gets, or else had last.
    fn gets(&self, thread: usize, tick: usize) -> usize {
        let cpu = |moment: &Moment| match moment.threads[thread] {
            State::Runs(cpu) => Some(cpu),
            _ => None,
        };
        let mut after = self.moments[tick..].iter();
        let mut before = self.moments[..tick].iter().rev();
        after
            .find_map(cpu)
            .or_else(|| before.find_map(cpu))
            .unwrap()
    }
}

fn path(made: &mut Made, thread: usize, begin: u64, end: u64, most: usize) -> CriticalPath {
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let (mut reader, mut stretches) = (map.read(), Stretches::new(None));
    while let Some(item) = reader.next() {
        stretches.add(&item);
    }
    stretches.finish();
    let machine = stretches.machine();
    let id = machine.thread_of(u64::from(tid(thread)), None).unwrap();
    let stretch = Stretch::given(id, begin as i64, end as i64);
    let mut history = History::limited(stretch, most);
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        if !history.add(&item) {
            break;
        }
    }
    history.path(machine)
}

/// Whether the segments follow each other from the stretch's begin to its end, and all sums are its
/// length.
fn assert_adds_up(path: &CriticalPath) {
    let mut time = path.begin_ns;
    for segment in &path.segments {
        assert_eq!(segment.begin_ns, time, "{path:#?}");
        assert!(segment.end_ns > segment.begin_ns, "{segment:?}");
        assert_eq!(segment.ns, (segment.end_ns - segment.begin_ns) as u64);
        time = segment.end_ns;
    }
    assert_eq!(time, path.end_ns);
    let by_who: u64 = path.by_who.iter().map(|of| of.ns).sum();
    let by_kind: u64 = path.by_kind.iter().map(|of| of.ns).sum();
    assert_eq!([by_who, by_kind], [path.ns; 2]);
    let count: u64 = path.by_who.iter().map(|of| of.segments).sum();
    assert_eq!(count, path.segments.len() as u64);
}

fn responsible(who: &Who) -> Option<String> {
    match who {
        Who::Thread(thread) => Some(format!("thread {}", thread.tid)),
        Who::Interrupt(irq) => Some(format!("irq {}", irq.irq)),
        Who::IdleCpu { cpu } => Some(format!("idle {cpu}")),
        _ => None,
    }
}

/// The tick from which on every thread has run and each CPU's thread is known.
fn known_from(moments: &[Moment]) -> Option<usize> {
    let ran = (0..THREADS).map(|thread| {
        let runs = |moment: &Moment| matches!(moment.threads[thread], State::Runs(_));
        moments.iter().position(runs)
    });
    let ran: Option<Vec<usize>> = ran.collect();
    Some(ran?.into_iter().max()? + 1)
}

#[test]
fn paths_of_random_schedules_are_what_a_walk_tick_by_tick_finds() {
    let mut compared = 0;
    for seed in 1..=150 {
        let (mut made, moments) = schedule(seed);
        let Some(begin) = known_from(&moments).filter(|begin| *begin + 100 < TICKS) else {
            continue;
        };
        let begin = begin + seed as usize % 30;
        let end = TICKS - 1 - seed as usize % 20;
        let thread = seed as usize % THREADS;
        let mut oracle = Oracle {
            moments: &moments[..=end],
            path: vec![None; TICKS],
        };
        oracle.blame(thread, begin, end, &[thread]);
        let time = |tick: usize| tick as u64 * TICK;
        let path = path(&mut made, thread, time(begin), time(end), 1 << 20);
        assert_adds_up(&path);
        for tick in begin..end {
            let at = time(tick) as i64;
            let mut segments = path.segments.iter();
            let segment = segments.find(|of| (of.begin_ns..of.end_ns).contains(&at));
            let segment = segment.unwrap();
            let followed = segment.thread.as_ref().unwrap().tid as usize - 1;
            let found = (followed, segment.kind, responsible(&segment.who));
            let expected = oracle.path[tick].clone().unwrap();
            assert_eq!(
                found, expected,
                "seed {seed}, tick {tick} of {begin}..{end}"
            );
            compared += 1;
        }
    }
    assert!(compared > 10_000, "{compared}");
}

/// The path ends where the history was dropped, and is right behind that, unless it says itself
/// that it does not know a CPU.
#[test]
fn a_short_history_gives_the_end_of_the_path() {
    let mut cut = 0;
    for seed in 1..=40 {
        let (mut made, _) = schedule(seed);
        let (begin, end) = (100 * TICK, 230 * TICK);
        let thread = seed as usize % THREADS;
        let whole = path(&mut made, thread, begin, end, 1 << 20);
        let short = path(&mut schedule(seed).0, thread, begin, end, 60);
        assert_adds_up(&short);
        assert_eq!(whole.kept_from_ns, None);
        let Some(kept_from) = short.kept_from_ns else {
            continue;
        };
        cut += 1;
        for segment in &short.segments {
            if segment.begin_ns <= kept_from || segment.note == Some(Note::Cpu) {
                continue;
            }
            assert!(whole.segments.contains(segment), "seed {seed}: {segment:?}");
        }
    }
    assert!(cut > 20, "{cut}");
}
