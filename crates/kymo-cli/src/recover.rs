//! `kymo recover`.

use std::path::PathBuf;

use kymo_capture::recover;

use crate::exit::{Code, Usage};
use crate::next::suggest_report;
use crate::output::create_directory;
use crate::record::OTHER_OUT;
use crate::summary;

/// Examples for `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo recover trace/.ram --out recovered        a RAM file from `kymo record --keep-ram`
  kymo recover guest.core --out recovered        from QEMU's `dump-guest-memory`
  kymo recover board.bin --base 0x80000000 --out recovered";

/// Command line of `kymo recover`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The memory image.
    image: PathBuf,
    /// The new trace directory.
    #[arg(long, short)]
    out: PathBuf,
    /// Physical address of the image's first byte; needed unless the image is an ELF core or begins
    /// at 0, 0x40000000 or 0x80000000.
    #[arg(long, value_parser = address)]
    base: Option<u64>,
}

/// Parses an address on the command line.
pub fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected an address, such as 0x80000000".to_owned())
}

/// Runs `kymo recover`.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    // A directory is probably a recorded trace, given by mistake.
    if arguments.image.is_dir() {
        let ram = arguments.image.join(".ram");
        let hint = match ram.exists() {
            true => format!("give its memory, {}", ram.display()),
            false => "give a RAM file, a raw dump or an ELF core".to_owned(),
        };
        return Err(Usage(format!(
            "{} is a directory, not a memory image: {hint}",
            arguments.image.display()
        ))
        .into());
    }
    let made = create_directory(&arguments.out, OTHER_OUT)?;
    let recovered = recover::recover(&arguments.image, arguments.base, &arguments.out)
        .inspect_err(|_| made.undo())?;
    message!(
        "kymo: {} has {}",
        arguments.out.display(),
        summary::sentences(&recovered.summary)
    );
    if recovered.was_running() {
        message!(
            "kymo: the session was still running when the memory was taken. If the machine was \
             running while its memory was copied, the newest records may be missing."
        );
    }
    suggest_report(&arguments.out);
    Ok(Code::Ok)
}
