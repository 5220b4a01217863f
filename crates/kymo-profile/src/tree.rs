//! The call tree: which functions called which, and with which shares.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::hot::Share;
use crate::profile::{Frame, ImageId, Profile, StackId};

/// A function in a call tree, called by the nearest branch before it with a smaller depth.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// How many callers it has in the tree; 0 for an outermost function.
    pub depth: usize,
    /// The function's name. Empty for what stacks without frames are, whose functions are unknown.
    pub function: Arc<str>,
    /// Where its code is.
    pub image: Option<ImageId>,
    /// Samples in it, called so, and not in what it calls.
    pub own: Share,
    /// Samples in it, called so, or in what it calls.
    pub total: Share,
    /// What it calls with too small a share to be in the tree.
    pub folded: Option<Folded>,
}

/// Branches that are not in the tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Folded {
    /// How many.
    pub count: usize,
    /// Their samples together.
    pub total: Share,
}

/// A function under construction.
#[derive(Default)]
struct Node<'p> {
    parent: Option<usize>,
    /// `None` for the root, and for stacks without frames.
    frame: Option<&'p Frame>,
    own: u64,
    total: u64,
    callees: Vec<usize>,
}

/// Number of the root, which stands for all samples.
const ROOT: usize = 0;

impl Profile {
    /// The call tree, each function before those that it calls, of which those with the most samples
    /// come first. Branches with a smaller share of all samples than `least`, from 0 to 1, are
    /// folded into their caller. The first branch stands for all samples, and has no name.
    pub fn call_tree(&self, least: f64) -> Vec<Branch> {
        let mut tree = Tree::new(self);
        let all = self.weight();
        tree.sum();
        let mut branches = Vec::new();
        // Deep stacks must not make this one's overflow.
        let mut open = vec![(ROOT, 0)];
        while let Some((number, depth)) = open.pop() {
            let mut callees = tree.callees(number);
            let shown = callees.partition_point(|callee| {
                let total = tree.nodes.get(*callee).map_or(0, |node| node.total);
                Share::of(total, all).share >= least
            });
            let small = callees.split_off(shown);
            branches.extend(tree.branch(number, depth, &small, all));
            open.extend(callees.into_iter().rev().map(|callee| (callee, depth + 1)));
        }
        branches
    }
}

/// A function, and where its code is: what two nodes below one caller differ in.
type Key<'p> = (usize, &'p str, Option<ImageId>);

struct Tree<'p> {
    profile: &'p Profile,
    nodes: Vec<Node<'p>>,
    numbers: FxHashMap<Key<'p>, usize>,
}

impl<'p> Tree<'p> {
    fn new(profile: &'p Profile) -> Tree<'p> {
        let mut tree = Tree {
            profile,
            nodes: vec![Node::default()],
            numbers: FxHashMap::default(),
        };
        let mut of_stack: Vec<Option<usize>> = vec![None; profile.stacks.len()];
        for row in &profile.rows {
            let number = match row.stack {
                Some(stack) => tree.of_stack(stack, &mut of_stack),
                None => tree.below(ROOT, None),
            };
            if let Some(node) = tree.nodes.get_mut(number) {
                node.own = node.own.saturating_add(row.weight);
            }
        }
        tree
    }

    /// The node of a stack's innermost frame. `known` has those of stacks that came before.
    fn of_stack(&mut self, stack: StackId, known: &mut [Option<usize>]) -> usize {
        let mut open = Vec::new();
        let (mut next, mut number) = (Some(stack), ROOT);
        while let Some(id) = next {
            if let Some(of_caller) = known.get(id.index()).copied().flatten() {
                number = of_caller;
                break;
            }
            let Some(stack) = self.profile.stacks.get(id.index()) else {
                break;
            };
            open.push((id, stack.frame));
            next = stack.parent;
        }
        for (id, frame) in open.into_iter().rev() {
            number = self.below(number, self.profile.frames.get(frame.index()));
            if let Some(known) = known.get_mut(id.index()) {
                *known = Some(number);
            }
        }
        number
    }

    /// The node of a frame below its caller's.
    fn below(&mut self, parent: usize, frame: Option<&'p Frame>) -> usize {
        let function = frame.and_then(|frame| self.profile.function(frame));
        let name = function.map_or("", |function| &function.name);
        let key = (parent, name, function.and_then(|function| function.image));
        let next = self.nodes.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.nodes.push(Node {
                parent: Some(parent),
                frame,
                ..Node::default()
            });
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.callees.push(number);
            }
        }
        number
    }

    /// Adds the weights of callees to their callers', which came before them.
    fn sum(&mut self) {
        for number in (0..self.nodes.len()).rev() {
            let Some(node) = self.nodes.get_mut(number) else {
                continue;
            };
            node.total = node.total.saturating_add(node.own);
            let (parent, total) = (node.parent, node.total);
            if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
                parent.total = parent.total.saturating_add(total);
            }
        }
    }

    /// Those that a function calls, the greatest first.
    fn callees(&self, number: usize) -> Vec<usize> {
        let callees = self.nodes.get(number).map(|node| node.callees.clone());
        let mut callees = callees.unwrap_or_default();
        callees.sort_by_cached_key(|callee| {
            let node = self.nodes.get(*callee);
            let total = node.map_or(0, |node| node.total);
            (Reverse(total), self.name(*callee))
        });
        callees
    }

    fn name(&self, number: usize) -> (&'p str, Option<ImageId>) {
        let frame = self.nodes.get(number).and_then(|node| node.frame);
        let function = frame.and_then(|frame| self.profile.function(frame));
        function.map_or(("", None), |function| (&*function.name, function.image))
    }

    fn branch(&self, number: usize, depth: usize, small: &[usize], all: u64) -> Option<Branch> {
        let node = self.nodes.get(number)?;
        let (name, image) = self.name(number);
        let totals = small.iter().filter_map(|callee| self.nodes.get(*callee));
        let folded = totals.fold(0_u64, |sum, node| sum.saturating_add(node.total));
        Some(Branch {
            depth,
            function: Arc::from(name),
            image,
            own: Share::of(node.own, all),
            total: Share::of(node.total, all),
            folded: (!small.is_empty()).then(|| Folded {
                count: small.len(),
                total: Share::of(folded, all),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{FrameId, FunctionId, Mode, ProfileFunction, Row, Stack};

    /// A profile of folded stacks.
    fn profile(lines: &[(&[&str], u64)]) -> Profile {
        let mut profile = Profile::default();
        for (names, weight) in lines {
            let mut parent = None;
            for name in *names {
                let frame = FrameId::next(profile.frames.len());
                profile.frames.push(Frame {
                    function: FunctionId::next(profile.functions.len()),
                    file: None,
                    line: None,
                    address: 0,
                    is_inlined: false,
                    is_kernel: false,
                });
                profile.functions.push(ProfileFunction {
                    name: Arc::from(*name),
                    linkage_name: Arc::from(""),
                    image: None,
                    begin: None,
                });
                let stack = StackId::next(profile.stacks.len());
                profile.stacks.push(Stack { parent, frame });
                parent = Some(stack);
            }
            profile.rows.push(Row {
                thread: None,
                cpu: None,
                stack: parent,
                mode: Mode::Kernel,
                weight: *weight,
                ticks: 0,
            });
        }
        profile
    }

    fn text(branches: &[Branch]) -> Vec<String> {
        let line = |of: &Branch| {
            let folded = of.folded.map_or(String::new(), |folded| {
                format!(" +{} {}", folded.count, folded.total.weight)
            });
            let (total, own) = (of.total.weight, of.own.weight);
            format!(
                "{}{} {total} {own}{folded}",
                "-".repeat(of.depth),
                of.function
            )
        };
        branches.iter().map(line).collect()
    }

    #[test]
    fn callers_stand_above_what_they_call() {
        let profile = profile(&[
            (&["main", "work", "lock"], 30),
            (&["main", "work"], 10),
            (&["main", "idle"], 50),
            (&["main", "work", "lock"], 4),
            (&["irq"], 3),
            (&["main", "work", "work"], 2),
            (&[], 1),
        ]);
        assert_eq!(
            text(&profile.call_tree(0.0)),
            [
                " 100 0",
                "-main 96 0",
                "--idle 50 50",
                "--work 46 10",
                "---lock 34 34",
                "---work 2 2",
                "-irq 3 3",
                "- 1 1",
            ]
        );
        assert_eq!(
            text(&profile.call_tree(0.03)),
            [
                " 100 0 +1 1",
                "-main 96 0",
                "--idle 50 50",
                "--work 46 10 +1 2",
                "---lock 34 34",
                "-irq 3 3",
            ]
        );
        assert_eq!(text(&profile.call_tree(1.1)), [" 100 0 +3 100"]);
    }

    #[test]
    fn a_deep_stack_is_a_deep_tree() {
        let names = vec!["f"; 100_000];
        let branches = profile(&[(&names, 1)]).call_tree(0.0);
        assert_eq!(branches.last().map(|of| of.depth), Some(100_000));
        assert!(profile(&[]).call_tree(0.0).len() == 1);
    }
}
