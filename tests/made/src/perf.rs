//! Writes traces as `perf data convert --to-ctf` does.

use std::path::{Path, PathBuf};

/// A trace of `perf` under construction, of one CPU. The clock counts nanoseconds from 0.
pub struct Perf {
    path: PathBuf,
    metadata: String,
    events: u8,
    /// The event that says what a thread is called.
    comm: Option<u8>,
    stream: Vec<u8>,
}

/// What `perf` says of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    /// Number of the thread.
    pub tid: i32,
    /// Number of its process.
    pub pid: i32,
    /// The instruction, or 0.
    pub ip: u64,
    /// How much of the event it stands for.
    pub period: u64,
    /// The call chain with its markers.
    pub chain: &'a [u64],
}

/// Before the kernel's part of a chain.
pub const KERNEL: u64 = 128_u64.wrapping_neg();
/// Before the program's part of a chain.
pub const USER: u64 = 512_u64.wrapping_neg();

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 32; align = 8; signed = true; } := i32;
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; freq = 1000000000; };
stream {
  packet.context := struct { u32 cpu_id; };
  event.header := struct { u8 id; integer { size = 64; align = 8; map = clock.c.value; } t; };
};
";

impl Perf {
    /// A trace in a folder of this name.
    pub fn new(name: &str) -> Perf {
        let path = std::env::temp_dir().join(format!("kymo-perf-{}-{name}", std::process::id()));
        Perf {
            path,
            metadata: METADATA.to_owned(),
            events: 0,
            comm: None,
            stream: vec![0; 4],
        }
    }

    fn event(&mut self, name: &str, fields: &str) -> u8 {
        let id = self.events;
        self.events += 1;
        self.metadata += &format!(
            "event {{ name = \"{name}\"; id = {id}; fields := struct {{ {fields} }}; }};\n"
        );
        id
    }

    /// Declares an event whose samples follow, and gives its number.
    pub fn sampled(&mut self, name: &str) -> u8 {
        self.event(
            name,
            "u64 perf_ip; i32 perf_tid; i32 perf_pid; u64 perf_period; \
             u32 perf_callchain_size; u64 perf_callchain[perf_callchain_size];",
        )
    }

    fn record(&mut self, event: u8, time: u64) {
        self.stream.push(event);
        self.stream.extend(time.to_le_bytes());
    }

    /// Adds a sample.
    pub fn sample(&mut self, event: u8, time: u64, of: Sampled<'_>) {
        self.record(event, time);
        let stream = &mut self.stream;
        stream.extend(of.ip.to_le_bytes());
        stream.extend([of.tid, of.pid].map(i32::to_le_bytes).concat());
        stream.extend(of.period.to_le_bytes());
        stream.extend((of.chain.len() as u32).to_le_bytes());
        stream.extend(of.chain.iter().flat_map(|address| address.to_le_bytes()));
    }

    /// Adds what a thread is called.
    pub fn comm(&mut self, time: u64, pid: u32, tid: u32, name: &str) {
        let event = match self.comm {
            Some(event) => event,
            None => self.event("perf_comm", "u32 pid; u32 tid; string comm;"),
        };
        self.comm = Some(event);
        self.record(event, time);
        self.stream
            .extend([pid, tid].map(u32::to_le_bytes).concat());
        self.stream.extend(name.as_bytes());
        self.stream.push(0);
    }

    /// Adds where process 42 has loaded the code of files.
    pub fn mappings(&mut self, files: &[(u64, &str)]) {
        let fields = "u32 pid; u32 tid; u64 start; string filename;";
        let event = self.event("perf_mmap2", fields);
        for (start, file) in files {
            self.record(event, 0);
            self.stream
                .extend([42_u32, 42].map(u32::to_le_bytes).concat());
            self.stream.extend(start.to_le_bytes());
            self.stream.extend(file.as_bytes());
            self.stream.push(0);
        }
    }

    /// Writes the trace, and gives its folder, which goes with it.
    pub fn finish(&self) -> &Path {
        let _ = std::fs::remove_dir_all(&self.path);
        std::fs::create_dir_all(&self.path).unwrap();
        std::fs::write(self.path.join("metadata"), &self.metadata).unwrap();
        std::fs::write(self.path.join("perf_stream_0"), &self.stream).unwrap();
        &self.path
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
