//! Roles of CTF 1.8: which member means what follows from its name and place.

use std::sync::Arc;

use crate::class::{Encoding, FieldClass, Role, Scope, StructClass};
use crate::clock::ClockClass;

/// Names of the packet header's members that have a meaning.
const PACKET_HEADER: [(&str, Role); 3] =
    [("magic", Role::PacketMagic), ("stream_id", Role::StreamClassId), ("stream_instance_id", Role::StreamId)];

/// The same of the packet context. Times count only in streams that have a clock.
const PACKET_CONTEXT: [(&str, Role); 7] = [
    ("timestamp_begin", Role::Timestamp),
    ("timestamp_end", Role::PacketEndTimestamp),
    ("content_size", Role::PacketContentLength),
    ("packet_size", Role::PacketTotalLength),
    ("packet_seq_num", Role::PacketSequenceNumber),
    ("events_discarded", Role::DiscardedEvents),
    (CPU_ID, Role::CpuId),
];

/// The name by which all tracers tell the CPU.
pub(crate) const CPU_ID: &str = "cpu_id";

/// A member that cannot have the role that its name gives it.
#[derive(Debug)]
pub(crate) struct WrongMember {
    pub(crate) name: &'static str,
    pub(crate) message: String,
}

/// Where no clock is described, fields named `timestamp` are nanoseconds of one clock (CTF 1.8.3, section 8). Maps that of an event
/// header to it, if there is one.
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
                FieldClass::Integer(integer) if &*member.declared_name == "timestamp" && !integer.signed => {
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

/// Gives the members of a scope their roles.
pub(crate) fn assign(scope: Scope, class: &mut StructClass, has_clock: bool) -> Result<(), WrongMember> {
    match scope {
        Scope::PacketHeader => {
            by_name(class, &PACKET_HEADER)?;
            uuid(class)
        }
        Scope::PacketContext => {
            let roles = PACKET_CONTEXT.into_iter();
            let roles = roles.filter(|(_, role)| has_clock || !matches!(role, Role::Timestamp | Role::PacketEndTimestamp));
            by_name(class, &roles.collect::<Vec<_>>())?;
            // Mapped to a clock, any name with these endings means the same.
            for (role, ending) in [(Role::Timestamp, "_begin"), (Role::PacketEndTimestamp, "_end")] {
                if class.members.iter().any(|member| member.class.storage().is_some_and(|integer| integer.roles.has(role))) {
                    continue;
                }
                let named = class.members.iter_mut().filter(|member| member.declared_name.ends_with(ending));
                let mut mapped = named.filter_map(|member| member.class.storage_mut().filter(|integer| integer.clock.is_some()));
                if let Some(integer) = mapped.next().filter(|integer| !integer.signed) {
                    integer.roles = integer.roles.with(role);
                }
            }
            Ok(())
        }
        Scope::EventHeader => class.members.iter_mut().try_for_each(|member| {
            let is_id = &*member.declared_name == "id";
            event_header(&mut member.class, is_id)
        }),
        Scope::EventCommonContext | Scope::EventContext | Scope::EventFields => Ok(()),
    }
}

fn by_name(class: &mut StructClass, roles: &[(&'static str, Role)]) -> Result<(), WrongMember> {
    for (name, role) in roles {
        let members = class.members.iter_mut();
        let Some(member) = members.into_iter().find(|member| &*member.declared_name == *name) else { continue };
        match member.class.storage_mut() {
            Some(integer) if !integer.signed => integer.roles = integer.roles.with(*role),
            // Where a CPU's number is something else, it is a value like any other.
            _ if *role == Role::CpuId => {}
            _ => return Err(WrongMember { name, message: format!("`{name}` must be an unsigned integer") }),
        }
    }
    Ok(())
}

fn uuid(class: &mut StructClass) -> Result<(), WrongMember> {
    let Some(member) = class.members.iter_mut().find(|member| &*member.declared_name == "uuid") else {
        return Ok(());
    };
    if let FieldClass::Array(array) = &mut member.class
        && array.fixed_length() == Some(16)
        && matches!(&*array.element, FieldClass::Integer(integer)
            if integer.size == 8 && !integer.signed && integer.encoding == Encoding::None)
    {
        array.roles = array.roles.with(Role::MetadataUuid);
        return Ok(());
    }
    let message = "the packet header's `uuid` must be an array of 16 unsigned integers of 8 bits".to_owned();
    Err(WrongMember { name: "uuid", message })
}

/// The id may be in any structure or option of the header, and so may the times.
fn event_header(class: &mut FieldClass, is_id: bool) -> Result<(), WrongMember> {
    if is_id && !class.as_integer().is_some_and(|integer| !integer.signed && integer.clock.is_none()) {
        let message = "the event header's `id` must be an unsigned integer or an enumeration of such".to_owned();
        return Err(WrongMember { name: "id", message });
    }
    match class {
        FieldClass::Struct(class) => class.members.iter_mut().try_for_each(|member| {
            let is_id = &*member.declared_name == "id";
            event_header(&mut member.class, is_id)
        }),
        FieldClass::Variant(class) => class.options.iter_mut().try_for_each(|option| event_header(&mut option.class, false)),
        FieldClass::Array(class) => event_header(&mut class.element, false),
        _ => {
            if let Some(integer) = class.storage_mut() {
                if is_id {
                    integer.roles = integer.roles.with(Role::EventClassId);
                }
                if integer.clock.is_some() {
                    integer.roles = integer.roles.with(Role::Timestamp);
                }
            }
            Ok(())
        }
    }
}
