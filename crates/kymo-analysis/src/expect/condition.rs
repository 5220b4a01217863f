//! Conditions on one event, in the language of expectations.

use std::collections::{HashMap, HashSet};

use kymo_ctf::{EventClass, EventRef, Metadata, StreamClass};
use kymo_machine::{Machine, Named};
use toml::de::{DeTable, DeValue};

use super::names::Names;
use super::parse::File;
use super::pattern::{Fit, fits_value, is_number, possible, resolve_term, texts};
use super::{ExpectError, Term, Test};

/// Ids of a stream class and an event class.
type ClassId = (u64, u64);

/// A condition on one event: what stands between the braces of an expectation's event, such as
/// `is = "irq_handler_entry", irq = [5, 9], on_cpu = 0`. All parts must hold.
///
/// `is` is the event's name, `on_cpu` the CPU that recorded it, `in_thread` the thread that ran
/// there, by number or name; every other key is a field. All may be missing.
#[derive(Clone, Debug)]
pub struct Condition {
    is: Option<Test>,
    on_cpu: Option<Test>,
    in_thread: Option<Test>,
    terms: Vec<Term>,
    /// The terms, resolved for each event class that has all fields.
    classes: HashMap<ClassId, Vec<Term>>,
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// If it is not what stands between the braces of an expectation's event.
    pub fn parse(text: &str) -> Result<Condition, ExpectError> {
        let (begin, end) = match text.trim_start().starts_with('{') {
            true => ("where = ", ""),
            false => ("where = { ", " }"),
        };
        let text = format!("{begin}{text}{end}");
        let file = File { text: &text };
        let wrong = |message: String| ExpectError { line: 1, message };
        let root = DeTable::parse(&text).map_err(|error| {
            wrong(format!(
                "{}; write conditions such as irq = 5, on_cpu = 0",
                error.message().trim_end()
            ))
        })?;
        let value = root.get_ref().get("where").map(|value| value.get_ref());
        let Some(DeValue::Table(table)) = value else {
            return Err(wrong(
                "write conditions such as irq = 5, on_cpu = 0".to_owned(),
            ));
        };
        if root.get_ref().len() != 1 || table.is_empty() {
            return Err(wrong(
                "write conditions such as irq = 5, on_cpu = 0".to_owned(),
            ));
        }
        let test = |key: &str| table.get(key).map(|value| file.test(value)).transpose();
        let mut condition = Condition {
            is: test("is")?,
            on_cpu: test("on_cpu")?,
            in_thread: test("in_thread")?,
            terms: Vec::new(),
            classes: HashMap::new(),
        };
        for (key, value) in table {
            let field = &**key.get_ref();
            if !["is", "on_cpu", "in_thread"].contains(&field) {
                condition.terms.push(Term {
                    line: 1,
                    field: field.to_owned(),
                    test: file.test(value)?,
                    class: None,
                });
            }
        }
        condition.check()
    }

    /// Refuses what can never hold: a name that is a number, a CPU that is a name.
    fn check(self) -> Result<Condition, ExpectError> {
        let wrong = |message: &str| ExpectError {
            line: 1,
            message: message.to_owned(),
        };
        if self.is.as_ref().is_some_and(has_number) {
            return Err(wrong(
                "is must be the name of an event, such as \"sys_exit\", or a list",
            ));
        }
        if self.on_cpu.as_ref().is_some_and(has_text) {
            return Err(wrong(
                "on_cpu must be the number of a CPU, or a list or range of them",
            ));
        }
        Ok(self)
    }

    /// Resolves the condition in a trace's metadata.
    ///
    /// # Errors
    /// If no event of the trace has the name and the fields, or a field cannot have the value.
    pub fn resolve(&mut self, metadata: &Metadata) -> Result<(), ExpectError> {
        let all = || {
            let streams = metadata.streams();
            streams.flat_map(|stream| stream.events.values().map(move |class| (stream, class)))
        };
        let is = |name: &str| self.is.as_ref().is_none_or(|test| is_name(test, name));
        let (mut first, mut any): (Option<(bool, ExpectError)>, bool) = (None, false);
        for (stream, class) in all().filter(|(_, class)| is(&class.name)) {
            any = true;
            let mut terms = self.terms.clone();
            let resolved = terms
                .iter_mut()
                .try_for_each(|term| resolve_term(term, &class.name, stream, class));
            match resolved {
                Ok(()) => _ = self.classes.insert((class.stream_id, class.id), terms),
                Err(error) => {
                    let has = |term: &Term| fields(stream, class).any(|field| field == term.field);
                    let has_all = self.terms.iter().all(has);
                    // What is wrong with a value says more than that a field is missing.
                    if first
                        .as_ref()
                        .is_none_or(|(had_all, _)| has_all && !had_all)
                    {
                        first = Some((has_all, error));
                    }
                }
            }
        }
        if let (false, Some(test)) = (any, &self.is) {
            let mut wanted = Vec::new();
            texts(test, &mut wanted);
            let wanted = wanted.first().map_or("", String::as_str);
            let names = all().map(|(_, class)| &*class.name);
            let message = format!(
                "the trace has no event {wanted:?}; {}",
                possible(wanted, names)
            );
            return Err(ExpectError { line: 1, message });
        }
        match (self.classes.is_empty(), first) {
            (true, Some((_, error))) if self.is.is_some() => Err(error),
            (true, Some((_, error))) => Err(self.unresolved(metadata).unwrap_or(error)),
            _ => Ok(()),
        }
    }

    /// The first field that no event of the trace has, as an error.
    fn unresolved(&self, metadata: &Metadata) -> Option<ExpectError> {
        let streams = metadata.streams();
        let classes = streams.flat_map(|stream| {
            let classes = stream.events.values();
            classes.map(move |class| (&**stream, &**class))
        });
        let all: HashSet<&str> = classes
            .flat_map(|(stream, class)| fields(stream, class))
            .collect();
        let missing = self.terms.iter().find(|term| !all.contains(&*term.field))?;
        let names = all.into_iter().filter(|name| !name.starts_with('_'));
        let message = format!(
            "no event of the trace has a field {:?}; {}",
            missing.field,
            possible(&missing.field, names)
        );
        Some(ExpectError { line: 1, message })
    }

    /// Whether it depends on which thread runs, or on names, which follow from earlier events.
    pub fn wants_state(&self) -> bool {
        let by_name = |term: &Term| term.class.is_some() && has_text(&term.test);
        let mut terms = self.classes.values().flatten();
        self.in_thread.is_some() || terms.any(by_name)
    }

    /// Whether an event fits, given the machine's state before it. `later` is the machine at the end
    /// of the trace, for names that come after the event.
    pub fn holds(&self, event: &EventRef<'_>, machine: &Machine, later: Option<&Machine>) -> bool {
        let class = event.class();
        let Some(terms) = self.classes.get(&(class.stream_id, class.id)) else {
            return false;
        };
        let is = |test: &Option<Test>, value: Option<u64>| match test {
            Some(test) => value.is_some_and(|value| is_number(test, i128::from(value))),
            None => true,
        };
        is(&self.on_cpu, event.cpu())
            && self
                .in_thread
                .as_ref()
                .is_none_or(|test| is_in(test, event, machine, later))
            && terms.iter().all(|term| {
                is_field(term, event, machine)
                    || later.is_some_and(|later| is_field(term, event, later))
            })
    }
}

/// Names of the fields of an event, and of its contexts.
fn fields<'m>(stream: &'m StreamClass, class: &'m EventClass) -> impl Iterator<Item = &'m str> {
    let contexts = [class.context.as_ref(), stream.event_context.as_ref()];
    let parts = [class.fields.as_ref()].into_iter().chain(contexts);
    let members = parts.flatten().flat_map(|part| &part.members);
    members.map(|member| &*member.name)
}

/// Whether the thread that runs on the event's CPU passes the test, by number or name.
fn is_in(test: &Test, event: &EventRef<'_>, machine: &Machine, later: Option<&Machine>) -> bool {
    let thread = event.cpu().and_then(|cpu| machine.running(cpu));
    let Some((id, thread)) = thread.and_then(|id| Some((id, machine.thread(id)?))) else {
        return false;
    };
    let is_called = |machine: &Machine| {
        let name = machine.name(Named::Thread(id));
        name.is_some_and(|name| is_name(test, name))
    };
    is_number(test, i128::from(thread.tid)) || is_called(machine) || later.is_some_and(is_called)
}

fn is_field(term: &Term, event: &EventRef<'_>, machine: &Machine) -> bool {
    let Some(value) = event.field(&term.field).or_else(|| {
        let contexts = [event.context(), event.stream_context()];
        contexts
            .into_iter()
            .find_map(|context| context.get(&term.field))
    }) else {
        return false;
    };
    let cut = HashSet::new();
    let names = Names { machine, cut: &cut };
    let numbered = |number| Some(names.numbered(term.class?, number, event.cpu()));
    fits_value(&term.test, &value.to_value(), numbered, &names) == Fit::Yes
}

fn is_name(test: &Test, name: &str) -> bool {
    match test {
        Test::Text(wanted) => wanted == name,
        Test::AnyOf(tests) => tests.iter().any(|test| is_name(test, name)),
        _ => false,
    }
}

fn has_text(test: &Test) -> bool {
    match test {
        Test::Text(_) => true,
        Test::AnyOf(tests) => tests.iter().any(has_text),
        _ => false,
    }
}

fn has_number(test: &Test) -> bool {
    match test {
        Test::Text(_) => false,
        Test::AnyOf(tests) => tests.iter().any(has_number),
        _ => true,
    }
}
