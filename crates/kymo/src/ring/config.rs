//! How a region is laid out, and why it cannot be.

use core::fmt;

use super::layout::{
    Clock, Consumer, MIN_PACKETS, Overflow, PACKET_SIZES, REGION_ALIGN, ReserveKind,
    SLOT_HEADER_WORDS,
};
use crate::channel::{ChannelKind, ChannelSet};
use crate::vocabulary::{MAX_CALLERS, Sampling, SamplingDriver};

/// The configuration of a session. A port sets the number of CPUs, the clock and the memory's
/// physical address, and takes [`DEFAULT`](Config::DEFAULT) for the rest:
/// ```
/// use kymo::{Clock, Config};
/// let config = Config { cpus: 4, clock: Clock::at(10_000_000), phys: 0x8020_0000, ..Config::DEFAULT };
/// # assert_eq!(config.clock.frequency_hz, 10_000_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// CPUs that record. Default: 1.
    pub cpus: u32,
    /// Bytes of a packet: a power of two, 256 to 131,072. Default: 4,096.
    pub packet_size: u32,
    /// Packets in the ring of each CPU's events; at least 4, a power of two for `LocalCas`.
    /// Default: 64.
    pub packets: u32,
    /// Packets in the ring of each CPU's names; the rules are those of `packets`. Default: 8.
    pub names_packets: u32,
    /// Packets in the ring of each CPU's samples, by the same rules; 0 for a session that takes
    /// none. Default: 0.
    pub samples_packets: u32,
    /// How samples are taken, where the sample mode is started. Default: not at all, since the
    /// period is 0.
    pub sampling: Sampling,
    /// Ticks of the clock from one record of the kernel's own [counters](mod@crate::counter) to the
    /// next, where the kernel calls [`Tracer::tick`](crate::Tracer::tick); below 2^62. 0: they are
    /// recorded at the end only. Default: 0.
    pub counters_period: u64,
    /// What a full ring does. Default: the oldest packet is reused.
    pub overflow: Overflow,
    /// Who frees packets in `Discard`. Default: nobody.
    pub consumer: Consumer,
    /// The clock. There is no default: a session does not start with a frequency of 0.
    pub clock: Clock,
    /// Physical address of the memory, by which a reader of a memory image tells the region from a
    /// copy of it. Default: 0, for a user-space program.
    pub phys: u64,
    /// The kernel's build id. Default: zeros, for a kernel that has none.
    pub build_id: [u8; 20],
    /// A number that goes into the trace's UUID: a hash of the command line, or anything else that
    /// tells two runs apart. Default: 0.
    pub seed: u64,
    /// Whether this is a user-space program. Default: no.
    pub hosted: bool,
}

impl Config {
    /// One CPU with 256 KiB of events and 32 KiB of names, of which the newest are kept, and no
    /// clock.
    pub const DEFAULT: Config = Config {
        cpus: 1,
        packet_size: 4096,
        packets: 64,
        names_packets: 8,
        samples_packets: 0,
        sampling: Sampling {
            period: 0,
            depth: MAX_CALLERS as u32,
            driver: SamplingDriver::Timer,
        },
        counters_period: 0,
        overflow: Overflow::Overwrite,
        consumer: Consumer::None,
        clock: Clock::at(0),
        phys: 0,
        build_id: [0; 20],
        seed: 0,
        hosted: false,
    };

    /// The session's channels.
    pub const fn channels(&self) -> ChannelSet {
        ChannelSet {
            cpus: self.cpus,
            samples: self.samples_packets > 0,
        }
    }

    pub(crate) fn packets_of(&self, kind: ChannelKind) -> u32 {
        match kind {
            ChannelKind::Events => self.packets,
            ChannelKind::Names => self.names_packets,
            ChannelKind::Samples => self.samples_packets,
        }
    }

    /// Whether a session can be started over memory for `cpus` CPUs, with records of at most
    /// `longest_record` words: what [`Tracer::start`](crate::Tracer::start) checks first.
    ///
    /// # Errors
    /// [`Error::Config`] or [`Error::Clock`].
    pub fn check(
        &self,
        cpus: u32,
        longest_record: usize,
        reserve: ReserveKind,
    ) -> Result<(), Error> {
        if self.clock.frequency_hz == 0 {
            return Err(Error::Clock);
        }
        if !(1..=cpus.min(4096)).contains(&self.cpus) {
            return Err(Error::Config(
                "the number of CPUs (1 to that of the region's memory, at most 4,096)",
            ));
        }
        if !PACKET_SIZES.contains(&self.packet_size) || !self.packet_size.is_power_of_two() {
            return Err(Error::Config(
                "the packet size (a power of two from 256 to 131,072)",
            ));
        }
        let room = self.packet_size as usize / 4 - SLOT_HEADER_WORDS - 1;
        if longest_record + 4 > room {
            return Err(Error::Config(
                "the packet size: the vocabulary's longest record does not fit in",
            ));
        }
        if self.counters_period >= 1 << 62 {
            return Err(Error::Config("the period of the counters (below 2^62)"));
        }
        let channels = self.channels();
        for kind in ChannelKind::ALL
            .into_iter()
            .filter(|&kind| channels.has(kind))
        {
            let packets = self.packets_of(kind);
            if !(MIN_PACKETS..=1 << 24).contains(&packets) {
                return Err(Error::Config("the number of packets (4 to 16,777,216)"));
            }
            if reserve != ReserveKind::Masked && !packets.is_power_of_two() {
                return Err(Error::Config(
                    "the number of packets (a power of two on this processor)",
                ));
            }
        }
        Ok(())
    }
}

/// Why a session did not start, or did not stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A session runs over this memory.
    Running,
    /// No session runs over this memory.
    NotRunning,
    /// A number in the configuration is out of range; the name says which.
    Config(&'static str),
    /// The memory is too small: this many bytes are needed.
    Memory(usize),
    /// The memory does not begin on a multiple of [`REGION_ALIGN`].
    Alignment,
    /// The clock's frequency is not known.
    Clock,
    /// Samples cannot be taken; the text says why.
    Sampling(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Running => f.write_str("a session is running already: stop it first"),
            Error::NotRunning => f.write_str("no session is running"),
            Error::Config(what) => write!(f, "{what} is out of range"),
            Error::Memory(needed) => write!(
                f,
                "the region's memory is too small: {needed} bytes are needed"
            ),
            Error::Alignment => write!(
                f,
                "the region's memory does not begin on a multiple of {REGION_ALIGN} bytes"
            ),
            Error::Clock => f.write_str("the clock's frequency is not known yet"),
            Error::Sampling(why) => write!(f, "samples cannot be taken: {why}"),
        }
    }
}

impl core::error::Error for Error {}
