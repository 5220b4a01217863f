//! Images: the ELF files from which code was loaded, and the functions at addresses in them.

use std::ops::Range;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::Error;

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The demangled name.
    pub name: String,
    /// The name in the symbol table; empty for an inlined function without one.
    pub linkage_name: String,
    /// Its first address; `None` for an inlined function.
    pub begin: Option<u64>,
}

/// A function's part of a code location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFrame {
    /// Index in [`Located::functions`].
    pub function: usize,
    /// Index in [`Located::files`].
    pub file: Option<usize>,
    /// Line in the file, from 1.
    pub line: Option<u32>,
    /// Whether the function was inlined into the frame that follows.
    pub is_inlined: bool,
}

/// What an image says about a list of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located {
    /// The functions, each once.
    pub functions: Vec<Function>,
    /// Paths of the source files, each once.
    pub files: Vec<String>,
    /// The frames of all addresses.
    pub frames: Vec<CodeFrame>,
    /// By address, in the order asked: its part of `frames`, the innermost inlined function first.
    /// Empty where nothing is known.
    pub places: Vec<Range<usize>>,
}

/// A function of the symbol table, by the place of its name.
#[derive(Clone, Copy, Debug)]
struct Entry<'d> {
    begin: u64,
    end: u64,
    name: &'d str,
}

/// An ELF file: a kernel, or a program.
#[derive(Debug)]
pub struct Image<'d> {
    file: object::File<'d>,
    /// By address, without overlaps.
    symbols: Vec<Entry<'d>>,
}

impl<'d> Image<'d> {
    /// Reads the headers and the symbol table.
    ///
    /// # Errors
    /// [`Error::NotElf`].
    pub fn parse(bytes: &'d [u8]) -> Result<Image<'d>, Error> {
        let file = object::File::parse(bytes).map_err(|_| Error::NotElf)?;
        let symbols = symbols(&file);
        Ok(Image { file, symbols })
    }

    /// The build id, by which a file is recognised.
    pub fn build_id(&self) -> Option<&'d [u8]> {
        self.file.build_id().ok().flatten()
    }

    /// Whether an address, as linked, is loaded from the file.
    pub fn holds(&self, address: u64) -> bool {
        self.file.segments().any(|segment| {
            address
                .checked_sub(segment.address())
                .is_some_and(|offset| offset < segment.size())
        })
    }

    /// The lowest address, as linked.
    pub fn base(&self) -> u64 {
        let segments = self.file.segments();
        let sized = segments.filter(|segment| segment.size() > 0);
        sized.map(|segment| segment.address()).min().unwrap_or(0)
    }

    /// The functions at these addresses, as linked.
    pub fn locate(&self, addresses: &[u64]) -> Located {
        let mut located = Located::default();
        let mut known = vec![None; self.symbols.len()];
        for &address in addresses {
            let begin = located.frames.len();
            if let Some(place) = self.symbol_at(address) {
                let function = self.function(place, &mut known, &mut located);
                located.frames.push(CodeFrame {
                    function,
                    file: None,
                    line: None,
                    is_inlined: false,
                });
            }
            located.places.push(begin..located.frames.len());
        }
        located
    }

    /// Index of the function that holds the address.
    fn symbol_at(&self, address: u64) -> Option<usize> {
        let behind = self.symbols.partition_point(|entry| entry.begin <= address);
        let place = behind.checked_sub(1)?;
        let entry = self.symbols.get(place)?;
        (address < entry.end).then_some(place)
    }

    /// Index in [`Located::functions`] of the symbol at `place`.
    fn function(&self, place: usize, known: &mut [Option<usize>], to: &mut Located) -> usize {
        if let Some(function) = known.get(place).copied().flatten() {
            return function;
        }
        let entry = self.symbols.get(place);
        let linkage_name = entry.map_or("", |entry| entry.name);
        to.functions.push(Function {
            name: demangled(linkage_name),
            linkage_name: linkage_name.to_owned(),
            begin: entry.map(|entry| entry.begin),
        });
        let function = to.functions.len() - 1;
        if let Some(known) = known.get_mut(place) {
            *known = Some(function);
        }
        function
    }
}

/// A readable form of a name of the symbol table: of Rust's without the hash.
pub fn demangled(name: &str) -> String {
    match rustc_demangle::try_demangle(name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => name.to_owned(),
    }
}

/// The functions of the symbol table by address. Of several at one address the one that says how
/// long it is wins, then the global one. A function without a size, as of assembly, reaches to the
/// next one.
fn symbols<'d>(file: &object::File<'d>) -> Vec<Entry<'d>> {
    let mut found: Vec<(u64, u64, bool, &'d str)> = Vec::new();
    let code = |symbol: &object::Symbol<'d, '_>| {
        let is_code = match symbol.kind() {
            SymbolKind::Text => true,
            // Labels of assembly without a type.
            SymbolKind::Unknown | SymbolKind::Label => {
                symbol.section_index().is_some_and(|index| {
                    use object::{ObjectSection, SectionKind};
                    let section = file.section_by_index(index);
                    section.is_ok_and(|section| section.kind() == SectionKind::Text)
                })
            }
            _ => false,
        };
        is_code && symbol.is_definition()
    };
    let mut add = |symbol: object::Symbol<'d, '_>| {
        let name = symbol.name().ok().filter(|name| !is_mapping(name));
        if let Some(name) = name.filter(|_| code(&symbol)) {
            found.push((symbol.address(), symbol.size(), symbol.is_global(), name));
        }
    };
    file.symbols().for_each(&mut add);
    file.dynamic_symbols().for_each(&mut add);
    found.sort_by_key(|&(begin, size, is_global, _)| (begin, size == 0, !is_global));
    found.dedup_by_key(|&mut (begin, ..)| begin);
    // A label inside a function is a part of it.
    let mut reach = 0;
    found.retain(|&(begin, size, ..)| {
        let is_inside = size == 0 && begin < reach;
        reach = reach.max(begin.saturating_add(size));
        !is_inside
    });
    let nexts = found.iter().skip(1).map(|&(begin, ..)| begin);
    let nexts: Vec<u64> = nexts.chain([u64::MAX]).collect();
    let entries = found.iter().zip(nexts);
    entries
        .map(|(&(begin, size, _, name), next)| {
            let end = match size {
                0 => next,
                size => begin.saturating_add(size).min(next),
            };
            Entry { begin, end, name }
        })
        .collect()
}

/// Whether a symbol marks a change between code and data (the ELF supplements of Arm and RISC-V),
/// or is a compiler's local label.
fn is_mapping(name: &str) -> bool {
    name.is_empty() || name.starts_with('$') || name.starts_with(".L")
}
