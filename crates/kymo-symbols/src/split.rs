//! Debug information in files of its own: `.dwo` files, or all of them in one `.dwp` (DWARF 5,
//! section 7.3.2; also GNU's extension to DWARF 4).

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use addr2line::{LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{DwarfPackageSections, DwarfSections, EndianSlice, RunTimeEndian, UnitRef};
use object::{Object, ObjectSection};

use crate::nesting::is_too_deep;
use crate::table::text_of;

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;
type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;

/// A file with a part of an image's debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitFile {
    /// The one with all parts, which is called after the image: `program.dwp`.
    Package,
    /// The one with the part of a source file.
    Unit {
        /// The directory in which the compiler ran.
        directory: String,
        /// The file's path, from there if it is relative.
        path: String,
    },
}

/// Finds the bytes of a file, if it is there.
pub type FindSplitFile<'d> = dyn Fn(&SplitFile) -> Option<Vec<u8>> + 'd;

/// A unit of an image of which the debug information is elsewhere.
pub(crate) struct SplitUnit {
    id: u64,
    file: SplitFile,
}

impl SplitUnit {
    /// What a unit says of its file; `None` for one that is complete.
    pub(crate) fn of(unit: UnitRef<'_, Bytes<'_>>) -> Option<SplitUnit> {
        let id = unit.dwo_id?.0;
        let path = unit.dwo_name().ok().flatten()?;
        let path = unit.attr_string(path).ok()?;
        let text = |bytes: Bytes<'_>| text_of(bytes.slice()).into_owned();
        Some(SplitUnit {
            id,
            file: SplitFile::Unit {
                directory: unit.comp_dir.map(text).unwrap_or_default(),
                path: text(path),
            },
        })
    }
}

/// The bytes of the files that were found.
#[derive(Default)]
pub(crate) struct SplitBytes {
    package: Option<Vec<u8>>,
    units: Vec<(u64, Vec<u8>)>,
    /// Paths of those that were not.
    pub(crate) missing: Vec<String>,
}

impl SplitBytes {
    /// Reads the files of these units. One that is no object file counts as missing.
    pub(crate) fn find(units: &[SplitUnit], find: Option<&FindSplitFile<'_>>) -> SplitBytes {
        let mut bytes = SplitBytes::default();
        if units.is_empty() {
            return bytes;
        }
        let is_object = |bytes: &Vec<u8>| object::File::parse(&**bytes).is_ok();
        let find = |file| find.and_then(|find| find(file)).filter(is_object);
        bytes.package = find(&SplitFile::Package);
        for unit in units {
            if bytes.package.is_some() {
                break;
            }
            match (find(&unit.file), &unit.file) {
                (Some(found), _) => bytes.units.push((unit.id, found)),
                (None, SplitFile::Unit { path, .. }) => bytes.missing.push(path.clone()),
                (None, SplitFile::Package) => {}
            }
        }
        bytes
    }

    /// The debug sections of the files, unpacked.
    pub(crate) fn sections(&self) -> SplitSections<'_> {
        let package = self.package.as_deref().and_then(|bytes| {
            let file = object::File::parse(bytes).ok()?;
            DwarfPackageSections::load(|id| section(&file, id.dwo_name())).ok()
        });
        let units = self.units.iter().filter_map(|(id, bytes)| {
            let file = object::File::parse(&**bytes).ok()?;
            let sections = DwarfSections::load(|id| section(&file, id.dwo_name())).ok()?;
            Some((*id, sections))
        });
        SplitSections {
            package,
            units: units.collect(),
            refused: Cell::new(0),
        }
    }
}

fn section<'d>(file: &object::File<'d>, name: Option<&str>) -> Result<Cow<'d, [u8]>, gimli::Error> {
    let section = name.and_then(|name| file.section_by_name(name));
    let bytes = section.and_then(|section| section.uncompressed_data().ok());
    Ok(bytes.unwrap_or_default())
}

/// The sections of the files that were found.
pub(crate) struct SplitSections<'d> {
    package: Option<DwarfPackageSections<Cow<'d, [u8]>>>,
    units: HashMap<u64, Sections<'d>>,
    /// How many parts were asked for that are there and cannot be used.
    refused: Cell<usize>,
}

impl<'d> SplitSections<'d> {
    /// The result of a lookup, with the files that it asks for.
    pub(crate) fn resolve<'s, L>(
        &'s self,
        mut result: LookupResult<L>,
        endian: RunTimeEndian,
    ) -> L::Output
    where
        L: LookupContinuation<Buf = Bytes<'s>>,
    {
        loop {
            match result {
                LookupResult::Output(output) => return output,
                LookupResult::Load { load, continuation } => {
                    let found = self.load(&load, endian).ok().flatten();
                    let is_there =
                        self.package.is_some() || self.units.contains_key(&load.dwo_id.0);
                    if found.is_none() && is_there {
                        self.refused.set(self.refused.get() + 1);
                    }
                    result = continuation.resume(found.map(Arc::new));
                }
            }
        }
    }

    /// How many parts are there and cannot be used.
    pub(crate) fn refused(&self) -> usize {
        self.refused.get()
    }

    /// The debug information for a unit. `None` if it is not there, is another version's, or nests
    /// too deep.
    fn load<'s>(
        &'s self,
        load: &SplitDwarfLoad<Bytes<'s>>,
        endian: RunTimeEndian,
    ) -> Result<Option<gimli::Dwarf<Bytes<'s>>>, gimli::Error> {
        let bytes = |bytes: &'s Cow<'d, [u8]>| EndianSlice::new(bytes, endian);
        let found = match &self.package {
            Some(package) => {
                let package = package.borrow(bytes, EndianSlice::new(&[], endian))?;
                package.find_cu(load.dwo_id, &load.parent)?
            }
            None => self.units.get(&load.dwo_id.0).map(|sections| {
                let mut dwarf = sections.borrow(bytes);
                dwarf.make_dwo(&load.parent);
                dwarf
            }),
        };
        let Some(dwarf) = found else {
            return Ok(None);
        };
        // addr2line reads the first unit.
        let Some(header) = dwarf.units().next()? else {
            return Ok(None);
        };
        let unit = dwarf.unit(header)?;
        let is_meant = unit.dwo_id == Some(load.dwo_id);
        let is_usable = is_meant && !is_too_deep(unit.unit_ref(&dwarf))?;
        Ok(is_usable.then_some(dwarf))
    }
}
