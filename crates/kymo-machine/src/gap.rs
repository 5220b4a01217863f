//! Losses, and when they are over.

use std::sync::Arc;

use kymo::ChannelKind;
use kymo_ctf::EventRef;

use crate::change::Change;

/// A loss that may still go on.
#[derive(Clone, Debug)]
struct Open {
    loss: u64,
    cpu: Option<u64>,
    stream: Arc<str>,
    /// `None`: the stream is damaged, and ends here.
    end: Option<i64>,
}

/// The losses that are open at the current time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    open: Vec<Open>,
    /// Number of losses so far that made CPU states unknown.
    begun: u64,
}

/// Whether a loss in the stream of this name makes CPU states unknown. False for Kymo's streams of
/// names.
pub fn tells_what_happens(stream: &str) -> bool {
    stream
        .strip_prefix(ChannelKind::Names.label())
        .is_none_or(|rest| !rest.starts_with('_'))
}

/// When the packet of an event began, in nanoseconds from the clock's origin.
fn packet_begin(event: &EventRef<'_>) -> Option<i64> {
    let begin = event.packet()?.begin?;
    i64::try_from(event.clock()?.nanos_from_origin(begin)).ok()
}

impl Gaps {
    /// Number of losses so far, to compare with later; `None` during a loss.
    #[inline]
    pub(crate) fn stamp(&self) -> Option<u64> {
        self.open.is_empty().then_some(self.begun)
    }

    pub(crate) fn begin(
        &mut self,
        loss: u64,
        cpu: Option<u64>,
        stream: &Arc<str>,
        end: Option<i64>,
    ) {
        self.begun += 1;
        self.open.push(Open {
            loss,
            cpu,
            stream: Arc::clone(stream),
            end,
        });
    }

    /// Ends the losses that are over by `time`. `event` is the current event if its tracer's losses
    /// precede the packet that reports them. Kymo's do; other tracers' may lie anywhere before that
    /// packet's end.
    pub(crate) fn pass(
        &mut self,
        time: i64,
        event: Option<&EventRef<'_>>,
        changes: &mut Vec<Change>,
    ) {
        self.open.retain(|gap| {
            let reporter = event.filter(|event| gap.end.is_some() && *event.stream() == gap.stream);
            let goes_on = reporter.is_none() && gap.end.is_none_or(|end| time <= end);
            if !goes_on {
                changes.push(Change::Regained {
                    loss: gap.loss,
                    not_after: reporter.and_then(packet_begin),
                });
            }
            goes_on
        });
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether an open loss hides what the CPU does.
    pub(crate) fn hides(&self, cpu: u64) -> bool {
        let mut open = self.open.iter();
        open.any(|gap| gap.cpu.is_none_or(|of| of == cpu))
    }

    pub(crate) fn live(&self) -> usize {
        self.open.len()
    }
}
