//! Kymo's own text: a line an event.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::Arc;

use kymo_ctf::{
    ArrayClass, Base, ClockClass, Compound, EventRef, FieldClass, FloatClass, IntegerClass, Loss,
    LossKind, Mapping, Member, Problem, Scope, StructClass, TextEncoding, TraceMap, VarIntClass,
    Visitor, WideInt, WideKind,
};
use kymo_text::{
    decimal, decimal_wide, decimals, float, hexadecimal, is_plain, nine_digits, signed,
};

use super::plan::{FieldWriter, Form};
use super::time::Scale;
use super::{Page, cpu_name, escape_controls, has_controls};

/// The form of `kymo dump` without options.
pub struct Text {
    /// The time that is counted from, in nanoseconds from the clock's origin.
    begin: i128,
    stream_width: usize,
}

const NANOS: u64 = 1_000_000_000;

impl Text {
    pub fn new(map: &TraceMap, begin: Option<i128>) -> Text {
        let width = map.streams().map(|(_, name, _)| name.chars().count()).max();
        Text {
            begin: begin.unwrap_or(0),
            stream_width: width.unwrap_or(0).min(32),
        }
    }

    fn seconds(&self, nanos: Option<i128>) -> String {
        match nanos {
            Some(nanos) => seconds(nanos - self.begin),
            None => "?".to_owned(),
        }
    }
}

fn seconds(since: i128) -> String {
    let (sign, since) = (if since < 0 { "-" } else { "" }, since.unsigned_abs());
    let (whole, rest) = (since / u128::from(NANOS), since % u128::from(NANOS));
    format!("{sign}{whole}.{rest:09}")
}

// Writing to a `Vec` cannot fail; the results of `write!` are dropped here.
impl Form for Text {
    type Clock = Scale;
    type Writer<'b> = Fields<'b>;

    const DECIMAL: bool = false;

    fn clock(&self, clock: Option<&ClockClass>) -> Scale {
        Scale::new(clock, self.begin)
    }

    fn packet(&self, event: &EventRef<'_>, shared: &mut Vec<u8>) {
        let width = self.stream_width;
        let _ = match event.cpu() {
            Some(cpu) => write!(shared, "  cpu{cpu:<2}"),
            None => write!(shared, "  {:<5}", cpu_name(None)),
        };
        let mut stream = format!("  {:<width$}  ", event.stream());
        escape_controls(&mut stream);
        shared.extend_from_slice(stream.as_bytes());
    }

    /// Seconds since the trace began, in 14 places or more: `   1.123456789`.
    #[inline]
    fn time(&mut self, event: &EventRef<'_>, clock: &Scale, line: &mut Vec<u8>) {
        match clock.nanos(event) {
            Some(nanos) if nanos < 10 * NANOS => {
                let mut text = *b"   0.nnnnnnnnn";
                let [_, _, _, second, _, rest @ ..] = &mut text;
                *second += (nanos / NANOS) as u8;
                *rest = nine_digits((nanos % NANOS) as u32);
                line.extend_from_slice(&text);
            }
            Some(nanos) => {
                let (whole, rest) = (nanos / NANOS, (nanos % NANOS) as u32);
                line.extend_from_slice(match whole {
                    0..100 => b"  ",
                    100..1000 => b" ",
                    _ => b"",
                });
                decimal(line, whole);
                line.push(b'.');
                line.extend_from_slice(&nine_digits(rest));
            }
            None => {
                let time = clock.signed(event).map_or_else(|| "?".to_owned(), seconds);
                let _ = write!(line, "{time:>14}");
            }
        }
    }

    fn head(&self, event: &EventRef<'_>, shared: &[u8], line: &mut Vec<u8>) {
        line.extend_from_slice(shared);
        name(line, event.name());
    }

    #[inline]
    fn fields<'b>(&self, _: &EventRef<'_>, _: &[u8], line: &'b mut Vec<u8>) -> Fields<'b> {
        Fields {
            line,
            has_fields: false,
            depth: 0,
            is_empty_context: false,
            member: None,
            lengths: Vec::new(),
        }
    }

    fn loss(&mut self, loss: &Loss, page: &mut Page) {
        let (begin, end) = (self.seconds(loss.begin_nanos), self.seconds(loss.end_nanos));
        note(
            page,
            format_args!(
                "{} {} lost on {} between {begin} and {end}",
                loss.count,
                lost(loss),
                loss.stream
            ),
        );
    }

    fn problem(&mut self, problem: &Problem, page: &mut Page) {
        note(page, problem);
    }

    fn error(&mut self, error: &kymo_ctf::Error, page: &mut Page) {
        note(page, consequence(error));
    }
}

/// A line that is not an event's.
fn note(page: &mut Page, text: impl Display) {
    let mut line = format!("-- {text}");
    escape_controls(&mut line);
    page.lines.extend_from_slice(line.as_bytes());
    page.lines.push(b'\n');
}

/// What was lost, in one word.
pub fn lost(loss: &Loss) -> &'static str {
    match (loss.kind, loss.count) {
        (LossKind::Events, 1) => "event",
        (LossKind::Events, _) => "events",
        (LossKind::Packets, 1) => "packet",
        (LossKind::Packets, _) => "packets",
    }
}

/// An error, and what becomes of the stream.
pub fn consequence(error: &kymo_ctf::Error) -> String {
    match error {
        kymo_ctf::Error::Stream {
            resumes: Some(offset),
            ..
        } => format!("{error}; reading goes on at byte {offset}"),
        _ => format!("{error}; nothing more is read from there"),
    }
}

/// A name from the trace, which must not steer the terminal.
fn name(line: &mut Vec<u8>, name: &str) {
    if has_controls(name.as_bytes()) {
        let mut name = name.to_owned();
        escape_controls(&mut name);
        line.extend_from_slice(name.as_bytes());
    } else {
        line.extend_from_slice(name.as_bytes());
    }
}

/// Writes fields.
///
/// A field that is only the length of another one is left out: tracers write `_name_length` in
/// front of the sequence `name`. Kymo also writes `_name_cut`, which says something only where it
/// is not 0. Both are written first, and removed when the length of `name` is known.
pub struct Fields<'b> {
    line: &'b mut Vec<u8>,
    /// Whether the event's own fields were written.
    has_fields: bool,
    /// A context without members is not written.
    is_empty_context: bool,
    depth: u32,
    /// The member that was begun, until its value or a part of it comes.
    member: Option<Begun>,
    /// Members that may only say how long another one is.
    lengths: Vec<LengthField>,
}

/// A member whose value comes next.
#[derive(Clone, Copy)]
struct Begun {
    /// Place in the line of the separator before it.
    begin: usize,
    /// Place in the line of its name, and the end of that.
    name: (usize, usize),
}

/// A member that may only say how long another one is.
struct LengthField {
    depth: u32,
    /// Its place in the line, from the separator before it.
    begin: usize,
    end: usize,
    /// Place in the line of the name of the other one, in its own.
    name: (usize, usize),
    /// Whether it only says that a text was cut.
    is_cut: bool,
    value: u64,
}

impl<'a> FieldWriter<'a> for Fields<'_> {
    fn line(&mut self) -> &mut Vec<u8> {
        self.line
    }

    fn finish(&mut self) {
        self.line.extend_from_slice(match self.has_fields {
            true => b"\n",
            false => b" { }\n",
        });
    }
}

impl<'a> Visitor<'a> for Fields<'_> {
    fn scope(&mut self, scope: Scope) {
        self.has_fields = scope == Scope::EventFields;
    }

    #[inline]
    fn structure(&mut self, class: &'a StructClass) {
        self.member = None;
        if self.depth == 0 {
            self.is_empty_context = !self.has_fields && class.members.is_empty();
            if !self.is_empty_context {
                self.line.push(b' ');
            }
        }
        self.depth += 1;
        if !self.is_empty_context {
            self.line.push(b'{');
        }
    }

    #[inline]
    fn member(&mut self, member: &'a Member) -> bool {
        let begin = self.line.len();
        // No value ends with this brace.
        if self.line.last() == Some(&b'{') {
            self.line.push(b' ');
        } else {
            self.line.extend_from_slice(b", ");
        }
        let start = self.line.len();
        name(self.line, &member.name);
        self.member = Some(Begun {
            begin,
            name: (start, self.line.len()),
        });
        self.line.extend_from_slice(b" = ");
        true
    }

    #[inline]
    fn array(&mut self, _: &'a ArrayClass, length: u64) {
        self.remove_lengths(false, length);
        self.line.push(b'[');
    }

    #[inline]
    fn element(&mut self, index: u64) {
        if index > 0 {
            self.line.extend_from_slice(b", ");
        }
    }

    fn variant(&mut self, option: &'a Member) {
        self.member = None;
        if !option.name.is_empty() {
            name(self.line, &option.name);
            self.line.extend_from_slice(b": ");
        }
    }

    #[inline]
    fn end(&mut self, of: Compound) {
        match of {
            Compound::Structure => {
                while self
                    .lengths
                    .last()
                    .is_some_and(|last| last.depth == self.depth)
                {
                    self.lengths.pop();
                }
                self.depth -= 1;
                if !self.is_empty_context {
                    self.line.extend_from_slice(b" }");
                }
            }
            Compound::Array => self.line.push(b']'),
            Compound::Variant => {}
        }
    }

    #[inline]
    fn integer(&mut self, class: &'a FieldClass, integer: &'a IntegerClass, bits: u64) {
        let number = match class {
            FieldClass::Integer(_) if !integer.signed => {
                self.based(bits, integer.base);
                Some(bits)
            }
            FieldClass::Bool(_) => {
                self.boolean(bits != 0);
                None
            }
            FieldClass::BitMap(class) => {
                let is_known = self.labels(class.active(bits));
                self.number(is_known, |line| hexadecimal(line, bits));
                None
            }
            FieldClass::Enum(class) => {
                let value = integer.value(bits);
                let is_known = self.labels(class.labels(value));
                self.number(is_known, |line| decimal_wide(line, value));
                u64::try_from(value).ok()
            }
            FieldClass::BitArray(_) => {
                hexadecimal(self.line, bits);
                Some(bits)
            }
            _ => {
                let value = integer.sign_extend(bits);
                signed(self.line, value);
                u64::try_from(value).ok()
            }
        };
        self.note_length(number);
    }

    #[inline]
    fn decimals(
        &mut self,
        _: &'a FieldClass,
        _: &'a IntegerClass,
        values: impl Iterator<Item = u64>,
    ) {
        decimals(self.line, *b", ", values);
    }

    fn var_int(&mut self, class: &'a VarIntClass, bits: u64) {
        let value = if class.signed {
            bits.cast_signed().into()
        } else {
            i128::from(bits)
        };
        match &class.mappings {
            Some(mappings) => {
                let labels = Mapping::labels_of(mappings, |mapping| mapping.holds(value));
                let is_known = self.labels(labels);
                self.number(is_known, |line| decimal_wide(line, value));
            }
            None if class.signed => signed(self.line, bits.cast_signed()),
            None => self.based(bits, class.base),
        }
        self.note_length(u64::try_from(value).ok());
    }

    fn wide(&mut self, class: &'a FieldClass, value: WideInt) {
        let (base, kind, is_signed) = match class {
            FieldClass::Wide(class) => (class.base, Some(&class.kind), class.signed),
            FieldClass::VarInt(class) => (class.base, None, class.signed),
            _ => (Base::Decimal, None, false),
        };
        match kind {
            Some(WideKind::Bool) => return self.boolean(!value.is_zero()),
            Some(WideKind::BitMap(_)) => {
                let is_known = self.labels(class.active(&value));
                return self.number(is_known, |line| drop(write!(line, "{value:#x}")));
            }
            _ => {}
        }
        match (class.mappings(), value.to_u64(), value.to_i64()) {
            (Some(mappings), ..) => {
                let labels =
                    Mapping::labels_of(mappings, |mapping| mapping.range.holds_wide(&value));
                let is_known = self.labels(labels);
                self.number(is_known, |line| drop(write!(line, "{value}")));
            }
            (None, _, Some(value)) if is_signed => signed(self.line, value),
            (None, Some(value), _) if !is_signed => self.based(value, base),
            _ => self.line.extend_from_slice(value.in_base(base).as_bytes()),
        }
        self.note_length(value.to_u64());
    }

    fn float(&mut self, _: &'a FloatClass, value: f64) {
        float(self.line, value);
    }

    #[inline]
    fn text(&mut self, bytes: &'a [u8], encoding: TextEncoding) {
        let text = encoding.decode(bytes);
        self.remove_lengths(true, text.len() as u64);
        quoted(self.line, text);
    }

    fn blob(&mut self, bytes: &'a [u8]) {
        self.line.push(b'<');
        for (index, byte) in bytes.iter().enumerate() {
            let _ = match index {
                0 => write!(self.line, "{byte:02x}"),
                _ => write!(self.line, " {byte:02x}"),
            };
        }
        self.line.push(b'>');
    }

    fn absent(&mut self) {
        self.line.extend_from_slice(b"none");
    }
}

impl Fields<'_> {
    fn boolean(&mut self, value: bool) {
        let _ = write!(self.line, "{value}");
    }

    /// An unsigned integer.
    #[inline]
    fn based(&mut self, value: u64, base: Base) {
        let _ = match base {
            Base::Decimal => {
                decimal(self.line, value);
                return;
            }
            Base::Hexadecimal => {
                hexadecimal(self.line, value);
                return;
            }
            Base::Octal => write!(self.line, "{value:#o}"),
            Base::Binary => write!(self.line, "{value:#b}"),
        };
    }

    /// A number, in parentheses where its labels are before it: `Label|Other (3)`.
    #[inline]
    fn number(&mut self, has_labels: bool, write: impl FnOnce(&mut Vec<u8>)) {
        if has_labels {
            self.line.extend_from_slice(b" (");
        }
        write(self.line);
        if has_labels {
            self.line.push(b')');
        }
    }

    /// The labels, and whether there is one.
    fn labels<'m>(&mut self, labels: impl IntoIterator<Item = &'m Arc<str>>) -> bool {
        let mut any = false;
        for label in labels {
            if any {
                self.line.push(b'|');
            }
            name(self.line, label);
            any = true;
        }
        any
    }

    /// Behind an integer: whether its member may only say how long another one is.
    #[inline]
    fn note_length(&mut self, value: Option<u64>) {
        let (Some(member), Some(value)) = (self.member.take(), value) else {
            return;
        };
        let (start, end) = member.name;
        if self.line.get(start) == Some(&b'_') {
            let text = self.line.get(start + 1..end).unwrap_or_default();
            let (is_cut, name) = match (text.strip_suffix(b"_length"), text.strip_suffix(b"_cut")) {
                (Some(name), _) => (false, name),
                (None, Some(name)) if value == 0 => (true, name),
                _ => return,
            };
            self.lengths.push(LengthField {
                depth: self.depth,
                begin: member.begin,
                end: self.line.len(),
                name: (start + 1, start + 1 + name.len()),
                is_cut,
                value,
            });
        }
    }

    /// Removes the members that only say how long the text or array is which comes next.
    #[inline]
    fn remove_lengths(&mut self, is_text: bool, length: u64) {
        if let Some(member) = self.member.take()
            && !self.lengths.is_empty()
        {
            self.remove_lengths_of(member.name, is_text, length);
        }
    }

    fn remove_lengths_of(&mut self, name: (usize, usize), is_text: bool, length: u64) {
        let line = &mut *self.line;
        let name = line.get(name.0..name.1).unwrap_or_default().to_vec();
        let mut removed = Vec::new();
        for (index, field) in self.lengths.iter().enumerate() {
            let says_nothing = match field.is_cut {
                true => is_text,
                false => field.value == length,
            };
            if field.depth == self.depth
                && says_nothing
                && line.get(field.name.0..field.name.1) == Some(&name)
            {
                removed.push((index, field.begin, field.end));
            }
        }
        // From the back, so that the places before stay.
        for (index, begin, mut end) in removed.into_iter().rev() {
            if line.get(begin.wrapping_sub(1)) == Some(&b'{') && line.get(end) == Some(&b',') {
                end += 1;
            }
            line.drain(begin..end);
            self.lengths.remove(index);
            for later in self.lengths.iter_mut().skip(index) {
                for place in [
                    &mut later.begin,
                    &mut later.end,
                    &mut later.name.0,
                    &mut later.name.1,
                ] {
                    *place -= end - begin;
                }
            }
        }
    }
}

/// Text in quotes, with what Rust would escape escaped.
#[inline]
fn quoted(line: &mut Vec<u8>, text: Cow<'_, str>) {
    if is_plain(text.as_bytes()) {
        line.push(b'"');
        line.extend_from_slice(text.as_bytes());
        line.push(b'"');
    } else {
        let _ = write!(line, "{text:?}");
    }
}
