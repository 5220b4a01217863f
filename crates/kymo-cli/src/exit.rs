//! Exit codes, the same for every verb.

use std::error::Error;
use std::io::ErrorKind;
use std::process::ExitCode;

/// Exit code of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Success.
    Ok,
    /// Success, with findings that a script may want to act on.
    Findings,
    /// The command line is invalid.
    Usage,
    /// The input cannot be used.
    BadInput,
    /// Something is missing on this machine, or a system call failed.
    Environment,
    /// The exit status of a command that was run for the user.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    Command(u8),
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(match code {
            Code::Ok => 0,
            Code::Findings => 1,
            Code::Usage => 2,
            Code::BadInput => 3,
            Code::Environment => 4,
            Code::Command(status) => status,
        })
    }
}

/// An invalid command line that clap accepted.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

impl Usage {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }

    /// Always `None`: the sentence includes the advice.
    fn advice(&self) -> Option<&'static str> {
        None
    }
}

/// Unusable input, detected by the command itself.
#[derive(Debug)]
pub struct BadInput(pub String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadInput {}

impl BadInput {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidData
    }

    /// Always `None`: the sentence includes the advice.
    fn advice(&self) -> Option<&'static str> {
        None
    }
}

/// An error that names its cause and gives advice.
///
/// The cause is an [`ErrorKind`]: `InvalidInput` for the command line, `InvalidData` for the input,
/// anything else for this machine.
trait Explained {
    fn kind(&self) -> ErrorKind;
    fn advice(&self) -> Option<&'static str>;
}

/// Implements [`Explained`] for each error type by calling its inherent methods of these names.
macro_rules! explained {
    ($($error:ty),* $(,)?) => {
        $(impl Explained for $error {
            fn kind(&self) -> ErrorKind {
                <$error>::kind(self)
            }
            fn advice(&self) -> Option<&'static str> {
                <$error>::advice(self)
            }
        })*

        fn explained<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a dyn Explained> {
            None$(.or_else(|| cause.downcast_ref::<$error>().map(|error| error as &dyn Explained)))*
        }
    };
}

explained!(
    Usage,
    BadInput,
    kymo_capture::attach::Error,
    kymo_capture::qemu::Error,
    kymo_capture::receive::Error,
    kymo_capture::record::Error,
    kymo_capture::source::Error,
    kymo_ctf::Error,
    kymo_ctf::WriteError,
    kymo_export::Error,
    kymo_images::Error,
    kymo_symbols::Error,
);

impl Code {
    /// The exit code for an error, by the first [`Explained`] error in its chain.
    pub fn of(error: &anyhow::Error) -> Code {
        match error.chain().find_map(explained).map(Explained::kind) {
            Some(ErrorKind::InvalidInput) => Code::Usage,
            Some(ErrorKind::InvalidData) => Code::BadInput,
            _ => Code::Environment,
        }
    }
}

/// An error on one line: the sentence, and the advice if the sentence does not include it.
pub fn message(error: &anyhow::Error) -> String {
    let sentence = sentence(error);
    let advice = error
        .chain()
        .filter_map(explained)
        .find_map(Explained::advice);
    let Some(advice) = advice else {
        return sentence;
    };
    // Some sentences end with a full stop, some do not.
    match sentence.strip_suffix('.') {
        Some(_) => {
            let mut letters = advice.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            format!(
                "{sentence} {}{}.",
                first.into_iter().collect::<String>(),
                letters.as_str()
            )
        }
        None => format!("{sentence}; {advice}"),
    }
}

/// The error as one sentence on one line.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // An error's own sentence may already include its cause.
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text.replace('\n', " ")
}
