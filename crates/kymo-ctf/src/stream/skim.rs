//! Stepping over records of which nothing has to be reported, many at once: what is the same for
//! all of them is settled before.
//!
//! There are two ways. Records of fixed size whose header has the packet's main layout cost three
//! loads and no branch that depends on the class ([`Skim::fixed`]): tracers switch classes with
//! almost every record. Everything else goes record by record, with the class of the one before
//! guessed to be that of the next ([`Skim::alike`]).

use super::{Guess, Record, Stream};
use crate::decode::header::{Branch, Header, Id, Load, Switch, WORD, Word};
use crate::decode::plan::{FixedRecords, Known, NAMELESS, Shape, StreamPlan};
use crate::decode::skip::aligned;
use crate::decode::state::{Tick, tick_masked};
use crate::stream::source::Source;

impl<S: Source> Stream<S> {
    /// Steps over the next records of the packet, `most` at most, as far as they need no check;
    /// each is given with its number, from 0 on, and its time. Returns how many there were.
    #[inline(always)]
    pub(super) fn run(&mut self, most: usize, give: impl FnMut(usize, Record, u64)) -> usize {
        let Some(plan) = self.packet.plan.clone() else {
            return 0;
        };
        match &plan.header {
            Header::Compiled(word, switch) if word.big => {
                self.run_over::<true>(&plan, *word, switch, most, give)
            }
            Header::Compiled(word, switch) => {
                self.run_over::<false>(&plan, *word, switch, most, give)
            }
            Header::Walk => 0,
        }
    }

    #[inline(always)]
    fn run_over<const BIG: bool>(
        &mut self,
        plan: &StreamPlan,
        word: Word,
        switch: &Switch,
        most: usize,
        mut give: impl FnMut(usize, Record, u64),
    ) -> usize {
        let (bytes, limit) = (self.source.bytes(), self.packet.limit);
        let mut skim = Skim {
            plan,
            ahead: self.source.ahead(),
            word,
            tag: switch.tag,
            limit,
            until: self.clock.until,
            most,
            records: 0,
            position: self.packet.position,
            clock: self.clock.now,
            guess: self.guess,
        };
        let mut next = skim.header(skim.position, skim.records);
        while let Some((start, header)) = next {
            let tag = switch.tag.of::<BIG>(header);
            let Some(branch) = switch.choose(tag) else {
                break;
            };
            if skim.find_class::<BIG>(branch, tag, header).is_none() {
                break;
            }
            if let Some(fixed) = &plan.fixed
                && fixed.holds(tag, skim.guess.id)
                && match fixed.shape {
                    Shape::OneWord => skim.fixed::<BIG, true, false>(fixed, &mut give),
                    Shape::Plain => skim.fixed::<BIG, false, false>(fixed, &mut give),
                    Shape::Tagged => skim.fixed::<BIG, false, true>(fixed, &mut give),
                } > 0
            {
                next = skim.header(skim.position, skim.records);
                continue;
            }
            next = if skim.guess.known.bits == Known::VARIES {
                let slots = &mut self.slots;
                let Some(event) = plan.events.get(skim.guess.known.event as usize) else {
                    break;
                };
                let end = |tag: u64, body, _: &Known| {
                    if event.layout.looks() {
                        slots.set(switch.slot, tag.into());
                    }
                    event.layout.end(bytes, body, limit, slots)
                };
                skim.alike::<BIG, true>((start, header, tag), branch, end, &mut give)
            } else {
                let end =
                    |_, body, last: &Known| Some(aligned(body, last.mask).wrapping_add(last.bits));
                skim.alike::<BIG, false>((start, header, tag), branch, end, &mut give)
            };
        }
        (self.packet.position, self.clock.now) = (skim.position, skim.clock);
        self.guess = skim.guess;
        skim.records
    }
}

/// A header's first bit, and its bytes.
type At<'a> = (u64, &'a [u8; WORD]);

/// Records being stepped over.
struct Skim<'a, 'p> {
    plan: &'p StreamPlan,
    /// The packet's bytes and some behind it, so that its last headers can be loaded whole.
    ahead: &'a [u8],
    word: Word,
    tag: Load,
    limit: u64,
    until: u64,
    most: usize,
    records: usize,
    position: u64,
    clock: u64,
    guess: Guess,
}

impl<'a> Skim<'a, '_> {
    /// The header of the record behind `position`; none if there were enough records.
    #[inline(always)]
    fn header(&self, position: u64, records: usize) -> Option<At<'a>> {
        if records >= self.most || position >= self.limit {
            return None;
        }
        let start = aligned(position, self.word.mask);
        Some((start, self.word.read(self.ahead, start / 8)?))
    }

    /// Steps over records of fixed size. Returns how many there were.
    #[inline(always)]
    fn fixed<const BIG: bool, const ONE_WORD: bool, const TAGGED: bool>(
        &mut self,
        fixed: &FixedRecords,
        mut give: impl FnMut(usize, Record, u64),
    ) -> usize {
        let &FixedRecords {
            id,
            time,
            low,
            high,
            header,
            ref sizes,
            ..
        } = fixed;
        // Where no tag is looked at, it is the id, or nothing.
        let tag_mask = self.tag.mask;
        let (mut position, mut clock, mut records) = (self.position, self.clock, self.records);
        let before = records;
        while records < self.most {
            let start = aligned(position, self.word.mask);
            let Some(word) = self.word.read(self.ahead, start / 8) else {
                break;
            };
            let eight = id.eight::<BIG>(word);
            let id = id.bits(eight);
            let Some(size) = usize::try_from(id).ok().and_then(|id| sizes.get(id)) else {
                break;
            };
            let tag = if TAGGED {
                self.tag.of::<BIG>(word)
            } else {
                id & tag_mask
            };
            let low_time = if ONE_WORD {
                time.bits(eight)
            } else {
                time.of::<BIG>(word)
            };
            let end = start + u64::from(size.bits);
            // A clock that does not go on has wrapped or stepped back.
            let now = clock & !time.mask | low_time;
            let is_known = size.event != Known::NONE && (!TAGGED || low <= tag && tag <= high);
            if end > self.limit || now < clock || !is_known {
                break;
            }
            let record = Record {
                event: size.event,
                body: start + header,
                end,
                tag,
            };
            give(records, record, now);
            (position, clock, records) = (end, now, records + 1);
        }
        (self.position, self.clock, self.records) = (position, clock, records);
        records - before
    }

    /// Sets `guess` to the class of a record.
    #[inline(always)]
    fn find_class<const BIG: bool>(
        &mut self,
        branch: &Branch,
        tag: u64,
        header: &[u8; WORD],
    ) -> Option<()> {
        let id = match branch.part.id {
            Id::None => NAMELESS,
            Id::Tag => tag,
            Id::At(load) => load.of::<BIG>(header),
        };
        if id != self.guess.id {
            let named = !matches!(branch.part.id, Id::None);
            if id == NAMELESS && named {
                return None;
            }
            self.guess.known = *self.plan.event(named.then_some(id));
            self.guess.id = id;
        }
        Some(())
    }

    /// Steps over a record and those behind it whose header has the same layout: those of fixed
    /// size, or, where that varies, of one class. Returns the first that is not so; none if there
    /// were enough records, and where one needs a check.
    #[inline(always)]
    fn alike<const BIG: bool, const VARIES: bool>(
        &mut self,
        (mut start, mut header, mut tag): (u64, &'a [u8; WORD], u64),
        branch: &Branch,
        mut end_of: impl FnMut(u64, u64, &Known) -> Option<u64>,
        mut give: impl FnMut(usize, Record, u64),
    ) -> Option<At<'a>> {
        let (mut position, mut clock, mut records) = (self.position, self.clock, self.records);
        let next = loop {
            let time = match branch.part.time {
                None => clock,
                Some(load) => {
                    match tick_masked(clock, load.of::<BIG>(header), load.mask, self.until) {
                        Tick::To(time) => time,
                        Tick::Back(_) => break None,
                    }
                }
            };
            let body = start + branch.part.end;
            let Some(end) = end_of(tag, body, &self.guess.known) else {
                break None;
            };
            // A sum that overflows is not behind the position either.
            if end > self.limit || end <= position {
                break None;
            }
            give(
                records,
                Record {
                    event: self.guess.known.event,
                    body,
                    end,
                    tag,
                },
                time,
            );
            (position, clock, records) = (end, time, records + 1);
            let Some(next) = self.header(position, records) else {
                break None;
            };
            let before = (tag, self.guess.known.event);
            (start, header) = next;
            tag = self.tag.of::<BIG>(header);
            // Events come in runs, so that this is a branch that is foreseen, and the next record's
            // place need not wait for the id.
            if tag == before.0 && branch.part.id.is_for_this_tag::<BIG>(self.guess.id, header) {
                continue;
            }
            if !branch.holds(tag) {
                break Some(next);
            }
            if self.find_class::<BIG>(branch, tag, header).is_none() {
                break None;
            }
            if if VARIES {
                self.guess.known.event != before.1
            } else {
                self.guess.known.bits == Known::VARIES
            } {
                break Some(next);
            }
        };
        (self.position, self.clock, self.records) = (position, clock, records);
        next
    }
}
