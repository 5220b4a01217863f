//! What threads, processes, locks, interrupts and system calls are called: looked up on the names
//! channels each time, for there is no room to keep it.

use super::known::{Known, KnownEvent};
use super::merge::{Key, Merge};
use crate::event::{Event, LENGTH_MASK};
use crate::ring::layout::ChannelKind;
use crate::ring::source::Source;
use crate::vocabulary::{
    Counter, IrqName, LockName, Mark, NAME_BYTES, ProcessName, ProcessStateDump, SpanBegin,
    SpanEnd, SyscallEnter, SyscallExit, SyscallName, ThreadName, ThreadStateDump, UserName,
};

/// Kinds of things that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Thread,
    Process,
    Lock,
    Irq,
    Syscall,
    User,
}

impl Subject {
    /// The kind of thing that a field of an event identifies, if any. Where the event itself has
    /// the name, there is nothing to look up.
    pub(super) fn of(event: &KnownEvent, field: &str) -> Option<Subject> {
        if event.channel == ChannelKind::Names {
            return None;
        }
        let ends = |with: &str| {
            field
                .strip_suffix(with)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        };
        let is_one_of = |names: &[&str]| names.contains(&event.name);
        Some(match field {
            _ if ends("tid") => Subject::Thread,
            _ if ends("pid") => Subject::Process,
            "lock" => Subject::Lock,
            "irq" => Subject::Irq,
            "id" if is_one_of(&[SyscallEnter::SCHEMA.name, SyscallExit::SCHEMA.name]) => {
                Subject::Syscall
            }
            "id" if is_one_of(&[
                SpanBegin::SCHEMA.name,
                SpanEnd::SCHEMA.name,
                Counter::SCHEMA.name,
                Mark::SCHEMA.name,
            ]) =>
            {
                Subject::User
            }
            _ => return None,
        })
    }

    /// Whether records of this event name such a thing: the thing first, its name last.
    fn is_named_by(self, event: &KnownEvent) -> bool {
        let names: &[&str] = match self {
            Subject::Thread => &[ThreadName::SCHEMA.name, ThreadStateDump::SCHEMA.name],
            Subject::Process => &[ProcessName::SCHEMA.name, ProcessStateDump::SCHEMA.name],
            Subject::Lock => &[LockName::SCHEMA.name],
            Subject::Irq => &[IrqName::SCHEMA.name],
            Subject::Syscall => &[SyscallName::SCHEMA.name],
            Subject::User => &[UserName::SCHEMA.name],
        };
        names.contains(&event.name)
    }

    /// Words of the field that identifies the thing.
    fn words(self) -> usize {
        if self == Subject::Lock { 2 } else { 1 }
    }
}

/// A name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    bytes: [u8; Name::BYTES],
    len: usize,
    cut: bool,
}

impl Name {
    /// Most bytes of the names of this crate's vocabulary.
    pub(super) const BYTES: usize = NAME_BYTES;

    /// The name in the words of a text; `None` where it is longer than any name.
    fn new(words: &[u32]) -> Option<Name> {
        let (&head, words) = words.split_first()?;
        let mut name = Name {
            bytes: [0; Name::BYTES],
            len: (head & LENGTH_MASK) as usize,
            cut: head > LENGTH_MASK,
        };
        if name.len > Name::BYTES || name.len > 4 * words.len() {
            return None;
        }
        for (to, word) in name.bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        Some(name)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }
}

/// The newest name that was recorded for the thing with this number on any CPU.
pub(super) fn find<S: Source, K: Known>(
    merge: &Merge<'_, S, K>,
    subject: Subject,
    value: u64,
) -> Option<Name> {
    // A name holds for all CPUs, and longer than what was cleared.
    let merge = &merge.of(0..merge.region.header().cpus, None);
    let mut best: Option<(Key, Name)> = None;
    for (reader, view) in merge
        .channels()
        .filter(|(reader, _)| reader.kind() == ChannelKind::Names)
    {
        for (number, packet) in merge.packets(&reader, view) {
            for found in merge.records(&reader, number, packet) {
                // (What is loaded here is looked at again below, when it is known to be right.)
                if best.is_some_and(|(key, _)| found.key <= key)
                    || merge.source.load(found.place.payload) != Ok(value as u32)
                {
                    continue;
                }
                let id = found.place.id;
                let event = merge.known.event(id);
                if !event.is_some_and(|event| subject.is_named_by(&event)) {
                    continue;
                }
                // The fields before the name take four words at most.
                let mut buffer = [0; 4 + 1 + Name::BYTES / 4];
                let Some(payload) = merge.copy(&found, &mut buffer) else {
                    continue;
                };
                let word = |index: usize| payload.get(index).copied().map_or(0, u64::from);
                let named = if subject.words() == 2 {
                    word(0) | word(1) << 32
                } else {
                    word(0)
                };
                if named == value
                    && let Some(shape) = merge.known.shape(id)
                    && let Some(name) = payload.get(shape.fixed_words()..).and_then(Name::new)
                {
                    best = Some((found.key, name));
                }
            }
        }
    }
    best.map(|(_, name)| name)
}
