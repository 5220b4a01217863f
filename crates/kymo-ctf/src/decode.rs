//! Fields to values.

use std::sync::Arc;

use crate::bits::{BitCursor, low_mask, sign_extend};
use crate::class::{ArrayClass, FieldClass, FloatClass, IntegerClass, Length, Role, StructClass};
use crate::error::DecodeError;
use crate::value::{Fields, Value};

/// What fields leave behind for the fields after them.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Values of integers that lengths and tags may refer to. A reference always goes to a field read before, so that no cell
    /// is used before it was filled.
    slots: Vec<i128>,
    /// The last event id read in the record's header.
    pub(crate) event_id: Option<u64>,
    /// The stream's clock.
    pub(crate) clock: u64,
}

impl State {
    pub(crate) fn new(slots: u32) -> Self {
        State { slots: vec![0; slots as usize], event_id: None, clock: 0 }
    }

    fn slot(&self, slot: u32) -> i128 {
        self.slots.get(slot as usize).copied().unwrap_or(0)
    }
}

/// The clock value that the low `size` bits `low` mean after `now`: the first one not before it.
///
/// This is CTF's rule for timestamps narrower than the clock: lower bits than before mean that they wrapped, once. A value of all 64
/// bits is taken as it is. `None` if the clock itself would wrap.
pub(crate) fn clock_after(now: u64, low: u64, size: u8) -> Option<u64> {
    if size >= 64 {
        return Some(low);
    }
    let mask = low_mask(size);
    let same_turn = now & !mask | low & mask;
    if same_turn >= now {
        return Some(same_turn);
    }
    same_turn.checked_add(mask + 1)
}

/// Decodes fields at a cursor.
pub(crate) struct Decoder<'a, 's> {
    pub(crate) cursor: BitCursor<'a>,
    pub(crate) state: &'s mut State,
}

type Decoded<T> = Result<T, DecodeError>;

impl Decoder<'_, '_> {
    /// All members of a structure.
    pub(crate) fn fields(&mut self, class: &StructClass) -> Decoded<Fields> {
        self.cursor.align(class.alignment)?;
        let mut fields = Vec::with_capacity(class.members.len());
        for member in &class.members {
            let value = self.value(&member.class)?;
            fields.push((Arc::clone(&member.name), value));
        }
        Ok(Fields(fields))
    }

    fn value(&mut self, class: &FieldClass) -> Decoded<Value> {
        Ok(match class {
            FieldClass::Integer(class) => {
                let raw = self.integer(class)?;
                if class.signed { Value::Int(sign_extend(raw, class.size)) } else { Value::UInt(raw) }
            }
            FieldClass::Enum(class) => {
                let raw = self.integer(&class.integer)?;
                let value = widened(raw, &class.integer);
                let labels = class.labels(value).cloned().collect();
                Value::Enum { value, labels }
            }
            FieldClass::Float(class) => Value::Float(self.float(class)?),
            FieldClass::String => {
                self.cursor.align(8)?;
                text(self.cursor.bytes_to_zero()?)
            }
            FieldClass::Struct(class) => Value::Struct(self.fields(class)?),
            FieldClass::Array(class) => self.array(class)?,
            FieldClass::Variant(class) => {
                let tag = self.state.slot(class.tag);
                let option = class.choose(tag).ok_or(DecodeError::NoSuchOption(tag))?;
                let value = Box::new(self.value(&option.class)?);
                let option = Arc::clone(&option.name);
                Value::Variant { option, value }
            }
        })
    }

    fn array(&mut self, class: &ArrayClass) -> Decoded<Value> {
        let length = self.length(class)?;
        if class.text {
            let bytes = self.cursor.take_bytes(length)?;
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            return Ok(text(bytes.get(..end).unwrap_or(bytes)));
        }
        let mut values = Vec::new();
        for _ in 0..length {
            values.push(self.value(&class.element)?);
        }
        Ok(Value::Array(values))
    }

    /// The number of elements, aligned for the first of them and known to fit into the packet.
    fn length(&mut self, class: &ArrayClass) -> Decoded<u64> {
        let length = match class.length {
            Length::Fixed(length) => length,
            // Only unsigned integers give lengths.
            Length::Slot(slot) => u64::try_from(self.state.slot(slot)).unwrap_or(0),
        };
        self.cursor.align(class.element.alignment())?;
        let left = self.cursor.left();
        match length.checked_mul(class.element_bits) {
            Some(bits) if bits <= left => Ok(length),
            _ => Err(DecodeError::LengthTooLarge { length, left }),
        }
    }

    fn integer(&mut self, class: &IntegerClass) -> Decoded<u64> {
        self.cursor.align(class.alignment)?;
        let raw = self.cursor.integer(class.size, class.byte_order)?;
        if let Some(slot) = self.state.slots.get_mut(class.slot as usize) {
            *slot = widened(raw, class);
        }
        match class.role {
            Role::None => {}
            Role::EventId => self.state.event_id = Some(raw),
            Role::Clock => {
                let from = self.state.clock;
                let to = clock_after(from, raw, class.size).unwrap_or(raw);
                if to < from {
                    return Err(DecodeError::TimeWentBack { from, to });
                }
                self.state.clock = to;
            }
        }
        Ok(raw)
    }

    fn float(&mut self, class: &FloatClass) -> Decoded<f64> {
        self.cursor.align(class.alignment)?;
        let raw = self.cursor.integer(class.size, class.byte_order)?;
        Ok(match class.size {
            32 => f64::from(f32::from_bits(raw as u32)),
            _ => f64::from_bits(raw),
        })
    }

    /// Reads a structure only for what it leaves behind: slots, event id and clock.
    pub(crate) fn skip_fields(&mut self, class: &StructClass) -> Decoded<()> {
        self.cursor.align(class.alignment)?;
        class.members.iter().try_for_each(|member| self.skip(&member.class))
    }

    fn skip(&mut self, class: &FieldClass) -> Decoded<()> {
        match class {
            FieldClass::Integer(class) => self.integer(class).map(drop),
            FieldClass::Enum(class) => self.integer(&class.integer).map(drop),
            FieldClass::Float(class) => self.float(class).map(drop),
            FieldClass::String => {
                self.cursor.align(8)?;
                self.cursor.bytes_to_zero().map(drop)
            }
            FieldClass::Struct(class) => self.skip_fields(class),
            FieldClass::Array(class) => {
                let length = self.length(class)?;
                (0..length).try_for_each(|_| self.skip(&class.element))
            }
            FieldClass::Variant(class) => {
                let tag = self.state.slot(class.tag);
                let option = class.choose(tag).ok_or(DecodeError::NoSuchOption(tag))?;
                self.skip(&option.class)
            }
        }
    }
}

fn widened(raw: u64, class: &IntegerClass) -> i128 {
    if class.signed { i128::from(sign_extend(raw, class.size)) } else { i128::from(raw) }
}

fn text(bytes: &[u8]) -> Value {
    Value::Str(String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::clock_after;

    #[test]
    fn narrow_timestamps_wrap_forwards() {
        let turn = 1 << 27;
        assert_eq!(clock_after(0, 5, 27), Some(5));
        assert_eq!(clock_after(5, 5, 27), Some(5));
        assert_eq!(clock_after(6, 5, 27), Some(turn + 5));
        assert_eq!(clock_after(3 * turn + 6, 5, 27), Some(4 * turn + 5));
        assert_eq!(clock_after(100, 7, 64), Some(7));
        assert_eq!(clock_after(u64::MAX, 0, 27), None);
        assert_eq!(clock_after(u64::MAX, 0, 63), None);
    }
}
