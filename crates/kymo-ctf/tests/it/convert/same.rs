//! The properties of a trace that conversion must preserve.

use std::path::Path;

use kymo_ctf::{Event, FieldClass, Fields, Item, LossKind, StructClass, Trace, Value};

/// The content of a trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Read {
    pub(crate) events: Vec<Seen>,
    pub(crate) losses: Vec<Lost>,
    /// Problems of the trace.
    pub(crate) problems: Vec<String>,
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) stream: String,
    pub(crate) name: String,
    pub(crate) time: Option<u64>,
    nanos: Option<i128>,
    pub(crate) cpu: Option<u64>,
    log_level: Option<i64>,
    parts: [Named; 3],
    lowered: [Named; 3],
}

type Named = Vec<(String, Shown)>;

/// A value in the form in which it is compared.
#[derive(Debug, Clone, PartialEq)]
enum Shown {
    /// A value that is not compound; NaN equals NaN.
    Plain(String),
    List(Vec<Shown>),
    Struct(Named),
    Option(String, Box<Shown>),
    /// Nested optional fields, absent: a value does not show which one is absent.
    Nothing,
    /// A value in one of several unnamed options, which it does not identify: its form in each of
    /// them.
    OneOf(Vec<Shown>),
}

/// A loss, with the times around it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lost {
    stream: String,
    cpu: Option<u64>,
    events: bool,
    count: u64,
    begin: Option<i128>,
    end: Option<i128>,
}

impl Lost {
    /// Whether it may overlap an interval, in ticks of a microsecond from 4.999923 s before the
    /// origin.
    pub(crate) fn touches(&self, from: u64, to: u64) -> bool {
        let nanos = |ticks: u64| -5_000_000_000 + i128::from(ticks + 77) * 1000;
        self.end.is_some_and(|end| end >= nanos(from))
            && self.begin.is_some_and(|begin| begin <= nanos(to))
    }
}

pub(crate) fn read(folder: &Path) -> Read {
    let mut read = Read::default();
    for item in Trace::open(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .events()
    {
        match item {
            Ok(Item::Event(event)) => read.events.push(Seen::of(&event)),
            Ok(Item::Loss(loss)) => read.losses.push(Lost {
                stream: loss.stream.to_string(),
                cpu: loss.cpu,
                events: loss.kind == LossKind::Events,
                count: loss.count,
                begin: loss.begin_nanos,
                end: loss.end_nanos,
            }),
            Ok(Item::Problem(problem)) => read.problems.push(problem.to_string()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => read.problems.push(error.to_string()),
        }
    }
    read
}

impl Seen {
    fn of(event: &Event) -> Seen {
        let parts = [
            (
                &event.stream_context,
                event.packet.class.event_context.as_deref(),
            ),
            (&event.context, event.class.context.as_deref()),
            (&event.fields, event.class.fields.as_deref()),
        ];
        let name = event.name().to_owned();
        Seen {
            stream: event.stream().to_string(),
            time: event.time.map(|time| time.0),
            nanos: event.nanos(),
            cpu: event.cpu(),
            log_level: event.class.log_level,
            parts: parts.map(|(fields, _)| plain_fields(fields)),
            lowered: parts.map(|(fields, class)| {
                class.map_or_else(Vec::new, |class| lowered_fields(fields, class))
            }),
            name: if name.is_empty() {
                format!("event_{}", event.class.id)
            } else {
                name
            },
        }
    }
}

fn plain_fields(fields: &Fields) -> Named {
    fields
        .iter()
        .map(|(name, value)| (name.to_owned(), plain(value)))
        .collect()
}

fn plain(value: &Value) -> Shown {
    match value {
        Value::Array(values) => Shown::List(values.iter().map(plain).collect()),
        Value::Struct(fields) => Shown::Struct(plain_fields(fields)),
        Value::Variant { option, value } => {
            Shown::Option(option.to_string(), Box::new(plain(value)))
        }
        value => Shown::Plain(format!("{value:?}")),
    }
}

fn identifier(name: &str) -> String {
    match name {
        "" => "unnamed".to_owned(),
        name => name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect(),
    }
}

fn lowered_fields(fields: &Fields, class: &StructClass) -> Named {
    let both = fields.iter().zip(&class.members);
    both.map(|((name, value), member)| (identifier(name), lowered(value, &member.class)))
        .collect()
}

fn lowered(value: &Value, class: &FieldClass) -> Shown {
    match (value, class) {
        (Value::None, FieldClass::Optional(class))
            if matches!(*class.class, FieldClass::Optional(_)) =>
        {
            Shown::Nothing
        }
        (Value::None, FieldClass::Optional(_)) => Shown::List(Vec::new()),
        (value, FieldClass::Optional(class)) => Shown::List(vec![lowered(value, &class.class)]),
        (Value::Bool(value), _) => plain(&Value::UInt((*value).into())),
        (value, FieldClass::Wide(class)) => {
            let number = match value {
                Value::UInt(value) => u128::from(*value).into(),
                Value::Int(value) => i128::from(*value).into(),
                Value::Enum { value, .. } => (*value).into(),
                Value::BitMap { bits, .. } => u128::from(*bits).into(),
                Value::Wide(value)
                | Value::WideEnum { value, .. }
                | Value::WideBitMap { bits: value, .. } => value.clone(),
                // The class is that of another option.
                other => return plain(other),
            };
            plain(&Value::Str(number.in_base(class.base)))
        }
        (Value::Bytes(bytes), _) => Shown::List(
            bytes
                .iter()
                .map(|byte| plain(&Value::UInt((*byte).into())))
                .collect(),
        ),
        (Value::BitMap { bits, flags }, _) => {
            let labels = if bits.is_power_of_two() {
                flags.clone()
            } else {
                Vec::new()
            };
            plain(&Value::Enum {
                value: (*bits).into(),
                labels,
            })
        }
        (Value::Struct(fields), FieldClass::Struct(class)) => {
            Shown::Struct(lowered_fields(fields, class))
        }
        (Value::Array(values), FieldClass::Array(class)) => Shown::List(
            values
                .iter()
                .map(|value| lowered(value, &class.element))
                .collect(),
        ),
        (Value::Variant { option, value }, FieldClass::Variant(class)) => {
            let of = class.options.iter().filter(|have| have.name == *option);
            let mut each: Vec<Shown> = of.map(|of| lowered(value, &of.class)).collect();
            let value = if each.len() == 1 {
                each.remove(0)
            } else {
                Shown::OneOf(each)
            };
            Shown::Option(
                if option.is_empty() {
                    String::new()
                } else {
                    identifier(option)
                },
                Box::new(value),
            )
        }
        (value, _) => plain(value),
    }
}

impl Read {
    /// The trace lowered to CTF 1.8: a boolean becomes 0 or 1, an optional field an array of at
    /// most one element, bytes an array of numbers; only single bits of a bit map have labels;
    /// names consist of letters, digits and underscores and are not empty.
    pub(crate) fn lowered(&self) -> Read {
        let mut read = self.clone();
        read.events
            .iter_mut()
            .for_each(|event| event.parts = event.lowered.clone());
        read
    }

    /// Whether there are integers of more than 64 bits.
    pub(crate) fn has_wide(&self) -> bool {
        self.events
            .iter()
            .any(|event| format!("{:?}", event.parts).contains("Wide"))
    }

    /// The trace without the times around losses. These are ends of packets, and a packet with an
    /// end before its last event ends with that event in the output.
    pub(crate) fn with_untimed_losses(mut self) -> Read {
        self.losses
            .iter_mut()
            .for_each(|loss| (loss.begin, loss.end) = (None, None));
        self
    }

    /// The first difference of the output from this trace. The output may have additional copies of
    /// lengths and selectors.
    pub(crate) fn differs(&self, written: &Read) -> Option<String> {
        if let Some(problem) = written.problems.first() {
            return Some(format!("is written with a problem: {problem}"));
        }
        if self.events.len() != written.events.len() {
            return Some(format!(
                "{} events became {}",
                self.events.len(),
                written.events.len()
            ));
        }
        for (event, written) in self.events.iter().zip(&written.events) {
            let parts =
                [0, 1, 2].map(|part| without_copies(&written.parts[part], &event.parts[part]));
            let comparable = Seen {
                parts,
                lowered: event.lowered.clone(),
                ..written.clone()
            };
            if comparable != *event {
                let show = |event: &Seen| {
                    format!(
                        "{} {:?} {:?} {:?}",
                        event.name, event.time, event.cpu, event.parts
                    )
                };
                return Some(format!("\n  {}\n  {}", show(event), show(&comparable)));
            }
        }
        // Counters of 64 bits are written that begin below half of that, which limits the losses.
        let of = |events: bool| {
            self.losses
                .iter()
                .filter(move |loss| loss.events == events)
                .map(|loss| u128::from(loss.count))
        };
        if [true, false]
            .into_iter()
            .any(|events| of(events).sum::<u128>() > u128::from(u64::MAX / 2))
        {
            return None;
        }
        if self.losses.len() != written.losses.len() {
            return Some(format!("{:?} became {:?}", self.losses, written.losses));
        }
        for (loss, written) in self.losses.iter().zip(&written.losses) {
            // A time that the source lacks may be known in the output.
            let (begin, end) = (loss.begin.and(written.begin), loss.end.and(written.end));
            if *loss
                != (Lost {
                    begin,
                    end,
                    ..written.clone()
                })
            {
                return Some(format!("{loss:?} became {written:?}"));
            }
        }
        None
    }
}

/// Removes inserted copies, which precede their field and are named after it.
fn without_copies(written: &Named, expected: &Named) -> Named {
    let is_copy = |name: &str| {
        // With a number appended if the name is taken.
        let name = name
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .trim_end_matches('_');
        name.starts_with('_') && (name.ends_with("_length") || name.ends_with("_tag"))
    };
    let mut kept = Vec::new();
    let mut wanted = expected.iter().peekable();
    for (name, value) in written {
        let here = wanted.next_if(|(wanted, _)| wanted == name);
        if here.is_some() || !is_copy(name) {
            kept.push((
                name.clone(),
                here.map_or_else(|| value.clone(), |(_, expected)| inside(value, expected)),
            ));
        }
    }
    kept
}

/// Whether this is an empty array, possibly nested in arrays of one element.
fn is_nothing(written: &Shown) -> bool {
    match written {
        Shown::List(elements) if elements.len() < 2 => elements.iter().all(is_nothing),
        _ => false,
    }
}

/// Removes inserted copies inside a value.
fn inside(written: &Shown, expected: &Shown) -> Shown {
    match (written, expected) {
        (written, Shown::Nothing) if is_nothing(written) => Shown::Nothing,
        (written, Shown::OneOf(each)) if each.iter().any(|one| inside(written, one) == *one) => {
            expected.clone()
        }
        (Shown::Struct(written), Shown::Struct(expected)) => {
            Shown::Struct(without_copies(written, expected))
        }
        (Shown::List(written), Shown::List(expected)) if written.len() == expected.len() => {
            Shown::List(
                written
                    .iter()
                    .zip(expected)
                    .map(|(written, expected)| inside(written, expected))
                    .collect(),
            )
        }
        (Shown::Option(option, written), Shown::Option(wanted, expected)) => {
            let is_unnamed = wanted.is_empty() && option.starts_with("unnamed");
            let option = if is_unnamed { wanted } else { option };
            Shown::Option(option.clone(), Box::new(inside(written, expected)))
        }
        (value, _) => value.clone(),
    }
}
