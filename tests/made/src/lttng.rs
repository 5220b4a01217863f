//! Writes traces of the Linux kernel with the layout of LTTng's kernel tracer: field names, sizes
//! and order of its instrumentation of sched, irq, syscalls and state dump.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// UUID of the machine's clock, which tracers derive from the boot.
pub const CLOCK: &str = "d18e6374-35a1-4d42-8e70-a9cffa712793";

/// Metadata with LTTng's large event header.
fn metadata(release: &str) -> String {
    let switch = "char _prev_comm[16]; pid _prev_tid; pid _prev_prio; long _prev_state; \
                  char _next_comm[16]; pid _next_tid; pid _next_prio;";
    let wakeup = "char _comm[16]; pid _tid; pid _prio; pid _target_cpu;";
    let process = "char _comm[16]; pid _tid; pid _prio;";
    let fork = "char _parent_comm[16]; pid _parent_tid; pid _parent_pid; u32 _parent_ns_inum; \
                char _child_comm[16]; pid _child_tid; u8 __vtids_length; \
                pid _vtids[__vtids_length]; pid _child_pid; u32 _child_ns_inum;";
    let state = "pid _tid; pid _vtid; pid _pid; pid _vpid; pid _ppid; pid _vppid; \
                 char _name[16]; pid _type; pid _mode; pid _submode; pid _status; u32 _cpu;";
    // Tracers for older kernels omitted the subsystem.
    let irq = if release.starts_with("4.1.") {
        ""
    } else {
        "irq_"
    };
    let softirq = ["entry", "exit"].map(|end| format!("{irq}softirq_{end}"));
    let events = [
        ("sched_switch", switch),
        ("sched_waking", wakeup),
        ("sched_wakeup", wakeup),
        ("sched_process_fork", fork),
        ("sched_process_exit", process),
        ("irq_handler_entry", "pid _irq; string _name;"),
        ("irq_handler_exit", "pid _irq; pid _ret;"),
        (&softirq[0], "u32 _vec;"),
        (&softirq[1], "u32 _vec;"),
        ("syscall_entry_read", "u32 _fd; long _count;"),
        ("syscall_exit_read", "long _ret; long _buf;"),
        ("lttng_statedump_process_state", state),
    ];
    let events = events.iter().enumerate().map(|(id, (name, fields))| {
        format!(
            "event {{ name = \"{name}\"; id = {id}; stream_id = 0; fields := struct {{ {fields} \
             }}; }};\n"
        )
    });
    format!(
        "/* CTF 1.8 */
typealias integer {{ size = 8; align = 8; signed = false; }} := u8;
typealias integer {{ size = 8; align = 8; signed = true; encoding = UTF8; }} := char;
typealias integer {{ size = 32; align = 8; signed = true; }} := pid;
typealias integer {{ size = 32; align = 8; signed = false; }} := u32;
typealias integer {{ size = 64; align = 8; signed = true; }} := long;
trace {{ major = 1; minor = 8; byte_order = le; }};
env {{ domain = \"kernel\"; sysname = \"Linux\"; kernel_release = \"{release}\"; tracer_name = \
         \"lttng-modules\"; }};
clock {{ name = monotonic; uuid = \"{CLOCK}\"; freq = 1000000000; }};
typealias integer {{ size = 64; align = 8; map = clock.monotonic.value; }} := time;
stream {{
    id = 0;
    packet.context := struct {{ time timestamp_begin; time timestamp_end; u32 cpu_id; }};
    event.header := struct {{ integer {{ size = 16; align = 8; }} id; time timestamp; }};
}};
{}",
        events.collect::<String>()
    )
}

/// A trace under construction. The clock counts nanoseconds from 0.
pub struct Lttng {
    path: PathBuf,
    release: String,
    /// The CPUs' streams, by number.
    streams: Vec<Stream>,
}

impl Lttng {
    /// A trace of a kernel of this release with so many CPUs, in a folder of this name. All events
    /// are before `end`.
    pub fn new(name: &str, release: &str, cpus: u32, end: u64) -> Lttng {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let own = format!("kymo-lttng-{}-{number}-{name}", std::process::id());
        let streams = (0..cpus).map(|cpu| {
            let mut stream = Stream::default();
            stream.long(0).long(end as i64).pids(&[cpu as i32]);
            stream
        });
        Lttng {
            path: std::env::temp_dir().join(own),
            release: release.to_owned(),
            streams: streams.collect(),
        }
    }

    /// The stream of a CPU, to which events are added in time order.
    pub fn cpu(&mut self, cpu: usize) -> &mut Stream {
        &mut self.streams[cpu]
    }

    /// Writes the trace, and gives its folder, which goes with it.
    pub fn finish(&self) -> &Path {
        let _ = std::fs::remove_dir_all(&self.path);
        std::fs::create_dir_all(&self.path).unwrap();
        std::fs::write(self.path.join("metadata"), metadata(&self.release)).unwrap();
        for (cpu, stream) in self.streams.iter().enumerate() {
            std::fs::write(self.path.join(format!("channel0_{cpu}")), &stream.0).unwrap();
        }
        &self.path
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// One CPU's stream under construction.
#[derive(Default)]
pub struct Stream(pub Vec<u8>);

/// Name and number of a thread.
pub type Task<'a> = (&'a str, i32);

fn comm(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

impl Stream {
    fn event(&mut self, at: u64, id: u16) -> &mut Self {
        self.0.extend(id.to_le_bytes());
        self.0.extend(at.to_le_bytes());
        self
    }

    /// Adds numbers of 32 bits.
    pub fn pids(&mut self, numbers: &[i32]) -> &mut Self {
        numbers
            .iter()
            .for_each(|number| self.0.extend(number.to_le_bytes()));
        self
    }

    /// Adds a number of 64 bits.
    pub fn long(&mut self, number: i64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn comm(&mut self, name: &str) -> &mut Self {
        self.0.extend(comm(name));
        self
    }

    /// Adds a switch from `prev`, with the kernel's value of its state, to `next`.
    pub fn switch(&mut self, at: u64, prev: Task<'_>, state: i64, next: Task<'_>) {
        self.event(at, 0)
            .comm(prev.0)
            .pids(&[prev.1, 20])
            .long(state);
        self.comm(next.0).pids(&[next.1, 20]);
    }

    /// Adds that somebody is waking a thread on CPU 0, and is not yet done.
    pub fn waking(&mut self, at: u64, woken: Task<'_>) {
        self.event(at, 1).comm(woken.0).pids(&[woken.1, 20, 0]);
    }

    /// Adds that a thread was woken, for CPU 0.
    pub fn wakeup(&mut self, at: u64, woken: Task<'_>) {
        self.event(at, 2).comm(woken.0).pids(&[woken.1, 20, 0]);
    }

    /// Adds that a process has created another one of the same name, with one thread.
    pub fn fork(&mut self, at: u64, parent: Task<'_>, child: i32) {
        self.event(at, 3)
            .comm(parent.0)
            .pids(&[parent.1, parent.1, 1]);
        self.comm(parent.0).pids(&[child]).0.push(1);
        self.pids(&[child, child, 1]);
    }

    /// Adds that a thread ends.
    pub fn exit(&mut self, at: u64, task: Task<'_>) {
        self.event(at, 4).comm(task.0).pids(&[task.1, 20]);
    }

    /// Adds that the handler of an interrupt begins.
    pub fn irq_entry(&mut self, at: u64, irq: i32, name: &str) {
        self.event(at, 5).pids(&[irq]).0.extend(name.as_bytes());
        self.0.push(0);
    }

    /// Adds that it ends.
    pub fn irq_exit(&mut self, at: u64, irq: i32) {
        self.event(at, 6).pids(&[irq, 1]);
    }

    /// Adds that a soft interrupt is handled.
    pub fn softirq_entry(&mut self, at: u64, vec: i32) {
        self.event(at, 7).pids(&[vec]);
    }

    /// Adds that it was.
    pub fn softirq_exit(&mut self, at: u64, vec: i32) {
        self.event(at, 8).pids(&[vec]);
    }

    /// Adds that the thread calls `read`.
    pub fn read_entry(&mut self, at: u64) {
        self.event(at, 9).pids(&[3]).long(64);
    }

    /// Adds that `read` returns this.
    pub fn read_exit(&mut self, at: u64, ret: i64) {
        self.event(at, 10).long(ret).long(0);
    }

    /// Adds to the state dump a thread of a program, which waits. It is the first of its process.
    pub fn state(&mut self, at: u64, task: Task<'_>) {
        let (name, tid) = task;
        self.event(at, 11).pids(&[tid, tid, tid, tid, 1, 1]);
        self.comm(name).pids(&[0, 0, 0, 5, 0]);
    }
}

/// A kernel's values of `prev_state`: for a preempted thread, an idle kernel thread, a thread that
/// only a fatal signal wakes, and a dead one.
#[derive(Clone, Copy, Debug)]
pub struct States {
    /// The release of the kernel.
    pub release: &'static str,
    /// The state of a thread that was preempted.
    pub preempted: i64,
    /// The state of an idle kernel thread.
    pub without_work: i64,
    /// The state of a thread that only a fatal signal wakes.
    pub killable: i64,
    /// Of a thread that has ended.
    pub dead: i64,
}

/// Kernels with different values.
pub const RELEASES: [States; 4] = [
    States {
        release: "4.1.27-1-generic",
        preempted: 0x400,
        without_work: 0x1,
        killable: 0x82,
        dead: 0x40,
    },
    States {
        release: "4.9.0-19-amd64",
        preempted: 0x1000,
        without_work: 0x402,
        killable: 0x82,
        dead: 0x40,
    },
    States {
        release: "4.14.336",
        preempted: 0x100,
        without_work: 0x80,
        killable: 0x2,
        dead: 0x10,
    },
    States {
        release: "6.1.0-13-amd64",
        preempted: 0x100,
        without_work: 0x80,
        killable: 0x2,
        dead: 0x20,
    },
];
