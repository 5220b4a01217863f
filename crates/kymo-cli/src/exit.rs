//! Exit codes, the same for every verb.

use std::io;
use std::process::ExitCode;

use kymo_capture::{image, qemu, record, recover};

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
                    record::Error::NotStarted { .. } => Code::BadInput,
                    record::Error::Write { source, .. } if source.kind() == io::ErrorKind::InvalidData => Code::BadInput,
                    _ => Code::Environment,
                };
            }
            if let Some(error) = cause.downcast_ref::<recover::Error>() {
                return match error {
                    recover::Error::Image(error) => of_image(error),
                    recover::Error::Damaged { .. } => Code::BadInput,
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

fn of_image(_: &image::Error) -> Code {
    Code::BadInput
}

fn of_qemu(error: &qemu::Error) -> Code {
    match error {
        qemu::Error::RamFile { .. } | qemu::Error::Missing { .. } | qemu::Error::Process { .. } => Code::Environment,
        qemu::Error::Kernel { .. }
        | qemu::Error::NotElf { .. }
        | qemu::Error::Architecture { .. }
        | qemu::Error::NoEntry { .. } => Code::BadInput,
        _ => Code::Usage,
    }
}

/// The error as one sentence on one line.
pub fn sentence(error: &anyhow::Error) -> String {
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
