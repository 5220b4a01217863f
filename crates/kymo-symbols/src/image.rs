//! Images: the ELF files from which code was loaded, and the functions at addresses in them.

use std::collections::HashMap;
use std::ops::Range;

use cpp_demangle::DemangleOptions;
use gimli::{EndianSlice, RunTimeEndian};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind, SymbolKind};

use crate::{Error, dwarf, join_ranges};

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

/// The functions at a list of addresses.
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
    /// Why the debug information could not be read to the end; what was found before is there, and
    /// the symbol table's functions are.
    pub damage: Option<String>,
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
    /// Addresses of code, sorted.
    code: Vec<Range<u64>>,
}

/// An image, and where it was loaded.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'i, 'd> {
    /// The file.
    pub image: &'i Image<'d>,
    /// How far above its linked addresses it was loaded.
    pub bias: u64,
}

impl<'d> Image<'d> {
    /// Reads the headers and the symbol table.
    ///
    /// # Errors
    /// [`Error::NotElf`], [`Error::Damaged`].
    pub fn parse(bytes: &'d [u8]) -> Result<Image<'d>, Error> {
        let file = crate::parse(bytes)?;
        let (symbols, code) = (symbols(&file), code(&file));
        Ok(Image {
            file,
            symbols,
            code,
        })
    }

    pub(crate) fn file(&self) -> &object::File<'d> {
        &self.file
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

    /// The functions at these addresses, as linked, each looked up once. Only the DWARF units with
    /// code at these addresses are read.
    pub fn locate(&self, addresses: &[u64]) -> Located {
        let mut to = Lines::new(self);
        let found = dwarf::sections(&self.file).and_then(|sections| {
            let endian = match self.file.is_little_endian() {
                true => RunTimeEndian::Little,
                false => RunTimeEndian::Big,
            };
            let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
            let context = addr2line::Context::from_dwarf(dwarf)?;
            // By address, so that neighbours are looked up one after the other.
            let mut order: Vec<usize> = (0..addresses.len()).collect();
            order.sort_unstable_by_key(|&index| addresses.get(index));
            for index in order {
                if let Some(&address) = addresses.get(index).filter(|at| self.is_code(**at)) {
                    to.add(index, address, &context)?;
                }
            }
            Ok(())
        });
        if let Err(error) = found {
            to.located.damage = Some(error.to_string());
        }
        to.finish(addresses)
    }

    /// Addresses of code as linked, sorted.
    pub(crate) fn code(&self) -> &[Range<u64>] {
        &self.code
    }

    /// Whether code is at an address. DWARF also describes functions that the linker removed, as if
    /// they were at 0.
    fn is_code(&self, address: u64) -> bool {
        holds(&self.code, address)
    }

    /// The function of the symbol table that holds the address.
    fn symbol_at(&self, address: u64) -> Option<Entry<'d>> {
        let behind = self.symbols.partition_point(|entry| entry.begin <= address);
        let entry = self.symbols.get(behind.checked_sub(1)?)?;
        (address < entry.end).then_some(*entry)
    }
}

/// Whether one of the sorted ranges holds an address.
pub(crate) fn holds(ranges: &[Range<u64>], address: u64) -> bool {
    let behind = ranges.partition_point(|range| range.start <= address);
    let range = behind.checked_sub(1).and_then(|place| ranges.get(place));
    range.is_some_and(|range| address < range.end)
}

/// Collects what is found about addresses.
struct Lines<'i, 'd> {
    image: &'i Image<'d>,
    located: Located,
    /// By index of the address; `None` where nothing is known yet.
    places: Vec<Option<Range<usize>>>,
    /// Functions by name, and by first address for those of the symbol table.
    functions: HashMap<(String, Option<u64>), usize>,
    files: HashMap<String, usize>,
}

type Context<'s> = addr2line::Context<EndianSlice<'s, RunTimeEndian>>;

impl<'i, 'd> Lines<'i, 'd> {
    fn new(image: &'i Image<'d>) -> Lines<'i, 'd> {
        Lines {
            image,
            located: Located::default(),
            places: Vec::new(),
            functions: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// Adds the frames that DWARF and the symbol table have for an address.
    fn add(
        &mut self,
        index: usize,
        address: u64,
        context: &Context<'_>,
    ) -> Result<(), gimli::Error> {
        let begin = self.located.frames.len();
        let mut frames = context.find_frames(address).skip_all_loads()?;
        let mut next = frames.next()?;
        while let Some(frame) = next {
            next = frames.next()?;
            let is_inlined = next.is_some();
            let symbol = self.image.symbol_at(address).filter(|_| !is_inlined);
            let name = frame.function.as_ref();
            let name = name
                .and_then(|name| name.raw_name().ok())
                .unwrap_or_default();
            // The symbol table has the outermost function's full name; DWARF's may lack its path.
            let function = match symbol {
                Some(symbol) => self.function(symbol.name, Some(symbol.begin)),
                None if name.is_empty() => continue,
                None => self.function(&name, None),
            };
            let location = frame.location.as_ref();
            let file = location
                .and_then(|location| location.file)
                .map(|file| self.file(file));
            let line = location.and_then(|location| location.line);
            self.located.frames.push(CodeFrame {
                function,
                file,
                line,
                is_inlined,
            });
        }
        if self.located.frames.len() > begin {
            self.place(index, begin);
        }
        Ok(())
    }

    fn place(&mut self, index: usize, begin: usize) {
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        if let Some(place) = self.places.get_mut(index) {
            *place = Some(begin..self.located.frames.len());
        }
    }

    fn function(&mut self, name: &str, begin: Option<u64>) -> usize {
        let next = self.located.functions.len();
        let function = *self
            .functions
            .entry((name.to_owned(), begin))
            .or_insert(next);
        if function == next {
            self.located.functions.push(Function {
                name: demangled(name),
                linkage_name: name.to_owned(),
                begin,
            });
        }
        function
    }

    fn file(&mut self, path: &str) -> usize {
        let next = self.located.files.len();
        let file = *self.files.entry(path.to_owned()).or_insert(next);
        if file == next {
            self.located.files.push(path.to_owned());
        }
        file
    }

    /// Adds what only the symbol table knows.
    fn finish(mut self, addresses: &[u64]) -> Located {
        for (index, &address) in addresses.iter().enumerate() {
            let known = self.places.get(index).cloned().flatten();
            let begin = self.located.frames.len();
            // A function without a size may seem to reach far beyond the code.
            let symbol = self.image.symbol_at(address);
            let symbol = symbol.filter(|_| self.image.is_code(address));
            if let (None, Some(symbol)) = (&known, symbol) {
                let function = self.function(symbol.name, Some(symbol.begin));
                self.located.frames.push(CodeFrame {
                    function,
                    file: None,
                    line: None,
                    is_inlined: false,
                });
            }
            let place = known.unwrap_or(begin..self.located.frames.len());
            self.located.places.push(place);
        }
        self.located
    }
}

/// A readable form of a name of the symbol table: of Rust's without the hash, of C++'s without
/// parameters.
pub fn demangled(name: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        return format!("{name:#}");
    }
    let options = DemangleOptions::default().no_params().no_return_type();
    cpp_demangle::Symbol::new(name)
        .ok()
        .filter(|_| name.starts_with("_Z"))
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .unwrap_or_else(|| name.to_owned())
}

/// The addresses of code: of its sections, or of a file without them, of all that is loaded.
fn code(file: &object::File<'_>) -> Vec<Range<u64>> {
    let range = |begin: u64, size: u64| begin..begin.saturating_add(size);
    let sections = file.sections();
    let text = sections.filter(|section| section.kind() == SectionKind::Text);
    let mut found: Vec<_> = text
        .map(|section| range(section.address(), section.size()))
        .collect();
    if found.is_empty() {
        let segments = file.segments();
        found.extend(segments.map(|segment| range(segment.address(), segment.size())));
    }
    join_ranges(found)
}

/// The functions of the symbol table by address. Of several at one address, one with a size wins,
/// then a global one. A function without a size, as in assembly, reaches to the next one.
fn symbols<'d>(file: &object::File<'d>) -> Vec<Entry<'d>> {
    let mut found: Vec<(u64, u64, bool, &'d str)> = Vec::new();
    let is_function = |symbol: &object::Symbol<'d, '_>| {
        let is_code = match symbol.kind() {
            SymbolKind::Text => true,
            // Labels of assembly without a type.
            SymbolKind::Unknown | SymbolKind::Label => {
                symbol.section_index().is_some_and(|index| {
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
        if let Some(name) = name.filter(|_| is_function(&symbol)) {
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
