//! Mutation of inputs.

use crate::counters;
use crate::targets::Target;

/// xorshift64*.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From 0 to `end`, exclusive; 0 if that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

/// Limit on the length of inputs: longer ones only cost time.
const MAX_LENGTH: usize = 16 << 10;
/// Boundary values.
const NUMBERS: [u64; 16] = [
    0,
    1,
    7,
    8,
    31,
    32,
    63,
    64,
    65,
    127,
    128,
    255,
    0xffff,
    0x7fff_ffff,
    u32::MAX as u64,
    u64::MAX,
];

/// Mutates `base`, possibly with parts of `other`.
pub(crate) fn input(base: &[u8], other: &[u8], target: Target, random: &mut Random) -> Vec<u8> {
    let (fixed, mut bytes) = target.split(base, random.below(8) == 0);
    let (_, other) = target.split(other, false);
    for _ in 0..1 + random.below(5) {
        once(&mut bytes, &other, target, random);
    }
    bytes.truncate(MAX_LENGTH);
    [fixed, bytes].concat()
}

fn once(bytes: &mut Vec<u8>, other: &[u8], target: Target, random: &mut Random) {
    if target.is_memory() {
        return in_place(bytes, other, random);
    }
    let at = random.below(bytes.len() + 1);
    let left = bytes.len() - at;
    match random.below(11) {
        0 if left > 0 => bytes[at] ^= 1 << random.below(8),
        1 if left > 0 => bytes[at] = random.next() as u8,
        2 if left > 0 => {
            bytes[at] = bytes[at].wrapping_add((random.below(35) as u8).wrapping_sub(17))
        }
        3 if left > 0 => {
            bytes.drain(at..at + 1 + random.below(left.min(32)));
        }
        4 => insert(bytes, at, &[random.next() as u8]),
        // Repeat a piece of the input.
        5 if left > 0 => {
            let piece = bytes[at..at + 1 + random.below(left.min(64))].to_vec();
            let to = random.below(bytes.len() + 1);
            insert(bytes, to, &piece);
        }
        // A piece of another input.
        6 if !other.is_empty() => {
            let from = random.below(other.len());
            let piece = &other[from..from + 1 + random.below((other.len() - from).min(128))];
            match random.below(2) {
                0 => insert(bytes, at, piece),
                _ => overwrite(bytes, at, piece),
            }
        }
        // A word of the language.
        7 | 8 => match target.words() {
            [] => number(bytes, at, random),
            words => insert(bytes, at, words[random.below(words.len())].as_bytes()),
        },
        9 => number(bytes, at, random),
        _ => compared(bytes, random),
    }
}

/// Damages memory: bits, bytes, aligned words, pieces of another memory at the same place.
fn in_place(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = match random.below(2) {
        0 => random.below(bytes.len()),
        _ => crate::region::control_word(random),
    };
    let Some(byte) = bytes.get_mut(at) else {
        return;
    };
    match random.below(8) {
        0 => *byte ^= 1 << random.below(8),
        1 => *byte = random.next() as u8,
        2 | 3 => {
            let number = match random.below(2) {
                0 => NUMBERS[random.below(NUMBERS.len())],
                _ => u64::MAX - random.below(8) as u64,
            };
            let size = 4 << random.below(2);
            overwrite(
                &mut bytes[at & !(size - 1)..],
                0,
                &number.to_le_bytes()[..size],
            );
        }
        4 => {
            let end = at + 1 + random.below(512);
            if let Some(piece) = other.get(at..end.min(other.len())) {
                overwrite(bytes, at, piece);
            }
        }
        5 => {
            let end = bytes.len().min(at + 1 + random.below(512));
            bytes[at..end].fill(0);
        }
        6 if random.below(16) == 0 => bytes.truncate(at),
        _ => compared(bytes, random),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

fn overwrite(bytes: &mut [u8], at: usize, piece: &[u8]) {
    for (to, from) in bytes[at..].iter_mut().zip(piece) {
        *to = *from;
    }
}

fn number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let number = NUMBERS[random.below(NUMBERS.len())];
    let size = 1 << random.below(4);
    match random.below(2) {
        0 => overwrite(bytes, at, &number.to_le_bytes()[..size]),
        _ => overwrite(bytes, at, &number.to_be_bytes()[8 - size..]),
    }
}

/// Replaces one operand of a comparison in the input by the other.
fn compared(bytes: &mut [u8], random: &mut Random) {
    let Some((a, b)) = counters::compared(random.below(64)) else {
        return;
    };
    let (from, to) = if random.below(2) == 0 { (a, b) } else { (b, a) };
    let size = if from > u64::from(u32::MAX) {
        8
    } else if from > 0xffff {
        4
    } else {
        2
    };
    for (old, new) in [
        (
            from.to_le_bytes()[..size].to_vec(),
            to.to_le_bytes()[..size].to_vec(),
        ),
        (
            from.to_be_bytes()[8 - size..].to_vec(),
            to.to_be_bytes()[8 - size..].to_vec(),
        ),
    ] {
        let places: Vec<usize> = bytes
            .windows(size)
            .enumerate()
            .filter(|(_, have)| *have == old)
            .map(|(at, _)| at)
            .collect();
        if !places.is_empty() {
            let at = places[random.below(places.len())];
            overwrite(bytes, at, &new);
            return;
        }
    }
}
