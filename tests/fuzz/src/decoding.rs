//! Reads a stream in every way that kymo-ctf has, which must all agree.

use std::io;
use std::sync::Arc;

use kymo_ctf::{
    Error, EventRef, EventValues, FieldAccess, Fields, Item, ItemRef, Merge, Metadata, Packet,
    Reader, Scope, StreamReader, StreamWriter, StructRef, Ticks, Value, ValueRef, WriteError,
};

use crate::told::Told;

/// Decodes with both readers, lenient and strict, alone and merged with itself; parts of it; and
/// what was written again from it.
pub(crate) fn decode(metadata: &Arc<Metadata>, stream: &[u8]) {
    for strict in [false, true] {
        let owned = StreamReader::new(Arc::clone(metadata), "s", stream).strict(strict);
        let mut borrowed = Reader::new([(metadata, "s", stream)]).strict(strict);
        let mut packet: Option<Arc<Packet>> = None;
        for item in owned {
            let other = borrowed.next().expect("both readers give as many items");
            if let ItemRef::Event(event) = &other {
                fields_agree(event);
            }
            compare(item, other, &mut packet);
        }
        assert!(borrowed.next().is_none(), "both readers give as many items");
    }
    let merged =
        Merge::new([0, 1].map(|_| Ok(StreamReader::new(Arc::clone(metadata), "s", stream))))
            .count();
    let mut reader = Reader::new([(metadata, "s", stream), (metadata, "s", stream)]);
    let mut count = 0;
    while reader.next().is_some() {
        count += 1;
    }
    assert_eq!(merged, count, "both readers merge the same");
    if let Some(whole) = known(Reader::new([(metadata, "s", stream)])) {
        intervals(metadata, stream, Some(&whole));
        written_again(metadata, stream);
    } else {
        intervals(metadata, stream, None);
    }
}

/// Each field is the same by its name, by its location and in a visit.
fn fields_agree(event: &EventRef<'_>) {
    let parts = [
        (Scope::EventCommonContext, event.stream_context()),
        (Scope::EventContext, event.context()),
        (Scope::EventFields, event.fields()),
    ];
    let mut values = String::new();
    for (scope, part) in &parts {
        if part.class().members.is_empty() {
            continue;
        }
        for member in &part.class().members {
            let find = FieldAccess::find(event.stream_class(), event.class(), *scope, &member.name);
            field_agrees(event, part, &member.name, &find.expect("a member is found"));
        }
    }
    for (class, part) in [
        event.stream_class().event_context.as_deref(),
        event.class().context.as_deref(),
        event.class().fields.as_deref(),
    ]
    .iter()
    .zip(&parts)
    {
        if class.is_some() {
            values += &Told::of(&Value::Struct(part.1.to_fields()));
        }
    }
    let mut told = Told(String::new());
    event.visit(&mut told);
    assert_eq!(told.0, values, "a visitor is told the record's values");
    event.visit_packet_context(&mut told);
}

fn field_agrees(event: &EventRef<'_>, part: &StructRef<'_>, name: &str, access: &FieldAccess) {
    let by_name = part.get(name);
    let by_place = event.value(access);
    assert_eq!(format!("{by_place:?}"), format!("{by_name:?}"), "{name}");
    let Some(value) = by_name else { return };
    assert_eq!(event.unsigned(access), value.as_u64(), "{name}, unsigned");
    assert_eq!(event.signed(access), value.as_i64(), "{name}, signed");
    assert_eq!(
        event.text(access).as_deref(),
        value.as_str(),
        "{name}, text"
    );
    let mut elements = Vec::new();
    event.append_unsigned(access, &mut elements);
    let wanted: Vec<u64> = match &value {
        ValueRef::Array(array) => array.iter().filter_map(|value| value.as_u64()).collect(),
        _ => Vec::new(),
    };
    assert_eq!(elements, wanted, "{name}, elements");
}

/// Begin and end of an item in nanoseconds, and what it says.
type Known = (i128, i128, String);

/// All items of a reader; `None` if one is a problem or has no time.
fn known(mut reader: Reader<'_>) -> Option<Vec<Known>> {
    let mut all = Vec::new();
    while let Some(item) = reader.next() {
        all.push(match item {
            ItemRef::Event(event) => {
                let (at, offset) = (event.nanos()?, event.packet_offset());
                (at, at, format!("{} of packet {offset}", event.name()))
            }
            ItemRef::Loss(loss) => (loss.begin_nanos?, loss.end_nanos?, format!("{loss:?}")),
            ItemRef::Problem(_) => return None,
            _ => unreachable!("there are three kinds of items"),
        });
    }
    Some(all)
}

/// An interval of a trace without problems has what a whole pass has of it; of any other trace it
/// can be read.
fn intervals(metadata: &Arc<Metadata>, stream: &[u8], whole: Option<&[Known]>) {
    let times = whole
        .into_iter()
        .flatten()
        .flat_map(|(begin, end, _)| [*begin, *end]);
    let mut times: Vec<i128> = times.collect();
    if times.is_empty() {
        times = vec![0, 100, 10_000];
    }
    let at = |of: usize| times.get(times.len() * of / 4).copied();
    for (from, to) in [(at(1), at(3)), (at(2), None), (None, at(2)), (at(3), at(3))] {
        let part = known(Reader::new([(metadata, "s", stream)]).between(from, to));
        let Some(whole) = whole else { continue };
        let within = |(begin, end, _): &&Known| {
            from.is_none_or(|from| from <= *end) && to.is_none_or(|to| *begin <= to)
        };
        let wanted: Vec<Known> = whole.iter().filter(within).cloned().collect();
        assert_eq!(part.as_ref(), Some(&wanted), "{from:?} to {to:?}");
    }
}

/// What the writer takes of a stream without problems reads as it was.
fn written_again(metadata: &Arc<Metadata>, stream: &[u8]) {
    let items = || {
        let all = StreamReader::new(Arc::clone(metadata), "s", stream);
        all.filter_map(|item| match item {
            Ok(Item::Event(event)) => Some(event),
            _ => None,
        })
    };
    let Some(class) = items().next().map(|event| event.packet.class.id) else {
        return;
    };
    let writer = StreamWriter::new(metadata, class, "s", Vec::new());
    let mut writer = writer.expect("a stream that was read has a class");
    let (mut taken, mut last) = (Vec::new(), Ticks(0));
    let mut packet: Option<Arc<Packet>> = None;
    for event in items().take_while(|event| event.packet.class.id == class) {
        if packet
            .as_ref()
            .is_none_or(|open| open.number != event.packet.number)
        {
            if let Some(open) = packet.take()
                && !is_taken(writer.end_packet(open.end.unwrap_or(last)))
            {
                return;
            }
            let cpu = event.packet.cpu.map(|cpu| ("cpu_id", Value::UInt(cpu)));
            let begin = event.packet.begin.unwrap_or(Ticks(0));
            if !is_taken(writer.begin_packet(begin, Fields::from_iter(cpu))) {
                return;
            }
            packet = Some(Arc::clone(&event.packet));
        }
        let values = EventValues {
            stream_context: event.stream_context.clone(),
            context: event.context.clone(),
            fields: event.fields.clone(),
        };
        last = event.time.unwrap_or(last);
        if is_taken(writer.event(event.class.id, last, &values)) {
            taken.push(event);
        }
    }
    let end = packet.and_then(|open| open.end).unwrap_or(last);
    if !is_taken(writer.end_packet(end)) {
        return;
    }
    let bytes = writer.finish().expect("memory can be written");
    let mut again = StreamReader::new(Arc::clone(metadata), "s", io::Cursor::new(&bytes))
        .filter_map(|item| match item {
            Ok(Item::Event(event)) => Some(event),
            Ok(Item::Loss(_)) => None,
            other => panic!("what was written has a problem: {other:?}"),
        });
    let shown = |event: &kymo_ctf::Event| {
        format!(
            "{} {:?} {:?} {:?} {:?}",
            event.name(),
            event.time,
            event.stream_context,
            event.context,
            event.fields
        )
    };
    for event in &taken {
        let other = again.next().expect("every event that was written is read");
        assert_eq!(shown(&other), shown(event));
    }
    assert!(
        again.next().is_none(),
        "nothing is read that was not written"
    );
}

/// Whether the writer took it; what it refuses are values.
fn is_taken(written: Result<(), WriteError>) -> bool {
    match written {
        Ok(()) => true,
        Err(error) => {
            assert!(matches!(error, WriteError::Value { .. }), "{error}");
            false
        }
    }
}

fn compare(owned: Result<Item, Error>, borrowed: ItemRef, packet: &mut Option<Arc<Packet>>) {
    match (owned, borrowed) {
        (Ok(Item::Event(owned)), ItemRef::Event(borrowed)) => {
            if packet
                .as_ref()
                .is_none_or(|packet| packet.number != borrowed.packet_number())
            {
                *packet = borrowed.packet().map(Arc::new);
            }
            let packet = packet.as_ref().expect("an event is in a packet");
            let other = borrowed.to_event(Arc::clone(packet));
            assert_eq!(
                (owned.time, owned.nanos(), owned.cpu()),
                (borrowed.time(), borrowed.nanos(), borrowed.cpu())
            );
            // NaN is not equal to itself.
            if owned != other {
                assert_eq!(
                    format!("{owned:?}"),
                    format!("{other:?}"),
                    "both readers give the same event"
                );
            }
            for (field, (name, value)) in borrowed.fields().iter().zip(owned.fields.iter()) {
                std::hint::black_box((field, name, value.as_u64(), value.as_i64(), value.as_str()));
            }
        }
        (Ok(Item::Loss(owned)), ItemRef::Loss(borrowed)) => assert_eq!(owned, *borrowed),
        (Ok(Item::Problem(owned)), ItemRef::Problem(borrowed)) => {
            assert_eq!(owned.to_string(), borrowed.to_string())
        }
        // The end of a stream is an error of one reader and a problem of the other.
        (Err(owned), ItemRef::Problem(borrowed)) => drop((owned.to_string(), borrowed.to_string())),
        (owned, borrowed) => panic!("the readers differ: {owned:?}, {borrowed:?}"),
    }
}
