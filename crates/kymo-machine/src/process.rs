//! Processes: their names, and how they begin, execute programs and end.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::change::{Change, Named};
use crate::machine::{At, Machine};
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

impl Machine {
    /// The memory that a process has now.
    pub fn address_space(&self, pid: u64) -> AddressSpace {
        let spaces = self.mappings.get(&pid).map_or(0, Vec::len);
        AddressSpace {
            pid,
            execs: spaces.saturating_sub(1),
        }
    }

    /// Where a process had loaded its program and its libraries, the program first.
    pub fn mappings(&self, of: AddressSpace) -> &[Mapping] {
        let spaces = self.mappings.get(&of.pid);
        let space = spaces.and_then(|spaces| spaces.get(of.execs));
        space.map_or(&[], Vec::as_slice)
    }

    /// Another program, or another process, has the number from now on. Nothing changes for a
    /// process of which no file is known.
    fn replace_space(&mut self, pid: u64, mappings: Vec<Mapping>) {
        match self.mappings.get_mut(&pid) {
            Some(spaces) if spaces.last().is_some_and(Vec::is_empty) => {
                spaces.pop();
                spaces.push(mappings);
            }
            Some(spaces) => spaces.push(mappings),
            None if mappings.is_empty() => {}
            None => _ = self.mappings.insert(pid, vec![mappings]),
        }
    }

    /// Notes where a file was loaded. Of several addresses of one file, the lowest counts.
    #[cold]
    pub(crate) fn mapped(&mut self, pid: u64, mapping: Mapping) {
        let spaces = self.mappings.entry(pid).or_default();
        if spaces.is_empty() {
            spaces.push(Vec::new());
        }
        let Some(of_process) = spaces.last_mut() else {
            return;
        };
        let has_room = of_process.len() < MAX_MAPPINGS;
        match of_process.iter_mut().find(|of| of.path == mapping.path) {
            Some(known) => known.begin = known.begin.min(mapping.begin),
            None if has_room => of_process.push(mapping),
            None => {}
        }
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
            let copied = parent.map(|parent| self.mappings(self.address_space(parent)).to_vec());
            self.replace_space(pid, copied.unwrap_or_default());
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
            self.replace_space(pid, Vec::new());
        }
        if at.is_kymo {
            self.end_call_of_exec(thread, at);
        }
        self.change(Change::Exec { pid, thread });
    }
}
