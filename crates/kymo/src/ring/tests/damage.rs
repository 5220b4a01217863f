//! Memory as it should not be: writers that died, records that nobody declared, flipped bits.

use std::mem::offset_of;
#[cfg(target_pointer_width = "64")]
use std::sync::atomic::Ordering::Relaxed;

use super::*;
#[cfg(target_pointer_width = "64")]
use crate::ring::harness::control;
use crate::ring::layout::{CONTROL_OFFSET, Control};
use crate::ring::source::{Bytes, Outside};

/// The machine dies while a writer that was interrupted has not written its record, and the one
/// that interrupted it has.
#[test]
#[cfg(target_pointer_width = "64")]
fn records_behind_a_hole_are_counted_in_a_dump() {
    CLOCK.set(0);
    let memory = form::<LocalCas>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 1024, 4),
    );
    for seq in 0..10 {
        emit::<LocalCas>(2, seq);
    }
    let mut bytes = dump(&memory.live());
    let region = Region::open(&Bytes(&bytes)).unwrap();
    let ring = control(&memory).ring_offset.load(Relaxed) as usize;
    // The fourth record: 12 words of header, three words each. Its reservation stands, its words
    // and its commit do not.
    let record = ring + 4 * (12 + 3 * 3);
    bytes[record..record + 12].fill(0);
    let commit = u32::from_le_bytes(bytes[ring..ring + 4].try_into().unwrap()) - (1 << 16) - 3;
    bytes[ring..ring + 4].copy_from_slice(&commit.to_le_bytes());
    let mut reader = region
        .channel(&Bytes(&bytes), 0, ChannelKind::Events)
        .unwrap();
    let mut seen = Vec::new();
    read_all(&mut reader, &Bytes(&bytes), View::PostMortem, |seq, _| {
        seen.push(seq)
    });
    assert_eq!((seen, reader.losses().unreadable), (vec![0, 1, 2], 6));
    // To a live reader the packet is not whole yet: it waits.
    let mut reader = region
        .channel(&Bytes(&bytes), 0, ChannelKind::Events)
        .unwrap();
    read_all(&mut reader, &Bytes(&bytes), View::Live, |_, _| {
        panic!("the packet is being written")
    });
}

const UNDECLARED: u32 = 99;

/// A record whose shape the reader does not know cannot be walked over: what stands behind it in
/// its packet is counted, the next packet is read.
fn undeclared<R: Reserve + 'static>() {
    CLOCK.set(0);
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 64),
    );
    let live = memory.live();
    let mut reader = events(&live);
    let mut seen = Vec::new();
    for seq in 0..3 {
        emit::<R>(2, seq);
    }
    R::record::<Cpu<R>, RawEvent>(UNDECLARED, &[3][..]);
    for seq in 4..9 {
        emit::<R>(2, seq);
    }
    // 256 bytes hold 48 of header, 9 records of 12 and, at most, a few more.
    read_all(&mut reader, &live, View::Live, |seq, _| seen.push(seq));
    assert_eq!(
        (&seen[..], reader.losses().events()),
        (&[0, 1, 2][..], 0),
        "the packet may yet be closed"
    );
    let mut dead = reader.clone();
    for _ in 0..2 {
        read_all(&mut dead, &live, View::PostMortem, |seq, _| seen.push(seq));
        assert_eq!((seen.len(), dead.losses().unreadable), (3, 6));
    }
    for seq in 9..100 {
        emit::<R>(2, seq);
    }
    read_all(&mut reader, &live, View::Live, |seq, _| seen.push(seq));
    assert_eq!(*seen.last().unwrap(), 99);
    assert_eq!(seen.len() as u64 + reader.losses().unreadable, 100);
}

#[test]
fn an_undeclared_event_costs_its_packet_and_is_counted() {
    undeclared::<LocalCas>();
    undeclared::<Masked<NoInterrupts>>();
}

/// A reader is lapped in the middle of a packet. What it read of that one does not count in the
/// packet where it goes on.
fn lapped_between_undeclared_events<R: Reserve + 'static>() {
    CLOCK.set(0);
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
    );
    let live = memory.live();
    let mut reader = events(&live);
    (0..10).for_each(|seq| emit::<R>(2, seq));
    read_all(&mut reader, &live, View::Live, |_, _| {});
    assert_eq!(reader.emitted(), 10);
    for seq in 10..200 {
        if seq % 8 == 3 {
            R::record::<Cpu<R>, RawEvent>(UNDECLARED, &[seq][..]);
        } else {
            emit::<R>(2, seq);
        }
    }
    read_all(&mut reader, &live, View::PostMortem, |_, _| {});
    let losses = reader.losses();
    assert!(
        losses.overwritten > 0 && losses.unreadable > 0,
        "{losses:?}"
    );
    assert_eq!(reader.emitted() + losses.events(), 200, "{losses:?}");
}

#[test]
fn a_lapped_reader_counts_what_is_unreadable_where_it_goes_on() {
    lapped_between_undeclared_events::<LocalCas>();
    lapped_between_undeclared_events::<Masked<NoInterrupts>>();
}

/// Whatever stands in the memory: a reader ends, and neither panics nor reads outside.
#[test]
fn damaged_memory_is_survived() {
    CLOCK.set(77);
    let memory = form::<LocalCas>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 8),
    );
    for seq in 0..500 {
        emit::<LocalCas>(u64::from(seq % 4), seq);
    }
    let bytes = dump(&memory.live());
    let used = Region::open(&Bytes(&bytes)).unwrap().header().total_size as usize;
    let mut random = Random(9);
    for _ in 0..2000 {
        let mut damaged = bytes[..used].to_vec();
        for _ in 0..=random.next(4) {
            let at = random.next(used as u64) as usize;
            damaged[at] ^= 1 << random.next(8);
        }
        damaged.truncate(
            used - if random.next(4) == 0 {
                random.next(used as u64) as usize
            } else {
                0
            },
        );
        let source = Bytes(&damaged);
        let Ok(region) = Region::open(&source) else {
            continue;
        };
        for view in [View::PostMortem, View::Live] {
            let Ok(mut reader) = region.channel(&source, 0, ChannelKind::Events) else {
                continue;
            };
            let mut scratch = vec![0; reader.scratch_words()];
            while let Ok(Some(mut batch)) = reader.read(&source, view, &mut scratch) {
                while batch.next_record(&RECORDS).is_some() {}
            }
        }
    }
}

/// A dump that gives so many words, and then panics.
struct Limited<'a> {
    bytes: Bytes<'a>,
    left: Cell<u64>,
}

impl Limited<'_> {
    fn count(&self) {
        self.left
            .set(self.left.get().checked_sub(1).expect("the walk has no end"));
    }
}

impl Source for Limited<'_> {
    fn len(&self) -> u64 {
        self.bytes.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.count();
        self.bytes.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.count();
        self.bytes.load_long(offset)
    }
}

/// No word of a control block says how long a walk is: the checksum does not cover them.
fn bounded<R: Reserve + 'static>(records: u32) {
    CLOCK.set(0);
    let memory = form::<R>(
        memory(),
        &config(Overflow::Overwrite, Consumer::None, 256, 4),
    );
    for seq in 0..records {
        emit::<R>(2, seq);
    }
    let bytes = dump(&memory.live());
    let used = Region::open(&Bytes(&bytes)).unwrap().header().total_size as usize;
    const WORDS: [usize; 4] = [
        offset_of!(Control, prep),
        offset_of!(Control, open),
        offset_of!(Control, first_packet),
        offset_of!(Control, cursor),
    ];
    const VALUES: [u64; 4] = [u64::MAX, u64::MAX - 1, 1 << 63, u32::MAX as u64];
    for case in 0..5_usize.pow(4) {
        let mut damaged = bytes[..used].to_vec();
        for (index, offset) in WORDS.into_iter().enumerate() {
            if let Some(value) = VALUES.get(case / 5_usize.pow(index as u32) % 5) {
                let at = CONTROL_OFFSET + offset;
                damaged[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        // A ring of four packets: all of it a few times.
        let source = Limited {
            bytes: Bytes(&damaged),
            left: Cell::new(10_000),
        };
        for view in [View::PostMortem, View::Live] {
            let mut reader = events(&source);
            let mut scratch = vec![0; reader.scratch_words()];
            while let Some(mut batch) = reader.read(&source, view, &mut scratch).unwrap() {
                while batch.next_record(&RECORDS).is_some() {}
            }
            let mut reader = events(&source);
            reader.refresh_losses(&source).unwrap();
            reader.is_quiet(&source).unwrap();
            reader.events(&source, view).unwrap();
            for number in reader.numbers(&source).unwrap() {
                let packet = reader.packet(&source, view, number).unwrap();
                let Some(mut packet) = packet else { continue };
                while packet.next_place(&source, &RECORDS).is_some() {}
            }
        }
    }
}

#[test]
fn no_walk_is_as_long_as_a_damaged_word_says() {
    // Seventeen records fill a packet: the open one lies in each of the four slots.
    for records in [100, 117, 134, 151] {
        bounded::<Masked<NoInterrupts>>(records);
        #[cfg(target_pointer_width = "64")]
        bounded::<LocalCas>(records);
    }
}
