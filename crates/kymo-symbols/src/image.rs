//! Images: the ELF files from which code was loaded, and the functions at addresses in them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use cpp_demangle::DemangleOptions;
use gimli::{EndianSlice, RunTimeEndian};
use object::elf::PF_X;
use object::{Object, ObjectSection, ObjectSegment, SectionKind, SegmentFlags};

use crate::names::{FullNames, has_namespaces};
use crate::split::{FindSplitFile, SplitBytes};
use crate::table::{ElfFunction, SymbolTable, functions, text_of};
use crate::{Error, dwarf, join_ranges, nesting};

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The demangled name, with its namespaces if debug information has them.
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

/// An ELF file: a kernel, or a program.
pub struct Image<'d> {
    file: object::File<'d>,
    symbols: Vec<ElfFunction<'d>>,
    /// Of which of the symbols an address is a part.
    table: SymbolTable,
    /// Addresses of code, sorted.
    code: Vec<Range<u64>>,
    split_files: Option<&'d FindSplitFile<'d>>,
}

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Image").finish_non_exhaustive()
    }
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
        let (symbols, code) = (functions(&file), code(&file));
        let table = SymbolTable::new(symbols.iter().map(|symbol| symbol.range.clone()));
        Ok(Image {
            file,
            symbols,
            table,
            code,
            split_files: None,
        })
    }

    /// Reads debug information that the compiler has put into files of its own, which `find` reads.
    #[must_use]
    pub fn with_split_files(self, find: &'d FindSplitFile<'d>) -> Image<'d> {
        Image {
            split_files: Some(find),
            ..self
        }
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

    /// Whether it has debug information, or where that is.
    pub fn has_debug_info(&self) -> bool {
        self.file.section_by_name(".debug_info").is_some()
    }

    /// Name and checksum (CRC-32) of the file with its symbols, if they were moved there.
    pub fn debug_link(&self) -> Option<(Cow<'d, str>, u32)> {
        let (name, checksum) = self.file.gnu_debuglink().ok().flatten()?;
        Some((text_of(name), checksum))
    }

    /// Whether any function has a name: in a symbol table, or in debug information.
    pub fn has_names(&self) -> bool {
        !self.symbols.is_empty() || self.has_debug_info()
    }

    /// How far behind [`base`](Self::base) the page lies in which the first code segment begins.
    pub fn code_offset(&self) -> u64 {
        const PAGE: u64 = 4096;
        let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & PF_X != 0);
        let segments = self.file.segments();
        let code = segments.filter(|of| of.size() > 0 && is_code(of.flags()));
        let first = code.map(|segment| segment.address()).min();
        first.map_or(0, |first| (first & !(PAGE - 1)).saturating_sub(self.base()))
    }

    /// The functions at these addresses, as linked, each looked up once. Only the DWARF units with
    /// code at these addresses are read.
    pub fn locate(&self, addresses: &[u64]) -> Located {
        let mut to = Lines::new(self);
        let mut missing = Vec::new();
        let found = dwarf::sections(&self.file).and_then(|sections| {
            let endian = match self.file.is_little_endian() {
                true => RunTimeEndian::Little,
                false => RunTimeEndian::Big,
            };
            let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
            // By address, so that neighbours are looked up one after the other.
            let code = addresses.iter().copied().enumerate();
            let mut code: Vec<(u64, usize)> = code
                .filter(|(_, address)| self.is_code(*address))
                .map(|(index, address)| (address, index))
                .collect();
            code.sort_unstable();
            let sorted: Vec<u64> = code.iter().map(|(address, _)| *address).collect();
            let units = nesting::units(&dwarf, &sorted)?;
            let split = SplitBytes::find(&units.split, self.split_files);
            let files = split.sections();
            missing.extend_from_slice(&split.missing);
            let context = addr2line::Context::from_dwarf(dwarf)?;
            for (address, index) in code {
                if holds(&units.deep, address) {
                    to.add_line(index, address, &context)?;
                } else {
                    let frames = files.resolve(context.find_frames(address), endian)?;
                    let unit = || files.resolve(context.find_dwarf_and_unit(address), endian);
                    to.add(index, address, frames, unit)?;
                }
            }
            if files.refused() > 0 {
                to.located.damage.get_or_insert_with(|| {
                    "a file with a part of it is of another version, or damaged".to_owned()
                });
            }
            Ok(())
        });
        if let Err(error) = found {
            to.located.damage = Some(error.to_string());
        }
        if let Some(first) = missing.first() {
            to.located
                .damage
                .get_or_insert_with(|| match missing.len() {
                    1 => format!("its part in {first} is not there"),
                    count => format!("its parts in {count} files, such as {first}, are not there"),
                });
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
    fn symbol_at(&self, address: u64) -> Option<&ElfFunction<'d>> {
        self.symbols.get(self.table.at(address)?)
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
    full_names: FullNames,
}

type Context<'s> = addr2line::Context<EndianSlice<'s, RunTimeEndian>>;
type Unit<'s> = gimli::UnitRef<'s, EndianSlice<'s, RunTimeEndian>>;

impl<'i, 'd> Lines<'i, 'd> {
    fn new(image: &'i Image<'d>) -> Lines<'i, 'd> {
        Lines {
            image,
            located: Located::default(),
            places: Vec::new(),
            functions: HashMap::new(),
            files: HashMap::new(),
            full_names: FullNames::default(),
        }
    }

    /// Adds the frames that DWARF and the symbol table have for an address, which is in `unit`.
    fn add<'s>(
        &mut self,
        index: usize,
        address: u64,
        mut frames: addr2line::FrameIter<'_, EndianSlice<'s, RunTimeEndian>>,
        unit: impl Fn() -> Option<Unit<'s>>,
    ) -> Result<(), gimli::Error> {
        let begin = self.located.frames.len();
        let image = self.image;
        let mut next = frames.next()?;
        while let Some(frame) = next {
            next = frames.next()?;
            let is_inlined = next.is_some();
            let symbol = image.symbol_at(address).filter(|_| !is_inlined);
            // The symbol table has the outermost function's full name; DWARF's may lack its path.
            let function = match (symbol, &frame.function) {
                (Some(symbol), _) => self.symbol(symbol),
                (None, Some(function)) if !function.name.slice().is_empty() => {
                    match self.full_name(&frame, &unit)? {
                        Some(name) => self.function(&name, "", None),
                        None => {
                            let name = text_of(function.name.slice());
                            self.function(&name, &name, None)
                        }
                    }
                }
                _ => continue,
            };
            self.frame(function, frame.location.as_ref(), is_inlined);
        }
        if self.located.frames.len() > begin {
            self.place(index, begin);
        }
        Ok(())
    }

    /// The full name of a function that has no linkage name; `None` if it has one, or if nothing is
    /// known but the name.
    fn full_name<'s>(
        &mut self,
        frame: &addr2line::Frame<'_, EndianSlice<'s, RunTimeEndian>>,
        unit: impl Fn() -> Option<Unit<'s>>,
    ) -> Result<Option<String>, gimli::Error> {
        let bare = frame.function.as_ref().filter(|function| {
            has_namespaces(function.language) && !is_mangled(&text_of(function.name.slice()))
        });
        match (bare, frame.dw_die_offset) {
            (Some(_), Some(entry)) => match unit() {
                Some(unit) => self.full_names.of(unit, entry),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Adds the symbol table's function and the line for an address whose inlined functions are
    /// too many.
    fn add_line(
        &mut self,
        index: usize,
        address: u64,
        context: &Context<'_>,
    ) -> Result<(), gimli::Error> {
        self.located.damage.get_or_insert_with(|| {
            let deepest = nesting::DEEPEST;
            format!("functions are inlined into each other more than {deepest} deep")
        });
        let (begin, image) = (self.located.frames.len(), self.image);
        if let Some(symbol) = image.symbol_at(address) {
            let location = context.find_location(address)?;
            let function = self.symbol(symbol);
            self.frame(function, location.as_ref(), false);
            self.place(index, begin);
        }
        Ok(())
    }

    fn frame(
        &mut self,
        function: usize,
        location: Option<&addr2line::Location<'_>>,
        is_inlined: bool,
    ) {
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

    fn place(&mut self, index: usize, begin: usize) {
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        if let Some(place) = self.places.get_mut(index) {
            *place = Some(begin..self.located.frames.len());
        }
    }

    fn symbol(&mut self, symbol: &ElfFunction<'_>) -> usize {
        self.function(&symbol.name, &symbol.name, Some(symbol.range.start))
    }

    fn function(&mut self, name: &str, linkage_name: &str, begin: Option<u64>) -> usize {
        let next = self.located.functions.len();
        let function = *self
            .functions
            .entry((name.to_owned(), begin))
            .or_insert(next);
        if function == next {
            self.located.functions.push(Function {
                name: demangled(name),
                linkage_name: linkage_name.to_owned(),
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
            let image = self.image;
            // A wrong size may make a function seem to reach beyond the code.
            let symbol = image.symbol_at(address);
            let symbol = symbol.filter(|_| image.is_code(address));
            if let (None, Some(symbol)) = (&known, symbol) {
                let function = self.symbol(symbol);
                self.frame(function, None, false);
            }
            let place = known.unwrap_or(begin..self.located.frames.len());
            self.located.places.push(place);
        }
        self.located
    }
}

/// Whether a name is a symbol's, which says all namespaces in the compiler's way.
fn is_mangled(name: &str) -> bool {
    demangled(name) != name
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
