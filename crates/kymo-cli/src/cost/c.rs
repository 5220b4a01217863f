//! The events of kernels in C: the header's functions `kymo_sched_switch`, `trace_block_done` and
//! the like, which are always inlined, and the functions of the library that they call.

use std::collections::BTreeMap;
use std::ops::Range;

use kymo::vocabulary::TYPES;
use kymo_symbols::{CodeMap, Scope, join_ranges};

use super::sites::{self, Kind, Site};

/// What the library's functions that record begin with.
const RECORDS: &str = "kymo_record_";
/// The header's function that records an event with its callers: each file has its own.
const WITH_CONTEXT: &str = "kymo_record_with_context_";
/// The library's other functions that the header's call.
const OTHERS: [&str; 3] = ["kymo_put_text", "kymo_name_due", "kymo_name_recorded"];

/// The event that a function of the header records, by its name in the trace.
fn event(code: &CodeMap, number: usize, scope: &Scope) -> Option<String> {
    if scope.parent.is_none() || !scope.path.is_empty() {
        return None;
    }
    let records = |name: &str| directly_inside(code, number).any(|inner| inner.leaf == name);
    if let Some(own) = scope.leaf.strip_prefix("trace_") {
        // The kernel may have functions that are called so, and events that end so.
        return match own.strip_suffix("_masked") {
            Some(name) if records("kymo_record_masked_") => Some(name.to_owned()),
            _ => records("kymo_record_").then(|| own.to_owned()),
        };
    }
    let name = scope.leaf.strip_prefix("kymo_")?;
    let name = name.strip_suffix("_masked").unwrap_or(name);
    let name = match name.strip_suffix("_named") {
        Some(thing) => format!("{thing}_name"),
        None => name.to_owned(),
    };
    let mut vocabulary = TYPES.iter().copied().flatten();
    vocabulary.any(|(_, other)| *other == name).then_some(name)
}

/// The scopes inlined into a scope by itself.
fn directly_inside(code: &CodeMap, scope: usize) -> impl Iterator<Item = &Scope> {
    let all = sites::inside(code, scope).map(|(_, inner)| inner);
    all.filter(move |inner| inner.parent == Some(scope))
}

/// The copies of an event's on/off test.
fn tests(code: &CodeMap, event: usize) -> impl Iterator<Item = Range<u64>> {
    let tests = directly_inside(code, event).filter(|inner| inner.leaf == "kymo_switch_");
    tests.flat_map(|test| test.ranges.iter().cloned())
}

/// An event in a function: the scope that it is inlined into, and its name.
type Place = (Option<usize>, String);

/// The places where events are recorded, and the library's functions that they call. As in Rust,
/// all tracepoints of an event in one function are one place: the compiler may merge their ends.
pub fn events(code: &CodeMap) -> (Vec<Site>, Vec<Site>) {
    let named = |begin: &'static str| {
        let symbols = code.symbols.iter();
        symbols.filter(move |symbol| symbol.name.starts_with(begin))
    };
    let callees: Vec<u64> = named(RECORDS).map(|symbol| symbol.range.start).collect();
    if callees.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let mut places: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
    for (number, scope) in code.scopes.iter().enumerate() {
        if let Some(name) = event(code, number, scope) {
            let place = (scope.parent, name);
            places.entry(place).or_default().push(number);
        }
    }
    let of = |numbers: &[usize]| -> Vec<Range<u64>> {
        let scopes = numbers.iter().filter_map(|&number| code.scopes.get(number));
        let ranges = scopes.flat_map(|scope| scope.ranges.iter().cloned());
        let tests = numbers.iter().flat_map(|&number| tests(code, number));
        join_ranges(ranges.chain(tests).collect())
    };
    // What is between the pieces of one event may be another one's.
    let all: Vec<(Vec<Range<u64>>, &Place)> = places
        .iter()
        .map(|(place, numbers)| (of(numbers), place))
        .collect();
    let is_others = |gap: &Range<u64>, place: &Place| {
        let others = all.iter().filter(|(_, other)| *other != place);
        let mut ranges = others.flat_map(|(ranges, _)| ranges);
        ranges.any(|range| range.start < gap.end && gap.start < range.end)
    };
    let found = places.iter().filter_map(|(place, numbers)| {
        let first = code.scopes.get(*numbers.first()?)?;
        // Copies that touch begin calls of their own.
        let copies = numbers.iter().flat_map(|&number| tests(code, number));
        let mut tests: Vec<Range<u64>> = copies.collect();
        tests.sort_by_key(|test| (test.start, test.end));
        tests.dedup();
        // A compiler may have made the test a part of what is around it.
        let entries = match tests.is_empty() {
            true => vec![first.entry],
            false => Vec::new(),
        };
        Some(Site {
            kind: Kind::Event,
            name: place.1.clone(),
            inlined_in: Some(code.owner(first)),
            ranges: sites::without_gaps(of(numbers), |gap| !is_others(gap, place)),
            entries,
            tests,
            marks: Vec::new(),
            callees: callees.clone(),
        })
    });
    let library = named(RECORDS).chain(OTHERS.into_iter().flat_map(named));
    let library = library.map(|symbol| Site {
        kind: match symbol.name.starts_with(WITH_CONTEXT) {
            true => Kind::Function,
            false => Kind::Library,
        },
        name: symbol.name.clone(),
        inlined_in: None,
        ranges: vec![symbol.range.clone()],
        entries: vec![symbol.range.start],
        tests: Vec::new(),
        marks: Vec::new(),
        callees: Vec::new(),
    });
    (found.collect(), library.collect())
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // Pieces of code: often there is one.
mod tests {
    use super::*;
    use kymo_symbols::Symbol;

    fn scope(leaf: &str, range: Range<u64>, parent: Option<usize>) -> Scope {
        Scope {
            path: String::new(),
            leaf: leaf.to_owned(),
            entry: range.start,
            ranges: vec![range],
            parent,
        }
    }

    #[test]
    fn events_are_the_headers_inlined_functions() {
        let symbol = |name: &str, range: Range<u64>| Symbol {
            name: name.to_owned(),
            range,
        };
        let symbols = vec![
            symbol("schedule", 0x100..0x200),
            symbol("kymo_record_3_masked", 0x400..0x440),
            symbol("kymo_start", 0x500..0x600),
        ];
        let scopes = vec![
            scope("schedule", 0x100..0x200, None),
            scope("kymo_sched_switch_masked", 0x110..0x130, Some(0)),
            scope("kymo_switch_", 0x110..0x114, Some(1)),
            scope("kymo_record_masked_", 0x120..0x130, Some(1)),
            scope("trace_block_done", 0x130..0x140, Some(0)),
            scope("kymo_switch_", 0x130..0x132, Some(4)),
            scope("kymo_record_", 0x138..0x140, Some(4)),
            scope("kymo_thread_named", 0x140..0x150, Some(0)),
            scope("kymo_switch_", 0x142..0x144, Some(7)),
            // The kernel's own, and what is of no event.
            scope("trace_route", 0x150..0x160, Some(0)),
            scope("kymo_put_", 0x160..0x170, Some(0)),
            scope("kymo_sched_switch", 0x600..0x700, None),
        ];
        let (events, library) = super::events(&CodeMap::new(symbols, scopes.clone()));
        let mut found: Vec<(&str, u64, &[u64])> = events
            .iter()
            .map(|site| (&*site.name, site.tests[0].start, &*site.callees))
            .collect();
        found.sort_by_key(|(_, test, _)| *test);
        assert_eq!(
            found,
            [
                ("sched_switch", 0x110, &[0x400][..]),
                ("block_done", 0x130, &[0x400]),
                ("thread_name", 0x142, &[0x400]),
            ]
        );
        assert!(
            events
                .iter()
                .all(|site| site.inlined_in.as_deref() == Some("schedule"))
        );
        assert_eq!(library.len(), 1);
        assert_eq!(library[0].name, "kymo_record_3_masked");
        // Without the library there is no event.
        let nothing = super::events(&CodeMap::new(Vec::new(), scopes));
        assert_eq!(nothing, (Vec::new(), Vec::new()));
    }

    /// Pieces of one event lie between those of another, and an own event may be called `_masked`.
    #[test]
    fn an_event_has_no_part_of_another() {
        let symbols = vec![Symbol {
            name: "kymo_record_1".to_owned(),
            range: 0x400..0x440,
        }];
        let scopes = vec![
            scope("tick", 0x100..0x200, None),
            Scope {
                ranges: vec![0x110..0x118, 0x130..0x138],
                ..scope("trace_irq_masked", 0x110..0x118, Some(0))
            },
            scope("kymo_record_", 0x130..0x138, Some(1)),
            scope("trace_irq", 0x120..0x128, Some(0)),
            scope("kymo_record_", 0x124..0x128, Some(3)),
            // Two tracepoints of one event, whose ends the compiler may have merged.
            scope("trace_done_masked", 0x140..0x144, Some(0)),
            scope("kymo_record_masked_", 0x142..0x144, Some(5)),
            scope("trace_done_masked", 0x150..0x154, Some(0)),
            // Its test lies outside of it.
            scope("kymo_switch_", 0x14c..0x150, Some(7)),
            scope("kymo_record_masked_", 0x152..0x154, Some(7)),
        ];
        let (events, _) = super::events(&CodeMap::new(symbols, scopes));
        type Found<'a> = (&'a str, &'a [Range<u64>], &'a [u64]);
        let found = events
            .iter()
            .map(|site| (&*site.name, &*site.ranges, &*site.entries));
        let found: Vec<Found<'_>> = found.collect();
        let irq_masked = [0x110..0x118, 0x130..0x138];
        assert_eq!(
            found,
            [
                ("done", &[0x140..0x154][..], &[][..]),
                ("irq", &[0x120..0x128], &[0x120]),
                ("irq_masked", &irq_masked, &[0x110]),
            ]
        );
        assert_eq!(events[0].tests, [0x14c..0x150]);
        assert!(events.iter().all(|site| site.trace_name() == site.name));
    }
}
