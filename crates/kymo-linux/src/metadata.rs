//! The metadata of the traces.

use std::fmt::Write as _;

/// What a trace says about where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The names of the events that were sampled, as `perf` writes them: `cpu-clock`, `cycles:u`.
    pub events: Vec<String>,
    /// Nanoseconds from the beginning of 1970 to the clock's 0; 0 where that is not known.
    pub unix_offset_ns: u64,
    /// More about the machine and the recording: names, which are words, and values.
    pub environment: Vec<(&'static str, String)>,
}

/// The numbers of the events that are not samples; those of samples follow.
pub(crate) const COMM: u64 = 0;
pub(crate) const EXIT: u64 = 1;
pub(crate) const FORK: u64 = 2;
pub(crate) const MAPPING: u64 = 3;
pub(crate) const FIRST_SAMPLE: u64 = 4;

const HEAD: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 64; align = 8; base = hexadecimal; } := address;
typealias integer { size = 32; align = 8; signed = true; } := i32;
typealias integer { size = 64; align = 8; map = clock.monotonic.value; } := time;
trace {
  major = 1; minor = 8; byte_order = le;
  packet.header := struct { u32 magic; };
};
";

const EVENTS: &str = "stream {
  packet.context := struct {
    time timestamp_begin; time timestamp_end; u64 content_size; u64 packet_size;
    u64 events_discarded; u64 packet_seq_num; u32 cpu_id;
  };
  event.header := struct { u32 id; time timestamp; };
};
event { id = 0; name = \"perf_comm\"; fields := struct {
  u32 pid; u32 tid; u8 exec; string comm; }; };
event { id = 1; name = \"perf_exit\"; fields := struct {
  u32 pid; u32 ppid; u32 tid; u32 ptid; }; };
event { id = 2; name = \"perf_fork\"; fields := struct {
  u32 pid; u32 ppid; u32 tid; u32 ptid; }; };
event { id = 3; name = \"perf_mmap2\"; fields := struct {
  u32 pid; u32 tid; address start; string filename; }; };
";

const SAMPLE: &str = "fields := struct {
  address perf_ip; i32 perf_tid; i32 perf_pid; u64 perf_period;
  u32 perf_callchain_size; address perf_callchain[perf_callchain_size]; }; };
";

impl Origin {
    /// The metadata, in the language of CTF 1.8.
    pub(crate) fn metadata(&self) -> String {
        let mut text = HEAD.to_owned();
        text += "env {\n  domain = \"kernel\"; tracer_name = \"kymo-linux\";\n";
        for (name, value) in &self.environment {
            let _ = writeln!(text, "  {name} = {};", quoted(value));
        }
        let (seconds, rest) = (
            self.unix_offset_ns / 1_000_000_000,
            self.unix_offset_ns % 1_000_000_000,
        );
        let _ = writeln!(
            text,
            "}};\nclock {{ name = monotonic; freq = 1000000000; offset_s = {seconds}; \
             offset = {rest}; }};"
        );
        text += EVENTS;
        for (id, name) in (FIRST_SAMPLE..).zip(&self.events) {
            let _ = write!(
                text,
                "event {{ id = {id}; name = {}; {SAMPLE}",
                quoted(name)
            );
        }
        text
    }
}

/// A text as a literal.
fn quoted(text: &str) -> String {
    let mut literal = "\"".to_owned();
    for char in text.chars() {
        match char {
            '"' | '\\' => literal.extend(['\\', char]),
            _ if char.is_control() => literal.push('?'),
            _ => literal.push(char),
        }
    }
    literal + "\""
}
