//! The configuration of a session: `struct kymo_config`.

use core::ffi::c_char;

use kymo::vocabulary::{MAX_CALLERS, Sampling, SamplingDriver};
use kymo::{Clock, Config, Consumer, flags};

use crate::counters::CCounters;
use crate::counting::CCounting;
use crate::error::Refusal;
use crate::events::Events;
use crate::own::OwnEvent;
use kymo_c_record::port::{CSampler, kymo_memory_cpus, kymo_port_frequency, memory};

/// `KYMO_ROLLING`: a full ring reuses its oldest packet.
pub const ROLLING: u32 = flags::ROLLING;
/// `KYMO_NO_CALLERS`: a depth of none, as 0 is as many as there can be.
pub const NO_CALLERS: u32 = u32::MAX;
/// `KYMO_HOST_READS`: a host reads the memory; `kymo_read` frees no packet.
pub const HOST_READS: u32 = 2;

/// `struct kymo_config`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CConfig {
    /// Of [`ROLLING`] and [`HOST_READS`].
    pub flags: u32,
    /// CPUs that record; 0: those of the memory.
    pub cpus: u32,
    /// Bytes of a packet; 0: 1,024, or 2,048 where there are samples.
    pub packet_size: u32,
    /// Packets of each CPU's events; 0: as many as fit.
    pub packets: u32,
    /// Packets of each CPU's names; 0: 4.
    pub names_packets: u32,
    /// How many ids `events` has.
    pub events_count: u32,
    /// How many events `own` has.
    pub own_count: u32,
    /// Packets of each CPU's samples; 0 for a session that takes none.
    pub samples_packets: u32,
    /// Seconds from the Unix epoch to tick 0; 0 where that is not known.
    pub epoch_seconds: i64,
    /// A number that tells two runs apart.
    pub seed: u64,
    /// Physical address of the memory; 0 where addresses are physical.
    pub phys: u64,
    /// The image's build id, or null.
    pub build_id: *const [u8; 20],
    /// The ids of the vocabulary's events that are recorded, or null for all.
    pub events: *const u16,
    /// The kernel's own events, or null.
    pub own: *const OwnEvent,
    /// Records the names and states of what exists, or null.
    pub dump_state: Option<Call>,
    /// Returns when every CPU has left the record that it was in; for more than one CPU.
    pub synchronize: Option<Call>,
    /// Ticks between two samples of a CPU.
    pub sample_period: u64,
    /// Most callers of a sample and of an event; 0: as many as it can have.
    pub sample_depth: u32,
    /// What calls for samples: of `enum kymo_sampling_driver`.
    pub sample_driver: u32,
    /// Room for the callers of samples, or null.
    pub sampler: *const CSampler,
    /// Samples are to be taken so often from now on, in ticks; 0: no more. Or null.
    pub sampling: Option<extern "C" fn(u64)>,
    /// The kernel's own counters, or null.
    pub counters: *const CCounters,
    /// Ticks from one record of what a CPU has counted to the next; 0: only at the end.
    pub counters_period: u64,
    /// What the processors' counters are counted with, or null.
    pub counting: *const CCounting,
    /// The groups that they count, as in the word `kymo=`; null: cycles and instructions.
    pub counting_groups: *const c_char,
    /// Nanoseconds from one record of the groups to the next; 0: 100 ms.
    pub counting_ns: u64,
    /// Has every CPU call `kymo_counting_tick`, this one too, and returns when they have; or null.
    pub counting_notice: Option<Call>,
}

/// A function of the kernel's without arguments.
pub(crate) type Call = extern "C" fn();

impl CConfig {
    pub(crate) fn is_aligned(&self) -> bool {
        core::ptr::from_ref(self).is_aligned()
    }

    /// # Safety
    /// See [`kymo_start`](crate::session::kymo_start).
    // Inlined for kernels that call `kymo_start` alone, as the next ones are: 100 bytes.
    #[inline(always)]
    pub(crate) unsafe fn events(&self) -> Result<Events, Refusal> {
        // SAFETY: the caller's promise.
        let (only, own) = unsafe {
            (
                table(self.events, self.events_count),
                table(self.own, self.own_count),
            )
        };
        if (only.is_none() && self.events_count > 0) || (own.is_none() && self.own_count > 0) {
            return Err(Refusal::Fault);
        }
        Ok(Events {
            only,
            own: own.unwrap_or_default(),
            // SAFETY: as C's type checker has seen.
            counters: unsafe { made(self.counters, |table| table.library.is_some()) }?,
            packet_size: self.packet_size(),
            dump_state: self.dump_state,
            synchronize: self.synchronize,
            sampler: self.sampler,
            sampling: self.sampling,
            // SAFETY: as C's type checker has seen.
            groups: unsafe { made(self.counting, |table| table.library().is_some()) }?,
            notice: self.counting_notice,
        })
    }

    /// What calls for samples, if it is one whose period is in ticks.
    #[inline(always)]
    pub(crate) fn driver(&self) -> Option<SamplingDriver> {
        match self.sample_driver {
            0 => Some(SamplingDriver::Timer),
            1 => Some(SamplingDriver::Nmi),
            2 => Some(SamplingDriver::Ipi),
            _ => None,
        }
    }

    #[inline(always)]
    fn packet_size(&self) -> u32 {
        match (self.packet_size, self.samples_packets) {
            (0, 0) => 1024,
            // The longest sample takes more than 1 KiB.
            (0, _) => 2048,
            (size, _) => size,
        }
    }

    #[inline(always)]
    fn cpus(&self) -> u32 {
        if self.cpus == 0 {
            kymo_memory_cpus
        } else {
            self.cpus
        }
    }

    #[inline(always)]
    fn depth(&self) -> u32 {
        match self.sample_depth {
            0 => MAX_CALLERS as u32,
            NO_CALLERS => 0,
            depth => depth,
        }
    }

    /// The ring's configuration; `packets` may still be 0.
    #[inline(always)]
    pub(crate) fn ring(&self) -> Config {
        let consumer = if self.flags & HOST_READS != 0 {
            Consumer::Host
        } else {
            Consumer::Kernel
        };
        let phys = if self.phys == 0
            && cfg!(any(
                target_os = "none",
                all(target_arch = "x86", not(target_feature = "sse"))
            )) {
            memory() as u64
        } else {
            self.phys
        };
        // SAFETY: null, or 20 bytes, as C's type checker has seen.
        let build_id = unsafe { self.build_id.as_ref() };
        Config {
            cpus: self.cpus(),
            packet_size: self.packet_size(),
            packets: self.packets,
            names_packets: if self.names_packets == 0 {
                4
            } else {
                self.names_packets
            },
            consumer,
            clock: Clock {
                offset_seconds: self.epoch_seconds,
                absolute: self.epoch_seconds != 0,
                ..Clock::at(kymo_port_frequency())
            },
            phys,
            build_id: build_id.copied().unwrap_or_default(),
            seed: self.seed,
            samples_packets: self.samples_packets,
            counters_period: self.counters_period,
            sampling: Sampling {
                period: self.sample_period,
                depth: self.depth(),
                driver: self.driver().unwrap_or(SamplingDriver::Timer),
            },
            ..Config::DEFAULT
        }
    }
}

/// # Safety
/// `count` elements stand at `first`, for ever, unless it is null.
unsafe fn table<T>(first: *const T, count: u32) -> Option<&'static [T]> {
    if first.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { core::slice::from_raw_parts(first, count as usize) })
}

/// A table that a macro of the header has made; `None` for null.
///
/// # Errors
/// [`Refusal::Fault`] for what is no table: not aligned, or without the library's part.
///
/// # Safety
/// `table` is null, not aligned, or a table that lives for ever.
#[inline(always)]
unsafe fn made<T>(
    table: *const T,
    has_library: impl FnOnce(&T) -> bool,
) -> Result<Option<&'static T>, Refusal> {
    if !table.is_aligned() {
        return Err(Refusal::Fault);
    }
    // SAFETY: the caller's promise.
    let table = unsafe { table.as_ref() };
    match table.is_none_or(has_library) {
        true => Ok(table),
        false => Err(Refusal::Fault),
    }
}
