//! The walk from the end of a stretch back to its beginning.

use kymo_machine::{CallId, Doing, IrqLine, Machine, Thread, ThreadId, Waker, passed};

use super::history::{History, Interval, Kept, Order, Ran, Tenure, Wake};
use super::{Because, CriticalPath, Names, Note, Segment, SegmentKind, Who};

/// Why a thread is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Itself,
    Wakes(ThreadId),
    Holds(ThreadId, u64),
    Creates(ThreadId),
}

/// A thread that is followed back to `floor`. There the walk goes on with the thread that waited
/// for it, at that thread's change `order`.
#[derive(Clone, Copy, Debug)]
struct Level {
    thread: ThreadId,
    link: Link,
    floor: i64,
    order: Order,
}

/// Who was responsible, before names are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Thread(ThreadId),
    Interrupt(IrqLine),
    IdleCpu(u64),
    Nobody,
}

/// A segment, before names are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    begin: i64,
    end: i64,
    thread: ThreadId,
    link: Link,
    what: What,
}

/// What a followed thread did, and who was responsible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct What {
    kind: SegmentKind,
    by: By,
    cpu: Option<u64>,
    call: Option<CallId>,
    note: Option<Note>,
}

impl What {
    fn nobody(kind: SegmentKind, note: Note, call: Option<CallId>) -> What {
        What {
            kind,
            by: By::Nobody,
            cpu: None,
            call,
            note: Some(note),
        }
    }
}

/// The state of a thread at a time.
struct Stay {
    of: Interval,
    next: Option<Doing>,
    /// End of the state before it.
    before: i64,
}

impl Stay {
    fn has(&self, time: i64) -> bool {
        (self.of.since..=self.of.until).contains(&time)
    }
}

/// The state of a walk. What happens at `time` and behind the change `order` is on the path.
struct Walk<'h> {
    kept: &'h Kept,
    machine: &'h Machine,
    time: i64,
    order: Order,
    levels: Vec<Level>,
    /// The latest first.
    parts: Vec<Part>,
}

impl History {
    /// Ends the pass, and walks the path of the stretch. `names` is a machine that has read the
    /// trace from its beginning, at best to its end.
    pub fn path(mut self, names: &Machine) -> CriticalPath {
        self.finish();
        let stretch = self.stretch;
        let mut walk = Walk {
            kept: &self.kept,
            machine: &self.machine,
            time: stretch.end_ns,
            order: self.kept.last(),
            levels: vec![Level {
                thread: stretch.thread,
                link: Link::Itself,
                floor: stretch.begin_ns,
                order: 0,
            }],
            parts: Vec::new(),
        };
        walk.run(stretch.begin_ns);
        let names = Names(names);
        let parts = walk.parts.iter().rev();
        let mut path = CriticalPath {
            thread: names.thread(stretch.thread),
            stretch: stretch.kind,
            lock: stretch.lock.map(|lock| names.lock(lock)),
            begin_ns: stretch.begin_ns,
            end_ns: stretch.end_ns,
            ns: stretch.nanos(),
            is_open: stretch.is_open,
            losses: self.kept.losses,
            kept_from_ns: self.kept.dropped.filter(|from| *from > stretch.begin_ns),
            segments: parts.map(|part| part.named(&names)).collect(),
            by_who: Vec::new(),
            by_kind: Vec::new(),
        };
        path.add_up();
        path
    }
}

impl Walk<'_> {
    fn run(&mut self, begin: i64) {
        // Every step goes back by a change, or to where a level began. This many are never needed,
        // unless the trace contradicts itself.
        let mut steps = 1000 + 16 * self.order;
        while let Some(level) = self.levels.last().copied() {
            if self.time <= level.floor {
                self.levels.pop();
                self.order = level.order;
                continue;
            }
            let is_dropped = self.kept.dropped.is_some_and(|from| self.time <= from);
            if is_dropped || steps == 0 {
                let note = match is_dropped {
                    true => Note::NotKept,
                    false => Note::Thread,
                };
                return self.unknown(&level, begin, note);
            }
            steps -= 1;
            self.step(&level);
        }
    }

    fn step(&mut self, level: &Level) {
        let birth = self.kept.births.get(&level.thread);
        if let Some(birth) = birth.filter(|of| of.born.is_some_and(|born| self.order <= born)) {
            match (birth.parent, self.levels.last_mut()) {
                (Some(parent), Some(last)) if birth.order < self.order => {
                    (last.thread, last.link) = (parent, Link::Creates(level.thread));
                    self.order = birth.order;
                }
                _ => self.unknown(level, level.floor, Note::Thread),
            }
            return;
        }
        let Some(stay) = self.stay(level.thread) else {
            return self.unknown(level, level.floor, Note::Thread);
        };
        if !stay.has(self.time) {
            // Nobody knows what it did between two of its states.
            let is_later = stay.of.since > self.time;
            let known = if is_later { stay.before } else { stay.of.until };
            self.unknown(level, known.max(level.floor), Note::Thread);
            if is_later {
                self.order = self.order.min(stay.of.after);
            }
            return;
        }
        let mut edge = (stay.of.after, stay.of.since);
        let lock = match self.lock_wait(level.thread) {
            (Some(wait), _) => {
                let (holder, released) = self.holder(&wait);
                if let Some(hold) = holder {
                    return self.held(level, &stay.of, &wait, &hold);
                }
                Some(released.unwrap_or(wait.begin))
            }
            (None, last) => last,
        };
        if let Some(lock) = lock.filter(|lock| lock.0 > edge.0 && lock.1 >= edge.1) {
            edge = lock;
        }
        let low = edge.1.max(level.floor);
        self.state(level, &stay, (edge.0, low));
        // A thread that is followed instead goes back to `low` itself.
        if self.time <= low && self.levels.last().is_some_and(|last| last.floor < low) {
            self.order = edge.0;
        }
    }

    /// Puts the time behind `low` on the path, of a thread in this state.
    fn state(&mut self, level: &Level, stay: &Stay, low: (Order, i64)) {
        let of = &stay.of;
        let kind = SegmentKind::of(of.doing);
        match of.doing {
            Doing::Running(cpu) => self.runs(level, cpu, low.1),
            Doing::Runnable => match self.cpu_of(level.thread, stay.next) {
                Some(cpu) => self.runnable(level, cpu, low.1),
                None => self.push(level, low.1, What::nobody(kind, Note::Cpu, None)),
            },
            Doing::Ended => self.push(level, low.1, What::nobody(kind, Note::Thread, None)),
            Doing::Blocked(_) | Doing::Sleeping | Doing::Suspended | Doing::Unknown => {
                let wake = of.wake.filter(|wake| wake.order < self.order);
                let is_known = of.doing != Doing::Unknown || self.is_new(level.thread, of);
                match wake.filter(|_| is_known) {
                    Some(wake) => self.woken(level, of, &wake, low),
                    None => {
                        let note = match of.doing {
                            Doing::Unknown => Note::Thread,
                            _ if of.wake.is_some() || stay.next.is_none() => Note::NotWoken,
                            _ => Note::Waker,
                        };
                        self.push(level, low.1, What::nobody(kind, note, of.call));
                    }
                }
            }
        }
    }

    /// Whether an unknown state is that of a thread that was created and has not run yet.
    fn is_new(&self, thread: ThreadId, of: &Interval) -> bool {
        let birth = self.kept.births.get(&thread);
        birth.is_some_and(|birth| birth.born == Some(of.after))
    }

    /// A thread that waited until it was woken.
    fn woken(&mut self, level: &Level, of: &Interval, wake: &Wake, low: (Order, i64)) {
        let kind = match of.doing {
            Doing::Unknown => SegmentKind::Blocked,
            doing => SegmentKind::of(doing),
        };
        let is_idle = |id| self.machine.thread(id).is_some_and(Thread::is_idle);
        let what = match (wake.waker, wake.handler) {
            (Waker::Thread(waker), _) if waker != level.thread && !is_idle(waker) => {
                self.levels.push(Level {
                    thread: waker,
                    link: Link::Wakes(level.thread),
                    floor: low.1,
                    order: low.0,
                });
                self.order = wake.order;
                return;
            }
            (Waker::Interrupt, Some((cpu, line, since))) => {
                self.handler(level, cpu, line, since.max(low.1));
                What {
                    kind,
                    by: By::Interrupt(line),
                    cpu: None,
                    call: of.call,
                    note: None,
                }
            }
            (Waker::Interrupt, None) => What::nobody(kind, Note::Interrupt, of.call),
            _ => What::nobody(kind, Note::Waker, of.call),
        };
        self.push(level, low.1, what);
    }

    /// The thread waits for a lock that another one holds, which is followed.
    fn held(&mut self, level: &Level, of: &Interval, wait: &Tenure, hold: &Tenure) {
        let begin = match hold.begin.1 > wait.begin.1 {
            true => hold.begin,
            false => wait.begin,
        };
        let floor = level.floor.max(begin.1);
        if self.levels.iter().all(|of| of.thread != hold.thread) {
            self.levels.push(Level {
                thread: hold.thread,
                link: Link::Holds(level.thread, wait.lock),
                floor,
                order: begin.0,
            });
            return;
        }
        // All threads that are followed wait here, the holder too.
        let what = What {
            kind: SegmentKind::of(of.doing),
            by: By::Thread(hold.thread),
            cpu: None,
            call: of.call,
            note: Some(Note::Deadlock),
        };
        self.push(level, floor.max(of.since), what);
        self.order = match floor >= of.since {
            true => begin.0,
            false => of.after,
        };
    }

    /// The wait for a lock in which the thread is; or else, the end of its last one.
    fn lock_wait(&self, thread: ThreadId) -> (Option<Tenure>, Option<(Order, i64)>) {
        let Some(waits) = self.kept.waits.get(&thread) else {
            return (None, None);
        };
        let place = waits.partition_point(|wait| wait.end.0 < self.order);
        let wait = waits.get(place).copied();
        let wait = wait.filter(|wait| wait.begin.0 < self.order && wait.begin.1 < self.time);
        let before = place.checked_sub(1).and_then(|place| waits.get(place));
        (wait, before.map(|wait| wait.end))
    }

    /// The hold of the lock for which this wait is; or else, when the lock was released during the
    /// wait.
    fn holder(&self, wait: &Tenure) -> (Option<Tenure>, Option<(Order, i64)>) {
        let Some(holds) = self.kept.holds.get(&wait.lock) else {
            return (None, None);
        };
        let place = holds.partition_point(|hold| hold.end.0 < self.order);
        let hold = holds.get(place).filter(|hold| {
            let has_begun = hold.begin.0 < self.order && hold.begin.1 < self.time;
            has_begun && hold.thread != wait.thread
        });
        let before = holds.iter().take(place).rev();
        let mut during = before.take_while(|hold| hold.end.0 > wait.begin.0);
        let released = during.find(|hold| hold.thread != wait.thread);
        (hold.copied(), released.map(|hold| hold.end))
    }

    /// The state of a thread here.
    fn stay(&self, thread: ThreadId) -> Option<Stay> {
        let intervals = self.kept.threads.get(thread.index())?;
        let first = intervals.partition_point(|of| of.upto < self.order);
        let from = intervals.get(first..)?;
        let place = from.iter().position(|of| of.until >= self.time);
        let place = first + place.unwrap_or(from.len().checked_sub(1)?);
        let before = place.checked_sub(1).and_then(|place| intervals.get(place));
        Some(Stay {
            of: *intervals.get(place)?,
            next: intervals.get(place + 1).map(|next| next.doing),
            before: before.map_or(i64::MIN, |of| of.until),
        })
    }

    /// The CPU for which a runnable thread waits: the one that it gets, or else had last.
    fn cpu_of(&self, thread: ThreadId, next: Option<Doing>) -> Option<u64> {
        if let Some(Doing::Running(cpu)) = next {
            return Some(cpu);
        }
        let intervals = self.kept.threads.get(thread.index())?;
        let place = intervals.partition_point(|of| of.upto < self.order);
        let mut before = intervals.iter().take(place).rev();
        before.find_map(|of| match of.doing {
            Doing::Running(cpu) => Some(cpu),
            _ => None,
        })
    }

    /// The followed thread runs.
    fn runs(&mut self, level: &Level, cpu: u64, low: i64) {
        self.pieces(level, cpu, low, |ran| match ran.line {
            Some(line) => (SegmentKind::Interrupt, By::Interrupt(line), None),
            None => (SegmentKind::Running, By::Thread(level.thread), None),
        });
    }

    /// The followed thread could run, but its CPU runs something else.
    fn runnable(&mut self, level: &Level, cpu: u64, low: i64) {
        let machine = self.machine;
        self.pieces(level, cpu, low, |ran| {
            let is_idle = |id| machine.thread(id).is_some_and(Thread::is_idle);
            let (by, note) = match (ran.line, ran.thread) {
                (Some(line), _) => (By::Interrupt(line), None),
                (None, Some(thread)) if is_idle(thread) => (By::IdleCpu(cpu), None),
                (None, Some(thread)) => (By::Thread(thread), None),
                (None, None) => (By::Nobody, Some(Note::Cpu)),
            };
            (SegmentKind::Runnable, by, note)
        });
    }

    /// The handler of an interrupt, up to where it woke the followed thread.
    fn handler(&mut self, level: &Level, cpu: u64, line: IrqLine, low: i64) {
        self.pieces(level, cpu, low, |ran| {
            let line = ran.line.unwrap_or(line);
            let note = Some(Note::Wakes);
            (SegmentKind::Interrupt, By::Interrupt(line), note)
        });
    }

    /// Cuts the time from `low` on by what the CPU ran.
    fn pieces(
        &mut self,
        level: &Level,
        cpu: u64,
        low: i64,
        of: impl Fn(&Ran) -> (SegmentKind, By, Option<Note>),
    ) {
        let pieces = self.kept.cpus.get(&cpu).map(Vec::as_slice);
        let pieces = pieces.unwrap_or_default();
        let mut place = pieces.partition_point(|piece| piece.since < self.time);
        while self.time > low {
            place = place.saturating_sub(1);
            let piece = pieces.get(place).filter(|piece| piece.since < self.time);
            let (begin, ran) = match piece {
                Some(piece) if piece.until >= self.time => (piece.since, piece.ran),
                Some(piece) => {
                    // Between two pieces; this one is next.
                    place += 1;
                    (piece.until, Ran::default())
                }
                None => (low, Ran::default()),
            };
            let (kind, by, note) = of(&ran);
            let what = What {
                kind,
                by,
                cpu: Some(cpu),
                call: ran.call.filter(|_| ran.line.is_none()),
                note,
            };
            self.push(level, begin.max(low), what);
        }
    }

    fn unknown(&mut self, level: &Level, low: i64, note: Note) {
        self.push(level, low, What::nobody(SegmentKind::Unknown, note, None));
    }

    /// Puts the time from `begin` on the path.
    fn push(&mut self, level: &Level, begin: i64, what: What) {
        if begin >= self.time {
            return;
        }
        let part = Part {
            begin,
            end: self.time,
            thread: level.thread,
            link: level.link,
            what,
        };
        self.time = begin;
        match self.parts.last_mut() {
            Some(last) if last.continues(&part) => last.begin = begin,
            _ => self.parts.push(part),
        }
    }
}

impl Part {
    /// Whether an earlier part is the same thing, and ends where this one begins.
    fn continues(&self, earlier: &Part) -> bool {
        let same = (self.thread, self.link, self.what);
        self.begin == earlier.end && same == (earlier.thread, earlier.link, earlier.what)
    }

    fn named(&self, names: &Names<'_>) -> Segment {
        let what = &self.what;
        let who = match what.by {
            By::Thread(thread) => names.thread(thread).map(Who::Thread),
            By::Interrupt(line) => Some(Who::Interrupt(names.irq(line))),
            By::IdleCpu(cpu) => Some(Who::IdleCpu { cpu }),
            By::Nobody => None,
        };
        let because = match self.link {
            Link::Itself => None,
            Link::Wakes(thread) => Some(Because::Wakes {
                waiter: names.thread(thread),
            }),
            Link::Creates(thread) => Some(Because::Creates {
                waiter: names.thread(thread),
            }),
            Link::Holds(thread, lock) => Some(Because::Holds {
                waiter: names.thread(thread),
                lock: names.lock(lock),
            }),
        };
        Segment {
            begin_ns: self.begin,
            end_ns: self.end,
            ns: passed(self.begin, self.end),
            thread: names.thread(self.thread),
            kind: what.kind,
            who: who.unwrap_or(Who::Unknown),
            cpu: what.cpu,
            call: what.call.map(|call| names.call(call)),
            because,
            note: what.note,
        }
    }
}
