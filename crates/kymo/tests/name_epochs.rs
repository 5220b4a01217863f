//! Name epochs: a flight recorder knows the names of what it shows, however long it has run.

#![cfg(all(feature = "trace", target_pointer_width = "64"))]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod thread_cpu;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kymo::platform::{LocalCas, Masked};
use kymo::ring::Reserve;
use kymo::ring::reader::{Region, View};
use kymo::{
    ChannelKind, Clock, Config, Consumer, Memory, NameEpoch, Overflow, Session, Text, Tracer,
};
use thread_cpu::{BLOCK, NoInterrupts, OneThread, leaked};

kymo::event! { #[id(21)] pub struct Use { pub object: u32 } }
kymo::event! { #[id(40)] #[channel(Names)] pub struct Name { pub object: u32, pub name: Text<16> } }
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![Use, Name];

type Test<R> = OneThread<R, 3>;

const CPUS: u32 = 2;
/// Epochs are the program's: another test's session would begin one here.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn memory() -> Memory {
    leaked(256 << 10, CPUS)
}

fn start<R: Reserve + 'static>(
    memory: Memory,
    overflow: Overflow,
    names_packets: u32,
) -> Session<Test<R>> {
    Tracer::<Test<R>>::start(memory, &config(overflow, names_packets), &VOCABULARY).unwrap()
}

fn config(overflow: Overflow, names_packets: u32) -> Config {
    Config {
        cpus: CPUS,
        packet_size: 512,
        packets: 8,
        names_packets,
        overflow,
        clock: Clock::at(1_000_000),
        hosted: true,
        ..Config::DEFAULT
    }
}

/// A thing with a name.
struct Object {
    id: u32,
    named: NameEpoch,
}

impl Object {
    const fn new(id: u32) -> Object {
        Object {
            id,
            named: NameEpoch::new(),
        }
    }

    /// Uses the thing; returns whether it was named for that.
    fn use_it<R: Reserve + 'static>(&self) -> bool {
        let mut named = false;
        Tracer::<Test<R>>::named(&self.named, || {
            named = true;
            Name {
                object: self.id,
                name: Text::new("sixteen letters."),
            }
        });
        Tracer::<Test<R>>::record(Use { object: self.id });
        named
    }
}

/// What a dump of the memory would show: the objects that were used, and those that have a name.
fn dump<R: Reserve + 'static>(session: &Session<Test<R>>) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let live = session.live();
    let region = Region::open(&live).unwrap();
    let mut sets = [BTreeSet::new(), BTreeSet::new()];
    for cpu in 0..CPUS {
        for kind in [ChannelKind::Events, ChannelKind::Names] {
            let mut reader = region.channel(&live, cpu, kind).unwrap();
            let mut scratch = vec![0; reader.scratch_words()];
            while let Some(mut batch) = reader.read(&live, View::PostMortem, &mut scratch).unwrap()
            {
                while let Some(record) = batch.next_record(&VOCABULARY) {
                    sets[kind as usize].insert(record.payload[0]);
                }
            }
        }
    }
    let [used, named] = sets;
    (used, named)
}

/// Fifty objects that are used now and then, on both CPUs, while others come, are named once and
/// go: their names push the fifty's out of the ring many times over.
fn long_run<R: Reserve + 'static>() {
    const RECENT: usize = 200;
    let _alone = alone();
    let memory = memory();
    // 16 packets of 512 bytes: room for 224 names on each CPU.
    let session = start::<R>(memory, Overflow::Overwrite, 16);
    let objects: Vec<Object> = (0..50).map(Object::new).collect();
    let (mut recent, mut names, mut random) = (VecDeque::new(), 0, 1u64);
    for turn in 0..100_000u32 {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        BLOCK.set(memory.control((random >> 40) as u32 % CPUS));
        let passing = Object::new(1000 + turn);
        let object = if turn.is_multiple_of(10) {
            &passing
        } else {
            &objects[(random >> 50) as usize % objects.len()]
        };
        names += u32::from(object.use_it::<R>());
        recent.push_back(object.id);
        if recent.len() > RECENT {
            recent.pop_front();
        }
        // In every place of a packet, and of an epoch.
        if turn % 37 == 0 {
            let (used, named) = dump(&session);
            assert!(
                recent.iter().all(|id| named.contains(id)),
                "turn {turn}: a name is gone"
            );
            // The events' ring holds no more than those.
            assert!(
                turn < 1000 || used.iter().all(|id| named.contains(id)),
                "turn {turn}: an event has no name"
            );
        }
    }
    // Each object is named once in each epoch, not at each use.
    assert!(
        (10_000 + 50 * 50..30_000).contains(&names),
        "{names} names were recorded"
    );
    session.stop().unwrap();
}

#[test]
fn names_outlive_their_ring_with_nested_writers() {
    long_run::<LocalCas>();
}

#[test]
fn names_outlive_their_ring_with_masked_writers() {
    long_run::<Masked<NoInterrupts>>();
}

/// The smallest ring, in which an epoch is one packet, and rings with an odd number of packets.
#[test]
fn a_name_of_the_epoch_before_is_still_there() {
    type R = Masked<NoInterrupts>;
    let _alone = alone();
    for names_packets in 4..=9 {
        let memory = memory();
        BLOCK.set(memory.control(0));
        let session = start::<R>(memory, Overflow::Overwrite, names_packets);
        let object = Object::new(7);
        assert!(object.use_it::<R>());
        let mut epochs = 0;
        for turn in 0..1000 {
            Object::new(1000 + turn).use_it::<R>();
            // Until its own use would name it again it is named, and so it is for an epoch more.
            assert!(
                dump(&session).1.contains(&7),
                "{names_packets} packets, turn {turn}"
            );
            if turn % 3 == 0 {
                epochs += u32::from(object.use_it::<R>());
            }
        }
        // 464 bytes hold 14 names, those of this thing among them.
        assert!(
            (1000 / 14 / names_packets..=1000 / 12).contains(&epochs),
            "{names_packets} packets: {epochs} epochs"
        );
        session.stop().unwrap();
    }
}

/// A session knows nothing of the names of the one before; without a session none is recorded;
/// where nothing is overwritten, once is enough.
#[test]
fn every_session_hears_every_name() {
    type R = LocalCas;
    let _alone = alone();
    let (memory, object) = (memory(), Object::new(7));
    BLOCK.set(memory.control(0));
    assert!(!object.use_it::<R>(), "nobody listens");
    for _ in 0..3 {
        let session = start::<R>(memory, Overflow::Discard, 4);
        assert!(object.use_it::<R>());
        let named =
            (0..30).filter(|turn| Object::new(100 + turn).use_it::<R>() && object.use_it::<R>());
        assert_eq!(
            named.count(),
            0,
            "packets were opened, and none was overwritten"
        );
        assert!(dump(&session).1.contains(&7));
        session
            .switch(&<Name as kymo::event::Event>::SCHEMA, false)
            .unwrap();
        let unheard = Object::new(8);
        assert!(!unheard.use_it::<R>());
        session
            .switch(&<Name as kymo::event::Event>::SCHEMA, true)
            .unwrap();
        assert!(
            unheard.use_it::<R>(),
            "it was not named while the names were off"
        );
        assert!(dump(&session).1.contains(&8));
        session.stop().unwrap();
        assert!(!object.use_it::<R>() && !unheard.use_it::<R>());
    }
}

/// A name that found no room is recorded at the next use.
fn dropped_name<R: Reserve + 'static>() {
    let _alone = alone();
    let memory = memory();
    BLOCK.set(memory.control(0));
    let config = Config {
        consumer: Consumer::Kernel,
        ..config(Overflow::Discard, 4)
    };
    let session = Tracer::<Test<R>>::start(memory, &config, &VOCABULARY).unwrap();
    // Four packets of 14 names, and some more.
    for turn in 0..70 {
        Object::new(100 + turn).use_it::<R>();
    }
    let late = Object::new(7);
    assert!(late.use_it::<R>() && !dump(&session).1.contains(&7));
    assert!(late.use_it::<R>(), "nobody has heard it");
    let live = session.live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, ChannelKind::Names).unwrap();
    let mut scratch = vec![0; reader.scratch_words()];
    while let Some(mut batch) = reader.read(&live, View::Live, &mut scratch).unwrap() {
        while batch.next_record(&VOCABULARY).is_some() {}
        reader.release(&live).unwrap();
    }
    assert!(late.use_it::<R>() && dump(&session).1.contains(&7));
    assert!(!late.use_it::<R>(), "once is enough");
    session.stop().unwrap();
}

#[test]
fn a_dropped_name_is_still_to_be_told() {
    dropped_name::<LocalCas>();
    dropped_name::<Masked<NoInterrupts>>();
}

/// A thing is about to be used, and was named in this epoch. Before the use is recorded, another
/// writer begins the next one. As long as the use is in this epoch or the one before, the name is
/// there.
#[test]
fn a_use_at_the_beginning_of_an_epoch_has_its_name() {
    type R = Masked<NoInterrupts>;
    let _alone = alone();
    for names_packets in 4..=12 {
        let memory = memory();
        BLOCK.set(memory.control(0));
        let session = start::<R>(memory, Overflow::Overwrite, names_packets);
        let probe = Object::new(6);
        let begins = |object: u32| {
            Object::new(object).use_it::<R>();
            probe.use_it::<R>()
        };
        assert!(probe.use_it::<R>());
        let late = Object::new(7);
        assert!(late.use_it::<R>());
        // The next epoch has begun: the use of a thing that the present one's code has found named.
        let mut number = 1000;
        while !begins(number) {
            number += 1;
        }
        Tracer::<Test<R>>::record(Use { object: late.id });
        while !begins(number) {
            number += 1;
        }
        // In the epoch after that of the use.
        while !begins(number) {
            assert!(
                dump(&session).1.contains(&7),
                "{names_packets} packets: {number}"
            );
            number += 1;
        }
        session.stop().unwrap();
    }
}
