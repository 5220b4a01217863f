//! Damage in the middle of a stream: the parts before and after it are read, and errors are
//! reported.

use std::sync::Arc;

use crate::writer::{Order, close, compact, event, open, preamble};
use kymo_ctf::{DecodeError, Error, Item, Metadata, StreamReader};

fn metadata() -> String {
    preamble(Order::Le, 1000, 0, 0)
        + &event(1, "n", "uint32_t n;")
        + &event(2, "blob", "uint8_t len; uint8_t bytes[len];")
}

/// A packet with the events `first .. first + 4`.
fn packet(first: u32) -> Vec<u8> {
    let mut packet = open(
        Order::Le,
        0,
        first.into(),
        u64::from(first) + 9,
        u64::from(first) / 10,
        0,
        0,
    );
    for n in first..first + 4 {
        compact(&mut packet, 1, n.into()).u32(n);
    }
    close(packet, 8)
}

fn four() -> [Vec<u8>; 4] {
    [0, 10, 20, 30].map(packet)
}

/// Errors, with the offset at which reading resumes.
type Errors = Vec<(u64, DecodeError, Option<u64>)>;

fn read(stream: &[u8]) -> (Vec<u64>, Errors) {
    let (mut numbers, mut errors) = (Vec::new(), Vec::new());
    for item in StreamReader::new(Arc::new(Metadata::parse(&metadata()).unwrap()), "s", stream) {
        match item {
            Ok(Item::Event(event)) => {
                numbers.extend(event.fields.get("n").and_then(kymo_ctf::Value::as_u64))
            }
            Ok(Item::Problem(problem)) => errors.push((problem.offset, problem.reason, None)),
            Ok(_) => {}
            Err(Error::Stream {
                offset,
                reason,
                resumes,
                ..
            }) => errors.push((offset, reason, resumes)),
            Err(other) => panic!("{other}"),
        }
    }
    (numbers, errors)
}

/// Size in bytes of a packet, and of its header and context.
const SIZE: usize = 124;
const HEADER: usize = 84;

fn numbers(firsts: &[(u64, u64)]) -> Vec<u64> {
    firsts
        .iter()
        .flat_map(|&(first, count)| first..first + count)
        .collect()
}

#[test]
fn an_unknown_event_costs_the_rest_of_its_packet() {
    let mut packets = four();
    assert_eq!(packets[1].len(), SIZE);
    packets[1][HEADER + 8] = 9;
    let (seen, errors) = read(&packets.concat());
    assert_eq!(seen, numbers(&[(0, 4), (10, 1), (20, 4), (30, 4)]));
    let resumes = Some(2 * SIZE as u64);
    assert_eq!(
        errors,
        [(
            (SIZE + HEADER + 12) as u64,
            DecodeError::UnknownEvent { id: 9, stream: 0 },
            resumes
        )]
    );
}

#[test]
fn a_foreign_uuid_is_told_once_and_costs_nothing() {
    let mut packets = four();
    (packets[1][5], packets[2][5]) = (0, 0);
    let (seen, errors) = read(&packets.concat());
    assert_eq!(seen, numbers(&[(0, 4), (10, 4), (20, 4), (30, 4)]));
    let [(offset, reason, _)] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert_eq!(
        (*offset, reason),
        (SIZE as u64 + 4, &DecodeError::UuidMismatch)
    );
}

#[test]
fn a_header_that_makes_no_sense_costs_its_packet() {
    for (at, byte) in [(0, 0), (20, 7), (24, 7), (49, 0), (56, 1)] {
        let mut packets = four();
        packets[2][at] = byte;
        let (seen, errors) = read(&packets.concat());
        assert_eq!(seen, numbers(&[(0, 4), (10, 4), (30, 4)]), "{at}");
        assert_eq!(errors.len(), 1, "{at}: {errors:?}");
        assert_eq!(errors[0].2, Some(3 * SIZE as u64), "{at}");
    }
}

#[test]
fn bytes_between_packets_are_stepped_over() {
    let packets = four();
    let junk = [1, 2, 3, 0xc1, 0x1f, 0xfc, 0xc1, 9, 9];
    let (seen, errors) = read(&[&packets[0][..], &junk, &packets[1], &packets[2][..50]].concat());
    assert_eq!(seen, numbers(&[(0, 4), (10, 4)]));
    let at = |error: &(u64, DecodeError, Option<u64>)| (error.0, error.2);
    assert_eq!(
        errors.iter().map(at).collect::<Vec<_>>(),
        [
            (SIZE as u64, Some(SIZE as u64 + 9)),
            (2 * SIZE as u64 + 9 + 48, None)
        ]
    );
}

/// Missing bytes shift everything after them.
#[test]
fn a_packet_that_is_too_short_is_left_where_the_next_one_begins() {
    let mut packets = four();
    packets[1].drain(100..103);
    let (seen, errors) = read(&packets.concat());
    assert_eq!(seen, numbers(&[(0, 4), (10, 2), (20, 4), (30, 4)]));
    assert_eq!(
        errors.last().unwrap().2,
        Some(2 * SIZE as u64 - 3),
        "{errors:?}"
    );
}

/// An event contains a whole packet as data, which is never mistaken for a packet: neither if the
/// surrounding packet is valid, nor if that is damaged before it, as its end is known.
#[test]
fn a_magic_number_in_a_field_fools_nobody() {
    let inner = packet(70);
    let mut outer = open(Order::Le, 0, 10, 19, 1, 0, 0);
    compact(&mut outer, 1, 11).u32(11);
    let blob = compact(&mut outer, 2, 12).u8(inner.len() as u8);
    inner.iter().for_each(|&byte| {
        blob.u8(byte);
    });
    compact(blob, 1, 13).u32(13);
    let outer = close(outer, 0);
    let whole = [packet(0), outer.clone(), packet(20)].concat();
    assert_eq!(
        read(&whole),
        (numbers(&[(0, 4), (11, 1), (13, 1), (20, 4)]), vec![])
    );
    let mut damaged = outer;
    damaged[HEADER] = 30 << 3 | 3;
    let (seen, errors) = read(&[packet(0), damaged, packet(20)].concat());
    assert_eq!(seen, numbers(&[(0, 4), (20, 4)]));
    assert_eq!(errors.len(), 1);
}

#[test]
fn packets_that_were_never_closed_are_read_to_where_nothing_was_written() {
    let unclosed = |first: u32, behind: usize| {
        let mut packet = packet(first);
        packet[48..64].fill(0);
        packet.truncate(SIZE - 8);
        packet.resize(SIZE + behind, 0);
        packet
    };
    for (stream, wanted) in [
        (unclosed(0, 500), numbers(&[(0, 4)])),
        // Longer than the buffer of the file reader.
        (unclosed(0, 300_000), numbers(&[(0, 4)])),
        (
            [packet(0), unclosed(10, 3000)].concat(),
            numbers(&[(0, 4), (10, 4)]),
        ),
        (
            [unclosed(0, 20), packet(10), unclosed(20, 0), packet(30)].concat(),
            numbers(&[(0, 4), (10, 4), (20, 4), (30, 4)]),
        ),
    ] {
        let (seen, errors) = read(&stream);
        assert_eq!(seen, wanted, "{errors:?}");
        assert!(
            errors
                .iter()
                .all(|(_, reason, _)| *reason == DecodeError::NeverClosed),
            "{errors:?}"
        );
    }
}

#[test]
fn strict_reading_ends_at_the_first_problem() {
    let mut packets = four();
    packets[1][HEADER + 8] = 9;
    let metadata = Arc::new(Metadata::parse(&metadata()).unwrap());
    let items: Vec<_> = StreamReader::new(metadata, "s", &packets.concat()[..])
        .strict(true)
        .collect();
    assert_eq!(items.len(), 6);
    assert!(matches!(
        items.last(),
        Some(Err(Error::Stream {
            packet: 1,
            resumes: None,
            ..
        }))
    ));
}

/// The slice reader and the file reader give the same items for any damage.
#[test]
fn both_readers_give_the_same() {
    agree(&four().concat(), 3000);
    // Longer than the buffer of the file reader.
    agree(
        &(0..2000)
            .flat_map(|number| packet(number * 10))
            .collect::<Vec<u8>>(),
        40,
    );
}

fn agree(whole: &[u8], rounds: usize) {
    let metadata = Arc::new(Metadata::parse(&metadata()).unwrap());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % limit
    };
    for round in 0..rounds {
        let mut stream = whole.to_vec();
        for _ in 0..round % 4 * (1 + whole.len() / 10_000) {
            let at = below(stream.len());
            match below(3) {
                // Clear the size of some packets, as if they were never closed.
                0 if below(4) == 0 => stream[at / SIZE * SIZE..]
                    .iter_mut()
                    .take(64)
                    .skip(48)
                    .for_each(|byte| *byte = 0),
                0 => stream[at] = below(256) as u8,
                1 => drop(stream.remove(at)),
                _ => stream.insert(at, below(256) as u8),
            }
        }
        let owned: Vec<String> = StreamReader::new(Arc::clone(&metadata), "s", &stream[..])
            .map(|item| match item {
                Ok(Item::Event(event)) => {
                    format!("{:?} {} {:?}", event.time, event.name(), event.fields)
                }
                Ok(Item::Loss(loss)) => format!("{loss:?}"),
                Ok(Item::Problem(problem)) => problem.to_string(),
                Ok(other) => panic!("{other:?}"),
                Err(error) => error.to_string(),
            })
            .collect();
        let mut reader = kymo_ctf::Reader::new([(&metadata, "s", &stream[..])]);
        let mut borrowed = Vec::new();
        while let Some(item) = reader.next() {
            borrowed.push(match item {
                kymo_ctf::ItemRef::Event(event) => {
                    let fields = event.fields().to_fields();
                    let one_by_one: Vec<_> = fields
                        .iter()
                        .map(|(name, _)| event.field(name).unwrap().to_value())
                        .collect();
                    assert!(fields.iter().map(|(_, value)| value).eq(&one_by_one));
                    format!("{:?} {} {fields:?}", event.time(), event.name())
                }
                kymo_ctf::ItemRef::Loss(loss) => format!("{loss:?}"),
                kymo_ctf::ItemRef::Problem(problem) => problem.to_string(),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!(owned, borrowed, "round {round}");
    }
}

/// Without a magic number only an index locates the next packet.
#[test]
fn an_index_leads_over_a_damaged_header() {
    let metadata = "/* CTF 1.8 */ typealias integer { size = 8; } := u8; trace { major = 1; minor = 8; byte_order = le; };
        stream { packet.context := struct { u8 packet_size; u8 content_size; }; }; event { name = e; fields := struct { u8 n; }; };";
    let good: Vec<u8> = (0..4)
        .flat_map(|n| [40, 32, n * 2, n * 2 + 1, 0xff])
        .collect();
    let mut stream = good.clone();
    stream[5] = 3;
    let mut index: Vec<u8> = [0xc1f1_dcc1_u32, 1, 1, 72]
        .into_iter()
        .flat_map(u32::to_be_bytes)
        .collect();
    for packet in 0..4u64 {
        [packet * 5, 40, 32, 0, 0, 0, 0, 0, packet]
            .into_iter()
            .for_each(|number| index.extend(number.to_be_bytes()));
    }
    let events = |length| {
        let metadata = Arc::new(Metadata::parse(metadata).unwrap());
        let reader = StreamReader::new(metadata, "s", &stream[..]).index(&index, length);
        reader
            .filter(|item| matches!(item, Ok(Item::Event(_))))
            .count()
    };
    assert_eq!(events(20), 6);
    assert_eq!(events(21), 2, "an index of another length is stale");

    let files: [(&str, &[u8]); 2] = [("metadata", metadata.as_bytes()), ("s", &stream)];
    let directory = crate::writer::Directory::new("index", &files);
    std::fs::create_dir(directory.path().join("index")).unwrap();
    std::fs::write(directory.path().join("index/s.idx"), &index).unwrap();
    let trace = kymo_ctf::Trace::open(directory.path()).unwrap();
    let tally = kymo_ctf::Tally::of(&trace.map(), 1, false);
    assert_eq!((tally.streams[0].events, tally.problems.len()), (6, 1));
    assert_eq!(
        trace
            .events()
            .filter(|item| matches!(item, Ok(Item::Event(_))))
            .count(),
        6
    );
}
