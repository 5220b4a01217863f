//! How a recorder's channels travel over a line that carries bytes: a virtio or serial port, or a
//! socket.
//!
//! A frame is a header of 24 bytes and its payload; numbers are little-endian:
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | [`MAGIC`] |
//! | 4, 5 | the [`Kind`]; [`VERSION`] |
//! | 6..8 | the header's check: CRC-32 of bytes 0..20 with zeros here, its halves joined by XOR |
//! | 8..12 | the channel, for `Data`; else 0 |
//! | 12..16 | the number of the frame: 0 for the first, one more for each, by direction |
//! | 16..20 | bytes of payload, at most [`MAX_PAYLOAD`] |
//! | 20..24 | CRC-32 (IEEE 802.3) of bytes 0..20 and the payload |
//!
//! The sender sends `Open`, then what it reads of its channels as `Data`, then `Close`. The
//! receiver may ask it to `Stop`. A receiver that finds no frame where one should begin skips to
//! the next; the numbers tell it how many it has missed.
//!
//! The header's own check is there for slow lines: a damaged length is noticed when the header has
//! arrived, not when a mebibyte has arrived that is no payload. It is too short to be trusted with
//! more: only the checksum at the end decides whether a frame is whole. A header that lines up by
//! accident with what follows costs time, but no frame: after a wrong checksum the search goes on
//! one byte further, inside what was taken for payload.

use crate::channel::ChannelSet;
use crate::recorder::{Diagnostics, flags};
use crate::ring::layout::Crc32;

/// How a frame begins: `KYMF`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"KYMF");
/// The version of this format.
pub const VERSION: u8 = 2;
/// Bytes before the payload.
pub const HEADER_LEN: usize = 24;
/// Bytes of payload at most: a frame that claims more is damaged.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A session was opened; the payload is [`Open`].
    Open = 1,
    /// The next bytes of a channel. Everything of one channel, in order, is a file of the trace.
    Data = 2,
    /// Nothing more follows; the payload is that of [`close`].
    Close = 3,
    /// From the receiver to the sender: stop, send what is left, and close. No payload.
    Stop = 4,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Open, Kind::Data, Kind::Close, Kind::Stop];
}

/// The payload of `Open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Channels, including the metadata: numbered as in [`ChannelSet`].
    pub channels: u32,
    /// The [`crate::flags`] in effect.
    pub flags: u32,
}

impl Open {
    /// The channels, by number.
    pub const fn channel_set(&self) -> ChannelSet {
        ChannelSet::of_len(self.channels, self.flags & flags::SAMPLES != 0)
    }

    /// The bytes of the payload.
    pub fn to_bytes(self) -> [u8; 8] {
        join([self.channels.to_le_bytes(), self.flags.to_le_bytes()])
    }

    /// Reads a payload; `None` if it is too short.
    pub fn from_bytes(payload: &[u8]) -> Option<Open> {
        Some(Open {
            channels: word(payload, 0)?,
            flags: word(payload, 4)?,
        })
    }
}

/// The payload of `Close`: six numbers of 64 bits, in the order of [`Diagnostics`].
pub fn close(diagnostics: &Diagnostics) -> [u8; 48] {
    let Diagnostics {
        discarded,
        too_large,
        overwritten,
        clock_back,
        abandoned,
        without_ring,
    } = *diagnostics;
    let numbers = [
        discarded,
        too_large,
        overwritten,
        clock_back,
        abandoned,
        without_ring,
    ];
    join(numbers.map(u64::to_le_bytes))
}

/// Reads the payload of `Close`; `None` if it is too short. Older senders have five numbers.
pub fn diagnostics(payload: &[u8]) -> Option<Diagnostics> {
    let number = |index: usize| {
        Some(u64::from_le_bytes(
            *payload.get(8 * index..)?.first_chunk()?,
        ))
    };
    Some(Diagnostics {
        discarded: number(0)?,
        too_large: number(1)?,
        overwritten: number(2)?,
        clock_back: number(3)?,
        abandoned: number(4)?,
        without_ring: number(5).unwrap_or(0),
    })
}

/// The header of a frame with this payload, of at most [`MAX_PAYLOAD`] bytes.
pub fn header(kind: Kind, channel: u32, number: u32, payload: &[u8]) -> [u8; HEADER_LEN] {
    let kind = kind as u32 | u32::from(VERSION) << 8;
    let mut words: [u8; HEADER_LEN - 4] =
        join([MAGIC, kind, channel, number, payload.len() as u32].map(u32::to_le_bytes));
    let check = header_check(&words);
    words[CHECK].copy_from_slice(&check);
    let mut header = [0; HEADER_LEN];
    header[..HEADER_LEN - 4].copy_from_slice(&words);
    header[HEADER_LEN - 4..].copy_from_slice(&checksum(&words, payload).to_le_bytes());
    header
}

/// A frame that arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it is.
    pub kind: Kind,
    /// The channel, for `Data`.
    pub channel: u32,
    /// The frame's number.
    pub number: u32,
    /// The payload.
    pub payload: &'a [u8],
}

impl Frame<'_> {
    /// Bytes of the frame, including its header.
    pub fn size(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }
}

/// What stands at the front of what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// Perhaps the beginning of a frame: this many bytes have to be there.
    Need(usize),
    /// This many bytes, at least 1, in which no frame of this version begins.
    Damage(usize),
}

/// Looks for a frame at the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Arrived<'_> {
    match frame(bytes) {
        Ok(found) => found,
        // The next place where a frame may begin.
        Err(Damaged) => {
            let magic = MAGIC.to_le_bytes();
            let begins = |at: &usize| {
                bytes
                    .get(*at..)
                    .is_some_and(|rest| magic.starts_with(rest.get(..4).unwrap_or(rest)))
            };
            Arrived::Damage((1..bytes.len()).find(begins).unwrap_or(bytes.len()))
        }
    }
}

struct Damaged;

fn frame(bytes: &[u8]) -> Result<Arrived<'_>, Damaged> {
    let magic = MAGIC.to_le_bytes();
    if !bytes.starts_with(magic.get(..bytes.len()).unwrap_or(&magic)) {
        return Err(Damaged);
    }
    let Some((header, rest)) = bytes.split_at_checked(HEADER_LEN) else {
        return Ok(Arrived::Need(HEADER_LEN));
    };
    let (words, sum) = header.split_at(HEADER_LEN - 4);
    let field = |at: usize| word(header, at).ok_or(Damaged);
    let ([kind, version, check @ ..], len) = (field(4)?.to_le_bytes(), field(16)? as usize);
    let kind = Kind::ALL
        .into_iter()
        .find(|known| *known as u8 == kind && version == VERSION)
        .ok_or(Damaged)?;
    if len > MAX_PAYLOAD || check != header_check(words) {
        return Err(Damaged);
    }
    let Some(payload) = rest.get(..len) else {
        return Ok(Arrived::Need(HEADER_LEN + len));
    };
    if checksum(words, payload).to_le_bytes() != *sum {
        return Err(Damaged);
    }
    Ok(Arrived::Frame(Frame {
        kind,
        channel: field(8)?,
        number: field(12)?,
        payload,
    }))
}

/// The place of the header's check.
const CHECK: core::ops::Range<usize> = 6..8;

/// The check of a header: of all bytes of `words` but its own.
fn header_check(words: &[u8]) -> [u8; 2] {
    let mut crc = Crc32::new();
    crc.update(words.get(..CHECK.start).unwrap_or_default());
    crc.update(&[0; 2]);
    crc.update(words.get(CHECK.end..).unwrap_or_default());
    let sum = crc.finish();
    ((sum ^ sum >> 16) as u16).to_le_bytes()
}

fn checksum(words: &[u8], payload: &[u8]) -> u32 {
    let mut crc = Crc32::new();
    crc.update(words);
    crc.update(payload);
    crc.finish()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn join<const WIDTH: usize, const COUNT: usize, const TOTAL: usize>(
    parts: [[u8; WIDTH]; COUNT],
) -> [u8; TOTAL] {
    const { assert!(WIDTH * COUNT == TOTAL) };
    let mut all = [0; TOTAL];
    for (place, byte) in all.iter_mut().zip(parts.as_flattened()) {
        *place = *byte;
    }
    all
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn sent(kind: Kind, channel: u32, number: u32, payload: &[u8]) -> Vec<u8> {
        [&header(kind, channel, number, payload)[..], payload].concat()
    }

    #[test]
    fn what_is_sent_arrives() {
        let open = Open {
            channels: 9,
            flags: crate::flags::ROLLING,
        };
        let totals = Diagnostics {
            discarded: 1,
            too_large: 2,
            overwritten: u64::MAX,
            clock_back: 4,
            abandoned: 5,
            without_ring: 6,
        };
        let line = [
            sent(Kind::Open, 0, 0, &open.to_bytes()),
            sent(Kind::Data, 70_000, 1, b"packet"),
            sent(Kind::Data, 0, 2, b""),
            sent(Kind::Close, 0, 3, &close(&totals)),
            sent(Kind::Stop, 0, 0, b""),
        ]
        .concat();
        let mut rest = &line[..];
        let mut next = || match parse(rest) {
            Arrived::Frame(frame) => {
                rest = &rest[frame.size()..];
                frame
            }
            other => panic!("{other:?}"),
        };
        let first = next();
        assert_eq!(open.channel_set().len(), 9);
        assert_eq!(
            (first.kind, first.number, Open::from_bytes(first.payload)),
            (Kind::Open, 0, Some(open))
        );
        assert_eq!(
            next(),
            Frame {
                kind: Kind::Data,
                channel: 70_000,
                number: 1,
                payload: b"packet"
            }
        );
        assert_eq!(
            next(),
            Frame {
                kind: Kind::Data,
                channel: 0,
                number: 2,
                payload: b""
            }
        );
        assert_eq!(diagnostics(next().payload), Some(totals));
        assert_eq!(
            next(),
            Frame {
                kind: Kind::Stop,
                channel: 0,
                number: 0,
                payload: b""
            }
        );
        assert!(rest.is_empty());
    }

    #[test]
    fn a_frame_that_is_not_whole_says_how_much_it_needs() {
        let line = sent(Kind::Data, 1, 0, b"twelve bytes");
        for len in 0..HEADER_LEN {
            assert_eq!(parse(&line[..len]), Arrived::Need(HEADER_LEN), "{len}");
        }
        for len in HEADER_LEN..line.len() {
            assert_eq!(parse(&line[..len]), Arrived::Need(line.len()), "{len}");
        }
    }

    #[test]
    fn any_flipped_bit_is_noticed_and_the_next_frame_is_found() {
        let (first, second) = (
            sent(Kind::Data, 1, 7, b"one"),
            sent(Kind::Data, 2, 8, b"two"),
        );
        let expected = Frame {
            kind: Kind::Data,
            channel: 2,
            number: 8,
            payload: b"two",
        };
        for bit in 0..8 * first.len() {
            let mut line = [&first[..], &second[..]].concat();
            line[bit / 8] ^= 1 << (bit % 8);
            let mut rest = &line[..];
            let found = loop {
                match parse(rest) {
                    Arrived::Frame(frame) => break frame,
                    Arrived::Damage(skip) => rest = &rest[skip..],
                    Arrived::Need(need) => panic!("bit {bit}: {need}"),
                }
            };
            assert_eq!(found, expected, "bit {bit}");
        }
    }

    #[test]
    fn a_damaged_header_is_noticed_when_it_has_arrived() {
        let header = header(Kind::Data, 3, 4, &[0x55; 100]);
        assert_eq!(parse(&header), Arrived::Need(HEADER_LEN + 100));
        let bits = 8 * (HEADER_LEN - 4);
        for first in 0..bits {
            // Both draws hit the same bit: flip that bit alone.
            for second in first..bits {
                let mut damaged = header;
                damaged[first / 8] ^= 1 << (first % 8);
                if second != first {
                    damaged[second / 8] ^= 1 << (second % 8);
                }
                assert!(
                    matches!(parse(&damaged), Arrived::Damage(_)),
                    "bits {first} and {second}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_passed_over() {
        assert_eq!(parse(b"console text"), Arrived::Damage(12));
        assert_eq!(parse(b"textKY"), Arrived::Damage(4));
        assert_eq!(parse(b"KYMEKYMF"), Arrived::Damage(4));
        let mut large = header(Kind::Data, 0, 0, b"");
        large[16..20].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
        let check = header_check(&large[..20]);
        large[CHECK].copy_from_slice(&check);
        assert_eq!(parse(&large), Arrived::Damage(HEADER_LEN));
        for (at, value) in [(4, 5), (4, 0), (5, 1)] {
            let mut other = header(Kind::Data, 0, 0, b"");
            other[at] = value;
            let check = header_check(&other[..20]);
            other[CHECK].copy_from_slice(&check);
            assert_eq!(parse(&other), Arrived::Damage(HEADER_LEN), "{at}: {value}");
        }
    }

    #[test]
    fn the_format_is_what_it_was() {
        let expected = [
            75, 89, 77, 70, 2, 2, CHECKED[0], CHECKED[1], 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0,
        ];
        let header = header(Kind::Data, 3, 4, b"x");
        assert_eq!(header[..20], expected);
        // CRC-32 of those 20 bytes and "x", by another program.
        assert_eq!(header[20..], SUM.to_le_bytes());
    }
    const CHECKED: [u8; 2] = [186, 247];
    const SUM: u32 = 0x31a3_d719;
}
