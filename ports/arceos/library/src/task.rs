//! Tasks: those that [`spawn`] makes, which carry a [`Traced`], and those of ArceOS itself.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;

use axtask::{AxTaskExt, AxTaskRef, CurrentTask, TaskExt, TaskInner, TaskState};
use kymo::vocabulary::{
    Cpu, NAME_BYTES, Pid, SchedWakeupNew, ThreadCreate, ThreadName, ThreadState, ThreadStateDump,
};
use kymo::{NameEpoch, Text, Tid, trace};
use spin::Once;

use crate::{Kymo, here, switch};

/// Makes a task that is traced, and lets it run: `axtask::spawn_with_name`.
///
/// A task that was spawned otherwise is traced, too, but has a name in the trace only if it is one
/// of the first that ArceOS makes, and its first switch may be seen late.
pub fn spawn(f: impl FnOnce() + Send + 'static, name: &str) -> AxTaskRef {
    let task = TaskInner::new(f, String::from(name), axconfig::TASK_STACK_SIZE);
    spawn_task(task)
}

/// Lets a task that you made run, as a traced one: `axtask::spawn_task`. For tasks with a stack of
/// another size, or CPUs of their own.
pub fn spawn_task(mut task: TaskInner) -> AxTaskRef {
    let tid = Tid(task.id().as_u64() as u32);
    let traced = Traced(Box::new(Names {
        tid,
        name: Text::new(&task.name()),
        named: NameEpoch::new(),
    }));
    traced.0.record();
    *task.task_ext_mut() = Some(AxTaskExt::from_impl(traced));
    let parent_tid = self::tid(&axtask::current());
    trace!(ThreadCreate {
        tid,
        pid: Pid(0),
        parent_tid,
        prio: 0
    });
    trace!(SchedWakeupNew {
        tid,
        waker_tid: parent_tid,
        target_cpu: Cpu::UNKNOWN
    });
    axtask::spawn_task(task)
}

/// What names a task.
struct Names {
    tid: Tid,
    name: Text<NAME_BYTES>,
    named: NameEpoch,
}

impl Names {
    fn record(&self) {
        let Names { tid, name, named } = self;
        Kymo::named(named, || ThreadName {
            tid: *tid,
            name: *name,
        });
    }
}

/// The part of a task that ArceOS calls at its switches, with interrupts masked.
struct Traced(Box<Names>);

#[extern_trait::extern_trait]
impl TaskExt for Traced {
    fn on_enter(&self) {
        // ArceOS has not made it the current task yet.
        let prev = axtask::current();
        self.0.record();
        switch::to(u64::from(self.0.tid.0), prev.state());
    }

    fn on_leave(&self) {
        switch::leaves(&axtask::current());
    }
}

/// Tasks of ArceOS itself are among the first ones.
const FIRST: usize = 64;

/// One of the first tasks that does not come from [`spawn_task`].
struct Own {
    names: Names,
    is_idle: bool,
    /// The task, if it lasts as long as the kernel.
    lasting: Option<AxTaskRef>,
}

static OWN: [Once<Own>; FIRST] = [const { Once::new() }; FIRST];

fn own(id: u64) -> Option<&'static Own> {
    OWN.get(id as usize)?.get()
}

/// Records the name of a task that is not of [`spawn_task`]; looks it up at the first time, with
/// interrupts masked. It allocates nothing.
pub fn meet(task: &CurrentTask) {
    let id = task.id().as_u64();
    let Some(place) = OWN.get(id as usize) else {
        return;
    };
    if task.task_ext().is_some() {
        return;
    }
    let own = place.call_once(|| {
        let mut text = Debugged {
            bytes: [0; 128],
            len: 0,
        };
        // `TaskInner::name` would allocate. What is too long is cut.
        let _ = write!(text, "{:?}", ****task);
        let word = text.quoted();
        let is_idle = word == "idle";
        Own {
            names: Names {
                tid: if is_idle { Tid(0) } else { Tid(id as u32) },
                name: Text::new(word),
                named: NameEpoch::new(),
            },
            is_idle,
            lasting: ["idle", "main", "gc"].contains(&word).then(|| task.clone()),
        }
    });
    own.names.record();
}

/// Records what runs on each CPU, as far as it is a task of ArceOS itself.
pub fn dump_running() {
    for cpu in 0..axhal::cpu_num() {
        let Some(own) = own(here::of(cpu).last.load(Relaxed)) else {
            continue;
        };
        let Names { tid, name, .. } = own.names;
        Kymo::record(ThreadStateDump {
            tid,
            pid: Pid(0),
            prio: 0,
            state: ThreadState::Runnable,
            cpu: Cpu(cpu as u32),
            name,
        });
    }
}

/// A task as `Debug` writes it.
struct Debugged {
    bytes: [u8; 128],
    len: usize,
}

impl Write for Debugged {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for byte in part.bytes() {
            *self.bytes.get_mut(self.len).ok_or(fmt::Error)? = byte;
            self.len += 1;
        }
        Ok(())
    }
}

impl Debugged {
    /// The first text in quotes, which is the name.
    fn quoted(&self) -> &str {
        let written = self.bytes.get(..self.len).unwrap_or_default();
        let mut parts = written.split(|byte| *byte == b'"');
        let name = parts.nth(1).unwrap_or_default();
        core::str::from_utf8(name).unwrap_or_default()
    }
}

/// The id in the trace: 0 for every idle task.
pub fn tid(task: &CurrentTask) -> Tid {
    tid_of(task.id().as_u64())
}

/// The id in the trace of the task with this id.
pub fn tid_of(id: u64) -> Tid {
    match own(id) {
        Some(own) => own.names.tid,
        None => Tid(id as u32),
    }
}

/// Whether the task of this id is an idle one.
pub fn is_idle(id: u64) -> bool {
    own(id).is_some_and(|own| own.is_idle)
}

/// The state of one of ArceOS's own tasks.
pub fn state(id: u64) -> Option<TaskState> {
    let task = own(id)?.lasting.as_ref()?;
    Some(task.state())
}
