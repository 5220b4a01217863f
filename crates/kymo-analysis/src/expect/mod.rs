//! Expectations of a trace, written in a file, and the check of a trace against them.
//!
//! [`Expectations`] is the parsed file. [`Judge`] checks a trace against it in the same pass as
//! [`Analysis`](crate::Analysis), and gives a [`Verdict`] for each expectation. Memory does not
//! depend on the length of the trace.
//!
//! A name may stand for a number (a thread's for `tid`, `next_tid` ..). Events that precede their
//! thread's name are tallied by number until the trace has the name. A number that never gets a
//! name matches none.

mod condition;
mod judge;
mod names;
mod parse;
mod pattern;
mod tally;
mod verdict;

pub use condition::Condition;
pub use judge::Judge;
pub use names::named_fields;
pub use tally::Found;
pub use verdict::Verdict;

use kymo_machine::SpanKind;
use names::NameClass;

/// An error in an expectation file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectError {
    /// Line number, from 1.
    pub line: usize,
    /// The error and the correct form, without a full stop.
    pub message: String,
}

impl std::fmt::Display for ExpectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ExpectError {}

/// The expectations of a file.
#[derive(Clone, Debug)]
pub struct Expectations {
    list: Vec<Expectation>,
}

impl Expectations {
    /// Parses the text of a TOML file.
    ///
    /// # Errors
    /// Gives the line of malformed TOML, or of an unknown key or a wrong value.
    pub fn parse(text: &str) -> Result<Expectations, ExpectError> {
        parse::file(text)
    }

    /// Number of expectations.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether the file has no expectations.
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

/// The subject of an expectation.
#[derive(Clone, Debug)]
enum Subject {
    /// The number of events that fit one of the patterns.
    Count { any: Vec<Pattern>, bounds: Bounds },
    /// The first events that fit occur in this order; those of one step in any.
    Order(Vec<Vec<Pattern>>),
    /// The lengths of spans.
    Duration {
        kind: SpanKind,
        of: Vec<Term>,
        least: Option<u64>,
        most: Option<u64>,
        bounds: Bounds,
    },
    /// The number of lost events or packets.
    Losses {
        packets: bool,
        on_cpu: Option<u64>,
        bounds: Bounds,
    },
    /// No event is earlier than its predecessor.
    Timestamps,
}

/// Limits of a number.
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

/// A pattern of events: name, CPU and values of fields.
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

/// A field, or a property of a duration, and the test of its value.
#[derive(Clone, Debug)]
struct Term {
    line: usize,
    field: String,
    test: Test,
    /// The kind of object that its numbers identify, resolved from the trace's metadata.
    class: Option<NameClass>,
}

/// The test of a value.
#[derive(Clone, Debug)]
enum Test {
    Number(i128),
    /// A string, the label of an enumeration, or a name.
    Text(String),
    /// Minimum and maximum.
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
