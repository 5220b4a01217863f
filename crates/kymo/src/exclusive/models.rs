//! Callers on two CPUs that claim one value, by loom.

use std::sync::Arc;

use super::Exclusive;
use crate::ring::models::explore;
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// The value has no ordering of its own: what one caller stored, the next one loads, because the
/// claim is taken with acquire and given back with release.
fn add_one(value: &Exclusive<AtomicU32>) -> bool {
    let Some(mut claim) = value.claim() else {
        return false;
    };
    let word = claim.get();
    let before = word.load(Relaxed);
    word.store(before + 1, Relaxed);
    true
}

#[test]
fn each_claim_sees_what_the_one_before_it_did() {
    explore("value, claimed by two", 3, || {
        let value = Arc::new(Exclusive::new(AtomicU32::new(0)));
        value.taken.watch();
        value.claim().unwrap().get().watch();
        let twice = |value: &Exclusive<_>| u32::from(add_one(value)) + u32::from(add_one(value));
        let other = value.clone();
        let second = loom::thread::spawn(move || twice(&other));
        let granted = twice(&value) + second.join().unwrap();
        assert!(granted >= 2, "one caller at least is never refused twice");
        let found = value.claim().unwrap().get().load(Relaxed);
        assert_eq!(found, granted, "each grant added one");
    });
}
