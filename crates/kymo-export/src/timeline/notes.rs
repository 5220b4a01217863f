//! The fields of an event that are shown beside it: found once for each class of events.

use std::rc::Rc;
use std::sync::Arc;

use kymo_ctf::{Base, EventClass, EventRef, FieldAccess, FieldClass, Member, Scope};
use rustc_hash::FxHashMap;

use super::{FREE, Name, Noted};
use crate::cells::texts;
use crate::value::Note;

/// What is shown of a class of events.
#[derive(Debug)]
pub(super) struct Shown {
    /// The number of the event's name; those of its fields are behind it.
    number: usize,
    fields: Box<[Field]>,
}

#[derive(Debug)]
struct Field {
    name: Arc<str>,
    /// Its place among the names.
    rank: usize,
    access: FieldAccess,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Unsigned,
    Address,
    Signed,
    /// The texts of the values from 0.
    Labelled(Box<[Box<str>]>),
    /// It says whether a text was cut: shown only if so.
    Cut,
    Other,
}

/// What is shown of each class of events that was met.
#[derive(Debug, Default)]
pub(super) struct Notes {
    classes: FxHashMap<usize, Rc<Shown>>,
    /// Numbers that names have so far.
    numbers: usize,
}

impl Notes {
    pub(super) fn of(&mut self, event: &EventRef<'_>) -> Rc<Shown> {
        let class: &Arc<EventClass> = event.class();
        let shown = self.classes.entry(Arc::as_ptr(class).addr());
        Rc::clone(shown.or_insert_with(|| {
            let number = FREE + self.numbers;
            let fields = fields(event);
            self.numbers += 1 + fields.len();
            Rc::new(Shown { number, fields })
        }))
    }
}

impl Shown {
    pub(super) fn name<'e>(&self, event: &EventRef<'e>) -> Name<'e> {
        Name::known(self.number, "event", event.name())
    }

    /// The fields of an event that say something of their own: not the length of another field, nor
    /// that a text was not cut.
    pub(super) fn notes<'n>(
        &'n self,
        event: &EventRef<'n>,
        without: Option<&str>,
    ) -> Vec<Noted<'n>> {
        let mut notes = Vec::with_capacity(self.fields.len());
        for (field, number) in self.fields.iter().zip(self.number + 1..) {
            if without.is_some_and(|without| *field.name == *without) {
                continue;
            }
            if let Some(note) = field.note(event) {
                notes.push(Noted {
                    name: Name::known(number, "", &field.name),
                    rank: field.rank,
                    note,
                });
            }
        }
        notes
    }
}

impl Field {
    #[inline]
    fn note<'n>(&'n self, event: &EventRef<'n>) -> Option<Note<'n>> {
        let access = &self.access;
        match &self.kind {
            Kind::Unsigned => return event.unsigned(access).map(Note::Unsigned),
            Kind::Address => return event.unsigned(access).map(Note::Address),
            Kind::Signed => return event.signed(access).map(Note::Signed),
            Kind::Labelled(texts) => {
                let value = event.unsigned(access).map(usize::try_from);
                if let Some(text) = value.and_then(|value| texts.get(value.ok()?)) {
                    return Some(Note::Text((&**text).into()));
                }
            }
            Kind::Cut if event.unsigned(access) == Some(0) => return None,
            Kind::Cut | Kind::Other => {}
        }
        event.value(access).map(|value| Note::read(&value))
    }
}

fn fields(event: &EventRef<'_>) -> Box<[Field]> {
    let (class, stream) = (event.class(), event.stream_class());
    let members = class.fields.as_deref().map_or(&[][..], |of| &of.members);
    let has = |name: &str| members.iter().any(|member| *member.name == *name);
    let told_by = |name: &str, suffix: &str| {
        let of = name
            .strip_prefix('_')
            .and_then(|name| name.strip_suffix(suffix));
        of.is_some_and(has)
    };
    let kind = |member: &Member| match &member.class {
        _ if told_by(&member.name, "_cut") => Kind::Cut,
        FieldClass::Integer(class) if class.signed => Kind::Signed,
        FieldClass::Integer(class) if class.base == Base::Hexadecimal => Kind::Address,
        FieldClass::Integer(_) => Kind::Unsigned,
        FieldClass::Enum(class) => Kind::Labelled(texts(&class.mappings)),
        _ => Kind::Other,
    };
    let fields = members
        .iter()
        .filter(|member| !told_by(&member.name, "_length"));
    let fields = fields.filter_map(|member| {
        Some(Field {
            name: Arc::clone(&member.name),
            rank: members
                .iter()
                .filter(|have| have.name < member.name)
                .count(),
            access: FieldAccess::find(stream, class, Scope::EventFields, &member.name)?,
            kind: kind(member),
        })
    });
    fields.collect()
}
