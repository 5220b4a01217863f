//! Reads one stream, packet by packet and record by record.
//!
//! [`Stream::skim`] is the hot path: a record with a compiled header that needs no check costs a
//! few loads and additions. Everything else (the next packet, a step back of the clock, an error)
//! is in [`Stream::advance_slowly`].

pub(crate) mod access;
pub(crate) mod event_ref;
pub(crate) mod index;
pub(crate) mod item;
pub(crate) mod packet;
pub(crate) mod packets;
mod parts;
pub(crate) mod reader;
mod resume;
mod seek;
mod skim;
pub(crate) mod source;

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use crate::class::{ByteOrder, Role};
use crate::decode::check::Walker;
use crate::decode::header::Header;
use crate::decode::plan::{Known, NAMELESS, Plans, StreamPlan};
use crate::decode::state::{Seen, Slots, Tick, tick};
use crate::error::DecodeError;
use crate::metadata::Metadata;
use crate::metadata::clock::Ticks;
use crate::stream::item::{Loss, Problem};
use crate::stream::packet::{Head, HeaderError};
use crate::stream::source::{Slice, Source};

/// The next thing in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The record that [`Stream::record`] describes.
    Event,
    /// A note, in [`Stream::note`].
    Note,
    /// Nothing.
    End,
}

/// What a stream has besides event records.
#[derive(Debug, Clone)]
pub(crate) enum Note {
    Loss(Loss),
    Problem(Problem),
    /// A packet begins; only after [`Stream::telling_packets`].
    Packet,
}

/// The latest record.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Record {
    /// Index of its class among the plan's events.
    pub(crate) event: u32,
    /// Bit positions in the packet at which its contexts and fields begin and end.
    pub(crate) body: u64,
    pub(crate) end: u64,
    /// The header's tag, if a compiled header has one.
    pub(crate) tag: u64,
}

/// A stream being read.
#[derive(Debug)]
pub(crate) struct Stream<S> {
    plans: Arc<Plans>,
    pub(crate) name: Arc<str>,
    pub(crate) source: S,
    /// Whether every problem ends the stream.
    pub(crate) strict: bool,
    /// Whether the beginning of each packet is a [`Note::Packet`].
    tells_packets: bool,
    /// Packet offsets from an index, if there is one.
    pub(crate) index: Arc<[u64]>,
    /// Where packets begin, once they have been found head by head; all readers of the file share
    /// it. If the file has grown since, the newest packets are missing. The head of each packet is
    /// read again before the packet is used.
    pub(crate) walked: Arc<OnceLock<Option<Arc<[u64]>>>>,
    state: State,
    pub(crate) packet: PacketState,
    pub(crate) clock: ClockState,
    pub(crate) notes: Notes,
    guess: Guess,
    pub(crate) slots: Slots,
    pub(crate) seen: Seen,
    pub(crate) record: Record,
    previous: Option<Previous>,
    /// Whether a packet had a UUID that is not the metadata's, which is reported once.
    has_foreign_uuid: bool,
    /// Beginning of the first packet with records, or, before that is open, of the current packet,
    /// in nanoseconds from the clock's origin.
    pub(crate) first_begin: Option<i128>,
    /// Whether a packet with records was open.
    pub(crate) has_begun: bool,
}

/// The position of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a packet header, or at the end of the file.
    BetweenPackets,
    /// Between records of a packet.
    InPacket,
    /// The stream has ended.
    Ended,
}

/// The current packet; between packets, the next one with the head of the previous one.
#[derive(Debug, Default)]
pub(crate) struct PacketState {
    /// File offset and index of the packet.
    pub(crate) offset: u64,
    pub(crate) number: u64,
    /// Number of packets opened, by which callers detect a new packet.
    pub(crate) count: u64,
    pub(crate) head: Option<Head>,
    plan: Option<Arc<StreamPlan>>,
    pub(crate) begin: Option<u64>,
    pub(crate) end: Option<u64>,
    /// Bit position of the next record.
    pub(crate) position: u64,
    /// Bit position of the end of its content, or of the available part.
    limit: u64,
    /// End of the records that may be skipped without a check: `limit`, or 0 while a note or the
    /// packet's end comes first.
    unchecked: u64,
    /// Available bytes of the packet, and whether the file ends before it does.
    available: u64,
    truncated: bool,
    /// Byte order of the field before `position`, if two byte orders may meet inside a byte.
    order: Option<ByteOrder>,
}

/// The clock of a stream.
#[derive(Debug)]
pub(crate) struct ClockState {
    /// Time of the latest record.
    pub(crate) now: u64,
    /// The actual clock value, if it is before `now`: reported times never step back.
    behind: Option<u64>,
    /// Its value at the packet's end, if that is unambiguous.
    until: u64,
    /// Position of the record whose step back has been reported.
    reported: Option<u64>,
    /// The last clock value behind `now`, since a step back was reported: the values that follow
    /// are behind by the same step.
    pub(crate) stepped: Option<u64>,
}

/// What a stream has besides event records.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Notes that come before the next record.
    pending: VecDeque<Note>,
    /// The current note.
    pub(crate) current: Option<Note>,
}

/// The class of the previous record, as a guess for the next one.
#[derive(Debug, Clone, Copy)]
struct Guess {
    id: u64,
    known: Known,
}

impl Guess {
    const NONE: Guess = Guess {
        id: NAMELESS,
        known: Known::UNKNOWN,
    };
}

/// Values of the previous packet.
#[derive(Debug, Clone)]
struct Previous {
    class: u64,
    instance: Option<u64>,
    sequence: Option<(u64, u8)>,
    discarded: Option<(u64, u8)>,
    end: Option<Ticks>,
}

impl Previous {
    /// The values to keep of a packet that ends at `end`.
    fn of(head: &Head, end: Option<Ticks>) -> Self {
        Previous {
            class: head.plan.class.id,
            instance: head.instance,
            sequence: head.sequence,
            discarded: head.discarded,
            end,
        }
    }
}

impl Stream<Slice<'_>> {
    /// A new stream over the same bytes, before its first packet.
    pub(crate) fn unread(&self, strict: bool) -> Self {
        Stream {
            strict,
            tells_packets: self.tells_packets,
            index: Arc::clone(&self.index),
            walked: Arc::clone(&self.walked),
            ..Stream::new(Arc::clone(&self.plans), &self.name, self.source.clone())
        }
    }
}

impl<S: Source> Stream<S> {
    /// The current packet's counter of lost events, and its size in bits.
    pub(crate) fn discarded(&self) -> Option<(u64, u8)> {
        self.packet.head.as_ref()?.discarded
    }

    pub(crate) fn new(plans: Arc<Plans>, name: &str, source: S) -> Self {
        let slots = Slots::new(plans.metadata.slots);
        Stream {
            plans,
            name: Arc::from(name),
            source,
            strict: false,
            tells_packets: false,
            index: Arc::from([]),
            walked: Arc::default(),
            state: State::BetweenPackets,
            packet: PacketState::default(),
            clock: ClockState {
                now: 0,
                behind: None,
                until: u64::MAX,
                reported: None,
                stepped: None,
            },
            notes: Notes::default(),
            guess: Guess::NONE,
            slots,
            seen: Seen::default(),
            record: Record::default(),
            previous: None,
            has_foreign_uuid: false,
            first_begin: None,
            has_begun: false,
        }
    }

    /// Reports the beginning of each packet as a note, after the losses before it.
    pub(crate) fn telling_packets(mut self) -> Self {
        self.tells_packets = true;
        self
    }

    /// The metadata of the trace.
    pub(crate) fn metadata(&self) -> &Arc<Metadata> {
        &self.plans.metadata
    }

    /// The current packet's plan.
    pub(crate) fn plan(&self) -> Option<&Arc<StreamPlan>> {
        self.packet.plan.as_ref()
    }

    /// Skips up to `most` records of the packet and passes each to `give` with its index, from 0,
    /// and its time. Skips none if a note, the packet's end or a record that needs a check comes
    /// first.
    #[inline(always)]
    pub(crate) fn skim(&mut self, most: usize, give: impl FnMut(usize, Record, u64)) -> usize {
        if self.packet.position < self.packet.unchecked {
            self.run(most, give)
        } else {
            0
        }
    }

    /// Converts times of this stream so that they compare with those of other clocks.
    pub(crate) fn make_comparable<'t>(&self, times: impl IntoIterator<Item = &'t mut u64>) {
        let clock = self.plan().and_then(|plan| plan.class.clock.as_ref());
        for time in times {
            *time = clock.map_or(0, |clock| clock.comparable(Ticks(*time)));
        }
    }

    /// Advances to the next record or note.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Next {
        if self.packet.position < self.packet.unchecked && self.step_over().is_some() {
            return Next::Event;
        }
        self.advance_slowly()
    }

    /// Skips one record that needs no check; otherwise changes nothing.
    #[inline(always)]
    fn step_over(&mut self) -> Option<()> {
        let mut record = None;
        self.run(1, |_, stepped, _| record = Some(stepped));
        self.record = record?;
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn advance_slowly(&mut self) -> Next {
        let next = self.next_slowly();
        let is_plain = self.state == State::InPacket
            && self.notes.pending.is_empty()
            && self.clock.behind.is_none()
            && !self.is_never_closed();
        self.packet.unchecked = if is_plain { self.packet.limit } else { 0 };
        next
    }

    fn next_slowly(&mut self) -> Next {
        loop {
            if let Some(note) = self.notes.pending.pop_front() {
                self.notes.current = Some(note);
                return Next::Note;
            }
            match self.state {
                State::Ended => return Next::End,
                State::BetweenPackets => match self.open_packet() {
                    Ok(true) if self.tells_packets => {
                        self.notes.pending.push_back(Note::Packet);
                    }
                    Ok(true) => {}
                    Ok(false) => self.state = State::Ended,
                    Err(error) => self.lose_header(error),
                },
                State::InPacket
                    if self.packet.position >= self.packet.limit || self.rest_is_empty() =>
                {
                    self.close_packet();
                }
                State::InPacket => match self.walk_record() {
                    Ok(true) => return Next::Event,
                    // A step back is reported first.
                    Ok(false) => {}
                    Err(error) => self.lose_records(error),
                },
            }
        }
    }

    fn is_never_closed(&self) -> bool {
        self.packet
            .head
            .as_ref()
            .is_some_and(|head| head.never_closed)
    }

    /// Whether the rest of a packet that was never closed is empty.
    fn rest_is_empty(&self) -> bool {
        let from = usize::try_from(self.packet.position.div_ceil(8)).unwrap_or(usize::MAX);
        self.is_never_closed()
            && self
                .source
                .bytes()
                .get(from..)
                .unwrap_or(&[])
                .iter()
                .all(|&byte| byte == 0)
    }

    /// Reads the record at `position` with every check. `false` if a step back of the clock must be
    /// reported first; the record is then read again.
    fn walk_record(&mut self) -> Result<bool, HeaderError> {
        let Some(plan) = self.packet.plan.clone() else {
            return Ok(false);
        };
        let class = &plan.class;
        self.seen = Seen::default();
        let mut walker = Walker::new(
            self.source.bytes(),
            self.packet.position,
            self.packet.limit,
            &mut self.slots,
            Some(&mut self.seen),
        );
        walker = walker.after(self.packet.order);
        let walked = class
            .event_header
            .as_deref()
            .map_or(Ok(()), |header| walker.structure(header));
        let (body, order) = (walker.cursor.position(), walker.cursor.order());
        let at = |position| move |reason| HeaderError { reason, position };
        walked.map_err(at(body))?;
        let id = self.seen.value(Role::EventClassId);
        let unknown = || DecodeError::UnknownEvent {
            id: id.unwrap_or(0),
            stream: class.id,
        };
        let event = plan.event(id).event;
        if event == Known::NONE {
            return Err(at(body)(unknown()));
        }
        let (mut time, mut behind) = (self.clock.now, self.clock.behind);
        let mut stepped = self.clock.stepped;
        if let Some((low, size)) = self.seen.time(behind.unwrap_or(time)) {
            let back = match tick(behind.unwrap_or(time), low, size, self.clock.until) {
                Tick::To(to) if to >= time => {
                    (time, behind) = (to, None);
                    None
                }
                Tick::To(to) => {
                    behind = Some(to);
                    behind
                }
                Tick::Back(to) => Some(to),
            };
            let is_new = self.clock.reported != Some(self.packet.position);
            let is_same_step = back >= self.clock.stepped && self.clock.stepped.is_some();
            if let Some(to) = back.filter(|_| is_new && !is_same_step) {
                self.clock.reported = Some(self.packet.position);
                self.clamped(DecodeError::TimeWentBack { from: time, to }, body);
                return Ok(false);
            }
            stepped = back;
        }
        let fields = plan
            .events
            .get(event as usize)
            .map(|plan| [&plan.class.context, &plan.class.fields]);
        let parts = [&class.event_context]
            .into_iter()
            .chain(fields.into_iter().flatten());
        let mut walker = Walker::new(
            self.source.bytes(),
            body,
            self.packet.limit,
            &mut self.slots,
            Some(&mut self.seen),
        )
        .after(order);
        let walked = parts.flatten().try_for_each(|part| walker.structure(part));
        let (end, order) = (walker.cursor.position(), walker.cursor.order());
        walked.map_err(at(end))?;
        if end == self.packet.position {
            return Err(at(end)(DecodeError::EmptyRecord));
        }
        let tag = match &plan.header {
            Header::Compiled(_, switch) => u64::try_from(self.slots.get(switch.slot)).unwrap_or(0),
            Header::Walk => 0,
        };
        self.record = Record {
            event,
            body,
            end,
            tag,
        };
        self.packet.position = end;
        (self.clock.now, self.clock.behind, self.packet.order) = (time, behind, order);
        (self.clock.reported, self.clock.stepped) = (None, stepped);
        Ok(true)
    }
}

pub(crate) fn wants_more(reason: &DecodeError) -> bool {
    matches!(
        reason,
        DecodeError::UnexpectedEnd { .. } | DecodeError::LengthTooLarge { .. }
    )
}
