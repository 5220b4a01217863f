//! `kymo completions` and `kymo man`: made from the command line's own description.

use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::dump::{deliver, flush};
use crate::exit::Code;

/// For `--help`.
pub const COMPLETIONS: &str = "Examples:
  kymo completions bash > ~/.local/share/bash-completion/completions/kymo
  kymo completions zsh > \"${fpath[1]}/_kymo\"
  kymo completions fish > ~/.config/fish/completions/kymo.fish";

/// For `--help`.
pub const PAGES: &str = "Example:
  kymo man ~/.local/share/man/man1 && man kymo-record";

/// For which shell.
#[derive(clap::Args)]
pub struct Shell {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Where to.
#[derive(clap::Args)]
pub struct Directory {
    /// The directory; it is made if it is not there, and pages in it are replaced.
    directory: PathBuf,
}

/// `kymo completions`.
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

/// `kymo man`.
pub fn pages(arguments: &Directory) -> anyhow::Result<Code> {
    let directory = &arguments.directory;
    let written = fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(crate::Arguments::command(), directory));
    written.with_context(|| {
        format!(
            "cannot write the manual's pages to {}: give a directory that you may write to",
            directory.display()
        )
    })?;
    Ok(Code::Ok)
}
