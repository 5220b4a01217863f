//! Counts of correct and wrong answers.

use core::fmt::{Arguments, Debug};

use demo_user::println;

/// The counts.
#[derive(Debug, Default)]
pub struct Cells {
    pub passed: u32,
    pub failed: u32,
}

impl Cells {
    /// Checks a cell: the answer to `what`.
    pub fn equal<T: PartialEq + Debug>(&mut self, what: Arguments<'_>, got: T, expected: T) {
        if got == expected {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("callstest: {what}: {got:?} instead of {expected:?}");
        }
    }

    /// Checks a cell: whether `what` is true.
    pub fn is(&mut self, what: Arguments<'_>, so: bool) {
        self.equal(what, so, true);
    }
}
