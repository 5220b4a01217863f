//! The metadata (TSDL) of a session, from the declarations.

use core::fmt::{self, Write};

use crate::counter::{CounterSchema, Counters, Kind, PREFIX};
use crate::event::{Event, EventSchema, FieldType, Vocabulary};
use crate::ring::layout::{ChannelKind, Clock, ID_BITS, TIME_BITS};
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
    let uuid = Uuid(session.uuid);
    let clock = session.clock;
    // Readers recognise the format by these very first bytes.
    out.write_str("/* CTF 1.8 */\n\n")?;
    for bits in [8, 16, 32, 64] {
        let align = bits.min(32);
        for (signed, letter) in [("false", "u"), ("true", "")] {
            writeln!(
                out,
                "typealias integer {{ size = {bits}; align = {align}; signed = {signed}; }} := \
                 {letter}int{bits}_t;"
            )?;
        }
        writeln!(
            out,
            "typealias integer {{ size = {bits}; align = {align}; signed = false; base = 16; }} := \
             hex{bits}_t;"
        )?;
    }
    writeln!(
        out,
        "typealias integer {{ size = 8; align = 8; signed = false; encoding = UTF8; }} := utf8_t;"
    )?;
    writeln!(
        out,
        "typealias integer {{ size = 31; align = 32; signed = false; }} := length_t;"
    )?;
    writeln!(
        out,
        "typealias integer {{ size = 1; align = 1; signed = false; }} := flag_t;"
    )?;
    writeln!(
        out,
        "\ntrace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = {};",
        byte_order()
    )?;
    out.write_str(
        "\tpacket.header := struct {\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\t\tuint32_t stream_id;\n\
         \t\tuint64_t stream_instance_id;\n\t};\n};\n\n",
    )?;
    let domain = if session.hosted { "ust" } else { "bare" };
    writeln!(
        out,
        "env {{\n\tdomain = \"{domain}\";\n\ttracer_name = \"kymo\";\n\ttracer_major = \
         {};\n\ttracer_minor = {};",
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR")
    )?;
    for counter in session.counters.list() {
        write_counter(out, counter)?;
    }
    out.write_str("};\n\n")?;
    writeln!(
        out,
        "clock {{\n\tname = kymo;\n\tuuid = \"{uuid}\";\n\tdescription = \"clock of the traced \
         system\";"
    )?;
    writeln!(
        out,
        "\tfreq = {};\n\tprecision = 1;\n\toffset_s = {};\n\toffset = {};\n\tabsolute = {};\n}};\n",
        clock.frequency_hz,
        clock.offset_seconds,
        clock.offset_ticks,
        if clock.absolute { "TRUE" } else { "FALSE" }
    )?;
    writeln!(
        out,
        "typealias integer {{ size = 64; align = 32; signed = false; map = clock.kymo.value; }} := \
         time_t;"
    )?;
    writeln!(
        out,
        "typealias integer {{ size = {TIME_BITS}; align = 1; signed = false; map = \
         clock.kymo.value; }} := low_time_t;\n"
    )?;
    let is_there = |kind| session.samples || kind != ChannelKind::Samples;
    for kind in ChannelKind::ALL.into_iter().filter(|&kind| is_there(kind)) {
        stream(out, kind)?;
    }
    let events = vocabulary.events().iter();
    for event in events.filter(|event| is_there(event.channel)) {
        write_event(out, event, session.counters)?;
    }
    for channel in ChannelKind::ALL.into_iter().filter(|&kind| is_there(kind)) {
        let step = EventSchema {
            channel,
            ..ClockStep::SCHEMA
        };
        write_event(out, &step, session.counters)?;
    }
    Ok(())
}

fn byte_order() -> &'static str {
    if cfg!(target_endian = "big") {
        "be"
    } else {
        "le"
    }
}

fn stream(out: &mut impl Write, kind: ChannelKind) -> fmt::Result {
    writeln!(out, "stream {{\n\tid = {};", kind as u32)?;
    // The compact header that readers know from LTTng, with a medium form between. The medium id is
    // aligned to a bit: a larger alignment would move the structure, and with it the time in front
    // of the id.
    write!(
        out,
        "\tevent.header := struct {{\n\
         \t\tenum : integer {{ size = {ID_BITS}; align = 1; signed = false; }} {{ compact = 1 ... 29, medium = 30, extended = 31 }} id;\n\
         \t\tvariant <id> {{\n\
         \t\t\tstruct {{ low_time_t timestamp; }} compact;\n\
         \t\t\tstruct {{ low_time_t timestamp; integer {{ size = 32; align = 1; signed = false; }} id; }} medium;\n\
         \t\t\tstruct {{ uint32_t id; time_t timestamp; }} extended;\n\
         \t\t}} v;\n\
         \t}} align(32);\n"
    )?;
    out.write_str(
        "\tpacket.context := struct {\n\t\ttime_t timestamp_begin;\n\t\ttime_t timestamp_end;\n\t\tuint64_t content_size;\n\
         \t\tuint64_t packet_size;\n\t\tuint64_t packet_seq_num;\n\t\tuint64_t events_discarded;\n\t\tuint32_t cpu_id;\n\t};\n};\n\n",
    )
}

/// Writes what a counter is called and counts into the environment:
/// `kymo_counter_0 = "sched_enqueued: counter of 64 bits, threads: Threads that became ready."`.
/// [`Declaration`](crate::counter::Declaration) reads it.
fn write_counter(out: &mut impl Write, counter: &CounterSchema) -> fmt::Result {
    let CounterSchema {
        id,
        name,
        unit,
        doc,
        kind,
    } = counter;
    let (kind, bits) = (kind.name(), usize::BITS);
    write!(
        out,
        "\t{PREFIX}{id} = \"{name}: {kind} of {bits} bits, {unit}:"
    )?;
    for line in doc.lines() {
        for char in line.chars() {
            match char {
                '"' | '\\' => write!(out, "\\{char}")?,
                _ => out.write_char(char)?,
            }
        }
    }
    out.write_str("\";\n")
}

/// The kind of counter whose values an event has.
fn counts(event: &EventSchema) -> Option<Kind> {
    let mut kinds = Kind::ALL.into_iter();
    kinds.find(|kind| kind.event().id == event.id)
}

/// Writes the type of the field with a counter's number: the names are labels.
fn counter_number(out: &mut impl Write, kind: Kind, counters: Counters) -> fmt::Result {
    let mut before = "enum : uint32_t { ";
    let list = counters.list().iter();
    for counter in list.filter(|counter| counter.kind == kind) {
        write!(out, "{before}\"{}\" = {}", counter.name, counter.id)?;
        before = ", ";
    }
    out.write_str(if before == ", " { " }" } else { "uint32_t" })
}

fn write_event(out: &mut impl Write, event: &EventSchema, counters: Counters) -> fmt::Result {
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
                    Some(kind) if name == "counter" => counter_number(out, kind, counters)?,
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

/// A UUID as text.
#[derive(Clone, Copy, Debug)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}
