//! Roles of CTF 1.8, which follow from a member's name and scope.

use std::sync::Arc;

use crate::class::{Encoding, FieldClass, IntegerClass, Role, Scope, StructClass};
use crate::metadata::clock::ClockClass;

/// Reserved names in the packet header and their roles.
const PACKET_HEADER: [(&str, Role); 3] = [
    ("magic", Role::PacketMagic),
    ("stream_id", Role::StreamClassId),
    ("stream_instance_id", Role::StreamId),
];

/// Reserved names in the packet context and their roles. Times have a role only if they are values
/// of the stream's clock.
const PACKET_CONTEXT: [(&str, Role); 7] = [
    ("timestamp_begin", Role::Timestamp),
    ("timestamp_end", Role::PacketEndTimestamp),
    ("content_size", Role::PacketContentLength),
    ("packet_size", Role::PacketTotalLength),
    ("packet_seq_num", Role::PacketSequenceNumber),
    ("events_discarded", Role::DiscardedEvents),
    (CPU_ID, Role::CpuId),
];

/// The name that all tracers use for the CPU number.
pub(crate) const CPU_ID: &str = "cpu_id";

/// A member that cannot have the role that its name gives it: an error if it is an integer, or an
/// array of a fixed length, that the role does not allow; a warning if it is of another type, which
/// makes it an ordinary field.
#[derive(Debug)]
pub(crate) struct WrongMember {
    pub(crate) name: &'static str,
    pub(crate) message: String,
}

/// Maps the event header's `timestamp` to a clock of nanoseconds, if the metadata describes no
/// clock (CTF 1.8.3, section 8).
pub(crate) fn clockless_timestamp(header: &mut StructClass) -> Option<Arc<ClockClass>> {
    fn map(class: &mut StructClass, found: &mut bool) {
        for member in &mut class.members {
            match &mut member.class {
                FieldClass::Struct(class) => map(class, found),
                FieldClass::Variant(class) => {
                    for option in &mut class.options {
                        if let FieldClass::Struct(class) = &mut option.class {
                            map(class, found);
                        }
                    }
                }
                FieldClass::Integer(integer)
                    if &*member.declared_name == "timestamp" && !integer.signed =>
                {
                    integer.clock = Some(Arc::from("timestamp"));
                    *found = true;
                }
                _ => {}
            }
        }
    }
    let mut found = false;
    map(header, &mut found);
    found.then(|| Arc::new(ClockClass::new("timestamp".to_owned())))
}

/// The name of a stream's clock: the clock of the event header's `timestamp`, else the first clock
/// in the event header, else the clock of the packet's beginning, else the first clock in the
/// packet context. Fields that are mapped to another clock do not affect the stream's time.
pub(crate) fn default_clock(
    packet_context: Option<&StructClass>,
    event_header: Option<&StructClass>,
) -> Option<Arc<str>> {
    let mapped = |class: Option<&StructClass>| {
        let mut names = Vec::new();
        class
            .into_iter()
            .for_each(|class| mapped_members(class, &mut names));
        names
    };
    let first = |names: &[(Arc<str>, Arc<str>)], preferred: fn(&str) -> bool| {
        let found = names
            .iter()
            .find(|(name, _)| preferred(name))
            .or(names.first());
        found.map(|(_, clock)| Arc::clone(clock))
    };
    first(&mapped(event_header), |name| name == "timestamp")
        .or_else(|| first(&mapped(packet_context), |name| name.ends_with("_begin")))
}

/// Collects the members that are mapped to a clock: names of the member and of the clock.
fn mapped_members(class: &StructClass, names: &mut Vec<(Arc<str>, Arc<str>)>) {
    class
        .members
        .iter()
        .for_each(|member| mapped_member(&member.declared_name, &member.class, names));
}

fn mapped_member(name: &Arc<str>, class: &FieldClass, names: &mut Vec<(Arc<str>, Arc<str>)>) {
    match class {
        FieldClass::Struct(class) => mapped_members(class, names),
        FieldClass::Variant(class) => class
            .options
            .iter()
            .for_each(|option| mapped_member(&option.declared_name, &option.class, names)),
        FieldClass::Array(class) => mapped_member(name, &class.element, names),
        _ => names.extend(
            class
                .as_integer()
                .and_then(|integer| Some((Arc::clone(name), integer.clock.clone()?))),
        ),
    }
}

/// Whether any integer in `class` has this role.
pub(crate) fn is_given(role: Role, class: &StructClass) -> bool {
    fn within(role: Role, class: &FieldClass) -> bool {
        match class {
            FieldClass::Struct(class) => is_given(role, class),
            FieldClass::Variant(class) => class
                .options
                .iter()
                .any(|option| within(role, &option.class)),
            FieldClass::Array(class) => within(role, &class.element),
            _ => class
                .storage()
                .is_some_and(|integer| integer.roles.has(role)),
        }
    }
    class
        .members
        .iter()
        .any(|member| within(role, &member.class))
}

/// Assigns roles to the members of a scope; `clock` is the name of the stream's clock. Members that
/// are ordinary fields in spite of their names are added to `ordinary`.
pub(crate) fn assign(
    scope: Scope,
    class: &mut StructClass,
    clock: Option<&str>,
    ordinary: &mut Vec<WrongMember>,
) -> Result<(), WrongMember> {
    match scope {
        Scope::PacketHeader => {
            by_name(class, &PACKET_HEADER, clock, ordinary)?;
            uuid(class, ordinary)
        }
        Scope::PacketContext => {
            by_name(class, &PACKET_CONTEXT, clock, ordinary)?;
            // A member that is mapped to a clock has the role if its name merely ends like this.
            for (role, ending) in [
                (Role::Timestamp, "_begin"),
                (Role::PacketEndTimestamp, "_end"),
            ] {
                if class.members.iter().any(|member| {
                    member
                        .class
                        .storage()
                        .is_some_and(|integer| integer.roles.has(role))
                }) {
                    continue;
                }
                let named = class
                    .members
                    .iter_mut()
                    .filter(|member| member.declared_name.ends_with(ending));
                let mut mapped = named.filter_map(|member| {
                    member
                        .class
                        .storage_mut()
                        .filter(|integer| is_of(integer, clock))
                });
                if let Some(integer) = mapped.next().filter(|integer| !integer.signed) {
                    integer.roles = integer.roles.with(role);
                }
            }
            Ok(())
        }
        Scope::EventHeader => class.members.iter_mut().try_for_each(|member| {
            let is_id = &*member.declared_name == "id";
            event_header(&mut member.class, is_id, clock, ordinary)
        }),
        Scope::EventCommonContext | Scope::EventContext | Scope::EventFields => Ok(()),
    }
}

/// Whether the integer is mapped to the clock of this name.
fn is_of(integer: &IntegerClass, clock: Option<&str>) -> bool {
    clock.is_some() && integer.clock.as_deref() == clock
}

fn by_name(
    class: &mut StructClass,
    roles: &[(&'static str, Role)],
    clock: Option<&str>,
    ordinary: &mut Vec<WrongMember>,
) -> Result<(), WrongMember> {
    for (name, role) in roles {
        let is_time = matches!(role, Role::Timestamp | Role::PacketEndTimestamp);
        if is_time && clock.is_none() {
            continue;
        }
        let members = class.members.iter_mut();
        let Some(member) = members
            .into_iter()
            .find(|member| &*member.declared_name == *name)
        else {
            continue;
        };
        match member.class.storage_mut() {
            // A time of another clock.
            Some(integer) if is_time && integer.clock.is_some() && !is_of(integer, clock) => {}
            Some(integer) if *role == Role::PacketMagic && integer.size != 32 => {
                return Err(WrongMember {
                    name,
                    message: format!("`{name}` must be an unsigned integer of 32 bits"),
                });
            }
            Some(integer) if !integer.signed => integer.roles = integer.roles.with(*role),
            // A `cpu_id` of another class is an ordinary value.
            _ if *role == Role::CpuId => {}
            Some(_) => {
                return Err(WrongMember {
                    name,
                    message: format!("`{name}` must be an unsigned integer"),
                });
            }
            None => ordinary.push(WrongMember {
                name,
                message: format!("`{name}` is no integer, so it is an ordinary field"),
            }),
        }
    }
    Ok(())
}

fn uuid(class: &mut StructClass, ordinary: &mut Vec<WrongMember>) -> Result<(), WrongMember> {
    let Some(member) = class
        .members
        .iter_mut()
        .find(|member| &*member.declared_name == "uuid")
    else {
        return Ok(());
    };
    let name = "uuid";
    let array = match &mut member.class {
        FieldClass::Array(array) if array.fixed_length().is_some() => array,
        _ => {
            let message =
                "`uuid` is no array of a fixed length, so it is an ordinary field".to_owned();
            ordinary.push(WrongMember { name, message });
            return Ok(());
        }
    };
    if array.fixed_length() == Some(16)
        && matches!(&*array.element, FieldClass::Integer(integer)
            if integer.size == 8 && !integer.signed && integer.encoding == Encoding::None)
    {
        array.roles = array.roles.with(Role::MetadataUuid);
        return Ok(());
    }
    let message =
        "the packet header's `uuid` must be an array of 16 unsigned integers of 8 bits".to_owned();
    Err(WrongMember { name, message })
}

/// Assigns roles in an event header, where the id and times may be in any structure or option.
fn event_header(
    class: &mut FieldClass,
    is_id: bool,
    clock: Option<&str>,
    ordinary: &mut Vec<WrongMember>,
) -> Result<(), WrongMember> {
    let name = "id";
    if is_id && class.storage().is_none() {
        let message =
            "the event header's `id` is no integer, so it is an ordinary field".to_owned();
        ordinary.push(WrongMember { name, message });
    } else if is_id
        && !class
            .as_integer()
            .is_some_and(|integer| !integer.signed && integer.clock.is_none())
    {
        let message =
            "the event header's `id` must be an unsigned integer or an enumeration of such"
                .to_owned();
        return Err(WrongMember { name, message });
    }
    match class {
        FieldClass::Struct(class) => class.members.iter_mut().try_for_each(|member| {
            let is_id = &*member.declared_name == name;
            event_header(&mut member.class, is_id, clock, ordinary)
        }),
        FieldClass::Variant(class) => class
            .options
            .iter_mut()
            .try_for_each(|option| event_header(&mut option.class, false, clock, ordinary)),
        FieldClass::Array(class) => event_header(&mut class.element, false, clock, ordinary),
        _ => {
            if let Some(integer) = class.storage_mut() {
                if is_id {
                    integer.roles = integer.roles.with(Role::EventClassId);
                }
                if is_of(integer, clock) {
                    integer.roles = integer.roles.with(Role::Timestamp);
                }
            }
            Ok(())
        }
    }
}
