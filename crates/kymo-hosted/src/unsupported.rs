//! Sampling on systems without timers that Kymo can use: refused.

use std::path::Path;

use kymo::Error;
use kymo::event::Vocabulary;
use kymo::sample::Sampler;

use crate::Sampling;

pub(crate) type Samplers = &'static [Sampler<1>];

pub(crate) fn samplers(_: u32) -> Samplers {
    &[]
}

pub(crate) fn prepare(_: &Sampling, _: &Vocabulary) -> Result<(), Error> {
    Err(Error::Sampling(
        "Kymo knows no timers of threads on this system",
    ))
}

pub(crate) fn settings() -> Option<kymo::vocabulary::Sampling> {
    None
}

pub(crate) fn begin(_: &Sampling, _: Samplers, _: u64) -> Result<(), Error> {
    Ok(())
}

pub(crate) fn end() {}

pub(crate) fn enter(_: &'static Sampler<1>) {}

pub(crate) fn leave() {}

pub(crate) fn is_sampled() -> bool {
    false
}

pub(crate) fn without_timer() -> u32 {
    0
}

pub(crate) fn note(_: &Path) -> std::io::Result<()> {
    Ok(())
}
