//! Processes: their names, and how they begin, execute programs and end.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::change::{Change, Named};
use crate::machine::{At, Machine, Table};
use crate::thread::ThreadId;

/// Where a process has loaded a file with code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// The address.
    pub begin: u64,
    /// Whether that is the address of the file's beginning, and not of its code.
    pub is_base: bool,
    /// The file's path in the traced system.
    pub path: Arc<str>,
}

/// What a process has in its memory between two executions of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressSpace {
    /// The process.
    pub pid: u64,
    /// How often it had executed another program, or its number had been given to a new process.
    pub execs: usize,
}

/// Most files that are kept of an address space. A damaged trace must not make the lists grow.
const MAX_MAPPINGS: usize = 4096;
/// Most files of parents that are copied because a child, or its parent, loads more. What is loaded
/// when that many were copied is not noted.
const MAX_COPIES: usize = 1 << 21;

/// The files of a process between two executions of programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Space {
    /// A child has its parent's until one of both loads a file.
    files: Arc<Vec<Mapping>>,
    /// By place in `files`: whether the process itself has loaded it. The others are its parent's.
    is_own: Vec<bool>,
    /// Whether another space may have the same list. A clone of the machine does not count, which
    /// must go on as the original does.
    is_shared: bool,
}

impl Space {
    /// The files, to change them; `None` if too many were copied already.
    fn files(&mut self, copies: &mut usize) -> Option<&mut Vec<Mapping>> {
        if self.is_shared {
            let more = *copies + self.files.len();
            if more > MAX_COPIES {
                return None;
            }
            *copies = more;
            self.is_shared = false;
        }
        Some(Arc::make_mut(&mut self.files))
    }

    /// The process itself has loaded the file at this place of the list.
    fn owns(&mut self, place: usize) {
        if self.is_own.len() <= place {
            self.is_own.resize(place + 1, false);
        }
        if let Some(is_own) = self.is_own.get_mut(place) {
            *is_own = true;
        }
    }
}

/// Where processes have loaded files. No list is dropped when its process ends: samples get their
/// names after the last item.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spaces {
    /// By process and [`AddressSpace::execs`].
    of: Table<Vec<Space>>,
    /// How many files were copied.
    copies: usize,
}

impl Spaces {
    /// Number of files in memory.
    pub(crate) fn live(&self) -> usize {
        let spaces = self.of.values().flatten();
        let mut lists: Vec<&Arc<Vec<Mapping>>> = spaces.map(|space| &space.files).collect();
        lists.sort_unstable_by_key(|list| Arc::as_ptr(list));
        lists.dedup_by(|one, other| Arc::ptr_eq(one, other));
        lists.iter().map(|list| list.len()).sum()
    }

    /// Notes where a file was loaded. Of several addresses of one file, the lowest counts, but none
    /// that the parent had loaded it at.
    fn add(&mut self, pid: u64, mapping: Mapping) {
        let spaces = self.of.entry(pid).or_default();
        if spaces.is_empty() {
            spaces.push(Space::default());
        }
        let Some(space) = spaces.last_mut() else {
            return;
        };
        let known = space.files.iter().position(|of| of.path == mapping.path);
        let place = known.unwrap_or(space.files.len());
        let is_own = space.is_own.get(place) == Some(&true);
        let is_noted = space.files.get(place).is_some_and(|of| match is_own {
            true => of.begin <= mapping.begin,
            false => *of == mapping,
        });
        if place >= MAX_MAPPINGS {
            return;
        }
        if !is_noted {
            let Some(files) = space.files(&mut self.copies) else {
                return;
            };
            match files.get_mut(place) {
                Some(known) if is_own => known.begin = mapping.begin,
                Some(inherited) => *inherited = mapping,
                None => files.push(mapping),
            }
        }
        space.owns(place);
    }

    /// A child begins with its parent's files.
    fn inherit(&mut self, parent: Option<u64>, pid: u64) {
        let spaces = parent.and_then(|parent| self.of.get_mut(&parent));
        let inherited = spaces.and_then(|spaces| {
            let space = spaces.last_mut()?;
            space.is_shared = true;
            Some(Space {
                files: Arc::clone(&space.files),
                is_own: Vec::new(),
                is_shared: true,
            })
        });
        self.replace(pid, inherited.unwrap_or_default());
    }

    /// Another program, or another process, has the number from now on. Nothing changes for a
    /// process of which no file is known.
    fn replace(&mut self, pid: u64, space: Space) {
        match self.of.get_mut(&pid) {
            Some(spaces) if spaces.last().is_some_and(|last| last.files.is_empty()) => {
                spaces.pop();
                spaces.push(space);
            }
            Some(spaces) => spaces.push(space),
            None if space.files.is_empty() => {}
            None => _ = self.of.insert(pid, vec![space]),
        }
    }
}

impl Machine {
    /// The memory that a process has now.
    pub fn address_space(&self, pid: u64) -> AddressSpace {
        let spaces = self.mappings.of.get(&pid).map_or(0, Vec::len);
        AddressSpace {
            pid,
            execs: spaces.saturating_sub(1),
        }
    }

    /// Where a process had loaded its program and its libraries, the program first.
    pub fn mappings(&self, of: AddressSpace) -> &[Mapping] {
        let spaces = self.mappings.of.get(&of.pid);
        let space = spaces.and_then(|spaces| spaces.get(of.execs));
        space.map_or(&[], |space| space.files.as_slice())
    }

    #[cold]
    pub(crate) fn mapped(&mut self, pid: u64, mapping: Mapping) {
        self.mappings.add(pid, mapping);
    }

    pub(crate) fn process_name(&mut self, pid: Option<u64>, name: Option<Cow<'_, str>>) {
        if let (Some(pid), Some(name)) = (pid, name) {
            self.rename(
                |machine| &mut machine.processes,
                pid,
                &name,
                Named::Process(pid),
            );
        }
    }

    /// Ends the call that asked for a program. The kernel may record that end too, or not: the call
    /// returns to another program. Linux always records it.
    fn end_call_of_exec(&mut self, thread: Option<ThreadId>, at: &At<'_, '_>) {
        let current = self.current(at.cpu);
        if current.is_some() && current != thread {
            return;
        }
        let context = self.running_context(at.cpu);
        let began = context.and_then(|context| {
            let (call, since) = context.call.take()?;
            context.executed = Some(call);
            Some((call, since))
        });
        if let Some((call, since)) = began {
            self.change(Change::CallExit {
                call,
                since: Some(since),
                thread: current,
                failed: false,
            });
        }
    }

    /// Creates the process's first thread, unless the trace has its creation.
    pub(crate) fn fork(
        &mut self,
        parent: Option<u64>,
        pid: Option<u64>,
        tid: Option<u64>,
        at: &At<'_, '_>,
    ) {
        let (Some(pid), Some(tid)) = (pid, tid) else {
            return;
        };
        // The child executes its parent's program, whatever the number stood for before.
        match parent.and_then(|parent| self.programs.get(&parent).cloned()) {
            Some(program) => self.programs.insert(pid, program),
            None => self.programs.remove(&pid),
        };
        if parent != Some(pid) {
            self.mappings.inherit(parent, pid);
        }
        let living = self.thread_of(tid, at.number).and_then(|id| {
            let thread = self.threads.get_mut(id.index())?;
            let was_created = thread.created.is_some() && thread.ended.is_none();
            was_created.then(|| {
                thread.pid = Some(pid);
                id
            })
        });
        if living.is_none() {
            self.create(Some(tid), Some(pid), None, at);
        }
        let thread = living.or_else(|| self.thread_of(tid, at.number));
        self.change(Change::Forked {
            parent,
            pid,
            thread,
        });
    }

    pub(crate) fn process_exit(&mut self, pid: Option<u64>, tid: Option<u64>, at: &At<'_, '_>) {
        self.exit(tid, pid, at);
        if let Some(pid) = pid {
            let thread = tid.and_then(|tid| self.thread_of(tid, at.number));
            self.change(Change::ProcessEnded { pid, thread });
        }
    }

    /// Renames the process after the program.
    pub(crate) fn exec(
        &mut self,
        pid: Option<u64>,
        tid: Option<u64>,
        path: Option<Cow<'_, str>>,
        at: &At<'_, '_>,
    ) {
        let thread = tid.map(|tid| self.known(tid, at.number));
        let of_thread = thread.and_then(|id| self.thread(id)?.pid);
        let pid = pid.or(of_thread);
        if let Some(thread) = thread.and_then(|id| self.threads.get_mut(id.index())) {
            thread.pid = thread.pid.or(pid);
        }
        let path = path.unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if !name.is_empty() {
            self.process_name(pid, Some(Cow::Borrowed(name)));
        }
        if let (Some(pid), false) = (pid, path.is_empty()) {
            self.programs.insert(pid, Arc::from(&*path));
        }
        if let Some(pid) = pid {
            self.mappings.replace(pid, Space::default());
        }
        if at.is_kymo {
            self.end_call_of_exec(thread, at);
        }
        self.change(Change::Exec { pid, thread });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MAX_COPIES, MAX_MAPPINGS, Mapping, Spaces};

    fn add(spaces: &mut Spaces, pid: u64, begin: u64, path: &str) {
        let mapping = Mapping {
            begin,
            is_base: false,
            path: Arc::from(path),
        };
        spaces.add(pid, mapping);
    }

    /// Process 1, with as many files.
    fn parent(files: u64) -> Spaces {
        let mut spaces = Spaces::default();
        for file in 0..files {
            add(&mut spaces, 1, file << 12, &format!("/lib/{file}"));
        }
        spaces
    }

    fn list(spaces: &Spaces, pid: u64) -> &Arc<Vec<Mapping>> {
        &spaces.of[&pid].last().unwrap().files
    }

    fn begins(spaces: &Spaces, pid: u64) -> Vec<u64> {
        list(spaces, pid).iter().map(|of| of.begin).collect()
    }

    #[test]
    fn children_share_the_list_of_their_parent() {
        let mut spaces = parent(4000);
        for pid in 1..=100_000 {
            spaces.inherit(Some(pid), pid + 1);
        }
        let (first, last) = (list(&spaces, 1), list(&spaces, 100_001));
        assert!(Arc::ptr_eq(first, last));
        assert_eq!(Arc::strong_count(first), 100_001);
        assert_eq!((spaces.live(), spaces.copies), (4000, 0));
        // What it loads, only its own children have.
        add(&mut spaces, 50_000, 7, "/lib/own");
        spaces.inherit(Some(50_000), 200_000);
        add(&mut spaces, 50_000, 8, "/lib/later");
        let lengths = [1, 49_999, 50_000, 50_001, 200_000].map(|pid| list(&spaces, pid).len());
        assert_eq!(lengths, [4000, 4000, 4002, 4000, 4001]);
    }

    #[test]
    fn what_a_process_loads_replaces_what_it_inherited() {
        let mut spaces = parent(3);
        spaces.inherit(Some(1), 2);
        // At the same address: nothing has to be copied, but the file is its own from now on.
        add(&mut spaces, 2, 1 << 12, "/lib/1");
        assert!(Arc::ptr_eq(list(&spaces, 1), list(&spaces, 2)));
        add(&mut spaces, 2, 9 << 12, "/lib/1");
        add(&mut spaces, 2, 8 << 12, "/lib/0");
        add(&mut spaces, 2, 9 << 12, "/lib/0");
        add(&mut spaces, 2, 7 << 12, "/lib/0");
        assert_eq!(begins(&spaces, 2), [7 << 12, 1 << 12, 2 << 12]);
        assert_eq!(begins(&spaces, 1), [0, 1 << 12, 2 << 12]);
        // What was its own is its child's inheritance.
        spaces.inherit(Some(2), 3);
        add(&mut spaces, 3, 8 << 12, "/lib/0");
        assert_eq!(begins(&spaces, 3), [8 << 12, 1 << 12, 2 << 12]);
        assert_eq!(begins(&spaces, 2), [7 << 12, 1 << 12, 2 << 12]);
    }

    #[test]
    fn children_that_load_files_cannot_take_all_memory() {
        let mut spaces = parent(5000);
        for pid in 1..=2000 {
            spaces.inherit(Some(pid), pid + 1);
            add(&mut spaces, pid + 1, pid << 24, "/lib/0");
        }
        assert!(spaces.copies <= MAX_COPIES);
        assert!(spaces.live() <= MAX_COPIES + MAX_MAPPINGS);
        // The last ones still know what they inherited.
        assert_eq!(list(&spaces, 2001).len(), MAX_MAPPINGS);
        assert!(Arc::ptr_eq(list(&spaces, 2000), list(&spaces, 2001)));
    }
}
