//! `cargo xtask compiled-out`: without the feature `trace`, a tracepoint leaves nothing in a
//! kernel.
//!
//! The kernel is copied and built twice in the same place, with tracing compiled out: as it is, and
//! with every tracepoint blanked in its source, so that lines and columns stay where they were.
//! Both images must have the same symbols at the same addresses with the same bytes, and the same
//! data. Then the comparison itself is tried on images that do differ: one instruction where a
//! tracepoint was, and tracing compiled in.

use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SectionKind};
use proc_macro2::{TokenStream, TokenTree};

use crate::failure::Usage;
use crate::kernel;
use crate::process::{quiet, target};
use crate::setup::{self, RISCV64};

/// The tracepoints of every kernel.
const MACROS: [&str; 2] = ["trace", "trace_masked"];
/// What stands in place of one.
const NOTHING: &str = "()";
const ONE_INSTRUCTION: &str = "unsafe { core::arch::asm!(\"nop\") }";

pub(crate) fn run(name: &str) -> Result<()> {
    if !kernel::folder(name).join("Cargo.toml").is_file() {
        bail!(Usage(format!(
            "There is no kernel \"{name}\" under kernels/."
        )));
    }
    let copy = Copy::of(name)?;
    let count = copy.tracepoints()?;
    if count == 0 {
        bail!("kernels/{name} has no tracepoint: nothing can be shown with it");
    }

    let as_it_is = copy.build(name, "as-it-is", &[], |_| None)?;
    let blanked = copy
        .build(name, "blanked", &[], |_| Some(NOTHING))
        .context("without its tracepoints: perhaps a type is known from a tracepoint's field alone; write it down")?;
    let same = as_it_is.compare(&blanked).map_err(|difference| {
        let (left, right) = (as_it_is.disassembly(&difference), blanked.disassembly(&difference));
        anyhow!("tracepoints that are compiled out leave something: {difference}\n\nas it is:\n{left}\nblanked:\n{right}")
    })?;

    let instruction = copy.build(name, "one-instruction", &[], |index| {
        Some(if index == 0 { ONE_INSTRUCTION } else { NOTHING })
    })?;
    let Err(noticed) = blanked.compare(&instruction) else {
        bail!("the comparison is blind: one instruction in place of a tracepoint was not noticed");
    };
    println!("One instruction in place of a tracepoint is noticed: {noticed}");
    let compiled_in = copy.build(name, "compiled-in", &["--features", "trace"], |_| None)?;
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

/// A kernel's source in a place of its own.
struct Copy {
    folder: PathBuf,
    /// Its Rust files, and what they say.
    sources: Vec<(PathBuf, String)>,
    own: Own,
}

/// What a kernel's manifest says of its tracepoints, under `[package.metadata.kymo]`.
struct Own {
    /// What they are called: [`MACROS`], and those of `tracepoints`.
    macros: Vec<String>,
    /// `late-inlining`: rustc itself inlines nothing, and LLVM all of it. rustc goes by a
    /// function's length before what cannot be reached is taken out, so that in a large kernel a
    /// tracepoint may tip a function over the edge, though it leaves nothing.
    late_inlining: bool,
}

impl Copy {
    fn of(name: &str) -> Result<Copy> {
        let (from, folder) = (
            kernel::folder(name),
            target().join("compiled-out/source").join(name),
        );
        if folder.exists() {
            fs::remove_dir_all(&folder).context("the old copy of the kernel cannot be removed")?;
        }
        let own = Own::read(&fs::read_to_string(from.join("Cargo.toml"))?)?;
        let mut copy = Copy {
            folder: folder.clone(),
            sources: Vec::new(),
            own,
        };
        copy.take(&from, &folder)?;
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
                // Paths that lead out of the kernel lead where they led before.
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

    /// Builds it with tracepoint `index` replaced by `with(index)`. The same place each time: paths
    /// and hashes in symbols stay what they were.
    fn build(
        &self,
        name: &str,
        label: &str,
        features: &[&str],
        with: impl Fn(usize) -> Option<&'static str>,
    ) -> Result<Image> {
        let mut index = 0;
        for (file, text) in &self.sources {
            let replaced = replace(text, &self.own.macros, &mut index, &with)
                .with_context(|| file.display().to_string())?;
            // What stays is not built again.
            if fs::read_to_string(file)? != replaced {
                fs::write(file, replaced)?;
            }
        }
        let built = target().join("compiled-out");
        let mut command = kernel::build_command(RISCV64, setup::toolchain()?);
        command
            .current_dir(&self.folder)
            .args(["--quiet", "--no-default-features", "--target", RISCV64])
            .args(features);
        if self.own.late_inlining {
            // That is how rustc builds piecemeal. One unit: how functions are spread over several
            // goes by their length, too.
            command
                .env("CARGO_INCREMENTAL", "1")
                .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
        }
        // Without its warnings: a blanked tracepoint leaves variables that nobody uses.
        let output = command
            .arg("--target-dir")
            .arg(&built)
            .output()
            .context("cargo cannot be started")?;
        if !output.status.success() {
            bail!(
                "kernels/{name}, {label}, does not build:\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let file = built.join(label);
        fs::copy(built.join(RISCV64).join("release").join(name), &file)?;
        Image::open(file)
    }
}

// --- Source.

impl Own {
    fn read(manifest: &str) -> Result<Own> {
        let manifest: toml::Table = manifest.parse().context("the kernel's Cargo.toml")?;
        let said = manifest
            .get("package")
            .and_then(|package| package.get("metadata")?.get("kymo"));
        let late_inlining = said
            .and_then(|said| said.get("late-inlining")?.as_bool())
            .unwrap_or(false);
        let mut macros: Vec<String> = MACROS.map(str::to_owned).to_vec();
        for name in said
            .and_then(|said| said.get("tracepoints")?.as_array())
            .into_iter()
            .flatten()
        {
            macros.push(
                name.as_str()
                    .context("Cargo.toml: the name of a tracepoint is a text")?
                    .to_owned(),
            );
        }
        Ok(Own {
            macros,
            late_inlining,
        })
    }
}

/// Where the tracepoints of a Rust file are, in bytes.
fn tracepoints(text: &str, macros: &[String]) -> Result<Vec<Range<usize>>> {
    let tokens: TokenStream = text
        .parse()
        .map_err(|error| anyhow!("this is no Rust: {error}"))?;
    let mut found = Vec::new();
    find(tokens, macros, &mut found);
    Ok(found)
}

fn find(tokens: TokenStream, macros: &[String], found: &mut Vec<Range<usize>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match (token, tokens.get(at + 1), tokens.get(at + 2)) {
            (
                TokenTree::Ident(name),
                Some(TokenTree::Punct(bang)),
                Some(TokenTree::Group(group)),
            ) if bang.as_char() == '!' && macros.iter().any(|tracepoint| name == tracepoint) => {
                // `kymo::trace!` and `::kymo::trace!` are one thing.
                let mut first = at;
                while first >= 2 && is_colon(first - 1) && is_colon(first - 2) {
                    let has_name =
                        first >= 3 && matches!(tokens.get(first - 3), Some(TokenTree::Ident(_)));
                    first -= if has_name { 3 } else { 2 };
                }
                // As in a macro's body: `$crate::trace!`.
                let dollar = first >= 1
                    && matches!(tokens.get(first - 1), Some(TokenTree::Punct(sign)) if sign.as_char() == '$');
                first -= usize::from(dollar);
                let begin = tokens
                    .get(first)
                    .map_or(0, |token| token.span().byte_range().start);
                found.push(begin..group.span().byte_range().end);
                at += 3;
            }
            (TokenTree::Group(group), ..) => {
                find(group.stream(), macros, found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Puts `with(index)` and blanks in place of the tracepoints: as many lines, and as many columns
/// where there is room. `index` counts on.
fn replace(
    text: &str,
    macros: &[String],
    index: &mut usize,
    with: impl Fn(usize) -> Option<&'static str>,
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for range in tracepoints(text, macros)? {
        let old = text
            .get(range.clone())
            .context("a token stands in the middle of a character")?;
        out.push_str(text.get(done..range.start).unwrap_or_default());
        match with(*index) {
            None => out.push_str(old),
            Some(new) => {
                out.push_str(new);
                let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
                let (first, rest) = old.split_at(old.find('\n').unwrap_or(old.len()));
                out.extend(first.chars().skip(new.chars().count()).map(blank));
                out.extend(rest.chars().map(blank));
            }
        }
        *index += 1;
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Ok(out)
}

// --- Images.

/// A linked kernel.
struct Image {
    file: PathBuf,
    architecture: Architecture,
    text: Vec<Symbol>,
    /// Sections that are loaded and hold no code, with their addresses.
    data: Vec<(String, u64, Vec<u8>)>,
}

/// A symbol and the code up to the next one.
#[derive(PartialEq, Eq)]
struct Symbol {
    name: String,
    address: u64,
    code: Vec<u8>,
}

/// How much is the same.
struct Same {
    symbols: usize,
    text: usize,
    other: usize,
}

/// The first thing in which two images differ, by the symbol at which it shows.
struct Difference {
    symbol: Option<String>,
    what: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl Image {
    fn open(file: PathBuf) -> Result<Image> {
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        let elf = object::File::parse(&*bytes).with_context(|| file.display().to_string())?;
        let (mut text, mut data) = (Vec::new(), Vec::new());
        for section in elf.sections() {
            let name = section.name()?.to_owned();
            let content = section.data()?;
            match section.kind() {
                SectionKind::Text => text.extend(symbols(&elf, &section, content)),
                SectionKind::Data | SectionKind::ReadOnlyData | SectionKind::ReadOnlyString => {
                    data.push((name, section.address(), content.to_vec()));
                }
                // Its size is what counts; the build id differs by design, for it also covers what
                // is not loaded.
                SectionKind::UninitializedData => data.push((
                    name,
                    section.address(),
                    section.size().to_le_bytes().to_vec(),
                )),
                _ => {}
            }
        }
        if text.is_empty() {
            bail!("{} has no symbols in its code", file.display());
        }
        Ok(Image {
            file,
            architecture: elf.architecture(),
            text,
            data,
        })
    }

    fn compare(&self, other: &Image) -> Result<Same, Difference> {
        let differ = |symbol: Option<&Symbol>, what: String| Difference {
            symbol: symbol.map(|symbol| symbol.name.clone()),
            what,
        };
        // Names and sizes first: one instruction more moves everything behind it, and changes every
        // reference to that.
        for (left, right) in self.text.iter().zip(&other.text) {
            if left.name != right.name {
                return Err(differ(
                    Some(left),
                    format!("{} in one is {} in the other", left.name, right.name),
                ));
            }
            if left.code.len() != right.code.len() {
                let what = format!(
                    "{} has {} bytes in one and {} in the other",
                    left.name,
                    left.code.len(),
                    right.code.len()
                );
                return Err(differ(Some(left), what));
            }
        }
        if let Some(more) = self
            .text
            .get(other.text.len())
            .or_else(|| other.text.get(self.text.len()))
        {
            return Err(differ(Some(more), format!("{} is only in one", more.name)));
        }
        if let Some((left, _)) = self
            .text
            .iter()
            .zip(&other.text)
            .find(|(left, right)| left != right)
        {
            return Err(differ(
                Some(left),
                format!("{} has other bytes, or another address", left.name),
            ));
        }
        for (left, right) in self.data.iter().zip(&other.data) {
            if left != right {
                return Err(differ(
                    None,
                    format!("{} is not the same as {}", left.0, right.0),
                ));
            }
        }
        if self.data.len() != other.data.len() {
            return Err(differ(None, "one has a section more".to_owned()));
        }
        Ok(Same {
            symbols: self.text.len(),
            text: self.text.iter().map(|symbol| symbol.code.len()).sum(),
            other: self.data.iter().map(|(_, _, content)| content.len()).sum(),
        })
    }

    /// The code at which a difference shows, if the tool for it is there.
    fn disassembly(&self, difference: &Difference) -> String {
        let symbol = self
            .text
            .iter()
            .find(|symbol| Some(&symbol.name) == difference.symbol.as_ref());
        let Some(Symbol { address, code, .. }) = symbol else {
            return String::new();
        };
        let objdump = if self.architecture == Architecture::Riscv64 {
            "riscv64-unknown-elf-objdump"
        } else {
            "objdump"
        };
        let mut command = Command::new(objdump);
        command
            .arg(format!("--start-address={address}"))
            .arg(format!("--stop-address={}", address + code.len() as u64));
        let text = quiet(
            command
                .args(["--disassemble", "--no-show-raw-insn"])
                .arg(&self.file),
        );
        let Some(text) = text else {
            return format!("    ({objdump} does not run)\n");
        };
        let lines = text.lines().filter(|line| line.starts_with(' ')).take(80);
        lines.fold(String::new(), |mut all, line| {
            // Without the names of jump targets: they may take a screen each.
            let _ = writeln!(all, "{}", line.split(" <").next().unwrap_or(line));
            all
        })
    }
}

/// The symbols of one section of code, each up to the next.
fn symbols<'data>(
    elf: &object::File<'data>,
    section: &impl ObjectSection<'data>,
    content: &[u8],
) -> Vec<Symbol> {
    let inside = |symbol: &object::Symbol<'data, '_>| {
        symbol.section_index() == Some(section.index()) && symbol.name() != Ok("")
    };
    let mut begins: Vec<(u64, String)> = elf
        .symbols()
        .filter(inside)
        .map(|symbol| {
            (
                symbol.address(),
                plain(symbol.name().unwrap_or("?")).to_owned(),
            )
        })
        .collect();
    // What stands before the first symbol belongs to the section's name.
    begins.push((section.address(), section.name().unwrap_or("?").to_owned()));
    // Marks of the instruction set ("$x") are numbered by the linker.
    begins.retain(|(_, name)| !name.starts_with('$') && !name.starts_with(".L"));
    begins.sort();
    let ends = begins
        .iter()
        .skip(1)
        .map(|(address, _)| *address)
        .chain([section.address() + section.size()]);
    let ends: Vec<u64> = ends.collect();
    let code = |from: u64, to: u64| {
        content.get((from - section.address()) as usize..(to - section.address()) as usize)
    };
    let symbols = begins.into_iter().zip(ends);
    symbols
        .map(|((address, name), end)| Symbol {
            code: code(address, end).unwrap_or_default().to_vec(),
            name,
            address,
        })
        .collect()
}

/// A symbol's name without the hash of the source (`.llvm.123`) that the optimiser gives to what it
/// takes from one unit into another.
fn plain(name: &str) -> &str {
    name.rsplit_once(".llvm.")
        .filter(|(_, hash)| hash.bytes().all(|digit| digit.is_ascii_digit()))
        .map_or(name, |(plain, _)| plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SOURCE: &str = r##"
        use kymo::{trace, trace_masked}; // trace!(Not { this: 1 });
        /// `trace!(Nor { this: 2 })`
        macro_rules! trace { () => { text!() } }
        fn f(x: u32) -> u32 {
            trace!(One { a: x, b: ")" }); let after = "trace!(Nor { that: 3 });";
            kymo::trace_masked!(Two {
                a: f(x), // a bracket in a comment: )
                b: r#"ä " )"#, c: ')',
            });
            match x { 1 => trace![Three {}], _ => without(|| { ::kymo::trace!{Four { ä: (1, [2]) }} }) }
            retrace!(Five {}); trace(6); trace_masked !(Six {}); x
        }
    "##;

    /// Of a kernel that has no tracepoints of its own.
    fn every() -> Vec<String> {
        Own::read("[package]\nname = \"x\"").unwrap().macros
    }

    #[test]
    fn a_kernel_names_its_own_tracepoints() {
        let own = Own::read("[package.metadata.kymo]\ntracepoints = [\"op\"]")
            .unwrap()
            .macros;
        let text = "macro_rules! op { ($e:ident) => { $crate::trace!($e {}) } } op!(A); kernel::op!(B); trace!(C {});";
        let found: Vec<&str> = tracepoints(text, &own)
            .unwrap()
            .into_iter()
            .map(|range| &text[range])
            .collect();
        assert_eq!(
            found,
            [
                "$crate::trace!($e {})",
                "op!(A)",
                "kernel::op!(B)",
                "trace!(C {})"
            ]
        );
        assert_eq!(tracepoints(text, &every()).unwrap().len(), 2);
        assert!(Own::read("[package.metadata.kymo]\ntracepoints = [1]").is_err());
    }

    #[test]
    fn tracepoints_are_found_and_nothing_else() {
        let found: Vec<&str> = tracepoints(SOURCE, &every())
            .unwrap()
            .into_iter()
            .map(|range| &SOURCE[range])
            .collect();
        let heads: Vec<&str> = found
            .iter()
            .map(|text| text.split(['(', '[', '{']).next().unwrap())
            .collect();
        assert_eq!(
            heads,
            [
                "trace!",
                "kymo::trace_masked!",
                "trace!",
                "::kymo::trace!",
                "trace_masked !"
            ]
        );
        assert!(found[0].ends_with("\")\" })"));
        assert!(found[1].ends_with("')',\n            })"));
        assert_eq!(found[3], "::kymo::trace!{Four { ä: (1, [2]) }}");
    }

    #[test]
    fn what_stands_around_keeps_its_line_and_column() {
        let mut index = 0;
        let blanked = replace(SOURCE, &every(), &mut index, |_| Some(NOTHING)).unwrap();
        assert_eq!(index, 5);
        assert!(tracepoints(&blanked, &every()).unwrap().is_empty());
        assert_eq!(blanked.lines().count(), SOURCE.lines().count());
        for (before, after) in SOURCE.lines().zip(blanked.lines()) {
            assert_eq!(before.chars().count(), after.chars().count(), "{before}");
            let kept = before
                .chars()
                .zip(after.chars())
                .all(|(old, new)| old == new || new == ' ' || "()".contains(new));
            assert!(kept, "{before}\n{after}");
        }
        let last = blanked.lines().rev().nth(2).unwrap();
        assert_eq!(
            last.trim_start(),
            "retrace!(Five {}); trace(6); ()                    ; x"
        );
        assert!(blanked.contains("; let after = \"trace!(Nor { that: 3 });\";"));
    }

    #[test]
    fn one_of_them_is_replaced() {
        let replaced = replace("trace!(A {}); trace!(B {});", &every(), &mut 0, |index| {
            (index == 1).then_some(ONE_INSTRUCTION)
        })
        .unwrap();
        assert_eq!(replaced, format!("trace!(A {{}}); {ONE_INSTRUCTION};"));
        assert_eq!(replace(SOURCE, &every(), &mut 0, |_| None).unwrap(), SOURCE);
        assert!(replace("fn f( {", &every(), &mut 0, |_| None).is_err());
    }
}
