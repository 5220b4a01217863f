//! The kernel's command line: QEMU's `-append`, which it leaves in the device tree.

use kymo::boot::Options;

/// The settings of a run: the keys of the command line, and the number of harts.
pub struct Settings {
    /// The word `kymo=`.
    pub kymo: Options<'static>,
    /// Whether recording stops before the first thread runs.
    pub stopped: bool,
    /// `work=markers`: the threads record markers as fast as they can; `work=mixed`: they also
    /// compute and yield.
    pub only_markers: bool,
    /// Limits after which the run stops: about this many events of all harts, or milliseconds.
    pub events: u64,
    pub ms: u64,
    /// Units of work per thread after which the run stops.
    pub units: u32,
    pub offset_s: i64,
    pub packets: u32,
    pub packet_size: u32,
    pub tick_us: u64,
    pub cpus: usize,
    /// Number of newest records to print at the end.
    pub dump: usize,
    /// Units of work after which the first thread panics; 0: never.
    pub panic: u32,
}

pub const KEYS: &str = "kymo=off|rolling|discard|reader=host|events=NAME:NAME, stopped=yes|no, work=mixed|markers, \
    events=N, ms=N, units=N, offset_s=N, packets=N, packet_size=N, tick_us=N (10 or more), dump=N, panic=N";

/// Parses `key=value` words, separated by blanks. The last word of a key wins. The error is the
/// invalid word.
pub fn parse(line: &'static str, cpus: usize) -> Result<Settings, &'static str> {
    let mut settings = Settings {
        kymo: Options::parse(line)?,
        stopped: false,
        only_markers: false,
        events: 1_200_000,
        ms: u64::MAX,
        units: u32::MAX,
        offset_s: 0,
        packets: 1024,
        packet_size: 4096,
        tick_us: 1000,
        cpus,
        dump: 0,
        panic: 0,
    };
    if let Some(name) = settings.kymo.stray(&crate::VOCABULARY) {
        return Err(name);
    }
    for word in line.split_ascii_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (key, value, value.parse::<u64>()) {
            // Read above.
            ("kymo", ..) => {}
            ("stopped", "yes" | "no", _) => settings.stopped = value == "yes",
            ("work", "mixed" | "markers", _) => settings.only_markers = value == "markers",
            ("events", _, Ok(n)) => settings.events = n,
            ("ms", _, Ok(n)) => settings.ms = n,
            ("units", ..) => {
                (settings.units, settings.events) = (value.parse().map_err(|_| word)?, u64::MAX)
            }
            ("offset_s", ..) => settings.offset_s = value.parse().map_err(|_| word)?,
            ("packets", ..) => settings.packets = value.parse().map_err(|_| word)?,
            ("packet_size", ..) => settings.packet_size = value.parse().map_err(|_| word)?,
            ("tick_us", _, Ok(n @ 10..)) => settings.tick_us = n,
            ("dump", ..) => settings.dump = value.parse().map_err(|_| word)?,
            ("panic", ..) => settings.panic = value.parse().map_err(|_| word)?,
            _ => return Err(word),
        }
    }
    Ok(settings)
}

/// The property `bootargs` of a flattened device tree (Devicetree Specification 0.4, chapter 5),
/// which only `/chosen` has. This looks for the words of a property (token 3, length, offset of the
/// name, value) instead of walking the nodes.
pub fn bootargs(tree: &[u8]) -> Option<&str> {
    let word = |at: usize| Some(u32::from_be_bytes(*tree.get(at..)?.first_chunk()?) as usize);
    let (structure, strings, size) = (word(8)?, word(12)?, word(36)?);
    let is_ours = |at: usize| {
        Some(
            word(at)? == 3
                && tree
                    .get(strings + word(at + 8)?..)?
                    .starts_with(b"bootargs\0"),
        )
    };
    let at = (structure..structure + size)
        .step_by(4)
        .find(|&at| is_ours(at) == Some(true))?;
    let text = tree.get(at + 12..)?.get(..word(at + 4)?)?;
    core::str::from_utf8(text.strip_suffix(b"\0")?).ok()
}
