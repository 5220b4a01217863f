//! The fields of an event that are shown beside it: found once for each class of events.

use std::sync::Arc;

use kymo_ctf::{Base, EventClass, EventRef, FieldAccess, FieldClass, Scope};
use rustc_hash::FxHashMap;

use crate::value::Note;

#[derive(Debug)]
struct Shown {
    name: Arc<str>,
    access: FieldAccess,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Unsigned,
    Address,
    Signed,
    /// It says whether a text was cut: shown only if so.
    Cut,
    Other,
}

/// What is shown of each class of events that was met.
#[derive(Debug, Default)]
pub(super) struct Notes(FxHashMap<usize, Box<[Shown]>>);

impl Notes {
    /// The fields of an event that say something of their own: not the length of another field, nor
    /// that a text was not cut.
    pub(super) fn of<'n, 'e>(
        &'n mut self,
        event: &EventRef<'e>,
        without: &str,
        notes: &mut Vec<(&'n str, Note<'e>)>,
    ) {
        let class: &'e Arc<EventClass> = event.class();
        let shown = self
            .0
            .entry(Arc::as_ptr(class).addr())
            .or_insert_with(|| shown(event));
        notes.extend(
            shown
                .iter()
                .filter(|field| *field.name != *without)
                .filter_map(|field| {
                    let access = &field.access;
                    let note = match field.kind {
                        Kind::Unsigned => event.unsigned(access).map(Note::Unsigned),
                        Kind::Address => event.unsigned(access).map(Note::Address),
                        Kind::Signed => event.signed(access).map(Note::Signed),
                        Kind::Cut if event.unsigned(access) == Some(0) => None,
                        Kind::Cut | Kind::Other => {
                            event.value(access).map(|value| Note::read(&value))
                        }
                    };
                    Some((&*field.name, note?))
                }),
        );
    }
}

fn shown(event: &EventRef<'_>) -> Box<[Shown]> {
    let (class, stream) = (event.class(), event.stream_class());
    let members = class.fields.as_deref().map_or(&[][..], |of| &of.members);
    let has = |name: &str| members.iter().any(|member| *member.name == *name);
    let told_by = |name: &str, suffix: &str| {
        let of = name
            .strip_prefix('_')
            .and_then(|name| name.strip_suffix(suffix));
        of.is_some_and(has)
    };
    let fields = members
        .iter()
        .filter(|member| !told_by(&member.name, "_length"));
    let fields = fields.filter_map(|member| {
        let kind = match &member.class {
            _ if told_by(&member.name, "_cut") => Kind::Cut,
            FieldClass::Integer(class) if class.signed => Kind::Signed,
            FieldClass::Integer(class) if class.base == Base::Hexadecimal => Kind::Address,
            FieldClass::Integer(_) => Kind::Unsigned,
            _ => Kind::Other,
        };
        Some(Shown {
            name: Arc::clone(&member.name),
            access: FieldAccess::find(stream, class, Scope::EventFields, &member.name)?,
            kind,
        })
    });
    fields.collect()
}
