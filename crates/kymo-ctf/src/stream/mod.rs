//! One stream: packet after packet, record after record.
//!
//! [`Stream::advance`] is the hot path: where the header is of a compiled kind and nothing is odd,
//! a record costs a few loads and additions. Everything else (the next packet, a step back, an
//! error) is in [`Stream::advance_slowly`].

pub(crate) mod access;
pub(crate) mod event_ref;
pub(crate) mod index;
pub(crate) mod item;
pub(crate) mod packet;
mod packets;
mod parts;
pub(crate) mod reader;
mod resume;
mod seek;
mod skim;
pub(crate) mod source;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::class::{ByteOrder, Role};
use crate::decode::header::Header;
use crate::decode::plan::{Known, NAMELESS, Plans, StreamPlan};
use crate::decode::state::{Seen, Slots, Tick, tick};
use crate::decode::walk::Walker;
use crate::error::DecodeError;
use crate::metadata::Metadata;
use crate::metadata::clock::Ticks;
use crate::stream::item::{Loss, Problem};
use crate::stream::packet::{Head, HeaderError};
use crate::stream::source::{Slice, Source};

/// What comes next in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The record that [`Stream::record`] describes.
    Event,
    /// Something else, in [`Stream::note`].
    Note,
    /// Nothing.
    End,
}

/// What a stream has besides event records.
#[derive(Debug, Clone)]
pub(crate) enum Note {
    Loss(Loss),
    Problem(Problem),
    /// A packet begins; only told if asked for.
    Packet,
}

/// The record that was read last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Record {
    /// Place of its class among the plan's events.
    pub(crate) event: u32,
    /// Bits of the packet where its contexts and fields begin, and where they end.
    pub(crate) body: u64,
    pub(crate) end: u64,
    /// The header's tag, where a compiled header has one.
    pub(crate) tag: u64,
}

/// A stream being read.
#[derive(Debug)]
pub(crate) struct Stream<S> {
    plans: Arc<Plans>,
    pub(crate) name: Arc<str>,
    pub(crate) source: S,
    pub(crate) strict: bool,
    tells_packets: bool,
    /// Where packets begin, if an index says so.
    pub(crate) index: Arc<[u64]>,
    /// Offset in the file of the current packet, or of the next; and its number.
    pub(crate) offset: u64,
    pub(crate) number: u64,
    /// Counts packets, so that others can see when one begins.
    pub(crate) packets: u64,
    /// The current packet's; the last one's between packets.
    pub(crate) head: Option<Head>,
    plan: Option<Arc<StreamPlan>>,
    pub(crate) begin: Option<u64>,
    pub(crate) end: Option<u64>,
    open: bool,
    /// Bits from the packet's first to the next record, and to the end of its content or of what is
    /// there of it.
    pub(crate) position: u64,
    limit: u64,
    /// The same, or 0 while something has to be told or looked at first.
    quick: u64,
    truncated: bool,
    /// The id of the event before and what is known of it.
    last_id: u64,
    last: Known,
    /// The record whose step back was told.
    told: Option<u64>,
    /// Bytes of the current packet that are there.
    available: u64,
    /// The clock, which is the time of the record read last, and its value at the packet's end
    /// where that is sure.
    pub(crate) clock: u64,
    /// What the clock says by itself where that is before `clock`, to which it must not step back.
    behind: Option<u64>,
    /// Byte order of the field before `position`, where two orders may meet in a byte.
    order: Option<ByteOrder>,
    until: u64,
    pub(crate) slots: Slots,
    pub(crate) seen: Seen,
    pub(crate) record: Record,
    pending: VecDeque<Note>,
    pub(crate) note: Option<Note>,
    previous: Option<Previous>,
    done: bool,
    pub(crate) first_begin: Option<i128>,
}

/// What the packet before said.
#[derive(Debug, Clone)]
struct Previous {
    class: u64,
    instance: Option<u64>,
    sequence: Option<(u64, u8)>,
    discarded: Option<(u64, u8)>,
    end: Option<Ticks>,
}

impl Previous {
    /// What is kept of a packet that ends at `end`.
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
    /// A stream of which nothing was read yet, over the bytes of this one.
    pub(crate) fn unread(&self, strict: bool) -> Self {
        Stream {
            strict,
            tells_packets: self.tells_packets,
            index: Arc::clone(&self.index),
            ..Stream::new(Arc::clone(&self.plans), &self.name, self.source.clone())
        }
    }
}

impl<S: Source> Stream<S> {
    pub(crate) fn new(plans: Arc<Plans>, name: &str, source: S) -> Self {
        let slots = Slots::new(plans.metadata.slots);
        Stream {
            plans,
            name: Arc::from(name),
            source,
            strict: false,
            tells_packets: false,
            index: Arc::from([]),
            offset: 0,
            number: 0,
            packets: 0,
            head: None,
            plan: None,
            begin: None,
            end: None,
            open: false,
            position: 0,
            limit: 0,
            quick: 0,
            truncated: false,
            last_id: NAMELESS,
            last: Known::UNKNOWN,
            told: None,
            available: 0,
            clock: 0,
            behind: None,
            order: None,
            until: u64::MAX,
            slots,
            seen: Seen::default(),
            record: Record::default(),
            pending: VecDeque::new(),
            note: None,
            previous: None,
            done: false,
            first_begin: None,
        }
    }

    /// The same stream, which also notes where each packet begins, after what is to be told before
    /// it.
    pub(crate) fn telling_packets(mut self) -> Self {
        self.tells_packets = true;
        self
    }

    /// What the trace says about itself.
    pub(crate) fn metadata(&self) -> &Arc<Metadata> {
        &self.plans.metadata
    }

    /// The current packet's plan.
    pub(crate) fn plan(&self) -> Option<&Arc<StreamPlan>> {
        self.plan.as_ref()
    }

    /// Over up to `most` records at once, if nothing has to be told or looked at first; none if
    /// there is.
    #[inline(always)]
    pub(crate) fn skim(&mut self, most: usize, give: impl FnMut(usize, Record, u64)) -> usize {
        if self.position < self.quick {
            self.run(most, give)
        } else {
            0
        }
    }

    /// Makes times of this stream comparable with those of streams of other clocks.
    pub(crate) fn make_comparable(&self, times: &mut [u64]) {
        let clock = self
            .plan
            .as_ref()
            .and_then(|plan| plan.class.clock.as_ref());
        for time in times {
            *time = clock.map_or(0, |clock| clock.comparable(Ticks(*time)));
        }
    }

    /// Goes to what comes next.
    #[inline(always)]
    pub(crate) fn advance(&mut self) -> Next {
        if self.position < self.quick && self.step_over().is_some() {
            return Next::Event;
        }
        self.advance_slowly()
    }

    /// Over one record, if nothing about it is odd; otherwise nothing has changed.
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
        let quick = self.open
            && self.pending.is_empty()
            && self.behind.is_none()
            && !self.is_never_closed();
        self.quick = if quick { self.limit } else { 0 };
        next
    }

    fn next_slowly(&mut self) -> Next {
        loop {
            if let Some(note) = self.pending.pop_front() {
                self.note = Some(note);
                return Next::Note;
            }
            if self.done {
                return Next::End;
            }
            if !self.open {
                match self.open_packet() {
                    Ok(true) if self.tells_packets => self.pending.push_back(Note::Packet),
                    Ok(true) => {}
                    Ok(false) => self.done = true,
                    Err(error) => self.lose_header(error),
                }
            } else if self.position >= self.limit || self.rest_is_empty() {
                self.close_packet();
            } else {
                match self.walk_record() {
                    Ok(true) => return Next::Event,
                    // Something is to be told first.
                    Ok(false) => {}
                    Err(error) => self.lose_records(error),
                }
            }
        }
    }

    fn is_never_closed(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.never_closed)
    }

    /// Whether the rest of a packet that was never closed was never written.
    fn rest_is_empty(&self) -> bool {
        let from = usize::try_from(self.position.div_ceil(8)).unwrap_or(usize::MAX);
        self.is_never_closed()
            && self
                .source
                .bytes()
                .get(from..)
                .unwrap_or(&[])
                .iter()
                .all(|&byte| byte == 0)
    }

    /// Reads the record at `position` with every check. `false` if there is something to tell
    /// before it: it is read again then.
    fn walk_record(&mut self) -> Result<bool, HeaderError> {
        let Some(plan) = self.plan.clone() else {
            return Ok(false);
        };
        let class = &plan.class;
        self.seen = Seen::default();
        let mut walker = Walker::new(
            self.source.bytes(),
            self.position,
            self.limit,
            &mut self.slots,
            Some(&mut self.seen),
        );
        walker = walker.after(self.order);
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
        let (mut time, mut behind) = (self.clock, self.behind);
        if let Some((low, size)) = self.seen.time(behind.unwrap_or(time)) {
            let back = match tick(behind.unwrap_or(time), low, size, self.until) {
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
            if let Some(to) = back.filter(|_| self.told != Some(self.position)) {
                self.told = Some(self.position);
                self.clamped(DecodeError::TimeWentBack { from: time, to }, body);
                return Ok(false);
            }
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
            self.limit,
            &mut self.slots,
            Some(&mut self.seen),
        )
        .after(order);
        let walked = parts.flatten().try_for_each(|part| walker.structure(part));
        let (end, order) = (walker.cursor.position(), walker.cursor.order());
        walked.map_err(at(end))?;
        if end == self.position {
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
        self.position = end;
        (self.clock, self.behind, self.order) = (time, behind, order);
        self.told = None;
        Ok(true)
    }
}

pub(crate) fn wants_more(reason: &DecodeError) -> bool {
    matches!(
        reason,
        DecodeError::UnexpectedEnd { .. } | DecodeError::LengthTooLarge { .. }
    )
}
