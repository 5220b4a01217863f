//! Distinct call chains, found by their addresses.

use std::hash::Hasher as _;

use kymo_machine::CallChain;
use rustc_hash::FxHasher;

/// Most addresses of a chain's part.
const MOST: u64 = 0x7fff;

/// A chain's first word: where its addresses belong.
///
/// Bits 0 to 31 are the address space of the program's part. Of the kernel's part, bits 32 to 46
/// are the length and bit 47 says whether the first address is exact; of the program's part, bits
/// 48 to 62 and bit 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(u64);

/// One part of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) len: usize,
    pub(crate) first_is_exact: bool,
}

impl Header {
    #[inline]
    pub(crate) fn new(chain: &CallChain, space: u32) -> Header {
        let word = |len: usize, exact: bool| (len as u64).min(MOST) | u64::from(exact) << 15;
        let kernel = word(chain.kernel.len, chain.kernel.first_is_exact);
        let user = word(chain.user.len, chain.user.first_is_exact);
        Header(u64::from(space) | kernel << 32 | user << 48)
    }

    /// The address space of the program's part.
    pub(crate) fn space(self) -> u32 {
        self.0 as u32
    }

    fn part(word: u64) -> Part {
        Part {
            len: (word & MOST) as usize,
            first_is_exact: word & (MOST + 1) != 0,
        }
    }

    pub(crate) fn kernel(self) -> Part {
        Header::part(self.0 >> 32)
    }

    pub(crate) fn user(self) -> Part {
        Header::part(self.0 >> 48)
    }
}

/// All distinct chains, each once: its header and its addresses, the innermost first.
#[derive(Debug, Default)]
pub(crate) struct ChainTable {
    words: Vec<u64>,
    /// End of each chain in `words`; the next begins there.
    ends: Vec<usize>,
    /// A hash table with open addressing, at most half full.
    slots: Vec<Slot>,
}

/// A place of the hash table. It says where the chain is, so that finding one looks at two places
/// of memory: here, and at its words.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of the chain plus one, or 0 where nothing is.
    number: u32,
    /// The lower half of its hash.
    hash: u32,
    /// Index of its first word.
    begin: usize,
}

impl ChainTable {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Header and addresses of a chain.
    #[inline]
    pub(crate) fn get(&self, chain: u32) -> Option<(Header, &[u64])> {
        let place = chain as usize;
        let begin = match place.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        let words = self.words.get(begin..*self.ends.get(place)?)?;
        let (header, addresses) = words.split_first()?;
        Some((Header(*header), addresses))
    }

    /// Number of the chain, which is added if it is new.
    #[inline]
    pub(crate) fn intern(&mut self, header: Header, addresses: &[u64]) -> u32 {
        if self.slots.len() < 2 * (self.ends.len() + 1) {
            self.grow();
        }
        let hash = hash(header, addresses);
        let mask = self.slots.len() - 1;
        // The upper half selects the slot, the lower half is compared.
        let mut at = (hash >> 32) as usize & mask;
        loop {
            match self.slots.get_mut(at) {
                Some(slot) if slot.number == 0 => {
                    let chain = self.ends.len() as u32;
                    *slot = Slot {
                        number: chain + 1,
                        hash: hash as u32,
                        begin: self.words.len(),
                    };
                    self.words.push(header.0);
                    self.words.extend_from_slice(addresses);
                    self.ends.push(self.words.len());
                    return chain;
                }
                Some(slot) => {
                    let (number, begin) = (slot.number, slot.begin);
                    if slot.hash == hash as u32 && self.is_at(begin, header, addresses) {
                        return number - 1;
                    }
                }
                None => return 0,
            }
            at = (at + 1) & mask;
        }
    }

    /// Whether the chain that begins there is this one: equal headers have equal lengths.
    #[inline]
    fn is_at(&self, begin: usize, header: Header, addresses: &[u64]) -> bool {
        let words = self.words.get(begin..begin + 1 + addresses.len());
        words.and_then(<[u64]>::split_first) == Some((&header.0, addresses))
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1 << 10);
        self.slots = vec![Slot::default(); size];
        let mut begin = 0;
        for chain in 0..self.ends.len() as u32 {
            let Some((header, addresses)) = self.get(chain) else {
                continue;
            };
            let end = begin + 1 + addresses.len();
            let hash = hash(header, addresses);
            let mut at = (hash >> 32) as usize & (size - 1);
            while let Some(slot) = self.slots.get_mut(at) {
                if slot.number == 0 {
                    *slot = Slot {
                        number: chain + 1,
                        hash: hash as u32,
                        begin,
                    };
                    break;
                }
                at = (at + 1) & (size - 1);
            }
            begin = end;
        }
    }
}

fn hash(header: Header, addresses: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(header.0);
    for address in addresses {
        hasher.write_u64(*address);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_found_by_header_and_addresses() {
        let mut table = ChainTable::default();
        // The chains of a header have a length of their own.
        let chain = |number: u64| [number, number * 3, 7];
        for round in 0..2 {
            for number in 0..5_000 {
                let header = Header(number % 3);
                let id = table.intern(header, &chain(number));
                assert_eq!(u64::from(id), number, "round {round}");
                assert_eq!(table.get(id), Some((header, &chain(number)[..])));
            }
        }
        assert_eq!(table.intern(Header(9), &chain(0)), 5_000);
        assert_eq!(table.intern(Header(10), &[]), 5_001);
        assert_eq!(table.len(), 5_002);
    }
}
