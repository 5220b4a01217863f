//! Events whose samples the kernel writes to a buffer.

use std::fs;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use kymo::count::EventSpec;
use perf_event_open_sys::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_CPU_CLOCK, PERF_FORMAT_LOST, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_CPU, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, perf_event_attr,
};

use crate::error::{self, Error};
use crate::names::NamedEvent;
use crate::sys::{self, Control, Linux, Ring, Scope, System as _};
use crate::target::Target;

/// The clock of all records, `CLOCK_MONOTONIC`: the kernel may read it in every interrupt.
const CLOCK: i32 = 1;

/// Sizes of a buffer, in KiB: what all buffers of a user may have together is limited, so the first
/// of these is to be taken that every CPU can have.
pub const BUFFERS: [usize; 6] = [4096, 1024, 512, 128, 32, 8];

/// What makes the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampledEvent {
    /// A counter of the CPU's cycles.
    Cycles,
    /// A timer of the CPU, where there is no such counter: a sample's period is in nanoseconds.
    CpuClock,
}

impl SampledEvent {
    /// The event's name, as `perf` calls it.
    pub fn name(self) -> &'static str {
        match self {
            SampledEvent::Cycles => "cycles",
            SampledEvent::CpuClock => "cpu-clock",
        }
    }
}

/// How samples are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// What makes them.
    pub event: SampledEvent,
    /// Samples a second, on each CPU or of each thread.
    pub hz: u64,
    /// Whether only programs are sampled, and not what the kernel does for them.
    pub user_only: bool,
    /// Threads and processes that the target creates from now on are sampled too.
    pub inherit: bool,
    /// Sampling begins when the target becomes another program by `execve(2)`.
    pub on_exec: bool,
}

impl Sampling {
    /// The event's name with what is left out: `cycles:u`.
    pub fn name(&self) -> String {
        match self.user_only {
            true => format!("{}:u", self.event.name()),
            false => self.event.name().to_owned(),
        }
    }

    /// The event's `struct perf_event_attr`, by which its records are parsed.
    pub fn attribute_bytes(&self) -> Vec<u8> {
        sys::bytes_of(&self.attributes())
    }

    /// Records have their thread, time and CPU; a sample also has its address, period and callers.
    fn attributes(&self) -> perf_event_attr {
        let (kind, config) = match self.event {
            SampledEvent::Cycles => (PERF_TYPE_HARDWARE, u64::from(PERF_COUNT_HW_CPU_CYCLES)),
            SampledEvent::CpuClock => (PERF_TYPE_SOFTWARE, u64::from(PERF_COUNT_SW_CPU_CLOCK)),
        };
        let mut attributes = perf_event_attr {
            size: size_of::<perf_event_attr>() as u32,
            type_: kind,
            config,
            sample_type: (PERF_SAMPLE_IP
                | PERF_SAMPLE_TID
                | PERF_SAMPLE_TIME
                | PERF_SAMPLE_CPU
                | PERF_SAMPLE_PERIOD
                | PERF_SAMPLE_CALLCHAIN) as u64,
            clockid: CLOCK,
            ..Default::default()
        };
        attributes.sample_freq = self.hz;
        // Wakes its reader when a part of the buffer is full: the reader looks anyway, in time.
        attributes.wakeup_watermark = 64 << 10;
        attributes.set_watermark(1);
        attributes.set_freq(1);
        attributes.set_disabled(1);
        attributes.set_inherit(self.inherit.into());
        attributes.set_enable_on_exec(self.on_exec.into());
        attributes.set_exclude_kernel(self.user_only.into());
        attributes.set_exclude_hv(1);
        attributes.set_use_clockid(1);
        attributes.set_sample_id_all(1);
        attributes.set_mmap(1);
        attributes.set_mmap2(1);
        attributes.set_comm(1);
        attributes.set_comm_exec(1);
        attributes.set_task(1);
        attributes
    }
}

/// An event that takes samples of one target. It ends when it is dropped.
#[derive(Debug)]
pub struct Sampler {
    event: File,
    ring: Option<Ring>,
    /// Whether the kernel tells how many records it has lost.
    tells_lost: bool,
}

impl Sampler {
    /// Opens the event, which takes no samples yet.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], [`Error::NotOnThisMachine`], [`Error::TooManySamples`] and others
    /// of opening an event.
    pub fn open(target: Target, sampling: &Sampling) -> Result<Sampler, Error> {
        let mut attributes = sampling.attributes();
        attributes.read_format = u64::from(PERF_FORMAT_LOST);
        // Linux before 6.0 does not tell.
        let with_lost = Linux.open(&attributes, target, None);
        let tells_lost = with_lost.is_ok();
        let opened = with_lost.or_else(|error| match error.kind() {
            io::ErrorKind::InvalidInput => {
                attributes.read_format = 0;
                Linux.open(&attributes, target, None)
            }
            _ => Err(error),
        });
        Ok(Sampler {
            event: opened.map_err(|source| refused(sampling, target, source))?,
            ring: None,
            tells_lost,
        })
    }

    /// Maps a buffer of so many KiB, of [`BUFFERS`], for the records of this event, and of those
    /// that are [redirected](Self::write_to_buffer_of) to it.
    ///
    /// # Errors
    /// [`Error::NoBuffer`] if this process may not lock so much.
    pub fn map(&mut self, kib: usize) -> Result<(), Error> {
        let pages = (kib << 10) / rustix::param::page_size();
        let mapped = Ring::map(&self.event, pages.max(1));
        self.ring = Some(mapped.map_err(|source| Error::NoBuffer { source })?);
        Ok(())
    }

    /// Writes this event's records to the buffer of another event of the same CPU.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn write_to_buffer_of(&self, other: &Sampler) -> Result<(), Error> {
        let done = sys::write_to_buffer_of(&self.event, &other.event);
        done.map_err(|source| Error::System {
            what: "let an event write to another one's buffer",
            source,
        })
    }

    /// Begins to take samples, or ends.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn enable(&self, on: bool) -> Result<(), Error> {
        let (control, what) = match on {
            true => (Control::Enable, "begin to take samples"),
            false => (Control::Disable, "end taking samples"),
        };
        let done = Linux.control(&self.event, control, Scope::Event);
        done.map_err(|source| Error::System { what, source })
    }

    /// Appends the bytes of all records that the kernel has written: each begins with its
    /// `struct perf_event_header`.
    pub fn drain(&mut self, to: &mut Vec<u8>) {
        if let Some(ring) = &mut self.ring {
            ring.drain(to);
        }
    }

    /// Records that this event could not write since it was opened, because the buffer was full;
    /// `None` if the kernel does not tell.
    pub fn lost(&self) -> Option<u64> {
        let mut values = [0; 16];
        (&self.event).read_exact(&mut values).ok()?;
        let [_, lost] = [0, 8].map(|at| values.get(at..at + 8));
        let lost = u64::from_ne_bytes(lost?.try_into().ok()?);
        self.tells_lost.then_some(lost)
    }
}

impl AsFd for Sampler {
    /// It can be read when a part of the buffer is full, or the target has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// What an error of opening means.
fn refused(sampling: &Sampling, target: Target, source: io::Error) -> Error {
    let hz = sampling.hz;
    let limit = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let most: Option<u64> = limit.ok().and_then(|text| text.trim().parse().ok());
    let name = sampling.name();
    match (most, EventSpec::from_name(&name)) {
        (Some(most), _) if source.kind() == io::ErrorKind::InvalidInput && hz > most => {
            Error::TooManySamples { hz, most }
        }
        (_, Some(event)) => {
            let pmus = Vec::new();
            error::opening(&NamedEvent { event, name, pmus }, target, source)
        }
        (_, None) => Error::System {
            what: "open an event",
            source,
        },
    }
}
