//! Folded stacks: one line for each distinct stack of names, `outer;inner count`.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::profile::{Profile, Row, StackId};

/// What the outermost frame of each stack names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The outermost function.
    #[default]
    Nothing,
    /// The CPU.
    Cpu,
    /// The thread.
    Thread,
    /// The process.
    Process,
}

impl Profile {
    /// The name that stands before a row's stack.
    pub fn group(&self, row: &Row, by: By) -> Option<String> {
        let unknown = || "unknown thread".to_owned();
        match by {
            By::Nothing => None,
            By::Cpu => Some(match row.cpu {
                Some(cpu) => format!("CPU {cpu}"),
                None => "unknown CPU".to_owned(),
            }),
            By::Thread => Some(
                self.thread(row)
                    .map_or_else(unknown, |thread| thread.label()),
            ),
            By::Process => {
                let thread = self.thread(row);
                Some(thread.map_or_else(unknown, |thread| thread.process_label()))
            }
        }
    }

    /// The rows as folded stacks, sorted, one on each line, with their weights. In names, `;` and
    /// line ends become `:`, as they have a meaning of their own there.
    pub fn folded(&self, by: By) -> String {
        let named = NamedStacks::of(self);
        let mut groups: FxHashMap<(Option<u32>, Option<u32>), Arc<str>> = FxHashMap::default();
        let mut sums: BTreeMap<(Arc<str>, u32), u64> = BTreeMap::new();
        for row in &self.rows {
            let key = match by {
                By::Nothing => (None, None),
                By::Cpu => (None, row.cpu),
                By::Thread | By::Process => (row.thread, None),
            };
            let group = groups.entry(key).or_insert_with(|| {
                let name = self.group(row, by).unwrap_or_default();
                Arc::from(escaped(&name))
            });
            let stack = named.stack(row.stack);
            let sum = sums.entry((Arc::clone(group), stack)).or_default();
            *sum = sum.saturating_add(row.weight);
        }
        let mut lines: Vec<(String, u64)> = sums
            .into_iter()
            .map(|((group, stack), sum)| (named.line(&group, stack), sum))
            .collect();
        lines.sort_unstable();
        let mut text = String::new();
        for (line, sum) in lines {
            text.push_str(&line);
            text.push(' ');
            text.push_str(&sum.to_string());
            text.push('\n');
        }
        text
    }
}

/// A name as it can stand in a folded stack.
fn escaped(name: &str) -> String {
    name.replace([';', '\n', '\r'], ":")
}

/// Stacks by the names of their functions. 0 is the empty stack.
struct NamedStacks {
    names: Vec<String>,
    /// Number of each stack's name, and the stack of its caller.
    nodes: Vec<(u32, u32)>,
    /// By [`StackId`].
    of_stack: Vec<u32>,
}

impl NamedStacks {
    fn of(profile: &Profile) -> NamedStacks {
        let mut numbers: FxHashMap<&str, u32> = FxHashMap::default();
        let mut names = Vec::new();
        let of_function: Vec<u32> = profile
            .functions
            .iter()
            .map(|function| {
                *numbers.entry(&function.name).or_insert_with(|| {
                    names.push(escaped(&function.name));
                    names.len() as u32 - 1
                })
            })
            .collect();
        let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut nodes = vec![(u32::MAX, 0)];
        let mut of_stack: Vec<u32> = Vec::with_capacity(profile.stacks.len());
        for stack in &profile.stacks {
            let parent = stack
                .parent
                .and_then(|parent| of_stack.get(parent.index()).copied())
                .unwrap_or(0);
            let frame = profile.frames.get(stack.frame.index());
            let name = frame
                .and_then(|frame| of_function.get(frame.function.index()).copied())
                .unwrap_or(u32::MAX);
            let node = *known.entry((name, parent)).or_insert_with(|| {
                nodes.push((name, parent));
                nodes.len() as u32 - 1
            });
            of_stack.push(node);
        }
        NamedStacks {
            names,
            nodes,
            of_stack,
        }
    }

    fn stack(&self, id: Option<StackId>) -> u32 {
        let known = id.and_then(|id| self.of_stack.get(id.index()).copied());
        known.unwrap_or(0)
    }

    /// The names of a stack, the outermost first.
    fn line(&self, group: &str, stack: u32) -> String {
        let mut parts = Vec::new();
        let mut at = stack;
        while let Some(&(name, parent)) = self.nodes.get(at as usize).filter(|_| at != 0) {
            parts.push(self.names.get(name as usize).map_or("", String::as_str));
            at = parent;
        }
        if parts.is_empty() {
            parts.push("unknown");
        }
        if !group.is_empty() {
            parts.push(group);
        }
        parts.reverse();
        parts.join(";")
    }
}
