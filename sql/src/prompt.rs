//! The prompt of `kymo query TRACE..`: queries one after another, with history and completion.

use std::path::PathBuf;

use kymo_sql::{Error, Format, Output, Question, Session, questions};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Editor, Helper};

const HELP: &str = "\
A query ends with a semicolon, and may have several lines.
  \\d              tables
  \\d TABLE        the columns of a table
  @               the ready questions
  @NAME           the answer to one; @NAME thread=ui* with a value for a parameter
  \\q, ^D          the end
The tabulator completes names; ^C ends a query that runs.";

/// All tables, as a query names them.
const TABLES: &str = "\
select case table_schema when 'event' then 'event.' || table_name else table_name end as \"table\"
from information_schema.tables
where table_catalog = 'kymo' and table_schema in ('trace', 'event')
order by 1";

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Nothing,
    End,
    Help,
    List,
    Query(String),
    Ready(Question, Vec<(String, String)>),
}

/// Asks for queries until there are no more.
pub fn run(session: &Session) -> Result<(), Error> {
    let failed =
        |error: ReadlineError| Error::Engine(format!("cannot read from the terminal: {error}"));
    let mut editor: Editor<Names, DefaultHistory> = Editor::new().map_err(failed)?;
    editor.set_helper(Some(Names::of(session)?));
    let history = history();
    if let Some(history) = &history {
        // There is none before the first time.
        let _ = editor.load_history(history);
    }
    println!("\\? for help");
    loop {
        let line = match editor.readline("kymo> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        let _ = editor.add_history_entry(line.trim());
        match wish(&line) {
            Ok(Wish::Nothing) => {}
            Ok(Wish::End) => break,
            Ok(Wish::Help) => println!("{HELP}"),
            Ok(Wish::List) => crate::list().map_err(|error| failed(error.into()))?,
            Ok(wish) => match answer(session, wish) {
                Err(error) if error.is_broken_pipe() => return Err(error),
                Err(error) => eprintln!("kymo: {error}"),
                Ok(()) => {}
            },
            Err(error) => eprintln!("kymo: {error}"),
        }
    }
    if let Some(history) = &history {
        let folder = history.parent().map(std::fs::create_dir_all);
        // Without a place for it, the history ends here.
        if folder.is_some_and(|made| made.is_ok()) {
            let _ = editor.save_history(history);
        }
    }
    Ok(())
}

fn answer(session: &Session, wish: Wish) -> Result<(), Error> {
    let (sql, values) = match wish {
        Wish::Query(sql) => (sql, Vec::new()),
        Wish::Ready(question, values) => {
            session.check(&question, &values)?;
            (question.sql.to_owned(), values)
        }
        Wish::Nothing | Wish::End | Wish::Help | Wish::List => return Ok(()),
    };
    let mut output = Output::new(Format::Table, None)?;
    session.ask(&sql, &values, &mut |answer| output.take(answer))?;
    output.finish()
}

/// The file with the lines of earlier prompts.
fn history() -> Option<PathBuf> {
    let folder = |name: &str, more: &[&str]| {
        let path = std::env::var_os(name).filter(|path| !path.is_empty())?;
        Some(
            more.iter()
                .fold(PathBuf::from(path), |path, more| path.join(more)),
        )
    };
    let state = folder("XDG_STATE_HOME", &[]).or_else(|| folder("HOME", &[".local", "state"]));
    Some(state?.join("kymo").join("query-history"))
}

fn wish(line: &str) -> Result<Wish, Error> {
    let line = line.trim().trim_end_matches(';').trim_end();
    if line.is_empty() {
        return Ok(Wish::Nothing);
    }
    if let Some(question) = line.strip_prefix('@') {
        let mut words = question.split_whitespace();
        return match words.next() {
            None => Ok(Wish::List),
            Some(name) => {
                let question = crate::question(name)?;
                let values = values(&question, words)?;
                Ok(Wish::Ready(question, values))
            }
        };
    }
    let Some(command) = line.strip_prefix('\\') else {
        return Ok(Wish::Query(line.to_owned()));
    };
    let mut words = command.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("q"), None, _) => Ok(Wish::End),
        (Some("?"), None, _) => Ok(Wish::Help),
        (Some("d"), None, _) => Ok(Wish::Query(TABLES.to_owned())),
        (Some("d"), Some(table), None) => Ok(Wish::Query(format!("describe {table}"))),
        _ => Err(Error::Query(format!(
            "there is no \\{command}; \\? shows what there is"
        ))),
    }
}

/// The values of a question's parameters: those that are given, as `name=value`, and else the
/// defaults.
fn values<'w>(
    question: &Question,
    words: impl Iterator<Item = &'w str>,
) -> Result<Vec<(String, String)>, Error> {
    let defaults = question.parameters.iter();
    let mut values: Vec<(String, String)> = defaults
        .map(|of| (of.name.to_owned(), of.default.to_owned()))
        .collect();
    for word in words {
        let given = word.split_once('=').and_then(|(name, value)| {
            let of = values.iter_mut().find(|(known, _)| known == name)?;
            of.1 = value.to_owned();
            Some(())
        });
        if given.is_none() {
            let known: Vec<&str> = question.parameters.iter().map(|of| of.name).collect();
            let sentence = match known.as_slice() {
                [] => format!("{word}: @{} has no parameters", question.name),
                known => format!(
                    "{word}: give a parameter as name=value; there is {}",
                    known.join(", ")
                ),
            };
            return Err(Error::Query(sentence));
        }
    }
    Ok(values)
}

/// What names can be completed.
struct Names {
    /// Tables, columns, functions and words of SQL, in order.
    words: Vec<String>,
    /// Ready questions, in order, with the `@`.
    questions: Vec<String>,
}

const WORDS: [&str; 24] = [
    "and",
    "as",
    "between",
    "by",
    "count",
    "desc",
    "describe",
    "distinct",
    "explain",
    "from",
    "glob",
    "group",
    "having",
    "join",
    "limit",
    "max",
    "min",
    "order",
    "overlap",
    "percentile",
    "select",
    "sum",
    "tables",
    "where",
];

impl Names {
    fn of(session: &Session) -> Result<Names, Error> {
        let mut words = session.names()?;
        words.extend(WORDS.map(str::to_owned));
        words.sort_unstable();
        words.dedup();
        Ok(Names {
            words,
            questions: questions()
                .iter()
                .map(|of| format!("@{}", of.name))
                .collect(),
        })
    }

    /// Where the word at `end` begins, and what may stand there.
    fn fitting(&self, line: &str, end: usize) -> (usize, Vec<String>) {
        let before = line.get(..end).unwrap_or(line);
        let is_part = |letter: char| letter.is_alphanumeric() || "_@-".contains(letter);
        let question = before.trim_start().starts_with('@');
        let is_of_word = |letter: char| is_part(letter) && (question || letter != '-');
        let begin = before.len()
            - before
                .chars()
                .rev()
                .take_while(|of| is_of_word(*of))
                .map(char::len_utf8)
                .sum::<usize>();
        let word = before.get(begin..).unwrap_or_default();
        let from = match word.starts_with('@') {
            true => &self.questions,
            false => &self.words,
        };
        let lower = word.to_lowercase();
        let found = from
            .iter()
            .filter(|name| !word.is_empty() && name.to_lowercase().starts_with(&lower));
        (begin, found.cloned().collect())
    }
}

impl Completer for Names {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        end: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.fitting(line, end))
    }
}

impl Validator for Names {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_whole(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

/// Whether a line is all that was to be said, or another follows.
fn is_whole(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || text.starts_with(['\\', '@']) || text.ends_with(';')
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}

impl Helper for Names {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn lines_say_what_they_wish() {
        let query = |sql: &str| Wish::Query(sql.to_owned());
        assert_eq!(wish("  ").unwrap(), Wish::Nothing);
        assert_eq!(
            wish("select 1\n from events ;").unwrap(),
            query("select 1\n from events")
        );
        assert_eq!(wish("\\d").unwrap(), query(TABLES));
        assert_eq!(wish("\\d syscalls").unwrap(), query("describe syscalls"));
        assert_eq!(wish("\\q").unwrap(), Wish::End);
        assert_eq!(wish("\\?").unwrap(), Wish::Help);
        assert_eq!(wish("@").unwrap(), Wish::List);
        for wrong in [
            "\\x",
            "\\d a b",
            "@nothing",
            "@losses thread=a",
            "@off-cpu ui*",
        ] {
            assert!(matches!(wish(wrong), Err(Error::Query(_))), "{wrong}");
        }
        let Wish::Ready(question, values) = wish("@off-cpu thread=ui*").unwrap() else {
            panic!("a question is a query");
        };
        assert!(question.sql.contains("from off_cpu"), "{question:?}");
        assert_eq!(values, [("thread".to_owned(), "ui*".to_owned())]);
    }

    #[test]
    fn a_query_ends_with_a_semicolon() {
        for (text, whole) in [
            ("select 1", false),
            ("select 1\nfrom events;", true),
            ("\\d", true),
            ("@losses", true),
            ("", true),
        ] {
            assert_eq!(is_whole(text), whole, "{text}");
        }
    }

    #[test]
    fn names_are_completed() {
        let names = Names {
            words: ["lock_holds", "lock_waits", "select"]
                .map(str::to_owned)
                .to_vec(),
            questions: ["@losses", "@lock-waits"].map(str::to_owned).to_vec(),
        };
        let fitting = |line: &str| names.fitting(line, line.len());
        let both = ["lock_holds", "lock_waits"].map(str::to_owned).to_vec();
        assert_eq!(fitting("select * from LOCK"), (14, both));
        assert_eq!(fitting("sel"), (0, vec!["select".to_owned()]));
        assert_eq!(fitting("@lock-w"), (0, vec!["@lock-waits".to_owned()]));
        assert_eq!(fitting("select "), (7, Vec::new()));
        assert_eq!(fitting("é-sel"), (3, vec!["select".to_owned()]));
    }
}
