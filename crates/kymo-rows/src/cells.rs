//! Events as rows of a table.
//!
//! What the cells of an event class are is found once. Most classes have only integers, each at the
//! same place in every record: such a row is a load for each cell. Other records are visited.

use std::borrow::Cow;
use std::sync::Arc;

use kymo_ctf::{
    ArrayClass, Compound, EventClass, EventRef, FieldAccess, FieldClass, FloatClass, IntegerClass,
    Mapping, Member, Scope, StreamClass, StructClass, TextEncoding, VarIntClass, Visitor, WideInt,
    WideKind,
};
use kymo_text::{decimal, decimals, json_string, signed};

/// Takes the cells of a row, one call each.
pub trait Cells {
    /// An integer from 0 on.
    fn unsigned(&mut self, value: u64);
    /// An integer that may be negative.
    fn signed(&mut self, value: i64);
    /// A floating-point number.
    fn float(&mut self, value: f64);
    /// A text.
    fn text(&mut self, value: &str);
    /// No value.
    fn missing(&mut self);

    /// An integer from 0 on, or no value.
    fn maybe_unsigned(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.unsigned(value),
            None => self.missing(),
        }
    }
    /// An integer that may be negative, or no value.
    fn maybe_signed(&mut self, value: Option<i64>) {
        match value {
            Some(value) => self.signed(value),
            None => self.missing(),
        }
    }
    /// A text, or no value.
    fn maybe_text(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.text(value),
            None => self.missing(),
        }
    }
}

/// Where an event class has its cells.
#[derive(Debug)]
pub struct Row {
    /// Of all members of the contexts and of the event, in their order: whether it has a cell.
    has_cell: Vec<bool>,
    /// The cells, if all of them are integers at fixed places.
    fixed: Option<Box<[Fixed]>>,
}

#[derive(Debug)]
struct Fixed {
    access: FieldAccess,
    number: Number,
}

#[derive(Debug)]
enum Number {
    Unsigned,
    Signed,
    /// The texts of the values from 0; others are asked from the class.
    Labelled(Box<[Box<str>]>, Arc<[Mapping]>),
}

/// Values of an enumeration whose texts are made in advance.
const KNOWN: u64 = 64;

/// The parts of a record that have fields, in their order.
pub(crate) fn parts<'a>(
    stream: &'a StreamClass,
    class: &'a EventClass,
) -> impl Iterator<Item = (Scope, &'a StructClass)> {
    let parts = [
        (Scope::EventCommonContext, stream.event_context.as_deref()),
        (Scope::EventContext, class.context.as_deref()),
        (Scope::EventFields, class.fields.as_deref()),
    ];
    parts
        .into_iter()
        .filter_map(|(scope, part)| Some((scope, part?)))
}

/// Whether a member is only the length of another one.
pub fn is_length(name: &str, members: &[Member]) -> bool {
    let of = name
        .strip_prefix('_')
        .and_then(|name| name.strip_suffix("_length"));
    of.is_some_and(|of| members.iter().any(|member| &*member.name == of))
}

impl Row {
    /// Without fields, for tables whose rows are no events.
    pub fn empty() -> Row {
        Row {
            has_cell: Vec::new(),
            fixed: None,
        }
    }

    /// With the fields of these parts, but for those that are only the length of another one.
    pub fn new(stream: &StreamClass, class: &EventClass, has_part: impl Fn(Scope) -> bool) -> Row {
        let (mut has_cell, mut fixed) = (Vec::new(), Some(Vec::new()));
        for (scope, part) in parts(stream, class) {
            for (index, member) in part.members.iter().enumerate() {
                let shown = has_part(scope) && !is_length(&member.name, &part.members);
                has_cell.push(shown);
                if shown {
                    let cell = Fixed::new(stream, class, scope, part, index);
                    fixed = fixed.zip(cell).map(|(mut fixed, cell)| {
                        fixed.push(cell);
                        fixed
                    });
                }
            }
        }
        Row {
            has_cell,
            fixed: fixed.map(Vec::into_boxed_slice),
        }
    }

    /// Gives the cells of an event of this class. `json` is a buffer.
    #[inline]
    pub fn write(&self, event: &EventRef<'_>, json: &mut Vec<u8>, to: &mut impl Cells) {
        match &self.fixed {
            Some(fixed) => fixed.iter().for_each(|cell| cell.write(event, to)),
            None => {
                json.clear();
                event.visit(&mut CellWriter {
                    to,
                    has_cell: self.has_cell.iter(),
                    depth: 0,
                    json,
                });
            }
        }
    }
}

impl Fixed {
    fn new(
        stream: &StreamClass,
        class: &EventClass,
        scope: Scope,
        part: &StructClass,
        index: usize,
    ) -> Option<Fixed> {
        let member = part.members.get(index)?;
        let first = part
            .members
            .iter()
            .position(|have| have.name == member.name);
        let access = FieldAccess::find(stream, class, scope, &member.name)?;
        if !access.is_fixed_integer() || first != Some(index) {
            return None;
        }
        let number = match &member.class {
            FieldClass::Integer(integer) if integer.signed => Number::Signed,
            FieldClass::Integer(_) => Number::Unsigned,
            FieldClass::Enum(of) => Number::Labelled(texts(&of.mappings), Arc::clone(&of.mappings)),
            _ => return None,
        };
        Some(Fixed { access, number })
    }

    #[inline]
    fn write(&self, event: &EventRef<'_>, to: &mut impl Cells) {
        match &self.number {
            Number::Unsigned => match event.unsigned(&self.access) {
                Some(value) => to.unsigned(value),
                None => to.missing(),
            },
            Number::Signed => match event.signed(&self.access) {
                Some(value) => to.signed(value),
                None => to.missing(),
            },
            Number::Labelled(texts, mappings) => {
                let value = event.unsigned(&self.access);
                let text = value.and_then(|value| texts.get(usize::try_from(value).ok()?));
                match (text, value, event.signed(&self.access)) {
                    (Some(text), ..) => to.text(text),
                    (None, Some(value), _) => to.text(&enumeration(mappings, value.into())),
                    (None, None, Some(value)) => to.text(&enumeration(mappings, value.into())),
                    (None, None, None) => to.missing(),
                }
            }
        }
    }
}

/// What the values of an enumeration are shown as, from 0 to the last that has a label.
fn texts(mappings: &[Mapping]) -> Box<[Box<str>]> {
    let last = (0..KNOWN)
        .rev()
        .find(|&value| mappings.iter().any(|one| one.holds(value.into())));
    let values = 0..last.map_or(0, |last| last + 1);
    values
        .map(|value| enumeration(mappings, value.into()).into())
        .collect()
}

/// The labels of a value, or the number where it has none.
fn enumeration(mappings: &[Mapping], value: i128) -> Cow<'_, str> {
    labels(mappings, |mapping| mapping.holds(value)).unwrap_or_else(|| value.to_string().into())
}

/// The labels that hold a value, in declared order, each once.
fn labels(mappings: &[Mapping], holds: impl Fn(&Mapping) -> bool) -> Option<Cow<'_, str>> {
    let mut held = Mapping::labels_of(mappings, holds).map(|label| &**label);
    let first = held.next()?;
    let others: Vec<&str> = held.collect();
    Some(match others[..] {
        [] => first.into(),
        _ => [first, &others.join("|")].join("|").into(),
    })
}

/// Gives the members of a record as cells: what has parts as JSON, enumerations by their labels.
struct CellWriter<'r, C> {
    to: &'r mut C,
    has_cell: std::slice::Iter<'r, bool>,
    /// Structures, arrays and variants that are open, and are not parts of the record.
    depth: u32,
    /// A cell with parts, as far as it is written.
    json: &'r mut Vec<u8>,
}

impl<'a, C: Cells> Visitor<'a> for CellWriter<'_, C> {
    fn scope(&mut self, _: Scope) {
        self.depth = 0;
    }

    fn structure(&mut self, _: &'a StructClass) {
        // The first is a part of the record.
        if self.depth > 0 {
            self.json.push(b'{');
        }
        self.depth += 1;
    }

    fn member(&mut self, member: &'a Member) -> bool {
        if self.depth == 1 {
            return self.has_cell.next().is_none_or(|has_cell| *has_cell);
        }
        // No value ends with this brace.
        if self.json.last() != Some(&b'{') {
            self.json.push(b',');
        }
        json_string(self.json, &member.name);
        self.json.push(b':');
        true
    }

    fn array(&mut self, _: &'a ArrayClass, _: u64) {
        self.json.push(b'[');
        self.depth += 1;
    }

    fn element(&mut self, index: u64) {
        if index > 0 {
            self.json.push(b',');
        }
    }

    fn variant(&mut self, option: &'a Member) {
        self.json.push(b'{');
        json_string(self.json, &option.name);
        self.json.push(b':');
        self.depth += 1;
    }

    fn end(&mut self, of: Compound) {
        self.depth -= 1;
        if self.depth > 0 {
            self.json.push(match of {
                Compound::Array => b']',
                Compound::Structure | Compound::Variant => b'}',
            });
        }
        self.end_json();
    }

    #[inline]
    fn integer(&mut self, class: &'a FieldClass, integer: &'a IntegerClass, bits: u64) {
        match class {
            FieldClass::Bool(_) => self.boolean(bits != 0),
            FieldClass::BitMap(class) => match class.active(bits) {
                flags if flags.is_empty() => self.text(&format!("{bits:#x}")),
                flags => self.text(&join(&flags)),
            },
            FieldClass::Enum(class) => {
                self.text(&enumeration(&class.mappings, integer.value(bits)));
            }
            _ if integer.signed => self.signed(integer.sign_extend(bits)),
            _ => self.unsigned(bits),
        }
    }

    #[inline]
    fn decimals(
        &mut self,
        _: &'a FieldClass,
        _: &'a IntegerClass,
        values: impl Iterator<Item = u64>,
    ) {
        decimals(self.json, *b",", values);
    }

    fn var_int(&mut self, class: &'a VarIntClass, bits: u64) {
        match &class.mappings {
            Some(mappings) if class.signed => {
                self.text(&enumeration(mappings, bits.cast_signed().into()));
            }
            Some(mappings) => self.text(&enumeration(mappings, bits.into())),
            None if class.signed => self.signed(bits.cast_signed()),
            None => self.unsigned(bits),
        }
    }

    /// What does not fit into 64 bits is text.
    fn wide(&mut self, class: &'a FieldClass, value: WideInt) {
        let (kind, is_signed) = match class {
            FieldClass::Wide(class) => (Some(&class.kind), class.signed),
            FieldClass::VarInt(class) => (None, class.signed),
            _ => (None, false),
        };
        match (kind, class.mappings()) {
            (Some(WideKind::Bool), _) => self.boolean(!value.is_zero()),
            (Some(WideKind::BitMap(_)), _) => match class.active(&value) {
                flags if flags.is_empty() => self.text(&format!("{value:#x}")),
                flags => self.text(&join(&flags)),
            },
            (_, Some(mappings)) => {
                let labels = labels(mappings, |mapping| mapping.range.holds_wide(&value));
                self.text(&labels.unwrap_or_else(|| value.to_string().into()));
            }
            _ => match (value.to_i64(), value.to_u64()) {
                (Some(value), _) if is_signed => self.signed(value),
                (_, Some(value)) if !is_signed => self.unsigned(value),
                _ => self.text(&value.to_string()),
            },
        }
    }

    fn float(&mut self, _: &'a FloatClass, value: f64) {
        match self.depth {
            1 => self.to.float(value),
            // NaN and infinities are `null`.
            _ => drop(serde_json::to_writer(&mut *self.json, &value)),
        }
    }

    #[inline]
    fn text(&mut self, bytes: &'a [u8], encoding: TextEncoding) {
        CellWriter::text(self, &encoding.decode(bytes));
    }

    fn blob(&mut self, bytes: &'a [u8]) {
        let _ = serde_json::to_writer(&mut *self.json, bytes);
        self.end_json();
    }

    fn absent(&mut self) {
        match self.depth {
            1 => self.to.missing(),
            _ => self.json.extend_from_slice(b"null"),
        }
    }
}

impl<C: Cells> CellWriter<'_, C> {
    /// Gives the cell with parts, if its last part was written.
    fn end_json(&mut self) {
        if self.depth == 1 {
            // JSON of texts is text.
            self.to
                .text(std::str::from_utf8(self.json).unwrap_or_default());
            self.json.clear();
        }
    }

    #[inline]
    fn unsigned(&mut self, value: u64) {
        match self.depth {
            1 => self.to.unsigned(value),
            _ => decimal(self.json, value),
        }
    }

    #[inline]
    fn signed(&mut self, value: i64) {
        match self.depth {
            1 => self.to.signed(value),
            _ => signed(self.json, value),
        }
    }

    fn boolean(&mut self, value: bool) {
        let text = if value { "true" } else { "false" };
        match self.depth {
            1 => self.to.text(text),
            _ => self.json.extend_from_slice(text.as_bytes()),
        }
    }

    #[inline]
    fn text(&mut self, text: &str) {
        match self.depth {
            1 => self.to.text(text),
            _ => json_string(self.json, text),
        }
    }
}

fn join(flags: &[&Arc<str>]) -> String {
    let flags: Vec<&str> = flags.iter().map(|flag| &***flag).collect();
    flags.join("|")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use kymo_ctf::{ItemRef, Metadata, Reader};

    use super::*;

    #[derive(Default)]
    struct Texts(Vec<String>);

    impl Cells for Texts {
        fn unsigned(&mut self, value: u64) {
            self.0.push(format!("unsigned {value}"));
        }

        fn signed(&mut self, value: i64) {
            self.0.push(format!("signed {value}"));
        }

        fn float(&mut self, value: f64) {
            self.0.push(format!("float {value}"));
        }

        fn text(&mut self, value: &str) {
            self.0.push(value.to_owned());
        }

        fn missing(&mut self) {
            self.0.push("missing".to_owned());
        }
    }

    /// The cell of an event with one field of this CTF 2 class, whose bytes are all `byte`.
    fn cell(class: &str, byte: u8) -> String {
        let fragments = [
            r#"{"type":"preamble","version":2}"#,
            r#"{"type":"data-stream-class"}"#,
            &format!(
                r#"{{"type":"event-record-class","name":"e","payload-field-class":{{"type":
                "structure","member-classes":[{{"name":"f","field-class":{class}}}]}}}}"#
            ),
        ];
        let text: String = fragments.map(|text| format!("\u{1e}{text}\n")).concat();
        let metadata = Arc::new(Metadata::parse(&text).unwrap());
        let bytes = [byte; 16];
        let mut reader = Reader::new([(&metadata, "s", &bytes[..])]);
        let Some(ItemRef::Event(event)) = reader.next() else {
            panic!("no event");
        };
        let mut cells = Texts::default();
        let row = Row::new(event.stream_class(), event.class(), |_| true);
        row.write(&event, &mut Vec::new(), &mut cells);
        cells.0.concat()
    }

    fn of_bits(kind: &str, bits: u32, more: &str) -> String {
        format!(
            r#"{{"type":"fixed-length-{kind}","length":{bits},"byte-order":"little-endian",
            "alignment":8{more}}}"#
        )
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_text() {
        let most = "340282366920938463463374607431768211455";
        let labels = format!(r#","mappings":{{"a":[[{most},{most}]],"b":[[1,{most}]]}}"#);
        let integer = |more| of_bits("unsigned-integer", 128, more);
        assert_eq!(cell(&integer(""), 0xff), most);
        assert_eq!(cell(&integer(""), 0), "unsigned 0");
        assert_eq!(cell(&integer(&labels), 0xff), "a|b");
        assert_eq!(cell(&integer(&labels), 0), "0");
        let flags = r#","flags":{"a":[[0,0]],"b":[[127,127]]}"#;
        assert_eq!(cell(&of_bits("bit-map", 128, flags), 0xff), "a|b");
        assert_eq!(cell(&of_bits("bit-map", 128, flags), 0), "0x0");
    }

    #[test]
    fn booleans_and_bytes_have_the_form_of_json() {
        let boolean = |bits| of_bits("boolean", bits, "");
        for bits in [8, 128] {
            assert_eq!(cell(&boolean(bits), 0), "false");
            assert_eq!(cell(&boolean(bits), 1), "true");
        }
        let blob = r#"{"type":"static-length-blob","length":2}"#;
        assert_eq!(cell(blob, 3), "[3,3]");
    }
}
