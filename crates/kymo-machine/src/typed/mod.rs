//! Typed events: what each event class of a trace means, resolved once per class.
//!
//! A record of a trace becomes views of the [vocabulary](kymo::vocabulary)'s events. For Kymo's own
//! classes that is the event of the same name. Classes of other tracers are looked up in
//! [`alias`]: one of their records may say several things (LTTng's `sched_switch` tells the names of
//! both threads besides), under other names and with other numbers. Fields that a trace lacks read
//! as `None`, fields that nobody knows are not looked at; both are decided here and nowhere else.

mod alias;
mod linux;

use std::borrow::Cow;
use std::sync::Arc;

use kymo::event::{FieldSchema, FieldValues};
use kymo_ctf::{
    EnvValue, EventClass, EventRef, FieldAccess, Metadata, Scope, StreamClass, ValueRef,
};

use crate::machine::{At, Understood};

pub use linux::softirq_name;

/// Where a field of a vocabulary event comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The trace does not have it.
    Missing,
    Field(FieldAccess),
    /// Another tracer's numbering.
    Converted(FieldAccess, fn(u64) -> Option<u64>),
    /// What the class says by its name alone.
    Constant(u64),
}

/// One thing that the records of a class say.
#[derive(Clone, Debug)]
pub(crate) struct Meaning {
    pub(crate) event: Understood,
    /// By place in the vocabulary event's declaration.
    pub(crate) sources: Box<[Source]>,
    /// The system call, of tracers that have a class of events for each.
    pub(crate) call: Option<Arc<str>>,
    /// Text that names the threads which the event is about, of tracers that tell names so.
    comms: [Option<FieldAccess>; 2],
    /// Fields that must be equal, or this is not said.
    same: Option<(FieldAccess, FieldAccess)>,
}

/// What an event class means.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) meanings: Box<[Meaning]>,
    /// Whether its records tell names or states only, and no happenings.
    pub(crate) is_name: bool,
    /// The CPU, where packets do not say it.
    cpu: Option<FieldAccess>,
    /// The thread that a context names: by the kernel's number, or by that of its namespace.
    tid: Option<FieldAccess>,
    pid: Option<FieldAccess>,
}

/// The record's values, for a vocabulary event's view.
impl<'e> FieldValues for &At<'_, 'e> {
    type Text = Cow<'e, str>;
    type Elements = ValueRef<'e>;

    #[inline]
    fn unsigned(&self, place: usize) -> Option<u64> {
        match self.meaning.sources.get(place)? {
            Source::Field(access) => self.event.unsigned(access),
            Source::Converted(access, convert) => convert(self.event.unsigned(access)?),
            Source::Constant(value) => Some(*value),
            Source::Missing => None,
        }
    }

    #[inline]
    fn signed(&self, place: usize) -> Option<i64> {
        self.event.signed(self.meaning.field(place)?)
    }

    fn text(&self, place: usize) -> Option<Cow<'e, str>> {
        self.event.text(self.meaning.field(place)?)
    }

    fn elements(&self, place: usize) -> Option<ValueRef<'e>> {
        self.event.value(self.meaning.field(place)?)
    }
}

impl Meaning {
    fn field(&self, place: usize) -> Option<&FieldAccess> {
        match self.sources.get(place)? {
            Source::Field(access) => Some(access),
            _ => None,
        }
    }

    /// An event of the vocabulary under its own name and with its own fields.
    fn native(event: Understood, field: &dyn Fn(&str) -> Option<FieldAccess>) -> Meaning {
        let declared = event.fields().iter();
        Meaning {
            event,
            sources: declared
                .map(|declared| field(declared.name).map_or(Source::Missing, Source::Field))
                .collect(),
            call: None,
            comms: [None; 2],
            same: None,
        }
    }

    /// Whether the record says this.
    #[inline]
    pub(crate) fn holds(&self, event: &EventRef<'_>) -> bool {
        self.same
            .as_ref()
            .is_none_or(|(one, other)| event.unsigned(one) == event.unsigned(other))
    }

    /// The name of the thread in the event's first field of a thread, or in the second.
    #[inline]
    pub(crate) fn comm<'e>(&self, event: &EventRef<'e>, place: usize) -> Option<Cow<'e, str>> {
        event.text(self.comms.get(place)?.as_ref()?)
    }
}

impl Class {
    fn of(stream: &StreamClass, class: &EventClass, tracer: &Tracer) -> Class {
        let find = |scope, name: &str| FieldAccess::find(stream, class, scope, name);
        let context = |names: [&str; 2]| {
            names.into_iter().find_map(|name| {
                find(Scope::EventContext, name).or_else(|| find(Scope::EventCommonContext, name))
            })
        };
        let field = |name: &str| find(Scope::EventFields, name);
        let native = Understood::of(&class.name)
            .filter(|_| tracer.is_kymo || !alias::is_foreign(&class.name, &field));
        let meanings = match native {
            Some(event) => Box::from([Meaning::native(event, &field)]),
            None => alias::meanings(&class.name, &field, tracer),
        };
        let names = |meaning: &Meaning| meaning.event.is_name();
        Class {
            is_name: !meanings.is_empty() && meanings.iter().all(names),
            meanings,
            cpu: context(["cpu_id", "perf_cpu"]).or_else(|| field("perf_cpu")),
            tid: context(["tid", "vtid"]).or_else(|| field("perf_tid")),
            pid: context(["pid", "vpid"]).or_else(|| field("perf_pid")),
        }
    }

    /// The CPU that the event happened on.
    #[inline]
    pub(crate) fn cpu(&self, event: &EventRef<'_>) -> Option<u64> {
        event.cpu().or_else(|| event.unsigned(self.cpu.as_ref()?))
    }

    /// The thread that a context names.
    #[inline]
    pub(crate) fn tid(&self, event: &EventRef<'_>) -> Option<u64> {
        event.unsigned(self.tid.as_ref()?)
    }

    /// The process that a context names.
    #[inline]
    pub(crate) fn pid(&self, event: &EventRef<'_>) -> Option<u64> {
        event.unsigned(self.pid.as_ref()?)
    }
}

/// Who wrote a trace.
#[derive(Clone, Debug)]
pub(crate) struct Tracer {
    pub(crate) is_kymo: bool,
    /// How Linux numbers what a thread does.
    states: fn(u64) -> Option<u64>,
}

impl Tracer {
    pub(crate) fn of(metadata: &Metadata) -> Tracer {
        let value = |wanted: &str| {
            let mut env = metadata.env().iter();
            env.find(|(name, _)| name == wanted).map(|(_, value)| value)
        };
        let text = |wanted: &str| match value(wanted) {
            Some(EnvValue::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let release = text("kernel_release").or_else(|| text("release"));
        Tracer {
            is_kymo: value("tracer_name").is_some_and(|name| name.to_string() == "kymo"),
            states: linux::states(release),
        }
    }
}

/// What all event classes of a trace mean, by [`EventClass::index`].
pub(crate) fn classes(metadata: &Metadata, tracer: &Tracer) -> Box<[Class]> {
    let count = metadata.event_class_count();
    let mut classes = vec![None; count];
    for stream in metadata.streams() {
        for class in stream.events.values() {
            if let Some(place) = classes.get_mut(class.index()) {
                *place = Some(Class::of(stream, class, tracer));
            }
        }
    }
    let nothing = Class {
        meanings: Box::from([]),
        is_name: false,
        cpu: None,
        tid: None,
        pid: None,
    };
    let classes = classes.into_iter();
    classes
        .map(|class| class.unwrap_or_else(|| nothing.clone()))
        .collect()
}

/// The place of a field in a declaration.
fn place(fields: &[FieldSchema], name: &str) -> Option<usize> {
    fields.iter().position(|field| field.name == name)
}
