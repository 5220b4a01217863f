//! The metadata (TSDL) of a session, from the declarations.

use core::fmt::{self, Write};

use crate::counter::{CounterSchema, Counters, Kind, PREFIX};
use crate::event::{Event, EventSchema, FieldType, Vocabulary};
use crate::ring::layout::{ChannelKind, Clock, ID_BITS, TIME_BITS};
use crate::text::write_number;
use crate::vocabulary::ClockStep;

/// What the metadata says besides the events.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// UUID of the trace.
    pub uuid: [u8; 16],
    /// The clock.
    pub clock: Clock,
    /// Whether this is a user-space program.
    pub hosted: bool,
    /// Whether there are streams of samples.
    pub samples: bool,
    /// The kernel's own counters, whose names the metadata tells.
    pub counters: Counters,
}

/// Writes the metadata.
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write(out: &mut impl Write, session: &Session, vocabulary: &Vocabulary) -> fmt::Result {
    let counters = || session.counters.list().iter().copied().copied();
    write_head(out, session, |out| {
        counters().try_for_each(|counter| write_counter(out, &counter))
    })?;
    let is_there = |kind| session.samples || kind != ChannelKind::Samples;
    let events = vocabulary.events().iter();
    for event in events.filter(|event| is_there(event.channel)) {
        if let Some(kind) = counts(event) {
            write_counter_numbers(out, kind, counters())?;
        }
        write_event(out, event)?;
    }
    for channel in ChannelKind::ALL.into_iter().filter(|&kind| is_there(kind)) {
        let step = EventSchema {
            channel,
            ..ClockStep::SCHEMA
        };
        write_event(out, &step)?;
    }
    Ok(())
}

/// Writes what stands before the events, with what `environment` adds to the trace's environment.
/// It formats nothing, because formatting takes more code than all the rest of a small kernel's
/// tracing.
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write_head<W: Write>(
    out: &mut W,
    session: &Session,
    environment: impl FnOnce(&mut W) -> fmt::Result,
) -> fmt::Result {
    let clock = session.clock;
    out.write_str(TYPES)?;
    out.write_str("\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"")?;
    write_uuid(out, &session.uuid)?;
    out.write_str("\";\n\tbyte_order = ")?;
    out.write_str(byte_order())?;
    out.write_str(PACKET_HEADER)?;
    out.write_str("env {\n\tdomain = \"")?;
    out.write_str(if session.hosted { "ust" } else { "bare" })?;
    out.write_str(TRACER)?;
    environment(out)?;
    out.write_str("};\n\nclock {\n\tname = kymo;\n\tuuid = \"")?;
    write_uuid(out, &session.uuid)?;
    out.write_str("\";\n\tdescription = \"clock of the traced system\";\n\tfreq = ")?;
    write_number(out, clock.frequency_hz)?;
    out.write_str(";\n\tprecision = 1;\n\toffset_s = ")?;
    if clock.offset_seconds < 0 {
        out.write_char('-')?;
    }
    write_number(out, clock.offset_seconds.unsigned_abs())?;
    out.write_str(";\n\toffset = ")?;
    write_number(out, clock.offset_ticks)?;
    out.write_str(";\n\tabsolute = ")?;
    out.write_str(if clock.absolute { "TRUE" } else { "FALSE" })?;
    out.write_str(TIMES)?;
    let is_there = |kind| session.samples || kind != ChannelKind::Samples;
    for kind in ChannelKind::ALL.into_iter().filter(|&kind| is_there(kind)) {
        out.write_str("stream {\n\tid = ")?;
        write_number(out, kind as u64)?;
        out.write_str(STREAM)?;
    }
    Ok(())
}

/// Readers recognise the format by these very first bytes.
const TYPES: &str = "/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 8; align = 8; signed = true; } := int8_t;
typealias integer { size = 8; align = 8; signed = false; base = 16; } := hex8_t;
typealias integer { size = 16; align = 16; signed = false; } := uint16_t;
typealias integer { size = 16; align = 16; signed = true; } := int16_t;
typealias integer { size = 16; align = 16; signed = false; base = 16; } := hex16_t;
typealias integer { size = 32; align = 32; signed = false; } := uint32_t;
typealias integer { size = 32; align = 32; signed = true; } := int32_t;
typealias integer { size = 32; align = 32; signed = false; base = 16; } := hex32_t;
typealias integer { size = 64; align = 32; signed = false; } := uint64_t;
typealias integer { size = 64; align = 32; signed = true; } := int64_t;
typealias integer { size = 64; align = 32; signed = false; base = 16; } := hex64_t;
typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := utf8_t;
typealias integer { size = 31; align = 32; signed = false; } := length_t;
typealias integer { size = 1; align = 1; signed = false; } := flag_t;
";

/// From the byte order to the end of the trace's block.
const PACKET_HEADER: &str = ";
\tpacket.header := struct {
\t\tuint32_t magic;
\t\tuint8_t uuid[16];
\t\tuint32_t stream_id;
\t\tuint64_t stream_instance_id;
\t};
};

";

/// From the domain to the end of the tracer's version.
const TRACER: &str = concat!(
    "\";\n\ttracer_name = \"kymo\";\n\ttracer_major = ",
    env!("CARGO_PKG_VERSION_MAJOR"),
    ";\n\ttracer_minor = ",
    env!("CARGO_PKG_VERSION_MINOR"),
    ";\n"
);

/// From the end of the clock to the streams: the types with a time.
const TIMES: &str = ";
};

typealias integer { size = 64; align = 32; signed = false; map = clock.kymo.value; } := time_t;
typealias integer { size = 27; align = 1; signed = false; map = clock.kymo.value; } := low_time_t;

";

/// What follows the number of a stream. The compact header is that which readers know from LTTng,
/// with a medium form between. The medium id is aligned to a bit: a larger alignment would move the
/// structure, and with it the time in front of the id.
const STREAM: &str = ";
\tevent.header := struct {
\t\tenum : integer { size = 5; align = 1; signed = false; } \
{ compact = 1 ... 29, medium = 30, extended = 31 } id;
\t\tvariant <id> {
\t\t\tstruct { low_time_t timestamp; } compact;
\t\t\tstruct { low_time_t timestamp; \
integer { size = 32; align = 1; signed = false; } id; } medium;
\t\t\tstruct { uint32_t id; time_t timestamp; } extended;
\t\t} v;
\t} align(32);
\tpacket.context := struct {
\t\ttime_t timestamp_begin;
\t\ttime_t timestamp_end;
\t\tuint64_t content_size;
\t\tuint64_t packet_size;
\t\tuint64_t packet_seq_num;
\t\tuint64_t events_discarded;
\t\tuint32_t cpu_id;
\t};
};

";

const _: () = assert!(
    ID_BITS == 5 && TIME_BITS == 27,
    "the texts above have these"
);

fn byte_order() -> &'static str {
    if cfg!(target_endian = "big") {
        "be"
    } else {
        "le"
    }
}

/// Writes what a counter is called and counts into the environment:
/// `kymo_counter_0 = "sched_enqueued: counter of 64 bits, threads: Threads that became ready."`.
/// [`Declaration`](crate::counter::Declaration) reads it.
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write_counter(out: &mut impl Write, counter: &CounterSchema) -> fmt::Result {
    let CounterSchema {
        id,
        name,
        unit,
        doc,
        kind,
    } = counter;
    out.write_char('\t')?;
    out.write_str(PREFIX)?;
    write_number(out, (*id).into())?;
    for part in [" = \"", name, ": ", kind.name(), " of "] {
        out.write_str(part)?;
    }
    write_number(out, usize::BITS.into())?;
    for part in [" bits, ", unit, ":"] {
        out.write_str(part)?;
    }
    for char in doc.chars().filter(|char| !matches!(char, '\n' | '\r')) {
        if matches!(char, '"' | '\\') {
            out.write_char('\\')?;
        }
        out.write_char(char)?;
    }
    out.write_str("\";\n")
}

/// The kind of counter whose values an event has.
fn counts(event: &EventSchema) -> Option<Kind> {
    let mut kinds = Kind::ALL.into_iter();
    kinds.find(|kind| kind.event().id == event.id)
}

/// How the name of the type ends that the numbers of a kind of counter have: `counter_number_t`.
const NUMBER_TYPE: &str = "_number_t";

/// Writes the type of the numbers of this kind's counters, which [`write_event`] expects before the
/// event with their values: the names are labels.
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write_counter_numbers(
    out: &mut impl Write,
    kind: Kind,
    counters: impl Iterator<Item = CounterSchema>,
) -> fmt::Result {
    let mut before = "typealias enum : uint32_t { \"";
    for counter in counters.filter(|counter| counter.kind == kind) {
        for part in [before, counter.name, "\" = "] {
            out.write_str(part)?;
        }
        write_number(out, counter.id.into())?;
        before = ", \"";
    }
    out.write_str(if before == ", \"" {
        " }"
    } else {
        "typealias integer { size = 32; align = 32; signed = false; }"
    })?;
    for part in [" := ", kind.name(), NUMBER_TYPE, ";\n\n"] {
        out.write_str(part)?;
    }
    Ok(())
}

/// Writes the declaration of one event. The field with a counter's number has the type that
/// [`write_counter_numbers`] has written before.
///
/// # Errors
/// Those of `out`, when it is full.
pub fn write_event(out: &mut impl Write, event: &EventSchema) -> fmt::Result {
    let counts = counts(event);
    writeln!(
        out,
        "event {{\n\tname = \"{}\";\n\tid = {};\n\tstream_id = {};",
        event.name, event.id, event.channel as u32
    )?;
    out.write_str("\tfields := struct {\n")?;
    for field in event.fields {
        // Readers strip one underscore; it keeps the names apart from keywords and type names.
        let name = field.name;
        out.write_str("\t\t")?;
        match field.ty {
            FieldType::Text { .. } => {
                write!(
                    out,
                    "length_t __{name}_length; flag_t __{name}_cut; utf8_t _{name}[__{name}_length]"
                )?;
            }
            FieldType::Sequence { element, .. } => {
                write!(out, "length_t __{name}_length; flag_t __{name}_cut; ")?;
                type_name(out, element)?;
                write!(out, " _{name}[__{name}_length]")?;
            }
            FieldType::Array { .. } => {
                let mut ty = field.ty;
                while let FieldType::Array { element, .. } = ty {
                    ty = *element;
                }
                type_name(out, &ty)?;
                write!(out, " _{name}")?;
                let mut ty = field.ty;
                while let FieldType::Array { element, len } = ty {
                    write!(out, "[{len}]")?;
                    ty = *element;
                }
            }
            ty => {
                match counts {
                    Some(kind) if name == "counter" => {
                        write!(out, "{}{NUMBER_TYPE}", kind.name())?;
                    }
                    _ => type_name(out, &ty)?,
                }
                write!(out, " _{name}")?;
            }
        }
        out.write_str(";\n")?;
    }
    out.write_str("\t};\n};\n\n")
}

fn type_name(out: &mut impl Write, ty: &FieldType) -> fmt::Result {
    match ty {
        FieldType::Unsigned { bits, base: 16 } => write!(out, "hex{bits}_t"),
        FieldType::Unsigned { bits, .. } => write!(out, "uint{bits}_t"),
        FieldType::Signed { bits } => write!(out, "int{bits}_t"),
        FieldType::Enumeration { bits, labels } => {
            write!(out, "enum : uint{bits}_t {{ ")?;
            for (index, (label, value)) in labels.iter().enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                write!(out, "{comma}\"{label}\" = {value}")?;
            }
            out.write_str(" }")
        }
        // Declared field by field above.
        FieldType::Array { .. } | FieldType::Text { .. } | FieldType::Sequence { .. } => {
            Err(fmt::Error)
        }
    }
}

fn write_uuid(out: &mut impl Write, uuid: &[u8; 16]) -> fmt::Result {
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.write_char('-')?;
        }
        for digit in [byte >> 4, byte & 15] {
            let digit = char::from_digit(digit.into(), 16).ok_or(fmt::Error)?;
            out.write_char(digit)?;
        }
    }
    Ok(())
}

/// A UUID as text.
#[derive(Clone, Copy, Debug)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(f, &self.0)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_formatter() {
        for number in [0, 9, 10, 1_000_000_007, u64::MAX] {
            let mut text = String::new();
            write_number(&mut text, number).unwrap();
            assert_eq!(text, number.to_string());
        }
    }
}
