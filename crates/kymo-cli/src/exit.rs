//! Exit codes, the same for every verb.

use std::io;
use std::process::ExitCode;

use kymo::ring::layout::Refusal;
#[cfg(unix)]
use kymo_capture::qmp;
use kymo_capture::{attach, follow, image, qemu, record, recover};
use kymo_ctf::DecodeError;

/// What a verb ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// It worked.
    Ok = 0,
    /// It worked, and found something that the user will want to know in a script.
    Findings = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The input cannot be used.
    BadInput = 3,
    /// Something is missing on this machine, or the system refuses something.
    Environment = 4,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code as u8)
    }
}

/// A command line that makes no sense, found after clap has had its say.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// An input that cannot be used, found by the command itself.
#[derive(Debug)]
pub struct BadInput(pub String);

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

impl Code {
    /// The code for an error: by what it is, wherever in the chain.
    pub fn of(error: &anyhow::Error) -> Code {
        for cause in error.chain() {
            if cause.is::<Usage>() {
                return Code::Usage;
            }
            if cause.is::<BadInput>() {
                return Code::BadInput;
            }
            if let Some(error) = cause.downcast_ref::<qemu::Error>() {
                return of_qemu(error);
            }
            if let Some(error) = cause.downcast_ref::<record::Error>() {
                return match error {
                    record::Error::Qemu(error) => of_qemu(error),
                    record::Error::Image(error) => of_image(error),
                    record::Error::Follow(error) => of_follow(error),
                    record::Error::NotStarted { .. } => Code::BadInput,
                    _ => Code::Environment,
                };
            }
            if let Some(error) = cause.downcast_ref::<attach::Error>() {
                return match error {
                    attach::Error::Image(error) => of_image(error),
                    attach::Error::Follow(error) => of_follow(error),
                    attach::Error::Recover(error) => of_recover(error),
                    attach::Error::NotStarted { .. } | attach::Error::NotRunning { .. } => {
                        Code::BadInput
                    }
                    #[cfg(unix)]
                    attach::Error::Qmp(
                        qmp::Error::NotShared { .. } | qmp::Error::Silent { .. },
                    ) => Code::BadInput,
                    _ => Code::Environment,
                };
            }
            if let Some(error) = cause.downcast_ref::<recover::Error>() {
                return of_recover(error);
            }
            if let Some(error) = cause.downcast_ref::<kymo_export::Error>() {
                return match error {
                    kymo_export::Error::Occupied(_) => Code::Usage,
                    _ => Code::Environment,
                };
            }
            if let Some(error) = cause.downcast_ref::<kymo_ctf::WriteError>() {
                return match error {
                    kymo_ctf::WriteError::Metadata(_) | kymo_ctf::WriteError::Wide { .. } => {
                        Code::BadInput
                    }
                    _ => Code::Environment,
                };
            }
            if cause.is::<kymo_ctf::Error>() {
                return Code::BadInput;
            }
        }
        Code::Environment
    }
}

fn of_follow(error: &follow::Error) -> Code {
    match error {
        follow::Error::Write { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
            Code::BadInput
        }
        _ => Code::Environment,
    }
}

fn of_recover(error: &recover::Error) -> Code {
    match error {
        recover::Error::Image(error) => of_image(error),
        recover::Error::Damaged { .. } => Code::BadInput,
        _ => Code::Environment,
    }
}

fn of_image(_: &image::Error) -> Code {
    Code::BadInput
}

fn of_qemu(error: &qemu::Error) -> Code {
    match error {
        qemu::Error::RamFile { .. } | qemu::Error::Missing { .. } | qemu::Error::Process { .. } => {
            Code::Environment
        }
        qemu::Error::Kernel { .. }
        | qemu::Error::NotElf { .. }
        | qemu::Error::Architecture { .. }
        | qemu::Error::NoEntry { .. } => Code::BadInput,
        _ => Code::Usage,
    }
}

/// The error on one line: what is wrong, and what can be done, where the sentence does not say that
/// already.
pub fn told(error: &anyhow::Error) -> String {
    let sentence = sentence(error);
    let Some(advice) = error.chain().find_map(advice) else {
        return sentence;
    };
    // Sentences of the one kind end with a full stop, of the other kind with nothing.
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

/// What the user can do about it, as the rest of a sentence that begins with a verb; `None` where
/// the error's own sentence says it.
fn advice(cause: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<kymo_ctf::Error>() {
        return of_trace(error);
    }
    if let Some(error) = cause.downcast_ref::<kymo_ctf::WriteError>() {
        return Some(match error {
            kymo_ctf::WriteError::Metadata(_) => {
                "read it with kymo dump, or write CTF 2 with --ctf2"
            }
            kymo_ctf::WriteError::Wide { .. } => {
                "write CTF 2 with --ctf2, or leave these events out with --event"
            }
            _ => "make room there, or give another place to which you may write",
        });
    }
    if let Some(error) = cause.downcast_ref::<kymo_export::Error>() {
        return Some(match error {
            kymo_export::Error::Occupied(_) => "give a directory that is new or empty",
            kymo_export::Error::NotBuilt => {
                "install it with: cargo install --path crates/kymo-cli --features parquet"
            }
            kymo_export::Error::Write { .. } => {
                "make room there, or give another place to which you may write"
            }
            _ => return None,
        });
    }
    let image = |error: &image::Error| match error {
        image::Error::Read { source, .. } => Some(to_read(
            source,
            "give a memory image: a RAM file, a raw dump or an ELF core",
        )),
        image::Error::Refused { refusal, .. } => match refusal {
            // They say it themselves.
            Refusal::Version(_) | Refusal::Incompatible(_) => None,
            Refusal::Forming => Some("take the memory later, when the kernel runs"),
            _ => Some("take the memory again, all of it, while the machine is stopped"),
        },
        _ => None,
    };
    let qemu = |error: &qemu::Error| match error {
        qemu::Error::RamFile { source, .. } => Some(to_write(source)),
        qemu::Error::Process { .. } => {
            Some("see that you may run it, and that there is memory for it")
        }
        qemu::Error::Missing { .. } => Some("install it, or put it on the PATH"),
        _ => None,
    };
    let follow = |error: &follow::Error, damaged| match error {
        follow::Error::Write { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
            damaged
        }
        follow::Error::Write { source, .. } => to_write(source),
        _ => "free some memory, or give --out on a file system that files can be mapped from",
    };
    if let Some(error) = cause.downcast_ref::<record::Error>() {
        return match error {
            record::Error::Qemu(error) => qemu(error),
            record::Error::Image(error) => image(error),
            record::Error::Follow(error) => Some(follow(
                error,
                "keep the memory with --keep-ram, and try kymo recover on it",
            )),
            _ => None,
        };
    }
    if let Some(error) = cause.downcast_ref::<attach::Error>() {
        return match error {
            attach::Error::Image(image::Error::Read { source, .. }) => Some(to_read(
                source,
                "give the file that holds the machine's memory",
            )),
            attach::Error::Image(error) => image(error),
            attach::Error::Follow(error) => {
                Some(follow(error, "try kymo recover on the machine's memory"))
            }
            #[cfg(unix)]
            attach::Error::Qmp(qmp::Error::Silent { .. }) => {
                Some("see that nobody else is connected to it, and that it is QEMU's")
            }
            #[cfg(unix)]
            attach::Error::Qmp(qmp::Error::Refused { .. }) => {
                Some("see that QEMU may write to the trace directory, and is no older than 5.0")
            }
            _ => None,
        };
    }
    if let Some(error) = cause.downcast_ref::<recover::Error>() {
        return match error {
            recover::Error::Image(error) => image(error),
            recover::Error::Write { source, .. } => Some(to_write(source)),
            recover::Error::Damaged { .. } => {
                Some("take the memory again, all of it, while the machine is stopped")
            }
            _ => None,
        };
    }
    cause.downcast_ref::<qemu::Error>().and_then(qemu)
}

fn of_trace(error: &kymo_ctf::Error) -> Option<&'static str> {
    Some(match error {
        kymo_ctf::Error::Io { source, .. } => to_read(
            source,
            "give the directory of a CTF trace, with its metadata",
        ),
        kymo_ctf::Error::Metadata(_) => {
            "give a trace in CTF 1.8 or CTF 2, or mend the metadata there"
        }
        kymo_ctf::Error::Stream { reason, .. } => match reason {
            DecodeError::Io(_) => "see that the file can be read to its end",
            DecodeError::Truncated { .. } => {
                "take what stands before it, or copy the trace again when its tracer has ended"
            }
            DecodeError::UuidMismatch | DecodeError::StreamChanged => {
                "move the file out of the trace's directory if it is of another trace"
            }
            DecodeError::UnknownEvent { .. }
            | DecodeError::UnknownStream(_)
            | DecodeError::NoSuchOption(_)
            | DecodeError::WideLength(_)
            | DecodeError::TooLarge { .. }
            | DecodeError::AbsentField => {
                "give the metadata that the tracer wrote with this very trace"
            }
            _ => "take what stands before it, or copy the trace again: it is damaged there",
        },
        _ => return None,
    })
}

fn to_read(source: &io::Error, otherwise: &'static str) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "get the right to read it, or take a copy that you may read"
        }
        _ => otherwise,
    }
}

/// For what goes to `--out`.
fn to_write(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            "make room there, or give another directory with --out"
        }
        _ => "give another directory with --out, to which you may write",
    }
}

/// The error as one sentence on one line.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        // Errors that name their cause in their own sentence are not told twice.
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text.replace('\n', " ")
}
