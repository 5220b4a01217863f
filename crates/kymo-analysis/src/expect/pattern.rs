//! Matching of events with patterns.

use std::sync::Arc;

use kymo_ctf::{Event, EventClass, FieldClass, Metadata, StreamClass, Value, WideKind};
use kymo_machine::Named;

use super::names::{NameClass, Names, Numbered};
use super::{ExpectError, Pattern, Term, Test};

/// A number without a name, and the names that would fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Need {
    pub(super) number: Numbered,
    pub(super) wanted: Arc<[String]>,
}

/// Whether an event fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    No,
    Yes,
    /// If all needs of one of these lists are met; no list is empty.
    If(Vec<Vec<Need>>),
}

impl Fit {
    pub(super) fn and(self, other: Fit) -> Fit {
        match (self, other) {
            (Fit::No, _) | (_, Fit::No) => Fit::No,
            (Fit::Yes, fit) | (fit, Fit::Yes) => fit,
            (Fit::If(ways), Fit::If(more)) => {
                let both = ways.iter().flat_map(|way| {
                    more.iter()
                        .map(|more| way.iter().chain(more).cloned().collect())
                });
                Fit::If(both.collect())
            }
        }
    }

    pub(super) fn or(self, other: Fit) -> Fit {
        match (self, other) {
            (Fit::Yes, _) | (_, Fit::Yes) => Fit::Yes,
            (Fit::No, fit) | (fit, Fit::No) => fit,
            (Fit::If(mut ways), Fit::If(more)) => {
                ways.extend(more);
                Fit::If(ways)
            }
        }
    }

    /// The fit after an object got a name.
    pub(super) fn with(self, named: Named, names: &Names<'_>) -> Fit {
        let Fit::If(ways) = self else { return self };
        let is_called = |need: &Need| need.wanted.iter().any(|name| names.is_called(named, name));
        let ways = ways.into_iter().map(|way| {
            let (known, open): (Vec<Need>, Vec<Need>) = way
                .into_iter()
                .partition(|need| names.is(&need.number, named));
            match (known.iter().all(is_called), open.is_empty()) {
                (false, _) => Fit::No,
                (true, true) => Fit::Yes,
                (true, false) => Fit::If(vec![open]),
            }
        });
        ways.reduce(Fit::or).unwrap_or(Fit::No)
    }
}

/// Checks that the pattern can fit events of this trace, and resolves which strings are names.
pub(super) fn resolve(pattern: &mut Pattern, metadata: &Metadata) -> Result<(), ExpectError> {
    let classes = metadata.streams().flat_map(|stream| {
        stream
            .events
            .values()
            .map(move |class| (&**stream, &**class))
    });
    let called: Vec<(&StreamClass, &EventClass)> = classes
        .filter(|(_, class)| *class.name == *pattern.event)
        .collect();
    if called.is_empty() {
        let all = metadata
            .streams()
            .flat_map(|stream| stream.events.values().map(|class| &*class.name));
        let message = format!(
            "the trace has no event {:?}; {}",
            pattern.event,
            possible(&pattern.event, all)
        );
        return Err(ExpectError {
            line: pattern.line,
            message,
        });
    }
    // Several streams may have the event; one with all fields is enough.
    let mut first = None;
    for (stream, class) in called {
        let mut terms = pattern.terms.clone();
        match terms
            .iter_mut()
            .try_for_each(|term| resolve_term(term, &pattern.event, stream, class))
        {
            Ok(()) => {
                pattern.terms = terms;
                return Ok(());
            }
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    first.map_or(Ok(()), Err)
}

pub(super) fn resolve_term(
    term: &mut Term,
    event: &str,
    stream: &StreamClass,
    class: &EventClass,
) -> Result<(), ExpectError> {
    let error = |message| ExpectError {
        line: term.line,
        message,
    };
    let structs = [
        class.fields.as_ref(),
        class.context.as_ref(),
        stream.event_context.as_ref(),
    ];
    let members = || structs.iter().flatten().flat_map(|fields| &fields.members);
    let Some(member) = members().find(|member| *member.name == *term.field) else {
        let all = members()
            .map(|member| &*member.name)
            .filter(|name| !name.starts_with('_'));
        return Err(error(format!(
            "{event} has no field {:?}; {}",
            term.field,
            possible(&term.field, all)
        )));
    };
    let names = NameClass::of(event, &term.field);
    check(&term.test, &member.class, names)
        .map_err(|what| error(format!("{} of {event} {what}", term.field)))?;
    // Strings and labels are compared directly.
    term.class = names.filter(|_| matches!(member.class, FieldClass::Integer(_)));
    Ok(())
}

/// Checks that a value of the class can pass the test. The error continues "`field` of `event`".
fn check(test: &Test, class: &FieldClass, names: Option<NameClass>) -> Result<(), String> {
    match (test, class) {
        (Test::AnyOf(tests), class) => tests.iter().try_for_each(|test| check(test, class, names)),
        (
            Test::Number(_) | Test::Range(..),
            FieldClass::Integer(_) | FieldClass::Enum(_) | FieldClass::VarInt(_),
        ) => Ok(()),
        (Test::Number(_) | Test::Range(..), FieldClass::Wide(class))
            if matches!(class.kind, WideKind::Integer | WideKind::Enum(_)) =>
        {
            Ok(())
        }
        (Test::Text(_), FieldClass::String(_)) => Ok(()),
        (Test::Text(_), FieldClass::Array(class)) if class.text => Ok(()),
        (Test::Text(text), FieldClass::Enum(class)) => {
            let labels: Vec<&str> = class
                .mappings
                .iter()
                .map(|mapping| &*mapping.label)
                .collect();
            match labels.iter().any(|label| label.eq_ignore_ascii_case(text)) {
                true => Ok(()),
                false => Err(format!(
                    "cannot be {text:?}, only one of {}",
                    labels.join(", ")
                )),
            }
        }
        (Test::Text(_), FieldClass::Integer(_)) if names.is_some() => Ok(()),
        (Test::Text(text), FieldClass::Integer(_)) => Err(format!(
            "is a number and has no name such as {text:?}; compare it with a number (threads, processes, locks, interrupts, \
             system calls, marks, spans and counters have names)"
        )),
        (Test::Number(_) | Test::Range(..), FieldClass::String(_)) => {
            Err("is a string; compare it with a string".to_owned())
        }
        (Test::Number(_) | Test::Range(..), FieldClass::Array(class)) if class.text => {
            Err("is a string; compare it with a string".to_owned())
        }
        (Test::Text(text), FieldClass::VarInt(_) | FieldClass::Bool(_)) => Err(format!(
            "is a number, not {text:?}; compare it with a number, or true or false"
        )),
        (_, FieldClass::Float(_)) => {
            Err("is a floating-point number; only integers and strings can be compared".to_owned())
        }
        _ => {
            Err("is an array or a structure; only integers and strings can be compared".to_owned())
        }
    }
}

/// The end of a message on an unknown name: the names that exist.
pub(super) fn possible<'a>(wanted: &str, all: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut all: Vec<&str> = all.collect();
    all.sort_unstable();
    all.dedup();
    let count = all.len();
    all.sort_by_key(|name| distance(wanted, name));
    all.truncate(SHOWN);
    match count {
        0 => "it has none".to_owned(),
        1..=SHOWN => format!("it has {}", all.join(", ")),
        _ => format!("the most similar of {count}: {}", all.join(", ")),
    }
}

/// Levenshtein distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (to, cell) in b.chars().zip(row.iter_mut().skip(1)) {
            let best = (corner + usize::from(from != to))
                .min(left + 1)
                .min(*cell + 1);
            corner = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Whether the event fits.
pub(super) fn fits(pattern: &Pattern, event: &Event, names: &Names<'_>) -> Fit {
    if *event.class.name != *pattern.event
        || pattern.on_cpu.is_some_and(|cpu| event.cpu() != Some(cpu))
    {
        return Fit::No;
    }
    pattern.terms.iter().fold(Fit::Yes, |fit, term| match fit {
        Fit::No => Fit::No,
        fit => {
            let value = [&event.fields, &event.context, &event.stream_context]
                .into_iter()
                .find_map(|all| all.get(&term.field));
            let numbered = |number| Some(names.numbered(term.class?, number, event.cpu()));
            fit.and(value.map_or(Fit::No, |value| {
                fits_value(&term.test, value, numbered, names)
            }))
        }
    })
}

pub(super) fn fits_value(
    test: &Test,
    value: &Value,
    numbered: impl Fn(u64) -> Option<Numbered>,
    names: &Names<'_>,
) -> Fit {
    let yes = |yes| if yes { Fit::Yes } else { Fit::No };
    match value {
        Value::Str(text) => yes(is_text_of(test, |wanted| wanted == text)),
        Value::Enum { value, labels } => {
            let labelled = is_text_of(test, |wanted| {
                labels
                    .iter()
                    .any(|label| label.eq_ignore_ascii_case(wanted))
            });
            yes(labelled || is_number(test, *value))
        }
        Value::WideEnum { value, labels } => {
            let labelled = is_text_of(test, |wanted| {
                labels
                    .iter()
                    .any(|label| label.eq_ignore_ascii_case(wanted))
            });
            yes(labelled || value.to_i128().is_some_and(|value| is_number(test, value)))
        }
        Value::Wide(number) => yes(number
            .to_i128()
            .is_some_and(|number| is_number(test, number))),
        Value::UInt(number) => self::number(test, i128::from(*number), numbered, names),
        Value::Int(number) => self::number(test, i128::from(*number), numbered, names),
        _ => Fit::No,
    }
}

/// Whether a number passes the test, by itself or by the name of its object.
pub(super) fn number(
    test: &Test,
    number: i128,
    numbered: impl Fn(u64) -> Option<Numbered>,
    names: &Names<'_>,
) -> Fit {
    if is_number(test, number) {
        return Fit::Yes;
    }
    let mut wanted = Vec::new();
    texts(test, &mut wanted);
    let number = u64::try_from(number).ok().and_then(numbered);
    let Some(number) = number.filter(|_| !wanted.is_empty()) else {
        return Fit::No;
    };
    match names.calls(&number, &wanted) {
        Some(true) => Fit::Yes,
        Some(false) => Fit::No,
        None => Fit::If(vec![vec![Need {
            number,
            wanted: wanted.into(),
        }]]),
    }
}

/// Collects all strings of a test.
pub(super) fn texts(test: &Test, all: &mut Vec<String>) {
    match test {
        Test::Text(text) => all.push(text.clone()),
        Test::AnyOf(tests) => tests.iter().for_each(|test| texts(test, all)),
        _ => {}
    }
}

fn is_text_of(test: &Test, is: impl Fn(&str) -> bool + Copy) -> bool {
    match test {
        Test::Text(wanted) => is(wanted),
        Test::AnyOf(tests) => tests.iter().any(|test| is_text_of(test, is)),
        _ => false,
    }
}

pub(super) fn is_number(test: &Test, number: i128) -> bool {
    match test {
        Test::Number(wanted) => *wanted == number,
        Test::Range(least, most) => {
            least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most)
        }
        Test::AnyOf(tests) => tests.iter().any(|test| is_number(test, number)),
        Test::Text(_) => false,
    }
}
