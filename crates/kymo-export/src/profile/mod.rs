//! Profiles as other tools' files.
//!
//! The weight of a sample is its period where that is a time, or a number of events that a format
//! can name, and 1 elsewhere. A profile without single samples is written with the sums of its rows.

pub(crate) mod chrome;
mod firefox;
mod perf_script;
pub(crate) mod perfetto;
mod pprof;
mod speedscope;

use std::io::{self, Write};

use kymo_profile::{PeriodUnit, Profile, Row, Sample, Unit};

/// A file format for profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// The text that `perf script` prints, a paragraph for each sample.
    PerfScript,
    /// Speedscope's JSON, with a profile for each thread.
    Speedscope,
    /// pprof's protocol buffer, compressed with gzip.
    Pprof,
    /// JSON in the processed profile format of the Firefox Profiler.
    Firefox,
}

impl ProfileFormat {
    /// Whether the format has single samples: [`Profile::samples`] should then be kept.
    pub fn has_samples(self) -> bool {
        self != ProfileFormat::Pprof
    }

    /// Writes a profile.
    ///
    /// `name` is what viewers show as its title.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(self, profile: &Profile, name: &str, out: &mut dyn Write) -> io::Result<()> {
        match self {
            ProfileFormat::PerfScript => perf_script::write(profile, out),
            ProfileFormat::Speedscope => speedscope::write(profile, name, out),
            ProfileFormat::Pprof => pprof::write(profile, out),
            ProfileFormat::Firefox => firefox::write(profile, name, out),
        }
    }
}

/// One sample, or several of a row without times.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    /// Time from the clock's origin in nanoseconds, or in ticks if the frequency is not known.
    time: Option<i64>,
    row: &'a Row,
    /// How much of the profile's unit.
    weight: u64,
}

/// A sample in a timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed<'a> {
    /// Nanoseconds from the timeline's origin.
    pub(crate) at: u64,
    pub(crate) row: &'a Row,
}

/// The samples of a timeline whose origin is at `base`, in nanoseconds from the clock's origin.
pub(crate) fn timed(profile: &Profile, base: i128) -> impl Iterator<Item = Timed<'_>> {
    profile.samples.iter().filter_map(move |sample| {
        let at = i128::from(sample.time_ns).saturating_sub(base).max(0);
        Some(Timed {
            at: u64::try_from(at).unwrap_or(u64::MAX),
            row: profile.rows.get(sample.row as usize)?,
        })
    })
}

/// The samples in time order; or the rows, if single samples were not kept, or if the weights are
/// sums of something else.
fn entries(profile: &Profile) -> impl Iterator<Item = Entry<'_>> {
    let is_timed = !profile.samples.is_empty() && profile.unit == Unit::Samples;
    let (samples, rows): (&[Sample], &[Row]) = match is_timed {
        true => (&profile.samples, &[]),
        false => (&[], &profile.rows),
    };
    let samples = samples.iter().filter_map(|sample| {
        Some(Entry {
            time: Some(sample.time_ns),
            row: profile.rows.get(sample.row as usize)?,
            weight: 1,
        })
    });
    samples.chain(rows.iter().map(|row| Entry {
        time: None,
        row,
        weight: row.weight,
    }))
}

/// The entries by thread, in the order of [`Profile::threads`], those without a thread last.
fn by_thread(profile: &Profile) -> Vec<(Option<usize>, Vec<Entry<'_>>)> {
    let count = profile.threads.len();
    let mut lists: Vec<Vec<Entry<'_>>> = vec![Vec::new(); count + 1];
    for entry in entries(profile) {
        let thread = entry.row.thread.map_or(count, |thread| thread as usize);
        if let Some(list) = lists.get_mut(thread.min(count)) {
            list.push(entry);
        }
    }
    let named = lists.into_iter().enumerate();
    named
        .map(|(thread, list)| ((thread < count).then_some(thread), list))
        .filter(|(_, list)| !list.is_empty())
        .collect()
}

/// A period in nanoseconds, if it is a time: of ticks, if the frequency of the clock is known.
fn duration(profile: &Profile, period: u64) -> Option<u64> {
    match profile.period_unit {
        PeriodUnit::Ticks => {}
        PeriodUnit::Nanoseconds => return Some(period),
        PeriodUnit::Events(_) => return None,
    }
    let frequency = profile.clock.as_ref()?.frequency.max(1);
    let nanos = u128::from(period) * 1_000_000_000 / u128::from(frequency);
    u64::try_from(nanos).ok()
}

/// The time that a row's samples stand for, in nanoseconds; `None` if that is not known.
fn nanoseconds(profile: &Profile, row: &Row) -> Option<u64> {
    if profile.unit == Unit::Nanoseconds {
        return Some(row.weight);
    }
    match row.ticks {
        0 => None,
        ticks => duration(profile, ticks),
    }
}

/// Whether every row has a time, so that weights can be times.
fn weighs_time(profile: &Profile) -> bool {
    !profile.rows.is_empty()
        && profile
            .rows
            .iter()
            .all(|row| nanoseconds(profile, row).is_some())
}

/// The event after whose occurrences the samples were taken, if every row says how many.
fn counted_event(profile: &Profile) -> Option<&str> {
    let is_counted = !profile.rows.is_empty() && profile.rows.iter().all(|row| row.ticks > 0);
    match &profile.period_unit {
        PeriodUnit::Events(event) if is_counted && profile.unit == Unit::Samples => Some(event),
        _ => None,
    }
}

/// An entry's part of a sum of its row.
fn share(of_row: u64, entry: &Entry<'_>) -> u64 {
    let share = u128::from(of_row) * u128::from(entry.weight) / u128::from(entry.row.weight.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Label of a thread, for people.
fn thread_label(profile: &Profile, thread: Option<usize>) -> String {
    match thread.and_then(|thread| profile.threads.get(thread)) {
        Some(thread) => thread.label(),
        None => "unknown thread".to_owned(),
    }
}
