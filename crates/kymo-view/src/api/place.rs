//! The part of the address that says what is in view; see `page/address.js`.

use kymo_ctf::ItemRef;

use super::View;

/// What is in view around a time, in nanoseconds.
const LENGTH: u64 = 1_000_000;

impl View {
    /// The fragment of the address that shows a view around a time, with a mark at it. The time is
    /// in nanoseconds from the clock's origin; `None` if it is outside the trace. It needs no
    /// index.
    pub(crate) fn fragment_at(&self, nanos: i128) -> Option<String> {
        let first = self.first_event()?;
        let end = self.end.get_or_init(|| self.map.end_nanos());
        let last = u64::try_from((*end)?.saturating_sub(first)).ok()?;
        // Between the trace's beginning and its first event, nothing is to be seen.
        let is_inside = nanos >= self.begin(first).min(first);
        let at = is_inside.then(|| u64::try_from((nanos - first).max(0)).ok());
        let at = at.flatten().filter(|at| *at <= last)?;
        let length = LENGTH.min(last.max(1));
        let from = at.saturating_sub(length / 2).min(last - last.min(length));
        Some(format!("#{from}-{}&marks={at}", from + length))
    }

    /// Time of the first event that has one, in nanoseconds from the clock's origin.
    fn first_event(&self) -> Option<i128> {
        let mut reader = self.map.read();
        while let Some(item) = reader.next() {
            if let ItemRef::Event(event) = &item
                && let Some(nanos) = event.nanos()
            {
                return Some(nanos);
            }
        }
        None
    }
}
