//! The kernel's command line: QEMU's `-append`.

use kymo::{Consumer, Overflow};

/// The settings of a run.
pub struct Settings {
    pub overflow: Overflow,
    pub consumer: Consumer,
    /// The run stops after about this many calls of all CPUs.
    pub events: u64,
    pub packets: u32,
    pub packet_size: u32,
    /// Longest time between two timer interrupts of a CPU.
    pub tick_us: u32,
    /// Number of thread-level events after which a CPU interrupts its neighbour; 0: never.
    pub poke: u32,
    /// Length of the clock's jumps in ticks; 0: no jumps.
    pub jump: u64,
}

pub const KEYS: &str = "mode=overwrite|discard, consumer=none|host, events=N, packets=N, packet_size=N, \
    tick_us=N (1 or more), poke=N, jump=TICKS";

/// Parses `key=value` words, separated by blanks. The last word of a key wins. The error is the
/// invalid word.
pub fn parse(line: &str) -> Result<Settings, &str> {
    let (overflow, consumer) = (Overflow::Overwrite, Consumer::None);
    let (events, packets, packet_size, tick_us, poke, jump) = (400_000, 256, 4096, 100, 32, 0);
    let mut settings = Settings {
        overflow,
        consumer,
        events,
        packets,
        packet_size,
        tick_us,
        poke,
        jump,
    };
    for word in line.split_ascii_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (key, value, value.parse::<u64>(), value.parse::<u32>()) {
            ("mode", "overwrite", ..) => settings.overflow = Overflow::Overwrite,
            ("mode", "discard", ..) => settings.overflow = Overflow::Discard,
            ("consumer", "none", ..) => settings.consumer = Consumer::None,
            ("consumer", "host", ..) => settings.consumer = Consumer::Host,
            ("events", _, Ok(n), _) => settings.events = n,
            ("packets", .., Ok(n)) => settings.packets = n,
            ("packet_size", .., Ok(n)) => settings.packet_size = n,
            ("tick_us", .., Ok(n @ 1..)) => settings.tick_us = n,
            ("poke", .., Ok(n)) => settings.poke = n,
            ("jump", _, Ok(n), _) if n < 1 << 40 => settings.jump = n,
            _ => return Err(word),
        }
    }
    Ok(settings)
}
