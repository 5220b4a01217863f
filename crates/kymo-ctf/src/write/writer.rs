//! Writes traces from values.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::WriteError;
use super::encode::{Encoded, Encoder, Mark};
use crate::class::{FieldClass, Role, StructClass};
use crate::decode::check::Walker;
use crate::decode::state::{Seen, Tick, tick};
use crate::decode::value::Fields;
use crate::metadata::clock::Ticks;
use crate::metadata::{EventClass, Metadata, StreamClass};
use crate::stream::packet::MAGIC;

/// Writes a trace directory: the given metadata, and streams of records with the layout that the
/// metadata describes.
///
/// ```
/// use kymo_ctf::{Fields, Ticks, Trace, TraceWriter, Value};
///
/// let metadata = "/* CTF 1.8 */
///     typealias integer { size = 8; align = 8; } := u8;
///     typealias integer { size = 32; align = 8; } := u32;
///     typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
///     trace {
///         major = 1; minor = 8; byte_order = le;
///         packet.header := struct { u32 magic; };
///     };
///     clock { name = c; freq = 1000000000; };
///     stream {
///         packet.context := struct {
///             time timestamp_begin; time timestamp_end; u32 content_size; u32 packet_size;
///             u32 events_discarded; u32 cpu_id;
///         };
///         event.header := struct { u8 id; time timestamp; };
///     };
///     event { id = 7; name = named; fields := struct { u32 tid; string name; }; };";
/// # let directory = std::env::temp_dir().join(format!("kymo-ctf-writer-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&directory);
///
/// let trace = TraceWriter::create(&directory, metadata)?;
/// let mut stream = trace.stream("events_0", 0)?;
/// let cpu = Fields::from_iter([("cpu_id", Value::UInt(2))]);
/// stream.begin_packet(Ticks(100), cpu)?;
/// let fields = Fields::from_iter([("tid", Value::UInt(41)), ("name", Value::Str("init".into()))]);
/// stream.event(7, Ticks(120), &fields.into())?;
/// stream.discard(3);
/// stream.end_packet(Ticks(200))?;
/// stream.finish()?;
///
/// let map = Trace::open(&directory)?.map();
/// let mut reader = map.read();
/// let Some(kymo_ctf::ItemRef::Event(event)) = reader.next() else { unreachable!() };
/// assert_eq!((event.nanos(), event.cpu(), event.name()), (Some(120), Some(2), "named"));
/// assert_eq!(event.field("name").unwrap().as_str(), Some("init"));
/// # std::fs::remove_dir_all(&directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TraceWriter {
    directory: PathBuf,
    metadata: Arc<Metadata>,
}

impl TraceWriter {
    /// Creates the trace directory, which may exist but must not contain `metadata`, and writes
    /// `metadata`: TSDL or a JSON text sequence.
    ///
    /// # Errors
    /// [`WriteError::Metadata`] if the text is invalid or unsupported, [`WriteError::Io`] if it
    /// cannot be written.
    pub fn create(directory: &Path, metadata: &str) -> Result<TraceWriter, WriteError> {
        let parsed = Metadata::parse(metadata).map_err(WriteError::Metadata)?;
        let path = directory.join("metadata");
        let written = fs::create_dir_all(directory).and_then(|()| {
            let mut file = File::create_new(&path)?;
            file.write_all(metadata.as_bytes())
        });
        written.map_err(|source| WriteError::Io { path, source })?;
        Ok(TraceWriter {
            directory: directory.to_owned(),
            metadata: Arc::new(parsed),
        })
    }

    /// The trace's metadata.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// Creates the stream file `name`, whose packets belong to the stream class with id `class`.
    ///
    /// # Errors
    /// [`WriteError::Value`] if there is no such class, [`WriteError::Io`] if the file cannot be
    /// created.
    pub fn stream(
        &self,
        name: &str,
        class: u64,
    ) -> Result<StreamWriter<BufWriter<File>>, WriteError> {
        let path = self.directory.join(name);
        match File::create(&path) {
            Ok(file) => StreamWriter::new(&self.metadata, class, name, BufWriter::new(file)),
            Err(source) => Err(WriteError::Io { path, source }),
        }
    }
}

/// The values of an event record after its header.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventValues {
    /// The common context of the stream's events.
    pub stream_context: Fields,
    /// The event's own context.
    pub context: Fields,
    /// The event's fields.
    pub fields: Fields,
}

impl From<Fields> for EventValues {
    /// The values of an event without contexts.
    fn from(fields: Fields) -> Self {
        EventValues {
            fields,
            ..EventValues::default()
        }
    }
}

/// Writes the packets of one stream.
///
/// The writer fills in packet headers and contexts and event headers: magic number, UUID, ids,
/// times, sizes, packet numbers and lost events. If an event header has several layouts, it uses
/// the first that can express id and time. All other fields need values, including those that hold
/// lengths and selectors, which must agree with the other values.
#[derive(Debug)]
pub struct StreamWriter<W> {
    out: W,
    name: String,
    metadata: Arc<Metadata>,
    class: Arc<StreamClass>,
    /// `None` between packets.
    packet: Option<OpenPacket>,
    sequence: u64,
    discarded: u64,
}

#[derive(Debug)]
struct OpenPacket {
    encoder: Encoder,
    begin: u64,
    /// Time of the last event.
    clock: u64,
    fields: Fields,
    /// Size of header and context in bits.
    head: u64,
}

impl<W: Write> StreamWriter<W> {
    /// A writer of packets of the stream class with id `class` to `out`; errors name the stream
    /// `name`.
    ///
    /// # Errors
    /// [`WriteError::Value`] if there is no such class.
    pub fn new(
        metadata: &Arc<Metadata>,
        class: u64,
        name: &str,
        out: W,
    ) -> Result<Self, WriteError> {
        let Some(of) = metadata.stream(class) else {
            return Err(WriteError::Value {
                stream: name.to_owned(),
                reason: format!("the metadata has no stream class {class}"),
            });
        };
        Ok(StreamWriter {
            out,
            name: name.to_owned(),
            metadata: Arc::clone(metadata),
            class: Arc::clone(of),
            packet: None,
            sequence: 0,
            discarded: 0,
        })
    }

    /// Begins a packet. `fields` are the fields of its header and context that the writer does not
    /// fill in, such as `cpu_id`, or that override what it fills in; the rest is 0.
    ///
    /// # Errors
    /// [`WriteError::Value`] if a packet is open, or the head cannot be written.
    pub fn begin_packet(&mut self, begin: Ticks, fields: Fields) -> Result<(), WriteError> {
        if self.packet.is_some() {
            return Err(self.refuse("the previous packet was not ended".to_owned()));
        }
        let mut packet = OpenPacket {
            encoder: Encoder::new(self.metadata.slots),
            begin: begin.0,
            clock: begin.0,
            fields,
            head: 0,
        };
        let written = self.head(&mut packet, begin.0, 0);
        written.map_err(|reason| self.refuse(reason))?;
        packet.head = packet.encoder.position;
        self.packet = Some(packet);
        Ok(())
    }

    /// Counts lost events, to report in the next packet that ends.
    pub fn discard(&mut self, events: u64) {
        self.discarded = self.discarded.saturating_add(events);
    }

    /// Counts packets lost before the next one.
    pub fn skip_packets(&mut self, packets: u64) {
        self.sequence = self.sequence.saturating_add(packets);
    }

    /// Writes an event. On an error, the packet is unchanged.
    ///
    /// # Errors
    /// [`WriteError::Value`] if no packet is open, the stream has no event class `id`, no event
    /// header can express `time` after the previous event, or values do not fit.
    pub fn event(&mut self, id: u64, time: Ticks, values: &EventValues) -> Result<(), WriteError> {
        let Some(mut packet) = self.packet.take() else {
            return Err(self.refuse("an event was written outside of a packet".to_owned()));
        };
        let before = packet.encoder.mark();
        let written = self.record(&mut packet, id, time.0, values);
        if written.is_err() {
            packet.encoder.go_back(&before);
        }
        self.packet = Some(packet);
        written.map_err(|reason| self.refuse(reason))
    }

    /// Ends the packet and writes it.
    ///
    /// # Errors
    /// [`WriteError::Value`] if no packet is open, [`WriteError::Io`] if it cannot be written.
    pub fn end_packet(&mut self, end: Ticks) -> Result<(), WriteError> {
        self.end_packet_of(end, 0)
    }

    /// Ends the packet, pads it with zeros to `size` bytes and writes it.
    ///
    /// # Errors
    /// [`WriteError::Value`] if no packet is open, [`WriteError::Io`] if it cannot be written.
    pub fn end_packet_of(&mut self, end: Ticks, size: usize) -> Result<(), WriteError> {
        let Some(mut packet) = self.packet.take() else {
            return Err(self.refuse("there is no packet to end".to_owned()));
        };
        let (content, length) = (packet.encoder.position, packet.encoder.bytes.len());
        let mut bytes = std::mem::take(&mut packet.encoder.bytes);
        bytes.resize(length.max(size), 0);
        let total = bytes.len() as u64 * 8;
        packet.encoder = Encoder::new(self.metadata.slots);
        let written = self.sized_head(&mut packet, end.0, content, total);
        written.map_err(|reason| self.refuse(reason))?;
        if packet.encoder.position != packet.head {
            let reason =
                "its header and context changed their size when they were completed".to_owned();
            return Err(self.refuse(reason));
        }
        // The context's last byte may be shared with the first record.
        let whole = usize::try_from(packet.head / 8).unwrap_or(0);
        for (to, from) in bytes.iter_mut().zip(packet.encoder.bytes).take(whole) {
            *to = from;
        }
        self.sequence = self.sequence.saturating_add(1);
        self.out.write_all(&bytes).map_err(|source| WriteError::Io {
            path: PathBuf::from(&self.name),
            source,
        })
    }

    /// Ends the stream; returns the writer's output.
    ///
    /// # Errors
    /// [`WriteError::Value`] if a packet is open, [`WriteError::Io`] if the rest cannot be written.
    pub fn finish(mut self) -> Result<W, WriteError> {
        if self.packet.is_some() {
            return Err(self.refuse("the last packet was not ended".to_owned()));
        }
        match self.out.flush() {
            Ok(()) => Ok(self.out),
            Err(source) => Err(WriteError::Io {
                path: PathBuf::from(&self.name),
                source,
            }),
        }
    }

    fn refuse(&self, reason: String) -> WriteError {
        WriteError::Value {
            stream: self.name.clone(),
            reason,
        }
    }

    fn head(&self, packet: &mut OpenPacket, end: u64, size: u64) -> Encoded<()> {
        self.sized_head(packet, end, size, size)
    }

    fn sized_head(
        &self,
        packet: &mut OpenPacket,
        end: u64,
        content: u64,
        total: u64,
    ) -> Encoded<()> {
        let begin = packet.begin;
        let known = |role| {
            Some(match role {
                Role::PacketMagic => MAGIC,
                Role::StreamClassId => self.class.id,
                Role::PacketTotalLength => total,
                Role::PacketContentLength => content,
                Role::Timestamp => begin,
                Role::PacketEndTimestamp => end,
                Role::DiscardedEvents => self.discarded,
                Role::PacketSequenceNumber => self.sequence,
                _ => return None,
            })
        };
        let parts = [
            self.metadata.trace.packet_header.as_deref(),
            self.class.packet_context.as_deref(),
        ];
        for part in parts.into_iter().flatten() {
            let from = packet.encoder.position;
            packet
                .encoder
                .structure(part, &packet.fields, Some(&known))?;
            self.fill_in_uuid(part, from, &mut packet.encoder)?;
        }
        Ok(())
    }

    /// Writes the trace's UUID into the field of the structure at bit `from` that has this role.
    fn fill_in_uuid(&self, class: &StructClass, from: u64, encoder: &mut Encoder) -> Encoded<()> {
        let Some(uuid) = self.metadata.trace.uuid else {
            return Ok(());
        };
        let mut slots = encoder.slots.clone();
        let mut seen = Seen::default();
        let limit = encoder.position;
        let mut walker = Walker::new(&encoder.bytes, from, limit, &mut slots, Some(&mut seen));
        walker
            .structure(class)
            .map_err(|reason| reason.to_string())?;
        for at in seen.uuids {
            let bytes = usize::try_from(at / 8)
                .ok()
                .and_then(|at| encoder.bytes.get_mut(at..)?.get_mut(..uuid.len()));
            if let Some(bytes) = bytes {
                bytes.copy_from_slice(&uuid);
            }
        }
        Ok(())
    }

    fn record(
        &self,
        packet: &mut OpenPacket,
        id: u64,
        time: u64,
        values: &EventValues,
    ) -> Encoded<()> {
        let Some(class) = self.class.events.get(&id) else {
            return Err(format!("stream class {} has no event {id}", self.class.id));
        };
        let in_event = |reason| format!("event `{}`: {reason}", class.name);
        self.header(packet, class, time).map_err(in_event)?;
        let parts = [
            (&self.class.event_context, &values.stream_context),
            (&class.context, &values.context),
            (&class.fields, &values.fields),
        ];
        for (part, values) in parts {
            match part.as_deref() {
                Some(part) => packet
                    .encoder
                    .structure(part, values, None)
                    .map_err(in_event)?,
                None if values.is_empty() => {}
                None => {
                    return Err(in_event(
                        "values are given for a part that it has not".into(),
                    ));
                }
            }
        }
        if self.class.clock.is_some() {
            packet.clock = time;
        }
        Ok(())
    }

    /// Writes the first header layout that is read back as this id and time.
    fn header(&self, packet: &mut OpenPacket, class: &EventClass, time: u64) -> Encoded<()> {
        let Some(header) = self.class.event_header.as_deref() else {
            return Ok(());
        };
        let begin = packet.encoder.mark();
        for tag in tags(header, class.id) {
            packet.encoder.go_back(&begin);
            let known = |role| match role {
                Role::EventClassId => Some(class.id),
                Role::Timestamp => Some(time),
                _ => None,
            };
            let fields: Fields = tag.into_iter().collect();
            let encoder = &mut packet.encoder;
            if encoder.structure(header, &fields, Some(&known)).is_ok()
                && self.is_read_as(&begin, encoder, header, class.id, (packet.clock, time))
            {
                return Ok(());
            }
        }
        Err(format!(
            "no header of the stream class says id {} and time {time} after time {}",
            class.id, packet.clock
        ))
    }

    fn is_read_as(
        &self,
        begin: &Mark,
        encoder: &Encoder,
        header: &StructClass,
        id: u64,
        (before, time): (u64, u64),
    ) -> bool {
        let (mut slots, mut seen) = (begin.slots.clone(), Seen::default());
        let mut walker = Walker::new(
            &encoder.bytes,
            begin.position,
            encoder.position,
            &mut slots,
            Some(&mut seen),
        );
        let is_id = walker.structure(header).is_ok()
            && seen.value(Role::EventClassId).is_none_or(|seen| seen == id);
        let is_time = self.class.clock.is_none()
            || seen
                .time(before)
                .is_none_or(|(low, size)| tick(before, low, size, u64::MAX) == Tick::To(time));
        is_id && is_time
    }
}

/// The values to try for the field that selects an event header's layout: for each layout the id,
/// if it selects the layout, or else the lowest value that does. `None` if there is only one
/// layout.
fn tags(header: &StructClass, id: u64) -> Vec<Option<(Arc<str>, crate::Value)>> {
    let variant = header
        .members
        .iter()
        .find_map(|member| match &member.class {
            FieldClass::Variant(class) => Some(class),
            _ => None,
        });
    let selector = variant.and_then(|variant| {
        header.members.iter().find(|member| {
            let integer = member.class.storage();
            integer.is_some_and(|integer| integer.slot == variant.selector.slot)
        })
    });
    let (Some(variant), Some(selector)) = (variant, selector) else {
        return vec![None];
    };
    let tag = |range: &crate::class::IntRange| {
        let low = u64::try_from(range.low.max(0)).ok()?;
        let tag = if range.has(id.into()) { id } else { low };
        Some(Some((Arc::clone(&selector.name), crate::Value::UInt(tag))))
    };
    let choices = variant.choices.iter();
    choices.filter_map(|choice| tag(&choice.range)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, StreamReader, Value};

    /// LTTng's compact header, and fields of most kinds.
    const METADATA: &str = r#"/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 32; align = 8; } := u32;
        typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
        trace {
            major = 1; minor = 8; byte_order = le; uuid = "00112233-4455-6677-8899-aabbccddeeff";
            packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; };
        };
        clock { name = c; freq = 1000000000; };
        stream {
            id = 3;
            packet.context := struct {
                time timestamp_begin; time timestamp_end;
                integer { size = 64; align = 8; } content_size;
                integer { size = 64; align = 8; } packet_size;
                integer { size = 64; align = 8; } packet_seq_num;
                u32 events_discarded; u32 cpu_id;
            };
            event.header := struct {
                enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
                variant <id> {
                    struct { integer { size = 27; align = 1; map = clock.c.value; } timestamp; }
                        compact;
                    struct { u32 id; time timestamp; } extended;
                } v;
            } align(8);
            event.context := struct { integer { size = 32; align = 8; signed = true; } tid; };
        };
        event {
            id = 5; stream_id = 3; name = all;
            fields := struct {
                string path; integer { size = 8; align = 8; encoding = UTF8; } comm[16];
                u8 count; integer { size = 16; align = 8; byte_order = be; } list[count];
                integer { size = 3; align = 1; } three; integer { size = 7; align = 1; } seven;
                floating_point { exp_dig = 11; mant_dig = 53; align = 8; } number;
                enum : u8 { number, text } kind;
                variant <kind> { u32 number; string text; } what;
            };
        };
        event { id = 400; stream_id = 3; name = large_id; };"#;

    fn values(step: u64) -> EventValues {
        let what = match step % 2 {
            0 => ("number", Value::UInt(step)),
            _ => ("text", Value::Str(format!("text {step}"))),
        };
        let list = (0..step % 4).map(|at| Value::UInt(at * 1000)).collect();
        let fields = [
            ("path", Value::Str("/a/b".to_owned())),
            ("comm", Value::Str("init".to_owned())),
            ("count", Value::UInt(step % 4)),
            ("list", Value::Array(list)),
            ("three", Value::UInt(step % 8)),
            ("seven", Value::UInt(step % 128)),
            ("number", Value::Float(step as f64 / 3.0)),
            ("kind", Value::UInt(step % 2)),
            (
                "what",
                Value::Variant {
                    option: Arc::from(what.0),
                    value: Box::new(what.1),
                },
            ),
        ];
        EventValues {
            stream_context: Fields::from_iter([("tid", Value::Int(-5))]),
            fields: Fields::from_iter(fields),
            ..EventValues::default()
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let metadata = Arc::new(Metadata::parse(METADATA).unwrap());
        let mut writer = StreamWriter::new(&metadata, 3, "s", Vec::new()).unwrap();
        // Steps within 27 bits and beyond.
        let times = [1_000, 1_000, 5_000_000, 1 << 28, (1 << 28) + 3, 1 << 40];
        let cpu = || Fields::from_iter([("cpu_id", Value::UInt(2))]);
        for packet in 0..3 {
            let time = |at: u64| Ticks((packet << 41) + at);
            writer.begin_packet(time(10), cpu()).unwrap();
            for (step, at) in (0..).zip(times) {
                writer.event(5, time(at), &values(step)).unwrap();
            }
            let context = EventValues {
                fields: Fields::default(),
                ..values(0)
            };
            writer.event(400, time(1 << 40), &context).unwrap();
            assert!(writer.event(401, time(1 << 40), &context).is_err());
            assert!(writer.event(5, time(0), &values(0)).is_err());
            assert!(writer.event(5, time(1 << 40), &context).is_err());
            writer.discard(packet);
            writer.skip_packets(packet / 2);
            writer.end_packet_of(time((1 << 40) + 9), 4096).unwrap();
        }
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes.len(), 3 * 4096);
        let (mut events, mut losses) = (0, Vec::new());
        for item in StreamReader::new(Arc::clone(&metadata), "s", &bytes[..]).strict(true) {
            match item.unwrap() {
                Item::Event(event) => {
                    let (packet, step) = (events / 7, events % 7);
                    let at = times.get(step as usize).copied().unwrap_or(1 << 40);
                    assert_eq!(event.time, Some(Ticks((packet << 41) + at)));
                    assert_eq!(event.packet.cpu, Some(2));
                    assert_eq!(event.stream_context.get("tid"), Some(&Value::Int(-5)));
                    if step < 6 {
                        let written = values(step);
                        for (name, value) in event.fields.iter().filter(|(name, _)| *name != "kind")
                        {
                            assert_eq!(Some(value), written.fields.get(name), "{name}");
                        }
                    }
                    events += 1;
                }
                Item::Loss(loss) => losses.push((loss.kind, loss.count)),
                item => panic!("{item:?}"),
            }
        }
        assert_eq!(events, 21);
        use crate::LossKind::{Events, Packets};
        assert_eq!(losses, [(Events, 1), (Events, 2), (Packets, 1)]);
    }
}
