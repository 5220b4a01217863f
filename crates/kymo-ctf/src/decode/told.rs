//! A record as text, from the calls to a visitor or from its values: for tests that both agree, here
//! and in the fuzzer.

use kymo_ctf::{
    ArrayClass, Compound, FieldClass, FloatClass, IntegerClass, Member, Scope, StructClass,
    TextEncoding, Value, VarIntClass, Visitor, WideClass, WideInt, WideKind,
};

/// The calls to a visitor as text, and values in the same form.
pub(crate) struct Told(pub(crate) String);

impl Told {
    /// A value, as a visit of it is told.
    pub(crate) fn of(value: &Value) -> String {
        let all = |values: &[Value]| values.iter().map(Told::of).collect::<String>();
        match value {
            Value::UInt(value) => format!("{value} "),
            Value::Int(value) => format!("{value} "),
            Value::Enum { value, .. } => format!("{value} "),
            Value::BitMap { bits, .. } => format!("{bits} "),
            Value::Wide(value)
            | Value::WideEnum { value, .. }
            | Value::WideBitMap { bits: value, .. } => format!("{value} "),
            Value::Bool(value) => format!("{} ", u8::from(*value)),
            Value::Float(value) => format!("{:x} ", value.to_bits()),
            Value::Str(text) => format!("{text:?} "),
            Value::Bytes(bytes) => format!("{bytes:?} "),
            Value::None => "none ".to_owned(),
            Value::Struct(fields) => {
                let members = fields
                    .iter()
                    .map(|(name, value)| format!("{name}: {}", Told::of(value)));
                format!("{{ {}}} ", members.collect::<String>())
            }
            Value::Variant { option, value } => format!("<{option}: {}> ", Told::of(value)),
            Value::Array(values) => format!("[{} {}] ", values.len(), all(values)),
            #[allow(
                unreachable_patterns,
                reason = "outside of the crate there may be more"
            )]
            other => panic!("no text for {other:?}"),
        }
    }

    fn tell(&mut self, text: impl std::fmt::Display) {
        self.0 += &format!("{text} ");
    }
}

impl<'a> Visitor<'a> for Told {
    fn scope(&mut self, _: Scope) {}

    fn structure(&mut self, _: &'a StructClass) {
        self.tell("{");
    }

    fn member(&mut self, member: &'a Member) -> bool {
        self.tell(format!("{}:", member.name));
        true
    }

    fn array(&mut self, _: &'a ArrayClass, length: u64) {
        self.tell(format!("[{length}"));
    }

    fn element(&mut self, _: u64) {}

    fn variant(&mut self, option: &'a Member) {
        self.tell(format!("<{}:", option.name));
    }

    fn end(&mut self, of: Compound) {
        self.tell(match of {
            Compound::Structure => "}",
            Compound::Array => "]",
            Compound::Variant => ">",
        });
    }

    fn integer(&mut self, class: &'a FieldClass, integer: &'a IntegerClass, bits: u64) {
        match class {
            FieldClass::Bool(_) => self.tell(u8::from(bits != 0)),
            FieldClass::BitArray(_) | FieldClass::BitMap(_) => self.tell(bits),
            _ if integer.signed => self.tell(integer.sign_extend(bits)),
            _ => self.tell(bits),
        }
    }

    fn var_int(&mut self, class: &'a VarIntClass, bits: u64) {
        if class.signed {
            self.tell(bits.cast_signed())
        } else {
            self.tell(bits)
        }
    }

    fn wide(&mut self, class: &'a FieldClass, value: WideInt) {
        match class {
            FieldClass::Wide(WideClass {
                kind: WideKind::Bool,
                ..
            }) => self.tell(u8::from(!value.is_zero())),
            _ => self.tell(value),
        }
    }

    fn float(&mut self, _: &'a FloatClass, value: f64) {
        self.tell(format!("{:x}", value.to_bits()));
    }

    fn text(&mut self, bytes: &'a [u8], encoding: TextEncoding) {
        self.tell(format!("{:?}", encoding.decode(bytes)));
    }

    fn blob(&mut self, bytes: &'a [u8]) {
        self.tell(format!("{bytes:?}"));
    }

    fn absent(&mut self) {
        self.tell("none");
    }
}
