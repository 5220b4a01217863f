//! What a recorder stands on: its memory, its streams, and its events.

use super::context::Contexts;
use super::{Mode, Refused};
use crate::channel::ChannelKind;
use crate::count::{Counting, Turn};
use crate::ctf::stream::Stream;
use crate::event::{Declarations, Vocabulary};
use crate::exclusive::Exclusive;
use crate::history::History;
use crate::platform::Platform;
use crate::ring::config::Config;
use crate::ring::region::Memory;
use crate::tracer::Tracer;
use crate::vocabulary::Sampling;

/// What a recorder's sessions are made of, wherever the kernel keeps it and in whatever language it
/// declares its events. [`Fixed`] is that of a kernel in Rust.
pub trait Ground {
    /// The events of a session.
    type Events: Declarations;

    /// The memory, the same at every call.
    fn memory(&self) -> Memory;

    /// Most CPUs that a session can have.
    fn cpus(&self) -> u32;

    /// The place of the stream of a channel; `None` for a CPU or a kind that there cannot be.
    fn stream(&self, cpu: u32, kind: ChannelKind) -> Option<&Exclusive<Option<Stream>>>;

    /// The events, where every session has the same ones: their records are read by these. Others
    /// are read by what the region says of them, which takes longer.
    fn vocabulary(&self) -> Option<&'static Vocabulary>;

    /// What events record besides themselves, where they can.
    fn contexts(&self) -> Option<&Contexts>;

    /// Calls [`Contexts::open`] of [`contexts`](Self::contexts). A ground may override it, and
    /// [`end_contexts`](Self::end_contexts), to do so only where the kernel records contexts, so
    /// that others are not linked with it.
    fn open_contexts(&self, events: &Self::Events, config: &Config) {
        let _ = (events, config);
        if let Some(contexts) = self.contexts() {
            contexts.open();
        }
    }

    /// Calls [`Contexts::end`] of [`contexts`](Self::contexts).
    fn end_contexts(&self, mode: Mode, events: &Self::Events, set: &dyn Fn(u32, bool)) {
        if let Some(contexts) = self.contexts() {
            contexts.end(mode, events, set);
        }
    }

    /// What the mode `count` counts; without it, no session counts.
    fn counting(&self) -> Option<&Counting>;

    /// Takes a step of [`counting`](Self::counting) by [`Counting::turn`]. A ground may override it
    /// to call that only where the kernel counts, so that others are not linked with it.
    ///
    /// # Errors
    /// As there.
    fn turn_counting<P: Platform>(&self, turn: Turn) -> Result<(), Refused> {
        let counting = self.counting();
        counting.map_or(Ok(()), |counting| counting.turn::<P>(turn))
    }

    /// Whether `start` reads back what it has laid out, so that no session begins that cannot be
    /// read. Without it, a kernel that leaves the reading to a host is linked without a reader.
    const READS_BACK: bool = true;

    /// Records how samples are taken.
    fn record_sampling<P: Platform>(&self, sampling: &Sampling) {
        Tracer::<P>::record(*sampling);
    }

    /// Whether a session that was opened with these events has room to take samples in.
    fn can_sample(&self, events: &Self::Events) -> bool {
        let _ = events;
        true
    }

    /// Whether a session that was opened with these events has those that say what was counted.
    fn can_count(&self, events: &Self::Events) -> bool {
        let _ = events;
        true
    }

    /// A session of these events is about to be opened, and there is no other.
    fn opens(&self, events: &Self::Events) {
        let _ = events;
    }
}

/// The memory and the vocabulary of a kernel in Rust, and the streams of as many CPUs.
#[derive(Debug)]
pub struct Fixed<const CPUS: usize> {
    memory: Memory,
    vocabulary: &'static Vocabulary,
    pub(super) history: History,
    contexts: Contexts,
    counting: Counting,
    /// By CPU, then by kind.
    streams: [[Exclusive<Option<Stream>>; ChannelKind::ALL.len()]; CPUS],
}

impl<const CPUS: usize> Fixed<CPUS> {
    pub(super) const fn new(memory: Memory, vocabulary: &'static Vocabulary) -> Self {
        Fixed {
            memory,
            vocabulary,
            history: History::new(memory, vocabulary),
            contexts: Contexts::new(),
            counting: Counting::new(),
            streams: [const { [const { Exclusive::new(None) }; ChannelKind::ALL.len()] }; CPUS],
        }
    }

    pub(super) fn declared(&self) -> &'static Vocabulary {
        self.vocabulary
    }

    pub(super) fn counts(&self) -> &Counting {
        &self.counting
    }
}

impl<const CPUS: usize> Ground for Fixed<CPUS> {
    type Events = &'static Vocabulary;

    fn memory(&self) -> Memory {
        self.memory
    }

    fn cpus(&self) -> u32 {
        CPUS as u32
    }

    fn stream(&self, cpu: u32, kind: ChannelKind) -> Option<&Exclusive<Option<Stream>>> {
        self.streams.get(cpu as usize)?.get(kind as usize)
    }

    fn vocabulary(&self) -> Option<&'static Vocabulary> {
        Some(self.vocabulary)
    }

    fn contexts(&self) -> Option<&Contexts> {
        Some(&self.contexts)
    }

    fn counting(&self) -> Option<&Counting> {
        Some(&self.counting)
    }
}
