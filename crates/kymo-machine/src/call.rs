//! System calls.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A system call of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(u32);

impl CallId {
    /// Index among the trace's system calls, in order of first appearance.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number or name by which the trace identifies a system call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CallKey {
    /// The kernel's number.
    Number(u64),
    /// The name, from tracers that have an event class for each call.
    Named(Arc<str>),
}

impl std::fmt::Display for CallKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CallKey::Number(number) => number.fmt(f),
            CallKey::Named(name) => name.fmt(f),
        }
    }
}

/// All system calls and their names.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Calls {
    list: Vec<(CallKey, Option<Arc<str>>)>,
    numbers: FxHashMap<u64, CallId>,
    names: FxHashMap<Arc<str>, CallId>,
}

impl Calls {
    pub(crate) fn number(&mut self, number: u64) -> CallId {
        let list = &mut self.list;
        *self
            .numbers
            .entry(number)
            .or_insert_with(|| push(list, CallKey::Number(number)))
    }

    pub(crate) fn find(&self, number: u64) -> Option<CallId> {
        self.numbers.get(&number).copied()
    }

    pub(crate) fn named(&mut self, name: &Arc<str>) -> CallId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = push(&mut self.list, CallKey::Named(Arc::clone(name)));
        self.names.insert(Arc::clone(name), id);
        id
    }

    pub(crate) fn rename(&mut self, id: CallId, name: &str) {
        if let Some((_, old)) = self.list.get_mut(id.index()) {
            *old = Some(Arc::from(name));
        }
    }

    pub(crate) fn get(&self, id: CallId) -> Option<&(CallKey, Option<Arc<str>>)> {
        self.list.get(id.index())
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

fn push(list: &mut Vec<(CallKey, Option<Arc<str>>)>, key: CallKey) -> CallId {
    let id = CallId(u32::try_from(list.len()).unwrap_or(u32::MAX));
    list.push((key, None));
    id
}
