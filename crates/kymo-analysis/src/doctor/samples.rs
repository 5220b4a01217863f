//! Samples without callers or all in one place, and counters that never count.

use kymo::vocabulary::CpuMode;
use kymo_ctf::EventRef;
use kymo_machine::{ChainOf, Machine};
use rustc_hash::FxHashMap;

use super::{Findings, Place, Remedy, Severity, list, times};
use crate::section::Report;

/// Fewest samples from which they are judged.
const ENOUGH: u64 = 20;
/// Most addresses that are counted. Samples at more are not all in one place.
const ADDRESSES: usize = 1 << 10;

const FRAMES: Remedy = Remedy {
    text: "Build the kernel with frame pointers (`-C force-frame-pointers=yes`, or \
           `-fno-omit-frame-pointer` in C), its assembly \
           too, and see that the unwinder gets the right bounds of stacks and code",
    page: "flame-graphs.md#in-your-own-kernel",
};
const PROGRAM: Remedy = Remedy {
    text: "Build the programs with frame pointers, and see that the kernel can read their stacks \
           from the interrupt",
    page: "flame-graphs.md#in-your-own-kernel",
};
const MASKED: Remedy = Remedy {
    text: "Take the samples by NMI, or from another CPU: a timer's interrupt comes only where \
           interrupts are unmasked",
    page: "flame-graphs.md#drivers-and-what-they-can-see",
};
const COUNT: Remedy = Remedy {
    text: "See that the port gives a PMU that this machine has, with enough counters \
           for the group, and that the kernel may use it",
    page: "counting.md#in-a-kernel-of-your-own",
};

/// Samples in the kernel, or in programs.
#[derive(Debug, Default)]
struct Chains {
    count: u64,
    with_callers: u64,
    /// Those whose chain ended because a check failed.
    untrusted: u64,
    first: Option<Place>,
}

#[derive(Debug, Default)]
pub(super) struct Samples {
    kernel: Chains,
    user: Chains,
    /// Samples in the kernel, by address.
    places: FxHashMap<u64, u64>,
    addresses: Vec<u64>,
}

impl Samples {
    pub(super) fn add(&mut self, event: &EventRef<'_>, place: Place, machine: &Machine) {
        let Some(chain) = machine.call_chain(event, &mut self.addresses) else {
            return;
        };
        if !matches!(chain.of, ChainOf::Sample { .. }) {
            return;
        }
        let (part, of) = match chain.mode {
            CpuMode::Kernel => (chain.kernel, &mut self.kernel),
            CpuMode::User => (chain.user, &mut self.user),
            CpuMode::Idle => return,
        };
        of.count += 1;
        of.with_callers += u64::from(part.len > 1);
        of.untrusted += u64::from(part.is_untrusted());
        of.first.get_or_insert(place);
        if let (CpuMode::Kernel, Some(ip)) = (chain.mode, self.addresses.first()) {
            let is_known = self.places.contains_key(ip);
            if is_known || self.places.len() < ADDRESSES {
                *self.places.entry(*ip).or_default() += 1;
            }
        }
    }

    pub(super) fn finish(&self, report: &Report, found: &mut Findings) {
        self.kernel.finish("the kernel", FRAMES, found);
        self.user.finish("programs", PROGRAM, found);
        let most = self.places.iter().max_by_key(|(_, count)| **count);
        if let Some((ip, &count)) = most
            && self.kernel.count >= ENOUGH
            && count >= self.kernel.count / 20 * 19
        {
            let message = format!(
                "{count} of {} samples in the kernel are at {ip:#x}, probably where interrupts \
                 are unmasked",
                self.kernel.count
            );
            let first = self.kernel.first;
            found.add(Severity::Missing, "sample-places", message, first, MASKED);
        }
        let groups = report.counters.iter().flat_map(|all| &all.groups);
        let several = groups.clone().count() > 1;
        let of_group = |number: u8| match several || number > 0 {
            true => format!(" of group {number}"),
            false => String::new(),
        };
        for counters in groups.clone() {
            let idle = counters.cpus.iter();
            let idle = idle.filter(|of| of.time_enabled_ns > 0 && of.time_running_ns == 0);
            let mut cpus: Vec<u64> = idle.map(|of| of.cpu).collect();
            cpus.extend(&counters.cpus_without);
            cpus.sort_unstable();
            let cpus: Vec<String> = cpus.iter().map(|cpu| format!("CPU {cpu}")).collect();
            if !cpus.is_empty() {
                let which = of_group(counters.group);
                let message = format!("The counters{which} never counted on {}", list(&cpus));
                found.add(Severity::Missing, "counters", message, None, COUNT);
            }
        }
    }
}

impl Chains {
    fn finish(&self, what: &str, remedy: Remedy, found: &mut Findings) {
        if self.count < ENOUGH {
            return;
        }
        let message = if self.with_callers == 0 {
            format!("None of the {} samples in {what} has callers", self.count)
        } else if self.untrusted > self.count / 2 {
            format!(
                "The call chain in {what} breaks off {} in {} samples",
                times(self.untrusted),
                self.count
            )
        } else {
            return;
        };
        found.add(
            Severity::Missing,
            "call-chains",
            message,
            self.first,
            remedy,
        );
    }
}
