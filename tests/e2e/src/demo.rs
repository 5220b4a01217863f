//! The counts that `kernels/demo` keeps of its operations (its `ledger.rs`), by hart and by event.

use std::collections::BTreeMap;
use std::path::Path;

use kymo::vocabulary::ALL;
use kymo_ctf::{Event, Item, LossKind, Trace};

use crate::{built, ledger};

/// All operations since boot.
pub const LEDGER: &str = "LEDGER";
/// Operations since boot while their events were on.
pub const RECORDED: &str = "RECORDED";

/// Number of counters per hart, indexed by event id.
const IDS: usize = 160;

/// Counts by event name.
pub type Counts = BTreeMap<&'static str, u64>;

/// The event's name in the vocabulary.
pub fn name_of(event: &Event) -> &'static str {
    ALL.events()
        .iter()
        .find(|schema| schema.name == event.name())
        .expect("the kernel has no events of its own")
        .name
}

/// Whether this is an event of the library itself, not of the kernel.
pub fn is_the_librarys(event: &Event) -> bool {
    event.name().starts_with("kymo_")
}

/// The counts of each hart, without events that did not occur.
pub fn ledger(ram: &Path, symbol: &str, harts: usize) -> Vec<Counts> {
    let bytes = ledger::memory(
        ram,
        &built("KYMO_DEMO"),
        0x8000_0000,
        symbol,
        64 + harts * IDS * 8,
    );
    assert!(
        bytes.starts_with(b"KYMO-LEDGER-2"),
        "the ledger is where its symbol says"
    );
    let words: Vec<u64> = bytes[64..]
        .as_chunks::<8>()
        .0
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect();
    let hart = |counters: &[u64]| {
        let known = ALL
            .events()
            .iter()
            .map(|schema| (schema.name, counters[schema.id as usize]));
        let known: Counts = known.filter(|(_, count)| *count > 0).collect();
        assert_eq!(
            known.values().sum::<u64>(),
            counters.iter().sum::<u64>(),
            "the ledger counts what is no event"
        );
        known
    };
    words.chunks(IDS).map(hart).collect()
}

/// The counts of each hart in a trace, and the number of lost events.
pub fn counts(trace: &Path, harts: usize) -> (Vec<Counts>, u64) {
    let (mut counts, mut lost) = (vec![Counts::new(); harts], 0);
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) if is_the_librarys(&event) => {}
            Item::Event(event) => {
                *counts[event.cpu().unwrap() as usize]
                    .entry(name_of(&event))
                    .or_default() += 1
            }
            Item::Loss(loss) if loss.kind == LossKind::Events => lost += loss.count,
            other => panic!("{}: {other:?}", trace.display()),
        }
    }
    (counts, lost)
}

/// All events of all harts.
pub fn sum(counts: &[Counts]) -> u64 {
    counts.iter().flat_map(Counts::values).sum()
}
