//! What all lines of an event class have in common, rendered once.
//!
//! A line is a time, a head and fields. The head (CPU, stream, name of the event) changes with the
//! packet at most. Of the fields, everything but the values is known from the class; and in a
//! kernel's trace most classes have only integers, each at a place that is the same in all records.
//! For these a line is a few copies and loads. The records of other classes are visited.
//!
//! Either way it is the form's [`FieldWriter`] that decides what is written: for the plan it writes
//! a record without values, which is cut where the values go.

use std::sync::Arc;

use kymo_ctf::{
    Base, ClockClass, Compound, EventClass, EventRef, FieldAccess, FieldClass, Loss, Metadata,
    Problem, Scope, StreamClass, StructClass, TraceMap, Visitor,
};
use kymo_text::{decimal, signed};

use super::Page;

/// Writes the fields of a record.
pub trait FieldWriter<'a>: Visitor<'a> {
    /// What was written so far.
    fn line(&mut self) -> &mut Vec<u8>;

    /// Ends the line, behind the last field.
    fn finish(&mut self);
}

/// One of the forms that events are printed in.
pub trait Form {
    /// What turns the ticks of an event class into times.
    type Clock;
    type Writer<'b>: for<'a> FieldWriter<'a>;

    /// Whether integers are decimal in every base.
    const DECIMAL: bool;

    fn clock(&self, clock: Option<&ClockClass>) -> Self::Clock;

    /// What the heads of all events of a packet have in common.
    fn packet(&self, event: &EventRef<'_>, shared: &mut Vec<u8>);

    fn time(&mut self, event: &EventRef<'_>, clock: &Self::Clock, line: &mut Vec<u8>);

    /// What comes between the time and the fields.
    fn head(&self, event: &EventRef<'_>, shared: &[u8], line: &mut Vec<u8>);

    /// A writer of the event's fields; `shared` is as for the head.
    fn fields<'b>(
        &self,
        event: &EventRef<'_>,
        shared: &[u8],
        line: &'b mut Vec<u8>,
    ) -> Self::Writer<'b>;

    fn loss(&mut self, loss: &Loss, page: &mut Page);

    /// Reading goes on after it as if nothing had been.
    fn problem(&mut self, problem: &Problem, page: &mut Page);

    /// Something cannot be read.
    fn error(&mut self, error: &kymo_ctf::Error, page: &mut Page);
}

/// Prints events in a form.
pub struct Lines<F: Form> {
    form: F,
    streams: Vec<Stream<F>>,
}

struct Stream<F: Form> {
    metadata: Arc<Metadata>,
    /// The packet that `shared` is of, by the reader's count.
    packet: Option<u64>,
    shared: Vec<u8>,
    /// Counts the different `shared`.
    version: u64,
    /// By index of the event class.
    classes: Vec<Option<ClassPlan<F>>>,
}

struct ClassPlan<F: Form> {
    /// Version of the stream's `shared` that the head was made with.
    version: u64,
    clock: F::Clock,
    /// With fields at fixed places, everything up to the first value.
    head: Vec<u8>,
    /// `None` if records have to be visited.
    fields: Option<Box<[FixedField]>>,
}

/// An integer at the same place in every record.
struct FixedField {
    access: FieldAccess,
    /// Which of the record's parts it is in, and the member's index there.
    part: u8,
    index: u32,
    number: Number,
    /// What is written from here to the next value, or to the end of the line.
    after: Piece,
}

/// How an integer is written.
enum Number {
    Unsigned,
    Signed,
    /// What the values from 0 are written as. Others are left to the form.
    Labelled(Box<[Piece]>),
    /// By the form.
    Other,
}

/// Values of an enumeration that are rendered in advance.
const RENDERED: u64 = 64;

impl<F: Form> Lines<F> {
    pub fn new(map: &TraceMap, form: F) -> Lines<F> {
        let streams = map.streams().map(|(metadata, _, _)| Stream {
            metadata: Arc::clone(metadata),
            packet: None,
            shared: Vec::new(),
            version: 0,
            classes: (0..metadata.event_class_count()).map(|_| None).collect(),
        });
        Lines {
            form,
            streams: streams.collect(),
        }
    }

    #[inline]
    pub fn event(&mut self, event: &EventRef<'_>, page: &mut Page) {
        let form = &mut self.form;
        let Some(stream) = self.streams.get_mut(event.stream_index()) else {
            return;
        };
        let Some(class) = stream.class(form, event) else {
            return;
        };
        let line = &mut page.lines;
        form.time(event, &class.clock, line);
        line.extend_from_slice(&class.head);
        match &class.fields {
            Some(fields) => {
                for field in fields {
                    field.write(form, event, line);
                }
            }
            None => {
                let mut writer = form.fields(event, &stream.shared, line);
                event.visit(&mut writer);
                writer.finish();
            }
        }
    }

    pub fn loss(&mut self, loss: &Loss, page: &mut Page) {
        self.form.loss(loss, page);
    }

    pub fn problem(&mut self, problem: &Problem, page: &mut Page) {
        self.form.problem(problem, page);
    }

    pub fn error(&mut self, error: &kymo_ctf::Error, page: &mut Page) {
        self.form.error(error, page);
    }
}

impl<F: Form> Stream<F> {
    #[inline]
    fn class(&mut self, form: &F, event: &EventRef<'_>) -> Option<&ClassPlan<F>> {
        if self.packet != Some(event.packet_count()) {
            self.enter_packet(form, event);
        }
        let class = self.classes.get_mut(event.class().index())?;
        match class {
            Some(class) if class.version == self.version => {}
            _ => *class = ClassPlan::new(form, event, &self.metadata, &self.shared, self.version),
        }
        class.as_ref()
    }

    #[inline(never)]
    fn enter_packet(&mut self, form: &F, event: &EventRef<'_>) {
        let mut shared = Vec::new();
        form.packet(event, &mut shared);
        if shared != self.shared || self.packet.is_none() {
            self.version += 1;
            self.shared = shared;
        }
        self.packet = Some(event.packet_count());
    }
}

impl<F: Form> ClassPlan<F> {
    #[inline(never)]
    fn new(
        form: &F,
        event: &EventRef<'_>,
        metadata: &Metadata,
        shared: &[u8],
        version: u64,
    ) -> Option<ClassPlan<F>> {
        let clock = form.clock(event.clock().map(|clock| &**clock));
        let mut head = Vec::new();
        form.head(event, shared, &mut head);
        let stream = metadata
            .streams()
            .find(|stream| stream.id == event.class().stream_id)?;
        let fields = FixedField::all(form, event, stream, shared);
        let fields = fields.map(|(first, fields)| {
            head.extend_from_slice(&first);
            fields
        });
        Some(ClassPlan {
            version,
            clock,
            head,
            fields,
        })
    }
}

/// The parts of a record that have fields to print, in their order.
fn parts<'a>(
    stream: &'a StreamClass,
    event: &'a EventClass,
) -> [(Scope, Option<&'a StructClass>); 3] {
    [
        (Scope::EventCommonContext, stream.event_context.as_deref()),
        (Scope::EventContext, event.context.as_deref()),
        (Scope::EventFields, event.fields.as_deref()),
    ]
}

impl FixedField {
    /// The fields of an event class, if they all are integers at fixed places; and what is written
    /// before the first.
    fn all<F: Form>(
        form: &F,
        event: &EventRef<'_>,
        stream: &StreamClass,
        shared: &[u8],
    ) -> Option<(Vec<u8>, Box<[FixedField]>)> {
        let mut line = Vec::new();
        let mut writer = form.fields(event, shared, &mut line);
        let (mut fields, mut cuts) = (Vec::new(), Vec::new());
        for (part, (scope, class)) in parts(stream, event.class()).into_iter().enumerate() {
            let Some(class) = class else { continue };
            writer.scope(scope);
            writer.structure(class);
            for (index, member) in class.members.iter().enumerate() {
                let access = FieldAccess::find(stream, event.class(), scope, &member.name)?;
                let first = class
                    .members
                    .iter()
                    .position(|have| have.name == member.name);
                if !access.is_fixed_integer() || first != Some(index) {
                    return None;
                }
                writer.member(member);
                cuts.push(writer.line().len());
                fields.push(FixedField {
                    access,
                    part: part as u8,
                    index: u32::try_from(index).ok()?,
                    number: Number::of(form, event, shared, &member.class)?,
                    after: Piece::default(),
                });
            }
            writer.end(Compound::Structure);
        }
        writer.finish();
        drop(writer);
        let ends = cuts.iter().skip(1).copied().chain([line.len()]);
        for ((field, &begin), end) in fields.iter_mut().zip(&cuts).zip(ends) {
            field.after = Piece::new(line.get(begin..end)?);
        }
        if let Some(&first) = cuts.first() {
            line.truncate(first);
        }
        Some((line, fields.into()))
    }

    #[inline]
    fn write<F: Form>(&self, form: &F, event: &EventRef<'_>, line: &mut Vec<u8>) {
        match &self.number {
            Number::Unsigned => decimal(line, event.unsigned(&self.access).unwrap_or(0)),
            Number::Signed => signed(line, event.signed(&self.access).unwrap_or(0)),
            Number::Labelled(pieces) => {
                let value = event.unsigned(&self.access);
                let piece = value.and_then(|value| pieces.get(usize::try_from(value).ok()?));
                match piece {
                    Some(piece) => piece.write(line),
                    None => self.write_by_form(form, event, line),
                }
            }
            Number::Other => self.write_by_form(form, event, line),
        }
        self.after.write(line);
    }

    #[inline(never)]
    fn write_by_form<F: Form>(&self, form: &F, event: &EventRef<'_>, line: &mut Vec<u8>) {
        let fields = match self.part {
            0 => event.stream_context(),
            1 => event.context(),
            _ => event.fields(),
        };
        let member = fields.class().members.get(self.index as usize);
        if let Some((class, integer)) =
            member.and_then(|member| Some((&member.class, member.class.as_integer()?)))
        {
            let bits = match integer.signed {
                true => event.signed(&self.access).map(i64::cast_unsigned),
                false => event.unsigned(&self.access),
            };
            let bits =
                bits.unwrap_or(0) & (u64::MAX >> (64 - u32::from(integer.size.clamp(1, 64))));
            form.fields(event, &[], line).integer(class, integer, bits);
        }
    }
}

impl Number {
    fn of<F: Form>(
        form: &F,
        event: &EventRef<'_>,
        shared: &[u8],
        class: &FieldClass,
    ) -> Option<Number> {
        let integer = class.as_integer()?;
        Some(match class {
            FieldClass::Integer(_) if !F::DECIMAL && integer.base != Base::Decimal => Number::Other,
            FieldClass::Integer(_) if integer.signed => Number::Signed,
            FieldClass::Integer(_) => Number::Unsigned,
            FieldClass::Enum(labels) => {
                let last = (0..RENDERED)
                    .rev()
                    .find(|&value| labels.mappings.iter().any(|one| one.holds(value.into())));
                let values = 0..last.map_or(0, |last| last + 1);
                let pieces = values.map(|value| {
                    let mut line = Vec::new();
                    form.fields(event, shared, &mut line)
                        .integer(class, integer, value);
                    Piece::new(&line)
                });
                Number::Labelled(pieces.collect())
            }
            _ => Number::Other,
        })
    }
}

/// A text that is written often. A short one is copied as a fixed number of bytes, of which those
/// that are too many are taken off again: two stores, where a copy of any length is a call.
#[derive(Default)]
pub struct Piece {
    begin: [u8; SHORT],
    length: usize,
    /// What is behind `begin`.
    rest: Box<[u8]>,
}

const SHORT: usize = 32;

impl Piece {
    pub fn new(text: &[u8]) -> Piece {
        let (begin, rest) = text.split_at(text.len().min(SHORT));
        let mut piece = Piece {
            length: begin.len(),
            rest: rest.into(),
            ..Piece::default()
        };
        piece
            .begin
            .iter_mut()
            .zip(begin)
            .for_each(|(to, from)| *to = *from);
        piece
    }

    #[inline]
    pub fn write(&self, line: &mut Vec<u8>) {
        let end = line.len() + self.length;
        line.extend_from_slice(&self.begin);
        line.truncate(end);
        if !self.rest.is_empty() {
            line.extend_from_slice(&self.rest);
        }
    }
}
