//! Messages about missed samples: those that were due and could not be taken.

use kymo_ctf::Metadata;

use crate::summary::thousands;

/// Who took the samples of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// The kernel, of its CPUs.
    Kernel,
    /// A program, of its own threads.
    Program,
}

impl Sampler {
    /// The one of a trace with this metadata.
    pub fn of(metadata: &Metadata) -> Sampler {
        match kymo_machine::is_program(metadata) {
            true => Sampler::Program,
            false => Sampler::Kernel,
        }
    }

    /// Why it could not take them, and what to do.
    fn cause(self) -> &'static str {
        match self {
            Sampler::Kernel => {
                "the CPU could not be interrupted when they were due; a lower rate, or samples by \
                 NMI, miss fewer"
            }
            Sampler::Program => {
                "the system's ticks are too far apart for this rate; a lower rate misses fewer"
            }
        }
    }
}

/// The share of samples that were missed, of all that were due.
fn share(missed: u64, taken: u64) -> String {
    let due = missed as f64 + taken as f64;
    format!("{:.1} %", missed as f64 * 100.0 / due)
}

/// How many samples were missed, their share, why, and what to do: a sentence without a full stop.
/// `missed` is `None` where the trace does not say, and `taken` is the number of the others.
pub fn told(missed: Option<u64>, taken: u64, sampler: Sampler) -> String {
    match missed {
        None => "the trace does not say whether samples were missed".to_owned(),
        Some(0) => "none missed".to_owned(),
        Some(missed) => format!(
            "{} missed, {} of those due: {}",
            thousands(missed),
            share(missed, taken),
            sampler.cause()
        ),
    }
}

/// How many samples were missed, in a few words.
pub fn told_shortly(missed: Option<u64>, taken: u64) -> String {
    match missed {
        None => "missed: not known".to_owned(),
        Some(0) => "none missed".to_owned(),
        Some(missed) => format!("{} missed ({})", thousands(missed), share(missed, taken)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_the_samplers() {
        let told = |sampler| told(Some(1_000), 3_000, sampler);
        let start = "1,000 missed, 25.0 % of those due: ";
        let program = told(Sampler::Program);
        assert!(
            program.starts_with(&format!("{start}the system's ticks ")),
            "{program}"
        );
        let kernel = told(Sampler::Kernel);
        assert!(kernel.starts_with(&format!("{start}the CPU ")), "{kernel}");
        assert_eq!(told_shortly(Some(1), 2), "1 missed (33.3 %)");
    }
}
