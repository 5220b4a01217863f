//! Rules that any kernel's events keep.

use crate::report::{Contradiction, Contradictions};

/// Contradictions that are kept whole; of the rest there is a count.
const KEPT: usize = 100;

pub(crate) const SWITCH_CHAIN: &str = "switch-chain";
pub(crate) const ONE_CPU: &str = "one-cpu";
pub(crate) const AFTER_END: &str = "after-end";
pub(crate) const IRQ_PAIR: &str = "irq-pair";
pub(crate) const SYSCALL_PAIR: &str = "syscall-pair";
pub(crate) const LOCK_HELD: &str = "lock-held";

impl Contradictions {
    pub(crate) fn add(
        &mut self,
        rule: &'static str,
        time_ns: i64,
        cpu: u64,
        message: impl FnOnce() -> String,
    ) {
        *self.counts.entry(rule).or_default() += 1;
        if self.first.len() < KEPT {
            self.first.push(Contradiction {
                rule,
                time_ns,
                cpu,
                message: message(),
            });
        }
    }
}
