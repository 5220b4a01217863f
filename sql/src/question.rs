//! Ready questions: queries with a title and parameters, in files of SQL.
//!
//! A file begins with comments: the title, then a line `-- @name default: what it is` for each
//! parameter, which the query calls `$name`.

/// A ready question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its name, without the `@`.
    pub name: &'static str,
    /// What it asks, as a sentence.
    pub title: &'static str,
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
    /// Its value, unless another one is given.
    pub default: &'static str,
    /// What it is.
    pub what: &'static str,
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
            let comments = question.sql.lines().filter(|line| line.starts_with("-- @"));
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
