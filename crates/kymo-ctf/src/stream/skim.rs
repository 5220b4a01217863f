//! Skips many records at once that need no report; everything that is the same for all of them is
//! computed beforehand.
//!
//! There are two ways. Records of fixed size whose header has the packet's main layout cost three
//! loads and no branch on the class ([`Skim::fixed`]), as the class changes with almost every
//! record. All other records are skipped one by one, with the class of the previous record as the
//! guess for the next ([`Skim::alike`]).

use super::{Guess, Record, Stream};
use crate::decode::header::{Branch, Header, Id, Load, Switch, WORD, Word};
use crate::decode::plan::{FixedRecords, Known, NAMELESS, Shape, StreamPlan};
use crate::decode::skip::aligned;
use crate::decode::state::{Tick, tick_masked};
use crate::stream::source::Source;

impl<S: Source> Stream<S> {
    /// Skips up to `most` records of the packet that need no check, and passes each to `give` with
    /// its index, from 0, and its time. Returns their number.
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

/// Bit position of a header, and its bytes.
type At<'a> = (u64, &'a [u8; WORD]);

/// State of skipping records.
struct Skim<'a, 'p> {
    plan: &'p StreamPlan,
    /// The packet's bytes and some after it, so that its last headers can be loaded as full words.
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
    /// The header of the record after `position`; `None` if enough records were skipped.
    #[inline(always)]
    fn header(&self, position: u64, records: usize) -> Option<At<'a>> {
        if records >= self.most || position >= self.limit {
            return None;
        }
        let start = aligned(position, self.word.mask);
        Some((start, self.word.read(self.ahead, start / 8)?))
    }

    /// Skips records of fixed size. Returns their number.
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
        // If the tag is not examined, it is the id, or there is none.
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
            // A smaller value means that the clock wrapped or stepped back.
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

    /// Sets `guess` to the class of the record.
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

    /// Skips a record and those after it with the same header layout: records of fixed size or, if
    /// `VARIES`, of the same class. Returns the first other record; `None` if enough records were
    /// skipped or one needs a check.
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
            // This also catches an overflow of the sum.
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
            // Events come in runs, so this branch is predicted, and the next record's position does
            // not wait for the id.
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
