//! Folded stacks: one line for each distinct stack of names, `outer;inner count`.

use std::cmp::Ordering;
use std::convert::Infallible;
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
    /// line ends become `:`, as they have a meaning of their own there, and other control characters
    /// escapes such as `\u{1b}`, as they would steer a terminal.
    pub fn folded(&self, by: By) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let write = |stack: &str, sum| writeln!(text, "{stack} {sum}");
        let _ = self.try_fold(by, false, write);
        text
    }

    /// The rows as folded stacks, in [`stack_order`], with their weights. With `mark_kernel`, names
    /// of kernel functions end with `_[k]`, by which flame graphs colour them.
    pub fn fold(&self, by: By, mark_kernel: bool) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        let _ = self.try_fold(by, mark_kernel, |stack, sum| {
            lines.push((stack.to_owned(), sum));
            Ok::<(), Infallible>(())
        });
        lines
    }

    /// Passes each line of [`fold`](Self::fold) on, until one fails.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn try_fold<E>(
        &self,
        by: By,
        mark_kernel: bool,
        mut take: impl FnMut(&str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let named = NamedStacks::of(self, mark_kernel);
        let mut groups: FxHashMap<(Option<u32>, Option<u32>), usize> = FxHashMap::default();
        let mut names: Vec<String> = Vec::new();
        let mut sums: FxHashMap<(usize, u32), u64> = FxHashMap::default();
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
                })
            });
            let sum = sums.entry((group, named.stack(row.stack))).or_default();
            *sum = sum.saturating_add(row.weight);
        }
        let places = named.places();
        let mut sums: Vec<((usize, u32), u64)> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|((group, stack), _)| {
            (names.get(*group), places.get(*stack as usize))
        });
        let mut line = String::new();
        for ((group, stack), sum) in sums {
            line.clear();
            line.push_str(names.get(group).map_or("", String::as_str));
            named.append(stack, &mut line);
            take(&line, sum)?;
        }
        Ok(())
    }
}

/// The order of folded stacks in which those with the same callers are neighbours: `a`, `a;b`,
/// `a::c`, although `:` is before `;` in other orders.
pub fn stack_order(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    match differs {
        None => one.len().cmp(&other.len()),
        Some(place) => {
            let rank = |name: &[u8]| name.get(place).map(|byte| (*byte != b';', *byte));
            rank(one).cmp(&rank(other))
        }
    }
}

/// A name as it can stand in a folded stack.
fn escaped(name: &str) -> String {
    let name = name.replace([';', '\n', '\r'], ":");
    if !name.contains(char::is_control) {
        return name;
    }
    let escape = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    name.chars().map(escape).collect()
}

/// The stacks of a profile as texts of names.
#[derive(Debug)]
pub struct StackNames(NamedStacks);

impl StackNames {
    /// The names of a profile's stacks.
    pub fn of(profile: &Profile) -> StackNames {
        StackNames(NamedStacks::of(profile, false))
    }

    /// Puts the names of a stack into `text`, as [folded](Profile::folded) stacks have them, and
    /// gives their number and where the innermost begins. `None` for a stack without frames.
    pub fn write(&self, stack: Option<StackId>, text: &mut String) -> Option<(usize, usize)> {
        text.clear();
        match self.0.stack(stack) {
            0 => None,
            stack => Some(self.0.append(stack, text)),
        }
    }
}

/// Stacks by the names of their functions. 0 is the empty stack.
#[derive(Debug)]
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
        // Most stacks call one function only, so what is called first is found without a map.
        let mut first_called = vec![0];
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
            let next = nodes.len() as u32;
            let node = match first_called.get_mut(parent as usize) {
                Some(first) if *first == 0 => {
                    *first = next;
                    next
                }
                Some(first) if nodes.get(*first as usize) == Some(&(name, parent)) => *first,
                _ => *known.entry((name, parent)).or_insert(next),
            };
            if node == next {
                nodes.push((name, parent));
                first_called.push(0);
            }
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

    /// Each stack's place in [`stack_order`].
    fn places(&self) -> Vec<usize> {
        let mut ranks: Vec<usize> = (0..self.names.len()).collect();
        ranks.sort_unstable_by_key(|&name| self.names.get(name));
        let mut rank_of = vec![0; self.names.len()];
        for (rank, &name) in ranks.iter().enumerate() {
            if let Some(cell) = rank_of.get_mut(name) {
                *cell = rank;
            }
        }
        let rank = |node: &u32| {
            let name = self
                .nodes
                .get(*node as usize)
                .map(|(name, _)| *name as usize);
            name.and_then(|name| rank_of.get(name).copied())
        };
        let mut called = self.called();
        let (mut places, mut next_place) = (vec![0; self.nodes.len()], 0);
        let mut open = vec![0];
        while let Some(node) = open.pop() {
            if let Some(place) = places.get_mut(node as usize) {
                *place = next_place;
                next_place += 1;
            }
            let next = called.of(node);
            // The last is the first to be taken.
            next.sort_unstable_by_key(|node| std::cmp::Reverse(rank(node)));
            open.extend_from_slice(next);
        }
        places
    }

    /// What each stack calls.
    fn called(&self) -> Called {
        let mut ends = vec![0; self.nodes.len()];
        for (_, caller) in self.nodes.iter().skip(1) {
            if let Some(count) = ends.get_mut(*caller as usize) {
                *count += 1;
            }
        }
        // First where each part begins; it ends where it has been filled to.
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut all = vec![0; sum];
        for (node, (_, caller)) in self.nodes.iter().enumerate().skip(1) {
            if let Some(end) = ends.get_mut(*caller as usize) {
                if let Some(place) = all.get_mut(*end) {
                    *place = node as u32;
                }
                *end += 1;
            }
        }
        Called { all, ends }
    }

    /// Appends the names of a stack, the outermost first. Gives their number, and where the last
    /// begins.
    fn append(&self, stack: u32, line: &mut String) -> (usize, usize) {
        let mut names = Vec::new();
        let mut at = stack;
        while let Some(&(name, caller)) = self.nodes.get(at as usize).filter(|_| at != 0) {
            names.push(self.names.get(name as usize).map_or("", String::as_str));
            at = caller;
        }
        if names.is_empty() {
            names.push("unknown");
        }
        let mut begin = line.len();
        for name in names.iter().rev() {
            if !line.is_empty() {
                line.push(';');
            }
            begin = line.len();
            line.push_str(name);
        }
        (names.len(), begin)
    }
}

/// Lists of stacks, by their caller, one behind the other.
struct Called {
    all: Vec<u32>,
    /// Where each list ends.
    ends: Vec<usize>,
}

impl Called {
    /// The stacks with this caller.
    fn of(&mut self, caller: u32) -> &mut [u32] {
        let caller = caller as usize;
        let begin = caller
            .checked_sub(1)
            .and_then(|before| self.ends.get(before));
        let range = begin.copied().unwrap_or(0)..self.ends.get(caller).copied().unwrap_or(0);
        self.all.get_mut(range).unwrap_or(&mut [])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::profile::{Frame, FrameId, FunctionId, Mode, ProfileFunction, Stack};

    #[test]
    fn stacks_of_the_same_callers_are_neighbours() {
        let mut stacks = ["a::c", "a;b;d", "b", "a b", "a;b::c", "a;b", "a", "a.x;y"];
        stacks.sort_unstable_by(|one, other| stack_order(one, other));
        let sorted = ["a", "a;b", "a;b;d", "a;b::c", "a b", "a.x;y", "a::c", "b"];
        assert_eq!(stacks, sorted);
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        assert_eq!(
            escaped("we\x01ird\x1b[31m;\n\u{9b}é"),
            "we\\u{1}ird\\u{1b}[31m::\\u{9b}é"
        );
    }

    /// The tree gives the order that comparing the lines gives.
    #[test]
    fn lines_are_in_that_order() {
        let names = ["a", "b", "a::c", "b.x", "a b"];
        let mut profile = Profile::default();
        for name in names {
            let function = FunctionId::next(profile.functions.len());
            profile.functions.push(ProfileFunction {
                name: Arc::from(name),
                linkage_name: Arc::from(""),
                image: None,
                begin: None,
            });
            profile.frames.push(Frame {
                function,
                file: None,
                line: None,
                address: 0,
                is_inlined: false,
                is_kernel: false,
            });
        }
        // Every function, every function called by each, and so on.
        let mut callers = vec![None];
        for _ in 0..3 {
            let mut called = Vec::new();
            for &parent in &callers {
                for frame in [4, 2, 0, 3, 1] {
                    let id = StackId::next(profile.stacks.len());
                    let frame = FrameId(frame);
                    profile.stacks.push(Stack { parent, frame });
                    called.push(Some(id));
                }
            }
            callers = called;
        }
        let stacks = (0..profile.stacks.len()).map(|id| Some(StackId::next(id)));
        for stack in stacks.chain([None]) {
            profile.rows.push(Row {
                thread: None,
                cpu: None,
                stack,
                mode: Mode::Kernel,
                weight: 1,
                ticks: 0,
            });
        }
        let lines = profile.fold(By::Nothing, false);
        assert_eq!(lines.len(), 5 + 25 + 125 + 1);
        let (first, rest) = lines.split_first().unwrap();
        assert_eq!(first.0, "unknown");
        assert!(rest.is_sorted_by(|(one, _), (other, _)| stack_order(one, other).is_lt()));
    }
}
