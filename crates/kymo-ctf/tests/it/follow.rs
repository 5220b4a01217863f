//! A trace that grows is read in steps, which together are the whole trace.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::time::Duration;

use kymo::vocabulary::Mark;
use kymo_ctf::{Follower, ItemRef, Trace};
use kymo_made::Made;

use crate::writer::{Directory, Order, close, compact, event, open, preamble};

/// What of a stream was read: the times of its events, and how many were lost.
type Read = BTreeMap<String, (Vec<i128>, u64)>;

fn add(to: &mut Read, item: &ItemRef<'_>) {
    match item {
        ItemRef::Event(event) => {
            let of = to.entry(event.stream().to_string()).or_default();
            of.0.push(event.nanos().unwrap());
        }
        ItemRef::Loss(loss) => {
            let of = to.entry(loss.stream.to_string()).or_default();
            of.1 += loss.count;
        }
        other => panic!("{other:?}"),
    }
}

/// Adds the next step; whether there was anything in it.
fn step(follower: &mut Follower, to: &mut Read) -> bool {
    let Some(mut step) = follower.look().unwrap() else {
        return false;
    };
    let (end, mut last) = (step.end_nanos(), None);
    let read = step.read(|item| {
        add(to, item);
        if let ItemRef::Event(event) = item {
            assert!(event.nanos() >= last && event.nanos() <= Some(end));
            last = event.nanos();
        }
        Ok::<_, Infallible>(())
    });
    read.unwrap() > 0
}

fn whole(path: &Path) -> Read {
    let (map, mut all) = (Trace::open(path).unwrap().map(), Read::new());
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        add(&mut all, &item);
    }
    all
}

fn mark(value: u64) -> Mark {
    Mark { id: 1, value }
}

#[test]
fn steps_are_the_whole_trace() {
    for seed in 1..60_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut below = |end: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % end
        };
        let mut made = Made::new("follow");
        made.event(0, 1, mark(0));
        let mut follower = Follower::new(made.finish(), Duration::ZERO);
        let (mut read, mut steps, mut now) = (Read::new(), 0, 1);
        for _ in 0..1 + below(20) {
            for _ in 0..below(400) {
                // Often at the same time as the event before.
                now += below(3) * below(100);
                let cpu = below(4) as u32;
                match below(60) {
                    0 => made.lose(cpu, 1 + below(9), now),
                    _ => made.event(cpu, now, mark(now)),
                }
            }
            made.finish();
            steps += u64::from(step(&mut follower, &mut read));
            // Nothing new, and of what there was, all is known.
            if below(3) == 0 {
                steps += u64::from(step(&mut follower, &mut read));
            }
            // An event at the time of the newest one may come later.
            now += 1;
        }
        made.event(0, now + 100, mark(0));
        let path = made.finish();
        while step(&mut follower, &mut read) || step(&mut follower, &mut read) {
            steps += 1;
        }
        assert_eq!(read, whole(path), "{seed}");
        assert!(steps > 1 && follower.late() == 0, "{seed}");
    }
}

fn packet(events: std::ops::Range<u64>, sequence: u64, discarded: u64) -> Vec<u8> {
    let (begin, end) = (events.start, events.end - 1);
    let mut packet = open(Order::Le, 0, begin, end, sequence, discarded, 0);
    for time in events {
        compact(&mut packet, 1, time).u32(time as u32);
    }
    close(packet, 8)
}

/// A recorder adds to its last packet until that is full.
#[test]
fn what_a_packet_reports_later_is_told_once() {
    let folder = Directory::new("follow-rewritten", &[]);
    let metadata = preamble(Order::Le, 1_000_000_000, 0, 0) + &event(1, "n", "uint32_t n;");
    fs::write(folder.path().join("metadata"), metadata).unwrap();
    let write = |packets: &[Vec<u8>]| fs::write(folder.path().join("s"), packets.concat()).unwrap();
    let first = packet(0..10, 0, 0);
    let mut follower = Follower::new(folder.path(), Duration::ZERO);
    let mut read = Read::new();
    assert!(!step(&mut follower, &mut read), "no stream yet");
    for (last, discarded) in [(20, 3), (30, 3), (40, 7), (41, 12)] {
        write(&[first.clone(), packet(10..last, 1, discarded)]);
        // It pauses in some of these places.
        while step(&mut follower, &mut read) || (last < 40 && step(&mut follower, &mut read)) {}
        let lost = read.get("s").map_or(0, |(_, lost)| *lost);
        assert!(lost <= discarded && (last >= 40 || lost == discarded));
    }
    // The end of the file is being written: it is of no step, and no error.
    let mut torn = [first.clone(), packet(10..41, 1, 12), packet(41..60, 2, 13)];
    torn[2].truncate(60);
    write(&torn);
    assert!(!step(&mut follower, &mut read) && !step(&mut follower, &mut read));
    write(&[first, packet(10..41, 1, 12), packet(41..60, 2, 13)]);
    while step(&mut follower, &mut read) || step(&mut follower, &mut read) {}
    assert_eq!(read["s"], ((0..60).collect(), 13));
    assert_eq!(read, whole(folder.path()));
}

/// A counter of lost events that has 8 bits wraps to 0: a follower tells the losses after that, and
/// each once.
#[test]
fn losses_are_told_after_their_counter_has_wrapped() {
    let folder = Directory::new("follow-wrapped", &[]);
    let metadata = preamble(Order::Le, 1_000_000_000, 0, 0).replace(
        "uint64_t events_discarded;",
        "uint8_t events_discarded; uint8_t unused[7];",
    ) + &event(1, "n", "uint32_t n;");
    fs::write(folder.path().join("metadata"), metadata).unwrap();
    let mut follower = Follower::new(folder.path(), Duration::ZERO);
    let mut read = Read::new();
    let mut packets = vec![packet(0..10, 0, 0)];
    let lost = [100, 200, 250, 270, 270, 300, 330, 420, 530];
    for (sequence, lost) in (1..).zip(lost) {
        packets.push(packet(
            10 * sequence..10 * sequence + 10,
            sequence,
            lost % 256,
        ));
        fs::write(folder.path().join("s"), packets.concat()).unwrap();
        (0..4).for_each(|_| {
            step(&mut follower, &mut read);
        });
        assert_eq!(read["s"].1, lost, "{sequence}");
    }
    assert_eq!(read, whole(folder.path()));
}

/// Packets that are missing are told once, however often the packet behind them is read.
#[test]
fn a_gap_between_packets_is_told_once() {
    let folder = Directory::new("follow-gap", &[]);
    let metadata = preamble(Order::Le, 1_000_000_000, 0, 0) + &event(1, "n", "uint32_t n;");
    fs::write(folder.path().join("metadata"), metadata).unwrap();
    let mut follower = Follower::new(folder.path(), Duration::ZERO);
    let mut read = Read::new();
    let mut packets = vec![packet(0..10, 0, 0)];
    for (events, sequence) in [(10..20, 4), (20..30, 5), (30..40, 9)] {
        packets.push(packet(events, sequence, 0));
        fs::write(folder.path().join("s"), packets.concat()).unwrap();
        (0..4).for_each(|_| {
            step(&mut follower, &mut read);
        });
    }
    assert_eq!(read["s"], ((0..40).collect(), 6));
    assert_eq!(read, whole(folder.path()));
}

#[test]
fn streams_that_come_later_are_read() {
    let mut made = Made::new("follow-later");
    made.event(2, 10, mark(1));
    let mut follower = Follower::new(made.finish(), Duration::ZERO);
    let mut read = Read::new();
    assert!(!step(&mut follower, &mut read) && step(&mut follower, &mut read));
    // Before the others by name.
    made.event(0, 20, mark(2));
    made.event(2, 30, mark(3));
    made.finish();
    assert!(!step(&mut follower, &mut read) && step(&mut follower, &mut read));
    assert_eq!(read, whole(made.finish()));
}

/// A recorder that does not read all CPUs between two looks writes events of times that were read:
/// they are counted, also those of the very last time.
#[test]
fn events_that_come_too_late_are_counted() {
    let mut made = Made::new("follow-late");
    for cpu in [0, 1] {
        made.event(cpu, 10, mark(1));
    }
    let mut follower = Follower::new(made.finish(), Duration::ZERO);
    let mut read = Read::new();
    for at in [20, 30, 30] {
        made.event(1, at, mark(2));
    }
    made.finish();
    assert!(!step(&mut follower, &mut read) && step(&mut follower, &mut read));
    assert_eq!((read["events_1"].0.len(), follower.late()), (4, 0));
    for at in [15, 30, 30] {
        made.event(0, at, mark(3));
    }
    made.event(1, 30, mark(3));
    made.finish();
    assert!(!step(&mut follower, &mut read));
    assert_eq!(follower.late(), 4);
    // They are counted once.
    assert!(!step(&mut follower, &mut read));
    made.event(0, 40, mark(4));
    made.finish();
    assert!(!step(&mut follower, &mut read) && step(&mut follower, &mut read));
    assert_eq!(follower.late(), 4);
    assert_eq!(read["events_0"].0, [10, 40]);
    assert_eq!(read["events_1"].0, [10, 20, 30, 30]);
}

/// What is newer than the lag waits, however often one looks.
#[test]
fn a_step_is_older_than_the_lag() {
    let mut made = Made::new("follow-lag");
    made.event(0, 10, mark(1));
    let mut follower = Follower::new(made.finish(), Duration::from_secs(3_600));
    let mut read = Read::new();
    assert!(!(0..100).any(|_| step(&mut follower, &mut read)));
    let mut follower = Follower::new(made.finish(), Duration::from_millis(20));
    assert!(!step(&mut follower, &mut read));
    while !step(&mut follower, &mut read) {}
    assert_eq!((&*read["events_0"].0, follower.late()), (&[10][..], 0));
}

#[test]
fn a_trace_that_has_not_begun_is_no_error() {
    let folder = Directory::new("follow-nothing", &[]);
    let nothing = |follower: &mut Follower| {
        let is_nothing = follower.look().unwrap().is_none();
        assert!(is_nothing && follower.metadata().is_none());
    };
    nothing(&mut Follower::new(
        &folder.path().join("none"),
        Duration::ZERO,
    ));
    let mut follower = Follower::new(folder.path(), Duration::ZERO);
    nothing(&mut follower);
    let path = folder.path().join("metadata");
    fs::write(&path, "").unwrap();
    (0..100).for_each(|_| nothing(&mut follower));
    // It may be half written; if it stays so, it is wrong.
    fs::write(&path, "/* CTF 1.8 */ nonsense").unwrap();
    (0..10).for_each(|_| nothing(&mut follower));
    let looks = (0..100).find(|_| follower.look().is_err());
    assert!(looks.is_some());
    let mut follower = Follower::new(folder.path(), Duration::ZERO);
    nothing(&mut follower);
    let metadata = preamble(Order::Le, 1_000_000_000, 0, 0) + &event(1, "n", "uint32_t n;");
    fs::write(&path, metadata).unwrap();
    assert!(follower.look().unwrap().is_none() && follower.metadata().is_some());
}
