//! How far a scaled count may be from the truth.

use crate::counters::Total;

/// Fewest readings from which an interval is computed.
pub const MIN_READINGS: usize = 10;

/// Half of an interval that has the truth with a probability of 95 %, in standard errors, where
/// errors are distributed normally.
const NORMAL_95: f64 = 1.96;

/// Readings of a group that took turns with others, from which follows how steady its counts were.
///
/// The count during `t` of the time `T` is a sample of the work, and `count / t` is the estimate of
/// its rate. With readings `i` of counts `x` during times `t` since the reading before, the
/// standard error of the scaled count is that of a ratio estimator over a finite population
/// (Cochran, Sampling Techniques, 6.4):
///
/// ```text
/// rate  = sum(x) / sum(t)
/// error = T / sum(t) * sqrt((1 - sum(t) / T) * n / (n - 1) * sum((x - rate * t)^2))
/// ```
///
/// It is small where all readings have the same rate. It knows nothing of work that keeps step with
/// the turns, so that the group sees always the same part of it.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// Readings in which the group counted.
    readings: usize,
    time_enabled: f64,
    /// Sum of `t`, and of its squares.
    time_running: f64,
    time_squares: f64,
    events: Vec<Sums>,
}

/// Sums for an event.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    counts: f64,
    squares: f64,
    /// Sum of the readings' products of count and time.
    products: f64,
}

impl Readings {
    /// Adds what was counted since the reading before: [`Total::since`].
    pub fn add(&mut self, counts: &Total) {
        self.time_enabled += counts.time_enabled as f64;
        if counts.time_running == 0 {
            return;
        }
        let time = counts.time_running as f64;
        self.readings += 1;
        self.time_running += time;
        self.time_squares += time * time;
        self.events.resize(counts.events.len(), Sums::default());
        for (sums, event) in self.events.iter_mut().zip(&counts.events) {
            let count = event.raw as f64;
            sums.counts += count;
            sums.squares += count * count;
            sums.products += count * time;
        }
    }

    /// Half the width of the interval around an event's scaled count that has the truth with a
    /// probability of 95 %, as a share of that count. `None` for fewer than [`MIN_READINGS`]
    /// readings in which the group counted, and for a count of 0.
    pub fn error(&self, event: usize) -> Option<f64> {
        let sums = self.events.get(event)?;
        if self.readings < MIN_READINGS || sums.counts == 0.0 {
            return None;
        }
        let readings = self.readings as f64;
        let rate = sums.counts / self.time_running;
        let residuals = sums.squares - 2.0 * rate * sums.products + rate * rate * self.time_squares;
        let unseen = (1.0 - self.time_running / self.time_enabled).max(0.0);
        let variance = unseen * readings / (readings - 1.0) * residuals.max(0.0);
        Some(NORMAL_95 * variance.sqrt() / sums.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings of a group that counts for a third of the time, with these counts.
    fn readings(counts: impl IntoIterator<Item = u64>) -> Readings {
        let mut readings = Readings::default();
        for count in counts {
            readings.add(&Total::of_page_faults(3000, 1000, count));
        }
        readings
    }

    #[test]
    fn steady_work_has_a_narrow_interval_and_bursts_have_a_wide_one() {
        let steady = readings([500; 100]).error(0).expect("an interval");
        assert!(steady < 1e-6, "{steady}");
        let varied = readings((0..100).map(|turn| 450 + turn % 5 * 25));
        let varied = varied.error(0).expect("an interval");
        // A standard deviation of 7.07 % of the mean, over sqrt(100), times sqrt(2/3) and 1.96.
        assert!((varied - 0.0113).abs() < 0.0002, "{varied}");
        let bursts = readings((0..100).map(|turn| if turn % 10 == 0 { 5000 } else { 0 }));
        let bursts = bursts.error(0).expect("an interval");
        assert!((bursts - 0.48).abs() < 0.01, "{bursts}");
    }

    #[test]
    fn few_readings_say_nothing() {
        assert_eq!(readings([500; MIN_READINGS - 1]).error(0), None);
        assert!(readings([500; MIN_READINGS]).error(0).is_some());
        assert_eq!(readings([0; 100]).error(0), None);
        assert_eq!(readings([500; 100]).error(1), None);
        let mut never = readings([500; MIN_READINGS - 1]);
        never.add(&Total::of_page_faults(3000, 0, 0));
        assert_eq!(never.error(0), None);
    }

    #[test]
    fn a_group_that_always_counts_has_no_error() {
        let mut readings = Readings::default();
        for count in 0..20 {
            readings.add(&Total::of_page_faults(1000, 1000, count));
        }
        assert_eq!(readings.error(0), Some(0.0));
    }
}
