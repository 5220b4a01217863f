//! What a read of a group gives.

use kymo::count::MAX_EVENTS;

/// Bytes of the largest group's counts.
pub(crate) const MAX_BYTES: usize = 8 * (3 + 2 * MAX_EVENTS);

/// Counts of a group, as the kernel wrote them: with the format `GROUP | ID | TOTAL_TIME_ENABLED |
/// TOTAL_TIME_RUNNING` of `perf_event_open(2)`, the number of events, both times, and a pair of
/// count and id for each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    /// Nanoseconds during which the group was enabled.
    pub time_enabled: u64,
    /// Nanoseconds of these during which it counted.
    pub time_running: u64,
    /// Count and id of each event.
    pairs: [(u64, u64); MAX_EVENTS],
    len: usize,
}

impl Values {
    /// `None` if the bytes are not a whole group of at most [`MAX_EVENTS`] events.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Values> {
        let (words, []) = bytes.as_chunks::<8>() else {
            return None;
        };
        let (&[len, time_enabled, time_running], values) = words.split_first_chunk::<3>()?;
        let len = usize::try_from(u64::from_ne_bytes(len)).ok()?;
        let (counts, []) = values.as_chunks::<2>() else {
            return None;
        };
        if counts.len() != len || len > MAX_EVENTS {
            return None;
        }
        let mut pairs = [(0, 0); MAX_EVENTS];
        for (pair, &[count, id]) in pairs.iter_mut().zip(counts) {
            *pair = (u64::from_ne_bytes(count), u64::from_ne_bytes(id));
        }
        Some(Values {
            time_enabled: u64::from_ne_bytes(time_enabled),
            time_running: u64::from_ne_bytes(time_running),
            pairs,
            len,
        })
    }

    /// How many events the group has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The count of the event with this id, wherever it is.
    pub(crate) fn of(&self, id: u64) -> Option<u64> {
        let pairs = self.pairs.get(..self.len)?;
        let (count, _) = pairs.iter().find(|(_, of)| *of == id)?;
        Some(*count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// K-12, K-13.
    #[test]
    fn counts_are_found_by_id_and_not_by_position() {
        let values = Values::parse(&bytes(&[3, 20, 10, 111, 7, 333, 9, 222, 8]));
        let values = values.expect("a group of three");
        assert_eq!((values.time_enabled, values.time_running), (20, 10));
        let counts = [7, 8, 9, 10, 0].map(|id| values.of(id));
        assert_eq!(counts, [Some(111), Some(222), Some(333), None, None]);
    }

    #[test]
    fn what_is_not_a_whole_group_is_refused() {
        let largest: Vec<u64> = [16, 1, 1].into_iter().chain(0..32).collect();
        assert!(Values::parse(&bytes(&largest)).is_some());
        assert_eq!(bytes(&largest).len(), MAX_BYTES);
        let larger: Vec<u64> = [17, 1, 1].into_iter().chain(0..34).collect();
        for words in [
            &[][..],
            &[0],
            &[1, 1, 1],
            &[1, 1, 1, 5],
            &[0, 1, 1, 5, 6],
            &[2, 1, 1, 5, 6],
            &larger,
        ] {
            assert_eq!(Values::parse(&bytes(words)), None, "{words:?}");
        }
        let mut cut = bytes(&[1, 1, 1, 5, 6]);
        assert!(Values::parse(&cut).is_some());
        cut.pop();
        assert_eq!(Values::parse(&cut), None);
    }
}
