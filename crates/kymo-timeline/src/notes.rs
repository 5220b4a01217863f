//! The fields of an event that are shown beside it: found once for each class of events.

use std::rc::Rc;
use std::sync::Arc;

use kymo_ctf::{Base, EventClass, EventRef, FieldClass, Member, Scope};
use rustc_hash::FxHashMap;

use crate::Note;
use crate::{FREE, Name, Noted};
use kymo_rows::{Cells, Row, is_length};

/// What is shown of a class of events.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The number of the event's name; those of its fields are behind it.
    number: usize,
    row: Row,
    /// As the row has cells.
    fields: Box<[Field]>,
}

#[derive(Debug)]
struct Field {
    name: Arc<str>,
    /// Its place among the names.
    rank: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Address,
    /// It says whether a text was cut: shown only if so.
    Cut,
}

/// What is shown of each class of events that was met.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    classes: FxHashMap<usize, Rc<Shown>>,
    /// Numbers that names have so far.
    numbers: usize,
    values: Values,
}

impl Notes {
    pub(crate) fn of(&mut self, event: &EventRef<'_>) -> Rc<Shown> {
        let class: &Arc<EventClass> = event.class();
        let shown = self.classes.entry(Arc::as_ptr(class).addr());
        Rc::clone(shown.or_insert_with(|| {
            let shown = Shown::new(event, FREE + self.numbers);
            self.numbers += 1 + shown.fields.len();
            Rc::new(shown)
        }))
    }

    /// The values of an event of this class. They are given back, so that their memory is taken
    /// once.
    pub(crate) fn read(&mut self, shown: &Shown, event: &EventRef<'_>) -> Values {
        let mut values = std::mem::take(&mut self.values);
        values.list.clear();
        values.text.clear();
        let mut json = std::mem::take(&mut values.json);
        shown.row.write(event, &mut json, &mut values);
        values.json = json;
        values
    }

    pub(crate) fn give_back(&mut self, values: Values) {
        self.values = values;
    }
}

/// Names and values of the fields of events, as texts.
#[derive(Debug, Default)]
pub struct Fields {
    notes: Notes,
}

impl Fields {
    /// The fields of an event that say something of their own, in the order of their names.
    pub fn of(&mut self, event: &EventRef<'_>) -> Vec<(String, String)> {
        let shown = self.notes.of(event);
        let values = self.notes.read(&shown, event);
        let mut notes = shown.notes(&values, None);
        notes.sort_unstable_by_key(|noted| noted.rank);
        let texts = notes.iter();
        let texts = texts.map(|noted| (noted.name.text.to_owned(), noted.note.to_string()));
        let texts = texts.collect();
        drop(notes);
        self.notes.give_back(values);
        texts
    }
}

/// The values of an event's fields.
#[derive(Debug, Default)]
pub(crate) struct Values {
    list: Vec<Value>,
    /// The texts, one behind another.
    text: String,
    /// A buffer.
    json: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// Where it begins and ends.
    Text(usize, usize),
    Missing,
}

impl Cells for Values {
    #[inline]
    fn unsigned(&mut self, value: u64) {
        self.list.push(Value::Unsigned(value));
    }

    #[inline]
    fn signed(&mut self, value: i64) {
        self.list.push(Value::Signed(value));
    }

    #[inline]
    fn float(&mut self, value: f64) {
        self.list.push(Value::Float(value));
    }

    #[inline]
    fn text(&mut self, value: &str) {
        let begin = self.text.len();
        self.text.push_str(value);
        self.list.push(Value::Text(begin, self.text.len()));
    }

    #[inline]
    fn missing(&mut self) {
        self.list.push(Value::Missing);
    }
}

impl Shown {
    fn new(event: &EventRef<'_>, number: usize) -> Shown {
        let (class, stream) = (event.class(), event.stream_class());
        let members = class.fields.as_deref().map_or(&[][..], |of| &of.members);
        let fields = members
            .iter()
            .filter(|member| !is_length(&member.name, members));
        let fields = fields.map(|member| Field {
            name: Arc::clone(&member.name),
            rank: members
                .iter()
                .filter(|have| have.name < member.name)
                .count(),
            kind: Kind::new(member, members),
        });
        Shown {
            number,
            row: Row::new(stream, class, |part| part == Scope::EventFields),
            fields: fields.collect(),
        }
    }

    pub(crate) fn name<'e>(&self, event: &EventRef<'e>) -> Name<'e> {
        Name::known(self.number, "event", event.name())
    }

    /// The fields of an event that say something of their own: not the length of another field, nor
    /// that a text was not cut.
    pub(crate) fn notes<'n>(&'n self, values: &'n Values, without: Option<&str>) -> Vec<Noted<'n>> {
        let mut notes = Vec::with_capacity(self.fields.len());
        let numbers = self.number + 1..;
        for ((field, value), number) in self.fields.iter().zip(&values.list).zip(numbers) {
            let note = match (field.kind, *value) {
                (Kind::Cut, Value::Unsigned(0)) | (_, Value::Missing) => continue,
                (Kind::Address, Value::Unsigned(value)) => Note::Address(value),
                (_, Value::Unsigned(value)) => Note::Unsigned(value),
                (_, Value::Signed(value)) => Note::Signed(value),
                (_, Value::Float(value)) => Note::Float(value),
                (_, Value::Text(begin, end)) => {
                    Note::Text(values.text.get(begin..end).unwrap_or_default().into())
                }
            };
            if without.is_some_and(|without| *field.name == *without) {
                continue;
            }
            notes.push(Noted {
                name: Name::known(number, "", &field.name),
                rank: field.rank,
                note,
            });
        }
        notes
    }
}

impl Kind {
    fn new(member: &Member, members: &[Member]) -> Kind {
        let text = member
            .name
            .strip_prefix('_')
            .and_then(|name| name.strip_suffix("_cut"));
        let is_cut = text.is_some_and(|text| members.iter().any(|have| *have.name == *text));
        match &member.class {
            _ if is_cut => Kind::Cut,
            FieldClass::Integer(class) if class.base == Base::Hexadecimal => Kind::Address,
            _ => Kind::Plain,
        }
    }
}
