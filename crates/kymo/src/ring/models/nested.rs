//! One CPU: at every step of a writer come nested writers, a dump, or a reader.
//!
//! A step is an atomic operation, a fence, or a reading of the clock. What comes at it runs to its
//! end before the step is done, as an interrupt does. All combinations are tried: at step i of the
//! outer call a burst of nested calls, at step j of the last of these another burst, at step k of
//! the last of those a third one.

use super::*;
use crate::sync::Ordering;

/// Bursts: nested calls of one interrupt. The last one is the one that is interrupted in turn.
type Burst = &'static [Kind];

#[derive(Clone, Copy)]
enum Look {
    /// At no step.
    Never,
    /// A dump is read by the rules of dumps.
    Dump,
    /// A live reader goes on.
    Live,
    /// A live reader comes when what was nested is done, and not before.
    After,
}

struct Machine {
    world: World,
    bursts: Vec<Burst>,
    /// The step of a call at this depth at which the next burst comes.
    at: [u32; 3],
    steps: [u32; 4],
    look: Look,
    reading: Reading,
    /// Calls that returned.
    returned: u32,
    in_flight: u32,
}

thread_local! {
    static MACHINE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

fn machine<T>(f: impl FnOnce(&mut Machine) -> T) -> T {
    MACHINE.with_borrow_mut(|machine| f(machine.as_mut().expect("a trial runs")))
}

/// One call, and what comes at its steps; the reader looks while hooks are off.
fn stepped<R: Reserve + 'static>(kind: Kind) {
    let depth = DEPTH.get() as usize;
    machine(|machine| {
        machine.steps[depth] = 0;
        machine.in_flight += 1;
    });
    call::<R>(kind);
    machine(|machine| {
        machine.in_flight -= 1;
        machine.returned += 1;
    });
}

fn at_step<R: Reserve + 'static>(_: Step) {
    let hook = modelled::on_step(None);
    let depth = DEPTH.get() as usize;
    let burst = machine(|machine| {
        let step = machine.steps[depth];
        machine.steps[depth] += 1;
        if !matches!(machine.look, Look::After) {
            machine.look();
        }
        if machine.at.get(depth) == Some(&step) {
            machine.bursts.get(depth).copied()
        } else {
            None
        }
    });
    if let Some(burst) = burst {
        DEPTH.set(depth as u32 + 1);
        for (index, &kind) in burst.iter().enumerate() {
            // Only the last one is interrupted.
            modelled::on_step(if index + 1 == burst.len() { hook } else { None });
            stepped::<R>(kind);
        }
        modelled::on_step(None);
        machine(Machine::look);
        DEPTH.set(depth as u32);
    }
    modelled::on_step(hook);
}

impl Machine {
    /// Whatever is read, and counted as lost, lies between the calls that returned and those
    /// besides that are under way.
    fn look(&mut self) {
        let live = self.world.live();
        match self.look {
            Look::Never => {}
            Look::Dump => {
                let mut dump = self.world.reading();
                dump.in_order = self.bursts.is_empty();
                dump.read_all(&live, View::PostMortem);
                dump.reader.refresh_dropped(&live).unwrap();
                let losses = dump.reader.losses();
                let sum = dump.reader.emitted() + losses.events();
                let (least, most) = (
                    u64::from(self.returned),
                    u64::from(self.returned + self.in_flight),
                );
                assert!(
                    (least..=most).contains(&sum),
                    "a dump has {sum} of {least} to {most}: {losses:?}"
                );
                assert_eq!(
                    (losses.clamped, losses.abandoned, losses.clock_back),
                    (0, 0, 0)
                );
                if self.bursts.is_empty() {
                    assert_eq!(losses.unreadable, 0, "{losses:?}");
                }
            }
            Look::Live | Look::After => {
                self.reading.read(&live, View::Live);
                if self.reading.reader.is_consumed_by(Consumer::Host) {
                    self.reading.reader.release(&live).unwrap();
                }
                let losses = self.reading.reader.losses();
                let sum = self.reading.reader.emitted() + losses.events();
                assert!(
                    sum <= u64::from(self.returned + self.in_flight),
                    "{sum} read or lost: {losses:?}"
                );
            }
        }
    }
}

/// What is nested into what.
#[derive(Clone, Copy)]
struct Nested {
    setting: Setting,
    before: &'static [Kind],
    outer: Kind,
    bursts: &'static [Burst],
    look: Look,
    /// The reader has read so many packets before.
    read: usize,
}

impl Nested {
    /// All combinations of steps. Returns how many there were.
    fn run<R: Reserve + 'static>(self) -> u64 {
        let world = World::new::<R>(self.setting, self.before);
        let mut begin = world.reading();
        begin.in_order = self.bursts.is_empty();
        for _ in 0..self.read {
            begin.read(&world.live(), View::Live);
        }
        if self.setting.consumer != Consumer::None {
            begin.reader.release(&world.live()).unwrap();
        }
        let world = world.taken_anew();
        let depth = self.bursts.len();
        let (mut at, mut trials) = ([0; 3], 0);
        MACHINE.set(Some(Machine {
            world,
            bursts: self.bursts.to_vec(),
            at,
            steps: [0; 4],
            look: self.look,
            reading: begin.clone(),
            returned: 0,
            in_flight: 0,
        }));
        loop {
            machine(|machine| {
                machine.world.restore();
                machine.at = at;
                machine.steps = [0; 4];
                machine.returned = machine.world.calls;
                machine.reading = begin.clone();
            });
            modelled::on_step(Some(at_step::<R>));
            stepped::<R>(self.outer);
            modelled::on_step(None);
            trials += 1;
            let steps = machine(|machine| {
                machine.look();
                let live = machine.world.live();
                machine.reading.settle(&live, View::Live, CALLS.get());
                let mut dump = machine.world.reading();
                dump.in_order = machine.bursts.is_empty();
                // Whoever has not read in time what the consumer has freed finds it overwritten.
                dump.discard &= !dump.reader.is_consumed_by(Consumer::Host);
                dump.settle(&live, View::PostMortem, CALLS.get());
                machine.steps
            });
            // The next combination: the innermost point that was reached moves on. What comes at a
            // point changes how many follow, not those before.
            let Some(next) = (0..depth).rev().find(|&depth| at[depth] < steps[depth]) else {
                break;
            };
            at[next] += 1;
            at[next + 1..].fill(0);
        }
        MACHINE.set(None);
        trials
    }
}

/// Every number of calls before the outer one, up to more than a lap.
fn everywhere<R: Reserve + 'static>(
    setting: Setting,
    pattern: &'static [Kind],
    nested: Nested,
) -> u64 {
    (0..=pattern.len())
        .map(|count| {
            let (before, outer) = (&pattern[..count], pattern[count % pattern.len()]);
            Nested {
                setting,
                before,
                outer,
                ..nested
            }
            .run::<R>()
        })
        .sum()
}

/// Six packets: more than a lap of four.
const PATTERN: &[Kind] = &[F, S, S, F, S, S, F, S, S, F, S, S, F, S, S, F, M, S];
const ALONE: Nested = Nested {
    setting: OVERWRITE,
    before: &[],
    outer: S,
    bursts: &[],
    look: Look::Never,
    read: 0,
};
const WINDOWS: u64 = 1 << 27;

fn settings() -> Vec<Setting> {
    let policies = [
        (Overflow::Overwrite, Consumer::None),
        (Overflow::Discard, Consumer::None),
        (Overflow::Discard, Consumer::Host),
    ];
    policies
        .into_iter()
        .flat_map(|(overflow, consumer)| {
            [1, WINDOWS / 2, WINDOWS].map(|rate| Setting {
                overflow,
                consumer,
                rate,
                ..OVERWRITE
            })
        })
        .collect()
}

#[test]
fn a_dump_or_a_reader_at_every_step() {
    let mut trials = 0;
    for setting in settings() {
        for look in [Look::Dump, Look::Live] {
            trials += everywhere::<LocalCas>(setting, PATTERN, Nested { look, ..ALONE });
            trials += everywhere::<Masked>(setting, PATTERN, Nested { look, ..ALONE });
        }
    }
    // In the third lap slots have been used twice.
    const LAPS: &[Kind] = &[F, F, F, F, F, F, F, F, F, S, S];
    for count in 7..LAPS.len() {
        let nested = Nested {
            before: &LAPS[..count],
            outer: LAPS[count],
            look: Look::Dump,
            ..ALONE
        };
        trials += nested.run::<LocalCas>() + nested.run::<Masked>();
    }
    println!("{trials} trials");
}

/// Records whose words are put straight into the ring, alone and nested into each other.
#[test]
fn a_record_made_in_place_at_every_step() {
    const IN_PLACE: &[Kind] = &[P, S, S, P, S, S, P, S, S, P, S, S, P, S, S, P, M, S];
    for setting in [OVERWRITE, DISCARD] {
        for look in [Look::Dump, Look::Live] {
            let alone = Nested { look, ..ALONE };
            everywhere::<Masked>(setting, IN_PLACE, alone);
            everywhere::<LocalCas>(setting, IN_PLACE, alone);
            everywhere::<LocalCas>(
                setting,
                IN_PLACE,
                Nested {
                    bursts: &[&[P]],
                    ..alone
                },
            );
        }
    }
}

/// Three records that would fill a packet to its last word.
#[test]
fn a_packet_is_never_filled_to_its_last_word() {
    const FULL: &[Kind] = &[F, S, M, F, S, M, F, S, M, F, S, M, F, S, M];
    everywhere::<LocalCas>(
        OVERWRITE,
        FULL,
        Nested {
            look: Look::Dump,
            ..ALONE
        },
    );
    everywhere::<Masked>(
        OVERWRITE,
        FULL,
        Nested {
            look: Look::Dump,
            ..ALONE
        },
    );
}

/// A consumer that says it has read what is not written yet: the writer reuses what it may, and the
/// count is exact.
#[test]
fn a_consumer_that_claims_too_much() {
    for claim in [2, 3, 4, 5, 1 << 20, u64::MAX] {
        fn run<R: Reserve + 'static>(claim: u64) {
            let world = World::new::<R>(DISCARD, &PATTERN[..1]);
            world.control().consumed.store(claim, Ordering::Relaxed);
            PATTERN[1..].iter().for_each(|&kind| call::<R>(kind));
            let mut reading = world.reading();
            reading.discard = false;
            reading.settle(&world.live(), View::Live, CALLS.get());
        }
        run::<LocalCas>(claim);
        run::<Masked>(claim);
    }
}

/// Nested writers that record a little, that fill a packet, that lap the ring.
const BURSTS: [Burst; 4] = [&[S], &[F], &[F, S, S, F], &[F, F, F, F, F, F]];

#[test]
fn a_nested_writer_at_every_step() {
    for setting in settings() {
        for burst in &BURSTS {
            let bursts = std::slice::from_ref(burst);
            let trials: u64 = [Look::Dump, Look::Live]
                .map(|look| {
                    everywhere::<LocalCas>(
                        setting,
                        PATTERN,
                        Nested {
                            bursts,
                            look,
                            ..ALONE
                        },
                    )
                })
                .into_iter()
                .sum();
            println!("{setting:?} {burst:?}: {trials} trials");
        }
    }
}

fn at_places(name: &str, setting: Setting, places: &[usize], bursts: &'static [Burst]) {
    let begin = std::time::Instant::now();
    let run = |&count: &usize| {
        Nested {
            setting,
            before: &PATTERN[..count],
            outer: PATTERN[count],
            bursts,
            ..ALONE
        }
        .run::<LocalCas>()
    };
    let trials: u64 = places.iter().map(run).sum();
    println!(
        "{name} {setting:?} {bursts:?} at {places:?}: {trials} trials, {:.1} s",
        begin.elapsed().as_secs_f64()
    );
}

/// A reader is lapped while a writer stands still in what is the oldest packet then: its count is
/// not final.
#[test]
fn a_reader_is_lapped_while_a_writer_is_interrupted() {
    for burst in &BURSTS {
        everywhere::<LocalCas>(
            OVERWRITE,
            PATTERN,
            Nested {
                bursts: std::slice::from_ref(burst),
                look: Look::After,
                ..ALONE
            },
        );
    }
}

/// Two deep: a further writer at every step of a nested one, where a packet opens and in a lap
/// after it.
#[test]
fn a_nested_writer_at_every_step_of_a_nested_writer() {
    let places = [3, 6, 11, 12, 15];
    const SLOW: Setting = Setting {
        rate: WINDOWS / 2,
        ..OVERWRITE
    };
    at_places("two deep", OVERWRITE, &places, &[&[S], &[S]]);
    at_places("two deep", OVERWRITE, &places, &[&[F], &[F]]);
    at_places("two deep", OVERWRITE, &places, &[&[F, S, S, F], &[S]]);
    at_places("two deep", OVERWRITE, &places, &[&[F], &[F, F, F, F, F, F]]);
    at_places("two deep", SLOW, &places, &[&[S], &[F]]);
    at_places("two deep", DISCARD, &places, &[&[F], &[F]]);
}

/// Nested writers three deep, at every step.
#[test]
fn nested_writers_three_deep_at_every_step() {
    at_places("three deep", OVERWRITE, &[12], &[&[S], &[S], &[S]]);
    at_places("three deep", OVERWRITE, &[14], &[&[F], &[F], &[F]]);
}
