//! Starting what the word `kymo=` of a command line asks for.

use super::{Mode, Recorder, Refused, Started, State};
use crate::boot::Options;
use crate::platform::Platform;
use crate::ring::config::Config;
use crate::vocabulary::Sampling;

impl<P: Platform, const CPUS: usize> Recorder<P, CPUS> {
    /// Starts what the word `kymo=` of the kernel's command line asks for: its modes, in the order
    /// of their numbers, and the callers of events. `config` and `flags` are the kernel's own
    /// choice, which the word may change.
    ///
    /// # Errors
    /// [`Refused`]; nothing runs then that did not run before.
    pub fn start_as(
        &self,
        options: &Options<'_>,
        flags: u32,
        config: &Config,
    ) -> Result<Started, Refused> {
        let (flags, config) = (options.flags(flags), options.apply(config));
        if options.starts(Mode::Count) {
            let groups = options.groups().map_err(Refused::Count)?;
            self.set_counting(Mode::Count as u32, groups, options.count_ns())?;
        }
        let mut begun = [false; Mode::ALL.len()];
        let started = self.start_all(options, flags, &config, &mut begun);
        if started.is_err() {
            for (mode, _) in Mode::ALL.into_iter().zip(begun).filter(|(_, begun)| *begun) {
                // It runs.
                let _ = self.finish(mode as u32);
            }
        }
        started
    }

    /// Starts the modes, and says of each that it did.
    fn start_all(
        &self,
        options: &Options<'_>,
        flags: u32,
        config: &Config,
        begun: &mut [bool; Mode::ALL.len()],
    ) -> Result<Started, Refused> {
        let mut started = Err(Refused::Invalid);
        let modes = Mode::ALL.into_iter().zip(begun);
        for (mode, begun) in modes.filter(|(mode, _)| options.starts(*mode)) {
            let is_on = |name: &str| options.records(name);
            started = Ok(self.start_with(mode as u32, flags, Some(config), is_on)?);
            *begun = true;
        }
        if options.stacks.is_some() {
            self.limit_callers(&config.sampling);
        }
        for name in options.stacks() {
            self.stacks(Mode::Trace as u32, name, true)?;
        }
        for name in options.counters_on() {
            self.counts(Mode::Count as u32, name, true)?;
        }
        started
    }

    /// Has the callers of events go no deeper than this where no samples are taken, which decide it
    /// otherwise.
    fn limit_callers(&self, sampling: &Sampling) {
        // Nobody begins to take samples meanwhile.
        let _claim = self.session.wait();
        if self.state(Mode::Sample) == State::Idle {
            P::sampling(&Sampling {
                period: 0,
                ..*sampling
            });
        }
    }
}
