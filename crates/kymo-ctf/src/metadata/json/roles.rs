//! Roles of CTF 2: their names, and the scopes that allow each.

use super::Checked;
use super::object::{list, one_of};
use super::syntax::Node;
use crate::class::{FieldClass, Role, Scope, StructClass};
use crate::error::{MetadataError, Position};
use crate::metadata::roles::CPU_ID;

/// Roles of unsigned integers.
pub(crate) const OF_INTEGERS: [(&str, Role); 10] = [
    ("packet-magic-number", Role::PacketMagic),
    ("data-stream-class-id", Role::StreamClassId),
    ("data-stream-id", Role::StreamId),
    ("packet-total-length", Role::PacketTotalLength),
    ("packet-content-length", Role::PacketContentLength),
    ("default-clock-timestamp", Role::Timestamp),
    (
        "packet-end-default-clock-timestamp",
        Role::PacketEndTimestamp,
    ),
    (
        "discarded-event-record-counter-snapshot",
        Role::DiscardedEvents,
    ),
    ("packet-sequence-number", Role::PacketSequenceNumber),
    ("event-record-class-id", Role::EventClassId),
];

/// Roles of BLOBs of static length.
pub(crate) const OF_BLOBS: [(&str, Role); 1] = [("metadata-stream-uuid", Role::MetadataUuid)];

/// A role of a field class, with its position in the metadata.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) role: Role,
    pub(super) at: Position,
}

/// Reads the roles in `node`, without duplicates.
pub(super) fn read(node: Option<&Node>, known: &[(&str, Role)]) -> Checked<Vec<Given>> {
    let mut given: Vec<Given> = Vec::new();
    for element in node
        .map(|node| list(node, "`roles`"))
        .transpose()?
        .unwrap_or(&[])
    {
        let role = one_of(element, "one of the `roles`", known)?;
        if !given.iter().any(|before| before.role == role) {
            given.push(Given {
                role,
                at: element.at,
            });
        }
    }
    Ok(given)
}

fn name(role: Role) -> &'static str {
    let mut all = OF_INTEGERS.iter().chain(&OF_BLOBS);
    all.find(|(_, known)| *known == role)
        .map_or("", |(name, _)| name)
}

/// Whether `scope` allows `role`.
fn may_be(role: Role, scope: Scope) -> bool {
    match role {
        Role::PacketMagic | Role::MetadataUuid | Role::StreamClassId | Role::StreamId => {
            scope == Scope::PacketHeader
        }
        Role::Timestamp => matches!(scope, Scope::PacketContext | Scope::EventHeader),
        Role::EventClassId => scope == Scope::EventHeader,
        _ => scope == Scope::PacketContext,
    }
}

/// Checks the roles of a scope, given whether the stream has a default clock and the metadata a
/// UUID.
pub(super) fn check(
    class: &StructClass,
    roles: &[Given],
    scope: Scope,
    has_clock: bool,
    has_uuid: bool,
) -> Checked<()> {
    let refuse = |given: &Given, message: &str| {
        Err(MetadataError::new(
            given.at,
            format!("the role `{}` {message}", name(given.role)),
        ))
    };
    let mut magic = false;
    for given in roles {
        match given.role {
            role if !may_be(role, scope) => {
                return refuse(given, "cannot be in this part of a packet");
            }
            Role::Timestamp | Role::PacketEndTimestamp if !has_clock => {
                return refuse(
                    given,
                    "needs a default clock, and the data stream class has no \
                     `default-clock-class-id`",
                );
            }
            Role::MetadataUuid if !has_uuid => {
                return refuse(
                    given,
                    "needs a UUID to compare with, and the preamble has no `uuid`",
                );
            }
            Role::PacketMagic => {
                let size = |size: u64| match size {
                    32 => Ok(()),
                    _ => refuse(given, &format!("is for an integer of 32 bits, not {size}")),
                };
                match class.members.first().map(|member| &member.class) {
                    _ if magic => return refuse(given, "can only be given once"),
                    Some(FieldClass::Wide(wide)) if wide.roles.has(Role::PacketMagic) => {
                        size(wide.size)?
                    }
                    Some(class)
                        if class
                            .as_integer()
                            .is_some_and(|integer| integer.roles.has(Role::PacketMagic)) =>
                    {
                        size(class.least_bits())?;
                    }
                    _ => {
                        return refuse(
                            given,
                            "is for the packet header's first member, an integer of fixed length",
                        );
                    }
                }
                magic = true;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Gives `cpu_id` its role: CTF 2 has none for the CPU number, so the name decides.
pub(super) fn give_cpu(class: &mut StructClass) {
    for member in class
        .members
        .iter_mut()
        .filter(|member| &*member.name == CPU_ID)
    {
        match &mut member.class {
            FieldClass::Integer(integer) if !integer.signed => {
                integer.roles = integer.roles.with(Role::CpuId)
            }
            FieldClass::Enum(class) if !class.integer.signed => {
                class.integer.roles = class.integer.roles.with(Role::CpuId)
            }
            FieldClass::VarInt(integer) if !integer.signed => {
                integer.roles = integer.roles.with(Role::CpuId)
            }
            FieldClass::Wide(class) if class.is_integer() && !class.signed => {
                class.roles = class.roles.with(Role::CpuId)
            }
            _ => {}
        }
    }
}
