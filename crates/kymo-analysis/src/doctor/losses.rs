//! Lost events, and the room that they would have needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kymo_ctf::{EventRef, Loss, LossKind};
use rustc_hash::FxHashMap;

use super::{Findings, Place, Remedy, Severity, many};
use crate::section::Report;

const RING: Remedy = Remedy {
    text: "Give the session more `packets`, or `names_packets` or `samples_packets`; let the host \
           read while the kernel runs, and free packets (`Config::consumer`; in C \
           `.flags = KYMO_HOST_READS`); or switch frequent events off",
    page: "your-kernel.md#start",
};
const MISSING: Remedy = Remedy {
    text: "Copy all stream files; and give the memory, and the session, as many CPUs as \
           record",
    page: "your-kernel.md#the-memory",
};
const DAMAGE: Remedy = Remedy {
    text: "Run `kymo lint`, which names the places; see that nobody else writes to the region, and \
           that only the own CPU writes to its ring",
    page: "your-kernel.md#the-platform",
};

/// What a stream holds.
#[derive(Debug, Default)]
struct Stream {
    events: u64,
    /// Number of the last packet, and the size of all packets in bytes.
    packet: Option<u64>,
    bytes: u64,
}

/// What a stream lacks.
#[derive(Debug)]
struct Lost {
    events: u64,
    packets: u64,
    first: Place,
}

#[derive(Debug, Default)]
pub(super) struct Rings {
    streams: FxHashMap<Arc<str>, Stream>,
    lost: BTreeMap<Arc<str>, Lost>,
}

impl Rings {
    pub(super) fn add(&mut self, event: &EventRef<'_>) {
        if !self.streams.contains_key(event.stream()) {
            let name = Arc::clone(event.stream());
            self.streams.insert(name, Stream::default());
        }
        let Some(stream) = self.streams.get_mut(event.stream()) else {
            return;
        };
        stream.events += 1;
        let number = event.packet_number();
        if stream.packet.replace(number) != Some(number) {
            let size = event.packet().and_then(|packet| packet.content_size);
            stream.bytes += size.unwrap_or(0) / 8;
        }
    }

    pub(super) fn lose(&mut self, loss: &Loss, first: Place) {
        let stream = Arc::clone(&loss.stream);
        let of = self.lost.entry(stream).or_insert(Lost {
            events: 0,
            packets: 0,
            first,
        });
        let sum = match loss.kind {
            LossKind::Events => &mut of.events,
            LossKind::Packets => &mut of.packets,
        };
        *sum = sum.saturating_add(loss.count);
    }

    pub(super) fn finish(&self, report: &Report, found: &mut Findings) {
        if let Some(first) = report.damage.first() {
            let more = report.damage.len() as u64 - 1;
            let more = match more {
                0 => String::new(),
                more => format!("; and {}", many(more, "more place", "more places")),
            };
            let message = format!("The trace is damaged: {first}{more}");
            found.add(Severity::Wrong, "damage", message, None, DAMAGE);
        }
        if report.losses.missing > 0 {
            let message = format!(
                "The kernel counted {} more than the trace and its losses have",
                many(report.losses.missing, "event", "events")
            );
            found.add(Severity::Wrong, "missing-events", message, None, MISSING);
        }
        for (stream, lost) in &self.lost {
            let &Lost {
                events,
                packets,
                first,
            } = lost;
            let room = self
                .streams
                .get(stream)
                .filter(|of| of.events > 0 && events > 0);
            let message = match (room, events) {
                (Some(of), _) => {
                    let all = of.events + events;
                    let bytes = u128::from(of.bytes) * u128::from(all) / u128::from(of.events);
                    format!(
                        "{stream} lost {events} of {}: about {} kB would have held them all",
                        many(all, "event", "events"),
                        bytes.div_ceil(1000)
                    )
                }
                (None, 0) => format!("{stream} lost {}", many(packets, "packet", "packets")),
                (None, _) => format!("{stream} lost {}", many(events, "event", "events")),
            };
            found.add(Severity::Missing, "losses", message, Some(first), RING);
        }
    }
}
