//! What a trace is expected to hold, written down in a file, and whether it does.
//!
//! [`Expectations`] is the file, [`Judge`] holds a trace against it in the same pass as
//! [`Analysis`](crate::Analysis), and gives a [`Verdict`] on each expectation. Memory does not
//! depend on the length of the trace.
//!
//! Names stand where numbers do (a thread's for `tid`, `next_tid` ..). An event may come before its
//! thread's name is told: it is kept apart, by the number, until the name is known. A number that
//! no name is ever told for is called nothing.

mod judge;
mod names;
mod parse;
mod pattern;
mod tally;
mod verdict;

pub use judge::Judge;
pub use tally::Found;
pub use verdict::Verdict;

use crate::span::SpanKind;
use names::NameClass;

/// An expectation file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what is possible, without a full stop.
    pub message: String,
}

impl std::fmt::Display for ExpectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ExpectError {}

/// What a file says: any number of expectations.
#[derive(Clone, Debug)]
pub struct Expectations {
    list: Vec<Expectation>,
}

impl Expectations {
    /// Of the text of a TOML file.
    ///
    /// # Errors
    /// With the line, if it is no TOML, or has a key or a value that means nothing here.
    pub fn parse(text: &str) -> Result<Expectations, ExpectError> {
        parse::file(text)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[derive(Clone, Debug)]
struct Expectation {
    line: usize,
    name: Option<String>,
    subject: Subject,
}

/// What an expectation is about.
#[derive(Clone, Debug)]
enum Subject {
    /// How many events fit one of the patterns.
    Count { any: Vec<Pattern>, bounds: Bounds },
    /// The first events that fit come in this order; those of one step in any.
    Order(Vec<Vec<Pattern>>),
    /// How long something takes.
    Duration {
        kind: SpanKind,
        of: Vec<Term>,
        least: Option<u64>,
        most: Option<u64>,
        bounds: Bounds,
    },
    /// What was lost.
    Losses {
        packets: bool,
        on_cpu: Option<u64>,
        bounds: Bounds,
    },
    /// No event is earlier than the one before it.
    Timestamps,
}

/// How many.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    least: Option<u64>,
    most: Option<u64>,
}

impl Bounds {
    fn hold(self, count: u64) -> bool {
        self.least.is_none_or(|least| count >= least) && self.most.is_none_or(|most| count <= most)
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.least, self.most) {
            (Some(least), Some(most)) if least == most => write!(f, "exactly {least}"),
            (Some(least), Some(most)) => write!(f, "{least} to {most}"),
            (Some(least), None) => write!(f, "at least {least}"),
            (None, Some(most)) => write!(f, "at most {most}"),
            (None, None) => f.write_str("any number"),
        }
    }
}

/// Which events: by name, CPU and values of fields.
#[derive(Clone, Debug)]
struct Pattern {
    line: usize,
    event: String,
    on_cpu: Option<u64>,
    terms: Vec<Term>,
}

impl std::fmt::Display for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.event)?;
        if let Some(cpu) = self.on_cpu {
            write!(f, " on CPU {cpu}")?;
        }
        terms(f, &self.terms)
    }
}

fn terms(f: &mut std::fmt::Formatter<'_>, terms: &[Term]) -> std::fmt::Result {
    for (index, term) in terms.iter().enumerate() {
        write!(
            f,
            "{}{} = {}",
            if index == 0 { " with " } else { ", " },
            term.field,
            term.test
        )?;
    }
    Ok(())
}

/// A field, or a property of a duration, and what it is to be.
#[derive(Clone, Debug)]
struct Term {
    line: usize,
    field: String,
    test: Test,
    /// What its numbers are the names of; found out with the trace's metadata.
    class: Option<NameClass>,
}

/// What a value is to be.
#[derive(Clone, Debug)]
enum Test {
    Number(i128),
    /// A text, the label of an enumeration, or a name.
    Text(String),
    /// From .. to.
    Range(Option<i128>, Option<i128>),
    AnyOf(Vec<Test>),
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Test::Number(number) => number.fmt(f),
            Test::Text(text) => write!(f, "{text:?}"),
            Test::Range(Some(least), Some(most)) => write!(f, "{least} to {most}"),
            Test::Range(Some(least), None) => write!(f, "at least {least}"),
            Test::Range(None, Some(most)) => write!(f, "at most {most}"),
            Test::Range(None, None) => f.write_str("anything"),
            Test::AnyOf(tests) => {
                for (index, test) in tests.iter().enumerate() {
                    write!(f, "{}{test}", if index == 0 { "" } else { " or " })?;
                }
                Ok(())
            }
        }
    }
}
