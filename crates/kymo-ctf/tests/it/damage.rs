//! Input truncated anywhere and changed at random: no panic, no hang, and intact parts are read.

use std::sync::Arc;

use crate::writer::{Order, close, compact, event, extended, medium, open, preamble, read};
use kymo_ctf::{DecodeError, Error, Item, Metadata, StreamReader};

const FIELDS: &str = "uint8_t n; uint16_t list[n]; string s; enum : uint8_t { a, b, c } t;
    variant <t> { uint8_t a; string b; struct { uint8_t x; uint8_t y[x]; } c; } v; integer { size = 3; align = 1; } bits[5];";

fn metadata() -> String {
    preamble(Order::Le, 1000, 0, 0)
        + &event(1, "full", FIELDS)
        + &event(2, "none", "")
        + &event(500, "word", "uint32_t n;")
}

/// Three packets of seven records each, and the end of each record.
fn stream() -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for seq in 0..3 {
        let begin = seq * 1000;
        let mut packet = open(Order::Le, 0, begin, begin + 999, seq, seq, 0);
        for i in 0..7u64 {
            let time = begin + i;
            match i {
                0..4 => {
                    let bits = compact(&mut packet, 1, time).u8(i as u8).align(8);
                    for n in 0..i {
                        bits.align(8).put(16, n);
                    }
                    bits.text("kymo").u8(i as u8 % 3);
                    match i % 3 {
                        0 => bits.u8(1),
                        1 => bits.text("x"),
                        _ => bits.u8(2).u8(3).u8(4),
                    };
                    for n in 0..5 {
                        bits.put(3, n);
                    }
                }
                4 => {
                    medium(&mut packet, 500, time).u32(1);
                }
                5 => {
                    extended(&mut packet, 500, time).u32(1);
                }
                _ => {
                    compact(&mut packet, 2, time);
                }
            }
            ends.push(bytes.len() + packet.bytes.len());
        }
        bytes.extend(close(packet, seq * 3));
    }
    (bytes, ends)
}

#[test]
fn every_prefix_of_a_stream_gives_its_whole_records_and_one_error() {
    let (bytes, ends) = stream();
    let metadata = metadata();
    let (whole, error) = read(&metadata, &bytes);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(whole.len(), 23, "21 events and 2 losses");
    let events = |items: &[Item]| -> Vec<Item> {
        items
            .iter()
            .filter(|item| matches!(item, Item::Event(_)))
            .cloned()
            .collect()
    };
    let all = events(&whole);
    let packet_ends: Vec<usize> = {
        let mut at = 0;
        [0, 3, 6]
            .into_iter()
            .zip(ends.chunks(7))
            .map(|(padding, ends)| {
                at = ends[6] + padding;
                at
            })
            .collect()
    };
    for cut in 0..bytes.len() {
        let (items, error) = read(&metadata, &bytes[..cut]);
        let expected = ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(events(&items), all[..expected], "cut at {cut}");
        if cut == 0 || packet_ends.contains(&cut) {
            assert!(error.is_none(), "cut at {cut}: {error:?}");
            continue;
        }
        let Some(Error::Stream {
            packet,
            offset,
            reason,
            ..
        }) = error
        else {
            panic!("cut at {cut}: {error:?}")
        };
        let begin = packet_ends
            .iter()
            .rev()
            .find(|&&end| end <= cut)
            .copied()
            .unwrap_or(0);
        assert_eq!(
            reason,
            DecodeError::Truncated {
                available: (cut - begin) as u64
            },
            "cut at {cut}"
        );
        assert_eq!(
            packet,
            packet_ends.iter().filter(|&&end| end <= cut).count() as u64
        );
        assert!(offset <= cut as u64);
    }
}

/// Reproducible random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn change(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(4) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, bytes[self.below(bytes.len())]),
            }
        }
        bytes
    }
}

/// Reads to the end; returns the number of items.
fn drain(metadata: &Arc<Metadata>, stream: &[u8]) -> usize {
    let mut count = 0;
    for _ in StreamReader::new(Arc::clone(metadata), "s", stream) {
        count += 1;
        // Every record takes at least one bit and may have a problem; every packet takes at least a
        // byte and may have two losses and a few problems.
        assert!(count <= stream.len() * 24 + 8);
    }
    count
}

#[test]
fn changed_streams_never_panic() {
    let (bytes, _) = stream();
    let metadata = Arc::new(Metadata::parse(&metadata()).unwrap());
    let mut random = Random(0x1234_5678_9abc_def1);
    let read: usize = (0..20_000)
        .map(|_| drain(&metadata, &random.change(&bytes)))
        .sum();
    assert!(
        read > 20_000,
        "the changes must leave something to read: {read}"
    );
}

#[test]
fn every_prefix_of_the_metadata_is_refused_or_read() {
    let text = metadata();
    let (stream, _) = stream();
    let mut accepted = 0;
    for cut in 0..text.len() {
        match Metadata::parse(&text[..cut]) {
            Ok(metadata) => {
                accepted += 1;
                drain(&Arc::new(metadata), &stream);
            }
            Err(Error::Metadata(error)) => {
                let lines = text[..cut].split('\n').count();
                assert!((error.position.line as usize) <= lines, "{error}");
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(accepted > 0);
}

#[test]
fn changed_metadata_never_panics() {
    let text = metadata();
    let (stream, _) = stream();
    let mut random = Random(0xfeed_beef_cafe_f00d);
    let mut accepted = 0;
    for _ in 0..20_000 {
        if let Ok(metadata) = Metadata::from_bytes(&random.change(text.as_bytes())) {
            accepted += 1;
            drain(&Arc::new(metadata), &stream);
        }
    }
    assert!(
        accepted > 1_000,
        "the changes must leave something to accept: {accepted}"
    );
}
