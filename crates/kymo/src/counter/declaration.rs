//! What the metadata of a trace says about a counter: one entry of its environment each.

use super::Kind;

/// How the name of such an entry begins; the number of the counter's word follows.
pub const PREFIX: &str = "kymo_counter_";

/// A counter, as the metadata declares it.
///
/// ```
/// use kymo::counter::{Declaration, Kind};
/// let entry = "sched_enqueued: counter of 64 bits, threads: Threads that became ready.";
/// let declared = Declaration::parse("kymo_counter_7", entry).unwrap();
/// assert_eq!((declared.id, declared.kind, declared.bits), (7, Kind::Counter, 64));
/// assert_eq!((declared.name, declared.unit), ("sched_enqueued", "threads"));
/// assert_eq!(declared.doc, "Threads that became ready.");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// Number of its first word among its CPU's.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub kind: Kind,
    /// Bits of its words: 64 or 32. A counter wraps around at 2 to this number.
    pub bits: u32,
    /// What it counts, in the plural.
    pub unit: &'a str,
    /// Its doc comment, in one line.
    pub doc: &'a str,
}

impl<'a> Declaration<'a> {
    /// The declarations in the metadata that a region holds, one in a line as
    /// [`tsdl::write`](crate::ctf::tsdl::write) puts them there. A `"` in a doc comment stays
    /// escaped.
    ///
    /// ```
    /// use kymo::counter::Declaration;
    /// let metadata = "env {\n\tkymo_counter_7 = \"woken: counter of 64 bits, threads: Ready.\";\n};";
    /// let found: Vec<_> = Declaration::all(metadata).map(|found| (found.id, found.doc)).collect();
    /// assert_eq!(found, [(7, "Ready.")]);
    /// ```
    pub fn all(metadata: &'a str) -> impl Iterator<Item = Declaration<'a>> {
        metadata.lines().filter_map(|line| {
            let (name, rest) = line.trim_start().split_once(" = \"")?;
            Declaration::parse(name, rest.strip_suffix("\";")?)
        })
    }

    /// Reads an entry of a trace's environment; `None` where it declares no counter.
    pub fn parse(name: &str, entry: &'a str) -> Option<Declaration<'a>> {
        let id = name.strip_prefix(PREFIX)?.parse().ok()?;
        let (name, rest) = entry.split_once(": ")?;
        let (kind, rest) = rest.split_once(" of ")?;
        let kind = Kind::ALL.into_iter().find(|known| known.name() == kind)?;
        let (bits, rest) = rest.split_once(" bits, ")?;
        let bits = bits.parse().ok().filter(|bits| [32, 64].contains(bits))?;
        let (unit, doc) = rest.split_once(':')?;
        Some(Declaration {
            id,
            name,
            kind,
            bits,
            unit,
            doc: doc.trim(),
        })
    }
}
