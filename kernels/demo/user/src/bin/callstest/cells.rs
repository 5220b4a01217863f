//! Answers, counted.

use core::fmt::{Arguments, Debug};

use demo_user::println;

/// How many were as they must be.
#[derive(Debug, Default)]
pub struct Cells {
    pub passed: u32,
    pub failed: u32,
}

impl Cells {
    /// A cell: `what` has answered `got`.
    pub fn equal<T: PartialEq + Debug>(&mut self, what: Arguments<'_>, got: T, expected: T) {
        if got == expected {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("callstest: {what}: {got:?} instead of {expected:?}");
        }
    }

    /// A cell: whether `what` is so.
    pub fn is(&mut self, what: Arguments<'_>, so: bool) {
        self.equal(what, so, true);
    }
}
