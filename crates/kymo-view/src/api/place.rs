//! The part of the address that says what is in view; see `page/address.js`.

use super::View;

/// What is in view around a time, in nanoseconds.
const LENGTH: u64 = 1_000_000;

impl View {
    /// A view around a time with a mark at it, as the address has it. The time is in nanoseconds from
    /// the clock's origin; `None` if it is outside the trace.
    pub(crate) fn fragment_at(&self, nanos: i128) -> Option<String> {
        let span = self.index.span();
        let last = span.end.saturating_sub(span.start).saturating_sub(1);
        let first = self.index.origin() + i128::from(span.start);
        let earliest = self.begin().min(first);
        // Between the trace's beginning and its first event, nothing is to be seen.
        let at = (nanos >= earliest).then(|| u64::try_from((nanos - first).max(0)).ok());
        let at = at.flatten().filter(|at| *at <= last)?;
        let length = LENGTH.min(last.max(1));
        let from = at.saturating_sub(length / 2).min(last - last.min(length));
        Some(format!("#{from}-{}&marks={at}", from + length))
    }
}
