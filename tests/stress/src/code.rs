//! Classifies addresses in this program's code.

use std::ops::Range;
use std::sync::OnceLock;

use object::{Object, ObjectSymbol, SymbolKind};

/// The part of the code that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A tracepoint: switch test and hot path.
    HotPath = 0,
    /// The out-of-line part of a writer.
    SlowPath = 1,
    /// Neither.
    Elsewhere = 2,
}

static WRITERS: OnceLock<Vec<(Range<u64>, Place)>> = OnceLock::new();

/// Reads this program's symbols. Call it before [`place`].
pub(crate) fn find_writers() {
    WRITERS.get_or_init(|| {
        let file = std::fs::read("/proc/self/exe").expect("this program's file");
        let elf = object::File::parse(&*file).expect("an ELF file");
        let functions = || {
            elf.symbols()
                .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        };
        let anchor = functions()
            .find(|symbol| symbol.name() == Ok("kymo_stress_anchor"))
            .expect("this program's symbols");
        let moved = (kymo_stress_anchor as *const () as u64).wrapping_sub(anchor.address());
        // Rust's mangling keeps each component of a path, preceded by its length.
        let place = |name: &str| match () {
            () if name.contains("11kymo_stress6writer") => Place::HotPath,
            () if name.contains("9local_cas") || name.contains("6x86_644slow") => Place::SlowPath,
            () => Place::Elsewhere,
        };
        let mut found = Vec::new();
        for symbol in functions() {
            let begin = symbol.address().wrapping_add(moved);
            let place = place(symbol.name().unwrap_or(""));
            if place != Place::Elsewhere {
                found.push((begin..begin + symbol.size(), place));
            }
        }
        for place in [Place::HotPath, Place::SlowPath] {
            assert!(
                found.iter().any(|(_, other)| *other == place),
                "{place:?} has no symbols in this program"
            );
        }
        found
    });
}

/// The place of `address`. Can be called in signal handlers.
pub(crate) fn place(address: u64) -> Place {
    let writers = WRITERS.get().map_or(&[][..], Vec::as_slice);
    writers
        .iter()
        .find(|(range, _)| range.contains(&address))
        .map_or(Place::Elsewhere, |(_, place)| *place)
}

/// A symbol that shows where the program was loaded.
#[unsafe(no_mangle)]
extern "C" fn kymo_stress_anchor() {}
