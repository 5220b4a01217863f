//! The counters of a CPU.

use kymo::count::pmu::aarch64::{El1, Pmuv3};

/// This CPU's counters.
pub type Pmu = Pmuv3<El1>;

/// The counters of this CPU, all stopped.
pub fn new() -> Pmu {
    Pmuv3::new(El1)
}
