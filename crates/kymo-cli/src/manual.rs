//! `kymo completions` and `kymo man`, generated from the definition of the command line.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::dump::{deliver, flush};
use crate::exit::Code;

/// Examples for `--help`.
pub const COMPLETIONS: &str = "Examples:
  kymo completions bash > ~/.local/share/bash-completion/completions/kymo
  kymo completions zsh > \"${fpath[1]}/_kymo\"
  kymo completions fish > ~/.config/fish/completions/kymo.fish";

/// Examples for `--help`.
pub const PAGES: &str = "Example:
  kymo man ~/.local/share/man/man1 && man kymo-record";

/// Command line of `kymo completions`.
#[derive(clap::Args)]
pub struct Shell {
    /// The shell to complete in.
    shell: clap_complete::Shell,
}

/// Command line of `kymo man`.
#[derive(clap::Args)]
pub struct Directory {
    /// The output directory; it is created if missing, and existing pages are replaced.
    directory: PathBuf,
}

/// Prints the completion script.
pub fn completions(arguments: &Shell) -> anyhow::Result<Code> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut crate::Arguments::command(),
        "kymo",
        &mut script,
    );
    let mut out = std::io::stdout().lock();
    if deliver(&mut out, &script)? {
        flush(&mut out)?;
    }
    Ok(Code::Ok)
}

/// Writes the manual pages.
pub fn pages(arguments: &Directory) -> anyhow::Result<Code> {
    let directory = &arguments.directory;
    let written = fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(crate::Arguments::command(), directory));
    written.with_context(|| {
        format!(
            "cannot write the manual pages to {}; give a writable directory",
            directory.display()
        )
    })?;
    Ok(Code::Ok)
}
