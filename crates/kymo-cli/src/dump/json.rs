//! JSON: an object a line.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::Arc;

use kymo_ctf::{
    ArrayClass, ClockClass, Compound, EventRef, FieldClass, FloatClass, IntegerClass, Loss,
    LossKind, Mapping, Member, Problem, Scope, StructClass, TextEncoding, VarIntClass, Visitor,
    WideInt, WideKind,
};
use kymo_text::{decimal, decimal_wide, decimals, json_string, nine_digits, signed};

use super::Page;
use super::plan::{FieldWriter, Form};
use super::time::Scale;

/// Prints objects.
pub struct Json;

const NANOS: u64 = 1_000_000_000;

// Writing to a `Vec` cannot fail; the results of `write!` are dropped here.
impl Form for Json {
    type Clock = Scale;
    type Writer<'b> = Fields<'b>;

    const DECIMAL: bool = true;

    fn clock(&self, clock: Option<&ClockClass>) -> Scale {
        Scale::new(clock, 0)
    }

    fn packet(&self, event: &EventRef<'_>, shared: &mut Vec<u8>) {
        shared.extend_from_slice(br#","cpu":"#);
        optional(shared, event.cpu());
        shared.extend_from_slice(br#","stream":"#);
        json_string(shared, event.stream());
        shared.extend_from_slice(br#","name":"#);
    }

    #[inline]
    fn time(&mut self, event: &EventRef<'_>, clock: &Scale, line: &mut Vec<u8>) {
        line.extend_from_slice(br#"{"type":"event","time_ns":"#);
        match clock.nanos(event) {
            Some(nanos) if nanos >= NANOS => {
                decimal(line, nanos / NANOS);
                line.extend_from_slice(&nine_digits((nanos % NANOS) as u32));
            }
            Some(nanos) => decimal(line, nanos),
            None => optional(line, clock.signed(event)),
        }
        line.extend_from_slice(br#","cycles":"#);
        match event.time() {
            Some(ticks) => decimal(line, ticks.0),
            None => line.extend_from_slice(b"null"),
        }
    }

    fn head(&self, event: &EventRef<'_>, shared: &[u8], line: &mut Vec<u8>) {
        line.extend_from_slice(shared);
        json_string(line, event.name());
    }

    #[inline]
    fn fields<'b>(&self, _: &EventRef<'_>, _: &[u8], line: &'b mut Vec<u8>) -> Fields<'b> {
        Fields {
            line,
            scope: None,
            has_fields: false,
            is_empty_context: false,
        }
    }

    fn loss(&mut self, loss: &Loss, page: &mut Page) {
        let line = &mut page.lines;
        let kind = match loss.kind {
            LossKind::Events => "events",
            LossKind::Packets => "packets",
        };
        let _ = write!(
            line,
            r#"{{"type":"loss","kind":"{kind}","count":{},"stream":"#,
            loss.count
        );
        json_string(line, &loss.stream);
        line.extend_from_slice(br#","cpu":"#);
        optional(line, loss.cpu);
        for (name, nanos, cycles) in [
            ("begin", loss.begin_nanos, loss.begin),
            ("end", loss.end_nanos, loss.end),
        ] {
            let _ = write!(line, r#","{name}_ns":"#);
            optional(line, nanos);
            let _ = write!(line, r#","{name}_cycles":"#);
            optional(line, cycles);
        }
        line.extend_from_slice(b"}\n");
    }

    fn problem(&mut self, problem: &Problem, page: &mut Page) {
        message(&mut page.lines, "problem", &problem.to_string());
    }

    fn error(&mut self, error: &kymo_ctf::Error, page: &mut Page) {
        message(&mut page.lines, "error", &error.to_string());
    }
}

fn message(line: &mut Vec<u8>, kind: &str, message: &str) {
    let _ = write!(line, r#"{{"type":"{kind}","message":"#);
    json_string(line, message);
    line.extend_from_slice(b"}\n");
}

fn optional(line: &mut Vec<u8>, number: Option<impl Display>) {
    let _ = match number {
        Some(number) => write!(line, "{number}"),
        None => write!(line, "null"),
    };
}

/// Writes fields: an object for each part of the record.
pub struct Fields<'b> {
    line: &'b mut Vec<u8>,
    /// The part that begins next.
    scope: Option<Scope>,
    /// Whether the event's own fields were written.
    has_fields: bool,
    /// A context without members is not written.
    is_empty_context: bool,
}

impl<'a> FieldWriter<'a> for Fields<'_> {
    fn line(&mut self) -> &mut Vec<u8> {
        self.line
    }

    fn finish(&mut self) {
        self.line.extend_from_slice(match self.has_fields {
            true => b"}\n",
            false => b",\"fields\":{}}\n",
        });
    }
}

impl<'a> Visitor<'a> for Fields<'_> {
    fn scope(&mut self, scope: Scope) {
        self.scope = Some(scope);
    }

    #[inline]
    fn structure(&mut self, class: &'a StructClass) {
        if let Some(scope) = self.scope.take() {
            let name: &[u8] = match scope {
                Scope::EventCommonContext => br#","stream_context":"#,
                Scope::EventContext => br#","context":"#,
                _ => br#","fields":"#,
            };
            self.has_fields = scope == Scope::EventFields;
            self.is_empty_context = !self.has_fields && class.members.is_empty();
            if !self.is_empty_context {
                self.line.extend_from_slice(name);
            }
        }
        if !self.is_empty_context {
            self.line.push(b'{');
        }
    }

    #[inline]
    fn member(&mut self, member: &'a Member) -> bool {
        // No value ends with this brace.
        if self.line.last() != Some(&b'{') {
            self.line.push(b',');
        }
        json_string(self.line, &member.name);
        self.line.push(b':');
        true
    }

    #[inline]
    fn array(&mut self, _: &'a ArrayClass, _: u64) {
        self.line.push(b'[');
    }

    #[inline]
    fn element(&mut self, index: u64) {
        if index > 0 {
            self.line.push(b',');
        }
    }

    fn variant(&mut self, option: &'a Member) {
        self.line.push(b'{');
        json_string(self.line, &option.name);
        self.line.push(b':');
    }

    #[inline]
    fn end(&mut self, of: Compound) {
        match of {
            Compound::Structure if self.is_empty_context => {}
            Compound::Structure | Compound::Variant => self.line.push(b'}'),
            Compound::Array => self.line.push(b']'),
        }
    }

    #[inline]
    fn integer(&mut self, class: &'a FieldClass, integer: &'a IntegerClass, bits: u64) {
        match class {
            FieldClass::Bool(_) => self.boolean(bits != 0),
            FieldClass::BitMap(class) => {
                self.labelled(class.active(bits), |line| decimal(line, bits));
            }
            FieldClass::Enum(class) => {
                let value = integer.value(bits);
                self.labelled(class.labels(value), |line| decimal_wide(line, value));
            }
            FieldClass::Integer(_) if integer.signed => {
                signed(self.line, integer.sign_extend(bits));
            }
            _ => decimal(self.line, bits),
        }
    }

    #[inline]
    fn decimals(
        &mut self,
        _: &'a FieldClass,
        _: &'a IntegerClass,
        values: impl Iterator<Item = u64>,
    ) {
        decimals(self.line, *b",", values);
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
                self.labelled(labels, |line| decimal_wide(line, value));
            }
            None => decimal_wide(self.line, value),
        }
    }

    /// What reads JSON keeps 64 bits at most of a number, and of text everything.
    fn wide(&mut self, class: &'a FieldClass, value: WideInt) {
        let (kind, is_signed) = match class {
            FieldClass::Wide(class) => (Some(&class.kind), class.signed),
            FieldClass::VarInt(class) => (None, class.signed),
            _ => (None, false),
        };
        if let Some(WideKind::Bool) = kind {
            return self.boolean(!value.is_zero());
        }
        let fits = match kind {
            Some(WideKind::Enum(_)) => value.to_i64().is_some() || value.to_u64().is_some(),
            Some(WideKind::BitMap(_)) => value.to_u64().is_some(),
            _ if is_signed => value.to_i64().is_some(),
            _ => value.to_u64().is_some(),
        };
        let number = match fits {
            true => value.to_string(),
            false => format!("\"{value}\""),
        };
        if let Some(WideKind::BitMap(_)) = kind {
            self.labelled(class.active(&value), |line| {
                line.extend_from_slice(number.as_bytes())
            });
        } else if let Some(mappings) = class.mappings() {
            let labels = Mapping::labels_of(mappings, |mapping| mapping.range.holds_wide(&value));
            self.labelled(labels, |line| line.extend_from_slice(number.as_bytes()));
        } else {
            self.line.extend_from_slice(number.as_bytes());
        }
    }

    /// JSON has no infinities and no NaN; `null` stands for both.
    fn float(&mut self, _: &'a FloatClass, value: f64) {
        let _ = serde_json::to_writer(&mut *self.line, &value);
    }

    #[inline]
    fn text(&mut self, bytes: &'a [u8], encoding: TextEncoding) {
        json_string(self.line, &encoding.decode(bytes));
    }

    fn blob(&mut self, bytes: &'a [u8]) {
        let _ = serde_json::to_writer(&mut *self.line, bytes);
    }

    fn absent(&mut self) {
        self.line.extend_from_slice(b"null");
    }
}

impl Fields<'_> {
    fn boolean(&mut self, value: bool) {
        let _ = write!(self.line, "{value}");
    }

    /// A number and what its values or bits are called.
    fn labelled<'m>(
        &mut self,
        labels: impl IntoIterator<Item = &'m Arc<str>>,
        write_number: impl FnOnce(&mut Vec<u8>),
    ) {
        self.line.extend_from_slice(br#"{"value":"#);
        write_number(self.line);
        self.line.extend_from_slice(br#","labels":["#);
        for (index, label) in labels.into_iter().enumerate() {
            if index > 0 {
                self.line.push(b',');
            }
            json_string(self.line, label);
        }
        self.line.extend_from_slice(b"]}");
    }
}
