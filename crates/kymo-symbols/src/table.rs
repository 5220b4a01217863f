//! Which symbol an address belongs to.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use object::{Architecture, Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

/// The symbols of addresses: of all that contain an address, the innermost.
///
/// That is the one that begins last; of several that begin there, the shortest; of several with the
/// same range, the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SymbolTable {
    /// Ranges of one symbol each, sorted and without overlaps, and the symbol's index.
    parts: Vec<(Range<u64>, usize)>,
}

impl SymbolTable {
    /// A table of symbols with these ranges, in any order. A symbol is its index among them.
    pub fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> SymbolTable {
        let symbols = ranges.into_iter().zip(0..);
        let mut symbols: Vec<(Range<u64>, usize)> =
            symbols.filter(|(range, _)| !range.is_empty()).collect();
        symbols.sort_unstable_by_key(|(range, symbol)| {
            (range.start, Reverse(range.end), Reverse(*symbol))
        });
        let mut table = SymbolTable::default();
        // End and index of the symbols that are open; the last is the innermost.
        let mut open = Vec::new();
        let mut at = 0;
        for (range, symbol) in symbols {
            at = table.fill(&mut open, at, range.start).max(range.start);
            open.push((range.end, symbol));
        }
        table.fill(&mut open, at, u64::MAX);
        table
    }

    /// Gives the addresses from `at` to `until` to the open symbols, the innermost first. Returns
    /// where the last of them ends.
    fn fill(&mut self, open: &mut Vec<(u64, usize)>, mut at: u64, until: u64) -> u64 {
        while let Some(&(end, symbol)) = open.last().filter(|_| at < until) {
            let reached = end.min(until);
            if reached > at {
                self.parts.push((at..reached, symbol));
                at = reached;
            }
            if end <= at {
                open.pop();
            }
        }
        at
    }

    /// Index of the symbol to which the address belongs.
    pub fn at(&self, address: u64) -> Option<usize> {
        let behind = self
            .parts
            .partition_point(|(range, _)| range.start <= address);
        let (range, symbol) = self.parts.get(behind.checked_sub(1)?)?;
        range.contains(&address).then_some(*symbol)
    }

    /// Ranges of one symbol each, sorted and without overlaps, and the symbol's index.
    pub(crate) fn parts(&self) -> &[(Range<u64>, usize)] {
        &self.parts
    }
}

/// A function in the symbol tables of an ELF file.
#[derive(Clone, Debug)]
pub(crate) struct ElfFunction<'d> {
    pub(crate) range: Range<u64>,
    pub(crate) name: Cow<'d, str>,
}

/// The functions of `.symtab` and `.dynsym`, by address; of several with the same range, a global
/// one first, then by name. Labels of assembly, which have neither type nor size, reach to the next
/// symbol of their section; one inside a function is a part of it.
pub(crate) fn functions<'d>(file: &object::File<'d>) -> Vec<ElfFunction<'d>> {
    let sections = file.sections();
    let sections = sections.filter(|section| section.kind() == SectionKind::Text);
    let mut ends: Vec<(u64, u64)> = sections
        .map(|section| {
            let begin = section.address();
            (begin, begin.saturating_add(section.size()))
        })
        .collect();
    ends.sort_unstable();
    // Bit 0 of a function's address says that its instructions are Thumb's: they are at even ones.
    let has_thumb = file.architecture() == Architecture::Arm;
    let mut found: Vec<(u64, u64, bool, Cow<'d, str>)> = Vec::new();
    let mut add = |symbol: object::Symbol<'d, '_>| {
        let Some(name) = symbol.name_bytes().ok().filter(|name| !is_mapping(name)) else {
            return;
        };
        if is_function(file, &symbol) {
            let is_thumb = has_thumb && symbol.kind() == SymbolKind::Text;
            let begin = symbol.address() & !u64::from(is_thumb);
            found.push((begin, symbol.size(), symbol.is_global(), text_of(name)));
        }
    };
    file.symbols().for_each(&mut add);
    file.dynamic_symbols().for_each(&mut add);
    found.sort_unstable_by(|one, other| {
        let key = |of: &(u64, u64, bool, _)| (of.0, of.1 == 0, of.1, !of.2);
        (key(one), &one.3).cmp(&(key(other), &other.3))
    });
    // Most functions are in both tables of a library.
    found.dedup_by(|next, of| (next.0, next.1, &next.3) == (of.0, of.1, &of.3));
    let mut reach = 0;
    found.retain(|&(begin, size, ..)| {
        let is_inside = size == 0 && begin < reach;
        reach = reach.max(begin.saturating_add(size));
        !is_inside
    });
    let mut functions = Vec::with_capacity(found.len());
    let (mut next, mut begins) = (u64::MAX, u64::MAX);
    for (begin, size, _, name) in found.into_iter().rev() {
        if begin != begins {
            (next, begins) = (begins, begin);
        }
        let end = match size {
            0 => end_of_section(&ends, begin).map_or(begin, |end| end.min(next)),
            size => begin.saturating_add(size),
        };
        functions.push(ElfFunction {
            range: begin..end,
            name,
        });
    }
    functions.retain(|function| !function.range.is_empty());
    functions.reverse();
    functions
}

/// The end of the section in which an address is.
fn end_of_section(sections: &[(u64, u64)], address: u64) -> Option<u64> {
    let behind = sections.partition_point(|(begin, _)| *begin <= address);
    let (_, end) = sections.get(behind.checked_sub(1)?)?;
    (address < *end).then_some(*end)
}

/// Whether a symbol names code of the file.
fn is_function(file: &object::File<'_>, symbol: &object::Symbol<'_, '_>) -> bool {
    let is_in_text = || {
        let section = symbol
            .section_index()
            .and_then(|index| file.section_by_index(index).ok());
        section.is_some_and(|section| section.kind() == SectionKind::Text)
    };
    match symbol.kind() {
        SymbolKind::Text => !symbol.is_undefined(),
        SymbolKind::Unknown | SymbolKind::Label => is_in_text(),
        _ => false,
    }
}

/// Whether a symbol marks a change between code and data (the ELF supplements of Arm and RISC-V),
/// or is a compiler's local label.
fn is_mapping(name: &[u8]) -> bool {
    name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L")
}

/// A name as text. Names are bytes: those that are not UTF-8 become `\xe9` and the like, so that
/// different names stay different.
pub fn text_of(name: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(name) {
        return Cow::Borrowed(text);
    }
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_innermost_symbol_that_contains_it() {
        let table = SymbolTable::new([0..48, 16..32, 48..49, 16..32, 60..60, 40..70]);
        for (address, symbol) in [
            (0, Some(0)),
            (16, Some(1)),
            (31, Some(1)),
            (32, Some(0)),
            (39, Some(0)),
            (40, Some(5)),
            (48, Some(2)),
            (49, Some(5)),
            (69, Some(5)),
            (70, None),
            (u64::MAX, None),
        ] {
            assert_eq!(table.at(address), symbol, "{address}");
        }
    }

    #[test]
    fn names_that_are_no_text_stay_different() {
        assert_eq!(text_of(b"caf\xe9\xff_x"), "caf\\xe9\\xff_x");
        assert_eq!(text_of("café".as_bytes()), "café");
    }
}
