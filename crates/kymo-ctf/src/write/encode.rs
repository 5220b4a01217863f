//! Encodes values by the classes of their fields: the inverse of decoding.

use crate::class::{
    ArrayClass, ByteOrder, FieldClass, FloatClass, IntegerClass, LinkedLength, Role, StringLength,
    StructClass, TextEncoding, VarIntClass,
};
use crate::decode::bits::{low_mask, reverse};
use crate::decode::choice::choose;
use crate::decode::state::Slots;
use crate::decode::value::{Fields, Value};
use crate::write::value::put_leb;

/// Why a value cannot be written in a field.
pub(super) type Encoded<T> = Result<T, String>;

/// Values that the writer fills in for a packet or record, by role.
pub(super) type Known<'k> = &'k dyn Fn(Role) -> Option<u64>;

/// The bytes of a packet so far, and the slots that its fields have set.
#[derive(Debug, Clone)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
    /// Bits written.
    pub(super) position: u64,
    pub(super) slots: Slots,
}

/// A position in a packet that is being written.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) position: u64,
    last: Option<u8>,
    pub(super) slots: Slots,
}

impl Encoder {
    pub(super) fn new(slots: u32) -> Self {
        Encoder {
            bytes: Vec::new(),
            position: 0,
            slots: Slots::new(slots),
        }
    }

    /// The current position, for [`go_back`](Self::go_back).
    pub(super) fn mark(&self) -> Mark {
        Mark {
            position: self.position,
            last: self.bytes.last().copied(),
            slots: self.slots.clone(),
        }
    }

    /// Discards what was written since `mark`.
    pub(super) fn go_back(&mut self, mark: &Mark) {
        self.position = mark.position;
        self.slots = mark.slots.clone();
        self.bytes.truncate(to_index(mark.position.div_ceil(8)));
        // The discarded field may have begun inside the last byte.
        if let (Some(byte), Some(last)) = (self.bytes.last_mut(), mark.last) {
            *byte = last;
        }
    }

    pub(super) fn align(&mut self, alignment: u32) {
        self.position = self.position.next_multiple_of(u64::from(alignment.max(1)));
        self.fill();
    }

    fn fill(&mut self) {
        let length = to_index(self.position.div_ceil(8));
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
    }

    /// Writes the low `size` bits of `value`.
    fn bits(&mut self, value: u64, size: u8, order: ByteOrder) {
        let start = self.position;
        self.position += u64::from(size);
        self.fill();
        for bit in 0..u64::from(size) {
            let (from, at) = (start + bit, (start + bit) % 8);
            let (shift, mask) = match order {
                ByteOrder::Little => (bit, 1_u8 << at),
                ByteOrder::Big => (u64::from(size) - 1 - bit, 0x80 >> at),
            };
            if let Some(byte) = self.bytes.get_mut(to_index(from / 8)) {
                *byte = if value >> shift & 1 == 1 {
                    *byte | mask
                } else {
                    *byte & !mask
                };
            }
        }
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.align(8);
        self.bytes.extend_from_slice(bytes);
        self.position += bytes.len() as u64 * 8;
    }

    /// Writes a structure. A member without a value gets the `known` value of its role, or 0 if the
    /// writer fills in everything.
    pub(super) fn structure(
        &mut self,
        class: &StructClass,
        values: &Fields,
        known: Option<Known<'_>>,
    ) -> Encoded<()> {
        let is_member = |name: &str| class.members.iter().any(|member| *member.name == *name);
        if known.is_none()
            && let Some((name, _)) = values.iter().find(|(name, _)| !is_member(name))
        {
            return Err(format!("the event's class has no field `{name}`"));
        }
        self.align(class.alignment);
        for member in &class.members {
            let in_field = |reason| format!("field `{}`: {reason}", member.name);
            match (values.get(&member.name), known) {
                (Some(value), _) => self.field(&member.class, value).map_err(in_field)?,
                (None, Some(known)) => self.known_field(&member.class, known).map_err(in_field)?,
                (None, None) => return Err(in_field("there is no value for it".to_owned())),
            }
        }
        Ok(())
    }

    /// Writes a field that the writer fills in.
    fn known_field(&mut self, class: &FieldClass, known: Known<'_>) -> Encoded<()> {
        let value_of = |roles: crate::class::Roles| {
            let with_value = ROLES.iter().filter(|role| roles.has(**role));
            with_value
                .filter_map(|role| known(*role))
                .next()
                .unwrap_or(0)
        };
        match class {
            // Members of nested structures are not addressed by the given names.
            FieldClass::Struct(class) => self.structure(class, &Fields::default(), Some(known)),
            FieldClass::Variant(class) => {
                let option = choose(&class.choices, &self.slots, class.selector.slot);
                let option = option.and_then(|option| class.options.get(option));
                let option = option.ok_or("its selector chooses no option")?;
                self.slots.clear(&class.clears);
                self.known_field(&option.class, known)
            }
            FieldClass::VarInt(class) => self.var_int(class, value_of(class.roles).into()),
            FieldClass::Array(class) => {
                let length = self.length(class)?;
                self.align(class.element.alignment().max(class.minimum_alignment));
                (0..length).try_for_each(|_| self.known_field(&class.element, known))
            }
            FieldClass::Blob(class) => {
                let length = self.byte_length(&class.length)?.unwrap_or(0);
                self.raw(&vec![0; to_index(length)]);
                Ok(())
            }
            class => {
                let integer = class.storage().ok_or("the writer has no value for it")?;
                let value = value_of(integer.roles);
                // Times and counters are written as low bits.
                self.integer(integer, value & low_mask(integer.size));
                Ok(())
            }
        }
    }

    /// Writes one field.
    pub(super) fn field(&mut self, class: &FieldClass, value: &Value) -> Encoded<()> {
        let wrong = || format!("{value:?} is no value of its class");
        match class {
            FieldClass::Struct(class) => match value {
                Value::Struct(fields) => self.structure(class, fields, None),
                _ => Err(wrong()),
            },
            FieldClass::Array(class) => self.array(class, value),
            FieldClass::Variant(class) => {
                let Value::Variant { option, value } = value else {
                    return Err(wrong());
                };
                let chosen = choose(&class.choices, &self.slots, class.selector.slot);
                let chosen = chosen.and_then(|chosen| class.options.get(chosen));
                let chosen = chosen
                    .filter(|chosen| chosen.name == *option)
                    .ok_or_else(|| format!("its selector does not choose option `{option}`"))?;
                self.slots.clear(&class.clears);
                self.field(&chosen.class, value)
            }
            FieldClass::Optional(class) => {
                let is_there = class.is_there(&self.slots);
                self.slots.clear(&class.clears);
                match value {
                    Value::None if !is_there => Ok(()),
                    Value::None => Err("its selector says that it is there".to_owned()),
                    value if is_there => self.field(&class.class, value),
                    _ => Err("its selector says that it is not there".to_owned()),
                }
            }
            FieldClass::VarInt(class) => self.var_int(class, number(value).ok_or_else(wrong)?),
            FieldClass::Float(class) => match value {
                Value::Float(value) => self.float(class, *value),
                _ => Err(wrong()),
            },
            FieldClass::String(class) => match value {
                Value::Str(text) => {
                    let bytes = encoded(text, class.encoding);
                    let length = self.byte_length(&class.length)?;
                    self.text(bytes, length, class.encoding.unit())
                }
                _ => Err(wrong()),
            },
            FieldClass::Blob(class) => match (value, self.byte_length(&class.length)?) {
                (Value::Bytes(bytes), Some(length)) if bytes.len() as u64 == length => {
                    self.raw(bytes);
                    Ok(())
                }
                _ => Err(wrong()),
            },
            FieldClass::Wide(_) => {
                Err("integers of more than 64 bits are not written by value".to_owned())
            }
            class => {
                let integer = class.storage().ok_or_else(wrong)?;
                let number = number(value).ok_or_else(wrong)?;
                let raw = number as u64 & low_mask(integer.size);
                let back = if integer.signed {
                    i128::from(integer.sign_extend(raw))
                } else {
                    i128::from(raw)
                };
                if back != number {
                    return Err(format!("{number} does not fit into {} bits", integer.size));
                }
                self.integer(integer, raw);
                if matches!(class, FieldClass::Bool(_)) {
                    self.slots.set(integer.slot, i128::from(raw != 0));
                }
                Ok(())
            }
        }
    }

    fn integer(&mut self, class: &IntegerClass, raw: u64) {
        self.align(class.alignment);
        if let Some(unit) = class.unit {
            self.position += unit.padding(self.position, class.size);
        }
        let value = if class.signed {
            class.sign_extend(raw).into()
        } else {
            i128::from(raw)
        };
        self.slots.set(class.slot, value);
        let natural = crate::decode::check::in_order(raw, class);
        self.bits(natural, class.size, class.byte_order);
    }

    fn var_int(&mut self, class: &VarIntClass, value: i128) -> Encoded<()> {
        let raw = match class.signed {
            true => i64::try_from(value).map(i64::cast_unsigned),
            false => u64::try_from(value),
        };
        let raw = raw.map_err(|_| format!("{value} does not fit into 64 bits"))?;
        self.slots.set(class.slot, value);
        let mut bytes = Vec::new();
        put_leb(&mut bytes, raw, class.signed);
        self.raw(&bytes);
        Ok(())
    }

    fn float(&mut self, class: &FloatClass, value: f64) -> Encoded<()> {
        let raw = match class.size {
            32 => u64::from((value as f32).to_bits()),
            64 => value.to_bits(),
            size => return Err(format!("numbers of {size} bits are not written")),
        };
        self.align(class.alignment);
        let size = class.size;
        let raw = match class.bit_order {
            crate::class::BitOrder::Natural => raw,
            crate::class::BitOrder::Reversed => reverse(raw, size),
        };
        self.bits(raw, size, class.byte_order);
        Ok(())
    }

    fn array(&mut self, class: &ArrayClass, value: &Value) -> Encoded<()> {
        let length = self.length(class)?;
        self.align(class.element.alignment().max(class.minimum_alignment));
        match value {
            Value::Str(text) if class.text => self.text(text.as_bytes().to_vec(), Some(length), 1),
            Value::Array(values) if values.len() as u64 == length => values
                .iter()
                .try_for_each(|value| self.field(&class.element, value)),
            Value::Array(values) => Err(format!(
                "it has {length} elements, and there are {} values",
                values.len()
            )),
            value => Err(format!("{value:?} is no value of an array")),
        }
    }

    /// Writes text, padded with zeros to `length` bytes or, without a length, zero-terminated.
    fn text(&mut self, mut bytes: Vec<u8>, length: Option<u64>, unit: usize) -> Encoded<()> {
        match length {
            None if bytes
                .chunks(unit)
                .any(|unit| unit.iter().all(|byte| *byte == 0)) =>
            {
                return Err("text that is ended by a zero cannot have one inside".to_owned());
            }
            None => bytes.resize(bytes.len() + unit, 0),
            Some(length) if bytes.len() as u64 <= length => bytes.resize(to_index(length), 0),
            Some(length) => return Err(format!("the text is longer than {length} bytes")),
        }
        self.raw(&bytes);
        Ok(())
    }

    fn length(&self, class: &ArrayClass) -> Encoded<u64> {
        match class.linked_length() {
            LinkedLength::Fixed(length) => Ok(length),
            LinkedLength::Slot(slot) => self.slot_length(slot),
        }
    }

    fn byte_length(&self, length: &StringLength) -> Encoded<Option<u64>> {
        match length {
            StringLength::Terminated => Ok(None),
            StringLength::Static(length) => Ok(Some(*length)),
            StringLength::Dynamic(location) => self.slot_length(location.slot).map(Some),
        }
    }

    fn slot_length(&self, slot: u32) -> Encoded<u64> {
        let length = self.slots.length(slot).filter(|length| *length < MOST);
        length.ok_or_else(|| "its length is not one that can be written".to_owned())
    }
}

/// Limit on the length of arrays and texts.
const MOST: u64 = 1 << 32;

/// The roles that the writer can fill in.
const ROLES: [Role; 11] = [
    Role::PacketMagic,
    Role::StreamClassId,
    Role::StreamId,
    Role::PacketTotalLength,
    Role::PacketContentLength,
    Role::Timestamp,
    Role::PacketEndTimestamp,
    Role::DiscardedEvents,
    Role::PacketSequenceNumber,
    Role::EventClassId,
    Role::CpuId,
];

fn number(value: &Value) -> Option<i128> {
    Some(match value {
        Value::UInt(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Bool(value) => (*value).into(),
        Value::Enum { value, .. } => *value,
        Value::BitMap { bits, .. } => (*bits).into(),
        _ => return None,
    })
}

fn encoded(text: &str, encoding: TextEncoding) -> Vec<u8> {
    let points = || text.chars().map(u32::from);
    match encoding {
        TextEncoding::Utf8 => text.as_bytes().to_vec(),
        TextEncoding::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        TextEncoding::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        TextEncoding::Utf32Be => points().flat_map(u32::to_be_bytes).collect(),
        TextEncoding::Utf32Le => points().flat_map(u32::to_le_bytes).collect(),
    }
}

fn to_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
