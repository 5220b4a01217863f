//! A kernel's code by name: functions from the symbol table, and what was inlined where from DWARF.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{
    AttributeValue, DebuggingInformationEntry, DwTag, EndianSlice, RunTimeEndian, UnitRef,
};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// A function of the symbol table.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// The name, demangled, without the compiler's hash.
    pub name: String,
    /// Its addresses; never empty.
    pub range: Range<u64>,
}

/// Code that DWARF attributes to a function: the function itself, or one place where it was
/// inlined.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The namespaces that the function is in: `kymo::tracer::Tracer`. Empty with
    /// `debug = "line-tables-only"`, which leaves them out.
    pub path: String,
    /// Its name with generic arguments: `record<hello::Virt, hello::Marker>`.
    pub leaf: String,
    /// Its pieces, sorted; at least one.
    pub ranges: Vec<Range<u64>>,
    /// Where DWARF says that it is entered, else its lowest address.
    pub entry: u64,
    /// The scope that it was inlined into, by number; `None` for a function.
    pub parent: Option<usize>,
}

impl Scope {
    /// Path and name.
    pub fn name(&self) -> String {
        if self.path.is_empty() {
            self.leaf.clone()
        } else {
            format!("{}::{}", self.path, self.leaf)
        }
    }

    /// The name without generic arguments.
    pub fn base(&self) -> &str {
        self.leaf.split('<').next().unwrap_or_default()
    }

    /// The generic arguments.
    pub fn arguments(&self) -> Vec<&str> {
        let Some((_, arguments)) = self
            .leaf
            .strip_suffix('>')
            .and_then(|leaf| leaf.split_once('<'))
        else {
            return Vec::new();
        };
        let mut depth = 0;
        let is_comma = |letter: char| {
            match letter {
                '<' | '(' | '[' | '{' => depth += 1,
                '>' | ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            letter == ',' && depth == 0
        };
        arguments.split(is_comma).map(str::trim).collect()
    }
}

/// What is known of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The symbol table's functions, by address.
    pub symbols: Vec<Symbol>,
    /// DWARF's scopes; each stands behind its parent. Empty: there is no DWARF.
    pub scopes: Vec<Scope>,
}

type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;
type Entry<'a, 'u> = DebuggingInformationEntry<'u, 'u, Bytes<'a>>;

impl Code {
    /// Reads an ELF file. The error is what is wrong with it, without its name.
    pub fn read(file: &object::File<'_>) -> Result<Code, String> {
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
        let scopes = scopes(file).map_err(|error| format!("its DWARF cannot be read: {error}"))?;
        Ok(Code { symbols, scopes })
    }

    /// What contains a scope: the function that it was inlined into, and in which function that
    /// stands.
    pub fn owner(&self, scope: &Scope) -> String {
        let Some(parent) = scope.parent.and_then(|parent| self.scopes.get(parent)) else {
            return String::new();
        };
        let mut outermost = parent;
        while let Some(next) = outermost.parent.and_then(|parent| self.scopes.get(parent)) {
            outermost = next;
        }
        // The symbol's name is whole, whatever DWARF leaves out.
        let symbol = self
            .symbols
            .iter()
            .find(|symbol| symbol.range.contains(&outermost.entry));
        let (inner, outer) = (
            parent.name(),
            symbol.map_or_else(|| outermost.name(), |symbol| symbol.name.clone()),
        );
        if std::ptr::eq(parent, outermost) {
            outer
        } else {
            format!("{inner}, in {outer}")
        }
    }
}

fn scopes(file: &object::File<'_>) -> Result<Vec<Scope>, gimli::Error> {
    let endian = if file.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    // A section that is not there, or is compressed, is empty.
    let load = |id: gimli::SectionId| {
        let section = file.section_by_name(id.name());
        let bytes = section
            .and_then(|section| section.data().ok())
            .unwrap_or_default();
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, endian))
    };
    let dwarf = gimli::Dwarf::load(load)?;
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

/// The functions' names, by the offset of their entry in `.debug_info`.
#[derive(Default)]
struct Names {
    own: HashMap<usize, (String, String)>,
    /// Entries that say: as that one.
    same_as: HashMap<usize, usize>,
}

impl Names {
    fn read(&mut self, unit: UnitRef<'_, Bytes<'_>>) -> Result<(), gimli::Error> {
        let mut path: Vec<(isize, String)> = Vec::new();
        let mut depth = 0;
        let mut entries = unit.entries();
        while let Some((step, entry)) = entries.next_dfs()? {
            depth += step;
            while path.last().is_some_and(|&(of, _)| of >= depth) {
                path.pop();
            }
            let name = text(unit, entry, gimli::DW_AT_name)?;
            match entry.tag() {
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

    fn of(&self, mut offset: usize) -> Option<(String, String)> {
        // A chain of a few links; a ring of them would be damage.
        for _ in 0..8 {
            if let Some(name) = self.own.get(&offset) {
                return Some(name.clone());
            }
            offset = *self.same_as.get(&offset)?;
        }
        None
    }
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

fn read_scopes(
    unit: UnitRef<'_, Bytes<'_>>,
    names: &Names,
    scopes: &mut Vec<Scope>,
) -> Result<(), gimli::Error> {
    let mut open: Vec<(isize, usize)> = Vec::new();
    let mut depth = 0;
    let mut entries = unit.entries();
    while let Some((step, entry)) = entries.next_dfs()? {
        depth += step;
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
        let entry = match entry.attr_value(gimli::DW_AT_entry_pc)? {
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

/// Sorted and joined, without empty ones and those of code that the linker dropped (which begin at
/// 0).
fn ranges<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    entry: &Entry<'a, '_>,
) -> Result<Vec<Range<u64>>, gimli::Error> {
    let mut found = Vec::new();
    let mut ranges = unit.die_ranges(entry)?;
    while let Some(range) = ranges.next()? {
        if range.begin < range.end && range.begin > 0 {
            found.push(range.begin..range.end);
        }
    }
    Ok(joined(found))
}

/// Sorted, and those that touch made one.
pub fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let joins = next.start <= range.end;
        if joins {
            range.end = range.end.max(next.end);
        }
        joins
    });
    ranges
}

fn global(unit: UnitRef<'_, Bytes<'_>>, offset: gimli::UnitOffset) -> usize {
    offset
        .to_debug_info_offset(&unit.header)
        .map_or(usize::MAX, |offset| offset.0)
}

/// The entry that this one refers to as its origin or its declaration.
fn reference<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    entry: &Entry<'a, '_>,
) -> Result<Option<usize>, gimli::Error> {
    for name in [gimli::DW_AT_abstract_origin, gimli::DW_AT_specification] {
        match entry.attr_value(name)? {
            Some(AttributeValue::UnitRef(offset)) => return Ok(Some(global(unit, offset))),
            Some(AttributeValue::DebugInfoRef(offset)) => return Ok(Some(offset.0)),
            _ => {}
        }
    }
    Ok(None)
}

fn text<'a>(
    unit: UnitRef<'_, Bytes<'a>>,
    entry: &Entry<'a, '_>,
    name: gimli::DwAt,
) -> Result<Option<String>, gimli::Error> {
    let Some(value) = entry.attr_value(name)? else {
        return Ok(None);
    };
    let text = unit.attr_string(value)?;
    Ok(Some(text.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_arguments() {
        let of = |leaf: &str| {
            let scope = Scope {
                path: String::new(),
                leaf: leaf.to_owned(),
                ranges: Vec::new(),
                entry: 0,
                parent: None,
            };
            (
                scope.base().to_owned(),
                scope
                    .arguments()
                    .into_iter()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            )
        };
        let is = |leaf: &str, base: &str, arguments: &[&str]| {
            assert_eq!(
                of(leaf),
                (
                    base.to_owned(),
                    arguments
                        .iter()
                        .map(|argument| (*argument).to_owned())
                        .collect()
                )
            );
        };
        is(
            "is_on<hello::Virt, hello::Marker>",
            "is_on",
            &["hello::Virt", "hello::Marker"],
        );
        is("record<a::B<c::D, e::F>>", "record", &["a::B<c::D, e::F>"]);
        is("f<(A, B), [C; 2]>", "f", &["(A, B)", "[C; 2]"]);
        is("plain", "plain", &[]);
    }

    #[test]
    fn ranges_are_joined() {
        assert_eq!(joined(vec![8..12, 0..4, 4..6, 10..11]), [0..6, 8..12]);
    }
}
