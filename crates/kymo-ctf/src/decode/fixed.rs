//! Fields at fixed offsets: reading the roles of a packet's header and context takes a few loads
//! then. Nearly all tracers lay out packets like this.

use crate::class::{ByteOrder, FieldClass, IntegerClass, NO_SLOT, Role, Roles, StructClass};
use crate::decode::bits::load;
use crate::decode::skip::is_natural;
use crate::decode::state::Seen;

/// Longer arrays are left to the walker.
const MOST_ELEMENTS: u64 = 64;

/// Offsets of the fields with roles in a structure. All begin and end on bytes.
#[derive(Debug, Default)]
pub(crate) struct FixedFields {
    loads: Vec<FixedLoad>,
    /// Bit positions of UUIDs in the packet.
    pub(crate) uuids: Vec<u64>,
    /// Bit position of the structure's end in the packet.
    pub(crate) end: u64,
}

#[derive(Debug, Clone, Copy)]
struct FixedLoad {
    roles: Roles,
    at: u64,
    size: u8,
    order: ByteOrder,
}

impl FixedFields {
    /// The fields of a structure at bit `begin` of the packet. `None` if an offset depends on the
    /// packet's content, or if a value is needed later.
    pub(crate) fn of(class: Option<&StructClass>, begin: u64) -> Option<FixedFields> {
        let mut fields = FixedFields {
            end: begin,
            ..FixedFields::default()
        };
        if let Some(class) = class {
            fields.structure(class)?;
        }
        fields.end.is_multiple_of(8).then_some(fields)
    }

    /// Stores the fields' values in `seen`, but no UUIDs. `None` if `bytes` end too early; nothing
    /// is stored then.
    pub(crate) fn read(&self, bytes: &[u8], seen: &mut Seen) -> Option<()> {
        bytes.get(..usize::try_from(self.end / 8).ok()?)?;
        for field in &self.loads {
            let value = load(bytes, field.at, field.size, field.order)?;
            seen.note(field.roles, value, field.size);
        }
        Some(())
    }

    fn structure(&mut self, class: &StructClass) -> Option<()> {
        self.align(class.alignment)?;
        class
            .members
            .iter()
            .try_for_each(|member| self.field(&member.class))
    }

    fn align(&mut self, to: u32) -> Option<()> {
        self.end = self.end.checked_next_multiple_of(u64::from(to.max(1)))?;
        Some(())
    }

    fn field(&mut self, class: &FieldClass) -> Option<()> {
        match class {
            FieldClass::Struct(class) => self.structure(class),
            FieldClass::Array(class) => {
                let length = class.fixed_length().filter(|len| *len <= MOST_ELEMENTS)?;
                self.align(class.element.alignment().max(class.minimum_alignment))?;
                if class.roles.has(Role::MetadataUuid) {
                    self.uuids.push(self.end);
                }
                (0..length).try_for_each(|_| self.field(&class.element))
            }
            _ => self.integer(class.storage()?),
        }
    }

    fn integer(&mut self, class: &IntegerClass) -> Option<()> {
        self.align(class.alignment)?;
        let on_bytes = self.end.is_multiple_of(8) && class.size.is_multiple_of(8);
        if !on_bytes || !is_natural(class) || class.unit.is_some() || class.slot != NO_SLOT {
            return None;
        }
        if !class.roles.is_empty() {
            self.loads.push(FixedLoad {
                roles: class.roles,
                at: self.end,
                size: class.size,
                order: class.byte_order,
            });
        }
        self.end = self.end.checked_add(class.size.into())?;
        Some(())
    }
}
