//! The kernel's command line: QEMU's `-append`, which it leaves in the device tree.

use kymo::{Consumer, Mode};

use crate::workload::Workload;

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub workload: Workload,
    /// How much of it.
    pub rounds: u32,
    pub mode: Mode,
    pub consumer: Consumer,
    pub packets: u32,
    pub packet_size: u32,
    pub tick_us: u64,
    /// Whether to record.
    pub record: bool,
}

impl Settings {
    /// What holds where the command line says nothing.
    pub const DEFAULT: Settings = Settings {
        workload: Workload::All,
        rounds: 200,
        mode: Mode::Overwrite,
        consumer: Consumer::None,
        packets: 1024,
        packet_size: 4096,
        tick_us: 1000,
        record: true,
    };
}

pub const KEYS: &str = "workload=switch|locks|faults|ipc|irqs|all, rounds=N, mode=overwrite|discard, consumer=none|host, packets=N, packet_size=N, \
    tick_us=N (100 or more), kymo=on|off";

/// Reads `key=value` words, separated by blanks; the last one of a key wins. The error is the word that cannot be used.
pub fn parse(line: &str) -> Result<Settings, &str> {
    let mut settings = Settings::DEFAULT;
    for word in line.split_ascii_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (key, value, value.parse::<u64>()) {
            ("workload", ..) => settings.workload = Workload::named(value).ok_or(word)?,
            ("rounds", ..) => settings.rounds = value.parse().map_err(|_| word)?,
            ("mode", "overwrite", _) => settings.mode = Mode::Overwrite,
            ("mode", "discard", _) => settings.mode = Mode::Discard,
            ("consumer", "none", _) => settings.consumer = Consumer::None,
            ("consumer", "host", _) => settings.consumer = Consumer::Host,
            ("packets", ..) => settings.packets = value.parse().map_err(|_| word)?,
            ("packet_size", ..) => settings.packet_size = value.parse().map_err(|_| word)?,
            ("tick_us", _, Ok(n @ 100..)) => settings.tick_us = n,
            ("kymo", "on" | "off", _) => settings.record = value == "on",
            _ => return Err(word),
        }
    }
    Ok(settings)
}

/// The property `bootargs` of a flattened device tree (Devicetree Specification 0.4, chapter 5), which only `/chosen` has. This
/// looks for the words of a property (token 3, length, offset of the name, value) instead of walking the nodes.
pub fn bootargs(tree: &[u8]) -> Option<&str> {
    let word = |at: usize| Some(u32::from_be_bytes(*tree.get(at..)?.first_chunk()?) as usize);
    let (structure, strings, size) = (word(8)?, word(12)?, word(36)?);
    let is_ours = |at: usize| Some(word(at)? == 3 && tree.get(strings + word(at + 8)?..)?.starts_with(b"bootargs\0"));
    let at = (structure..structure + size).step_by(4).find(|&at| is_ours(at) == Some(true))?;
    let text = tree.get(at + 12..)?.get(..word(at + 4)?)?;
    core::str::from_utf8(text.strip_suffix(b"\0")?).ok()
}
