//! Names of functions with their namespaces, from `.debug_info`.
//!
//! Most functions have a linkage name, which says all. Those without one have only the last part of
//! their name, and their namespaces, types and functions around them have the others: constructors
//! and functions of C++ that no other file can call, and what compilers other than rustc leave out.

use std::collections::{HashMap, HashSet};

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwLang, DwTag, EndianSlice, RunTimeEndian,
    UnitOffset, UnitRef,
};

use crate::table::text_of;

pub(crate) type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type Entry<'a> = DebuggingInformationEntry<Bytes<'a>>;

/// A namespace without a name, as demanglers of C++ write it.
const ANONYMOUS: &str = "(anonymous namespace)";

/// Origins that lead from an entry to one with a name. Chains are short; the limit ends a cycle in
/// damaged data.
const LONGEST_CHAIN: usize = 8;

/// Function names by the offset of their entry in `.debug_info`.
#[derive(Default)]
pub(crate) struct Names {
    own: HashMap<usize, (String, String)>,
    /// Entries that take their name from another entry.
    same_as: HashMap<usize, usize>,
}

impl Names {
    pub(crate) fn read(&mut self, unit: UnitRef<'_, Bytes<'_>>) -> Result<(), gimli::Error> {
        let mut path: Vec<(isize, String)> = Vec::new();
        let mut entries = unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while path.last().is_some_and(|&(of, _)| of >= depth) {
                path.pop();
            }
            let mut name = text(unit, entry, gimli::DW_AT_name)?;
            match entry.tag() {
                gimli::DW_TAG_namespace => {
                    name.get_or_insert_with(|| ANONYMOUS.to_owned());
                }
                gimli::DW_TAG_subprogram => {
                    let offset = global(unit, entry.offset());
                    if let Some(other) = reference(unit, entry)? {
                        self.same_as.insert(offset, other);
                    } else if let Some(name) = &name {
                        let parents: Vec<&str> =
                            path.iter().map(|(_, name)| name.as_str()).collect();
                        self.own.insert(offset, (parents.join("::"), name.clone()));
                    }
                }
                tag if !is_named_scope(tag) => continue,
                _ => {}
            }
            path.extend(name.map(|name| (depth, name)));
        }
        Ok(())
    }

    pub(crate) fn of(&self, mut offset: usize) -> Option<(String, String)> {
        for _ in 0..LONGEST_CHAIN {
            if let Some(name) = self.own.get(&offset) {
                return Some(name.clone());
            }
            offset = *self.same_as.get(&offset)?;
        }
        None
    }

    fn knows(&self, offset: usize) -> bool {
        self.own.contains_key(&offset) || self.same_as.contains_key(&offset)
    }
}

/// Full names of the functions of entries. A unit is read when one of its names is asked for.
#[derive(Default)]
pub(crate) struct FullNames {
    /// By the number of the file with the unit's debug information; `None` for the image itself.
    files: HashMap<Option<u64>, FileNames>,
}

#[derive(Default)]
struct FileNames {
    names: Names,
    /// Where the units begin that have been read.
    units: HashSet<usize>,
}

impl FullNames {
    /// Namespaces and name of an entry's function: `kernel::Queue::push`. `None` if it has no
    /// namespaces, or no name.
    pub(crate) fn of(
        &mut self,
        unit: UnitRef<'_, Bytes<'_>>,
        entry: UnitOffset,
    ) -> Result<Option<String>, gimli::Error> {
        let file = self.files.entry(unit.dwo_id.map(|id| id.0)).or_default();
        let own = global(unit, entry);
        let origin = reference(unit, &unit.entry(entry)?)?;
        file.read(unit)?;
        let mut offset = origin.unwrap_or(own);
        for _ in 0..LONGEST_CHAIN {
            file.read_unit_of(unit, offset)?;
            match file.names.same_as.get(&offset) {
                Some(next) => offset = *next,
                None => break,
            }
        }
        let name = file.names.of(offset);
        let name = name.filter(|(path, _)| !path.is_empty());
        Ok(name.map(|(path, leaf)| format!("{path}::{leaf}")))
    }
}

impl FileNames {
    fn read(&mut self, unit: UnitRef<'_, Bytes<'_>>) -> Result<(), gimli::Error> {
        let begin = unit.header.debug_info_offset();
        let begin = begin.map_or(usize::MAX, |offset| offset.0);
        match self.units.insert(begin) {
            true => self.names.read(unit),
            false => Ok(()),
        }
    }

    /// Reads the unit that an entry is in: another one than that which refers to it, where code was
    /// inlined across files.
    fn read_unit_of(
        &mut self,
        from: UnitRef<'_, Bytes<'_>>,
        offset: usize,
    ) -> Result<(), gimli::Error> {
        if self.names.knows(offset) {
            return Ok(());
        }
        let mut headers = from.dwarf.units();
        while let Some(header) = headers.next()? {
            let Some(begin) = header.debug_info_offset().map(|offset| offset.0) else {
                continue;
            };
            if (begin..begin.saturating_add(header.length_including_self())).contains(&offset) {
                let unit = from.dwarf.unit(header)?;
                return self.read(unit.unit_ref(from.dwarf));
            }
        }
        Ok(())
    }
}

/// Whether functions of a language are in namespaces or types.
pub(crate) fn has_namespaces(language: Option<DwLang>) -> bool {
    !matches!(
        language,
        Some(
            gimli::DW_LANG_C
                | gimli::DW_LANG_C89
                | gimli::DW_LANG_C99
                | gimli::DW_LANG_C11
                | gimli::DW_LANG_C17
                | gimli::DW_LANG_Mips_Assembler
        )
    )
}

fn is_named_scope(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_enumeration_type
            | gimli::DW_TAG_union_type
    )
}

pub(crate) fn global(unit: UnitRef<'_, Bytes<'_>>, offset: gimli::UnitOffset) -> usize {
    offset
        .to_debug_info_offset(&unit.header)
        .map_or(usize::MAX, |offset| offset.0)
}

/// The entry to which this one refers as its origin or declaration.
pub(crate) fn reference<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    entry: &Entry<'a>,
) -> Result<Option<usize>, gimli::Error> {
    for name in [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification] {
        match entry.attr_value(name) {
            Some(AttributeValue::UnitRef(offset)) => return Ok(Some(global(unit, offset))),
            Some(AttributeValue::DebugInfoRef(offset)) => return Ok(Some(offset.0)),
            _ => {}
        }
    }
    Ok(None)
}

fn text<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    entry: &Entry<'a>,
    name: gimli::DwAt,
) -> Result<Option<String>, gimli::Error> {
    let Some(value) = entry.attr_value(name) else {
        return Ok(None);
    };
    let text = unit.attr_string(value)?;
    Ok(Some(text_of(text.slice()).into_owned()))
}
