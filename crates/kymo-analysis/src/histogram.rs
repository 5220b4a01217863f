//! A histogram that gives percentiles in little memory.

use rustc_hash::FxHashMap;

/// Log2 of the number of buckets per power of two.
const SUB_BITS: u32 = 6;
const SUB: u64 = 1 << SUB_BITS;
const BLOCK: usize = 8;

/// Counts values in buckets at most 1/64 of their values wide: a percentile is at most 1/64 (1.6 %)
/// above the true one, never below. Values below 128, maximum, sum and count are exact. There are
/// at most 3,776 buckets, and only used ones take memory.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// The buckets' counts, in blocks of [`BLOCK`] neighbours: similar durations share cache lines.
    blocks: FxHashMap<u16, [u64; BLOCK]>,
    count: u64,
    sum: u64,
    max: u64,
}

fn bucket(value: u64) -> u16 {
    let octave = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS + 1);
    // Fits 16 bits: octave is at most 57, and the shifted value below 128.
    (u64::from(octave) * SUB + (value >> octave)) as u16
}

/// The largest value of a bucket.
fn top(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    let octave = (bucket / SUB).saturating_sub(1);
    let next = u128::from(bucket - octave * SUB + 1) << octave;
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        let bucket = usize::from(bucket(value));
        let block = self.blocks.entry((bucket / BLOCK) as u16).or_default();
        block[bucket % BLOCK] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (&block, counts) in &other.blocks {
            let sums = self.blocks.entry(block).or_default();
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(*count);
            }
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values, at most [`u64::MAX`].
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest value of each bucket that has any, with their number; in no order.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> {
        let blocks = self.blocks.iter();
        let counts = blocks.flat_map(|(&block, counts)| (block * BLOCK as u16..).zip(counts));
        let some = counts.filter(|(_, count)| **count > 0);
        some.map(|(bucket, count)| (top(bucket), *count))
    }

    /// The largest value; `None` if there is none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The percentile by nearest rank, at most 1/64 too large; `None` if there are no values.
    /// Percents above 100 count as 100.
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let rank = (u128::from(self.count) * u128::from(percent.min(100)))
            .div_ceil(100)
            .max(1);
        let mut blocks: Vec<_> = self.blocks.iter().collect();
        blocks.sort_unstable();
        let counts = blocks.into_iter().flat_map(|(&block, counts)| {
            let first = block * BLOCK as u16;
            (first..).zip(counts)
        });
        let mut seen = 0_u128;
        for (bucket, &count) in counts {
            seen += u128::from(count);
            if seen >= rank {
                return Some(top(bucket).min(self.max));
            }
        }
        None
    }

    /// Number of buckets that take memory.
    pub fn buckets(&self) -> usize {
        self.blocks.len() * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_at_most_a_64th_wide_and_adjoin() {
        for shift in 0..64 {
            for value in [
                1_u64 << shift,
                (1 << shift) + 1,
                (1 << shift) | ((1 << shift) - 1),
                (1 << shift) | (1 << shift >> 1),
            ] {
                let top_of = top(bucket(value));
                assert!(
                    top_of >= value && top_of - value <= value / 64,
                    "{value} {top_of}"
                );
                assert_eq!(bucket(top_of), bucket(value));
                if let Some(next) = top_of.checked_add(1) {
                    assert_eq!(bucket(next), bucket(value) + 1, "{value}");
                }
            }
        }
        assert_eq!(top(bucket(u64::MAX)), u64::MAX);
        assert!(usize::from(bucket(u64::MAX)) < 3776);
    }

    #[test]
    fn percentiles_follow_the_nearest_rank() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50), histogram.max()), (None, None));
        (1..=100).for_each(|value| histogram.add(value));
        assert_eq!(
            [50, 99, 100].map(|percent| histogram.percentile(percent)),
            [Some(50), Some(99), Some(100)]
        );
        histogram.add(1_000_000);
        assert_eq!(histogram.percentile(100), Some(1_000_000));
        assert_eq!(histogram.sum(), 5050 + 1_000_000);
    }

    #[test]
    fn merged_histograms_have_the_values_of_both() {
        let (mut low, mut high, mut all) = <(Histogram, Histogram, Histogram)>::default();
        for value in 0..1_000 {
            let part = if value < 700 { &mut low } else { &mut high };
            part.add(value * 1_000);
            all.add(value * 1_000);
        }
        low.merge(&high);
        let figures = |histogram: &Histogram| {
            let percentiles = [1, 50, 90, 99].map(|percent| histogram.percentile(percent));
            (
                percentiles,
                histogram.count(),
                histogram.sum(),
                histogram.max(),
            )
        };
        assert_eq!(figures(&low), figures(&all));
    }
}
