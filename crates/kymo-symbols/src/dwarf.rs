//! Reads inlined functions from `.debug_info` (DWARF 5, section 3.3; also DWARF 4).

use std::borrow::Cow;
use std::ops::Range;

use gimli::{AttributeValue, DwarfSections, EndianSlice, RunTimeEndian, UnitRef};
use object::{Object, ObjectSection};

use crate::names::{Bytes, Entry, Names, global, reference};
use crate::scope::{Scope, join_ranges};

/// The scopes of a file, each after its parent; empty if there is no DWARF.
pub(crate) fn scopes(file: &object::File<'_>) -> Result<Vec<Scope>, gimli::Error> {
    let endian = if file.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let sections = sections(file)?;
    let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, endian));
    let mut headers = dwarf.units();
    let mut units = Vec::new();
    while let Some(header) = headers.next()? {
        units.push(dwarf.unit(header)?);
    }
    let mut names = Names::default();
    for unit in &units {
        names.read(unit.unit_ref(&dwarf))?;
    }
    let mut scopes = Vec::new();
    for unit in &units {
        read_scopes(unit.unit_ref(&dwarf), &names, &mut scopes)?;
    }
    Ok(scopes)
}

/// The debug sections, unpacked where they are compressed. A missing one, or one that cannot be
/// unpacked, counts as empty.
pub(crate) fn sections<'d>(
    file: &object::File<'d>,
) -> Result<DwarfSections<Cow<'d, [u8]>>, gimli::Error> {
    DwarfSections::load(|id| {
        let section = file.section_by_name(id.name());
        let bytes = section.and_then(|section| section.uncompressed_data().ok());
        Ok(bytes.unwrap_or_default())
    })
}

fn read_scopes(
    unit: UnitRef<'_, Bytes<'_>>,
    names: &Names,
    scopes: &mut Vec<Scope>,
) -> Result<(), gimli::Error> {
    let mut open: Vec<(isize, usize)> = Vec::new();
    let mut entries = unit.entries();
    while let Some(entry) = entries.next_dfs()? {
        let depth = entry.depth();
        while open.last().is_some_and(|&(of, _)| of >= depth) {
            open.pop();
        }
        let inlined = entry.tag() == gimli::DW_TAG_inlined_subroutine;
        if !inlined && entry.tag() != gimli::DW_TAG_subprogram {
            continue;
        }
        let ranges = ranges(unit, entry)?;
        let own = global(unit, entry.offset());
        let function = if inlined {
            reference(unit, entry)?.unwrap_or(own)
        } else {
            own
        };
        let (Some(lowest), Some((path, leaf))) =
            (ranges.first().map(|range| range.start), names.of(function))
        else {
            continue;
        };
        let entry = match entry.attr_value(gimli::DW_AT_entry_pc) {
            Some(AttributeValue::Udata(offset)) => lowest.wrapping_add(offset),
            Some(value) => unit.attr_address(value)?.unwrap_or(lowest),
            None => lowest,
        };
        let entry = if ranges.iter().any(|range| range.contains(&entry)) {
            entry
        } else {
            lowest
        };
        let parent = if inlined {
            open.last().map(|&(_, scope)| scope)
        } else {
            None
        };
        open.push((depth, scopes.len()));
        scopes.push(Scope {
            path,
            leaf,
            ranges,
            entry,
            parent,
        });
    }
    Ok(())
}

/// An entry's address ranges, sorted and joined, without empty ones and those of code that the
/// linker removed (which begin at 0).
fn ranges<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    entry: &Entry<'a>,
) -> Result<Vec<Range<u64>>, gimli::Error> {
    let mut found = Vec::new();
    let mut ranges = unit.die_ranges(entry)?;
    while let Some(range) = ranges.next()? {
        if range.begin < range.end && range.begin > 0 {
            found.push(range.begin..range.end);
        }
    }
    Ok(join_ranges(found))
}
