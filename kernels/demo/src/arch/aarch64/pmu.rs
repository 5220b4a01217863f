//! The counters of a CPU.

use kymo::count::pmu::aarch64::{El1, Pmuv3};

use super::gic;

/// Their interrupt, which each hart has for itself (Arm BSA, DEN 0094, "PPI assignments").
pub const IRQ: u32 = 23;

/// This CPU's counters.
pub type Pmu = Pmuv3<El1>;

/// The counters of this CPU, all stopped. Their interrupt is on.
pub fn new() -> Pmu {
    let pmu = Pmuv3::new(El1);
    gic::enable_own(IRQ);
    pmu
}
