//! Mutual exclusion among processes, for long stretches: who must wait sleeps.

use crate::process;
use crate::spin_lock::SpinLock;

pub struct SleepLock {
    held: SpinLock<bool>,
}

impl SleepLock {
    pub const fn new(name: &'static str) -> SleepLock {
        SleepLock {
            held: SpinLock::new(name, false),
        }
    }

    pub fn acquire(&self) {
        let mut held = self.held.lock();
        while *held {
            held = process::sleep(self.channel(), held);
        }
        *held = true;
    }

    pub fn release(&self) {
        *self.held.lock() = false;
        process::wakeup(self.channel());
    }

    fn channel(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}
