//! The lines of babeltrace2 (its sink `text.pretty`, as it is without options), so that what reads
//! those can read these.
//!
//! They are the same to the letter, with what babeltrace2 2.0.4 makes of times by computing in
//! floating-point numbers. Not copied are two of its mistakes: empty text is shown as the text that
//! the field had before, and after the first time before 1970 those after it are shown as if they
//! were later.

use std::io::Write as _;

use kymo_ctf::{
    ArrayClass, Base, ClockClass, Compound, EventRef, FieldClass, FloatClass, IntegerClass, Loss,
    Mapping, Member, Metadata, Problem, Role, Scope, StructClass, TextEncoding, Ticks, TraceMap,
    VarIntClass, Visitor, WideInt, WideKind,
};
use kymo_text::{decimal, element, hexadecimal_digits, nine_digits};

use super::plan::{FieldWriter, Form};
use super::text::{consequence, lost};
use super::wall::{Wall, Zone};
use super::{Page, escape_controls};

/// The form of babeltrace2.
pub struct Babeltrace {
    wall: Wall,
    /// The time of the event before.
    last: Option<i128>,
    streams: Vec<Stream>,
}

/// What all lines of a stream have in common.
struct Stream {
    /// Where it was recorded: host, program and process, as far as the trace says so.
    origin: Vec<u8>,
    /// Whether names of fields may have any character in them (CTF 2).
    free_names: bool,
}

/// How a clock's ticks become nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    base: i128,
    frequency: u64,
}

const NANOS: u64 = 1_000_000_000;

impl Times {
    fn of(clock: &ClockClass) -> Times {
        let frequency = clock.frequency.max(1);
        let seconds = i128::from(clock.offset_s) + i128::from(clock.offset / frequency);
        let rest = Times { base: 0, frequency }.nanos(Ticks(clock.offset % frequency));
        Times {
            base: seconds * i128::from(NANOS) + rest,
            frequency,
        }
    }

    /// As babeltrace2 has it, for clocks of 1 GHz exactly: others by way of a floating-point
    /// number, rounded down.
    #[inline]
    fn nanos(&self, ticks: Ticks) -> i128 {
        let nanos = match self.frequency {
            NANOS => ticks.0,
            frequency => (1e9 * ticks.0 as f64 / frequency as f64) as u64,
        };
        self.base + i128::from(nanos)
    }
}

impl Babeltrace {
    pub fn new(map: &TraceMap, zone: Zone) -> Babeltrace {
        let streams = map.streams().map(|(metadata, _, _)| Stream::new(metadata));
        Babeltrace {
            wall: Wall::new(zone),
            last: None,
            streams: streams.collect(),
        }
    }

    fn stream(&self, event: &EventRef<'_>) -> Option<&Stream> {
        self.streams.get(event.stream_index())
    }
}

impl Stream {
    fn new(metadata: &Metadata) -> Stream {
        let get = |name: &str| {
            metadata
                .env()
                .iter()
                .find(|(have, _)| have == name)
                .map(|(_, value)| value.to_string())
        };
        let process = get("vpid").map(|process| format!("({process})"));
        let origin: Vec<String> = [get("hostname"), get("procname"), process]
            .into_iter()
            .flatten()
            .collect();
        let mut origin = origin.join(":");
        if !origin.is_empty() {
            origin.push(' ');
        }
        escape_controls(&mut origin);
        Stream {
            origin: origin.into_bytes(),
            free_names: metadata.trace().major > 1,
        }
    }
}

impl Form for Babeltrace {
    type Clock = Option<Times>;
    type Writer<'b> = Fields<'b>;

    const DECIMAL: bool = false;

    fn clock(&self, clock: Option<&ClockClass>) -> Option<Times> {
        clock.map(Times::of)
    }

    /// What of the packet concerns its events.
    fn packet(&self, event: &EventRef<'_>, shared: &mut Vec<u8>) {
        let mut fields = Fields {
            line: shared,
            is_first: true,
            free_names: self.stream(event).is_none_or(|stream| stream.free_names),
            of_packet: true,
        };
        event.visit_packet_context(&mut fields);
        if shared == b"{ }" {
            shared.clear();
        }
    }

    #[inline]
    fn time(&mut self, event: &EventRef<'_>, clock: &Option<Times>, line: &mut Vec<u8>) {
        if let Some((times, ticks)) = clock.as_ref().zip(event.time()) {
            let nanos = times.nanos(ticks);
            let last = self.last.replace(nanos);
            write_times(line, &mut self.wall, nanos, last.map(|last| nanos - last));
        }
    }

    fn head(&self, event: &EventRef<'_>, shared: &[u8], line: &mut Vec<u8>) {
        if let Some(stream) = self.stream(event) {
            line.extend_from_slice(&stream.origin);
        }
        let mut name = event.name().to_owned();
        escape_controls(&mut name);
        let name = if name.is_empty() { "<unknown>" } else { &name };
        line.extend_from_slice(name.as_bytes());
        line.extend_from_slice(b": ");
        line.extend_from_slice(shared);
    }

    #[inline]
    fn fields<'b>(&self, event: &EventRef<'_>, shared: &[u8], line: &'b mut Vec<u8>) -> Fields<'b> {
        Fields {
            line,
            is_first: shared.is_empty(),
            free_names: self.stream(event).is_none_or(|stream| stream.free_names),
            of_packet: false,
        }
    }

    fn loss(&mut self, loss: &Loss, page: &mut Page) {
        let _ = write!(
            page.messages,
            "kymo: {} {} lost on {} between [",
            loss.count,
            lost(loss),
            loss.stream.escape_debug()
        );
        let times = [loss.begin_nanos, loss.end_nanos];
        for (nanos, behind) in times.into_iter().zip(["] and [", "]\n"]) {
            match nanos {
                Some(nanos) => self.wall.write(&mut page.messages, nanos),
                None => page.messages.push(b'?'),
            }
            page.messages.extend_from_slice(behind.as_bytes());
        }
    }

    fn problem(&mut self, problem: &Problem, page: &mut Page) {
        message(page, problem.to_string());
    }

    fn error(&mut self, error: &kymo_ctf::Error, page: &mut Page) {
        message(page, consequence(error));
    }
}

fn message(page: &mut Page, mut text: String) {
    escape_controls(&mut text);
    let _ = writeln!(page.messages, "kymo: {text}");
}

/// The time, and how much later it is than the one before: `[01:02:03.123456789] (+0.000000428) `.
#[inline]
fn write_times(line: &mut Vec<u8>, wall: &mut Wall, nanos: i128, delta: Option<i128>) {
    let delta = delta.map(|delta| u64::try_from(delta).unwrap_or(u64::MAX));
    if let (Some(delta @ 0..NANOS), Some(time)) = (delta, wall.time(nanos)) {
        let mut text = *b"[hh:mm:ss.nnnnnnnnn] (+0.nnnnnnnnn) ";
        if let Some(place) = text.get_mut(1..19) {
            place.copy_from_slice(&time);
        }
        if let Some(place) = text.get_mut(25..34) {
            place.copy_from_slice(&nine_digits(delta as u32));
        }
        line.extend_from_slice(&text);
        return;
    }
    line.push(b'[');
    wall.write(line, nanos);
    let _ = match delta {
        // Back in time is as far forward as 64 bits go.
        Some(delta) => write!(line, "] (+{}.{:09}) ", delta / NANOS, delta % NANOS),
        None => write!(line, "] (+?.?????????) "),
    };
}

/// Writes fields.
pub struct Fields<'b> {
    line: &'b mut Vec<u8>,
    /// Whether nothing was written yet.
    is_first: bool,
    free_names: bool,
    /// Whether these are a packet's, of which only some concern its events.
    of_packet: bool,
}

/// Members of the packet context that say something of the packet and not of its events.
const OF_THE_PACKET: [&str; 6] = [
    "timestamp_begin",
    "timestamp_end",
    "content_size",
    "packet_size",
    "packet_seq_num",
    "events_discarded",
];

fn is_of_the_packet(member: &Member) -> bool {
    let roles = member.class.roles();
    !roles.is_empty() && !roles.has(Role::CpuId) || OF_THE_PACKET.contains(&&*member.name)
}

impl<'a> FieldWriter<'a> for Fields<'_> {
    fn line(&mut self) -> &mut Vec<u8> {
        self.line
    }

    #[inline]
    fn finish(&mut self) {
        self.line.push(b'\n');
    }
}

impl<'a> Visitor<'a> for Fields<'_> {
    #[inline]
    fn scope(&mut self, _: Scope) {
        if !self.is_first {
            self.line.extend_from_slice(b", ");
        }
        self.is_first = false;
    }

    #[inline]
    fn structure(&mut self, _: &'a StructClass) {
        self.line.push(b'{');
    }

    #[inline]
    fn member(&mut self, member: &'a Member) -> bool {
        if self.of_packet && is_of_the_packet(member) {
            return false;
        }
        // No value ends with this brace.
        if self.line.last() == Some(&b'{') {
            self.line.push(b' ');
        } else {
            self.line.extend_from_slice(b", ");
        }
        if self.free_names {
            let mut name = member.name.to_string();
            escape_controls(&mut name);
            self.line.extend_from_slice(name.as_bytes());
        } else {
            self.line.extend_from_slice(member.name.as_bytes());
        }
        self.line.extend_from_slice(b" = ");
        true
    }

    #[inline]
    fn array(&mut self, _: &'a ArrayClass, _: u64) {
        self.line.push(b'[');
    }

    #[inline]
    fn element(&mut self, index: u64) {
        element(self.line, index);
    }

    #[inline]
    fn variant(&mut self, _: &'a Member) {
        self.line.extend_from_slice(b"{ ");
    }

    #[inline]
    fn end(&mut self, of: Compound) {
        self.line
            .extend_from_slice(if of == Compound::Array { b" ]" } else { b" }" });
    }

    #[inline]
    fn integer(&mut self, class: &'a FieldClass, integer: &'a IntegerClass, bits: u64) {
        match class {
            FieldClass::Integer(_) => self.integer_number(integer, bits),
            FieldClass::Bool(_) => {
                self.line
                    .extend_from_slice(if bits != 0 { b"true" } else { b"false" })
            }
            FieldClass::Enum(class) => {
                let value = integer.value(bits);
                self.labels(&class.mappings, |mapping| mapping.holds(value));
                self.integer_number(integer, bits);
                self.line.extend_from_slice(b" )");
            }
            FieldClass::BitMap(class) => {
                let active = class.active(bits);
                self.labels(&class.flags, |flag| active.contains(&&flag.label));
                let _ = write!(self.line, "0x{bits:X} )");
            }
            _ => {
                self.line.extend_from_slice(b"0x");
                hexadecimal_digits(self.line, bits, b'A');
            }
        }
    }

    fn var_int(&mut self, class: &'a VarIntClass, bits: u64) {
        if let Some(mappings) = &class.mappings {
            let value = if class.signed {
                bits.cast_signed().into()
            } else {
                bits.into()
            };
            self.labels(mappings, |mapping| mapping.holds(value));
        }
        self.number(bits, 64, class.signed, class.base);
        if class.mappings.is_some() {
            self.line.extend_from_slice(b" )");
        }
    }

    fn wide(&mut self, class: &'a FieldClass, value: WideInt) {
        let (base, kind, size) = match class {
            FieldClass::Wide(class) => (class.base, Some(&class.kind), class.size),
            FieldClass::VarInt(class) => (class.base, None, value.bits().next_multiple_of(64)),
            _ => (Base::Decimal, None, 0),
        };
        match kind {
            Some(WideKind::Bool) => {
                self.line
                    .extend_from_slice(if value.is_zero() { b"false" } else { b"true" })
            }
            Some(WideKind::BitArray) => drop(write!(self.line, "{value:#X}")),
            Some(WideKind::BitMap(flags)) => {
                let active = class.active(&value);
                self.labels(flags, |flag| active.contains(&&flag.label));
                let _ = write!(self.line, "{value:#X} )");
            }
            _ => {
                if let Some(mappings) = class.mappings() {
                    self.labels(mappings, |mapping| mapping.range.holds_wide(&value));
                }
                self.wide_number(&value, base, size);
                if class.mappings().is_some() {
                    self.line.extend_from_slice(b" )");
                }
            }
        }
    }

    #[inline]
    fn float(&mut self, _: &'a FloatClass, value: f64) {
        kymo_text::general(self.line, value);
    }

    #[inline]
    fn text(&mut self, bytes: &'a [u8], encoding: TextEncoding) {
        match encoding {
            TextEncoding::Utf8 => {
                let text = bytes.split(|&byte| byte == 0).next().unwrap_or(bytes);
                quoted(self.line, text);
            }
            encoding => quoted(self.line, encoding.decode(bytes).as_bytes()),
        }
    }

    fn blob(&mut self, bytes: &'a [u8]) {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = write!(self.line, "<{}>", bytes.join(" "));
    }

    fn absent(&mut self) {
        self.line.extend_from_slice(b"<none>");
    }
}

impl Fields<'_> {
    #[inline]
    fn integer_number(&mut self, class: &IntegerClass, bits: u64) {
        let bits = match class.signed {
            true => class.sign_extend(bits).cast_unsigned(),
            false => bits,
        };
        self.number(bits, class.size, class.signed, class.base);
    }

    /// `bits` are extended to 64 by the sign, if there is one.
    #[inline]
    fn number(&mut self, bits: u64, size: u8, signed: bool, base: Base) {
        match base {
            Base::Decimal if signed => kymo_text::signed(self.line, bits.cast_signed()),
            Base::Decimal => decimal(self.line, bits),
            base => self.based(bits, size, base),
        }
    }

    /// Signed numbers have as many digits of ones as their size needs.
    fn based(&mut self, bits: u64, size: u8, base: Base) {
        let low = |count: u32| bits & 1_u64.checked_shl(count).map_or(u64::MAX, |bit| bit - 1);
        let size = u32::from(size);
        let _ = match base {
            Base::Hexadecimal => {
                self.line.extend_from_slice(b"0x");
                hexadecimal_digits(self.line, low(size.next_multiple_of(4)), b'A');
                return;
            }
            Base::Octal => write!(self.line, "0{:o}", low(size.next_multiple_of(3))),
            _ => write!(self.line, "0b{:0width$b}", low(size), width = size as usize),
        };
    }

    /// An integer of more than 64 bits; decimal has a sign.
    fn wide_number(&mut self, value: &WideInt, base: Base, size: u64) {
        let whole = |digit: u64| value.twos_complement(size.next_multiple_of(digit));
        let _ = match base {
            Base::Decimal => write!(self.line, "{value}"),
            Base::Hexadecimal => write!(self.line, "{:#X}", whole(4)),
            Base::Octal => write!(self.line, "0{:o}", whole(3)),
            Base::Binary => {
                write!(
                    self.line,
                    "0b{:0>width$}",
                    format!("{:b}", whole(1)),
                    width = usize::try_from(size).unwrap_or(0)
                )
            }
        };
    }

    /// `( "ONE", "OTHER" : container = `, each label once.
    fn labels(&mut self, mappings: &[Mapping], holds: impl Fn(&Mapping) -> bool) {
        self.line.extend_from_slice(b"( ");
        let mut any = false;
        for label in Mapping::labels_of(mappings, holds) {
            if any {
                self.line.extend_from_slice(b", ");
            }
            quoted(self.line, label.as_bytes());
            any = true;
        }
        self.line.extend_from_slice(if any {
            b" : container = "
        } else {
            b"<unknown> : container = "
        });
    }
}

/// Text in quotes, with what C would escape escaped.
#[inline]
fn quoted(line: &mut Vec<u8>, text: &[u8]) {
    line.push(b'"');
    let is_odd = |byte: &u8| *byte < 0x20 || matches!(*byte, b'"' | b'\'' | b'?' | b'\\' | 0x7f);
    // Without a way out before the end, many bytes are looked at together.
    if text.iter().fold(false, |odd, byte| odd | is_odd(byte)) {
        text.iter().for_each(|&byte| escaped(line, byte));
    } else {
        line.extend_from_slice(text);
    }
    line.push(b'"');
}

fn escaped(line: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        b'"' | b'\'' | b'?' | b'\\' => byte,
        0x07 => b'a',
        0x08 => b'b',
        0x1b => b'e',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x0b => b'v',
        0..0x20 | 0x7f => {
            let _ = write!(line, "\\x{byte:02x}");
            return;
        }
        _ => return line.push(byte),
    };
    line.extend_from_slice(&[b'\\', letter]);
}
