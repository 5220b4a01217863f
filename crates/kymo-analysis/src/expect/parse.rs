//! Parsing of expectation files.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Bounds, ExpectError, Expectation, Expectations, Pattern, Subject, Term, Test};
use kymo_machine::SpanKind;

/// An expectation has exactly one of these keys.
const SUBJECTS: [&str; 6] = [
    "event",
    "any_of",
    "order",
    "duration",
    "losses",
    "timestamps",
];
const COUNTS: [&str; 3] = ["count", "at_least", "at_most"];

pub(super) fn file(text: &str) -> Result<Expectations, ExpectError> {
    let file = File { text };
    let root = DeTable::parse(text).map_err(|error| ExpectError {
        line: error.span().map_or(1, |span| file.line(span)),
        message: format!("not valid TOML: {}", error.message()),
    })?;
    let mut list = Vec::new();
    for (key, value) in root.get_ref() {
        let tables = match (&**key.get_ref(), value.get_ref()) {
            ("expect", DeValue::Array(tables)) => tables,
            _ => {
                let message = match &**key.get_ref() {
                    "expect" => format!(
                        "expect is {}; write [[expect]], in two brackets, above each expectation",
                        found(value)
                    ),
                    key => format!("expected [[expect]] tables, found \"{key}\""),
                };
                return Err(file.error(key.span(), message));
            }
        };
        for table in tables {
            let DeValue::Table(of) = table.get_ref() else {
                let message = format!("expected [[expect]] tables, found {}", found(table));
                return Err(file.error(table.span(), message));
            };
            list.push(file.expectation(of, table.span())?);
        }
    }
    Ok(Expectations { list })
}

/// A value's type with its article, for messages.
fn found(value: &Value<'_>) -> String {
    let kind = value.get_ref().type_str();
    let article = if kind.starts_with(['a', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

/// The text, from which lines of errors are counted.
pub(super) struct File<'a> {
    pub(super) text: &'a str,
}

pub(super) type Value<'a> = Spanned<DeValue<'a>>;

impl File<'_> {
    fn line(&self, span: Range<usize>) -> usize {
        let before = self
            .text
            .as_bytes()
            .get(..span.start)
            .unwrap_or(self.text.as_bytes());
        before.iter().filter(|&&byte| byte == b'\n').count() + 1
    }

    fn error(&self, span: Range<usize>, message: String) -> ExpectError {
        ExpectError {
            line: self.line(span),
            message,
        }
    }

    fn expectation(
        &self,
        table: &DeTable<'_>,
        span: Range<usize>,
    ) -> Result<Expectation, ExpectError> {
        let subjects: Vec<&str> = SUBJECTS
            .into_iter()
            .filter(|key| table.contains_key(*key))
            .collect();
        let &[subject] = &subjects[..] else {
            let found = if subjects.is_empty() {
                "none".to_owned()
            } else {
                subjects.join(" and ")
            };
            return Err(self.error(
                span,
                format!("expected one of {}; found {found}", SUBJECTS.join(", ")),
            ));
        };
        let more: &[&str] = match subject {
            "duration" => &["of", "min", "max", "count", "at_least", "at_most"],
            "losses" => &["on_cpu", "count", "at_least", "at_most"],
            "event" | "any_of" => &COUNTS,
            _ => &[],
        };
        for key in table.keys() {
            let name = &**key.get_ref();
            if name != "name" && name != subject && !more.contains(&name) {
                let mut possible = vec!["name"];
                possible.extend(more);
                let message = format!(
                    "unexpected \"{name}\": \"{subject}\" takes {}",
                    possible.join(", ")
                );
                return Err(self.error(key.span(), message));
            }
        }
        let Some(value) = table.get(subject) else {
            return Err(self.error(span, "nothing is expected".to_owned()));
        };
        let bounds = self.bounds(table)?;
        let subject = match subject {
            "event" => Subject::Count {
                any: vec![self.pattern(value)?],
                bounds: self.needed(bounds, span.clone())?,
            },
            "any_of" => Subject::Count {
                any: self.patterns(value)?,
                bounds: self.needed(bounds, span.clone())?,
            },
            "order" => {
                let DeValue::Array(steps) = value.get_ref() else {
                    let message = format!("order must be a list of events, not {}", found(value));
                    return Err(self.error(value.span(), message));
                };
                let steps = steps.iter().map(|step| match step.get_ref() {
                    DeValue::Array(_) => self.patterns(step),
                    _ => Ok(vec![self.pattern(step)?]),
                });
                let steps: Vec<Vec<Pattern>> = steps.collect::<Result<_, _>>()?;
                if steps.len() < 2 {
                    return Err(
                        self.error(value.span(), "order needs at least two events".to_owned())
                    );
                }
                Subject::Order(steps)
            }
            "duration" => self.duration(table, value, bounds)?,
            "losses" => {
                let packets = match self.text(value)? {
                    "events" => false,
                    "packets" => true,
                    other => {
                        return Err(self.error(
                            value.span(),
                            format!("expected \"events\" or \"packets\", found {other:?}"),
                        ));
                    }
                };
                let on_cpu = table
                    .get("on_cpu")
                    .map(|cpu| self.natural(cpu))
                    .transpose()?;
                Subject::Losses {
                    packets,
                    on_cpu,
                    bounds: self.needed(bounds, span.clone())?,
                }
            }
            _ => match self.text(value)? {
                "non-decreasing" => Subject::Timestamps,
                other => {
                    return Err(self.error(
                        value.span(),
                        format!("expected \"non-decreasing\", found {other:?}"),
                    ));
                }
            },
        };
        let name = table
            .get("name")
            .map(|name| self.text(name).map(str::to_owned))
            .transpose()?;
        Ok(Expectation {
            line: self.line(span),
            name,
            subject,
        })
    }

    fn needed(&self, bounds: Bounds, span: Range<usize>) -> Result<Bounds, ExpectError> {
        match bounds {
            Bounds {
                least: None,
                most: None,
            } => Err(self.error(span, "missing count, at_least or at_most".to_owned())),
            bounds => Ok(bounds),
        }
    }

    fn bounds(&self, table: &DeTable<'_>) -> Result<Bounds, ExpectError> {
        let [count, least, most] = COUNTS.map(|key| {
            table
                .get(key)
                .map(|value| (self.natural(value), value.span()))
        });
        if let (Some((_, span)), true) = (&count, least.is_some() || most.is_some()) {
            return Err(self.error(
                span.clone(),
                "count cannot be combined with at_least or at_most".to_owned(),
            ));
        }
        let span = most.as_ref().map(|(_, span)| span.clone());
        let value = |of: Option<(Result<u64, ExpectError>, Range<usize>)>| {
            of.map(|(value, _)| value).transpose()
        };
        let count = value(count)?;
        let bounds = Bounds {
            least: value(least)?.or(count),
            most: value(most)?.or(count),
        };
        match (bounds.least, bounds.most, span) {
            (Some(least), Some(most), Some(span)) if least > most => Err(self.error(
                span,
                format!("no number is at least {least} and at most {most}"),
            )),
            _ => Ok(bounds),
        }
    }

    fn duration(
        &self,
        table: &DeTable<'_>,
        value: &Value<'_>,
        bounds: Bounds,
    ) -> Result<Subject, ExpectError> {
        let wanted = self.text(value)?;
        let Some((_, kind)) = SpanKind::ALL.into_iter().find(|(name, _)| *name == wanted) else {
            let names = SpanKind::ALL.map(|(name, _)| name).join(", ");
            return Err(self.error(
                value.span(),
                format!("unknown duration {wanted:?}; expected one of {names}"),
            ));
        };
        let limit = |key: &str| table.get(key).map(|value| self.nanos(value)).transpose();
        let (least, most) = (limit("min")?, limit("max")?);
        if least.is_none() && most.is_none() && bounds.least.is_none() && bounds.most.is_none() {
            return Err(self.error(
                value.span(),
                "missing max, min, count, at_least or at_most".to_owned(),
            ));
        }
        let mut of = Vec::new();
        if let Some(value) = table.get("of") {
            let DeValue::Table(terms) = value.get_ref() else {
                let message = format!(
                    "of must be a table, such as {{ thread = \"A\" }}, not {}",
                    found(value)
                );
                return Err(self.error(value.span(), message));
            };
            for (key, value) in terms {
                let (field, line) = (key.get_ref().to_string(), self.line(key.span()));
                of.push(Term {
                    line,
                    field,
                    test: self.test(value)?,
                    class: None,
                });
            }
        }
        // Without a span to measure, a limit would seem to be kept.
        let bounds = Bounds {
            least: bounds.least.or((bounds.most.is_none()).then_some(1)),
            ..bounds
        };
        Ok(Subject::Duration {
            kind,
            of,
            least,
            most,
            bounds,
        })
    }

    fn patterns(&self, value: &Value<'_>) -> Result<Vec<Pattern>, ExpectError> {
        match value.get_ref() {
            DeValue::Array(patterns) if !patterns.is_empty() => patterns
                .iter()
                .map(|pattern| self.pattern(pattern))
                .collect(),
            _ => {
                let message = match value.get_ref() {
                    DeValue::Array(_) => "expected at least one event in the list".to_owned(),
                    _ => format!("expected a list of events, found {}", found(value)),
                };
                Err(self.error(value.span(), message))
            }
        }
    }

    /// `"name"` or `{ is = "name", on_cpu = 0, field = value, .. }`.
    fn pattern(&self, value: &Value<'_>) -> Result<Pattern, ExpectError> {
        let line = self.line(value.span());
        let table = match value.get_ref() {
            DeValue::String(name) => {
                return Ok(Pattern {
                    line,
                    event: name.to_string(),
                    on_cpu: None,
                    terms: Vec::new(),
                });
            }
            DeValue::Table(table) => table,
            _ => {
                let message = format!(
                    "expected an event's name, or a table such as {{ is = \"thread_yield\", tid = \
                     \"A\" }}, found {}",
                    found(value)
                );
                return Err(self.error(value.span(), message));
            }
        };
        // `is` for the event's name: events have fields called `name`.
        let Some(event) = table.get("is") else {
            let message = "missing the event's name, as in { is = \"thread_yield\", tid = \"A\" }";
            return Err(self.error(value.span(), message.to_owned()));
        };
        let event = self.text(event)?.to_owned();
        let on_cpu = table
            .get("on_cpu")
            .map(|cpu| self.natural(cpu))
            .transpose()?;
        let mut terms = Vec::new();
        for (key, value) in table {
            let field = &**key.get_ref();
            if !["is", "on_cpu"].contains(&field) {
                terms.push(Term {
                    line: self.line(key.span()),
                    field: field.to_owned(),
                    test: self.test(value)?,
                    class: None,
                });
            }
        }
        terms.sort_by(|a, b| a.field.cmp(&b.field));
        Ok(Pattern {
            line,
            event,
            on_cpu,
            terms,
        })
    }

    /// The test that a value stands for.
    pub(super) fn test(&self, value: &Value<'_>) -> Result<Test, ExpectError> {
        match value.get_ref() {
            DeValue::Integer(_) => Ok(Test::Number(self.integer(value)?)),
            DeValue::Boolean(yes) => Ok(Test::Number(i128::from(*yes))),
            DeValue::String(text) => Ok(Test::Text(text.to_string())),
            DeValue::Array(tests) if !tests.is_empty() => {
                let tests = tests.iter().map(|test| match test.get_ref() {
                    DeValue::Array(_) => {
                        Err(self.error(test.span(), "a list cannot contain a list".to_owned()))
                    }
                    _ => self.test(test),
                });
                Ok(Test::AnyOf(tests.collect::<Result<_, _>>()?))
            }
            DeValue::Table(table) => {
                if let Some(key) = table
                    .keys()
                    .find(|key| !["at_least", "at_most"].contains(&&**key.get_ref()))
                {
                    let message = format!(
                        "a range takes at_least and at_most, not \"{}\"",
                        key.get_ref()
                    );
                    return Err(self.error(key.span(), message));
                }
                let limit = |key: &str| table.get(key).map(|value| self.integer(value)).transpose();
                match (limit("at_least")?, limit("at_most")?) {
                    (None, None) => Err(self.error(
                        value.span(),
                        "a range needs at_least, at_most or both".to_owned(),
                    )),
                    (Some(least), Some(most)) if least > most => Err(self.error(
                        value.span(),
                        format!("no number is at least {least} and at most {most}"),
                    )),
                    (least, most) => Ok(Test::Range(least, most)),
                }
            }
            _ => {
                let message = format!(
                    "expected an integer, a boolean, a string, a list of these, or {{ at_least = \
                     .., at_most = .. }}, found {}",
                    found(value)
                );
                Err(self.error(value.span(), message))
            }
        }
    }

    fn text<'v>(&self, value: &'v Value<'_>) -> Result<&'v str, ExpectError> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| {
            self.error(
                value.span(),
                format!("expected a string, found {}", found(value)),
            )
        })
    }

    fn integer(&self, value: &Value<'_>) -> Result<i128, ExpectError> {
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|number| i128::from_str_radix(number.as_str(), number.radix()).ok());
        number.ok_or_else(|| {
            self.error(
                value.span(),
                format!("expected an integer, found {}", found(value)),
            )
        })
    }

    fn natural(&self, value: &Value<'_>) -> Result<u64, ExpectError> {
        let number = self.integer(value)?;
        u64::try_from(number).map_err(|_| {
            let message = format!("expected an integer from 0 to {}, found {number}", u64::MAX);
            self.error(value.span(), message)
        })
    }

    /// A duration with its unit.
    fn nanos(&self, value: &Value<'_>) -> Result<u64, ExpectError> {
        let wrong = || {
            let message = format!(
                "expected a duration with the unit ns, us, ms or s, such as \"50 us\", found {}",
                match value.get_ref().as_str() {
                    Some(text) => format!("{text:?}"),
                    None => found(value),
                }
            );
            self.error(value.span(), message)
        };
        let text = value.get_ref().as_str().ok_or_else(wrong)?;
        let at = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, unit) = text.split_at(at);
        let scale: u32 = match unit.trim() {
            "ns" => 0,
            "us" | "µs" => 3,
            "ms" => 6,
            "s" => 9,
            _ => return Err(wrong()),
        };
        // In integers, so that "0.1 us" is exactly 100 ns.
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = part.trim_end_matches('0');
        let rest = scale
            .checked_sub(u32::try_from(part.len()).map_err(|_| wrong())?)
            .ok_or_else(wrong)?;
        let parse = |digits: &str| {
            if digits.is_empty() {
                Some(0)
            } else {
                digits.parse::<u64>().ok()
            }
        };
        let whole = parse(whole)
            .filter(|_| !["", "."].contains(&number))
            .and_then(|whole| whole.checked_mul(10_u64.pow(scale)));
        let part = parse(part).and_then(|part| part.checked_mul(10_u64.pow(rest)));
        whole
            .zip(part)
            .and_then(|(whole, part)| whole.checked_add(part))
            .ok_or_else(wrong)
    }
}
