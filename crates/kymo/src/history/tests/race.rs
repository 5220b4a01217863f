//! Writers at work while the history is read.

use std::cell::Cell;
#[cfg(target_pointer_width = "64")]
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::ring::source::{Live, Outside};

/// Memory in which the writer goes on while it is read: after every so many words that the reader
/// loads.
struct Interleaved<'a> {
    live: Live,
    left: Cell<u64>,
    every: u64,
    write: &'a dyn Fn(),
}

impl Interleaved<'_> {
    fn step(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.left.set(self.every);
            (self.write)();
        }
    }
}

impl Source for Interleaved<'_> {
    fn len(&self) -> u64 {
        self.live.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        self.step();
        self.live.load(offset)
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.step();
        self.live.load_long(offset)
    }
}

/// Returns how many lines were printed, and whether some could not be.
fn interleaved<R: Reserve + 'static>(every: u64, burst: u32) -> (usize, bool) {
    CLOCK.set(10);
    let setting = Setting::<R>::new(2, Overflow::Overwrite, 256, 4);
    let seq = Cell::new(0u32);
    let write = || {
        for _ in 0..burst {
            CLOCK.set(CLOCK.get() + 5);
            let seq = seq.replace(seq.get() + 1);
            if seq.is_multiple_of(7) {
                setting.record(
                    seq / 7 % 2,
                    Note {
                        seq: seq as u16,
                        small: 1,
                        sure: true,
                        text: Text::new("twenty bytes of text"),
                    },
                );
            } else {
                setting.short(seq % 2, seq);
            }
        }
    };
    (0..50).for_each(|_| write());
    let source = Interleaved {
        live: setting.session.live(),
        left: Cell::new(every),
        every,
        write: &write,
    };
    let (mut lines, mut lost) = (0, false);
    for last_n in [1, 5, 40, usize::MAX] {
        let (began, mut out) = (seq.get(), String::new());
        dump(
            &source,
            &VOCABULARY,
            &Mark::new(),
            &mut out,
            last_n,
            Rows::One,
        )
        .unwrap();
        let (mut last, mut shown, mut printed) = (None, 0, Vec::new());
        for line in out.lines() {
            if line.starts_with("kymo: ") {
                lost |= line.contains("meanwhile");
                continue;
            }
            let (time, fields) = line.split_once(" cpu").unwrap();
            let value = |name: &str| -> u32 {
                fields
                    .split_once(name)
                    .unwrap()
                    .1
                    .split(' ')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap()
            };
            let seq = value("seq=");
            if fields.contains(" note ") {
                assert!(
                    fields.ends_with("small=1 sure=true text=\"twenty bytes of text\""),
                    "{line}"
                );
            } else {
                assert!(
                    fields.contains(" short ") && value("check=") == check_of(seq),
                    "{line}"
                );
                assert_eq!(
                    time.trim(),
                    format!("0.{:07}", 10 + 5 * (u64::from(seq) + 1)),
                    "{line}"
                );
                assert!(last.is_none_or(|last| last < seq), "{last:?} before {line}");
                last = Some(seq);
                printed.push(seq);
            }
            lines += 1;
            shown += 1;
        }
        assert!(shown <= last_n, "{shown} of {last_n}");
        assert!(
            shown > 0 || out.contains("meanwhile") || out.contains(" 0 retained"),
            "nothing of {last_n}, and not a word: {out}"
        );
        // What is still there was there all along.
        let (still, _) = by_channel_readers(&setting.session.live(), &VOCABULARY);
        let still = still
            .iter()
            .filter(|record| record.3 == Short::ID)
            .map(|record| record.4[0]);
        if let [first, .., newest] = printed[..] {
            for seq in still.filter(|seq| (first..=newest).contains(seq)) {
                assert!(printed.contains(&seq), "{seq} was not printed: {printed:?}");
            }
        }
        assert!(every > 100 || seq.get() > began, "the writer was at work");
        let (mut all, mut payload) = (out.lines().count(), [0; 2]);
        let reading = Reading {
            source: &source,
            known: &VOCABULARY,
            mark: &Mark::new(),
        };
        all += usize::from(reading.get(3, &mut payload).is_some());
        assert!(all < 200);
        reading.counts();
    }
    (lines, lost)
}

#[test]
fn a_writer_between_any_two_loads_tears_nothing() {
    let mut sum = (0, false);
    // From a ring that is overwritten within a few loads to one that lasts longer than a dump.
    for every in [
        1, 2, 3, 7, 50, 64, 65, 301, 500, 601, 777, 1000, 1501, 4001, 30_011,
    ] {
        for burst in [1, 3, 17, 150] {
            for (lines, lost) in [
                interleaved::<LocalCas>(every, burst),
                interleaved::<OneAtATime>(every, burst),
            ] {
                sum = (sum.0 + lines, sum.1 | lost);
            }
        }
    }
    assert!(
        sum.0 > 500 && sum.1,
        "records were printed, and others lost: {sum:?}"
    );
}

/// Records one more event when the line with the counts has been written.
struct Recording<'a> {
    text: String,
    record: &'a dyn Fn(),
}

impl Write for Recording<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text.push_str(text);
        if text.ends_with("discarded\n") {
            (self.record)();
        }
        Ok(())
    }
}

#[test]
fn what_comes_in_behind_the_counts_is_not_printed() {
    CLOCK.set(0);
    let setting = Setting::<OneAtATime>::new(1, Overflow::Overwrite, 256, 8);
    let record = |seq: u32| {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(0, seq);
    };
    for seq in 0..7 {
        record(seq);
    }
    let mut out = Recording {
        text: String::new(),
        record: &|| record(7),
    };
    setting.history.dump(&mut out, 7).unwrap();
    let lines: Vec<_> = out.text.lines().skip(1).collect();
    assert_eq!(lines.len(), 7, "{lines:#?}");
    for (seq, line) in lines.iter().enumerate() {
        assert!(line.contains(&format!(" seq={seq} ")), "{line}");
    }
}

/// Memory in which a writer is inside a packet at one load of the word that says so.
#[cfg(target_pointer_width = "64")]
struct Busy {
    live: Live,
    commit: u64,
    at: Cell<i32>,
}

#[cfg(target_pointer_width = "64")]
impl Source for Busy {
    fn len(&self) -> u64 {
        self.live.len()
    }
    fn load(&self, offset: u64) -> Result<u32, Outside> {
        let loaded = self.live.load(offset)?;
        if offset != self.commit {
            return Ok(loaded);
        }
        self.at.set(self.at.get() - 1);
        // The words of a record are reserved, and not committed yet.
        Ok(if self.at.get() == -1 {
            loaded - 3
        } else {
            loaded
        })
    }
    fn load_long(&self, offset: u64) -> Result<u64, Outside> {
        self.live.load_long(offset)
    }
}

/// While the newest records are looked for, backwards, a writer is inside the packet that holds
/// some of them: older ones of another CPU do not take their place.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_packet_that_cannot_be_read_for_a_moment_neither_adds_lines_nor_hides_the_newest() {
    const LAST_N: usize = 5;
    CLOCK.set(0);
    let setting = Setting::<LocalCas>::new(2, Overflow::Overwrite, 1024, 4);
    // First the one CPU, then the other.
    for seq in 0..20 {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(seq / 10, seq);
    }
    let newest = setting.lines(LAST_N);
    // SAFETY: the block of a leaked region.
    let commit = unsafe { (*setting.memory.control(1)).ring_offset.load(Relaxed) };
    for at in 0.. {
        let source = Busy {
            live: setting.session.live(),
            commit,
            at: Cell::new(at),
        };
        let mut out = String::new();
        dump(
            &source,
            &VOCABULARY,
            &Mark::new(),
            &mut out,
            LAST_N,
            Rows::One,
        )
        .unwrap();
        if source.at.get() >= 0 {
            assert!(at > 3 * LAST_N as i32, "{at} loads: each look loads it");
            break;
        }
        let (said, lines): (Vec<_>, Vec<_>) = out
            .lines()
            .skip(1)
            .partition(|line| line.starts_with("kymo: "));
        assert!(lines.len() <= LAST_N, "{at}: {out}");
        // After the counts, one look finds the newest record. What is not seen then has come in
        // meanwhile.
        if at == 1 {
            assert!(lines[LAST_N - 1].contains(" seq=9 "), "{out}");
        } else {
            // The looks back, then those that print.
            let missing = at > LAST_N as i32 && !said.is_empty();
            assert!(lines == newest || missing, "{at}: {out}");
        }
    }
}
