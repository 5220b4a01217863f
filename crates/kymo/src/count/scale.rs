//! What a counter would have shown, had it counted all the time.

/// `raw * time_enabled / time_running`, the estimate of what was counted while the group was
/// enabled, of which it was on the PMU for a part. As exact as 128 bits make it; the greatest
/// number where it would be greater. `None` if the group never ran: then nothing is known.
///
/// The times have any one unit. The formula is that of `perf_event_open(2)`; its premise is that
/// the work was steady.
pub const fn scale(raw: u64, time_enabled: u64, time_running: u64) -> Option<u64> {
    if time_running == 0 {
        return None;
    }
    if time_enabled == time_running {
        return Some(raw);
    }
    let scaled = raw as u128 * time_enabled as u128 / time_running as u128;
    match scaled > u64::MAX as u128 {
        true => Some(u64::MAX),
        false => Some(scaled as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K-11.
    #[test]
    fn a_count_is_scaled_by_the_share_of_time() {
        for (raw, enabled, running, scaled) in [
            (0, 0, 0, None),
            (7, 5, 0, None),
            (7, 5, 5, Some(7)),
            (7, 10, 5, Some(14)),
            (7, 3, 2, Some(10)),
            (0, 9, 1, Some(0)),
            // The product needs more than 64 bits.
            (1 << 40, 3 << 40, 1 << 40, Some(3 << 40)),
            (u64::MAX, u64::MAX, u64::MAX, Some(u64::MAX)),
            (u64::MAX, 2, 1, Some(u64::MAX)),
            (u64::MAX, u64::MAX, 1, Some(u64::MAX)),
        ] {
            assert_eq!(
                scale(raw, enabled, running),
                scaled,
                "{raw} {enabled} {running}"
            );
        }
    }
}
