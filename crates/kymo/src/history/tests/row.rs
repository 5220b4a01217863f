//! Which records are shown, in which order, and how many: against the reader of whole packets.

use super::*;

fn agrees<R: Reserve + 'static>(overflow: Overflow, events: u32) -> Counts {
    CLOCK.set(1000);
    let setting = Setting::<R>::new(3, overflow, 256, 8);
    setting.mixed(3, 0..events);
    let (records, counts) = by_channel_readers(&setting.session.live(), &VOCABULARY);
    assert_eq!(setting.records(), records);
    assert_eq!(setting.history.counts(), counts);
    assert_eq!(counts.total(), u64::from(events));
    let all = setting.lines(usize::MAX);
    let note = usize::from(counts.overwritten > 0);
    assert_eq!(all.len(), records.len() + note);
    for (line, (time, cpu, .., id, payload)) in all[note..].iter().zip(&records) {
        let name = VOCABULARY.event(*id).unwrap().name;
        let value = if *id == Note::ID {
            payload[0] & 0xffff
        } else {
            payload[0]
        };
        let begin = format!(
            "{:>5}.{:07} cpu{cpu} {name} seq={value}",
            time / 10_000_000,
            time % 10_000_000
        );
        assert!(line.starts_with(&begin), "{line} is not {begin}");
        assert!(
            *id != Short::ID || line.ends_with(&format!(" check={}", payload[1])),
            "{line}"
        );
    }
    for last_n in [1, 2, 7, records.len() - 1] {
        assert_eq!(
            setting.lines(last_n),
            all[all.len() - last_n..],
            "the last {last_n}"
        );
    }
    counts
}

/// L-03, L-05 to L-07, V-07, V-09.
#[test]
fn the_history_is_what_the_reader_of_packets_finds() {
    for overflow in [Overflow::Discard, Overflow::Overwrite] {
        for events in [20, 1500] {
            for counts in [
                agrees::<LocalCas>(overflow, events),
                agrees::<OneAtATime>(overflow, events),
            ] {
                assert_eq!(
                    counts.discarded > 0,
                    overflow == Overflow::Discard && events == 1500
                );
                assert_eq!(
                    counts.overwritten > 0,
                    overflow == Overflow::Overwrite && events == 1500
                );
            }
        }
    }
}

#[test]
fn three_hundred_cpus_are_merged_in_constant_memory() {
    CLOCK.set(5);
    let setting = Setting::<OneAtATime>::new(300, Overflow::Overwrite, 256, 4);
    // Each CPU has two events; times run against the CPUs' numbers.
    for seq in 0..600 {
        CLOCK.set(CLOCK.get() + 1);
        setting.short(299 - seq % 300, seq);
    }
    let all = setting.lines(5);
    let seqs: Vec<_> = all
        .iter()
        .map(|line| {
            line.split_whitespace()
                .skip(1)
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    assert_eq!(
        seqs,
        [4, 3, 2, 1, 0].map(|cpu| format!("cpu{cpu} short seq={}", 599 - cpu))
    );
    assert_eq!(
        setting.history.counts(),
        Counts {
            retained: 600,
            overwritten: 0,
            discarded: 0
        }
    );
    let entry = setting.history.get(0, &mut [0; 2]).unwrap();
    assert_eq!((entry.time, entry.cpu), (6, 299));
}

#[test]
fn as_many_as_are_wanted_and_as_there_are() {
    let setting = Setting::<LocalCas>::new(2, Overflow::Overwrite, 256, 4);
    assert_eq!(
        setting.dump(10),
        "kymo: 0 retained, 0 overwritten, 0 discarded\n"
    );
    assert!(setting.history.get(0, &mut []).is_none());
    for seq in 0..3 {
        setting.short(seq % 2, seq);
    }
    assert_eq!(
        setting.dump(0),
        "kymo: 3 retained, 0 overwritten, 0 discarded\n"
    );
    let all = setting.lines(usize::MAX);
    assert_eq!(all.len(), 3);
    for last_n in [1, 2, 3, 4] {
        assert_eq!(setting.lines(last_n), all[3usize.saturating_sub(last_n)..]);
    }
    assert!(setting.history.get(2, &mut [0; 2]).is_some());
    assert!(setting.history.get(3, &mut [0; 2]).is_none());
    // Memory in which nothing was ever recorded.
    let history = History::new(leaked(8192, 1), &VOCABULARY);
    let mut out = String::new();
    history.dump_on_panic(&mut out, 0, 32).unwrap();
    assert_eq!(out, "kymo: nothing was recorded\n");
    history.clear();
    assert!(
        !history.is_enabled()
            && history.counts() == Counts::default()
            && history.get(0, &mut []).is_none()
    );
}

fn cleared<R: Reserve + 'static>() {
    CLOCK.set(1);
    let setting = Setting::<R>::new(3, Overflow::Overwrite, 256, 8);
    setting.mixed(3, 0..700);
    setting.history.clear();
    assert_eq!(setting.history.counts(), Counts::default());
    assert_eq!(setting.records(), []);
    assert_eq!(setting.lines(10), [""; 0]);
    let (before, overwritten) = (
        by_channel_readers(&setting.session.live(), &VOCABULARY)
            .0
            .len(),
        700,
    );
    assert!(
        before < overwritten,
        "{before}: others still see them all, as far as they are there"
    );
    // First a few records that fit, then many that do not. They come in a later tick: see `clear`.
    let then = CLOCK.get();
    CLOCK.set(CLOCK.get() + 1);
    setting.mixed(3, 700..720);
    assert_eq!(
        setting.history.counts(),
        Counts {
            retained: 20,
            overwritten: 0,
            discarded: 0
        }
    );
    assert_eq!(setting.records().len(), 20);
    assert_eq!(setting.lines(100).len(), 20);
    assert_eq!(setting.lines(20), setting.lines(21));
    setting.mixed(3, 720..2000);
    let mut records = by_channel_readers(&setting.session.live(), &VOCABULARY).0;
    records.retain(|record| record.0 > then);
    assert_eq!(setting.records(), records);
    let retained = records.len() as u64;
    assert_eq!(
        setting.history.counts(),
        Counts {
            retained,
            overwritten: 1300 - retained,
            discarded: 0
        }
    );
    // CPU by CPU, as in a panic.
    setting.history.clear();
    CLOCK.set(CLOCK.get() + 1);
    (0..3).for_each(|seq| setting.short(1, seq));
    for last_n in [1, 2, 3, 4] {
        let mut out = String::new();
        setting.history.dump_on_panic(&mut out, 0, last_n).unwrap();
        assert_eq!(out.lines().count(), 1 + last_n.min(3), "{out}");
    }
    // Nothing is cleared of another session over the same memory.
    setting.session.stop().unwrap();
    CLOCK.set(0);
    let _again = Setting::<R>::start(setting.memory, Overflow::Overwrite, 256, 8, &VOCABULARY);
    setting.short(0, 7);
    assert_eq!(setting.records().len(), 1);
}

/// L-04.
#[test]
fn what_was_cleared_is_not_shown_and_stays_in_the_rings() {
    cleared::<LocalCas>();
    cleared::<OneAtATime>();
}

/// Two packets' times overlap; every record is shown once, and the row ends.
fn steps_back<R: Reserve + 'static>() {
    let setting = {
        CLOCK.set(0);
        Setting::<R>::new(1, Overflow::Overwrite, 256, 16)
    };
    for seq in 0..240 {
        CLOCK.set(1000 + u64::from(seq) - if seq % 100 > 40 { 500 } else { 0 });
        setting.short(0, seq);
    }
    let mut seqs: Vec<_> = setting.records().iter().map(|record| record.4[0]).collect();
    assert!(setting.records().is_sorted_by_key(|record| record.0));
    seqs.sort_unstable();
    assert_eq!(seqs, (0..240).collect::<Vec<_>>());
    assert_eq!(setting.lines(239).len(), 239);
}

#[test]
fn a_clock_that_steps_back_hides_no_record() {
    steps_back::<LocalCas>();
    steps_back::<OneAtATime>();
}
