//! Typed events: the meaning of each event class of a trace, resolved once per class.
//!
//! A record is read through views of the [vocabulary](mod@kymo::vocabulary)'s events. A class of Kymo's
//! own is the event of the same name. Classes of other tracers are looked up in [`alias`]: one of
//! their records may amount to several events, with other field names and numberings, and may name
//! the threads too. A field that the trace lacks reads as `None`, and a field unknown to the
//! vocabulary is ignored; only this module decides that.

mod alias;
mod chain;
mod linux;

use std::borrow::Cow;
use std::sync::Arc;

use kymo::event::{Event as _, FieldSchema, FieldValues};
use kymo::vocabulary::SchedSwitch;
use kymo_ctf::{
    EnvValue, EventClass, EventRef, FieldAccess, Metadata, Scope, StreamClass, ValueRef,
};

use crate::machine::At;
use crate::process::Mapping;
use crate::understood::Understood;

pub(crate) use chain::{ChainSource, StackSource};
pub use linux::softirq_name;

/// Resolved source of a vocabulary event's field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// The trace lacks it.
    Missing,
    Field(FieldAccess),
    /// A field with another tracer's numbering, and its conversion.
    Converted(FieldAccess, fn(u64) -> Option<u64>),
    /// A value implied by the class's name.
    Constant(u64),
}

/// A vocabulary event that the records of a class amount to.
#[derive(Clone, Debug)]
pub(crate) struct Meaning {
    pub(crate) event: Understood,
    /// By place in the vocabulary event's declaration.
    pub(crate) sources: Box<[Source]>,
    /// The system call, from tracers that have an event class for each.
    pub(crate) call: Option<Arc<str>>,
    /// Fields with the names of the event's threads, if its tracer has them.
    comms: [Option<FieldAccess>; 2],
    /// When this event applies, if not always.
    condition: Option<Condition>,
}

/// What must hold for one of the events that a record may amount to.
#[derive(Clone, Copy, Debug)]
enum Condition {
    /// Two fields are equal.
    Same(FieldAccess, FieldAccess),
    /// Two fields differ.
    Differ(FieldAccess, FieldAccess),
    /// A field is not 0.
    Set(FieldAccess),
    /// The trace lacks the fields that would say so.
    Never,
}

/// A resolved event class.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) meanings: Box<[Meaning]>,
    /// Whether its records report names or states only, and no actions.
    pub(crate) is_name: bool,
    /// The CPU, if packets lack it.
    cpu: Option<FieldAccess>,
    /// The thread in the event's context: the kernel's number, or else its namespace's.
    tid: Option<FieldAccess>,
    pid: Option<FieldAccess>,
    /// LTTng's name of the thread in the event's context.
    procname: Option<FieldAccess>,
    pub(crate) chain: Option<ChainSource>,
    pub(crate) stack: Option<Box<StackSource>>,
    mapping: Option<MappingSource>,
}

/// Fields that say where a file was loaded.
#[derive(Clone, Copy, Debug)]
struct MappingSource {
    /// The process, if it is not in the event's context.
    pid: Option<FieldAccess>,
    begin: FieldAccess,
    path: FieldAccess,
    /// Whether the address is that of the file's beginning, and not of its code.
    is_base: bool,
}

impl MappingSource {
    /// The source in an event class of `perf`'s or of LTTng's user space tracer.
    fn of(name: &str, field: &dyn Fn(&str) -> Option<FieldAccess>) -> Option<MappingSource> {
        match name {
            "perf_mmap" | "perf_mmap2" => Some(MappingSource {
                pid: field("pid"),
                begin: field("start")?,
                path: field("filename")?,
                is_base: false,
            }),
            "lttng_ust_statedump:bin_info"
            | "lttng_ust_lib:load"
            | "lttng_ust_dl:dlopen"
            | "lttng_ust_dl:dlmopen" => Some(MappingSource {
                pid: None,
                begin: field("baddr")?,
                path: field("path")?,
                is_base: true,
            }),
            _ => None,
        }
    }
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

    /// A vocabulary event under its own name and with its own fields.
    fn native(event: Understood, field: &dyn Fn(&str) -> Option<FieldAccess>) -> Meaning {
        let declared = event.fields().iter();
        Meaning {
            event,
            sources: declared
                .map(|declared| field(declared.name).map_or(Source::Missing, Source::Field))
                .collect(),
            call: None,
            comms: [None; 2],
            condition: None,
        }
    }

    /// Whether this event applies to the record.
    #[inline]
    pub(crate) fn holds(&self, event: &EventRef<'_>) -> bool {
        match &self.condition {
            None => true,
            Some(Condition::Same(one, other)) => event.unsigned(one) == event.unsigned(other),
            Some(Condition::Differ(one, other)) => event.unsigned(one) != event.unsigned(other),
            Some(Condition::Set(field)) => event.unsigned(field).is_some_and(|of| of != 0),
            Some(Condition::Never) => false,
        }
    }

    /// Name of the thread in the event's first (0) or second (1) thread field.
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
            procname: context(["procname", "procname"]),
            chain: ChainSource::of(&class.name, tracer, &field, &context),
            stack: StackSource::of(&class.name, tracer.is_kymo, &field),
            mapping: MappingSource::of(&class.name, &field).filter(|_| !tracer.is_kymo),
        }
    }

    /// The event's CPU.
    #[inline]
    pub(crate) fn cpu(&self, event: &EventRef<'_>) -> Option<u64> {
        event.cpu().or_else(|| event.unsigned(self.cpu.as_ref()?))
    }

    /// The thread in the event's context.
    #[inline]
    pub(crate) fn tid(&self, event: &EventRef<'_>) -> Option<u64> {
        event.unsigned(self.tid.as_ref()?)
    }

    /// Name of the thread in the event's context.
    pub(crate) fn process_name<'e>(&self, event: &EventRef<'e>) -> Option<Cow<'e, str>> {
        event
            .text(self.procname.as_ref()?)
            .filter(|name| !name.is_empty())
    }

    /// The process for which the event says where a file was loaded, and that.
    pub(crate) fn mapping(&self, event: &EventRef<'_>) -> Option<(u64, Mapping)> {
        let source = self.mapping.as_ref()?;
        let pid = source.pid.as_ref().and_then(|pid| event.unsigned(pid));
        let path = event.text(&source.path)?;
        // Others are no files: `[vdso]`, `//anon`.
        if !path.starts_with('/') || path.starts_with("//") {
            return None;
        }
        let mapping = Mapping {
            begin: event.unsigned(&source.begin)?,
            is_base: source.is_base,
            path: Arc::from(&*path),
        };
        Some((pid.or_else(|| self.pid(event))?, mapping))
    }

    /// Whether the events say where files were loaded.
    #[inline]
    pub(crate) fn has_mapping(&self) -> bool {
        self.mapping.is_some()
    }

    /// The process in the event's context.
    #[inline]
    pub(crate) fn pid(&self, event: &EventRef<'_>) -> Option<u64> {
        event.unsigned(self.pid.as_ref()?)
    }
}

/// The tracer that wrote a trace.
#[derive(Clone, Debug)]
pub(crate) struct Tracer {
    pub(crate) is_kymo: bool,
    /// Whether a program recorded itself.
    pub(crate) is_program: bool,
    /// Conversion of Linux's thread states.
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
            is_program: text("domain") == Some("ust"),
            states: linux::states(release),
        }
    }
}

/// Whether Kymo recorded the trace with this metadata.
pub fn is_kymos(metadata: &Metadata) -> bool {
    Tracer::of(metadata).is_kymo
}

/// Whether the trace with this metadata is of programs, which recorded themselves.
pub fn is_program(metadata: &Metadata) -> bool {
    Tracer::of(metadata).is_program
}

/// Whether a trace with this metadata may have switches of threads.
pub(crate) fn switches(metadata: &Metadata) -> bool {
    let mut classes = metadata.streams().flat_map(|stream| stream.events.values());
    classes.any(|class| &*class.name == SchedSwitch::SCHEMA.name)
}

/// The resolved event classes of a trace, by [`EventClass::index`].
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
        procname: None,
        chain: None,
        stack: None,
        mapping: None,
    };
    let classes = classes.into_iter();
    classes
        .map(|class| class.unwrap_or_else(|| nothing.clone()))
        .collect()
}

/// Index of a field in a declaration.
fn place(fields: &[FieldSchema], name: &str) -> Option<usize> {
    fields.iter().position(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kymo_ctf::{Metadata, Reader};

    use crate::Machine;

    /// LTTng's user space tracer says where files begin, of the process in the context.
    #[test]
    fn a_file_is_where_lttng_says_that_it_was_loaded() {
        let metadata = "/* CTF 1.8 */
            typealias integer { size = 64; align = 8; } := u64;
            typealias integer { size = 32; align = 8; signed = true; } := i32;
            trace { major = 1; minor = 8; byte_order = le; };
            clock { name = c; freq = 1000000000; };
            stream {
              packet.context := struct { i32 cpu_id; };
              event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } t; };
              event.context := struct { i32 _vpid; };
            };
            event { name = \"lttng_ust_statedump:bin_info\"; fields := struct {
              u64 _baddr; u64 _memsz; string _path; }; };";
        let metadata = Arc::new(Metadata::parse(metadata).unwrap());
        let mut stream = vec![0; 4];
        for (begin, path) in [(0x5555_0000_0000, "/bin/a"), (0x7f00_0000_0000, "[vdso]")] {
            stream.extend(5_u64.to_le_bytes());
            stream.extend(42_i32.to_le_bytes());
            stream.extend([begin, 0x3000_u64].map(u64::to_le_bytes).concat());
            stream.extend(path.bytes().chain([0]));
        }
        let mut reader = Reader::new([(&metadata, "s", &*stream)]);
        let mut machine = Machine::new();
        while let Some(item) = reader.next() {
            machine.add(&item);
        }
        let wanted = crate::Mapping {
            begin: 0x5555_0000_0000,
            is_base: true,
            path: Arc::from("/bin/a"),
        };
        assert_eq!(machine.mappings(machine.address_space(42)), [wanted]);
    }

    /// LTTng's contexts: the process of the thread, and its name. Of a namespace's numbers and the
    /// kernel's, the kernel's count.
    #[test]
    fn a_thread_belongs_to_the_process_of_its_context() {
        for (pid, tid, others) in [
            ("pid", "tid", ""),
            ("vpid", "vtid", ""),
            ("pid", "tid", "i32 _vpid; i32 _vtid;"),
        ] {
            let metadata = format!(
                "/* CTF 1.8 */
                typealias integer {{ size = 64; align = 8; }} := u64;
                typealias integer {{ size = 32; align = 8; signed = true; }} := i32;
                trace {{ major = 1; minor = 8; byte_order = le; }};
                clock {{ name = c; freq = 1000000000; }};
                stream {{
                  packet.context := struct {{ i32 cpu_id; }};
                  event.header := struct {{ integer {{ size = 64; align = 8; map = clock.c.value; }} t; }};
                  event.context := struct {{
                    {others} i32 _{pid}; i32 _{tid}; string _procname; }};
                }};
                event {{ name = any; fields := struct {{ i32 x; }}; }};"
            );
            let metadata = Arc::new(Metadata::parse(&metadata).unwrap());
            let mut stream = vec![0; 4];
            for (pid, tid, name) in [(42, 43, "worker"), (42, 42, "server"), (0, 0, "swapper/0")] {
                stream.extend(5_u64.to_le_bytes());
                if !others.is_empty() {
                    stream.extend([7_i32, 8].map(i32::to_le_bytes).concat());
                }
                stream.extend([pid, tid].map(i32::to_le_bytes).concat());
                stream.extend(name.bytes().chain([0; 5]));
            }
            let mut reader = Reader::new([(&metadata, "s", &*stream)]);
            let mut machine = Machine::new();
            while let Some(item) = reader.next() {
                machine.add(&item);
            }
            let threads: Vec<_> = machine
                .threads()
                .iter()
                .map(|of| (of.tid, of.pid, of.name.as_deref()))
                .collect();
            let wanted = [
                (43, Some(42), Some("worker")),
                (42, Some(42), Some("server")),
            ];
            assert_eq!(threads, wanted, "{pid}");
            assert_eq!(machine.process(42).map(|name| &**name), Some("server"));
            assert!(machine.is_foreign());
        }
    }
}
