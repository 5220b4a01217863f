//! Packets, event headers, time, losses and the order of streams.

use std::sync::Arc;

use crate::writer::{
    Directory, Order, close, compact, event, events, extended, losses, medium, open, preamble,
    read, reason,
};
use kymo_ctf::{DecodeError, Item, LossKind, Merge, Metadata, StreamReader, Ticks, Trace};

fn metadata(order: Order) -> String {
    preamble(order, 1_000_000_000, 0, 0)
        + &event(1, "tick", "uint32_t n;")
        + &event(29, "last", "")
        + &event(70_000, "far", "uint8_t n;")
}

#[test]
fn compact_medium_and_extended_headers() {
    for order in [Order::Le, Order::Be] {
        let mut packet = open(order, 0, 10, 1 << 40, 0, 0, 0);
        compact(&mut packet, 1, 10).u32(1);
        medium(&mut packet, 70_000, 11).u8(2);
        extended(&mut packet, 70_000, 1 << 35).u8(3);
        compact(&mut packet, 29, (1 << 35) + 1);
        medium(&mut packet, 29, (1 << 35) + 2);
        extended(&mut packet, 1, (1 << 36) + 3).u32(4);
        let events = events(&metadata(order), &close(packet, 16));
        let seen: Vec<_> = events
            .iter()
            .map(|event| (event.name(), event.time.unwrap().0))
            .collect();
        let far = 1 << 35;
        assert_eq!(
            seen,
            [
                ("tick", 10),
                ("far", 11),
                ("far", far),
                ("last", far + 1),
                ("last", far + 2),
                ("tick", (1 << 36) + 3)
            ]
        );
        let n: Vec<_> = events
            .iter()
            .map(|event| event.fields.get("n").and_then(kymo_ctf::Value::as_u64))
            .collect();
        assert_eq!(n, [Some(1), Some(2), Some(3), None, None, Some(4)]);
    }
}

#[test]
fn narrow_time_wraps_within_and_between_packets() {
    let window = 1 << 27;
    let times = [
        window - 1,
        window,
        2 * window - 1,
        3 * window - 2,
        3 * window - 2,
    ];
    let mut stream = Vec::new();
    for (seq, pair) in times.chunks(2).enumerate() {
        let mut packet = open(
            Order::Le,
            0,
            pair[0],
            pair[pair.len() - 1],
            seq as u64,
            0,
            0,
        );
        for &time in pair {
            compact(&mut packet, 29, time);
        }
        stream.extend(close(packet, 0));
    }
    let seen: Vec<_> = events(&metadata(Order::Le), &stream)
        .iter()
        .map(|event| event.time.unwrap().0)
        .collect();
    assert_eq!(seen, times);
}

#[test]
fn time_is_exact_nanoseconds() {
    let metadata = preamble(Order::Le, 3, 7, 1) + &event(1, "e", "");
    let mut packet = open(Order::Le, 0, 0, 9, 0, 0, 0);
    compact(&mut packet, 1, 1);
    compact(&mut packet, 1, 2);
    let nanos: Vec<_> = events(&metadata, &close(packet, 0))
        .iter()
        .map(|event| event.nanos().unwrap())
        .collect();
    assert_eq!(nanos, [7_666_666_666, 8_000_000_000]);
}

#[test]
fn losses_have_the_counts_and_intervals_of_babeltrace2() {
    let mut stream = Vec::new();
    // begin, end, sequence number, events discarded so far
    for (begin, end, seq, discarded) in [
        (10, 20, 5, 9),
        (20, 30, 6, 9),
        (35, 40, 7, 14),
        (50, 60, 11, 14),
        (60, 60, 13, 15),
    ] {
        let mut packet = open(Order::Le, 0, begin, end, seq, discarded, 2);
        compact(&mut packet, 29, end);
        stream.extend(close(packet, 0));
    }
    let (items, error) = read(&metadata(Order::Le), &stream);
    assert!(error.is_none());
    let seen: Vec<_> = losses(&items)
        .iter()
        .map(|loss| {
            (
                loss.kind,
                loss.count,
                loss.begin.unwrap().0,
                loss.end.unwrap().0,
                loss.cpu,
            )
        })
        .collect();
    use LossKind::{Events, Packets};
    // The first packet's counter is the base of the count.
    assert_eq!(
        seen,
        [
            (Events, 5, 30, 40, Some(2)),
            (Packets, 3, 40, 50, Some(2)),
            (Events, 1, 60, 60, Some(2)),
            (Packets, 1, 60, 60, Some(2)),
        ]
    );
    let kinds: Vec<_> = items
        .iter()
        .map(|item| matches!(item, Item::Event(_)))
        .collect();
    assert_eq!(
        kinds,
        [true, true, false, true, false, true, false, false, true],
        "a loss comes before the packet that reports it"
    );
}

#[test]
fn narrow_counters_wrap_and_wide_ones_do_not() {
    let narrow = metadata(Order::Le)
        .replace("uint64_t events_discarded", "uint32_t events_discarded")
        .replace("uint64_t packet_seq_num", "uint16_t packet_seq_num");
    let packet = |seq: u16, discarded: u32| {
        let mut bits = crate::writer::Bits::new(Order::Le);
        bits.u32(0xc1fc_1fc1);
        for byte in crate::writer::UUID {
            bits.u8(byte);
        }
        bits.u32(0).u64(0).u64(0).u64(0);
        let size = (bits.len + 64 + 64 + 16 + 32 + 32).next_multiple_of(8);
        bits.u64(size)
            .u64(size)
            .align(8)
            .put(16, seq.into())
            .u32(discarded)
            .u32(0);
        bits.bytes
    };
    let (items, error) = read(
        &narrow,
        &[packet(u16::MAX, u32::MAX), packet(2, 4)].concat(),
    );
    assert!(error.is_none(), "{error:?}");
    let counts: Vec<_> = losses(&items).iter().map(|loss| loss.count).collect();
    assert_eq!(counts, [5, 2]);
    let (items, _) = read(&narrow, &[packet(9, 9), packet(10, 8)].concat());
    assert_eq!(
        problems(&items),
        [DecodeError::CounterWentBack {
            counter: "events_discarded",
            from: 9,
            to: 8
        }]
    );
    let wide = |seq| close(open(Order::Le, 0, 0, 0, seq, 0, 0), 0);
    let (items, _) = read(&metadata(Order::Le), &[wide(7), wide(5)].concat());
    assert_eq!(
        problems(&items),
        [DecodeError::CounterWentBack {
            counter: "packet_seq_num",
            from: 7,
            to: 5
        }]
    );
}

/// Each of these makes babeltrace2 abort; here it is reported, and the time is clamped.
#[test]
fn time_that_steps_back_is_told_and_clamped() {
    let metadata = metadata(Order::Le);
    let packet = |begin, end, times: &[u64]| {
        let mut packet = open(Order::Le, 0, begin, end, 0, 0, 0);
        for &time in times {
            extended(&mut packet, 29, time);
        }
        close(packet, 0)
    };
    for (what, stream, times, from, to) in [
        (
            "record before record",
            packet(0, 9, &[5, 4, 6]),
            &[5, 5, 6][..],
            5,
            4,
        ),
        (
            // The reader reports a step of the clock once, however many records follow it.
            "records until the clock has caught up",
            packet(0, 90, &[50, 10, 10, 11, 49, 50, 51]),
            &[50, 50, 50, 50, 50, 50, 51],
            50,
            10,
        ),
        (
            "packets until the clock has caught up",
            [
                packet(0, 90, &[50]),
                packet(10, 20, &[11, 12]),
                packet(20, 30, &[21]),
                packet(30, 60, &[51]),
            ]
            .concat(),
            &[50, 90, 90, 90, 90],
            90,
            10,
        ),
        (
            "record before its packet",
            packet(6, 9, &[5, 7]),
            &[6, 7],
            6,
            5,
        ),
        (
            "end before the last record",
            packet(0, 9, &[5, 10]),
            &[5, 10],
            10,
            9,
        ),
        ("end before begin", packet(7, 6, &[8]), &[8], 7, 6),
        (
            "packet before packet",
            [packet(0, 9, &[5]), packet(8, 10, &[9])].concat(),
            &[5, 9],
            9,
            8,
        ),
    ] {
        let (items, error) = read(&metadata, &stream);
        assert!(error.is_none(), "{what}: {error:?}");
        let seen: Vec<u64> = items
            .iter()
            .filter(|item| matches!(item, Item::Event(_)))
            .map(|item| item.time().unwrap().0)
            .collect();
        assert_eq!(seen, times, "{what}");
        assert_eq!(
            problems(&items),
            [DecodeError::TimeWentBack { from, to }],
            "{what}"
        );
        let strict = StreamReader::new(
            Arc::new(Metadata::parse(&metadata).unwrap()),
            "s",
            &stream[..],
        )
        .strict(true);
        let last = strict.last().unwrap().map_err(Some).map_err(reason);
        assert_eq!(
            last,
            Err(DecodeError::TimeWentBack { from, to }),
            "{what}: in strict mode it is the end"
        );
    }
}

#[test]
fn a_narrow_time_that_steps_back_is_no_wrap_if_the_packet_ends_before_it() {
    let metadata = metadata(Order::Le);
    let mut packet = open(Order::Le, 0, 1000, 2000, 0, 0, 0);
    for time in [1500, 1400, 1600] {
        compact(&mut packet, 29, time);
    }
    let (items, _) = read(&metadata, &close(packet, 0));
    assert_eq!(
        problems(&items),
        [DecodeError::TimeWentBack {
            from: 1500,
            to: 1400
        }]
    );
    let times: Vec<_> = items
        .iter()
        .filter_map(Item::time)
        .map(|time| time.0)
        .collect();
    assert_eq!(times, [1500, 1500, 1600]);
}

fn problems(items: &[Item]) -> Vec<DecodeError> {
    let problems = items.iter().filter_map(|item| match item {
        Item::Problem(problem) => Some(problem.reason.clone()),
        _ => None,
    });
    problems.collect()
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let metadata = metadata(Order::Le);
    let sized = |content, size| {
        let mut bits = open(Order::Le, 0, 0, 0, 0, 0, 0);
        let header = bits.len;
        bits.set(48 * 8, 64, content);
        bits.set(56 * 8, 64, size);
        (reason(read(&metadata, &bits.bytes).1), header)
    };
    for (content, size) in [(800, 0), (8, 8), (672, 671), (0, 673)] {
        let (reason, header) = sized(content, size);
        assert_eq!(
            reason,
            DecodeError::BadPacketSize {
                packet_size: size,
                header
            }
        );
    }
    for (content, size) in [(680, 672), (0, 672), (671, 672), (u64::MAX, 800)] {
        let (reason, header) = sized(content, size);
        assert_eq!(
            reason,
            DecodeError::BadContentSize {
                content_size: content,
                packet_size: size,
                header
            }
        );
    }
    assert_eq!(
        sized(u64::MAX - 7, u64::MAX - 7).0,
        DecodeError::Truncated { available: 84 }
    );
}

#[test]
fn packets_of_another_trace_or_stream_are_refused() {
    let metadata = metadata(Order::Le);
    let good = close(open(Order::Le, 4, 0, 0, 0, 0, 0), 0);
    let cases: [(usize, u8, DecodeError); 3] = [
        (0, 0xc0, DecodeError::BadMagic(0xc1fc_1fc0)),
        (20, 1, DecodeError::UnknownStream(1)),
        (24, 5, DecodeError::StreamChanged),
    ];
    for (at, byte, wanted) in cases {
        let mut bad = good.clone();
        bad[at] = byte;
        let stream = [good.clone(), bad].concat();
        let (items, error) = read(&metadata, &stream);
        assert!(items.is_empty());
        let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(text.starts_with("s, packet 1, byte "), "{text}");
        assert_eq!(reason(error), wanted);
    }
    // Zeros after the last packet, as in a file that was extended before it was written.
    let (_, error) = read(&metadata, &[good.as_slice(), &[0; 100]].concat());
    assert_eq!(reason(error), DecodeError::BadMagic(0));
}

#[test]
fn records_that_cannot_be_are_errors_after_all_that_could_be() {
    let good = |order| {
        let mut packet = open(order, 0, 0, 99, 0, 0, 0);
        compact(&mut packet, 29, 1);
        packet
    };
    let mut packet = good(Order::Le);
    compact(&mut packet, 3, 2);
    let (items, error) = read(&metadata(Order::Le), &close(packet, 0));
    assert_eq!(items.len(), 1);
    let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
    assert_eq!(
        text,
        "s, packet 0, byte 92: the metadata describes no event with id 3 in stream class 0"
    );

    // An id of 0, as in a hole in a ring, has no label in the header's enumeration.
    let mut packet = good(Order::Le);
    packet.align(32).put(32, 0);
    let (items, error) = read(&metadata(Order::Le), &close(packet, 0));
    assert_eq!(
        (items.len(), reason(error)),
        (1, DecodeError::NoSuchOption(0_u128.into()))
    );

    // The content ends inside a record.
    let mut packet = good(Order::Le);
    compact(&mut packet, 1, 2).u8(0);
    let (items, error) = read(&metadata(Order::Le), &close(packet, 99));
    assert_eq!(
        (items.len(), reason(error)),
        (
            1,
            DecodeError::UnexpectedEnd {
                needed: 32,
                left: 8
            }
        )
    );
}

#[test]
fn lengths_are_checked_before_anything_is_made_of_them() {
    let metadata = preamble(Order::Le, 1, 0, 0)
        + &event(1, "e", "uint64_t n; uint8_t x[n];")
        + &event(2, "f", "uint32_t huge[4611686018427387904];");
    for (id, length) in [(1, u64::MAX), (1, 5), (2, 1 << 62)] {
        let mut packet = open(Order::Le, 0, 0, 99, 0, 0, 0);
        compact(&mut packet, id, 1);
        if id == 1 {
            packet.u64(length);
        }
        packet.u32(0);
        let (items, error) = read(&metadata, &close(packet, 0));
        assert!(items.is_empty());
        assert_eq!(
            reason(error),
            DecodeError::LengthTooLarge { length, left: 32 }
        );
    }
}

#[test]
fn records_of_no_bits_do_not_go_on_for_ever() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; }; stream { }; event { name = e; };";
    let (items, error) = read(metadata, &[1, 2, 3]);
    assert!(items.is_empty());
    assert_eq!(reason(error), DecodeError::EmptyRecord);
    assert!(events(metadata, &[]).is_empty());
}

#[test]
fn packets_without_sizes_end_with_the_file() {
    let metadata = "trace { major = 1; minor = 8; byte_order = be; }; event { name = e; fields := struct { integer { size = 16; } n; }; };";
    let stream: Vec<u8> = (0..10_000u16).flat_map(u16::to_be_bytes).collect();
    let read: Vec<_> = events(metadata, &stream)
        .iter()
        .map(|event| event.fields.get("n").and_then(kymo_ctf::Value::as_u64))
        .collect();
    assert!(read.iter().copied().eq((0..10_000).map(Some)));
    assert_eq!(events(metadata, &stream)[0].time, None);
}

#[test]
fn a_context_longer_than_the_first_read_is_read() {
    let metadata = metadata(Order::Le).replace(
        "uint32_t cpu_id;",
        "uint32_t cpu_id; uint32_t extra_len; uint8_t extra[extra_len];",
    );
    let mut packet = open(Order::Le, 0, 0, 0, 0, 0, 7);
    packet.u32(100_000);
    for i in 0..100_000u32 {
        packet.bytes.push(i as u8);
    }
    packet.len += 800_000;
    compact(&mut packet, 29, 0);
    let stream = close(packet, 0);
    assert_eq!(
        events(&metadata, &[stream.clone(), stream].concat()[..]).len(),
        2
    );
}

fn stream(
    metadata: &Arc<Metadata>,
    name: &str,
    times: &[u64],
) -> StreamReader<std::io::Cursor<Vec<u8>>> {
    let mut packet = open(Order::Le, 0, 0, 1000, 0, 0, 0);
    for &time in times {
        compact(&mut packet, 29, time);
    }
    StreamReader::new(
        Arc::clone(metadata),
        name,
        std::io::Cursor::new(close(packet, 0)),
    )
}

#[test]
fn streams_merge_by_time_and_then_by_place() {
    let metadata = Arc::new(Metadata::parse(&metadata(Order::Le)).unwrap());
    let streams = [
        ("a", &[1, 5, 5, 9][..]),
        ("b", &[1, 1, 5, 6]),
        ("c", &[]),
        ("d", &[0, 5, 9]),
    ];
    let merged = Merge::new(streams.map(|(name, times)| Ok(stream(&metadata, name, times))));
    let seen: String = merged
        .map(|item| item.unwrap())
        .map(|item| format!("{}{} ", item.stream(), item.time().unwrap()))
        .collect();
    assert_eq!(seen, "d0 a1 b1 b1 a5 a5 b5 d5 b6 a9 d9 ");
}

#[test]
fn one_nanosecond_can_hold_several_ticks() {
    let text = metadata(Order::Le).replace("freq = 1000000000", "freq = 10000000000");
    let metadata = Arc::new(Metadata::parse(&text).unwrap());
    let streams = [("a", &[13, 18][..]), ("b", &[11, 15])];
    let merged = Merge::new(streams.map(|(name, times)| Ok(stream(&metadata, name, times))));
    let times: Vec<_> = merged.map(|item| item.unwrap().time()).collect();
    assert_eq!(times, [11, 13, 15, 18].map(|time| Some(Ticks(time))));
}

#[test]
fn a_damaged_stream_ends_and_the_others_go_on() {
    let text = metadata(Order::Le);
    let good = |times: &[u64]| {
        let mut packet = open(Order::Le, 0, 0, 1000, 0, 0, 0);
        for &time in times {
            compact(&mut packet, 29, time);
        }
        close(packet, 0)
    };
    let mut bad = good(&[1, 2, 3]);
    bad.truncate(bad.len() - 4);
    let directory = Directory::new(
        "damaged",
        &[
            ("metadata", text.as_bytes()),
            ("a", &bad),
            ("b", &good(&[1, 5, 6])),
            ("c", b""),
            (".d", b"no stream"),
            ("e", b"?"),
        ],
    );
    std::fs::create_dir(directory.path().join("index")).unwrap();
    std::fs::write(directory.path().join("index/a.idx"), b"no stream").unwrap();
    let trace = Trace::open(directory.path()).unwrap();
    assert_eq!(trace.stream_files().len(), 4);
    let seen: Vec<_> = trace
        .events()
        .map(|item| match item {
            Ok(item) => format!("{}{}", item.stream(), item.time().unwrap()),
            Err(error) => error.to_string(),
        })
        .collect();
    let twice: Vec<_> = trace
        .events()
        .filter_map(Result::ok)
        .map(|item| item.time())
        .collect();
    assert_eq!(twice.len(), 5);
    assert_eq!(
        seen,
        [
            "e, packet 0, byte 0: the file ends inside this packet, at byte 1 of it",
            "a1",
            "b1",
            "a2",
            "a, packet 0, byte 92: the file ends inside this packet, at byte 92 of it",
            "b5",
            "b6",
        ]
    );
}

#[test]
fn a_directory_without_metadata_is_no_trace() {
    let directory = Directory::new("nothing", &[]);
    let error = Trace::open(directory.path()).unwrap_err();
    assert!(
        matches!(&error, kymo_ctf::Error::Io { path, .. } if path.ends_with("metadata")),
        "{error}"
    );
}
