//! A program's code by name: functions from the ELF symbol table, and what was inlined where from
//! DWARF.
//!
//! Bytes come in, names go out: this crate opens no files. Names are demangled as Rust has them;
//! those of other languages stay as they are.
//!
//! # What it is not
//! No disassembler and no line table: it says which function an instruction belongs to, not which
//! line.
//!
//! # Invariants
//! - Symbols are sorted by address; none is empty.
//! - A scope stands behind the scope that it was inlined into.
//!
//! # Example
//! ```
//! let error = kymo_symbols::CodeMap::parse(b"no program").unwrap_err();
//! assert_eq!(error.to_string(), "not an ELF file");
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod dwarf;
mod scope;

use std::ops::Range;

use object::{Object, ObjectSymbol, SymbolKind};

pub use scope::{Scope, join_ranges};

/// Why a program's code is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are no ELF file, or a damaged one.
    #[error("not an ELF file")]
    NotElf,
    /// The debug information is damaged, or of a form that is not known.
    #[error("its DWARF cannot be read: {reason}")]
    Dwarf {
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Always [`InvalidData`](std::io::ErrorKind::InvalidData): the program's file is to blame.
    pub fn kind(&self) -> std::io::ErrorKind {
        std::io::ErrorKind::InvalidData
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Error::NotElf => "give the program as the linker made it, not as a flat binary",
            Error::Dwarf { .. } => "build the program again, not stripped",
        })
    }
}

/// A function of the symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name, demangled, without the compiler's hash.
    pub name: String,
    /// Its addresses; never empty.
    pub range: Range<u64>,
}

/// What is known of a program's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeMap {
    /// The functions of the symbol table, by address.
    pub symbols: Vec<Symbol>,
    /// DWARF's scopes, each behind its parent. Empty where the program has no DWARF.
    pub scopes: Vec<Scope>,
}

impl CodeMap {
    /// Reads an ELF file. Compressed debug sections are taken to be absent.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(elf: &[u8]) -> Result<CodeMap, Error> {
        let file = object::File::parse(elf).map_err(|_| Error::NotElf)?;
        let scopes = dwarf::scopes(&file).map_err(|error| Error::Dwarf {
            reason: error.to_string(),
        })?;
        Ok(CodeMap {
            symbols: symbols(&file),
            scopes,
        })
    }

    /// The function of the symbol table that the address lies in.
    pub fn symbol_at(&self, address: u64) -> Option<&Symbol> {
        let containing = |symbol: &&Symbol| symbol.range.contains(&address);
        self.symbols.iter().find(containing)
    }

    /// Numbers of the scopes that a scope was inlined into, from the inside out.
    pub fn parents(&self, scope: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(scope), |&scope| self.scopes.get(scope)?.parent).skip(1)
    }

    /// What a scope was inlined into, for people: the function, and in which function of the
    /// symbol table that stands. Empty for a scope that was not inlined.
    pub fn owner(&self, scope: &Scope) -> String {
        let Some(number) = scope.parent else {
            return String::new();
        };
        let outermost = self.parents(number).last().unwrap_or(number);
        let (Some(inner), Some(outer)) = (self.scopes.get(number), self.scopes.get(outermost))
        else {
            return String::new();
        };
        // The symbol's name is whole, whatever DWARF leaves out.
        let outer = self
            .symbol_at(outer.entry)
            .map_or_else(|| outer.name(), |symbol| symbol.name.clone());
        if number == outermost {
            outer
        } else {
            format!("{}, in {outer}", inner.name())
        }
    }
}

fn symbols(file: &object::File<'_>) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .filter_map(|symbol| {
            let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
            Some(Symbol {
                name,
                range: symbol.address()..symbol.address().checked_add(symbol.size())?,
            })
        })
        .collect();
    symbols.sort_by_key(|symbol| (symbol.range.start, symbol.range.end));
    symbols.dedup_by(|next, symbol| next.range == symbol.range && next.name == symbol.name);
    symbols
}
