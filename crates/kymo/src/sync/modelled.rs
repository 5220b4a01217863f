//! Atomics for the models (`ring/models`, `session`, `history`): in memory they are the core
//! library's; those that a model watches are loom's.
//!
//! The ring lies in plain memory and is reached by address, and loom's atomics are objects of their
//! own. So a model names the words that its threads race for ([`watch`]), before it starts them:
//! operations on these go to a loom atomic, found by address, with the ordering that the code
//! gives. All others act on the memory in the order in which loom runs the threads: one of the
//! executions that the memory model allows. The memory always holds what was stored last.
//!
//! Where threads race for many words, and a model takes only some of them for loom, the others are
//! a *blur* ([`blur`]): a load gives what was stored last. The memory model allows that value, so a
//! fence after the load synchronizes as with any relaxed load. One loom atomic, which both sides
//! modify, stands for all words of a blur; loads and stores with no other operation of loom in
//! between are one step.
//!
//! A model may also have a function called before every operation ([`on_step`]).

use core::sync::atomic as real;
pub(crate) use core::sync::atomic::{Ordering, compiler_fence};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

thread_local! {
    static WATCHED: RefCell<HashMap<usize, Rc<Word>>> = RefCell::new(HashMap::new());
    static BLURS: RefCell<Vec<Rc<Blur>>> = const { RefCell::new(Vec::new()) };
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
    static MODELLED: Cell<bool> = const { Cell::new(false) };
    static STEP: Cell<Option<fn(Step)>> = const { Cell::new(None) };
}

enum Word {
    U8(loom::sync::atomic::AtomicU8),
    U32(loom::sync::atomic::AtomicU32),
    U64(loom::sync::atomic::AtomicU64),
}

/// Words that one loom atomic stands for.
struct Blur {
    words: std::ops::Range<usize>,
    carrier: loom::sync::atomic::AtomicU32,
    /// How many of loom's operations there were when it was stored to last.
    stored_at: Cell<u64>,
    /// How often it was stored to, and how often when each thread loaded it last.
    stores: Cell<u64>,
    loaded: RefCell<Vec<(loom::thread::ThreadId, u64)>>,
}

impl Blur {
    fn store(&self) {
        if self.stored_at.get() != OPERATIONS.get() {
            count();
            self.carrier.fetch_add(1, Ordering::Relaxed);
            self.stores.set(self.stores.get() + 1);
            self.stored_at.set(OPERATIONS.get());
        }
    }

    fn load(&self, order: Ordering) {
        let me = loom::thread::current().id();
        let known = self
            .loaded
            .borrow()
            .iter()
            .find(|&&(thread, _)| thread == me)
            .map_or(0, |&(_, stores)| stores);
        if known != self.stores.get() {
            count();
            self.carrier.fetch_add(0, order);
            let mut loaded = self.loaded.borrow_mut();
            loaded.retain(|&(thread, _)| thread != me);
            loaded.push((me, self.stores.get()));
        }
    }
}

fn blurred(address: usize) -> Option<Rc<Blur>> {
    if !MODELLED.get() {
        return None;
    }
    BLURS.with_borrow(|blurs| {
        blurs
            .iter()
            .find(|blur| blur.words.contains(&address))
            .cloned()
    })
}

fn count() {
    OPERATIONS.set(OPERATIONS.get() + 1);
}

/// Lets one loom atomic stand for all words at these addresses that are not watched.
pub(crate) fn blur(words: std::ops::Range<usize>) {
    let blur = Blur {
        words,
        carrier: loom::sync::atomic::AtomicU32::new(0),
        stored_at: Cell::new(u64::MAX),
        stores: Cell::new(0),
        loaded: RefCell::default(),
    };
    BLURS.with_borrow_mut(|blurs| blurs.push(Rc::new(blur)));
}

/// Forgets the words of the previous execution. Every execution calls this first; outside of loom
/// nothing is watched.
pub(crate) fn begin_execution() {
    MODELLED.set(true);
    OPERATIONS.set(0);
    WATCHED.with_borrow_mut(HashMap::clear);
    BLURS.with_borrow_mut(Vec::clear);
}

/// To be called after the last execution.
pub(crate) fn end_model() {
    MODELLED.set(false);
    WATCHED.with_borrow_mut(HashMap::clear);
    BLURS.with_borrow_mut(Vec::clear);
}

/// The operation that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An operation on a word that loom has, or a fence.
    Shared,
    /// Another operation, or a reading of the clock.
    Private,
}

/// Calls `hook` before every operation from now on.
pub(crate) fn on_step(hook: Option<fn(Step)>) -> Option<fn(Step)> {
    STEP.replace(hook)
}

pub(crate) fn step(step: Step) {
    if let Some(hook) = STEP.get() {
        hook(step);
    }
}

fn step_at(address: usize) {
    if STEP.get().is_some() {
        let shared = MODELLED.get() && WATCHED.with_borrow(|words| words.contains_key(&address));
        step(if shared { Step::Shared } else { Step::Private });
    }
}

fn watched(address: usize) -> Option<Rc<Word>> {
    if !MODELLED.get() {
        return None;
    }
    WATCHED.with_borrow(|words| words.get(&address).cloned())
}

pub(crate) fn fence(order: Ordering) {
    step(Step::Shared);
    if MODELLED.get() {
        count();
        loom::sync::atomic::fence(order);
    } else {
        real::fence(order);
    }
}

macro_rules! atomic {
    ($name:ident, $int:ty, $variant:ident) => {
        /// An atomic that a model may watch; see the module.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(real::$name);

        #[allow(dead_code)] // Not every type needs every operation.
        impl $name {
            pub const fn new(value: $int) -> Self {
                Self(real::$name::new(value))
            }

            /// Gives the word to loom for the present execution.
            pub fn watch(&self) {
                let word = Word::$variant(loom::sync::atomic::$name::new(
                    self.0.load(Ordering::Relaxed),
                ));
                WATCHED.with_borrow_mut(|words| words.insert(self.address(), Rc::new(word)));
            }

            fn address(&self) -> usize {
                self.0.as_ptr().addr()
            }

            fn at_loom<T>(
                &self,
                operation: impl FnOnce(&loom::sync::atomic::$name) -> T,
            ) -> Option<T> {
                let word = watched(self.address())?;
                count();
                match &*word {
                    Word::$variant(word) => Some(operation(word)),
                    _ => panic!("a watched word is used at another width"),
                }
            }

            pub fn load(&self, order: Ordering) -> $int {
                step_at(self.address());
                self.at_loom(|word| word.load(order)).unwrap_or_else(|| {
                    if let Some(blur) = blurred(self.address()) {
                        blur.load(order);
                    }
                    self.0.load(Ordering::Relaxed)
                })
            }

            pub fn store(&self, value: $int, order: Ordering) {
                step_at(self.address());
                if self.at_loom(|word| word.store(value, order)).is_none()
                    && let Some(blur) = blurred(self.address())
                {
                    blur.store();
                }
                self.0.store(value, Ordering::Relaxed);
            }

            pub fn compare_exchange(
                &self,
                old: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                step_at(self.address());
                let result = self.at_loom(|word| word.compare_exchange(old, new, success, failure));
                match result {
                    None => self
                        .0
                        .compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed),
                    Some(result) => {
                        if result.is_ok() {
                            self.0.store(new, Ordering::Relaxed);
                        }
                        result
                    }
                }
            }

            pub fn compare_exchange_weak(
                &self,
                old: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(old, new, success, failure)
            }

            pub fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                step_at(self.address());
                let before = self.at_loom(|word| word.fetch_add(value, order));
                match before {
                    None => self.0.fetch_add(value, Ordering::Relaxed),
                    Some(before) => {
                        self.0.store(before.wrapping_add(value), Ordering::Relaxed);
                        before
                    }
                }
            }
        }
    };
}

atomic!(AtomicU8, u8, U8);
atomic!(AtomicU32, u32, U32);
atomic!(AtomicU64, u64, U64);

/// No model watches one.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct AtomicUsize(real::AtomicUsize);

#[allow(dead_code)] // As above.
impl AtomicUsize {
    pub const fn new(value: usize) -> Self {
        Self(real::AtomicUsize::new(value))
    }
    pub fn load(&self, order: Ordering) -> usize {
        step_at(self.0.as_ptr().addr());
        self.0.load(order)
    }
    pub fn store(&self, value: usize, order: Ordering) {
        step_at(self.0.as_ptr().addr());
        self.0.store(value, order);
    }
    pub fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        step_at(self.0.as_ptr().addr());
        self.0.fetch_add(value, order)
    }
    pub fn compare_exchange(
        &self,
        old: usize,
        new: usize,
        success: Ordering,
        failure: Ordering,
    ) -> Result<usize, usize> {
        step_at(self.0.as_ptr().addr());
        self.0.compare_exchange(old, new, success, failure)
    }
    pub fn compare_exchange_weak(
        &self,
        old: usize,
        new: usize,
        success: Ordering,
        failure: Ordering,
    ) -> Result<usize, usize> {
        self.compare_exchange(old, new, success, failure)
    }
}
