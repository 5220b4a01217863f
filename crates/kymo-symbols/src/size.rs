//! Code sizes: to which function each byte of a program's code belongs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SectionKind, SymbolKind};

use crate::table::{SymbolTable, text_of};
use crate::{Error, demangled};

/// How large the functions of a program are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeSizes {
    /// Bytes by demangled name, sorted by name. Functions of one name are one entry.
    pub functions: Vec<(String, u64)>,
    /// Bytes that no symbol covers: padding, code behind symbols without a size, tables.
    pub unnamed: u64,
}

impl CodeSizes {
    /// Reads an ELF file: a program, a library or an object file.
    ///
    /// Every byte of the executable sections is counted once. Where symbols overlap, a byte belongs
    /// to the one that begins last; of several that begin there, to the shortest; of several names
    /// for the same code, to the first by name.
    ///
    /// # Errors
    /// [`Error::NotElf`], [`Error::Damaged`].
    pub fn parse(elf: &[u8]) -> Result<CodeSizes, Error> {
        let file = crate::parse(elf)?;
        let mut symbols = symbols(&file);
        let mut functions: BTreeMap<String, u64> = BTreeMap::new();
        let mut unnamed = 0;
        for section in file.sections() {
            if section.kind() != SectionKind::Text {
                continue;
            }
            let (begin, end) = (
                section.address(),
                section.address().saturating_add(section.size()),
            );
            let inside = symbols.remove(&section.index().0).unwrap_or_default();
            let named = attribute(begin, end, inside, |name, bytes| {
                *functions.entry(demangled(name)).or_default() += bytes;
            });
            unnamed += (end - begin).saturating_sub(named);
        }
        Ok(CodeSizes {
            functions: functions.into_iter().collect(),
            unnamed,
        })
    }

    /// The size of all executable sections.
    pub fn total(&self) -> u64 {
        let named: u64 = self.functions.iter().map(|(_, bytes)| bytes).sum();
        named + self.unnamed
    }
}

/// A symbol's first address, the one behind its last, and its name.
type Extent<'a> = (u64, u64, Cow<'a, str>);

/// The symbols with a size, by section.
fn symbols<'a>(file: &object::File<'a>) -> BTreeMap<usize, Vec<Extent<'a>>> {
    let mut symbols: BTreeMap<usize, Vec<Extent<'a>>> = BTreeMap::new();
    for symbol in file.symbols() {
        let is_code = !matches!(
            symbol.kind(),
            SymbolKind::Section | SymbolKind::File | SymbolKind::Tls
        );
        let Some(SectionIndex(section)) = symbol.section_index() else {
            continue;
        };
        let end = symbol.address().checked_add(symbol.size());
        if let (true, true, Some(end), Ok(name)) =
            (is_code, symbol.size() > 0, end, symbol.name_bytes())
        {
            let extent = (symbol.address(), end, text_of(name));
            symbols.entry(section).or_default().push(extent);
        }
    }
    symbols
}

/// Gives each byte of `begin..end` that a symbol covers to one symbol; returns their number.
fn attribute(
    begin: u64,
    end: u64,
    mut symbols: Vec<Extent<'_>>,
    mut give: impl FnMut(&str, u64),
) -> u64 {
    symbols.sort_unstable_by(|(_, _, one), (_, _, other)| one.cmp(other));
    let ranges = symbols.iter().map(|(first, behind, _)| *first..*behind);
    let mut named = 0;
    for (range, symbol) in SymbolTable::new(ranges).parts() {
        let (first, behind) = (range.start.clamp(begin, end), range.end.clamp(begin, end));
        if let (true, Some((.., name))) = (first < behind, symbols.get(*symbol)) {
            give(name, behind - first);
            named += behind - first;
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributed(begin: u64, end: u64, symbols: &[Extent<'_>]) -> (BTreeMap<String, u64>, u64) {
        let mut sizes = BTreeMap::new();
        let named = attribute(begin, end, symbols.to_vec(), |name, bytes| {
            *sizes.entry(name.to_owned()).or_default() += bytes;
        });
        (sizes, named)
    }

    /// The owner of each byte, asked byte by byte.
    fn slowly(begin: u64, end: u64, symbols: &[Extent<'_>]) -> (BTreeMap<String, u64>, u64) {
        let mut sizes = BTreeMap::new();
        let mut named = 0;
        for byte in begin..end {
            let covering = symbols.iter().filter(|(first, behind, _)| {
                (*first.max(&begin)..*behind.min(&end)).contains(&byte)
            });
            let owner = covering.max_by_key(|(first, behind, name)| {
                (*first, std::cmp::Reverse(*behind), std::cmp::Reverse(name))
            });
            if let Some((_, _, name)) = owner {
                *sizes.entry(name.to_string()).or_default() += 1;
                named += 1;
            }
        }
        (sizes, named)
    }

    #[test]
    fn every_byte_is_counted_once() {
        let symbols = [
            (0, 40, "outer"),
            (10, 20, "inner"),
            (10, 20, "alias"),
            (15, 30, "crossing"),
            (60, 70, "alone"),
            (95, 120, "beyond the end"),
        ]
        .map(|(first, behind, name)| (first, behind, Cow::Borrowed(name)));
        let (sizes, named) = attributed(4, 100, &symbols);
        assert_eq!((sizes.clone(), named), slowly(4, 100, &symbols));
        assert_eq!(sizes["outer"], 6 + 10);
        assert_eq!(sizes["alias"], 5);
        assert_eq!(sizes["crossing"], 15);
        assert_eq!(sizes["beyond the end"], 5);
        assert_eq!(named, 36 + 10 + 5);
    }

    #[test]
    fn random_symbols_are_attributed_as_byte_by_byte() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let names = ["a", "b", "c", "d", "e", "f"];
        for _ in 0..2000 {
            let symbols: Vec<Extent<'_>> = names
                .iter()
                .take(random(7) as usize)
                .map(|name| {
                    let first = random(40);
                    (first, first + 1 + random(20), Cow::Borrowed(*name))
                })
                .collect();
            let (begin, end) = (5, 5 + random(40));
            assert_eq!(
                attributed(begin, end, &symbols),
                slowly(begin, end, &symbols),
                "{symbols:?} in {begin}..{end}"
            );
        }
    }

    /// This test's own program: its sections and symbols are what the linker made.
    #[test]
    fn sizes_add_up_to_the_executable_sections() {
        let elf = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let sizes = CodeSizes::parse(&elf).unwrap();
        let file = object::File::parse(&*elf).unwrap();
        let text: u64 = file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
            .map(|section| section.size())
            .sum();
        assert_eq!(sizes.total(), text);
        assert!(sizes.unnamed < text / 5, "{} of {text}", sizes.unnamed);
        let own = sizes
            .functions
            .iter()
            .find(|(name, _)| name.starts_with("kymo_symbols::size::tests::sizes_add_up"));
        assert!(own.is_some_and(|&(_, bytes)| bytes > 0));
        assert_eq!(CodeSizes::parse(b"no program"), Err(Error::NotElf));
        let start_of_a_program = b"\x7fELF\x02\x01\x01";
        assert_eq!(CodeSizes::parse(start_of_a_program), Err(Error::Damaged));
    }
}
