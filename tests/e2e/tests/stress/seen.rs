//! What a trace has, event by event, held against what the kernel counted.

use kymo::event::Event as _;
use kymo::ring::layout::{ChannelKind, TIME_BITS};
use kymo::ring::reader::Losses;
use kymo::vocabulary::{ClockBack, ClockStep, SessionEnd};
use kymo_ctf::{Event, Item, LossKind, Trace};
use kymo_e2e::babeltrace;

use super::machine::{Counts, Run};
use super::{CPUS, DEPTHS, PACKET_SIZE};

/// A jump back is as long as so many jumps ahead.
const JUMP_BACK: u64 = 3;

/// The times of one `timed` event: when it says it was recorded, the clock just before, how far
/// that was ahead of the hardware's, the latest time in the stream before it, the beginning of its
/// packet, and whether an interrupt recorded since the thread's last event.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    time: u64,
    raw: u64,
    offset: u64,
    before: u64,
    packet: u64,
    interrupted: bool,
}

/// What the trace has of one CPU.
#[derive(Default)]
pub(crate) struct Seen {
    events: u64,
    pub(crate) lost: u64,
    /// By depth: number of the last event, numbers missing before it, the last stamp.
    last: [u64; DEPTHS],
    missing: [u64; DEPTHS],
    stamps: [Option<Stamp>; DEPTHS],
    latest: u64,
    /// Which event that last one was, counted from 1.
    at: [u64; DEPTHS],
    /// Bytes recorded since the thread's last event; the last event at which they filled a packet.
    nested: u64,
    filled: u64,
    /// Lost events that no nested writers' filling a packet explains; see `unexplained`.
    pub(crate) unexplained: u64,
    /// Time stamps that must have been clamped, and those that may have been; the same for windows
    /// that stepped back.
    pub(crate) clamped: [u64; 2],
    pub(crate) windows_back: [u64; 2],
    pub(crate) jumps: Jumps,
    /// `kymo_clock_step` events.
    steps_back: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Jumps {
    pub(crate) ahead: u64,
    pub(crate) back: u64,
    /// Jumps ahead that nothing can be said of: the clock was behind the trace, or an interrupt
    /// recorded between a reading of the clock and its event.
    pub(crate) obscured: u64,
    /// Jumps ahead at which the clock was behind the trace without either reason.
    unexplained: u64,
    /// Jumps ahead whose times were compared, and the most ticks that passed besides.
    pub(crate) measured: u64,
    pub(crate) most_besides: u64,
    /// The stamps around a jump, until the event after them says by when the second one was over.
    open: Option<(Stamp, Stamp)>,
    /// Jumps ahead until the clock is where it was before it jumped back.
    behind: u64,
}

impl Seen {
    fn event(&mut self, run: &Run, jump: u64, event: &Event) {
        let field = |name: &str| event.fields.get(name).unwrap().as_u64().unwrap();
        let (cpu, depth, seq) = (field("cpu"), field("depth") as usize, field("seq"));
        assert_eq!(Some(cpu), event.cpu(), "{}", run.name);
        let timed = event.name() != "beat";
        let (raw, offset) = if timed {
            (field("raw"), field("offset"))
        } else {
            (0, 0)
        };
        let mix = seq as u32
            ^ (cpu as u32) << 16
            ^ depth as u32
            ^ (raw ^ offset) as u32
            ^ ((raw ^ offset) >> 32) as u32;
        let check = mix.wrapping_mul(0x9e37_79b1).rotate_left(15);
        assert_eq!(
            field("check"),
            u64::from(check),
            "{}: {} of cpu {cpu}, depth {depth}, {seq}",
            run.name,
            event.name()
        );

        let last = &mut self.last[depth];
        assert!(
            seq > *last,
            "{}: {seq} after {last}, cpu {cpu}, depth {depth}",
            run.name
        );
        let gap = seq - *last - 1;
        *last = seq;
        self.gap(depth, gap);
        self.events += 1;
        self.at[depth] = self.events;
        let bytes = if timed { 32 } else { 16 };
        let interrupted = self.nested > 0;
        self.nested = if depth == 0 { 0 } else { self.nested + bytes };
        // But for its header, the thread's record that opened it, and the one that did not fit any
        // more.
        if self.nested >= PACKET_SIZE - 150 {
            self.filled = self.events;
        }

        let time = event.time.unwrap().0;
        let before = std::mem::replace(&mut self.latest, time);
        assert!(time >= before, "{}: time steps back", run.name);
        if timed {
            let packet = event.packet.begin.unwrap().0;
            let stamp = Stamp {
                time,
                raw,
                offset,
                before,
                packet,
                interrupted,
            };
            assert!(
                time >= raw.wrapping_add(offset),
                "{}: {time} is before {raw} + {offset}",
                run.name
            );
            if let Some(earlier) = self.stamps[depth].replace(stamp) {
                self.bound(&run.name, earlier, raw);
                if depth == 0 && jump > 0 {
                    self.jumps.measure(&run.name, raw);
                    if gap == 0 && offset != earlier.offset {
                        self.jumps.note(jump, earlier, stamp);
                    }
                }
            }
        }
    }

    /// So many events of this depth are not in the trace. A compare-and-swap writer drops events,
    /// and counts them, in one case besides that of a full ring: while it is interrupted before it
    /// has prepared the packet after the one that it opened, nested writers fill that one.
    fn gap(&mut self, depth: usize, gap: u64) {
        self.missing[depth] += gap;
        if depth == 0 || self.filled < self.at[depth] {
            self.unexplained += gap;
        }
    }

    /// The event of `stamp` was recorded before the hardware's clock was at `raw`.
    fn bound(&mut self, name: &str, stamp: Stamp, raw: u64) {
        let (from, to) = (
            stamp.raw.wrapping_add(stamp.offset),
            raw.wrapping_add(stamp.offset),
        );
        // A clock that is behind is set to the time before. Where the record of that time was
        // overwritten, what is left of it is the end of the packet that it closed, where the
        // trace's next packet begins, or its window, at whose beginning the writer puts later ones.
        let window_begins = stamp.time.trailing_zeros() >= TIME_BITS && stamp.offset > 0;
        let clamped = [stamp.before, stamp.packet].contains(&stamp.time) || window_begins;
        assert!(
            stamp.time <= to || clamped,
            "{name}: {} is behind {to}, and not clamped",
            stamp.time
        );
        let window = |time: u64| time >> TIME_BITS;
        for (bound, limit) in [to, from].into_iter().enumerate() {
            self.clamped[bound] += u64::from(limit < stamp.before);
            self.windows_back[bound] += u64::from(window(limit) < window(stamp.before));
        }
    }
}

impl Jumps {
    fn note(&mut self, jump: u64, earlier: Stamp, later: Stamp) {
        if later.offset == earlier.offset.wrapping_add(jump) {
            self.ahead += 1;
            let is_true = |stamp: Stamp| stamp.raw + stamp.offset >= stamp.before;
            if is_true(earlier) && is_true(later) {
                self.open = Some((earlier, later));
            } else {
                let interrupted = earlier.interrupted || later.interrupted;
                let reason = interrupted || self.behind > 0;
                self.obscured += u64::from(reason);
                self.unexplained += u64::from(!reason);
            }
            self.behind = self.behind.saturating_sub(1);
        } else {
            assert_eq!(later.offset, earlier.offset.wrapping_sub(JUMP_BACK * jump));
            self.back += 1;
            self.behind = JUMP_BACK;
        }
    }

    /// Every jump ahead is measured or has a reason why not. Of the last one, no event may say by
    /// when it was over.
    pub(crate) fn all_accounted_for(&self) -> bool {
        let last = u64::from(self.open.is_some());
        self.unexplained == 0 && self.measured + self.obscured + last == self.ahead
    }

    /// The second event of a jump was over when the hardware's clock was at `raw`.
    fn measure(&mut self, name: &str, raw: u64) {
        if let Some((earlier, later)) = self.open.take() {
            let (difference, jump) = (later.time - earlier.time, later.offset - earlier.offset);
            let range = jump..=jump + (raw - earlier.raw);
            assert!(
                range.contains(&difference),
                "{name}: {difference} between two events, and the clock jumped by {jump}"
            );
            self.measured += 1;
            self.most_besides = self.most_besides.max(difference - jump);
        }
    }
}

/// What is common to all runs: every call is in the trace or counted, every event is whole,
/// babeltrace2 agrees. Gives the events in the trace, the events lost, and what the trace has by
/// CPU.
pub(crate) fn account(run: &Run, jump: u64) -> (u64, u64, Vec<Seen>) {
    let mut seen: Vec<Seen> = (0..CPUS).map(|_| Seen::default()).collect();
    let (mut clock_back, mut ends) = (0, 0);
    for item in Trace::open(&run.trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) if event.name() == ClockStep::SCHEMA.name => {
                seen[event.cpu().unwrap() as usize].steps_back += 1;
            }
            Item::Event(event) if event.name() == ClockBack::SCHEMA.name => clock_back += 1,
            Item::Event(event) if event.name() == SessionEnd::SCHEMA.name => ends += 1,
            Item::Event(event) => seen[event.cpu().unwrap() as usize].event(run, jump, &event),
            Item::Loss(loss) if loss.kind == LossKind::Events => {
                seen[loss.cpu.unwrap() as usize].lost += loss.count
            }
            Item::Loss(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ends, 1, "{}", run.name);
    if jump == 0 {
        assert_eq!(clock_back, 0, "{}: the clock goes ahead", run.name);
    }
    let mut calls = [0; DEPTHS];
    for (cpu, (seen, counts)) in seen.iter_mut().zip(&run.cpus).enumerate() {
        let name = &run.name;
        let made: u64 = counts.calls.iter().sum();
        assert_eq!(
            seen.events + seen.lost,
            made,
            "{name}, cpu {cpu}: in the trace + lost = calls"
        );
        for depth in 0..DEPTHS {
            seen.gap(depth, counts.calls[depth] - seen.last[depth]);
            // Of the last one nothing says by when it was over.
            if let Some(stamp) = seen.stamps[depth].take() {
                seen.bound(name, stamp, stamp.raw + (1 << 62));
            }
        }
        assert_eq!(
            seen.missing.iter().sum::<u64>(),
            seen.lost,
            "{name}, cpu {cpu}: the numbers that are missing are the losses reported"
        );
        let losses = losses(run, cpu);
        assert_eq!(losses.events(), seen.lost, "{name}, cpu {cpu}: {losses:?}");
        assert_eq!(
            (losses.unreadable, losses.too_large, losses.abandoned),
            (0, 0, 0),
            "{name}, cpu {cpu}"
        );
        assert_eq!(losses.steps_back, seen.steps_back, "{name}, cpu {cpu}");
        if jump == 0 {
            assert_eq!(
                (losses.clamped, losses.clock_back),
                (0, 0),
                "{name}, cpu {cpu}: the clock goes ahead"
            );
        }
        for (sum, calls) in calls.iter_mut().zip(counts.calls) {
            *sum += calls;
        }
    }
    let (written, lost) = seen
        .iter()
        .fold((0, 0), |sum, cpu| (sum.0 + cpu.events, sum.1 + cpu.lost));
    let inserted = seen.iter().map(|cpu| cpu.steps_back).sum::<u64>();
    let (read, reported) = babeltrace::compare(&run.trace);
    assert_eq!(read, written + inserted + clock_back + ends, "{}", run.name);
    assert_eq!(
        reported.values().map(|lost| lost.0).sum::<u64>(),
        lost,
        "{}: babeltrace2 tells the same losses",
        run.name
    );
    let sum = |count: fn(&Counts) -> u64| run.cpus.iter().map(count).sum::<u64>();
    println!(
        "{}: {written} events in the trace, {lost} lost; calls by depth {calls:?}, {} interrupts, \
         {} NMIs",
        run.name,
        sum(|cpu| cpu.interrupts),
        sum(|cpu| cpu.nmis)
    );
    assert!(calls[1] > 0, "{}: nothing was interrupted", run.name);
    // Behind a clock that jumped, timers come seldom: how deep calls nest there is chance.
    if run.one_instruction_blocks && jump == 0 {
        assert!(
            calls[..4].iter().all(|&calls| calls > 0),
            "{}: interrupts nested three deep",
            run.name
        );
        assert!(
            run.machine.is_riscv() || sum(|cpu| cpu.nmis) > 0,
            "{}: no NMI came",
            run.name
        );
    }
    (written, lost, seen)
}

pub(crate) fn losses(run: &Run, cpu: usize) -> Losses {
    let is_it =
        |kind: ChannelKind, number: u32| kind == ChannelKind::Events && number == cpu as u32;
    run.summary
        .channels
        .iter()
        .find(|channel| is_it(channel.kind, channel.cpu))
        .unwrap()
        .losses
}
