//! Which regions have a session that runs, as this boot knows it.
//!
//! A header that says so may have been left by the boot before a warm reset. Nothing in the memory
//! can tell the two apart, so the list is not there.

use crate::sync::{AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Sessions that can run at a time and be known: few where memory is scarce.
const PLACES: usize = if cfg!(all(target_os = "none", target_pointer_width = "32")) {
    4
} else {
    64
};

/// The regions' addresses; 0 in a free place. Whoever asks has claimed the `start`; a `stop` may
/// free a place meanwhile.
static RUNNING: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];

/// 1 once a session has begun when there was no free place. From then on headers are believed.
static UNKNOWN: AtomicUsize = AtomicUsize::new(0);

/// Whether a session may run over the region at `base`, whose header says that one does.
pub(super) fn may_run(base: usize) -> bool {
    // Partner: the release in `remove`. Whoever misses the session finds its header closed.
    UNKNOWN.load(Relaxed) > 0 || RUNNING.iter().any(|place| place.load(Acquire) == base)
}

/// A session over the region at `base` begins.
pub(super) fn add(base: usize) {
    remove(base);
    let mut places = RUNNING.iter();
    let free = |place: &AtomicUsize| place.compare_exchange(0, base, Relaxed, Relaxed).is_ok();
    if !places.any(free) {
        UNKNOWN.store(1, Relaxed);
    }
}

/// The session over the region at `base` has ended.
pub(super) fn remove(base: usize) {
    for place in &RUNNING {
        // A place that holds another region stays as it is. Partner: the acquire in `may_run`.
        let _ = place.compare_exchange(base, 0, Release, Relaxed);
    }
}
