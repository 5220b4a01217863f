//! Selection of events by time, CPU, event, thread and conditions on fields.

mod conditions;
pub mod moment;

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use kymo_analysis::{Conditions, Part, Place};
use kymo_ctf::{EventRef, Extent, ItemRef, Reader, StructRef, Trace, TraceMap, ValueRef};
use kymo_machine::{Change, Machine, Named};

use self::conditions::conditions;
pub use self::moment::{Anchors, Moment, begin, moment};
use crate::exit::Usage;
use crate::pattern::{matches, nearest};
use crate::progress::Progress;

/// The selection options of the command line.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Selection")]
pub struct Options {
    /// Only events at or after this time, in seconds as printed (0.25) or with a unit ns, us, ms, s
    /// or min (250ms); -10ms is 10 ms before the trace's last event, @5003000000 a time_ns of the
    /// JSON output.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = begin)]
    pub from: Option<Moment>,
    /// Only events at or before this time, written as for --from; +5ms is 5 ms after --from.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    pub to: Option<Moment>,
    /// Only these CPUs, such as 0,2-3.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = cpus)]
    pub cpu: Vec<RangeInclusive<u64>>,
    /// Only events of this name; `*` stands for any characters, `?` for one. May be repeated or be
    /// a comma-separated list.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub event: Vec<String>,
    /// Only events that were recorded while this thread ran, interrupts included, and events that
    /// name it in a field tid, vtid or ..._tid. May be repeated or be a comma-separated list.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pub tid: Vec<u64>,
    /// As --tid, for all threads that have this name anywhere in the trace; `*` and `?` as for
    /// --event.
    #[arg(long, value_name = "PATTERN")]
    pub thread: Vec<String>,
    /// Only events whose fields have these values, such as 'irq = [5, 9], on_cpu = 0': the language
    /// of the expectations of kymo check, with `is` for the event's name and `in_thread` for the
    /// thread that ran. May be repeated: one must hold.
    #[arg(long = "where", value_name = "CONDITION")]
    pub conditions: Vec<String>,
}

fn cpus(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("expected CPUs such as 0,2-3".to_owned()),
    }
}

/// Decision about one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The item is selected.
    Take,
    /// The item is not selected.
    Leave,
    /// Neither this item nor any later one is selected.
    End,
}

/// Selects items of one trace. [`judge`](Select::judge) must see every item, in order.
#[derive(Debug, Default)]
pub struct Select {
    /// Whether the selection may leave anything out.
    pub is_partial: bool,
    /// Whether reading stops at the first error.
    pub strict: bool,
    /// Number of threads to count a whole trace with.
    pub jobs: usize,
    from: Option<i128>,
    to: Option<i128>,
    cpus: Vec<RangeInclusive<u64>>,
    seen_cpus: BTreeSet<u64>,
    /// Ids of stream class and event class.
    classes: Option<HashSet<(u64, u64)>>,
    threads: Option<Threads>,
    conditions: Option<Conditions>,
}

#[derive(Debug, Default)]
struct Threads {
    tids: HashSet<u64>,
    /// Threads from `--tid` that no event has named yet.
    unseen: BTreeSet<u64>,
    /// Tracks which thread runs on each CPU.
    machine: Machine,
}

/// The names of threads, which only a pass over the whole trace finds.
#[derive(Default)]
pub struct Survey {
    names: BTreeSet<(String, u64)>,
}

impl Survey {
    fn of(trace: &Trace) -> Survey {
        let mut survey = Survey::default();
        let mut progress = Progress::new(trace);
        // Damage is reported when the trace is printed.
        let map = trace.map();
        let (mut reader, mut machine) = (map.read(), Machine::new());
        while let Some(item) = reader.next() {
            progress.pass(&item);
            machine.add(&item);
            survey.names(&item, &machine);
        }
        progress.done();
        survey
    }

    /// Numbers of the threads whose name matches the pattern.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(&self, pattern: &str) -> Result<BTreeSet<u64>, Usage> {
        let meant = self.names.iter().filter(|(name, _)| matches(pattern, name));
        let threads: BTreeSet<u64> = meant.map(|(_, tid)| *tid).collect();
        match threads.is_empty() {
            false => Ok(threads),
            true => {
                let names = self.names.iter().map(|(name, _)| name.as_str());
                let hint = hint(pattern, names, "kymo report lists the threads");
                Err(Usage(format!(
                    "no thread of the trace is named \"{pattern}\"; {hint}"
                )))
            }
        }
    }

    /// Notes the thread names that the item gives.
    pub fn names(&mut self, item: &ItemRef<'_>, machine: &Machine) {
        for change in machine.changes() {
            if let Change::Named(Named::Thread(id)) = change
                && let Some(thread) = machine.thread(*id)
                && let Some(name) = &thread.name
            {
                self.names.insert((name.to_string(), thread.tid));
            }
        }
        // In a user-space trace, the event contexts name the threads.
        if let ItemRef::Event(event) = item
            && let (Some(tid), _) = machine.context(event)
        {
            for context in [event.stream_context(), event.context()] {
                if let Some(ValueRef::Str(name)) = context.get("procname") {
                    self.names.insert((name.into_owned(), tid));
                }
            }
        }
    }
}

fn parts<'a>(event: &EventRef<'a>) -> [StructRef<'a>; 3] {
    [event.stream_context(), event.context(), event.fields()]
}

/// The threads that an event names. 0 is an idle thread in `tid`, `vtid`, `prev_tid` and
/// `next_tid`, and no thread in other fields.
fn named<'a>(event: &EventRef<'a>) -> impl Iterator<Item = u64> + use<'a> {
    let fields = parts(event).into_iter().flat_map(|part| part.iter());
    let fields = fields
        .filter(|field| matches!(&**field.name, "tid" | "vtid") || field.name.ends_with("_tid"));
    fields.filter_map(|field| {
        let tid = field.value.as_u64()?;
        (tid != 0 || matches!(&**field.name, "tid" | "vtid" | "prev_tid" | "next_tid"))
            .then_some(tid)
    })
}

impl Options {
    /// Resolves the options for this trace.
    ///
    /// # Errors
    /// [`Usage`] if no event or thread of the trace matches a given name or condition, or if `--to` is before
    /// `--from`.
    pub fn of(&self, trace: &Trace) -> anyhow::Result<Select> {
        let survey = if self.thread.is_empty() {
            Survey::default()
        } else {
            Survey::of(trace)
        };
        let map = trace.map();
        let anchors = Anchors::of(&map, [self.from, self.to]);
        let from = self.from.map(|moment| anchors.nanos(moment, None));
        let to = self.to.map(|moment| anchors.nanos(moment, from));
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            return Err(Usage("--to is before --from; change one of them".to_owned()).into());
        }
        let is_partial = from.is_some()
            || to.is_some()
            || !(self.cpu.is_empty()
                && self.event.is_empty()
                && self.tid.is_empty()
                && self.thread.is_empty()
                && self.conditions.is_empty());
        let mut tids: HashSet<u64> = self.tid.iter().copied().collect();
        for pattern in &self.thread {
            tids.extend(survey.named(pattern)?);
        }
        let unseen = self.tid.iter().copied().collect();
        Ok(Select {
            is_partial,
            strict: false,
            jobs: 1,
            from,
            to,
            cpus: self.cpu.clone(),
            seen_cpus: BTreeSet::new(),
            classes: self.classes(trace)?,
            threads: (!tids.is_empty()).then(|| Threads {
                tids,
                unseen,
                machine: Machine::new(),
            }),
            conditions: conditions(&self.conditions, trace, &map)?,
        })
    }

    /// Ids of stream class and event class of the events that --event names.
    pub fn classes(&self, trace: &Trace) -> Result<Option<HashSet<(u64, u64)>>, Usage> {
        if self.event.is_empty() {
            return Ok(None);
        }
        if !trace.is_one() {
            let sentence = "--event needs a single trace, and there are several traces with \
                            different metadata; give the directory of one";
            return Err(Usage(sentence.to_owned()));
        }
        let classes = || {
            trace
                .metadata()
                .streams()
                .flat_map(|stream| stream.events.values())
        };
        let mut chosen = HashSet::new();
        for pattern in &self.event {
            let mut meant = classes()
                .filter(|class| matches(pattern, &class.name))
                .peekable();
            if meant.peek().is_none() {
                let hint = hint(
                    pattern,
                    classes().map(|class| &*class.name),
                    "kymo dump --count lists the events",
                );
                return Err(Usage(format!(
                    "the trace has no event class \"{pattern}\"; {hint}"
                )));
            }
            chosen.extend(meant.map(|class| (class.stream_id, class.id)));
        }
        Ok(Some(chosen))
    }
}

fn hint<'a>(pattern: &str, names: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    match nearest(pattern, names) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => otherwise.to_owned(),
    }
}

impl Threads {
    /// Whether the item happened on one of the threads or names one. Always true for a loss, as the
    /// lost events may have.
    fn take(&mut self, item: &ItemRef<'_>) -> bool {
        let ItemRef::Event(event) = item else {
            self.machine.add(item);
            return true;
        };
        // A switch is the last event of the thread that leaves the CPU.
        let running = event.cpu().and_then(|cpu| self.machine.running(cpu));
        let tid = running.and_then(|id| Some(self.machine.thread(id)?.tid));
        self.machine.add(item);
        let mut is_named = false;
        for tid in named(event) {
            is_named |= self.tids.contains(&tid);
            self.unseen.remove(&tid);
        }
        is_named || tid.is_some_and(|tid| self.tids.contains(&tid))
    }
}

impl Select {
    /// Reads the items that may be selected. Only packets that overlap the selected times are read,
    /// unless threads or names are selected, which follow from earlier events, or `strict` is set.
    pub fn read<'m>(&self, map: &'m TraceMap) -> Reader<'m> {
        let reader = map.read().strict(self.strict);
        match self.is_interval() {
            true => reader.between(self.from, self.to),
            false => reader,
        }
    }

    /// Numbers of the selected threads; `None` for all.
    pub fn selected_threads(&self) -> Option<HashSet<u64>> {
        Some(self.threads.as_ref()?.tids.clone())
    }

    /// The part of the trace that a report is about.
    pub fn part(&self) -> Part {
        let narrow = |nanos: i128| {
            let limit = if nanos < 0 { i64::MIN } else { i64::MAX };
            i64::try_from(nanos).unwrap_or(limit)
        };
        Part {
            from_ns: self.from.map(narrow),
            to_ns: self.to.map(narrow),
            cpus: self.cpus.clone(),
            threads: self.selected_threads(),
            only_some_events: self.classes.is_some() || self.conditions.is_some(),
        }
    }

    /// The part of the trace that a conversion must read.
    pub fn extent(&self) -> Extent {
        match self.from {
            Some(from) if self.is_interval() => Extent::Since(from),
            _ if self.is_partial => Extent::Part,
            _ => Extent::Whole,
        }
    }

    fn is_interval(&self) -> bool {
        let conditions = self.conditions.as_ref();
        (self.from.is_some() || self.to.is_some())
            && self.threads.is_none()
            && !conditions.is_some_and(Conditions::wants_state)
            && !self.strict
    }

    /// Searches the whole trace for selected CPUs that have not appeared. Call it after the last
    /// item.
    pub fn look_for_missing(&mut self, map: &TraceMap) {
        if !self.is_interval() || self.missing().is_none() {
            return;
        }
        let mut reader = map.read();
        while let Some(item) = reader.next() {
            match item {
                ItemRef::Event(event) => self.seen_cpus.extend(event.cpu()),
                ItemRef::Loss(loss) => self.seen_cpus.extend(loss.cpu),
                _ => {}
            }
        }
    }

    /// Decides about the next item. A loss is selected by time and CPU only, as the lost events may
    /// have been of any class and thread.
    pub fn judge(&mut self, item: &ItemRef<'_>) -> Verdict {
        if !self.is_partial {
            return Verdict::Take;
        }
        let by_thread = match &mut self.threads {
            Some(threads) => threads.take(item),
            None => true,
        };
        let by_condition = match &mut self.conditions {
            Some(conditions) => conditions.take(item),
            None => true,
        };
        let cpu = match item {
            ItemRef::Event(event) => event.cpu(),
            ItemRef::Loss(loss) => loss.cpu,
            _ => return Verdict::Take,
        };
        if let (false, Some(cpu)) = (self.cpus.is_empty(), cpu)
            && !self.seen_cpus.contains(&cpu)
        {
            self.seen_cpus.insert(cpu);
        }
        let place = Place::of(item, self.from, self.to);
        if place == Place::Behind {
            // Read on until every selected CPU and thread has appeared: `missing` reports the
            // others.
            return if self.missing().is_none() {
                Verdict::End
            } else {
                Verdict::Leave
            };
        }
        let is_loss = matches!(item, ItemRef::Loss(_));
        let by_time = place == Place::Inside;
        let by_cpu = self.cpus.is_empty()
            || cpu.map_or(is_loss, |cpu| {
                self.cpus.iter().any(|range| range.contains(&cpu))
            });
        let by_class = match (&self.classes, item) {
            (Some(classes), ItemRef::Event(event)) => {
                classes.contains(&(event.class().stream_id, event.class().id))
            }
            _ => true,
        };
        if by_time && by_cpu && by_class && by_thread && by_condition {
            Verdict::Take
        } else {
            Verdict::Leave
        }
    }

    /// A selected CPU or thread that no item named, as an error. Call it after the last item.
    pub fn missing(&self) -> Option<Usage> {
        for range in &self.cpus {
            if self.seen_cpus.range(range.clone()).next().is_none() {
                let (first, last) = (range.start(), range.end());
                let asked = if first == last {
                    format!("CPU {first}")
                } else {
                    format!("CPUs {first} to {last}")
                };
                let there: Vec<String> = self.seen_cpus.iter().map(u64::to_string).collect();
                let hint = match there.is_empty() {
                    true => "its events do not record their CPU; drop --cpu".to_owned(),
                    false => format!("it has events from CPU {}", there.join(", ")),
                };
                return Some(Usage(format!(
                    "the trace has no event from {asked}; {hint}"
                )));
            }
        }
        let tid = self.threads.as_ref()?.unseen.first()?;
        Some(Usage(format!(
            "the trace has no event that names thread {tid}; kymo report lists the threads"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!((cpus("3"), cpus("2-5")), (Ok(3..=3), Ok(2..=5)));
        for text in ["", "-", "5-2", "a", "1-", "-1", "1-2-3"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }
}
