//! Clocks that stand still, or whose frequency is not that of a clock.

use kymo_ctf::EventRef;

use super::{Findings, Place, Remedy, Severity};
use crate::section::Report;

/// Frequencies in hertz that a clock may have.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 10..=20_000_000_000;
/// Fewest events from which the clock is judged by them.
const ENOUGH: u64 = 100;

const FREQUENCY: Remedy = Remedy {
    text: "Give the session, as the clock's frequency, the ticks per second of the port's clock",
    page: "your-kernel.md#start",
};
const CLOCK: Remedy = Remedy {
    text: "See that the port's clock reads a counter that runs, and not a variable that is set \
           later or at each timer interrupt",
    page: "your-kernel.md#the-platform",
};

/// The times of the events of all CPUs, without names.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    stamped: u64,
    /// The smallest and the largest time in ticks.
    range: Option<(u64, u64)>,
    first: Option<Place>,
}

impl Clocks {
    pub(super) fn add(&mut self, event: &EventRef<'_>, place: Place) {
        let Some(time) = event.time() else { return };
        self.stamped += 1;
        self.first.get_or_insert(place);
        let (least, most) = self.range.unwrap_or((time.0, time.0));
        self.range = Some((least.min(time.0), most.max(time.0)));
    }

    pub(super) fn finish(&self, report: &Report, found: &mut Findings) {
        let Some(clock) = report.clocks.first() else {
            return;
        };
        if !PLAUSIBLE.contains(&clock.frequency_hz) {
            let message = format!(
                "The clock `{}` is said to have {} ticks per second, which no clock has",
                clock.name, clock.frequency_hz
            );
            found.add(Severity::Wrong, "clock-frequency", message, None, FREQUENCY);
        }
        match self.range {
            Some((least, most)) if least == most && self.stamped > 1 => {
                let message = format!("All {} events have the time {least}", self.stamped);
                found.add(Severity::Wrong, "clock-still", message, self.first, CLOCK);
            }
            _ if self.stamped >= ENOUGH && clock.equal_stamps > self.stamped / 2 => {
                let message = format!(
                    "{} of {} events have the time of the event before them on their CPU: a tick \
                     of the clock is longer than what the kernel does in between",
                    clock.equal_stamps, self.stamped
                );
                found.add(Severity::Hint, "clock-coarse", message, self.first, CLOCK);
            }
            _ => {}
        }
    }
}
