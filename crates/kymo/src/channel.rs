//! Channels: what a session records into, and what its readers read.
//!
//! A session has one channel of metadata, and for each CPU one of names, one of events and, where
//! it samples, one of samples. [`ChannelSet`] numbers them; everything that is read of one channel,
//! in order, is a file of the trace, named as its [`ChannelId`] prints.

use core::fmt;

crate::enumeration! {
    /// What a channel of a CPU carries. Its number is also the CTF stream class id.
    pub enum ChannelKind: u32 {
        /// Events.
        Events = 0,
        /// Names of threads, locks and interrupts: recorded once each, where frequent events do not
        /// overwrite them.
        Names = 1,
        /// Samples: written by the interrupt or NMI that takes them, and by nothing else.
        Samples = 2,
    }
}

impl ChannelKind {
    /// Every kind, by number.
    pub const ALL: [ChannelKind; 3] = [
        ChannelKind::Events,
        ChannelKind::Names,
        ChannelKind::Samples,
    ];

    /// The first part of its stream files' names.
    pub const fn label(self) -> &'static str {
        match self {
            ChannelKind::Events => "events",
            ChannelKind::Names => "names",
            ChannelKind::Samples => "samples",
        }
    }

    /// The kind with this number.
    pub fn from_number(number: u32) -> Option<ChannelKind> {
        ChannelKind::ALL.get(number as usize).copied()
    }
}

/// A channel of a session. Prints as the name of its file: `metadata`, `names_0`, `events_0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelId {
    /// The description of the trace.
    Metadata,
    /// A channel of a CPU.
    Cpu(u32, ChannelKind),
}

impl ChannelId {
    /// The CPU whose channel it is; `None` for the metadata.
    pub const fn cpu(self) -> Option<u32> {
        match self {
            ChannelId::Metadata => None,
            ChannelId::Cpu(cpu, _) => Some(cpu),
        }
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChannelId::Metadata => f.write_str("metadata"),
            ChannelId::Cpu(cpu, kind) => write!(f, "{}_{cpu}", kind.label()),
        }
    }
}

/// The channels of a session. Number 0 is the metadata; then come each CPU's names, events and, if
/// there are any, samples.
///
/// ```
/// use kymo::{ChannelId, ChannelKind, ChannelSet};
/// let channels = ChannelSet { cpus: 2, samples: false };
/// assert_eq!(channels.len(), 5);
/// assert_eq!(channels.get(4), Some(ChannelId::Cpu(1, ChannelKind::Events)));
/// assert_eq!(channels.iter().last().unwrap().to_string(), "events_1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelSet {
    /// CPUs that record.
    pub cpus: u32,
    /// Whether there are channels of samples.
    pub samples: bool,
}

impl ChannelSet {
    const ORDER: [ChannelKind; 3] = [
        ChannelKind::Names,
        ChannelKind::Events,
        ChannelKind::Samples,
    ];

    /// A set of `len` channels, including the metadata.
    pub const fn of_len(len: u32, samples: bool) -> ChannelSet {
        let none = ChannelSet { cpus: 0, samples };
        ChannelSet {
            cpus: len.saturating_sub(1) / none.of_a_cpu(),
            samples,
        }
    }

    /// How many channels a CPU has.
    const fn of_a_cpu(self) -> u32 {
        if self.samples { 3 } else { 2 }
    }

    /// How many channels there are, including the metadata.
    #[allow(clippy::len_without_is_empty)] // There is always the metadata.
    pub const fn len(self) -> u32 {
        self.cpus.saturating_mul(self.of_a_cpu()).saturating_add(1)
    }

    /// Whether CPUs have such a channel.
    pub const fn has(self, kind: ChannelKind) -> bool {
        self.samples || !matches!(kind, ChannelKind::Samples)
    }

    /// The channel of this number.
    pub fn get(self, number: u32) -> Option<ChannelId> {
        let Some(index) = number.checked_sub(1) else {
            return Some(ChannelId::Metadata);
        };
        let kind = ChannelSet::ORDER.get((index % self.of_a_cpu()) as usize)?;
        let cpu = index / self.of_a_cpu();
        (cpu < self.cpus).then_some(ChannelId::Cpu(cpu, *kind))
    }

    /// The number of a channel; `None` where the session does not have it.
    pub fn number(self, channel: ChannelId) -> Option<u32> {
        let ChannelId::Cpu(cpu, kind) = channel else {
            return Some(0);
        };
        let index = ChannelSet::ORDER.iter().position(|&other| other == kind)?;
        let first = cpu.checked_mul(self.of_a_cpu())?;
        let number = first.checked_add(1 + index as u32)?;
        (cpu < self.cpus && self.has(kind)).then_some(number)
    }

    /// All channels, by number.
    pub fn iter(self) -> impl Iterator<Item = ChannelId> {
        (0..self.len()).filter_map(move |number| self.get(number))
    }

    /// The channels of the CPUs: all but the metadata.
    pub fn streams(self) -> impl Iterator<Item = (u32, ChannelKind)> {
        self.iter().filter_map(|channel| match channel {
            ChannelId::Metadata => None,
            ChannelId::Cpu(cpu, kind) => Some((cpu, kind)),
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn every_channel_has_one_number() {
        for channels in [
            ChannelSet {
                cpus: 3,
                samples: false,
            },
            ChannelSet {
                cpus: 3,
                samples: true,
            },
        ] {
            for number in 0..channels.len() {
                let channel = channels.get(number).unwrap();
                assert_eq!(channels.number(channel), Some(number));
            }
            assert_eq!(channels.get(channels.len()), None);
            assert_eq!(
                ChannelSet::of_len(channels.len(), channels.samples),
                channels
            );
            assert_eq!(channels.get(u32::MAX), None);
            assert_eq!(channels.iter().count(), channels.len() as usize);
            let beyond = ChannelId::Cpu(3, ChannelKind::Events);
            assert_eq!(channels.number(beyond), None);
            let samples = ChannelId::Cpu(2, ChannelKind::Samples);
            assert_eq!(channels.number(samples).is_some(), channels.samples);
        }
    }

    #[test]
    fn a_channel_names_its_file() {
        let names = |samples| {
            let channels = ChannelSet { cpus: 2, samples };
            channels.iter().map(|id| id.to_string()).collect::<Vec<_>>()
        };
        let expected = ["metadata", "names_0", "events_0", "names_1", "events_1"];
        assert_eq!(names(false), expected);
        assert_eq!(
            names(true)[1..],
            [
                "names_0",
                "events_0",
                "samples_0",
                "names_1",
                "events_1",
                "samples_1"
            ]
        );
    }
}
