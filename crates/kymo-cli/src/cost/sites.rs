//! The code that `kymo cost` counts: the places where events are recorded, functions by pattern,
//! and address ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use kymo::vocabulary::TYPES;
use kymo_symbols::{CodeMap, Scope, join_ranges};

use crate::pattern::matches;

/// One counted piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Why it is counted.
    pub kind: Kind,
    /// The event's type, the function, or the range.
    pub name: String,
    /// The function into which the code was inlined; `None` for a function of its own or a range.
    pub inlined_in: Option<String>,
    /// Address ranges of the code.
    pub ranges: Vec<Range<u64>>,
    /// Addresses at which a call begins, ascending: for an event, every copy of its on/off test.
    pub entries: Vec<u64>,
    /// Pieces of on/off tests: a call begins with each that loads.
    pub tests: Vec<Range<u64>>,
    /// Instructions of which a recording call executes one, ascending; for events with an on/off
    /// test. Empty, without `callees`: every call counts.
    pub marks: Vec<u64>,
    /// Functions of which a recording call calls one.
    pub callees: Vec<u64>,
}

impl Site {
    /// The event's name in the trace. In C it has no other.
    pub fn trace_name(&self) -> String {
        match self.callees.is_empty() {
            true => trace_name(&self.name),
            false => self.name.clone(),
        }
    }
}

/// Why a site is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An event is recorded there.
    Event,
    /// A slow path of the library.
    SlowPath,
    /// A function of the library that records events of kernels in C.
    Library,
    /// The user asked for the function.
    Function,
    /// The user asked for the range.
    Range,
}

/// Whether the plugin follows calls in an ELF file's code.
pub fn is_followed(elf: &[u8]) -> bool {
    // The machine, at byte 18: ELF specification, "ELF Header".
    const FOLLOWED: [u16; 4] = [3, 62, 183, 243]; // 386, x86-64, AArch64, RISC-V
    let machine = elf.get(18..20).and_then(|bytes| bytes.try_into().ok());
    machine.is_some_and(|bytes| FOLLOWED.contains(&u16::from_le_bytes(bytes)))
}

/// The last component of a path: `Marker` for `hello::Marker`.
pub fn short(path: &str) -> &str {
    path.split('<')
        .next()
        .and_then(|path| path.rsplit("::").next())
        .unwrap_or(path)
}

/// The event's name in the trace: from the standard vocabulary, else derived as `event!` does.
pub fn trace_name(event: &str) -> String {
    let standard = TYPES
        .iter()
        .copied()
        .flatten()
        .find(|(name, _)| *name == short(event));
    if let (true, Some((_, name))) = (event.starts_with("kymo::vocabulary::"), standard) {
        return (*name).to_owned();
    }
    let mut name = String::new();
    for (index, letter) in short(event).chars().enumerate() {
        if index > 0 && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// The tracer's functions that record one event.
const RECORDS: [&str; 4] = [
    "record",
    "record_masked",
    "record_in_place",
    "record_in_place_masked",
];

/// The event type, if the scope is one of the tracer's functions for one event.
fn tracer_call(scope: &Scope) -> Option<&str> {
    // The first argument is the platform, and a closure may be the third. The functions of the same
    // names that these call have other numbers of arguments.
    let arguments = scope.arguments();
    let event = match (scope.base(), &arguments[..]) {
        ("is_on" | "record" | "record_masked", &[_platform, event])
        | ("record_in_place" | "record_in_place_masked", &[_platform, event, _]) => event,
        _ => return None,
    };
    let is_tracer = scope.path.is_empty() || scope.path.starts_with("kymo::tracer::Tracer");
    // No event has arguments of its own. Other functions with such a name have iterators there.
    (is_tracer && !event.contains('<')).then_some(event)
}

/// The functions and inlined copies in which events are recorded: for each the code that DWARF
/// attributes to `Tracer::is_on` and `Tracer::record` for one event, be it one tracepoint or
/// several.
pub fn events(code: &CodeMap) -> Vec<Site> {
    // `is_on` scopes and `record` scopes, by event and by the scope into which they were inlined.
    let mut places: BTreeMap<(Option<usize>, &str), [Vec<usize>; 2]> = BTreeMap::new();
    for (number, scope) in code.scopes.iter().enumerate() {
        let Some(event) = tracer_call(scope) else {
            continue;
        };
        // A function that it calls may have the same name.
        if code.parents(number).any(|parent| {
            code.scopes
                .get(parent)
                .is_some_and(|parent| tracer_call(parent) == Some(event))
        }) {
            continue;
        }
        let is_record = RECORDS.contains(&scope.base());
        // An `is_on` that was not inlined is part of its callers' cost.
        if scope.parent.is_some() || is_record {
            let parent = scope.parent.or(Some(number));
            places.entry((parent, event)).or_default()[usize::from(is_record)].push(number);
        }
    }
    let sites = places
        .iter()
        .filter_map(|((_, event), [tests, records])| event_site(code, event, tests, records));
    sites.collect()
}

/// The site of an event in one function. The compiler may have copied tests and records, and merged
/// records, so which test belongs to which record is left to the run: a call begins at a test.
fn event_site(code: &CodeMap, event: &str, tests: &[usize], records: &[usize]) -> Option<Site> {
    let record = code.scopes.get(*records.first()?)?;
    let scopes = tests.iter().chain(records);
    let ranges = scopes
        .filter_map(|&number| code.scopes.get(number))
        .flat_map(|scope| scope.ranges.iter().cloned());
    let ranges = without_gaps(join_ranges(ranges.collect()), |_| true);
    let sorted = |mut addresses: Vec<u64>| {
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    };
    let recorded = || {
        let records = records.iter().filter_map(|&number| code.scopes.get(number));
        records.map(|record| record.entry).collect()
    };
    let (entries, marks) = if tests.is_empty() {
        (recorded(), Vec::new())
    } else {
        let marks: Vec<u64> = records
            .iter()
            .flat_map(|&record| inside(code, record))
            .filter(|&(number, scope)| stays_behind_the_test(code, number, scope))
            .flat_map(|(_, scope)| scope.ranges.iter().map(|range| range.start))
            .collect();
        let entries = tests.iter().flat_map(|&test| test_entries(code, test));
        (
            entries.collect(),
            if marks.is_empty() { recorded() } else { marks },
        )
    };
    Some(Site {
        kind: Kind::Event,
        name: event.to_owned(),
        inlined_in: record.parent.map(|_| code.owner(record)),
        ranges,
        entries: sorted(entries),
        marks: sorted(marks),
        tests: Vec::new(),
        callees: Vec::new(),
    })
}

/// Whether the scope is a part of a record that the compiler does not move in front of the on/off
/// test, as it may the rest: what reads the clock, or the hot path in assembly, which does.
fn stays_behind_the_test(code: &CodeMap, number: usize, scope: &Scope) -> bool {
    let is_clock = |scope: &Scope| matches!(scope.base(), "clock" | "quick_clock");
    match scope.base() {
        "write_declared" | "write_raw" | "write_medium" => true,
        // AArch64's; the others' has the clock in it.
        "write" if scope.arguments().len() >= 2 => {
            !inside(code, number).any(|(_, inner)| is_clock(inner))
        }
        _ => is_clock(scope),
    }
}

/// The scopes inlined into a scope, at any depth.
pub fn inside(code: &CodeMap, scope: usize) -> impl Iterator<Item = (usize, &Scope)> {
    // A scope's descendants follow it, before any other scope.
    let behind = code.scopes.iter().enumerate().skip(scope + 1);
    behind.take_while(move |(number, _)| code.parents(*number).any(|parent| parent == scope))
}

/// Where the copies of an on/off test begin. Each has a load of the switch; a piece without one is
/// the rest of a test that other instructions cut in two.
fn test_entries(code: &CodeMap, test: usize) -> Vec<u64> {
    let Some(scope) = code.scopes.get(test) else {
        return Vec::new();
    };
    let of = |name: &str| -> Vec<u64> {
        let loads = inside(code, test).filter(|(_, inner)| inner.base() == name);
        let loads = loads.flat_map(|(_, inner)| inner.ranges.iter());
        let pieces = loads.filter_map(|load| {
            let piece = scope
                .ranges
                .iter()
                .find(|piece| piece.contains(&load.start));
            piece.map(|piece| piece.start)
        });
        pieces.collect()
    };
    // A switch is an atomic byte. On RISC-V, assembly loads it in a function of the block's.
    let found = ["atomic_load", "load", "is_on"].map(of);
    let found = found.into_iter().find(|found| !found.is_empty());
    found.unwrap_or_else(|| scope.ranges.iter().map(|piece| piece.start).collect())
}

/// The longest gap, in bytes, between two pieces of an event that counts as part of it: enough for
/// x86's test and branch and the loads of a few fields.
const GAP: u64 = 32;

/// Fills gaps of up to [`GAP`] bytes that may be filled. DWARF attributes the branch after the
/// on/off test to the surrounding function; without the branch, an interrupt between the test and
/// the record would look like the end of the call.
pub fn without_gaps(
    mut ranges: Vec<Range<u64>>,
    may_fill: impl Fn(&Range<u64>) -> bool,
) -> Vec<Range<u64>> {
    ranges.dedup_by(|next, range| {
        let joins = next.start - range.end <= GAP && may_fill(&(range.end..next.start));
        if joins {
            range.end = next.end;
        }
        joins
    });
    ranges
}

/// Functions whose names match, and the places where they were inlined.
pub fn functions(code: &CodeMap, pattern: &str, kind: Kind) -> Vec<Site> {
    let symbols = code
        .symbols
        .iter()
        .filter(|symbol| matches(pattern, &symbol.name))
        .map(|symbol| Site {
            kind,
            name: symbol.name.clone(),
            inlined_in: None,
            ranges: vec![symbol.range.clone()],
            entries: vec![symbol.range.start],
            marks: Vec::new(),
            tests: Vec::new(),
            callees: Vec::new(),
        });
    let inlined = code
        .scopes
        .iter()
        .filter(|scope| scope.parent.is_some() && matches(pattern, &scope.name()));
    let inlined = inlined.map(|scope| Site {
        kind,
        name: scope.name(),
        inlined_in: Some(code.owner(scope)),
        ranges: scope.ranges.clone(),
        entries: vec![scope.entry],
        marks: Vec::new(),
        tests: Vec::new(),
        callees: Vec::new(),
    });
    symbols.chain(inlined).collect()
}

/// An address range that the user gave.
pub fn range(range: &Range<u64>) -> Site {
    let name = format!("{:#x}..{:#x}", range.start, range.end);
    Site {
        kind: Kind::Range,
        name,
        inlined_in: None,
        ranges: vec![range.clone()],
        entries: vec![range.start],
        marks: Vec::new(),
        tests: Vec::new(),
        callees: Vec::new(),
    }
}

/// The plugin's arguments for these sites, one a line; each site is named by its index.
pub fn plugin_arguments(sites: &[Site]) -> String {
    let mut out = String::new();
    for (number, site) in sites.iter().enumerate() {
        out.push_str(&format!("name={number}\n"));
        for range in &site.ranges {
            out.push_str(&format!("start={:#x}\nend={:#x}\n", range.start, range.end));
        }
        for entry in &site.entries {
            out.push_str(&format!("entry={entry:#x}\n"));
        }
        for mark in &site.marks {
            out.push_str(&format!("mark={mark:#x}\n"));
        }
        for test in &site.tests {
            let (start, end) = (test.start, test.end);
            out.push_str(&format!("test={start:#x}\ntest_end={end:#x}\n"));
        }
        for callee in &site.callees {
            out.push_str(&format!("callee={callee:#x}\n"));
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // Pieces of code: often there is one.
mod tests {
    use super::*;

    #[test]
    fn names_in_the_trace() {
        assert_eq!(
            trace_name("kymo::vocabulary::irq::IrqEnter"),
            "irq_handler_entry"
        );
        assert_eq!(
            trace_name("kymo::vocabulary::sched::SchedSwitch"),
            "sched_switch"
        );
        assert_eq!(
            trace_name("kymo::vocabulary::session::SessionEnd"),
            "kymo_session_end"
        );
        assert_eq!(trace_name("mine::IrqEnter"), "irq_enter");
        assert_eq!(trace_name("mine::IrqEnter"), "irq_enter");
        assert_eq!(trace_name("hello::Marker"), "marker");
    }

    fn scope(path: &str, leaf: &str, ranges: &[Range<u64>], parent: Option<usize>) -> Scope {
        Scope {
            path: path.into(),
            leaf: leaf.into(),
            ranges: ranges.to_vec(),
            entry: ranges[0].start,
            parent,
        }
    }

    #[test]
    fn an_event_is_its_test_and_its_record() {
        let scopes = vec![
            scope("k", "switch", &[0x100..0x200], None),
            scope(
                "kymo::tracer::Tracer",
                "is_on<k::P, k::E>",
                &[0x110..0x114],
                Some(0),
            ),
            scope(
                "kymo::tracer::Tracer",
                "record<k::P, k::E>",
                &[0x10c..0x110, 0x118..0x140, 0x180..0x190],
                Some(0),
            ),
            scope("", "record<k::I, k::P, k::E>", &[0x118..0x140], Some(2)),
            scope("k::{impl#1}", "clock", &[0x120..0x124], Some(3)),
            scope("", "record_masked<k::P, k::F>", &[0x300..0x310], None),
            scope("", "record<k::I, k::P, k::F>", &[0x300..0x310], Some(5)),
            scope("", "record_masked<k::P, k::F>", &[0x300..0x310], Some(6)),
        ];
        let sites = events(&CodeMap::new(Vec::new(), scopes));
        assert_eq!(
            sites,
            [
                Site {
                    kind: Kind::Event,
                    name: "k::E".into(),
                    inlined_in: Some("k::switch".into()),
                    // Includes the branch between test and record.
                    ranges: vec![0x10c..0x140, 0x180..0x190],
                    entries: vec![0x110],
                    marks: vec![0x120],
                    tests: Vec::new(),
                    callees: Vec::new(),
                },
                Site {
                    kind: Kind::Event,
                    name: "k::F".into(),
                    inlined_in: None,
                    ranges: vec![0x300..0x310],
                    entries: vec![0x300],
                    marks: Vec::new(),
                    tests: Vec::new(),
                    callees: Vec::new(),
                },
            ]
        );
        assert_eq!(
            plugin_arguments(&sites[..1]),
            "name=0\nstart=0x10c\nend=0x140\nstart=0x180\nend=0x190\nentry=0x110\nmark=0x120\n"
        );
    }

    /// As LLVM leaves it where it copies the end of a function: one scope of each call, in pieces.
    #[test]
    fn every_copy_of_a_test_is_an_entry_and_every_copy_of_a_record_counts() {
        let scopes = vec![
            scope("k", "lock", &[0x100..0x300], None),
            scope(
                "",
                "is_on<k::P, k::E>",
                &[0x100..0x106, 0x180..0x182, 0x184..0x186, 0x200..0x206],
                Some(0),
            ),
            // The second copy is cut in two: the load, and the test of what was loaded.
            scope(
                "",
                "is_on<kymo::Switch<k::E>>",
                &[0x100..0x104, 0x180..0x182, 0x200..0x204],
                Some(1),
            ),
            scope(
                "",
                "record<k::P, k::E>",
                &[0x108..0x120, 0x188..0x1a0, 0x210..0x220],
                Some(0),
            ),
            scope(
                "",
                "clock",
                &[0x110..0x114, 0x190..0x194, 0x214..0x218],
                Some(3),
            ),
            // A merged record of two tests.
            scope("k", "pair", &[0x400..0x500], None),
            scope("", "is_on<k::P, k::F>", &[0x400..0x404], Some(5)),
            scope("", "is_on<k::P, k::F>", &[0x420..0x424], Some(5)),
            scope(
                "",
                "record_in_place<k::P, k::F, k::{closure#0}>",
                &[0x440..0x460],
                Some(5),
            ),
            // No event, but an iterator.
            scope(
                "",
                "record<k::P, core::Chain<k::A, k::B>>",
                &[0x480..0x490],
                Some(5),
            ),
        ];
        let sites = events(&CodeMap::new(Vec::new(), scopes));
        let [one, two] = &sites[..] else {
            panic!("{sites:?}");
        };
        assert_eq!(one.entries, [0x100, 0x180, 0x200]);
        assert_eq!(one.marks, [0x110, 0x190, 0x214]);
        assert_eq!(two.name, "k::F");
        assert_eq!(two.entries, [0x400, 0x420]);
        assert_eq!(two.marks, [0x440]);
        assert_eq!(
            plugin_arguments(&sites[1..]),
            "name=0\nstart=0x400\nend=0x460\nentry=0x400\nentry=0x420\nmark=0x440\n"
        );
    }
}
