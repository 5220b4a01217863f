//! Folded stacks: one line for each distinct stack of names, `outer;inner count`.

use std::fmt::Write as _;

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
        let lines = self.fold(by, false);
        let mut text = String::with_capacity(lines.iter().map(|(line, _)| line.len() + 8).sum());
        for (line, sum) in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line} {sum}");
        }
        text
    }

    /// The rows as folded stacks, sorted, with their weights. With `mark_kernel`, names of kernel
    /// functions end with `_[k]`, by which flame graphs colour them.
    pub fn fold(&self, by: By, mark_kernel: bool) -> Vec<(String, u64)> {
        let named = NamedStacks::of(self, mark_kernel);
        let mut groups: FxHashMap<(Option<u32>, Option<u32>), u32> = FxHashMap::default();
        let mut names: Vec<String> = Vec::new();
        let mut sums: FxHashMap<(u32, u32), u64> = FxHashMap::default();
        for row in &self.rows {
            let key = match by {
                By::Nothing => (None, None),
                By::Cpu => (None, row.cpu),
                By::Thread | By::Process => (row.thread, None),
            };
            let group = *groups.entry(key).or_insert_with(|| {
                let name = escaped(&self.group(row, by).unwrap_or_default());
                // Threads of one process have the same group.
                let known = names.iter().position(|known| *known == name);
                known.unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                }) as u32
            });
            let sum = sums.entry((group, named.stack(row.stack))).or_default();
            *sum = sum.saturating_add(row.weight);
        }
        let name = |group: u32| names.get(group as usize).map_or("", String::as_str);
        let mut lines: Vec<(String, u64)> = sums
            .into_iter()
            .map(|((group, stack), sum)| (named.line(name(group), stack), sum))
            .collect();
        lines.sort_unstable();
        lines
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
    fn of(profile: &Profile, mark_kernel: bool) -> NamedStacks {
        let mut numbers: FxHashMap<(&str, bool), u32> = FxHashMap::default();
        let mut names = Vec::new();
        let of_function: Vec<u32> = profile
            .functions
            .iter()
            .map(|function| {
                let image = function
                    .image
                    .and_then(|image| profile.images.get(image.index()));
                let marked = mark_kernel && image.is_some_and(|image| image.is_kernel);
                *numbers.entry((&function.name, marked)).or_insert_with(|| {
                    names.push(escaped(&function.name) + if marked { "_[k]" } else { "" });
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
