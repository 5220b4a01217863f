//! `--where`: conditions on events.

use kymo_analysis::Conditions;
use kymo_ctf::{Trace, TraceMap};

use crate::exit::Usage;
use crate::progress::Progress;

/// Resolves conditions in a trace; `None` if there are none.
///
/// # Errors
/// If one is malformed, or no event of the trace can fit it.
pub fn conditions(
    texts: &[String],
    trace: &Trace,
    map: &TraceMap,
) -> Result<Option<Conditions>, Usage> {
    if texts.is_empty() {
        return Ok(None);
    }
    if !trace.is_one() {
        return Err(Usage(Conditions::OF_SEVERAL.to_owned()));
    }
    let mut progress = Progress::new(trace);
    let found = Conditions::of(texts, trace.metadata(), map, |item| progress.pass(item));
    progress.done();
    found.map_err(Usage)
}
