//! What things are called.

use std::collections::HashMap;

use kymo_analysis::SyscallKey;

/// Names that the trace tells, by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) irqs: HashMap<u64, String>,
    pub(super) calls: HashMap<u64, String>,
    pub(super) user: HashMap<u64, String>,
}

/// Linux's soft interrupts (include/linux/interrupt.h).
const SOFT: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

impl Names {
    pub(super) fn irq(&self, irq: u64, soft: bool) -> String {
        if soft {
            let name = usize::try_from(irq).ok().and_then(|place| SOFT.get(place));
            return name.map_or_else(
                || format!("softirq {irq}"),
                |name| format!("softirq {name}"),
            );
        }
        self.irqs
            .get(&irq)
            .cloned()
            .unwrap_or_else(|| format!("irq {irq}"))
    }

    pub(super) fn call(&self, key: &SyscallKey) -> String {
        match key {
            SyscallKey::Named(name) => name.to_string(),
            SyscallKey::Number(id) => self
                .calls
                .get(id)
                .cloned()
                .unwrap_or_else(|| format!("system call {id}")),
        }
    }

    /// Of a mark, span or counter.
    pub(super) fn user(&self, what: &str, id: u64) -> String {
        self.user
            .get(&id)
            .cloned()
            .unwrap_or_else(|| format!("{what} {id}"))
    }
}
