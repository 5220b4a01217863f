//! Losses, and their ends.

use std::sync::Arc;

use kymo::ChannelKind;
use kymo_ctf::EventRef;
use serde::{Deserialize, Serialize};

use crate::change::Change;

/// A loss that may still go on.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Open {
    loss: u64,
    cpu: Option<u64>,
    stream: Arc<str>,
    end: End,
}

/// The end of a loss.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum End {
    /// After this time. In a Kymo trace, already at the stream's next event.
    After(i64),
    /// At the stream's next event: reading resumed behind damage.
    NextEvent,
    /// Never: the stream cannot be read further, or has no clock.
    Never,
}

/// The losses that are open at the current time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Gaps {
    open: Vec<Open>,
    /// Number of losses so far that made CPU states unknown.
    begun: u64,
}

/// The channel of Kymo's that a stream of this name is from; `None` for another tracer's.
pub fn channel_of(stream: &str) -> Option<ChannelKind> {
    ChannelKind::ALL.into_iter().find(|kind| {
        let rest = stream.strip_prefix(kind.label());
        rest.is_some_and(|rest| rest.starts_with('_'))
    })
}

/// Whether a loss in the stream of this name makes CPU states unknown. False for Kymo's streams of
/// names and of samples.
pub fn records_activity(stream: &str) -> bool {
    !matches!(
        channel_of(stream),
        Some(ChannelKind::Names | ChannelKind::Samples)
    )
}

/// Begin of an event's packet, in nanoseconds from the clock's origin.
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

    pub(crate) fn begin(&mut self, loss: u64, cpu: Option<u64>, stream: &Arc<str>, end: End) {
        self.begun += 1;
        self.open.push(Open {
            loss,
            cpu,
            stream: Arc::clone(stream),
            end,
        });
    }

    /// Ends the losses that are over when something comes at `time`: `event`, or another loss.
    ///
    /// `is_kymo`: the event is from a Kymo trace, whose losses lie before the packet that reports
    /// them. Other tracers' losses are only known to lie before that packet's end.
    pub(crate) fn pass(
        &mut self,
        time: i64,
        event: Option<&EventRef<'_>>,
        is_kymo: bool,
        changes: &mut Vec<Change>,
    ) {
        self.open.retain(|gap| {
            let next = event.filter(|event| *event.stream() == gap.stream);
            let (is_over, next) = match gap.end {
                End::After(end) => (time > end, next.filter(|_| is_kymo)),
                End::NextEvent => (false, next),
                End::Never => (false, None),
            };
            let goes_on = !is_over && next.is_none();
            if !goes_on {
                changes.push(Change::Regained {
                    loss: gap.loss,
                    not_after: next.and_then(packet_begin),
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
