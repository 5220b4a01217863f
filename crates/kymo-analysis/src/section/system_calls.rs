//! System calls.

use std::cmp::Reverse;
use std::sync::Arc;

use kymo_machine::{CallId, CallKey};
use serde::Serialize;

use super::{Durations, End};
use crate::histogram::Histogram;

/// A system call.
#[derive(Clone, Debug, Serialize)]
pub struct SystemCall {
    /// Its number, if the trace has numbers.
    pub id: Option<u64>,
    /// Its name.
    pub name: Option<String>,
    /// Number of calls. A call without its beginning in the trace counts at its end.
    pub count: u64,
    /// Number of calls with a negative result.
    pub errors: u64,
    /// From entry to exit, time off CPU included.
    pub durations: Durations,
}

/// A system call's number, if the trace has numbers, and its name.
pub(super) fn identity(key: &CallKey, name: Option<&Arc<str>>) -> (Option<u64>, Option<String>) {
    match key {
        CallKey::Number(id) => (Some(*id), name.map(|name| name.to_string())),
        CallKey::Named(name) => (None, Some(name.to_string())),
    }
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    errors: u64,
    durations: Histogram,
}

/// Each system call's figures, by [`CallId::index`].
#[derive(Debug, Default)]
pub(crate) struct SystemCalls(Vec<(Option<CallId>, State)>);

impl SystemCalls {
    fn state(&mut self, call: CallId) -> Option<&mut State> {
        if self.0.len() <= call.index() {
            self.0.resize_with(call.index() + 1, Default::default);
        }
        let (id, state) = self.0.get_mut(call.index())?;
        *id = Some(call);
        Some(state)
    }

    pub(crate) fn enter(&mut self, call: CallId) {
        if let Some(state) = self.state(call) {
            state.count += 1;
        }
    }

    /// A call ends after `lasted` nanoseconds, if its begin is in the trace.
    pub(crate) fn exit(&mut self, call: CallId, lasted: Option<u64>, failed: bool) {
        if let Some(state) = self.state(call) {
            state.errors += u64::from(failed);
            match lasted {
                Some(lasted) => state.durations.add(lasted),
                None => state.count += 1,
            }
        }
    }

    pub(crate) fn finish(&self, end: &End<'_>) -> Vec<SystemCall> {
        let known = self.0.iter().filter(|(_, state)| state.count > 0);
        let mut calls: Vec<_> = known
            .filter_map(|(id, state)| Some((end.machine.call((*id)?)?, state)))
            .collect();
        calls.sort_by_key(|((key, _), state)| (Reverse(state.durations.sum()), (*key).clone()));
        let rows = calls.into_iter().map(|((key, name), state)| {
            let (id, name) = identity(key, name);
            SystemCall {
                id,
                name,
                count: state.count,
                errors: state.errors,
                durations: Durations::of(&state.durations),
            }
        });
        rows.collect()
    }

    pub(crate) fn live(&self) -> usize {
        let of = |(_, state): &(_, State)| 1 + state.durations.buckets();
        self.0.iter().map(of).sum()
    }
}
