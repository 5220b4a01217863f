//! Which events are meant: by time, CPU, event and thread.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use kymo_ctf::{EventRef, Extent, ItemRef, Reader, StructRef, Trace, TraceMap, ValueRef};
use kymo_machine::{Change, Machine, Named};

use crate::exit::Usage;
use crate::pattern::{matches, nearest};
use crate::progress::Progress;

/// The command line's part of it.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Selection")]
pub struct Options {
    /// Not before this time: seconds as they are printed (0.25), or with ns, us, ms, s, min
    /// (250ms); -10ms is 10 ms before the trace's last event, @5003000000 is what JSON has as
    /// time_ns.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = begin)]
    pub from: Option<Moment>,
    /// Not after this time, which belongs to the selection; the forms are the same, and +5ms is 5
    /// ms after --from.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = moment)]
    pub to: Option<Moment>,
    /// Only these CPUs: 0,2-3.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = cpus)]
    pub cpu: Vec<RangeInclusive<u64>>,
    /// Only events of this name; `*` stands for any characters, `?` for one. May be given several
    /// times, or as a list with commas.
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub event: Vec<String>,
    /// Only what was recorded on its CPU while this thread ran, interrupts included, and events
    /// that name it: whose field tid, vtid or ..._tid has its number. May be given several times.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pub tid: Vec<u64>,
    /// The same for all threads that are ever called so in the trace; `*` and `?` as for --event.
    #[arg(long, value_name = "PATTERN")]
    pub thread: Vec<String>,
}

/// A time on the command line, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Since the trace began.
    SinceBegin(i128),
    /// Before the last event.
    BeforeEnd(i128),
    /// After the selection's beginning.
    AfterFrom(i128),
    /// Since the clock's origin.
    SinceOrigin(i128),
}

fn moment(text: &str) -> Result<Moment, String> {
    let parsed = match text.split_at_checked(1) {
        Some(("-", rest)) => duration(rest).map(Moment::BeforeEnd),
        Some(("+", rest)) => duration(rest).map(Moment::AfterFrom),
        Some(("@", rest)) => rest.parse().ok().map(Moment::SinceOrigin),
        _ => duration(text).map(Moment::SinceBegin),
    };
    parsed.ok_or_else(|| "a time is written as 0.25, 250ms, -10ms (before the end), @5003000000, or for --to +5ms".to_owned())
}

fn begin(text: &str) -> Result<Moment, String> {
    match moment(text)? {
        Moment::AfterFrom(_) => Err("only --to can be told from --from on".to_owned()),
        moment => Ok(moment),
    }
}

/// Nanoseconds: digits, a point and more digits if need be, a unit if it is not seconds. What is
/// smaller than 1 ns is left out.
fn duration(text: &str) -> Option<i128> {
    let (number, unit) = text.split_at(
        text.find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(text.len()),
    );
    let unit: i128 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    // 15 digits of seconds are longer than any trace, and their nanoseconds fit.
    if !digits(whole)
        || !digits(fraction)
        || whole.len() > 15
        || fraction.len() > 15
        || whole.len() + fraction.len() == 0
    {
        return None;
    }
    let value = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<i128>().ok()
        }
    };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some(value(whole)? * unit + value(fraction)? * unit / scale)
}

fn cpus(text: &str) -> Result<RangeInclusive<u64>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
        _ => Err("CPUs are written as 0,2-3".to_owned()),
    }
}

/// What to do with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is meant.
    Take,
    /// It is not.
    Leave,
    /// Neither it nor any that comes after it.
    End,
}

/// A selection of one trace's items, which are to be shown to it in order.
#[derive(Debug, Default)]
pub struct Select {
    /// Whether anything may be left out at all.
    pub is_partial: bool,
    /// Whether the first thing that cannot be right is the end.
    pub strict: bool,
    /// Threads to count a whole trace with.
    pub jobs: usize,
    from: Option<i128>,
    to: Option<i128>,
    cpus: Vec<RangeInclusive<u64>>,
    seen_cpus: BTreeSet<u64>,
    /// Stream class and event class.
    classes: Option<HashSet<(u64, u64)>>,
    threads: Option<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    tids: HashSet<u64>,
    /// Those of which there was nothing yet.
    unseen: BTreeSet<u64>,
    /// Knows which thread runs.
    machine: Machine,
}

/// What only a pass over the whole trace tells.
#[derive(Default)]
struct Survey {
    names: BTreeSet<(String, u64)>,
}

impl Survey {
    fn of(trace: &Trace) -> Survey {
        let mut survey = Survey::default();
        let mut progress = Progress::new(trace);
        // Damage is told when the trace is printed.
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

    /// Takes note of the names of threads that the item tells.
    fn names(&mut self, item: &ItemRef<'_>, machine: &Machine) {
        for change in machine.changes() {
            if let Change::Named(Named::Thread(id)) = change
                && let Some(thread) = machine.thread(*id)
                && let Some(name) = &thread.name
            {
                self.names.insert((name.to_string(), thread.tid));
            }
        }
        // A program's threads are named by the contexts of its events.
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

/// The threads that an event names. 0 in fields other than these stands for nobody, and there for
/// the idle threads.
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
    /// The selection in this trace.
    ///
    /// # Errors
    /// [`Usage`] if the trace has no event or thread of a name that is asked for, or if the times
    /// exclude each other.
    pub fn of(&self, trace: &Trace) -> anyhow::Result<Select> {
        let survey = if self.thread.is_empty() {
            Survey::default()
        } else {
            Survey::of(trace)
        };
        let map = trace.map();
        let begin = map.read().begin_nanos().unwrap_or(0);
        let by_end = [self.from, self.to]
            .into_iter()
            .flatten()
            .any(|moment| matches!(moment, Moment::BeforeEnd(_)));
        let end = if by_end { map.end_nanos() } else { None };
        let nanos = |moment: Moment, from: Option<i128>| match moment {
            Moment::SinceBegin(nanos) => begin + nanos,
            Moment::BeforeEnd(nanos) => end.unwrap_or(begin) - nanos,
            Moment::AfterFrom(nanos) => from.unwrap_or(begin) + nanos,
            Moment::SinceOrigin(nanos) => nanos,
        };
        let from = self.from.map(|moment| nanos(moment, None));
        let to = self.to.map(|moment| nanos(moment, from));
        if let (Some(from), Some(to)) = (from, to)
            && to < from
        {
            return Err(Usage("--to is before --from: change one of them".to_owned()).into());
        }
        let is_partial = from.is_some()
            || to.is_some()
            || !(self.cpu.is_empty()
                && self.event.is_empty()
                && self.tid.is_empty()
                && self.thread.is_empty());
        let mut tids: HashSet<u64> = self.tid.iter().copied().collect();
        for pattern in &self.thread {
            let threads: Vec<u64> = survey
                .names
                .iter()
                .filter(|(name, _)| matches(pattern, name))
                .map(|(_, tid)| *tid)
                .collect();
            if threads.is_empty() {
                let names = survey.names.iter().map(|(name, _)| name.as_str());
                let hint = hint(pattern, names, "kymo report lists its threads");
                return Err(Usage(format!(
                    "no thread of the trace is called \"{pattern}\": {hint}"
                ))
                .into());
            }
            tids.extend(threads);
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
        })
    }

    fn classes(&self, trace: &Trace) -> Result<Option<HashSet<(u64, u64)>>, Usage> {
        if self.event.is_empty() {
            return Ok(None);
        }
        if !trace.is_one() {
            let sentence = "--event is for one trace, and there are several traces of different metadata here: give the directory of one";
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
                    "kymo dump --count lists its events",
                );
                return Err(Usage(format!(
                    "the trace describes no event \"{pattern}\": {hint}"
                )));
            }
            chosen.extend(meant.map(|class| (class.stream_id, class.id)));
        }
        Ok(Some(chosen))
    }
}

fn hint<'a>(pattern: &str, names: impl IntoIterator<Item = &'a str>, otherwise: &str) -> String {
    match nearest(pattern, names) {
        Some(name) => format!("is \"{name}\" meant?"),
        None => otherwise.to_owned(),
    }
}

impl Threads {
    /// Whether the item happened on one of the threads, or names one. Of a loss nobody knows.
    fn take(&mut self, item: &ItemRef<'_>) -> bool {
        let ItemRef::Event(event) = item else {
            self.machine.add(item);
            return true;
        };
        // A switch is the last that happens on the thread which leaves.
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
    /// Reads what may be selected. Only the packets of the selected times are looked at, unless it
    /// matters what was before: who runs is known from the switches before.
    pub fn read<'m>(&self, map: &'m TraceMap) -> Reader<'m> {
        let reader = map.read().strict(self.strict);
        match self.is_interval() {
            true => reader.between(self.from, self.to),
            false => reader,
        }
    }

    /// What a conversion has to read.
    pub fn extent(&self) -> Extent {
        match self.from {
            Some(from) if self.is_interval() => Extent::Since(from),
            _ if self.is_partial => Extent::Part,
            _ => Extent::Whole,
        }
    }

    fn is_interval(&self) -> bool {
        (self.from.is_some() || self.to.is_some()) && self.threads.is_none() && !self.strict
    }

    /// After the last item: looks in the packets that were not read for CPUs that were asked for
    /// and did not come.
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

    /// What to do with the next item. A loss is meant if it may concern what is: by time and CPU,
    /// whatever the event and the thread.
    pub fn judge(&mut self, item: &ItemRef<'_>) -> Verdict {
        if !self.is_partial {
            return Verdict::Take;
        }
        let by_thread = match &mut self.threads {
            Some(threads) => threads.take(item),
            None => true,
        };
        let (cpu, begin, end) = match item {
            ItemRef::Event(event) => (event.cpu(), event.nanos(), event.nanos()),
            ItemRef::Loss(loss) => (loss.cpu, loss.begin_nanos, loss.end_nanos),
            _ => return Verdict::Take,
        };
        if let (false, Some(cpu)) = (self.cpus.is_empty(), cpu)
            && !self.seen_cpus.contains(&cpu)
        {
            self.seen_cpus.insert(cpu);
        }
        if let (Some(to), Some(begin)) = (self.to, begin)
            && begin > to
        {
            // What was asked for by number must be known to be there before the reading may end.
            return if self.missing().is_none() {
                Verdict::End
            } else {
                Verdict::Leave
            };
        }
        let is_loss = matches!(item, ItemRef::Loss(_));
        let by_time = match (self.from, self.to) {
            (None, None) => true,
            (from, _) => end.map_or(is_loss, |end| from.is_none_or(|from| end >= from)),
        };
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
        if by_time && by_cpu && by_class && by_thread {
            Verdict::Take
        } else {
            Verdict::Leave
        }
    }

    /// After the last item: what was asked for, by number, and is nowhere in the trace.
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
                    true => "its events do not say on which CPU they happened; leave --cpu away"
                        .to_owned(),
                    false => format!("it has events of CPU {}", there.join(", ")),
                };
                return Some(Usage(format!("the trace has no event of {asked}: {hint}")));
            }
        }
        let tid = self.threads.as_ref()?.unseen.first()?;
        Some(Usage(format!(
            "the trace has no event that names thread {tid}: kymo report lists its threads"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_and_have_units() {
        for (text, expected) in [
            ("0", 0),
            ("1", 1_000_000_000),
            ("0.000000001", 1),
            (".5", 500_000_000),
            ("1.", 1_000_000_000),
            ("12.345678901", 12_345_678_901),
            ("250ms", 250_000_000),
            ("1.5us", 1_500),
            ("3ns", 3),
            ("0.9ns", 0),
            ("2min", 120_000_000_000),
            ("1s", 1_000_000_000),
        ] {
            assert_eq!(moment(text), Ok(Moment::SinceBegin(expected)), "{text}");
        }
        assert_eq!(moment("-10ms"), Ok(Moment::BeforeEnd(10_000_000)));
        assert_eq!(moment("+5us"), Ok(Moment::AfterFrom(5_000)));
        assert_eq!(moment("@-7"), Ok(Moment::SinceOrigin(-7)));
        for text in [
            "",
            ".",
            "-",
            "--json",
            "1h",
            "1e3",
            "0x1",
            "1.2.3",
            "é",
            "-é",
            "1 ms",
            "@1.5",
            "9999999999999999",
        ] {
            assert!(moment(text).is_err(), "{text}");
        }
        assert!(begin("+1ms").is_err() && begin("-1ms").is_ok());
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!((cpus("3"), cpus("2-5")), (Ok(3..=3), Ok(2..=5)));
        for text in ["", "-", "5-2", "a", "1-", "-1", "1-2-3"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }
}
