//! The kernel's own counters, one out-of-line function each.

use kymo::counter::Counters;
use kymo::platform::Platform;

use crate::probes::Probe;

kymo::counter! {
    /// May be interrupted by what counts it too.
    #[id(0)] #[unit(times)]
    pub struct Nested;
}
kymo::counter! {
    /// Is not.
    #[id(1)] #[unit(times)] #[unnested]
    pub struct Unnested;
}
kymo::histogram! {
    /// May be interrupted, too.
    #[id(2)] #[unit(times)]
    pub struct Values;
}

/// All of them.
pub const COUNTERS: Counters = kymo::counters![Nested, Unnested, Values];

/// [`Probe`] with counters.
struct Counting;

// SAFETY: as `Probe`; its memory has the words.
unsafe impl Platform for Counting {
    type Reserve = <Probe as Platform>::Reserve;
    type Local = <Probe as Platform>::Local;
    const COUNTERS: Counters = COUNTERS;

    fn clock() -> u64 {
        Probe::clock()
    }

    fn synchronize() {}
}

type Kymo = kymo::Tracer<Counting>;

/// A counter that may nest.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_count(_: u32, _: u32) {
    Kymo::add::<Nested>(1);
}

/// A counter that does not.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_count_unnested(_: u32, _: u32) {
    Kymo::add::<Unnested>(1);
}

/// A histogram that may nest.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_probe_observe(value: u32, _: u32) {
    Kymo::observe::<Values>(value.into());
}
