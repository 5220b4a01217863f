//! Maps a program's code to names: functions from the ELF symbol table, and inlined functions from
//! DWARF.
//!
//! [`Image`] names what is at addresses, with files and lines. [`Unwinder`] finds the callers of an
//! instruction on a copy of the stack, by the tables of programs that keep no frame pointers.
//! [`CodeSizes`] says how large the functions are, and [`path()`] splits their names. Where symbols
//! overlap, [`SymbolTable`] says for all of them to which one an address belongs.
//!
//! The crate takes bytes and opens no files. Names of Rust and C++ are demangled; others are left
//! unchanged.
//!
//! # What it is not
//! It is no disassembler, and it looks at no running program.
//!
//! # Invariants
//! - Symbols are sorted by address; none is empty.
//! - A scope comes after the scope into which it was inlined.
//!
//! # Example
//! ```
//! let error = kymo_symbols::CodeMap::parse(b"no program").unwrap_err();
//! assert_eq!(error.to_string(), "not an ELF file");
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod dwarf;
mod image;
mod names;
mod nesting;
mod path;
mod scope;
mod size;
mod split;
mod table;
mod unwind;

use std::ops::Range;

pub use image::{CodeFrame, Function, Image, Loaded, Located, demangled};
pub use path::path;
pub use scope::{Scope, join_ranges};
pub use size::CodeSizes;
pub use split::{FindSplitFile, SplitFile};
pub use table::{SymbolTable, text_of};
pub use unwind::{Chain, ChainEnd, Registers, StackCopy, Unwinder};

/// Why a program's code cannot be mapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes do not begin as an ELF file does.
    #[error("not an ELF file")]
    NotElf,
    /// The bytes begin as an ELF file does, but its tables cannot be read.
    #[error("a damaged or truncated ELF file")]
    Damaged,
    /// The debug information is damaged or unsupported.
    #[error("its DWARF cannot be read: {reason}")]
    Dwarf {
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// Always [`InvalidData`](std::io::ErrorKind::InvalidData): every error is in the program's
    /// file.
    pub fn kind(&self) -> std::io::ErrorKind {
        std::io::ErrorKind::InvalidData
    }

    /// Advice for the user, as a clause that begins with a verb.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Error::NotElf => "give the program as the linker made it, not as a flat binary",
            Error::Damaged => "copy the file again, or build the program again",
            Error::Dwarf { .. } => "build the program again, without stripping it",
        })
    }
}

/// A function of the symbol table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The demangled name, without the compiler's hash.
    pub name: String,
    /// Its addresses; never empty.
    pub range: Range<u64>,
}

/// The functions of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeMap {
    /// The functions of the symbol table, by address.
    pub symbols: Vec<Symbol>,
    /// DWARF's scopes, each after its parent. Empty if the program has no DWARF.
    pub scopes: Vec<Scope>,
    table: SymbolTable,
}

impl CodeMap {
    /// A map of these functions and scopes.
    pub fn new(symbols: Vec<Symbol>, scopes: Vec<Scope>) -> CodeMap {
        CodeMap {
            table: SymbolTable::new(symbols.iter().map(|symbol| symbol.range.clone())),
            symbols,
            scopes,
        }
    }

    /// Reads an ELF file.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(elf: &[u8]) -> Result<CodeMap, Error> {
        let file = parse(elf)?;
        let scopes = dwarf::scopes(&file).map_err(|error| Error::Dwarf {
            reason: error.to_string(),
        })?;
        Ok(CodeMap::new(symbols(&file), scopes))
    }

    /// The function of the symbol table that contains the address: of several, the innermost.
    pub fn symbol_at(&self, address: u64) -> Option<&Symbol> {
        self.symbols.get(self.table.at(address)?)
    }

    /// Indices of the scopes into which a scope was inlined, from the inside out.
    pub fn parents(&self, scope: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(scope), |&scope| self.scopes.get(scope)?.parent).skip(1)
    }

    /// Description of what a scope was inlined into: the function, and the function of the symbol
    /// table that contains it. Empty for a scope that was not inlined.
    pub fn owner(&self, scope: &Scope) -> String {
        let Some(number) = scope.parent else {
            return String::new();
        };
        let outermost = self.parents(number).last().unwrap_or(number);
        let (Some(inner), Some(outer)) = (self.scopes.get(number), self.scopes.get(outermost))
        else {
            return String::new();
        };
        // The symbol's name is complete, even if DWARF leaves out namespaces.
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

/// The functions of an ELF file's symbol tables, by address, with the names that
/// [`demangled()`] gives. Debug information is not read.
///
/// # Errors
/// [`Error::NotElf`], [`Error::Damaged`].
pub fn functions(elf: &[u8]) -> Result<Vec<Symbol>, Error> {
    Ok(symbols(&parse(elf)?))
}

/// Opens an ELF file.
fn parse(elf: &[u8]) -> Result<object::File<'_>, Error> {
    object::File::parse(elf).map_err(|_| match elf.starts_with(b"\x7fELF") {
        true => Error::Damaged,
        false => Error::NotElf,
    })
}

/// The functions of the symbol tables, as every reader of them takes them.
fn symbols(file: &object::File<'_>) -> Vec<Symbol> {
    let functions = table::functions(file).into_iter();
    functions
        .map(|function| Symbol {
            name: demangled(&function.name),
            range: function.range,
        })
        .collect()
}
