//! A panic inside of a record, and memory that is damaged.

#[cfg(target_pointer_width = "64")]
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::ring::source::Bytes;

fn bytes_of(source: &impl Source) -> Vec<u8> {
    let used = Region::open(source).unwrap().header().total_size;
    (0..used / 4)
        .flat_map(|word| source.load(4 * word).unwrap().to_le_bytes())
        .collect()
}

/// A panic inside of a record: what the CPU had recorded before it is there, and each CPU has its
/// own last records.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_record_that_is_half_written_in_a_panic_does_not_hide_those_before_it() {
    CLOCK.set(0);
    let setting = Setting::<LocalCas>::new(3, Overflow::Overwrite, 1024, 4);
    for seq in 0..30 {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(seq % 2, seq);
    }
    let mut bytes = bytes_of(&setting.session.live());
    // SAFETY: the block of a leaked region.
    let ring = unsafe { (*setting.memory.control(1)).ring_offset.load(Relaxed) } as usize;
    // The last record of CPU 1: reserved, not written, not committed.
    let record = ring + 4 * (12 + 3 * 14);
    bytes[record..record + 12].fill(0);
    let commit = u32::from_le_bytes(bytes[ring..ring + 4].try_into().unwrap()) - (1 << 16) - 3;
    bytes[ring..ring + 4].copy_from_slice(&commit.to_le_bytes());
    let print = |rows| {
        let mut out = String::new();
        dump(&Bytes(&bytes), &VOCABULARY, &Mark::new(), &mut out, 4, rows).unwrap();
        let (records, said): (Vec<_>, Vec<_>) = out.lines().partition(|line| line.contains("seq="));
        let seqs = records.iter().map(|line| {
            line.split("seq=")
                .nth(1)
                .unwrap()
                .split(' ')
                .next()
                .unwrap()
                .parse::<u32>()
                .unwrap()
        });
        (said.join("; "), seqs.collect::<Vec<_>>())
    };
    let (header, seqs) = print(Rows::PerCpu { dead: Some(1) });
    assert_eq!(header, "kymo: 29 retained, 0 overwritten, 0 discarded");
    assert_eq!(seqs, [22, 24, 26, 28, 21, 23, 25, 27]);
    // To anyone else its writer may still be at work.
    assert_eq!(print(Rows::One).1, [22, 24, 26, 28]);
    let (said, seqs) = print(Rows::PerCpu { dead: Some(0) });
    assert_eq!(seqs, [22, 24, 26, 28]);
    assert!(
        said.ends_with("; kymo: 4 more were overwritten meanwhile, or cannot be read"),
        "{said}"
    );
}

/// Whatever stands in the memory, every call ends.
#[test]
fn damaged_memory_neither_panics_nor_hangs() {
    CLOCK.set(77);
    let setting = Setting::<LocalCas>::new(2, Overflow::Overwrite, 256, 8);
    setting.record(
        0,
        ThreadName {
            tid: Tid(5),
            name: Text::new("worker"),
        },
    );
    setting.mixed(2, 0..500);
    let bytes = bytes_of(&setting.session.live());
    let mut random = 9u32;
    let mut next = |below: usize| {
        random = check_of(random.wrapping_add(1));
        random as usize % below
    };
    let mut opened = 0;
    for turn in 0..300 {
        let mut damaged = bytes.clone();
        for _ in 0..=next(40) {
            // Control blocks and rings more often than the header, which has a checksum.
            let at = if next(3) == 0 {
                4224 + next(2048)
            } else {
                4096 + next(bytes.len() - 4096)
            };
            damaged[at] ^= 1 << next(8);
        }
        let source = Bytes(&damaged);
        opened += usize::from(Region::open(&source).is_ok());
        let panics = Rows::PerCpu {
            dead: Some(turn % 2),
        };
        for rows in [Rows::One, panics] {
            dump(
                &source,
                &VOCABULARY,
                &Mark::new(),
                &mut String::new(),
                [20, usize::MAX][turn as usize / 2 % 2],
                rows,
            )
            .unwrap();
        }
        let mark = Mark::new();
        let reading = Reading {
            source: &source,
            known: &VOCABULARY,
            mark: &mark,
        };
        reading.clear();
        if let Some(record) = reading.get(2, &mut [0; 3]) {
            let mut put = |_: &str| Ok(());
            let mut out = Out::new(&mut put);
            reading.thread(&record);
            reading.write_record(&mut out, &record, &[0; 3]).unwrap();
        }
    }
    assert!(opened > 200, "{opened}");
}
