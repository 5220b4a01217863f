//! `kymo size`: a program's code by crate, module and function.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use kymo_export::FlameGraph;
use kymo_symbols::CodeSizes;

use crate::exit::{BadInput, Code};
use crate::output;
use crate::summary::{count, thousands};

/// For `--help`.
pub const EXAMPLES: &str = "Examples:
  kymo size kernel.elf -o size.svg        open it in a browser; a click zooms, Ctrl-F searches
  kymo size kernel.elf --format folded | grep '^core;fmt'

A frame is a crate, a module, a type or a function, and as wide as its number of bytes; `impl TRAIT`
holds a type's methods of a trait. Together the frames are as large as the executable sections.
`[not in a symbol]` is padding, tables, and assembly without a `.size`.";

/// Name of what no symbol covers.
const UNNAMED: &str = "[not in a symbol]";

/// Command line of `kymo size`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The program: an ELF file with its symbols.
    program: PathBuf,
    /// The file to write, or - for the standard output; default: the standard output, but size.svg
    /// for a picture at a terminal, which cannot show it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Format::Svg)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A flame graph for a browser.
    Svg,
    /// Lines of `crate;module;function bytes`.
    Folded,
}

/// Runs `kymo size`.
///
/// # Errors
/// If the program cannot be read or has no functions, or the output cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<Code> {
    let path = &arguments.program;
    let elf = std::fs::read(path).map_err(|error| {
        let path = path.display();
        BadInput(format!("cannot read {path}: {error}; give an ELF file"))
    })?;
    let sizes = CodeSizes::parse(&elf).with_context(|| path.display().to_string())?;
    if sizes.functions.is_empty() {
        let sentence = format!(
            "{} has no symbols of functions; give the program as the linker made it, not stripped",
            path.display()
        );
        return Err(BadInput(sentence).into());
    }
    let folded = folded(&sizes);
    let given = arguments.output.as_deref();
    let name = (arguments.format == Format::Svg).then_some("size.svg");
    let file = output::file_at_terminal(given, name);
    output::write(file.as_deref(), |out| match arguments.format {
        Format::Folded => out.write_all(folded.as_bytes()),
        Format::Svg => graph(path).draw(&folded, out),
    })?;
    if let (None, Some(file)) = (given, &file) {
        message!("kymo: wrote {}; open it in a browser.", file.display());
    }
    message!(
        "kymo: {} of code in {}; {} not in a symbol.",
        count(sizes.total(), "byte", "bytes"),
        count(sizes.functions.len() as u64, "function", "functions"),
        thousands(sizes.unnamed)
    );
    Ok(Code::Ok)
}

fn graph(path: &Path) -> FlameGraph {
    FlameGraph {
        title: "Code size".to_owned(),
        subtitle: path.display().to_string(),
        unit: "bytes".to_owned(),
        frame: "Function:".to_owned(),
        widest_first: false,
    }
}

/// The sizes as folded stacks, sorted.
fn folded(sizes: &CodeSizes) -> String {
    // Different names may have the same path.
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for (name, bytes) in &sizes.functions {
        let mut path = kymo_symbols::path(name);
        for segment in &mut path {
            *segment = segment.replace([';', '\n', '\r'], ":");
        }
        *stacks.entry(path.join(";")).or_default() += bytes;
    }
    if sizes.unnamed > 0 {
        *stacks.entry(UNNAMED.to_owned()).or_default() += sizes.unnamed;
    }
    let mut text = String::new();
    for (stack, bytes) in stacks {
        let _ = writeln!(text, "{stack} {bytes}");
    }
    text
}
