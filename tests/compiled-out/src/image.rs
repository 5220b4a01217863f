//! Compares linked kernels symbol by symbol and byte by byte.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use object::{Architecture, Object, ObjectSection, ObjectSymbol, SectionKind};

/// A linked kernel.
pub(crate) struct Image {
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

/// Amount of identical content.
pub(crate) struct Same {
    pub(crate) symbols: usize,
    pub(crate) text: usize,
    pub(crate) other: usize,
}

/// The first difference of two images, with its symbol.
pub(crate) struct Difference {
    symbol: Option<String>,
    what: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl Image {
    pub(crate) fn open(file: PathBuf) -> Result<Image> {
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
                // Only its size matters; the build id differs by design, as it also covers sections
                // that are not loaded.
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

    pub(crate) fn compare(&self, other: &Image) -> Result<Same, Difference> {
        let differ = |symbol: Option<&Symbol>, what: String| Difference {
            symbol: symbol.map(|symbol| symbol.name.clone()),
            what,
        };
        // Names and sizes first: an additional instruction shifts everything after it, and changes
        // every reference to that.
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

    /// A function of the library's that records, or starts, stops or reads a session.
    pub(crate) fn machinery(&self) -> Option<&str> {
        // Paths as both of the compiler's manglings write them: each name with its length.
        const PATHS: [&str; 7] = [
            "4kymo4ring6masked",
            "4kymo4ring9local_cas",
            "4kymo4ring6region6Memory4form",
            "4kymo4ring6reader",
            "4kymo7session",
            "4kymo3ctf",
            "4kymo6tracer",
        ];
        let mut names = self.text.iter().map(|symbol| symbol.name.as_str());
        names.find(|name| PATHS.iter().any(|path| name.contains(path)))
    }

    /// Disassembly of the code at a difference, if the tool is installed.
    pub(crate) fn disassembly(&self, difference: &Difference) -> String {
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
        let output = command
            .args(["--disassemble", "--no-show-raw-insn"])
            .arg(&self.file)
            .output();
        let Ok(output) = output else {
            return format!("    ({objdump} does not run)\n");
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().filter(|line| line.starts_with(' ')).take(80);
        lines.fold(String::new(), |mut all, line| {
            // Without the names of jump targets, which may be very long.
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
    // Code before the first symbol gets the section's name.
    begins.push((section.address(), section.name().unwrap_or("?").to_owned()));
    // The linker numbers mapping symbols ("$x").
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

/// A symbol's name without the hash (`.llvm.123`) that the optimiser appends when it moves a symbol
/// between units.
fn plain(name: &str) -> &str {
    name.rsplit_once(".llvm.")
        .filter(|(_, hash)| hash.bytes().all(|digit| digit.is_ascii_digit()))
        .map_or(name, |(plain, _)| plain)
}
