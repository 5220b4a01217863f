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

/// What is lost at the moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gaps {
    open: Vec<Open>,
    /// How many there were that leave the CPUs' state unknown.
    begun: u64,
}

/// Whether a stream of this name tells what CPUs do: a loss in it leaves that unknown. Kymo's names
/// do not.
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
    /// The number of losses up to now, by which it is told later whether there was another one;
    /// `None` during a loss.
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

    /// Ends those that are over when something comes at `time`. `teller`: an event of a tracer whose
    /// losses lie before the packet that tells of them. Kymo's do; of other tracers' it is known
    /// only that they lie before its end.
    pub(crate) fn pass(
        &mut self,
        time: i64,
        teller: Option<&EventRef<'_>>,
        changes: &mut Vec<Change>,
    ) {
        self.open.retain(|gap| {
            let teller = teller.filter(|event| gap.end.is_some() && *event.stream() == gap.stream);
            let goes_on = teller.is_none() && gap.end.is_none_or(|end| time <= end);
            if !goes_on {
                changes.push(Change::Regained {
                    loss: gap.loss,
                    not_after: teller.and_then(packet_begin),
                });
            }
            goes_on
        });
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether it is unknown at the moment what the CPU does.
    pub(crate) fn hides(&self, cpu: u64) -> bool {
        let mut open = self.open.iter();
        open.any(|gap| gap.cpu.is_none_or(|of| of == cpu))
    }

    pub(crate) fn live(&self) -> usize {
        self.open.len()
    }
}
