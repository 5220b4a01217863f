//! Checks that without the feature `trace`, a tracepoint leaves nothing in a kernel.
//!
//! The kernel is copied and built twice in the same folder, with tracing compiled out: unchanged,
//! and with every tracepoint blanked in its source, which keeps all lines and columns. Both images
//! must have the same symbols at the same addresses with the same bytes, and the same data, and
//! nothing of what records, starts, stops and reads sessions. Then
//! the comparison itself is tested on images that differ: one instruction in place of a tracepoint,
//! and tracing compiled in.

mod image;
mod source;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;

use image::Image;
use source::{Own, replace, tracepoints};

/// The replacement of a tracepoint.
const NOTHING: &str = "()";
const ONE_INSTRUCTION: &str = "unsafe { core::arch::asm!(\"nop\") }";

/// Checks that compiled-out tracepoints leave nothing in a kernel.
#[derive(Parser)]
struct Arguments {
    /// The kernel's folder
    kernel: PathBuf,
    /// A folder for the copy and the builds
    #[arg(long)]
    scratch: PathBuf,
    /// The kernel's target
    #[arg(long)]
    target: String,
    /// The command that builds a kernel in the current folder, such as `cargo build --release`
    #[arg(last = true, required = true)]
    build: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let name = arguments
        .kernel
        .file_name()
        .context("the kernel has no name")?;
    let name = name.to_str().context("the kernel's name is not UTF-8")?;
    let copy = Copy::of(name, arguments)?;
    let count = copy.tracepoints()?;
    if count == 0 {
        bail!("kernels/{name} has no tracepoint: nothing can be shown with it");
    }

    let as_it_is = copy.build("as-it-is", &[], |_| None)?;
    let blanked = copy
        .build("blanked", &[], |_| Some(NOTHING))
        .context("without its tracepoints: perhaps a type is known from a tracepoint's field alone; write it down")?;
    let same = as_it_is.compare(&blanked).map_err(|difference| {
        let (left, right) = (as_it_is.disassembly(&difference), blanked.disassembly(&difference));
        anyhow!("tracepoints that are compiled out leave something: {difference}\n\nas it is:\n{left}\nblanked:\n{right}")
    })?;

    let instruction = copy.build("one-instruction", &[], |index| {
        Some(if index == 0 { ONE_INSTRUCTION } else { NOTHING })
    })?;
    let Err(noticed) = blanked.compare(&instruction) else {
        bail!("the comparison is blind: one instruction in place of a tracepoint was not noticed");
    };
    println!("One instruction in place of a tracepoint is noticed: {noticed}");
    let compiled_in = copy.build("compiled-in", &["--features", "trace"], |_| None)?;
    if compiled_in.machinery().is_none() {
        bail!("the search for the library's code is blind: tracing that is compiled in has none");
    }
    if let Some(symbol) = as_it_is.machinery() {
        bail!("without the feature `trace`, {symbol} is left of the library");
    }
    let Err(noticed) = blanked.compare(&compiled_in) else {
        bail!("the comparison is blind: tracing that is compiled in was not noticed");
    };
    println!("Tracing that is compiled in is noticed: {noticed}");

    println!(
        "kernels/{name}: {count} tracepoints blanked, {} symbols, {} bytes of .text identical; {} \
         bytes of other sections too.",
        same.symbols, same.text, same.other
    );
    Ok(())
}

/// A copy of a kernel's source.
struct Copy<'a> {
    name: &'a str,
    arguments: &'a Arguments,
    folder: PathBuf,
    /// Its Rust files, with their contents.
    sources: Vec<(PathBuf, String)>,
    own: Own,
}

impl<'a> Copy<'a> {
    fn of(name: &'a str, arguments: &'a Arguments) -> Result<Copy<'a>> {
        let from = &arguments.kernel;
        let folder = arguments.scratch.join("source").join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).context("the old copy of the kernel cannot be removed")?;
        }
        let own = Own::read(&fs::read_to_string(from.join("Cargo.toml"))?)?;
        let mut copy = Copy {
            name,
            arguments,
            folder: folder.clone(),
            sources: Vec::new(),
            own,
        };
        copy.take(from, &folder)?;
        Ok(copy)
    }

    fn take(&mut self, from: &Path, to: &Path) -> Result<()> {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let (from, to) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type()?.is_dir() {
                if entry.file_name() != "target" {
                    self.take(&from, &to)?;
                }
                continue;
            }
            if entry.file_name() == "Cargo.toml" {
                // Adjust relative paths that lead out of the kernel's folder.
                let folder = from.parent().context("a file lies in a folder")?;
                fs::write(
                    &to,
                    fs::read_to_string(&from)?
                        .replace("\"../", &format!("\"{}/../", folder.display())),
                )?;
                continue;
            }
            fs::copy(&from, &to)?;
            if to.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&from)?;
                self.sources.push((to, text));
            }
        }
        self.sources.sort();
        Ok(())
    }

    fn tracepoints(&self) -> Result<usize> {
        self.sources
            .iter()
            .map(|(file, text)| {
                tracepoints(text, &self.own.macros)
                    .map(|all| all.len())
                    .with_context(|| file.display().to_string())
            })
            .sum()
    }

    /// Builds the copy with tracepoint `index` replaced by `with(index)`. Always uses the same
    /// folder, so that paths and hashes in symbols do not change.
    fn build(
        &self,
        label: &str,
        features: &[&str],
        with: impl Fn(usize) -> Option<&'static str>,
    ) -> Result<Image> {
        let mut index = 0;
        for (file, text) in &self.sources {
            let replaced = replace(text, &self.own.macros, &mut index, &with)
                .with_context(|| file.display().to_string())?;
            // Unchanged files are not rebuilt.
            if fs::read_to_string(file)? != replaced {
                fs::write(file, replaced)?;
            }
        }
        let Arguments {
            scratch,
            target,
            build,
            ..
        } = self.arguments;
        let (program, words) = build.split_first().context("there is no command")?;
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(&self.folder)
            .args(["--quiet", "--no-default-features", "--target", target])
            .args(features);
        if self.own.late_inlining {
            // rustc itself does not inline in incremental builds. A single unit, because the
            // distribution of functions over several also depends on their length.
            command
                .env("CARGO_INCREMENTAL", "1")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
        }
        // Without warnings, because a blanked tracepoint leaves unused variables.
        let output = command
            .arg("--target-dir")
            .arg(scratch)
            .output()
            .context("cargo cannot be started")?;
        if !output.status.success() {
            bail!(
                "kernels/{}, {label}, does not build:\n{}",
                self.name,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let file = scratch.join(label);
        let image = scratch.join(target).join("release").join(self.name);
        fs::copy(image, &file)?;
        Image::open(file)
    }
}
