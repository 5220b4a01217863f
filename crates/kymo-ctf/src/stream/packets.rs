//! Transition between packets: times, losses and sizes.

use std::sync::Arc;

use super::{Guess, Note, Previous, State, Stream, wants_more};
use crate::decode::bits::low_mask;
use crate::decode::plan::NAMELESS;
use crate::decode::state::{Slots, Tick, tick};
use crate::error::DecodeError;
use crate::metadata::clock::Ticks;
use crate::stream::item::{Consequence, Loss, LossKind, Problem};
use crate::stream::packet::{self, Head, HeaderError, Packet};
use crate::stream::source::Source;

/// Bytes of a packet to read before its size is known. More are read if its context is longer.
pub(super) const FIRST_READ: u64 = 4096;

/// Growth of a counter whose new value has `size` bits; `None` if it has stepped back. Counters of
/// less than 64 bits and the low bits of wider ones may wrap: a smaller value is a step back only
/// if that is the shorter distance.
pub(crate) fn grown(from: u64, to: u64, size: u8) -> Option<u64> {
    let mask = low_mask(size);
    let grown = to.wrapping_sub(from) & mask;
    let back = to < from && (size == 64 || grown > mask / 2);
    (!back).then_some(grown)
}

impl<S: Source> Stream<S> {
    /// Reads header and context of the packet at `offset`; `None` at the end of the stream.
    pub(super) fn read_head(
        &mut self,
        offset: u64,
        slots: &mut Slots,
    ) -> Result<Option<Head>, HeaderError> {
        let mut wanted = FIRST_READ;
        loop {
            self.source
                .seek(offset, wanted)
                .map_err(|reason| HeaderError {
                    reason,
                    position: 0,
                })?;
            let bytes = self.source.bytes();
            let available = bytes.len() as u64;
            if available == 0 {
                return Ok(None);
            }
            match packet::read(bytes, &self.plans, slots) {
                Ok(head) => return Ok(Some(head)),
                Err(error) if !wants_more(&error.reason) => return Err(error),
                Err(error) if available < wanted => {
                    return Err(HeaderError {
                        reason: DecodeError::Truncated { available },
                        position: error.position,
                    });
                }
                Err(_) => wanted = wanted.saturating_mul(2),
            }
        }
    }

    /// Goes to the next packet; `false` at the end of the stream.
    pub(super) fn open_packet(&mut self) -> Result<bool, HeaderError> {
        let mut slots = std::mem::replace(&mut self.slots, Slots::new(0));
        self.source.release(self.packet.offset);
        let head = self.read_head(self.packet.offset, &mut slots);
        self.slots = slots;
        let Some(mut head) = head? else {
            return Ok(false);
        };
        let at_start = |reason| HeaderError {
            reason,
            position: 0,
        };
        if !self.is_of_this_stream(&head) {
            return Err(at_start(DecodeError::StreamChanged));
        }
        if let (None, Some(content)) = (head.packet_size, head.content_size)
            && self
                .has_packet_behind(content.div_ceil(8))
                .map_err(at_start)?
        {
            head.packet_size = Some(content.div_ceil(8).saturating_mul(8));
        }
        let size = match head.packet_size {
            Some(bits) => bits / 8,
            None if head.never_closed => {
                self.clamped(DecodeError::NeverClosed, head.bits);
                let next = self.search(
                    self.packet
                        .offset
                        .saturating_add(head.bits.div_ceil(8).max(1)),
                    true,
                );
                next.map_or(u64::MAX, |next| next - self.packet.offset)
            }
            None => u64::MAX,
        };
        self.source
            .seek(self.packet.offset, size)
            .map_err(at_start)?;
        self.packet.available = self.source.bytes().len() as u64;
        self.packet.truncated = head.packet_size.is_some() && self.packet.available < size;
        self.packet.position = head.bits;
        self.packet.limit = head
            .content_size
            .unwrap_or(u64::MAX)
            .min(self.packet.available.saturating_mul(8));
        self.packet.count += 1;
        self.packet.plan = Some(Arc::clone(&head.plan));
        self.guess = Guess {
            id: NAMELESS,
            known: *head.plan.event(None),
        };
        self.packet.order = head.order;
        if let Some(position) = head.foreign_uuid
            && !std::mem::replace(&mut self.has_foreign_uuid, true)
        {
            self.clamped(DecodeError::UuidMismatch, position);
        }
        self.times(&head);
        self.losses(&head);
        self.packet.head = Some(head);
        self.clock.reported = None;
        // In strict mode, a problem in the header may have ended the stream.
        if self.state == State::BetweenPackets {
            self.state = State::InPacket;
        }
        Ok(true)
    }

    /// Whether another packet begins this many bytes after the current one, which tells the size
    /// of its content only. Else what follows is padding.
    fn has_packet_behind(&mut self, size: u64) -> Result<bool, DecodeError> {
        let next = self.packet.offset.saturating_add(size);
        if let Some(magic) = self.magic() {
            // Anything but padding is a packet, so that a damaged one is not passed over.
            self.source.seek(next, magic.len() as u64)?;
            return Ok(self.source.bytes().iter().any(|&byte| byte != 0));
        }
        let mut slots = Slots::new(self.metadata().slots);
        let Ok(Some(head)) = self.read_head(next, &mut slots) else {
            return Ok(false);
        };
        let size = head.content_size.unwrap_or(0).div_ceil(8);
        self.source.seek(next, size)?;
        let is_whole = size > 0 && self.source.bytes().len() as u64 >= size;
        Ok(is_whole && self.is_of_this_stream(&head))
    }

    /// Whether the packet is of this stream, by all that its header says.
    pub(super) fn belongs_here(&self, head: &Head) -> bool {
        self.is_of_this_stream(head) && (head.foreign_uuid.is_none() || self.has_foreign_uuid)
    }

    pub(super) fn is_of_this_stream(&self, head: &Head) -> bool {
        let key = (head.plan.class.id, head.instance);
        self.previous
            .as_ref()
            .is_none_or(|previous| (previous.class, previous.instance) == key)
    }

    /// Sets the clock to the packet's beginning and determines its end.
    ///
    /// In CTF 1.8 (section 8) a narrow value continues from the stream's previous clock value; in
    /// CTF 2 (section 6.1) every packet starts from 0. In either case the times given to records
    /// never step back: an earlier value is reported, and the clock continues from it behind the
    /// given times.
    fn times(&mut self, head: &Head) {
        (self.packet.begin, self.packet.end, self.clock.until) = (None, None, u64::MAX);
        let mut now = if self.metadata().trace.major >= 2 {
            0
        } else {
            self.clock.behind.unwrap_or(self.clock.now)
        };
        if let Some((low, size)) = head.begin {
            let (Tick::To(begin) | Tick::Back(begin)) = tick(now, low, size, u64::MAX);
            now = begin;
            let is_same_step = self.clock.stepped.is_some_and(|last| begin >= last);
            let is_behind = begin < self.clock.now;
            self.clock.stepped = is_behind.then_some(begin);
            if is_behind && !is_same_step {
                self.clamped(
                    DecodeError::TimeWentBack {
                        from: self.clock.now,
                        to: begin,
                    },
                    head.bits,
                );
            }
            self.packet.begin = Some(begin.max(self.clock.now));
        }
        self.clock.behind =
            (now < self.clock.now && head.plan.class.clock.is_some()).then_some(now);
        self.clock.now = self.clock.now.max(now);
        if let Some((low, size)) = head.end {
            match tick(now, low, size, u64::MAX) {
                Tick::To(end) => {
                    self.packet.end = Some(end.max(self.clock.now));
                    // Narrow times may wrap more than once before the end.
                    self.clock.until = if size == 64 { end } else { u64::MAX };
                }
                Tick::Back(to) => {
                    self.clamped(DecodeError::TimeWentBack { from: now, to }, head.bits)
                }
            }
        }
        // A tracer may write an empty packet long before it records.
        if !self.has_begun {
            self.has_begun = self.packet.limit > head.bits;
            let clock = head.plan.class.clock.as_ref();
            self.first_begin = clock
                .zip(self.packet.begin)
                .map(|(clock, begin)| clock.nanos_from_origin(Ticks(begin)));
        }
    }

    /// Reports losses between the previous packet and this one, with the same intervals as
    /// babeltrace2.
    fn losses(&mut self, head: &Head) {
        let Some(previous) = self.previous.clone() else {
            return;
        };
        let discarded = self.growth("events_discarded", previous.discarded, head.discarded, head);
        // Tracers that do not count packets may leave the number unchanged, which is not a loss.
        let steps = self.growth("packet_seq_num", previous.sequence, head.sequence, head);
        let ends = [
            (LossKind::Events, discarded, self.packet.end),
            (
                LossKind::Packets,
                steps.saturating_sub(1),
                self.packet.begin,
            ),
        ];
        for (kind, count, end) in ends.into_iter().filter(|(_, count, _)| *count > 0) {
            let end = end.filter(|_| head.plan.class.clock.is_some()).map(Ticks);
            let nanos = |time: Option<Ticks>| {
                Some(head.plan.class.clock.as_ref()?.nanos_from_origin(time?))
            };
            self.notes.pending.push_back(Note::Loss(Loss {
                stream: Arc::clone(&self.name),
                cpu: head.cpu,
                kind,
                count,
                begin: previous.end,
                end,
                begin_nanos: nanos(previous.end),
                end_nanos: nanos(end),
            }));
        }
    }

    /// Growth of a counter from one packet to the next; a step back is reported.
    fn growth(
        &mut self,
        counter: &'static str,
        from: Option<(u64, u8)>,
        to: Option<(u64, u8)>,
        head: &Head,
    ) -> u64 {
        let (Some((from, _)), Some((to, size))) = (from, to) else {
            return 0;
        };
        grown(from, to, size).unwrap_or_else(|| {
            self.clamped(
                DecodeError::CounterWentBack { counter, from, to },
                head.bits,
            );
            0
        })
    }

    pub(super) fn close_packet(&mut self) {
        if self.packet.truncated {
            let available = self.packet.available;
            return self.lose_records(HeaderError {
                reason: DecodeError::Truncated { available },
                position: self.packet.position,
            });
        }
        if let Some(end) = self.packet.end {
            if end >= self.clock.now {
                self.clock.now = end;
            } else if self.clock.until != u64::MAX
                && self.clock.stepped.is_none_or(|last| end < last)
            {
                self.clamped(
                    DecodeError::TimeWentBack {
                        from: self.clock.now,
                        to: end,
                    },
                    self.packet.position,
                );
            }
        }
        self.leave_packet(self.packet.offset.saturating_add(self.packet.available));
    }

    /// Leaves the packet; the next one is expected at offset `next`.
    pub(super) fn leave_packet(&mut self, next: u64) {
        if self.state == State::InPacket {
            self.state = State::BetweenPackets;
            let end = self.packet.end.map(Ticks);
            let head = self.packet.head.as_ref();
            self.previous = head.map(|head| Previous::of(head, end));
        }
        (self.packet.position, self.packet.limit) = (0, 0);
        self.packet.offset = next;
        self.packet.number += 1;
    }

    /// Adds a note about an error that does not stop reading.
    pub(super) fn clamped(&mut self, reason: DecodeError, position: u64) {
        self.problem(reason, position, Consequence::Clamped);
    }

    pub(super) fn problem(&mut self, reason: DecodeError, position: u64, consequence: Consequence) {
        let consequence = if self.strict {
            Consequence::StreamEnds
        } else {
            consequence
        };
        if consequence == Consequence::StreamEnds {
            self.state = State::Ended;
            (self.packet.position, self.packet.limit) = (0, 0);
        }
        self.notes.pending.push_back(Note::Problem(Problem {
            stream: Arc::clone(&self.name),
            packet: self.packet.number,
            offset: self.packet.offset.saturating_add(position / 8),
            reason,
            consequence,
        }));
    }

    /// The current packet as an owned value. The window must be on it.
    pub(crate) fn packet(&self) -> Option<Packet> {
        let head = self.packet.head.as_ref()?;
        let (header, context) = head.fields(self.source.bytes(), self.metadata());
        Some(Packet {
            stream: Arc::clone(&self.name),
            number: self.packet.number,
            offset: self.packet.offset,
            class: Arc::clone(&head.plan.class),
            header,
            context,
            begin: self.packet.begin.map(Ticks),
            end: self.packet.end.map(Ticks),
            cpu: head.cpu,
            content_size: head.content_size,
            packet_size: head.packet_size,
        })
    }
}
