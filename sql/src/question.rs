//! Ready questions: queries with a title and parameters, in files of SQL.
//!
//! A file begins with comments: the title, what else there is to say, the line `-- @@store` if it
//! asks a store, and for each parameter a line `-- @name default: what it is`. The query calls it
//! `$name`.

/// A ready question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its name, without the `@`.
    pub name: &'static str,
    /// What it asks, as a sentence.
    pub title: &'static str,
    /// Whether it asks a store, and no traces.
    pub asks_store: bool,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// The query.
    pub sql: &'static str,
}

/// A parameter of a ready question, which is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, without the `$`.
    pub name: &'static str,
    /// Its value, unless another one is given; [`A_BUILD`](Parameter::A_BUILD) if one must be.
    pub default: &'static str,
    /// What it is.
    pub what: &'static str,
}

impl Parameter {
    /// Stands for the value of a parameter that is a build of the store.
    pub const A_BUILD: &'static str = "BUILD";

    /// Whether it is a build of the store, which must be given.
    pub fn is_build(&self) -> bool {
        self.default == Parameter::A_BUILD
    }
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../questions/", $name, ".sql")))),*]
    };
}

const FILES: &[(&str, &str)] = files![
    "counters",
    "cpu-load",
    "cpu-time",
    "event-counts",
    "events-of",
    "events-over-time",
    "failed-syscalls",
    "hot",
    "interrupts",
    "lock-holds",
    "lock-owners",
    "lock-waits",
    "longest-interrupts",
    "longest-lock-waits",
    "longest-off-cpu",
    "longest-syscalls",
    "losses",
    "off-cpu",
    "process-time",
    "regressions",
    "stacks",
    "syscalls",
    "thread-states",
    "wake-latency",
    "wakers",
    "worst-wakes",
];

/// All ready questions, by name.
pub fn questions() -> Vec<Question> {
    FILES.iter().map(|(name, text)| parse(name, text)).collect()
}

/// The line by which a file says so.
const ASKS_STORE: &str = "-- @@store";

fn parse(name: &'static str, text: &'static str) -> Question {
    let mut comments = text.lines().map_while(|line| line.strip_prefix("-- "));
    let title = comments.next().unwrap_or_default();
    let parameters = comments.filter_map(|line| {
        let (head, what) = line.strip_prefix('@')?.split_once(": ")?;
        let (name, default) = head.split_once(' ')?;
        Some(Parameter {
            name,
            default,
            what,
        })
    });
    Question {
        name,
        title,
        asks_store: text.lines().any(|line| line == ASKS_STORE),
        parameters: parameters.collect(),
        sql: text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_a_title_and_uses_its_parameters() {
        let all = questions();
        assert!(all.is_sorted_by(|one, other| one.name < other.name));
        for question in all {
            assert!(question.title.ends_with('.'), "{}", question.name);
            let lines = question.sql.lines().filter(|line| *line != ASKS_STORE);
            let comments = lines.filter(|line| line.starts_with("-- @"));
            assert_eq!(
                comments.count(),
                question.parameters.len(),
                "{}",
                question.name
            );
            for parameter in &question.parameters {
                let used = format!("${}", parameter.name);
                assert!(question.sql.contains(&used), "{} {used}", question.name);
            }
        }
    }
}
