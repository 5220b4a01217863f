//! Random groups, threads, ticks and overflows: what is counted is always right.

use std::collections::HashMap;

use super::*;
use crate::count::pmu::{Model, Pmu};
use crate::count::{Cpu, Groups, Handle, Refused, Snapshot};

const SLOTS: usize = 4;
const THREADS: usize = 3;
/// Few bits, so that counters overflow often.
const WIDTH: u32 = 12;

/// A generator of random numbers: xorshift64* (Vigna 2016).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }

    fn event(&mut self) -> EventSpec {
        let kind = match self.below(8) {
            0 => EventKind::Software(Software::ContextSwitches),
            1 => EventKind::Software(Software::TaskClock),
            2 => EventKind::Tracepoint(7),
            number => EventKind::Raw(number % 5),
        };
        let is_clock = kind == EventKind::Software(Software::TaskClock);
        let exclude = match (kind, self.below(4)) {
            _ if is_clock => Exclude::NOTHING,
            (EventKind::Tracepoint(_), _) => Exclude::NOTHING,
            (_, 0) => Exclude {
                kernel: true,
                user: false,
            },
            (_, 1) => Exclude {
                kernel: false,
                user: true,
            },
            _ => Exclude::NOTHING,
        };
        let period = match (kind, self.below(3)) {
            (EventKind::Raw(_), 0) => 100,
            _ => 0,
        };
        EventSpec {
            kind,
            exclude,
            period,
        }
    }
}

/// What a group must show.
struct Truth {
    leader: Handle,
    members: Vec<(Handle, EventSpec, u64)>,
    is_enabled: bool,
    enabled: u64,
    running: u64,
}

/// A CPU, its threads, and the truth about them.
struct World {
    cpu: Cpu<Model<SLOTS>, 2>,
    threads: [Groups<2>; THREADS],
    current: usize,
    now: u64,
    /// By owner: a thread, or the CPU.
    truths: [Vec<Truth>; THREADS + 1],
    /// Overflows by handle.
    overflows: HashMap<(bool, Handle), u64>,
}

/// The owner that is the CPU.
const CPU: usize = THREADS;

impl World {
    fn new() -> World {
        World {
            cpu: Cpu::new(Model::new(WIDTH)),
            threads: [const { Groups::NONE }; THREADS],
            current: 0,
            now: 0,
            truths: [const { Vec::new() }; THREADS + 1],
            overflows: HashMap::new(),
        }
    }

    fn read(&mut self, owner: usize, handle: Handle) -> Result<Snapshot, Refused> {
        let thread = &mut self.threads[self.current];
        match owner {
            CPU => self.cpu.read_own(thread, handle, self.now),
            _ if owner == self.current => self.cpu.read(thread, handle, self.now),
            _ => self.threads[owner].read(handle),
        }
    }

    /// Whether the owner's group with this leader runs.
    fn runs(&self, owner: usize, leader: Handle) -> bool {
        let groups = match owner {
            CPU => self.cpu.own(),
            _ => &self.threads[owner],
        };
        groups.runs(leader)
    }

    /// Changes the groups of an owner, which may be on the CPU.
    fn change<R>(
        &mut self,
        owner: usize,
        change: impl FnOnce(&Model<SLOTS>, &mut Groups<2>) -> R,
    ) -> R {
        if owner != CPU && owner != self.current {
            return change(self.cpu.pmu(), &mut self.threads[owner]);
        }
        let thread = &mut self.threads[self.current];
        self.cpu.change(thread, self.now, |pmu, own, thread| {
            change(pmu, if owner == CPU { own } else { thread })
        })
    }

    /// Something happens, and counts where it should.
    fn happen(&mut self, kind: EventKind, in_kernel: bool, times: u64) {
        if kind == EventKind::Software(Software::TaskClock) {
            return;
        }
        for owner in [self.current, CPU] {
            for at in 0..self.truths[owner].len() {
                let leader = self.truths[owner][at].leader;
                if !self.runs(owner, leader) {
                    continue;
                }
                for (_, event, count) in &mut self.truths[owner][at].members {
                    let Exclude { kernel, user } = event.exclude;
                    if event.kind == kind && !(if in_kernel { kernel } else { user }) {
                        *count += times;
                    }
                }
            }
        }
        match kind {
            EventKind::Software(event) => {
                for _ in 0..times {
                    self.cpu.happened(event, in_kernel);
                }
            }
            EventKind::Tracepoint(number) => {
                for _ in 0..times {
                    self.cpu.passed(&mut self.threads[self.current], number);
                }
            }
            _ => self.cpu.pmu_mut().happen(kind, in_kernel, times),
        }
        // The interrupt comes at once.
        let (thread, overflows) = (&mut self.threads[self.current], &mut self.overflows);
        self.cpu.overflow(thread, self.now, |overflow| {
            assert_ne!(overflow.event.period, 0);
            let key = (overflow.is_of_thread, overflow.handle);
            *overflows.entry(key).or_default() += 1 + overflow.missed;
        });
    }

    fn pass(&mut self, nanos: u64) {
        self.now += nanos;
        for owner in [self.current, CPU] {
            for at in 0..self.truths[owner].len() {
                let runs = self.runs(owner, self.truths[owner][at].leader);
                let truth = &mut self.truths[owner][at];
                truth.enabled += if truth.is_enabled { nanos } else { 0 };
                truth.running += if runs { nanos } else { 0 };
                for (_, event, count) in &mut truth.members {
                    if event.kind == EventKind::Software(Software::TaskClock) && runs {
                        *count += nanos;
                    }
                }
            }
        }
    }

    /// Everything that must hold at any time.
    fn check(&mut self) {
        // What the PMU counts is what the groups that run need: whole groups. Equal events share a
        // counter, but for those with a period.
        let mut wanted: HashMap<(EventKind, Exclude), (usize, usize)> = HashMap::new();
        for owner in 0..=CPU {
            for truth in &self.truths[owner] {
                let runs = self.runs(owner, truth.leader);
                assert!(!runs || truth.is_enabled);
                assert!(!runs || owner == CPU || owner == self.current);
                let events = truth.members.iter().map(|(_, event, _)| event);
                for event in events.filter(|event| runs && event.kind.slots() > 0) {
                    let place = wanted.entry((event.kind, event.exclude)).or_default();
                    place.0 += 1;
                    place.1 += usize::from(event.period > 0);
                }
            }
        }
        let mut counted: HashMap<(EventKind, Exclude), usize> = HashMap::new();
        for event in self.cpu.pmu().counted() {
            *counted.entry(event).or_default() += 1;
        }
        let wanted = wanted.into_iter();
        let wanted = wanted.map(|(event, (_, periods))| (event, periods.max(1)));
        assert_eq!(counted, wanted.collect());
        let counted: usize = counted.values().sum();
        assert!(counted <= SLOTS);
        // No group waits for counters that are free.
        for owner in [self.current, CPU] {
            for truth in &self.truths[owner] {
                let events = truth.members.iter().map(|(_, event, _)| event.kind.slots());
                let fits = counted + events.sum::<usize>() <= SLOTS;
                assert!(!fits || !truth.is_enabled || self.runs(owner, truth.leader));
            }
        }
    }

    fn check_counts(&mut self) {
        for owner in 0..=CPU {
            for at in 0..self.truths[owner].len() {
                let handles: Vec<Handle> = {
                    let members = self.truths[owner][at].members.iter();
                    members.map(|(handle, ..)| *handle).collect()
                };
                for (place, handle) in handles.into_iter().enumerate() {
                    let counts = self.read(owner, handle).unwrap();
                    let truth = &self.truths[owner][at];
                    assert_eq!(counts.time_enabled, truth.enabled);
                    assert_eq!(counts.time_running, truth.running);
                    assert!(counts.time_running <= counts.time_enabled);
                    assert_eq!(counts.scaled.is_none(), truth.running == 0);
                    assert_eq!(
                        counts.raw, truth.members[place].2,
                        "{}",
                        truth.members[place].1
                    );
                    let raws: Vec<u64> = counts.members().iter().map(|it| it.raw).collect();
                    let of_truth: Vec<u64> = truth.members.iter().map(|it| it.2).collect();
                    assert_eq!(raws, of_truth);
                }
            }
        }
    }

    fn step(&mut self, random: &mut Random) {
        let owner = random.below(THREADS as u64 + 1) as usize;
        match random.below(100) {
            0..50 => {
                let (in_kernel, times) = (random.below(2) == 0, random.below(400));
                self.happen(random.event().kind, in_kernel, times);
            }
            50..70 => self.pass(random.below(1_000)),
            70..80 => self.cpu.tick(&mut self.threads[self.current], self.now),
            80..90 => {
                let next = random.below(THREADS as u64) as usize;
                if next != self.current {
                    let [prev, next_thread] =
                        self.threads.get_disjoint_mut([self.current, next]).unwrap();
                    self.cpu.switch(prev, next_thread, self.now);
                    self.current = next;
                }
            }
            90..93 => self.attach(owner, random),
            93..95 => self.join(owner, random),
            95..97 => self.end(owner, random),
            97 => {
                let Some(leader) = self.truths[owner].first().map(|truth| truth.leader) else {
                    return;
                };
                let is_enabled = random.below(2) == 0;
                self.change(owner, |_, groups| groups.enable(leader, is_enabled))
                    .unwrap();
                self.truths[owner][0].is_enabled = is_enabled;
            }
            _ => self.check_counts(),
        }
    }

    fn attach(&mut self, owner: usize, random: &mut Random) {
        let count = 1 + random.below(5);
        let events: Vec<EventSpec> = (0..count).map(|_| random.event()).collect();
        let needed: usize = events.iter().map(|event| event.kind.slots()).sum();
        let spec = group(&events);
        let (leader, handles) = match self.change(owner, |pmu, groups| {
            let leader = groups.attach(pmu, &spec)?;
            let handles: Vec<Handle> = groups.handles(leader)?.collect();
            Ok((leader, handles))
        }) {
            Ok(attached) => attached,
            Err(Refused::TooManySlots { needed: said, .. }) => {
                assert!(needed > SLOTS && said == needed);
                return;
            }
            Err(Refused::TooManyGroups(2)) => {
                assert_eq!(self.truths[owner].len(), 2);
                return;
            }
            Err(other) => panic!("{other}"),
        };
        let members = handles.into_iter().zip(events);
        self.truths[owner].push(Truth {
            leader,
            members: members.map(|(handle, event)| (handle, event, 0)).collect(),
            is_enabled: true,
            enabled: 0,
            running: 0,
        });
    }

    fn join(&mut self, owner: usize, random: &mut Random) {
        let Some(leader) = self.truths[owner].first().map(|truth| truth.leader) else {
            return;
        };
        let event = random.event();
        let joined = self.change(owner, |pmu, groups| groups.join(pmu, leader, event));
        let truth = &mut self.truths[owner][0];
        match joined {
            Ok(handle) => {
                truth.members.push((handle, event, 0));
                truth.members.iter_mut().for_each(|member| member.2 = 0);
                (truth.enabled, truth.running) = (0, 0);
            }
            Err(Refused::TooManySlots { .. }) => {
                let events = truth.members.iter().map(|(_, event, _)| event.kind.slots());
                assert!(events.sum::<usize>() + event.kind.slots() > SLOTS);
            }
            Err(Refused::TooManyEvents { .. }) => assert_eq!(truth.members.len(), 16),
            Err(other) => panic!("{other}"),
        }
    }

    fn end(&mut self, owner: usize, random: &mut Random) {
        let Some(truth) = self.truths[owner].first() else {
            return;
        };
        let (leader, members) = (truth.leader, truth.members.len());
        let place = random.below(members as u64) as usize;
        let handle = truth.members[place].0;
        if random.below(3) == 0 {
            let ended = self.change(owner, |_, groups| groups.detach_all(leader));
            assert_eq!(ended, Ok(members - 1));
            self.truths[owner].remove(0);
        } else {
            let ended = self.change(owner, |_, groups| groups.detach(handle));
            match (place, members) {
                (0, 1) => drop(self.truths[owner].remove(0)),
                (0, _) => {
                    assert_eq!(ended, Err(Refused::HasMembers(members - 1)));
                    return;
                }
                _ => drop(self.truths[owner][0].members.remove(place)),
            }
            assert_eq!(ended, Ok(()));
        }
        assert_eq!(self.read(owner, handle), Err(Refused::Stale));
    }
}

/// K-17: a group counts as a whole, never longer than it is enabled, and nothing is counted twice
/// or left out, whatever happens in whatever order.
#[test]
fn a_million_random_steps_count_right() {
    let steps = if cfg!(miri) { 500 } else { 1_000_000 };
    let (mut world, mut random) = (World::new(), Random(0x6b79_6d6f));
    let first = &mut world.threads[0];
    world.cpu.switch_in(first, 0);
    for _ in 0..steps {
        world.step(&mut random);
        world.check();
    }
    world.check_counts();
    assert!(steps < 1_000 || world.overflows.len() > 1_000);
}

/// Three groups of the CPU's or of a thread's, each as large as the PMU: each has a third of the
/// time, and what steady work would have shown is within 3 % of the truth.
#[test]
fn steady_work_is_scaled_to_the_truth() {
    for of_thread in [false, true] {
        let mut cpu: Cpu<Model<4>, 4> = Cpu::new(Model::new(48));
        let mut thread: Groups<4> = Groups::NONE;
        cpu.switch_in(&mut thread, 0);
        let groups = [0_u64, 10, 20].map(|first| {
            let events: Vec<EventSpec> = (first..first + 4).map(raw).collect();
            cpu.change(&mut thread, 0, |pmu, own, thread| {
                let groups = if of_thread { thread } else { own };
                groups.attach(pmu, &group(&events)).unwrap()
            })
        });
        let (mut now, mut truth) = (0, 0);
        for _ in 0..1_000 {
            for _ in 0..10 {
                for first in [0, 10, 20] {
                    for event in first..first + 4 {
                        cpu.pmu_mut().happen(EventKind::Raw(event), true, 3);
                    }
                }
                truth += 3;
                now += 100;
            }
            cpu.tick(&mut thread, now);
        }
        for handle in groups {
            let counts = match of_thread {
                true => cpu.read(&mut thread, handle, now),
                false => cpu.read_own(&mut thread, handle, now),
            };
            let counts = counts.unwrap();
            assert_eq!(counts.time_enabled, now);
            let share = counts.time_running as f64 / now as f64;
            assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
            for member in counts.members() {
                let error = member.scaled.unwrap() as f64 / truth as f64 - 1.0;
                assert!(error.abs() < 0.03, "{error}");
                assert!(member.raw < truth / 2);
            }
        }
    }
}

/// A group of the CPU's and one of the thread's that exclude each other both have their turns.
#[test]
fn the_cpus_groups_and_the_threads_take_turns() {
    let mut cpu: Cpu<Model<4>, 4> = Cpu::new(Model::new(48));
    let mut thread: Groups<4> = Groups::NONE;
    cpu.switch_in(&mut thread, 0);
    let (of_cpu, of_thread) = cpu.change(&mut thread, 0, |pmu, own, thread| {
        let own = own.attach(pmu, &group(&[raw(1), raw(2), raw(3)]));
        let thread = thread.attach(pmu, &group(&[raw(4), raw(5), raw(6)]));
        (own.unwrap(), thread.unwrap())
    });
    for now in 1..=100 {
        cpu.tick(&mut thread, now);
    }
    let of_cpu = cpu.read_own(&mut thread, of_cpu, 100).unwrap();
    let of_thread = cpu.read(&mut thread, of_thread, 100).unwrap();
    assert_eq!((of_cpu.time_enabled, of_thread.time_enabled), (100, 100));
    assert_eq!((of_cpu.time_running, of_thread.time_running), (50, 50));
    assert!(cpu.pmu().counters(EventKind::Raw(1), Exclude::NOTHING) == 0b1111);
}
