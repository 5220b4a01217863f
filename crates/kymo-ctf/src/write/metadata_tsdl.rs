//! Prints metadata as TSDL of CTF 1.8. No type is named, so that no field name can be mistaken for
//! a type.

use std::fmt::Write as _;

use super::lower::possible;
use crate::class::attribute::AttributeValue;
use crate::class::{
    Base, Encoding, FieldClass, FieldLocation, FloatClass, IntRange, IntegerClass, Length, Mapping,
    Member, Origin, StructClass,
};
use crate::metadata::clock::ClockClass;
use crate::metadata::{EnvValue, EventClass, Metadata, StreamClass};

/// The metadata text. CTF 1.8 must support all classes.
pub(super) fn text(metadata: &Metadata) -> String {
    let mut text = Text(String::from("/* CTF 1.8 */\n"));
    text.trace(metadata);
    text.env(metadata.env());
    metadata.clocks().iter().for_each(|clock| text.clock(clock));
    for stream in metadata.streams() {
        text.stream(stream);
        stream.events.values().for_each(|event| text.event(event));
    }
    text.0
}

/// A UUID as text.
pub(super) fn uuid(uuid: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(uuid));
    let parts =
        [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits.get(range).unwrap_or_default());
    parts.join("-")
}

/// A string constant. Unprintable characters are written as octal escapes.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            // A NUL would end the string in readers written in C.
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\{:03o}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

// Writing to a `String` cannot fail; the results of `write!` are dropped below.
struct Text(String);

impl Text {
    fn line(&mut self, depth: usize, line: &str) {
        self.indent(depth);
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn indent(&mut self, depth: usize) {
        self.0.extend(std::iter::repeat_n('\t', depth));
    }

    fn trace(&mut self, metadata: &Metadata) {
        self.line(0, "\ntrace {");
        self.line(1, "major = 1;");
        self.line(1, "minor = 8;");
        if let Some(id) = metadata.trace.uuid {
            self.line(1, &format!("uuid = \"{}\";", uuid(id)));
        }
        self.line(1, "byte_order = le;");
        self.part("packet.header", metadata.trace.packet_header.as_deref());
        self.line(0, "};");
    }

    fn env(&mut self, env: &[(String, EnvValue)]) {
        if env.is_empty() {
            return;
        }
        self.line(0, "\nenv {");
        for (name, value) in env {
            match value {
                EnvValue::Text(text) => self.line(1, &format!("{name} = {};", quoted(text))),
                EnvValue::Wide(number) => self.line(1, &format!("{name} = \"{number}\";")),
                EnvValue::Integer(number) => self.line(1, &format!("{name} = {number};")),
            }
        }
        self.line(0, "};");
    }

    fn clock(&mut self, clock: &ClockClass) {
        self.line(0, "\nclock {");
        self.line(1, &format!("name = {};", quoted(&clock.name)));
        if let Some(id) = clock.uuid {
            self.line(1, &format!("uuid = \"{}\";", uuid(id)));
        }
        if let Some(description) = &clock.description {
            self.line(1, &format!("description = {};", quoted(description)));
        }
        self.line(1, &format!("freq = {};", clock.frequency));
        if clock.precision > 0 {
            self.line(1, &format!("precision = {};", clock.precision));
        }
        self.line(1, &format!("offset_s = {};", clock.offset_s));
        self.line(1, &format!("offset = {};", clock.offset));
        self.line(
            1,
            if clock.absolute {
                "absolute = TRUE;"
            } else {
                "absolute = FALSE;"
            },
        );
        self.line(0, "};");
    }

    fn stream(&mut self, stream: &StreamClass) {
        self.line(0, "\nstream {");
        self.line(1, &format!("id = {};", stream.id));
        self.part("packet.context", stream.packet_context.as_deref());
        self.part("event.header", stream.event_header.as_deref());
        self.part("event.context", stream.event_context.as_deref());
        self.line(0, "};");
    }

    fn event(&mut self, event: &EventClass) {
        self.line(0, "\nevent {");
        match event.name.is_empty() {
            true => self.line(1, &format!("name = \"event_{}\";", event.id)),
            false => self.line(1, &format!("name = {};", quoted(&event.name))),
        }
        self.line(1, &format!("id = {};", event.id));
        self.line(1, &format!("stream_id = {};", event.stream_id));
        if let Some(level) = event.log_level {
            self.line(1, &format!("loglevel = {level};"));
        }
        if let Some(AttributeValue::Map(more)) =
            event.attributes.get(crate::class::attribute::BABELTRACE)
            && let Some((_, AttributeValue::Text(uri))) = more
                .iter()
                .find(|(name, _)| name == crate::class::attribute::EMF_URI)
        {
            self.line(1, &format!("model.emf.uri = {};", quoted(uri)));
        }
        self.part("context", event.context.as_deref());
        self.part("fields", event.fields.as_deref());
        self.line(0, "};");
    }

    fn part(&mut self, name: &str, class: Option<&StructClass>) {
        let Some(class) = class else { return };
        self.indent(1);
        let _ = write!(self.0, "{name} := ");
        self.body("struct", &class.members, 1);
        self.0.push_str(";\n");
    }

    /// Prints members between braces.
    fn body(&mut self, what: &str, members: &[Member], depth: usize) {
        let _ = writeln!(self.0, "{what} {{");
        for member in members {
            let (class, dimensions) = dimensions(&member.class);
            self.indent(depth + 1);
            self.class(class, depth + 1);
            let _ = writeln!(self.0, " {}{dimensions};", member.declared_name);
        }
        self.indent(depth);
        self.0.push('}');
    }

    fn class(&mut self, class: &FieldClass, depth: usize) {
        match class {
            FieldClass::Integer(class) => self.integer(class),
            FieldClass::Enum(class) => {
                let mappings = class
                    .mappings
                    .iter()
                    .filter_map(|mapping| possible(mapping, class.integer.signed));
                let mappings = Mapping::by_label(mappings.collect());
                // An enumeration needs at least one label.
                if mappings.is_empty() {
                    return self.integer(&class.integer);
                }
                self.0.push_str("enum : ");
                self.integer(&class.integer);
                self.0.push_str(" {\n");
                for Mapping {
                    label,
                    range: IntRange { low, high, .. },
                } in mappings
                {
                    self.indent(depth + 1);
                    let _ = write!(self.0, "{} = {low}", quoted(&label));
                    if high != low {
                        let _ = write!(self.0, " ... {high}");
                    }
                    self.0.push_str(",\n");
                }
                self.indent(depth);
                self.0.push('}');
            }
            FieldClass::Float(class) => self.float(class),
            FieldClass::Struct(class) => self.body("struct", &class.members, depth),
            FieldClass::Variant(class) => {
                let what = format!("variant <{}>", path(&class.selector));
                self.body(&what, &class.options, depth);
            }
            // Only text is left: lowering removes the classes that CTF 1.8 does not have.
            _ => self.0.push_str("string { encoding = UTF8; }"),
        }
    }

    fn integer(&mut self, class: &IntegerClass) {
        let IntegerClass {
            size, alignment, ..
        } = class;
        let _ = write!(
            self.0,
            "integer {{ size = {size}; align = {alignment}; signed = {};",
            class.signed
        );
        let base = match class.base {
            Base::Binary => Some(2),
            Base::Octal => Some(8),
            Base::Decimal => None,
            Base::Hexadecimal => Some(16),
        };
        if let Some(base) = base {
            let _ = write!(self.0, " base = {base};");
        }
        if class.encoding != Encoding::None {
            self.0.push_str(" encoding = UTF8;");
        }
        if let Some(clock) = &class.clock {
            let _ = write!(self.0, " map = clock.{clock}.value;");
        }
        self.0.push_str(" }");
    }

    fn float(&mut self, class: &FloatClass) {
        let (exponent, mantissa) = if class.size == 32 { (8, 24) } else { (11, 53) };
        let _ = write!(
            self.0,
            "floating_point {{ exp_dig = {exponent}; mant_dig = {mantissa}; align = 8; }}"
        );
    }
}

/// The innermost element class of an array, and its lengths, outermost first.
fn dimensions(class: &FieldClass) -> (&FieldClass, String) {
    let (mut class, mut all) = (class, String::new());
    while let FieldClass::Array(array) = class {
        let _ = match &array.length {
            Length::Static(length) => write!(all, "[{length}]"),
            Length::Dynamic(location) => write!(all, "[{}]", path(location)),
        };
        class = &array.element;
    }
    (class, all)
}

fn path(location: &FieldLocation) -> String {
    let scope = match location.origin {
        Origin::Scope(scope) => scope.tsdl(),
        Origin::Here | Origin::Nearest => &[],
    };
    let names = location
        .path
        .iter()
        .map(|name| name.as_deref().unwrap_or_default());
    let words: Vec<&str> = scope.iter().copied().chain(names).collect();
    words.join(".")
}

#[cfg(test)]
mod tests {
    #[test]
    fn strings_are_quoted() {
        assert_eq!(
            super::quoted("a\"b\\c\nd\te\u{1}é"),
            "\"a\\\"b\\\\c\\nd\\te\\001é\""
        );
        assert_eq!(
            super::uuid([0x12; 16]),
            "12121212-1212-1212-1212-121212121212"
        );
    }
}
