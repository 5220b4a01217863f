//! The options of a recording, and the modes that it has.

use demo_user::abi::{Diagnostics, Error, Session};
use demo_user::{Words, sys};
use kymo::Mode;
use kymo::vocabulary::SamplingDriver;

use crate::Failed;

/// Modes, each a bit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Modes(pub u64);

impl Modes {
    pub const TRACE: Modes = Modes(1 << Mode::Trace as u64);
    const SAMPLE: Modes = Modes(1 << Mode::Sample as u64);
    const COUNT: Modes = Modes(1 << Mode::Count as u64);

    /// Reads names of modes, separated by commas or, on the kernel's command line, by colons.
    fn of(names: &str) -> Option<Modes> {
        let mut modes = Modes(0);
        for name in names.split([',', ':']) {
            modes.0 |= match name {
                "trace" => Modes::TRACE.0,
                "sample" => Modes::SAMPLE.0,
                "count" => Modes::COUNT.0,
                _ => return None,
            };
        }
        Some(modes)
    }

    fn has(self, other: Modes) -> bool {
        self.0 & other.0 != 0
    }

    /// Their numbers. The mode `sample` comes first: the session that it opens has channels for
    /// samples, and the mode `trace` needs no more.
    fn each(self) -> impl Iterator<Item = u32> {
        let modes = [Mode::Sample, Mode::Trace, Mode::Count].map(|mode| mode as u32);
        modes
            .into_iter()
            .filter(move |mode| self.0 & 1 << mode != 0)
    }

    /// The mode through which the channels are read.
    pub fn reader(self) -> u32 {
        self.each().next().unwrap_or(Mode::Trace as u32)
    }

    pub fn stop(self) -> Result<(), Error> {
        self.each()
            .try_for_each(|mode| sys::perf_stop(mode).map(drop))
    }

    /// Gives up the session. The totals are those of all its channels.
    pub fn finish(self) -> Result<Diagnostics, Error> {
        let mut totals = Err(Error::Invalid);
        for mode in self.each() {
            totals = sys::perf_finish(mode);
        }
        totals
    }
}

/// The options of a recording.
pub struct Options {
    pub flags: u32,
    pub modes: Modes,
    events: &'static str,
    /// What is counted, as in the word `kymo=`; empty for the kernel's choice.
    counters: &'static str,
    /// Events that record the counts, with colons between; empty for none.
    counters_on: &'static str,
    /// Nanoseconds until the counts are recorded again; 0 for the kernel's choice.
    count_ns: u64,
    session: Session,
}

impl Options {
    /// Parses options, and gives the first word behind them.
    pub fn of(words: &mut Words) -> Result<(Options, Option<&'static str>), Failed> {
        let mut options = Options {
            flags: 0,
            modes: Modes::TRACE,
            events: "",
            counters: "",
            counters_on: "",
            count_ns: 0,
            session: Session::default(),
        };
        loop {
            let word = words.next();
            let session = &mut options.session;
            match word {
                Some("--rolling") => options.flags |= kymo::flags::ROLLING,
                Some("--events") => options.events = words.next().ok_or(Failed::Usage)?,
                Some("--mode") => {
                    options.modes = words.next().and_then(Modes::of).ok_or(Failed::Usage)?
                }
                Some("--counters") => options.counters = words.next().ok_or(Failed::Usage)?,
                Some("--counters-on") => options.counters_on = words.next().ok_or(Failed::Usage)?,
                Some("--count-ns") => options.count_ns = positive(words)?,
                Some("--packets") => session.packets = positive(words)?,
                Some("--names-packets") => session.names_packets = positive(words)?,
                Some("--samples-packets") => session.samples_packets = positive(words)?,
                Some("--packet-size") => session.packet_size = positive(words)?,
                Some("--hz") if session.period_ns == 0 => {
                    session.period_ns = (1_000_000_000 / positive(words)?).max(1)
                }
                Some("--period") if session.period_ns == 0 => {
                    session.period_ns = positive(words)?.saturating_mul(1_000)
                }
                Some("--period-ns") if session.period_ns == 0 => {
                    session.period_ns = positive(words)?
                }
                Some("--count") => session.count = positive(words)?,
                Some("--depth") => session.depth = number(words)?.saturating_add(1),
                Some("--driver") => {
                    let driver = match words.next() {
                        Some("timer") => SamplingDriver::Timer,
                        Some("nmi") => SamplingDriver::Nmi,
                        Some("ipi") => SamplingDriver::Ipi,
                        Some("cycles") => SamplingDriver::Cycles,
                        Some("instructions") => SamplingDriver::Instructions,
                        _ => return Err(Failed::Usage),
                    };
                    session.driver = driver as u64 + 1;
                }
                other => return options.check().map(|options| (options, other)),
            }
        }
    }

    /// Refuses what would be without effect.
    fn check(self) -> Result<Options, Failed> {
        let Session {
            samples_packets,
            period_ns,
            depth,
            driver,
            count,
            ..
        } = self.session;
        let settings = [samples_packets, period_ns, depth, driver, count];
        let is_for_samples = settings.iter().any(|setting| *setting > 0);
        let is_for_events = !self.events.is_empty() || !self.counters_on.is_empty();
        let is_for_counts = [self.counters, self.counters_on] != [""; 2] || self.count_ns > 0;
        let asked = [
            (Modes::TRACE, is_for_events),
            (Modes::SAMPLE, is_for_samples),
            (Modes::COUNT, is_for_counts),
        ];
        match asked
            .iter()
            .any(|(mode, is_asked)| *is_asked && !self.modes.has(*mode))
        {
            true => Err(Failed::Usage),
            false => Ok(self),
        }
    }

    /// Starts the modes: all, or none.
    pub fn start(&self) -> Result<(), Error> {
        let mut begun = Modes(0);
        for mode in self.modes.each() {
            let started = self.start_mode(mode);
            if started.is_err() {
                // They run.
                let _ = begun.finish();
            }
            started?;
            begun.0 |= 1 << mode;
        }
        Ok(())
    }

    fn start_mode(&self, mode: u32) -> Result<usize, Error> {
        if mode != Mode::Count as u32 {
            return sys::perf_start(mode, self.flags, &self.session, self.events);
        }
        let session = Session {
            period_ns: self.count_ns,
            depth: 0,
            driver: 0,
            count: 0,
            ..self.session
        };
        let started = sys::perf_start(mode, self.flags, &session, self.counters)?;
        let mut names = self.counters_on.split(':').filter(|name| !name.is_empty());
        let carried = names.try_for_each(|name| sys::perf_switch(mode, name, true).map(drop));
        if carried.is_err() {
            // It runs.
            let _ = sys::perf_finish(mode);
        }
        carried.map(|()| started)
    }
}

fn number(words: &mut Words) -> Result<u64, Failed> {
    let number = words.next().and_then(|word| word.parse().ok());
    number.ok_or(Failed::Usage)
}

fn positive(words: &mut Words) -> Result<u64, Failed> {
    number(words).and_then(|number| match number {
        0 => Err(Failed::Usage),
        number => Ok(number),
    })
}
