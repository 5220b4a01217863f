//! A number in two words that share a bit, as 32-bit processors have it, counted up on one CPU and
//! read on another.

use super::*;
use crate::ring::long::Halves;
use crate::sync::{AtomicU32, Ordering};

/// A reader sees numbers (which grow by less than 2^31 while it loads one) that were there, and
/// none that is less than one it has seen.
#[test]
fn a_number_in_halves_never_steps_back() {
    for (from, steps) in [
        ((1u64 << 31) - 2, [1u64, 1, 1]),
        ((1 << 32) - 1, [1, 7, 1]),
        ((1 << 31) - 1, [1 << 20, 1 << 29, 1]),
    ] {
        explore(&format!("halves, {from:#x} on"), 3, move || {
            let halves = Arc::new(Halves::new(from));
            let words: *const AtomicU32 = Arc::as_ptr(&halves).cast();
            // SAFETY: its two words; the `Arc` lives as long as the execution.
            unsafe {
                (*words).watch();
                (*words.add(1)).watch();
            }
            let read = halves.clone();
            let reader = loom::thread::spawn(move || {
                [read.load(Ordering::Relaxed), read.load(Ordering::Relaxed)]
            });
            let mut numbers = vec![from];
            for step in steps {
                numbers.push(numbers[numbers.len() - 1] + step);
                halves.store(numbers[numbers.len() - 1], Ordering::Relaxed);
            }
            let [first, second] = reader.join().unwrap();
            assert!(
                numbers.contains(&first) && numbers.contains(&second),
                "{first:#x}, {second:#x} of {numbers:x?}"
            );
            assert!(first <= second, "{first:#x}, then {second:#x}");
        });
    }
}
