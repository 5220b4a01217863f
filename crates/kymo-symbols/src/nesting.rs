//! How deep functions are inlined into each other, by debug information.

use std::ops::Range;

use gimli::{EndianSlice, RunTimeEndian, UnitRef, UnitType};

use crate::join_ranges;
use crate::split::SplitUnit;

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// The deepest nesting that is read. addr2line calls itself for every level, so a file could make
/// its stack overflow; compilers nest some tens of functions.
pub(crate) const DEEPEST: usize = 256;

/// What is special about the units that may hold some addresses.
#[derive(Default)]
pub(crate) struct Units {
    /// Sorted addresses of those in which functions are nested deeper than [`DEEPEST`].
    pub(crate) deep: Vec<Range<u64>>,
    /// Those of which the debug information is in another file.
    pub(crate) split: Vec<SplitUnit>,
}

/// Looks at the units that may hold one of the sorted `addresses`.
pub(crate) fn units(
    dwarf: &gimli::Dwarf<Bytes<'_>>,
    addresses: &[u64],
) -> Result<Units, gimli::Error> {
    let asked = |range: &Range<u64>| {
        let behind = addresses.partition_point(|address| *address < range.start);
        addresses.get(behind).is_some_and(|at| *at < range.end)
    };
    let mut listed: Vec<(usize, Range<u64>)> = Vec::new();
    let mut headers = dwarf.debug_aranges.headers();
    while let Some(header) = headers.next()? {
        let unit = header.debug_info_offset().0;
        let mut entries = header.entries();
        while let Some(entry) = entries.next().transpose() {
            listed.extend(entry.map(|of| (unit, of.range().begin..of.range().end)));
        }
    }
    listed.sort_by_key(|(unit, _)| *unit);
    let mut found = Units::default();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        let Ok(unit) = dwarf.unit(header) else {
            continue;
        };
        // Other units have no code.
        if matches!(
            unit.header.type_(),
            UnitType::Partial | UnitType::Type { .. } | UnitType::SplitType { .. }
        ) {
            continue;
        }
        let unit = unit.unit_ref(dwarf);
        let offset = unit.header.debug_info_offset().map(|offset| offset.0);
        let first = listed.partition_point(|(of, _)| Some(*of) < offset);
        let own = listed.iter().skip(first);
        let own = own.take_while(|(of, _)| Some(*of) == offset);
        let mut ranges: Vec<Range<u64>> = own.map(|(_, range)| range.clone()).collect();
        let has_own = ranges_of(unit, &mut ranges).is_ok() && !ranges.is_empty();
        if !has_own && unit.line_program.is_some() {
            // The unit's lines may say where it is.
            ranges.push(0..u64::MAX);
        }
        if ranges.iter().any(asked) {
            found.split.extend(SplitUnit::of(unit));
            if is_too_deep(unit)? {
                found.deep.extend(ranges);
            }
        }
    }
    found.deep = join_ranges(found.deep);
    Ok(found)
}

fn ranges_of(unit: UnitRef<'_, Bytes<'_>>, to: &mut Vec<Range<u64>>) -> Result<(), gimli::Error> {
    let mut ranges = unit.unit_ranges()?;
    while let Some(range) = ranges.next()? {
        if range.begin < range.end {
            to.push(range.begin..range.end);
        }
    }
    Ok(())
}

/// Whether functions of the unit are inlined into each other deeper than [`DEEPEST`].
pub(crate) fn is_too_deep(unit: UnitRef<'_, Bytes<'_>>) -> Result<bool, gimli::Error> {
    let mut entries = unit.entries_raw(None)?;
    // Depths of the inlined functions that are open.
    let mut open: Vec<isize> = Vec::new();
    while !entries.is_empty() {
        let depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        while open.last().is_some_and(|of| *of >= depth) {
            open.pop();
        }
        if abbreviation.tag() == gimli::DW_TAG_inlined_subroutine {
            open.push(depth);
            if open.len() > DEEPEST {
                return Ok(true);
            }
        }
        entries.skip_attributes(abbreviation.attributes())?;
    }
    Ok(false)
}
