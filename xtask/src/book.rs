//! The step `book` and `cargo xtask book`: see tests/book.

use std::process::Command;

use anyhow::Result;

use crate::process::{cargo, program, root, run as run_command, run_program, target};
use crate::test::Form;

/// Checks the links of all pages; in the long form the book is built, too.
pub(crate) fn run(form: Form) -> Result<()> {
    run_program(&mut program("kymo-book")?)?;
    if form == Form::All {
        build()?;
    }
    Ok(())
}

/// Builds the book, by mdBook, which is installed below the target folder.
pub(crate) fn build() -> Result<()> {
    let tools = target().join("mdbook");
    let mut install = cargo(&["install", "--quiet", "--locked", "mdbook", "--root"]);
    run_command(install.arg(&tools))?;
    let mdbook = tools.join("bin/mdbook");
    run_command(Command::new(mdbook).arg("build").arg(root().join("docs")))
}
