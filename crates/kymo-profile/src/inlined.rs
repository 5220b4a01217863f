//! Functions of libraries that were inlined into a program's own.
//!
//! An optimized program spends most of its time, by its debug information, in small functions of
//! its language's library, such as comparisons and iterators. That says little of the program:
//! their time is that of the function into which they were inlined.

use rustc_hash::FxHashMap;

use crate::profile::{Frame, FrameId, Profile, Stack, StackId};

/// Parts of the paths of sources that are not a program's own: Rust's library as compiled and as
/// installed, packages of other authors, and what a system's compilers include.
const LIBRARIES: [&str; 6] = [
    "/rustc/",
    "/rustlib/src/rust/library/",
    "/.cargo/registry/",
    "/.cargo/git/",
    "/usr/include/",
    "/include/c++/",
];

/// Modules of functions whose source is not known.
const MODULES: [&str; 4] = ["core", "alloc", "std", "compiler_builtins"];

impl Profile {
    /// Leaves out the frames of inlined functions that are a library's: what they count is then
    /// their callers', and the line is that of the call. Frames that were not inlined stay.
    #[must_use]
    pub fn without_inlined_libraries(mut self) -> Profile {
        let leaves: Vec<bool> = self
            .frames
            .iter()
            .map(|frame| frame.is_inlined && self.is_of_library(frame))
            .collect();
        let mut stacks: Vec<Stack> = Vec::with_capacity(self.stacks.len());
        let mut known: FxHashMap<(Option<StackId>, FrameId), StackId> = FxHashMap::default();
        // By old id. A caller's stack comes before those of what it calls.
        let mut moved: Vec<StackId> = Vec::with_capacity(self.stacks.len());
        for stack in &self.stacks {
            let parent = stack.parent.and_then(|id| moved.get(id.index()).copied());
            let leaves = leaves.get(stack.frame.index()).copied().unwrap_or(false);
            let id = match parent {
                Some(parent) if leaves => parent,
                _ => *known.entry((parent, stack.frame)).or_insert_with(|| {
                    stacks.push(Stack {
                        parent,
                        frame: stack.frame,
                    });
                    StackId::next(stacks.len() - 1)
                }),
            };
            moved.push(id);
        }
        for row in &mut self.rows {
            row.stack = row.stack.and_then(|id| moved.get(id.index()).copied());
        }
        Profile { stacks, ..self }
    }

    /// Whether a frame's function is a library's, by its source, or else by its module.
    fn is_of_library(&self, frame: &Frame) -> bool {
        match &frame.file {
            Some(file) => LIBRARIES.iter().any(|part| file.contains(part)),
            None => {
                let path = kymo_symbols::path(self.name(frame));
                let module = path.first().map(String::as_str);
                module.is_some_and(|module| MODULES.contains(&module))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::profile::{FunctionId, Mode, ProfileFunction, Row};
    use crate::{By, Place};

    const LIBRARY: &str = "/rustc/0123/library/core/src/cmp.rs";

    /// `main` calls `own`, into which `lt`, and into that `deep::own`, were inlined; `sort` is a
    /// library's and was not inlined.
    fn profile() -> Profile {
        let mut profile = Profile::default();
        for (name, file, is_inlined) in [
            ("main", Some("src/main.rs"), false),
            ("own", Some("src/main.rs"), true),
            ("lt", Some(LIBRARY), true),
            ("deep::own", Some("src/deep.rs"), true),
            ("core::sort", Some(LIBRARY), false),
            ("core::cmp::max", None, true),
        ] {
            let function = FunctionId::next(profile.functions.len());
            profile.functions.push(ProfileFunction {
                name: Arc::from(name),
                linkage_name: Arc::from(""),
                image: None,
                begin: None,
            });
            profile.frames.push(Frame {
                function,
                file: file.map(Arc::from),
                line: Some(1),
                address: 1,
                is_inlined,
                is_kernel: false,
            });
        }
        for (parent, frame) in [
            (None, 0),
            (Some(0), 1),
            (Some(1), 2),
            (Some(2), 3),
            (Some(0), 4),
            (Some(1), 5),
        ] {
            profile.stacks.push(Stack {
                parent: parent.map(StackId),
                frame: FrameId(frame),
            });
        }
        profile.rows = (0..6)
            .map(|stack| Row {
                thread: None,
                cpu: None,
                stack: Some(StackId(stack)),
                mode: Mode::User,
                weight: 1 << stack,
                ticks: 0,
            })
            .collect();
        profile
    }

    #[test]
    fn what_a_library_inlined_counts_is_its_callers() {
        let profile = profile().without_inlined_libraries();
        assert_eq!(
            profile.folded(By::Nothing),
            "main 1\nmain;core::sort 16\nmain;own 38\nmain;own;deep::own 8\n"
        );
        let hot = profile.hot(Place::Function);
        let own: Vec<(&str, u64)> = hot
            .iter()
            .map(|hot| (&*hot.function, hot.own.weight))
            .collect();
        assert_eq!(
            own,
            [
                ("own", 38),
                ("core::sort", 16),
                ("deep::own", 8),
                ("main", 1)
            ]
        );
    }
}
