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
    /// Address at which a call begins.
    pub entry: u64,
    /// An instruction that only recording calls execute; `Some` for events with an on/off test.
    pub mark: Option<u64>,
}

/// Why a site is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An event is recorded there.
    Event,
    /// A slow path of the library.
    SlowPath,
    /// The user asked for the function.
    Function,
    /// The user asked for the range.
    Range,
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

/// The event type, if the scope is `Tracer::is_on`, `Tracer::record` or `Tracer::record_masked`.
fn tracer_call(scope: &Scope) -> Option<&str> {
    // The functions of the same names that these call have one or three arguments.
    let [_platform, event] = scope.arguments()[..] else {
        return None;
    };
    let is_tracer = scope.path.is_empty() || scope.path.starts_with("kymo::tracer::Tracer");
    (is_tracer && matches!(scope.base(), "is_on" | "record" | "record_masked")).then_some(event)
}

/// Every place where an event is recorded: the code of one function that DWARF attributes to
/// `Tracer::is_on` and `Tracer::record` for one event.
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
        let is_record = scope.base() != "is_on";
        // An `is_on` that was not inlined is part of its callers' cost.
        if scope.parent.is_some() || is_record {
            let parent = scope.parent.or(Some(number));
            places.entry((parent, event)).or_default()[usize::from(is_record)].push(number);
        }
    }
    let mut sites = Vec::new();
    for ((_, event), [mut tests, mut records]) in places {
        let by_address = |&number: &usize| code.scopes.get(number).map(|scope| scope.entry);
        tests.sort_by_key(by_address);
        records.sort_by_key(by_address);
        let together: Vec<(Option<usize>, Vec<usize>)> = if tests.len() == records.len() {
            tests
                .into_iter()
                .map(Some)
                .zip(records.into_iter().map(|record| vec![record]))
                .collect()
        } else if tests.len() == 1 && !records.is_empty() {
            vec![(tests.first().copied(), records)]
        } else {
            records
                .into_iter()
                .map(|record| (None, vec![record]))
                .collect()
        };
        sites.extend(
            together
                .iter()
                .filter_map(|(test, records)| event_site(code, event, *test, records)),
        );
    }
    sites
}

fn event_site(code: &CodeMap, event: &str, test: Option<usize>, records: &[usize]) -> Option<Site> {
    let record = code.scopes.get(*records.first()?)?;
    let scopes = test
        .iter()
        .chain(records)
        .filter_map(|&number| code.scopes.get(number));
    let ranges = without_gaps(join_ranges(
        scopes
            .flat_map(|scope| scope.ranges.iter().cloned())
            .collect(),
    ));
    let entry = test
        .and_then(|test| code.scopes.get(test))
        .map_or(record.entry, |test| test.entry);
    // The compiler may move other instructions of the record in front of the test, but not the
    // clock read.
    let clock = code.scopes.iter().enumerate().find(|(number, scope)| {
        scope.base() == "clock"
            && code
                .parents(*number)
                .any(|parent| records.contains(&parent))
    });
    let mark = test.map(|_| clock.map_or(record.entry, |(_, clock)| clock.entry));
    Some(Site {
        kind: Kind::Event,
        name: event.to_owned(),
        inlined_in: record.parent.map(|_| code.owner(record)),
        ranges,
        entry,
        mark,
    })
}

/// The longest gap, in bytes, between two pieces of an event that counts as part of it: enough for
/// x86's test and branch and the loads of a few fields.
const GAP: u64 = 32;

/// Fills gaps of up to [`GAP`] bytes. DWARF attributes the branch after the on/off test to the
/// surrounding function; without the branch, an interrupt between the test and the record would
/// look like the end of the call.
fn without_gaps(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.dedup_by(|next, range| {
        let joins = next.start - range.end <= GAP;
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
            entry: symbol.range.start,
            mark: None,
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
        entry: scope.entry,
        mark: None,
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
        entry: range.start,
        mark: None,
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
        out.push_str(&format!("entry={:#x}\n", site.entry));
        if let Some(mark) = site.mark {
            out.push_str(&format!("mark={mark:#x}\n"));
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
                    entry: 0x110,
                    mark: Some(0x120),
                },
                Site {
                    kind: Kind::Event,
                    name: "k::F".into(),
                    inlined_in: None,
                    ranges: vec![0x300..0x310],
                    entry: 0x300,
                    mark: None,
                },
            ]
        );
        assert_eq!(
            plugin_arguments(&sites[..1]),
            "name=0\nstart=0x10c\nend=0x140\nstart=0x180\nend=0x190\nentry=0x110\nmark=0x120\n"
        );
    }
}
