//! What is not in the trace.

use kymo_ctf::LossKind;
use serde::Serialize;

/// What is not in the trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Losses {
    /// Events that the tracer counted and did not store.
    pub events: u64,
    /// Packets that are missing. Where Kymo wrote the trace, their events are among `events`.
    pub packets: u64,
    /// The first hundred.
    pub intervals: Vec<Loss>,
    /// How many more there are.
    pub intervals_not_listed: u64,
}

/// One loss: it lies somewhere between two times.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    /// The stream file.
    pub stream: String,
    /// The CPU.
    pub cpu: Option<u64>,
    /// `events` or `packets`.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// Not before this.
    pub begin_ns: Option<i64>,
    /// Not after this.
    pub end_ns: Option<i64>,
}

/// Losses that are listed; of the rest there is a count.
const LISTED: usize = 100;

/// Losses, and which of the machine's each of the list is.
#[derive(Debug, Default)]
pub(crate) struct LossList {
    losses: Losses,
    numbers: Vec<u64>,
}

fn nanos(time: Option<i128>) -> Option<i64> {
    let time = time?;
    let limit = if time < 0 { i64::MIN } else { i64::MAX };
    Some(i64::try_from(time).unwrap_or(limit))
}

impl LossList {
    /// Takes note of a loss, which is the machine's of this number.
    pub(crate) fn add(&mut self, loss: &kymo_ctf::Loss, number: u64) {
        let (kind, total) = match loss.kind {
            LossKind::Events => ("events", &mut self.losses.events),
            LossKind::Packets => ("packets", &mut self.losses.packets),
        };
        *total = total.saturating_add(loss.count);
        if self.losses.intervals.len() >= LISTED {
            self.losses.intervals_not_listed += 1;
            return;
        }
        self.numbers.push(number);
        self.losses.intervals.push(Loss {
            stream: loss.stream.to_string(),
            cpu: loss.cpu,
            kind,
            count: loss.count,
            begin_ns: nanos(loss.begin_nanos),
            end_ns: nanos(loss.end_nanos),
        });
    }

    /// The machine's loss of this number was over at that time.
    pub(crate) fn regain(&mut self, loss: u64, time: i64) {
        if let Ok(place) = self.numbers.binary_search(&loss)
            && let Some(loss) = self.losses.intervals.get_mut(place)
        {
            loss.end_ns = loss.end_ns.map(|end| end.min(time));
        }
    }

    pub(crate) fn finish(self) -> Losses {
        self.losses
    }

    pub(crate) fn live(&self) -> usize {
        self.losses.intervals.len()
    }
}
