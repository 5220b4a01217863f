//! Losses, and when they are over.

use std::sync::Arc;

use kymo::ChannelKind;
use kymo_ctf::{Event, LossKind};

use crate::report;

/// Losses that are listed; of the rest there is a count.
const LISTED: usize = 100;

/// A loss that may still go on.
#[derive(Debug)]
struct Open {
    cpu: Option<u64>,
    stream: Arc<str>,
    /// `None`: the stream is damaged, and ends here.
    end: Option<i64>,
    /// Its place among those that are listed.
    listed: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Gaps {
    before_packet: bool,
    open: Vec<Open>,
    /// How many there were.
    pub(crate) begun: u64,
    pub(crate) listed: report::Losses,
}

/// Whether a stream of this name tells what CPUs do: a loss in it leaves that unknown. Kymo's names
/// do not.
pub fn tells_what_happens(stream: &str) -> bool {
    stream
        .strip_prefix(ChannelKind::Names.label())
        .is_none_or(|rest| !rest.starts_with('_'))
}

/// When the packet of an event began, in nanoseconds from the clock's origin.
fn packet_begin(event: &Event) -> Option<i64> {
    let clock = event.packet.class.clock.as_ref()?;
    i64::try_from(clock.nanos_from_origin(event.packet.begin?)).ok()
}

impl Gaps {
    /// `before_packet`: losses lie before the packet that tells of them. Kymo's do; of other
    /// tracers' it is known only that they lie before its end.
    pub(crate) fn new(before_packet: bool) -> Gaps {
        Gaps {
            before_packet,
            ..Gaps::default()
        }
    }

    /// The number of losses up to now, by which it is told later whether there was another one;
    /// `None` during a loss.
    pub(crate) fn stamp(&self) -> Option<u64> {
        self.open.is_empty().then_some(self.begun)
    }

    /// Whether losses in this stream leave the CPU's state unknown.
    pub(crate) fn matters(stream: &str) -> bool {
        tells_what_happens(stream)
    }

    pub(crate) fn begin(
        &mut self,
        cpu: Option<u64>,
        stream: &Arc<str>,
        end: Option<i64>,
        listed: Option<usize>,
    ) {
        self.begun += 1;
        self.open.push(Open {
            cpu,
            stream: Arc::clone(stream),
            end,
            listed,
        });
    }

    /// Ends those that are over when something comes at `time`.
    pub(crate) fn pass(&mut self, time: i64, event: Option<&Event>) {
        let (before_packet, listed) = (self.before_packet, &mut self.listed.intervals);
        self.open.retain(|gap| {
            let teller = event.filter(|event| {
                before_packet && gap.end.is_some() && *event.stream() == gap.stream
            });
            if let Some(begin) = teller.and_then(packet_begin)
                && let Some(loss) = gap.listed.and_then(|place| listed.get_mut(place))
            {
                loss.end_ns = loss.end_ns.map(|end| end.min(begin));
            }
            teller.is_none() && gap.end.is_none_or(|end| time <= end)
        });
    }

    /// Whether it is unknown at the moment what the CPU does.
    pub(crate) fn hides(&self, cpu: u64) -> bool {
        self.open
            .iter()
            .any(|gap| gap.cpu.is_none_or(|of| of == cpu))
    }

    pub(crate) fn is_damaged(&self, cpu: u64) -> bool {
        self.open
            .iter()
            .any(|gap| gap.end.is_none() && gap.cpu.is_none_or(|of| of == cpu))
    }

    /// Gives its place in the list, if that has room.
    pub(crate) fn list(
        &mut self,
        loss: &kymo_ctf::Loss,
        begin: Option<i64>,
        end: Option<i64>,
    ) -> Option<usize> {
        let (kind, total) = match loss.kind {
            LossKind::Events => ("events", &mut self.listed.events),
            LossKind::Packets => ("packets", &mut self.listed.packets),
        };
        *total = total.saturating_add(loss.count);
        if self.listed.intervals.len() < LISTED {
            let stream = loss.stream.to_string();
            self.listed.intervals.push(report::Loss {
                stream,
                cpu: loss.cpu,
                kind,
                count: loss.count,
                begin_ns: begin,
                end_ns: end,
            });
            Some(self.listed.intervals.len() - 1)
        } else {
            self.listed.intervals_not_listed += 1;
            None
        }
    }

    pub(crate) fn live(&self) -> usize {
        self.open.len() + self.listed.intervals.len()
    }
}
