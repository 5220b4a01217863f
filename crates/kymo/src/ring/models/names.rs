//! A name that one CPU has recorded, and on which another one relies.

use super::*;
use crate::ring::name_epoch::NameEpoch;
use crate::sync::{AtomicU32, Ordering};

/// Whoever sees that a thing was used sees its name, on whichever CPU it was recorded: a third
/// CPU's reader, or a dump.
#[test]
fn a_use_is_not_seen_before_the_name() {
    explore("names", 3, || {
        let named = Arc::new(NameEpoch::new());
        // By CPU: the name, and the use. The record of the name has no order here: the ring's own
        // order is not relied on.
        let words: Arc<[[AtomicU32; 2]; 2]> = Arc::new([
            [AtomicU32::new(0), AtomicU32::new(0)],
            [AtomicU32::new(0), AtomicU32::new(0)],
        ]);
        // SAFETY: its one word; the `Arc` lives as long as the execution.
        unsafe { (*Arc::as_ptr(&named).cast::<AtomicU32>()).watch() };
        words.iter().flatten().for_each(AtomicU32::watch);
        let use_it = |cpu: usize| {
            let (named, words) = (named.clone(), words.clone());
            move || {
                let [name, used] = &words[cpu];
                if let Some(epoch) = named.due() {
                    name.store(1, Ordering::Relaxed);
                    named.named_in(epoch);
                }
                used.store(1, Ordering::Release);
            }
        };
        let threads = [
            loom::thread::spawn(use_it(0)),
            loom::thread::spawn(use_it(1)),
        ];
        let used = words
            .each_ref()
            .map(|[_, used]| used.load(Ordering::Acquire))
            .contains(&1);
        let named = words
            .each_ref()
            .map(|[name, _]| name.load(Ordering::Relaxed))
            .contains(&1);
        assert!(named || !used, "a use without a name");
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}
