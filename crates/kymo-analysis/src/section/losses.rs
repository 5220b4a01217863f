//! Lost events and packets.

use kymo_ctf::LossKind;
use kymo_machine::{Change, Totals};
use serde::Serialize;

use super::worst;

/// Events and packets that the trace lacks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Losses {
    /// Events that the tracer discarded, by its own count.
    pub events: u64,
    /// Missing packets. In Kymo's traces, `events` includes their events.
    pub packets: u64,
    /// Events that the kernel counted until its session's end, and that are neither in the trace
    /// nor in `events`: a stream file is missing or incomplete, or events were dropped after the
    /// stream's last packet.
    pub missing: u64,
    /// The first hundred losses.
    pub intervals: Vec<Loss>,
    /// Number of further losses.
    pub intervals_not_listed: u64,
}

impl Losses {
    /// Whether the trace lacks anything.
    pub fn any(&self) -> bool {
        self.reported() || self.missing > 0
    }

    /// Whether the trace reports losses.
    pub fn reported(&self) -> bool {
        self.events > 0 || self.packets > 0
    }
}

/// A loss, somewhere between two times.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    /// Name of the stream file.
    pub stream: String,
    /// Number of the CPU.
    pub cpu: Option<u64>,
    /// `events` or `packets`.
    pub kind: &'static str,
    /// Number of lost events or packets.
    pub count: u64,
    /// Earliest time.
    pub begin_ns: Option<i64>,
    /// Latest time.
    pub end_ns: Option<i64>,
}

/// Most losses that are listed; the rest are only counted.
const LISTED: usize = 100;

/// The losses, with the machine's number of each one that is kept.
#[derive(Debug, Default)]
pub(crate) struct LossList {
    losses: Losses,
    numbers: Vec<u64>,
    /// The largest of all that have a time, the largest first.
    largest: Vec<(u64, Loss)>,
    counted: Totals,
}

fn nanos(time: Option<i128>) -> Option<i64> {
    let time = time?;
    let limit = if time < 0 { i64::MIN } else { i64::MAX };
    Some(i64::try_from(time).unwrap_or(limit))
}

impl LossList {
    /// Adds a loss, to which the machine gave this number.
    pub(crate) fn add(&mut self, loss: &kymo_ctf::Loss, number: u64) {
        let (kind, total) = match loss.kind {
            LossKind::Events => ("events", &mut self.losses.events),
            LossKind::Packets => ("packets", &mut self.losses.packets),
        };
        *total = total.saturating_add(loss.count);
        let is_listed = self.losses.intervals.len() < LISTED;
        let place = self.place_among_largest(loss);
        if !is_listed {
            self.losses.intervals_not_listed += 1;
        }
        if !is_listed && place.is_none() {
            return;
        }
        let loss = Loss {
            stream: loss.stream.to_string(),
            cpu: loss.cpu,
            kind,
            count: loss.count,
            begin_ns: nanos(loss.begin_nanos),
            end_ns: nanos(loss.end_nanos),
        };
        if let Some(place) = place {
            self.largest.insert(place, (number, loss.clone()));
            self.largest.truncate(worst::MOST);
        }
        if is_listed {
            self.numbers.push(number);
            self.losses.intervals.push(loss);
        }
    }

    /// Where a loss belongs among the largest; `None` if they are larger, or it has no time.
    fn place_among_largest(&self, loss: &kymo_ctf::Loss) -> Option<usize> {
        loss.begin_nanos.or(loss.end_nanos)?;
        let is_larger = |other: &(u64, Loss)| other.1.count >= loss.count;
        let place = self.largest.partition_point(is_larger);
        (place < worst::MOST).then_some(place)
    }

    /// The loss with the machine's number `loss` ended no later than `time`.
    pub(crate) fn regain(&mut self, loss: u64, time: i64) {
        let place = self.numbers.binary_search(&loss).ok();
        let listed = place.and_then(|place| self.losses.intervals.get_mut(place));
        let largest = self.largest.iter_mut().find(|(number, _)| *number == loss);
        for loss in listed.into_iter().chain(largest.map(|(_, loss)| loss)) {
            loss.end_ns = loss.end_ns.map(|end| end.min(time));
        }
    }

    /// Takes a change that bears on how many events there must be.
    pub(crate) fn count(&mut self, change: &Change) {
        self.counted.add(change);
    }

    /// The losses of the most events or packets, of those that have a time; the largest first.
    pub(crate) fn largest(&self) -> impl Iterator<Item = &Loss> {
        self.largest.iter().map(|(_, loss)| loss)
    }

    /// The losses of a trace of so many events; `None` for a part of a trace, whose events no
    /// session has counted.
    pub(crate) fn finish(self, events: Option<u64>) -> Losses {
        let lost = self.losses.events;
        Losses {
            missing: events.map_or(0, |events| self.counted.missing(events, lost)),
            ..self.losses
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.losses.intervals.len() + self.largest.len()
    }
}
