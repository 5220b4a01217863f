//! Modes, and the states that a session's modes are in.
//!
//! One region serves all modes: the first that starts opens it, the last that finishes gives it up.
//! Each mode goes through its states on its own:
//!
//! ```text
//! idle --start--> running --stop--> stopped --finish--> idle        running --finish--> idle
//! ```
//! | call of a mode | the mode itself | the other modes |
//! | --- | --- | --- |
//! | `start` | idle, else [`InProgress`](Refused::InProgress) | all idle: opens the region. One runs: joins it. None runs any more, and one is stopped: `InProgress`, for the region is closed |
//! | `stop` | running, else [`Invalid`](Refused::Invalid) | none runs: the region is closed |
//! | `finish` | running or stopped, else `Invalid` | none runs: the region is closed. All idle: it is given up |
//!
//! A call takes a while. While one is at work on another mode, every `start`, `stop` and `finish`
//! that would be right is [`Busy`](Refused::Busy); nobody waits.

use super::Refused;
use crate::channel::ChannelKind;
use crate::event::Event;
use crate::vocabulary::{
    EventCount, GroupCount, ProcessExec, ProcessExit, ProcessFork, ProcessKill, ThreadCreate,
    ThreadExit,
};

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mode {
    /// What happened: events.
    Trace = 0,
    /// Where the time goes: instruction pointers at intervals.
    Sample = 1,
    /// How much of the hardware was used: counters.
    Count = 2,
}

impl Mode {
    /// Every mode, by number.
    pub const ALL: [Mode; 3] = [Mode::Trace, Mode::Sample, Mode::Count];
    /// The modes that this build has.
    pub const BUILT: &'static [Mode] = if crate::COMPILED_IN { &Mode::ALL } else { &[] };

    /// Its name in the word `kymo=` of a command line, and in `kymo record --mode`.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Trace => "trace",
            Mode::Sample => "sample",
            Mode::Count => "count",
        }
    }

    /// Whether the mode records the event of this id in this channel. All modes record names;
    /// samples need to know besides which process a thread belongs to, and which program it
    /// executes.
    pub fn records(self, channel: ChannelKind, id: u32) -> bool {
        const LIFE: [u32; 6] = [
            ThreadCreate::ID,
            ThreadExit::ID,
            ProcessFork::ID,
            ProcessExec::ID,
            ProcessKill::ID,
            ProcessExit::ID,
        ];
        const COUNTS: [u32; 2] = [GroupCount::ID, EventCount::ID];
        match (channel, self) {
            (ChannelKind::Names, _) => true,
            (ChannelKind::Events, Mode::Trace) => !COUNTS.contains(&id),
            (ChannelKind::Events, Mode::Sample) => LIFE.contains(&id),
            (ChannelKind::Events, Mode::Count) => COUNTS.contains(&id),
            (ChannelKind::Samples, _) => self == Mode::Sample,
        }
    }
}

/// The state of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// It was not started.
    Idle = 0,
    /// `start` is at work.
    Starting = 1,
    /// It records.
    Running = 2,
    /// `stop` is at work.
    Stopping = 3,
    /// It records no more; the rings hold what they held.
    Stopped = 4,
    /// `finish` is at work.
    Finishing = 5,
}

impl State {
    const ALL: [State; 6] = [
        State::Idle,
        State::Starting,
        State::Running,
        State::Stopping,
        State::Stopped,
        State::Finishing,
    ];

    /// Whether there is something to read.
    pub(super) const fn is_readable(self) -> bool {
        matches!(self, State::Running | State::Stopping | State::Stopped)
    }

    /// Whether a call is at work.
    const fn is_in_passing(self) -> bool {
        matches!(self, State::Starting | State::Stopping | State::Finishing)
    }
}

/// The states of all modes, in one word, so that whoever begins or ends the region is decided by
/// one compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct States(u32);

/// What a call has to do besides its mode's own part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Region {
    /// `start`: no other mode is there; the region is laid out.
    Open,
    /// Other modes record: the region stays as it is.
    Keep,
    /// `stop`, `finish`: no other mode records; the region is closed.
    Close,
    /// `finish`: the region is closed, and no other mode holds it.
    CloseAndRelease,
    /// `finish`: the region was closed before, and no other mode holds it.
    Release,
    /// `finish`: the region was closed before, and another mode holds it.
    Hold,
}

/// What the modes besides one are at.
struct Others {
    one_runs: bool,
    all_idle: bool,
}

const BITS: u32 = 4;

impl States {
    /// All modes are idle.
    pub(super) const IDLE: States = States(0);

    pub(super) const fn from_word(word: u32) -> States {
        States(word)
    }

    pub(super) const fn to_word(self) -> u32 {
        self.0
    }

    pub(super) fn of(self, mode: Mode) -> State {
        let number = self.0 >> (BITS * mode as u32) & ((1 << BITS) - 1);
        State::ALL
            .get(number as usize)
            .copied()
            .unwrap_or(State::Idle)
    }

    #[must_use]
    pub(super) fn with(self, mode: Mode, state: State) -> States {
        let at = BITS * mode as u32;
        States(self.0 & !(((1 << BITS) - 1) << at) | (state as u32) << at)
    }

    /// What the other modes are at; [`Refused::Busy`] where a call is at work on one of them.
    fn others(self, mode: Mode) -> Result<Others, Refused> {
        let others = self.with(mode, State::Idle);
        let mut one_runs = false;
        for other in Mode::ALL {
            let state = others.of(other);
            if state.is_in_passing() {
                return Err(Refused::Busy);
            }
            one_runs |= state == State::Running;
        }
        let all_idle = others == States::IDLE;
        Ok(Others { one_runs, all_idle })
    }

    /// Whether there is something to read.
    pub(super) fn any_is_readable(self) -> bool {
        Mode::ALL
            .into_iter()
            .any(|mode| self.of(mode).is_readable())
    }

    /// Whether any mode records, is about to, or did just now.
    pub(super) fn any_runs(self) -> bool {
        Mode::ALL
            .into_iter()
            .any(|mode| !matches!(self.of(mode), State::Idle | State::Stopped))
    }

    /// `start`.
    pub(super) fn start(self, mode: Mode) -> Result<(States, Region), Refused> {
        if self.of(mode) != State::Idle {
            return Err(Refused::InProgress);
        }
        let region = match self.others(mode)? {
            Others { one_runs: true, .. } => Region::Keep,
            Others { all_idle: true, .. } => Region::Open,
            _ => return Err(Refused::InProgress),
        };
        Ok((self.with(mode, State::Starting), region))
    }

    /// `stop`.
    pub(super) fn stop(self, mode: Mode) -> Result<(States, Region), Refused> {
        if self.of(mode) != State::Running {
            return Err(Refused::Invalid);
        }
        let region = match self.others(mode)?.one_runs {
            true => Region::Keep,
            false => Region::Close,
        };
        Ok((self.with(mode, State::Stopping), region))
    }

    /// `finish`.
    pub(super) fn finish(self, mode: Mode) -> Result<(States, Region), Refused> {
        let state = self.of(mode);
        if !matches!(state, State::Running | State::Stopped) {
            return Err(Refused::Invalid);
        }
        let Others { one_runs, all_idle } = self.others(mode)?;
        let region = match (state, one_runs, all_idle) {
            (_, true, _) => Region::Keep,
            (State::Running, false, true) => Region::CloseAndRelease,
            (State::Running, false, false) => Region::Close,
            (_, false, true) => Region::Release,
            (_, false, false) => Region::Hold,
        };
        Ok((self.with(mode, State::Finishing), region))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use Mode::{Count, Sample, Trace};
    use State::{Finishing, Idle, Running, Starting, Stopped, Stopping};

    fn states(trace: State, sample: State, count: State) -> States {
        States::IDLE
            .with(Trace, trace)
            .with(Sample, sample)
            .with(Count, count)
    }

    /// The three calls' answers for `Trace`, by its own state and that of one other mode.
    type Row = (State, State, [Result<Region, Refused>; 3]);

    /// P-52: each cell of state x call x state of another mode.
    #[test]
    fn each_call_in_each_pair_of_states() {
        const BUSY: Result<Region, Refused> = Err(Refused::Busy);
        const WRONG: Result<Region, Refused> = Err(Refused::Invalid);
        const PENDING: Result<Region, Refused> = Err(Refused::InProgress);
        let rows: [Row; 36] = [
            (Idle, Idle, [Ok(Region::Open), WRONG, WRONG]),
            (Idle, Starting, [BUSY, WRONG, WRONG]),
            (Idle, Running, [Ok(Region::Keep), WRONG, WRONG]),
            (Idle, Stopping, [BUSY, WRONG, WRONG]),
            (Idle, Stopped, [PENDING, WRONG, WRONG]),
            (Idle, Finishing, [BUSY, WRONG, WRONG]),
            (Starting, Idle, [PENDING, WRONG, WRONG]),
            (Starting, Starting, [PENDING, WRONG, WRONG]),
            (Starting, Running, [PENDING, WRONG, WRONG]),
            (Starting, Stopping, [PENDING, WRONG, WRONG]),
            (Starting, Stopped, [PENDING, WRONG, WRONG]),
            (Starting, Finishing, [PENDING, WRONG, WRONG]),
            (
                Running,
                Idle,
                [PENDING, Ok(Region::Close), Ok(Region::CloseAndRelease)],
            ),
            (Running, Starting, [PENDING, BUSY, BUSY]),
            (
                Running,
                Running,
                [PENDING, Ok(Region::Keep), Ok(Region::Keep)],
            ),
            (Running, Stopping, [PENDING, BUSY, BUSY]),
            (
                Running,
                Stopped,
                [PENDING, Ok(Region::Close), Ok(Region::Close)],
            ),
            (Running, Finishing, [PENDING, BUSY, BUSY]),
            (Stopping, Idle, [PENDING, WRONG, WRONG]),
            (Stopping, Starting, [PENDING, WRONG, WRONG]),
            (Stopping, Running, [PENDING, WRONG, WRONG]),
            (Stopping, Stopping, [PENDING, WRONG, WRONG]),
            (Stopping, Stopped, [PENDING, WRONG, WRONG]),
            (Stopping, Finishing, [PENDING, WRONG, WRONG]),
            (Stopped, Idle, [PENDING, WRONG, Ok(Region::Release)]),
            (Stopped, Starting, [PENDING, WRONG, BUSY]),
            (Stopped, Running, [PENDING, WRONG, Ok(Region::Keep)]),
            (Stopped, Stopping, [PENDING, WRONG, BUSY]),
            (Stopped, Stopped, [PENDING, WRONG, Ok(Region::Hold)]),
            (Stopped, Finishing, [PENDING, WRONG, BUSY]),
            (Finishing, Idle, [PENDING, WRONG, WRONG]),
            (Finishing, Starting, [PENDING, WRONG, WRONG]),
            (Finishing, Running, [PENDING, WRONG, WRONG]),
            (Finishing, Stopping, [PENDING, WRONG, WRONG]),
            (Finishing, Stopped, [PENDING, WRONG, WRONG]),
            (Finishing, Finishing, [PENDING, WRONG, WRONG]),
        ];
        let mut seen = Vec::new();
        for (own, other, expected) in rows {
            assert!(
                !seen.contains(&(own, other)),
                "{own:?} {other:?} is there twice"
            );
            seen.push((own, other));
            for before in [states(own, other, Idle), states(own, Idle, other)] {
                let calls = [
                    before.start(Trace),
                    before.stop(Trace),
                    before.finish(Trace),
                ];
                let at_work = [Starting, Stopping, Finishing];
                for ((call, expected), state) in calls.into_iter().zip(expected).zip(at_work) {
                    assert_eq!(
                        call.map(|(_, region)| region),
                        expected,
                        "{own:?} {other:?}"
                    );
                    if let Ok((after, _)) = call {
                        assert_eq!(after, before.with(Trace, state), "the others stay");
                    }
                }
            }
        }
    }

    #[test]
    fn three_modes_share_a_region() {
        // One runs, one is stopped: the third may join, and the stopped one may go.
        let before = states(Idle, Running, Stopped);
        assert_eq!(before.start(Trace).map(|found| found.1), Ok(Region::Keep));
        assert_eq!(before.finish(Count).map(|found| found.1), Ok(Region::Keep));
        assert_eq!(before.stop(Sample).map(|found| found.1), Ok(Region::Close));
        assert_eq!(
            before.finish(Sample).map(|found| found.1),
            Ok(Region::Close)
        );
        assert!(before.any_runs() && !states(Idle, Stopped, Idle).any_runs());
    }
}
