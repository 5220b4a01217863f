//! Writes traces whose events and times the test chooses, with Kymo's own metadata and packets; and
//! reads the cases of the conformance set.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot write its trace has failed"
)]

pub mod case;
pub mod elf;
pub mod lttng;
pub mod perf;
pub mod perf_data;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use kymo::ctf::packet::{PacketBuilder, StreamId, Totals};
use kymo::ctf::tsdl;
use kymo::event::Event;
use kymo::ring::reader::Record;
use kymo::vocabulary::{ALL, Cpu, SchedSwitch, SchedWakeup, SwitchReason, ThreadState, Tid};
use kymo::{ChannelKind, Clock, Vocabulary};

/// Nanoseconds of a microsecond.
pub const US: u64 = 1_000;
/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;
const UUID: [u8; 16] = [7; 16];
const PACKET_WORDS: usize = 1 << 10;

struct Stream {
    id: StreamId,
    bytes: Vec<u8>,
    buffer: Vec<u32>,
    packet: PacketBuilder,
    totals: Totals,
}

impl Stream {
    fn new(kind: ChannelKind, cpu: u32) -> Stream {
        let (buffer, id) = (
            vec![0; PACKET_WORDS],
            StreamId {
                uuid: UUID,
                kind,
                cpu,
            },
        );
        let mut stream = Stream {
            id,
            bytes: Vec::new(),
            buffer,
            packet: PacketBuilder::new(0),
            totals: Totals::default(),
        };
        // An empty packet, from which readers count losses.
        stream.seal(0);
        stream
    }

    fn seal(&mut self, end: u64) {
        let words = self
            .packet
            .seal(&mut self.buffer, &self.id, end, self.totals, false);
        self.bytes.extend(
            self.buffer[..words]
                .iter()
                .flat_map(|word| word.to_le_bytes()),
        );
        self.totals.sequence += 1;
        self.packet = PacketBuilder::new(end.max(self.packet.last()));
    }

    fn push(&mut self, time: u64, id: u32, payload: &[u32], padding: u8) {
        let record = Record {
            time,
            id,
            payload,
            padding,
            stepped_back: 0,
        };
        if !self.packet.push(&mut self.buffer, &record) {
            self.seal(time);
            assert!(self.packet.push(&mut self.buffer, &record));
        }
    }
}

/// A trace under construction. The clock counts nanoseconds from 0.
pub struct Made {
    path: PathBuf,
    streams: BTreeMap<(ChannelName, u32), Stream>,
}

type ChannelName = &'static str;

impl Made {
    /// A trace with all events of Kymo, in a folder of this name.
    pub fn new(name: &str) -> Made {
        Made::with(name, false, &ALL)
    }

    /// A trace that has a channel of samples too.
    pub fn with_samples(name: &str) -> Made {
        Made::with(name, true, &ALL)
    }

    /// A trace with these events only.
    pub fn of(name: &str, events: &'static Vocabulary) -> Made {
        Made::with(name, false, events)
    }

    fn with(name: &str, samples: bool, events: &'static Vocabulary) -> Made {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let own = format!("kymo-made-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(own);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        let clock = Clock::at(1_000_000_000);
        let mut metadata = String::new();
        tsdl::write(
            &mut metadata,
            &tsdl::Session {
                uuid: UUID,
                clock,
                hosted: false,
                samples,
                counters: kymo::counter::Counters::NONE,
            },
            events,
        )
        .unwrap();
        std::fs::write(path.join("metadata"), metadata).unwrap();
        Made {
            path,
            streams: BTreeMap::new(),
        }
    }

    fn stream(&mut self, kind: ChannelKind, cpu: u32) -> &mut Stream {
        self.streams
            .entry((kind.label(), cpu))
            .or_insert_with(|| Stream::new(kind, cpu))
    }

    /// Adds an event. Those of one CPU must be added in time order.
    pub fn event<E: Event>(&mut self, cpu: u32, time: u64, event: E) {
        let (words, used) = event.encode();
        let payload = &words.as_ref()[..used];
        let bytes = E::SCHEMA.shape().payload_bytes(payload).unwrap();
        self.stream(E::CHANNEL, cpu)
            .push(time, E::ID, payload, (4 * used - bytes) as u8);
    }

    /// Adds a switch from `prev`, which stops in this state for this reason, to `next` with this
    /// priority.
    pub fn switch(
        &mut self,
        cpu: u32,
        time: u64,
        (prev, state, reason): (u32, ThreadState, SwitchReason),
        (next, prio): (u32, i16),
    ) {
        let switch = SchedSwitch {
            prev_tid: Tid(prev),
            next_tid: Tid(next),
            prev_state: state,
            reason,
            next_prio: prio,
        };
        self.event(cpu, time, switch);
    }

    /// Adds that `waker` wakes `tid` on this CPU.
    pub fn wake(&mut self, cpu: u32, time: u64, tid: u32, waker: u32) {
        self.event(
            cpu,
            time,
            SchedWakeup {
                tid: Tid(tid),
                waker_tid: Tid(waker),
                target_cpu: Cpu(cpu),
            },
        );
    }

    /// Adds a loss of `events` events between the CPU's last one and `end`.
    pub fn lose(&mut self, cpu: u32, events: u64, end: u64) {
        self.lose_of(ChannelKind::Events, cpu, events, end);
    }

    /// Adds a loss in one of the CPU's channels.
    pub fn lose_of(&mut self, kind: ChannelKind, cpu: u32, events: u64, end: u64) {
        let stream = self.stream(kind, cpu);
        let last = stream.packet.last();
        stream.seal(last);
        stream.totals.events_discarded += events;
        stream.packet = PacketBuilder::new(end);
    }

    /// Writes the trace and gives its directory.
    pub fn finish(&mut self) -> &Path {
        for stream in self.streams.values_mut() {
            let last = stream.packet.last();
            stream.seal(last);
            std::fs::write(
                self.path
                    .join(format!("{}_{}", stream.id.kind.label(), stream.id.cpu)),
                &stream.bytes,
            )
            .unwrap();
        }
        &self.path
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
