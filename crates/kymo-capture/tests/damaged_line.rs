//! Frames over a line that flips bits, loses bytes and inserts others: no damaged frame is ever
//! accepted, every undamaged one is accepted, and the losses are counted exactly.
//!
//! A frame is undamaged if its bytes stand in what arrived, one after the other. That counts
//! frames whose damage undid itself: a byte lost beside an equal one, for instance.
//!
//! `KYMO_LINE_FRAMES=N` sends another number of frames.

#![allow(clippy::unwrap_used)]

use kymo::wire::{self, HEADER_LEN, Kind, MAX_PAYLOAD};
use kymo_capture::frames::{Faults, FrameReader, Message};

/// A million in an optimised build; what takes a few seconds in others.
const FRAMES: u32 = if cfg!(debug_assertions) {
    100_000
} else {
    1_000_000
};
/// Frames sent again come at least this much later, when newer ones have arrived.
const LATER: u32 = 1000;
/// Frames to a piece of line that is damaged at once.
const BLOCK: u32 = 64;

/// xorshift64*: Marsaglia 2003, Vigna 2016.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }
}

/// The payload of a frame, which its number decides. Some begin as headers do, and some end in a
/// letter that headers begin with.
fn payload(number: u32) -> Vec<u8> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ u64::from(number) << 8);
    random.next();
    let len = match random.below(100) {
        0..10 => 0,
        10..95 => random.below(64),
        95..99 => random.below(2048),
        _ => random.below(8192),
    };
    let mut bytes: Vec<u8> = (0..len.div_ceil(8))
        .flat_map(|_| random.next().to_le_bytes())
        .take(len)
        .collect();
    match random.below(8) {
        0 if len >= 4 => bytes[..4].copy_from_slice(b"KYMF"),
        1 => bytes.extend(b"KYMK"),
        2 => bytes.extend(b"\0\0\0\0"),
        _ => {}
    }
    bytes
}

fn frame(number: u32) -> Vec<u8> {
    let payload = payload(number);
    let header = wire::header(Kind::Data, number % 7, number, &payload);
    [&header[..], &payload].concat()
}

/// What was done to the line.
#[derive(Debug, Default)]
struct Done {
    flipped: u64,
    lost: u64,
    inserted: u64,
    forged: u64,
    again: u64,
}

/// Damages `line` before `end` in a few places. Its frames begin with this number.
fn damage(line: &mut Vec<u8>, mut end: usize, number: u32, random: &mut Random, done: &mut Done) {
    for _ in 0..random.below(6) {
        let at = random.below(end);
        let before = line.len();
        match random.below(20) {
            0..8 => {
                // A burst of flipped bits, or one.
                for _ in 0..=random.below(4) {
                    let at = (at + random.below(5)).min(end - 1);
                    line[at] ^= 1 << random.below(8);
                }
                done.flipped += 1;
            }
            8..13 => {
                let len = match random.below(10) {
                    0 => random.below(3000),
                    _ => 1 + random.below(8),
                };
                line.drain(at..(at + len).min(end - 1).max(at));
                done.lost += 1;
            }
            13..17 => {
                let bytes: Vec<u8> = match random.below(4) {
                    // What stands there, once more.
                    0 => line[at..(at + 1 + random.below(4)).min(end)].to_vec(),
                    1 => b"KYMF"[..1 + random.below(4)].to_vec(),
                    _ => (0..=random.below(40))
                        .map(|_| random.next() as u8)
                        .collect(),
                };
                line.splice(at..at, bytes);
                done.inserted += 1;
            }
            17 | 18 => {
                // A header that is right, of a payload that does not come: it claims what follows.
                let claimed = match random.below(40) {
                    0 => MAX_PAYLOAD,
                    _ => 8 + random.below(4096),
                };
                let forged = number + random.below(1000) as u32;
                let header = wire::header(Kind::Data, 1, forged, &vec![0xa5; claimed]);
                line.splice(at..at, header);
                done.forged += 1;
            }
            _ if number >= LATER + BLOCK => {
                let old = number - LATER - random.below(BLOCK as usize) as u32;
                line.splice(at..at, frame(old));
                done.again += 1;
            }
            _ => {}
        }
        end = end + line.len() - before;
    }
}

/// Whether each frame from `from` on stands in `line`, and how many of older ones do.
///
/// Written without the reader's search: a frame is compared with the bytes wherever its magic is.
fn undamaged(line: &[u8], from: u32, sent: &[Vec<u8>]) -> (Vec<u32>, u64) {
    let (mut whole, mut older, mut at) = (Vec::new(), 0, 0);
    while let Some(rest) = line.get(at..).filter(|rest| rest.len() >= HEADER_LEN) {
        let number = u32::from_le_bytes(rest[12..16].try_into().unwrap());
        let index = number.wrapping_sub(from) as usize;
        let len = if !rest.starts_with(b"KYMF") {
            0
        } else if let Some(same) = sent.get(index).filter(|sent| rest.starts_with(sent)) {
            whole.push(number);
            same.len()
        } else if number < from {
            let same = frame(number);
            let again = rest.starts_with(&same);
            older += u64::from(again);
            same.len() * usize::from(again)
        } else {
            0
        };
        at += len.max(1);
    }
    (whole, older)
}

#[test]
fn a_line_that_damages_frames_costs_only_those() {
    let count = std::env::var("KYMO_LINE_FRAMES").map_or(FRAMES, |text| text.parse().unwrap());
    let mut random = Random(20_261_123);
    let mut done = Done::default();
    let mut reader = FrameReader::default();
    let mut expected = Vec::new();
    let (mut seen, mut gaps, mut again) = (0, 0, 0);
    for from in (0..count).step_by(BLOCK as usize) {
        let sent: Vec<Vec<u8>> = (from..count.min(from + BLOCK)).map(frame).collect();
        let mut line = sent.concat();
        // The last frame is left alone, so that no frame's bytes lie in two blocks.
        let end = line.len() - sent.last().unwrap().len();
        damage(&mut line, end, from, &mut random, &mut done);
        let (whole, older) = undamaged(&line, from, &sent);
        expected.extend(whole);
        again += older;
        let mut deliver = |message: Message<'_>| {
            match message {
                Message::Data { channel, bytes } => {
                    let number: u32 = expected[seen];
                    assert_eq!((channel, bytes), (number % 7, &payload(number)[..]));
                    seen += 1;
                }
                Message::Gap => gaps += 1,
                other => panic!("{other:?} was never sent"),
            }
            Ok::<(), ()>(())
        };
        let step = 1 + random.below(3000);
        for piece in line.chunks(step) {
            reader.take(piece, &mut deliver).unwrap();
        }
        if from + BLOCK >= count {
            reader.end(&mut deliver).unwrap();
        }
    }

    assert_eq!(seen, expected.len(), "{done:?}");
    let missing = u64::from(count) - expected.len() as u64;
    let Faults {
        damaged,
        damaged_bytes,
        missing: told,
        unexpected,
    } = reader.faults();
    assert_eq!((told, unexpected), (missing, again), "{done:?}");
    let jumps = expected.windows(2).filter(|pair| pair[1] != pair[0] + 1);
    let first = usize::from(expected.first() != Some(&0));
    assert_eq!(gaps, jumps.count() + first);
    // The line was as bad as it was to be.
    let blocks = u64::from(count / BLOCK);
    assert!(damaged > blocks && damaged_bytes > damaged);
    assert!(missing > blocks && again > blocks / 20, "{missing} {again}");
    assert!(done.flipped > blocks / 2 && done.lost > blocks / 4);
    assert!(done.inserted > blocks / 4 && done.forged > blocks / 10);
}
