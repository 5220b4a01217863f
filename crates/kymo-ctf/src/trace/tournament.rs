//! Which of several comes first, kept up to date with one comparison for every doubling of their
//! number.

/// A loser tree: every inner node keeps who lost there, so that a new time of the winner needs only
/// the way up.
///
/// Times are kept apart from everything else and compared as 64-bit numbers: this runs once for
/// every event of a trace.
#[derive(Debug)]
pub(crate) struct Tournament {
    times: Vec<u64>,
    /// Who comes first of those with the same time: their place, and behind all others who is
    /// [out](OUT).
    ranks: Vec<u32>,
    /// Places, by node; that of node 0 is the winner's.
    losers: Vec<u32>,
    /// How many are not out.
    alive: usize,
}

/// The rank of who takes no part any more, besides the place.
const OUT: u32 = 1 << 31;

impl Tournament {
    /// A tournament of these times; `None` is out from the beginning.
    pub(crate) fn new(times: &[Option<u64>]) -> Self {
        let leaves = times.len().next_power_of_two().max(1);
        let time = |place: usize| times.get(place).copied().flatten();
        let mut tournament = Tournament {
            times: (0..leaves)
                .map(|place| time(place).unwrap_or(u64::MAX))
                .collect(),
            ranks: (0..leaves)
                .map(|place| place as u32 | if time(place).is_none() { OUT } else { 0 })
                .collect(),
            losers: vec![0; leaves],
            alive: times.iter().flatten().count(),
        };
        let mut winners: Vec<u32> = vec![0; 2 * leaves];
        for node in (1..2 * leaves).rev() {
            let winner = match node.checked_sub(leaves) {
                Some(leaf) => leaf as u32,
                None => {
                    let child = |child: usize| winners.get(child).copied().unwrap_or(0);
                    let (left, right) = (child(2 * node), child(2 * node + 1));
                    let (winner, loser) = if tournament.is_before(right, left) {
                        (right, left)
                    } else {
                        (left, right)
                    };
                    if let Some(cell) = tournament.losers.get_mut(node) {
                        *cell = loser;
                    }
                    winner
                }
            };
            if let Some(cell) = winners.get_mut(node) {
                *cell = winner;
            }
        }
        if let (Some(first), Some(winner)) = (tournament.losers.first_mut(), winners.get(1)) {
            *first = *winner;
        }
        tournament
    }

    fn is_before(&self, one: u32, other: u32) -> bool {
        let key = |place: u32| {
            (
                self.times.get(place as usize),
                self.ranks.get(place as usize),
            )
        };
        key(one) < key(other)
    }

    /// The winner's place; `None` if all are out.
    #[inline(always)]
    pub(crate) fn winner(&self) -> Option<usize> {
        if self.alive == 0 {
            return None;
        }
        self.losers.first().map(|place| *place as usize)
    }

    /// Gives the winner a new time, or puts it out; gives the place of who wins then.
    #[inline(always)]
    pub(crate) fn replace_winner(&mut self, time: Option<u64>) -> Option<usize> {
        let mut winner = *self.losers.first()?;
        let place = winner as usize;
        let mut rank = winner;
        let mut winning = match time {
            Some(time) => time,
            None => {
                rank |= OUT;
                *self.ranks.get_mut(place)? = rank;
                self.alive -= 1;
                u64::MAX
            }
        };
        *self.times.get_mut(place)? = winning;
        let mut node = (place + self.losers.len()) / 2;
        while node > 0 {
            let loser = self.losers.get_mut(node)?;
            let challenger = *self.times.get(*loser as usize)?;
            if challenger <= winning {
                let challenging = *self.ranks.get(*loser as usize)?;
                if challenger < winning || challenging < rank {
                    std::mem::swap(loser, &mut winner);
                    (winning, rank) = (challenger, challenging);
                }
            }
            node /= 2;
        }
        *self.losers.first_mut()? = winner;
        (self.alive > 0).then_some(winner as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_everything_in_order_however_many_there_are() {
        for count in 0..20u64 {
            let sequence = |place: u64| {
                (0..place * 7 % 11).map(move |step| (step * step + place * 3) % 40 + step * 40)
            };
            let mut sources: Vec<_> = (0..count).map(sequence).collect();
            let firsts: Vec<_> = sources.iter_mut().map(Iterator::next).collect();
            let mut tournament = Tournament::new(&firsts);
            let mut seen = Vec::new();
            let mut next = tournament.winner();
            while let Some(place) = next {
                assert_eq!(tournament.winner(), Some(place));
                seen.push((tournament.times[place], place));
                next = tournament.replace_winner(sources[place].next());
            }
            let mut all: Vec<_> = (0..count)
                .flat_map(|place| sequence(place).map(move |time| (time, place as usize)))
                .collect();
            all.sort();
            assert_eq!(seen, all, "{count}");
        }
    }

    #[test]
    fn the_last_time_of_all_is_no_end() {
        let mut tournament = Tournament::new(&[None, Some(u64::MAX), Some(u64::MAX), None]);
        assert_eq!(tournament.winner(), Some(1));
        assert_eq!(tournament.replace_winner(Some(u64::MAX)), Some(1));
        assert_eq!(tournament.replace_winner(None), Some(2));
        assert_eq!(tournament.replace_winner(None), None);
        assert_eq!(tournament.winner(), None);
    }
}
