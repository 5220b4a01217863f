//! Samples of what runs now.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use kymo_perf::{BUFFERS, Error as PerfError, Needs, SampledEvent, Sampler, Sampling, Target};
use linux_perf_event_reader::{
    Endianness, PerfEventAttr, RawData, RawEventRecord, RecordParseInfo, RecordType,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::entry::{Entry, Stamp};
use crate::metadata::Origin;
use crate::writer::Writer;
use crate::{Error, running};

/// Who is sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A process that has still to become a program by `execve(2)`, from then on, with all threads
    /// and children.
    Program(u32),
    /// Running processes, with all threads, and those that these create.
    Processes(Vec<u32>),
    /// All CPUs, whatever runs there.
    AllCpus,
}

/// What to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Who.
    pub whom: Whom,
    /// Samples a second: of each thread while it runs, or of each CPU.
    pub hz: u64,
}

/// Events that take samples, and their buffers. They end when it is dropped.
#[derive(Debug)]
pub struct Session {
    whom: Whom,
    sampling: Sampling,
    parse_info: RecordParseInfo,
    /// With a buffer first, one for each CPU of `cpus`; then those that write to one of them.
    samplers: Vec<Sampler>,
    may_lack_threads: bool,
    cpus: Vec<u32>,
    /// Whether a CPU's buffer is still waited for: not if its target has ended.
    is_waited_for: Vec<bool>,
    /// When sampling began.
    began: u64,
    /// Records of which the kernel has said that it lost them.
    told_lost: u64,
    /// Not parsed yet: whole records.
    bytes: Vec<u8>,
}

/// Nanoseconds of a clock.
fn now(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let (seconds, nanos) = (time.tv_sec.max(0) as u64, time.tv_nsec.max(0) as u64);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

impl Session {
    /// Opens the events. Where the machine has no counter of cycles, the CPU's clock makes the
    /// samples; where this process may not sample the kernel, only programs are.
    ///
    /// # Errors
    /// [`Error::NotPermitted`], which says what to do, and [`Error::Perf`].
    pub fn open(setup: &Setup) -> Result<Session, Error> {
        let cpus = kymo_perf::online_cpus()?;
        let first = cpus.first().copied().unwrap_or(0);
        let sampling = choose(setup, first)?;
        let attributes =
            PerfEventAttr::parse::<_, byteorder::NativeEndian>(&*sampling.attribute_bytes());
        let (attributes, _) = attributes.map_err(|source| Error::Record { source })?;
        let mut session = Session {
            whom: setup.whom.clone(),
            sampling,
            parse_info: RecordParseInfo::new(&attributes, Endianness::NATIVE),
            samplers: Vec::new(),
            may_lack_threads: false,
            is_waited_for: vec![true; cpus.len()],
            cpus,
            began: 0,
            told_lost: 0,
            bytes: Vec::new(),
        };
        session.open_all()?;
        Ok(session)
    }

    fn open_all(&mut self) -> Result<(), Error> {
        let mut refused = Ok(());
        for kib in BUFFERS {
            let opened = match &self.whom {
                Whom::AllCpus => self.open_for(&[None], kib).map(|opened| (opened, true)),
                Whom::Program(pid) => self
                    .open_for(&[Some(*pid)], kib)
                    .map(|opened| (opened, true)),
                Whom::Processes(pids) => kymo_perf::open_threads(pids, |threads| {
                    let threads: Vec<_> = threads.iter().copied().map(Some).collect();
                    self.open_for(&threads, kib)
                }),
            };
            match opened {
                Ok((samplers, is_steady)) => {
                    (self.samplers, self.may_lack_threads) = (samplers, !is_steady);
                    return Ok(());
                }
                Err(error @ Error::Perf(PerfError::NoBuffer { .. })) => refused = Err(error),
                Err(error) => return Err(error),
            }
        }
        refused
    }

    /// Opens the events of these threads, or of whatever runs, on every CPU. Those of the first one
    /// have the buffers.
    fn open_for(&self, tids: &[Option<u32>], kib: usize) -> Result<Vec<Sampler>, Error> {
        let mut all: Vec<Sampler> = Vec::new();
        let mut ended = Ok(());
        for tid in tids {
            let of_thread = |place: usize, cpu: u32| -> Result<Sampler, Error> {
                let mut sampler = Sampler::open(target(*tid, cpu), &self.sampling)?;
                match all.get(place) {
                    Some(other) => sampler.write_to_buffer_of(other)?,
                    None => sampler.map(kib)?,
                }
                Ok(sampler)
            };
            let cpus = self.cpus.iter().enumerate();
            let opened: Result<Vec<Sampler>, Error> =
                cpus.map(|(place, cpu)| of_thread(place, *cpu)).collect();
            match opened {
                Ok(samplers) => all.extend(samplers),
                // It has just ended.
                Err(error @ Error::Perf(PerfError::NoSuchTarget { .. })) => ended = Err(error),
                Err(error) => return Err(error),
            }
        }
        match all.is_empty() {
            true => ended.map(|()| all),
            false => Ok(all),
        }
    }

    /// Whether threads of the processes kept starting while they were opened, so that some may not
    /// be sampled.
    pub fn may_lack_threads(&self) -> bool {
        self.may_lack_threads
    }

    /// Where the trace comes from.
    pub fn origin(&self) -> Origin {
        let text = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().to_owned()
        };
        // Read one after the other: the time between is part of no measurement.
        let offset = now(ClockId::Realtime).saturating_sub(now(ClockId::Monotonic));
        Origin {
            events: vec![self.sampling.name()],
            unix_offset_ns: offset,
            environment: vec![
                ("host", text("/proc/sys/kernel/hostname")),
                ("sysname", "Linux".to_owned()),
                ("release", text("/proc/sys/kernel/osrelease")),
                ("machine", std::env::consts::ARCH.to_owned()),
                ("samples_per_second", self.sampling.hz.to_string()),
            ],
        }
    }

    /// The event that makes the samples, with what is left out: `cpu-clock:u`.
    pub fn event(&self) -> String {
        self.sampling.name()
    }

    /// Whether what the kernel does is left out.
    pub fn is_user_only(&self) -> bool {
        self.sampling.user_only
    }

    /// Begins to sample what runs already, and describes it. A program's samples begin by
    /// themselves.
    ///
    /// # Errors
    /// If an event cannot be enabled, or the trace cannot be written.
    pub fn begin(&mut self, writer: &mut Writer) -> Result<(), Error> {
        self.began = now(ClockId::Monotonic);
        let pids = match &self.whom {
            Whom::Program(_) => return Ok(()),
            Whom::Processes(pids) => pids.clone(),
            Whom::AllCpus => running::processes(),
        };
        for sampler in &self.samplers {
            sampler.enable(true)?;
        }
        let stamp = Stamp {
            time: self.began,
            cpu: self.cpus.first().copied().unwrap_or(0),
        };
        for entry in pids.into_iter().flat_map(running::describe) {
            writer.add(stamp, entry)?;
        }
        Ok(())
    }

    /// Waits until a buffer is full enough, one of `others` can be read, or the time is over.
    /// Returns whether one of `others` can be read.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn wait(&mut self, others: &[BorrowedFd<'_>], most: Duration) -> Result<bool, Error> {
        let timeout = Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        };
        let buffers = self.samplers.iter().zip(&self.is_waited_for);
        let buffers = buffers.filter(|(_, is_waited_for)| **is_waited_for);
        let buffers =
            buffers.map(|(sampler, _)| PollFd::from_borrowed_fd(sampler.as_fd(), PollFlags::IN));
        let own = others
            .iter()
            .map(|other| PollFd::from_borrowed_fd(*other, PollFlags::IN));
        let mut all: Vec<PollFd<'_>> = own.chain(buffers).collect();
        match poll(&mut all, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => {
                let what = "wait for samples";
                let source = error.into();
                return Err(Error::System { what, source });
            }
        }
        let (own, buffers) = all.split_at(others.len());
        let mut ended = buffers
            .iter()
            .map(|of| of.revents().contains(PollFlags::HUP));
        let ready = own.iter().any(|of| !of.revents().is_empty());
        for is_waited_for in self.is_waited_for.iter_mut().filter(|of| **of) {
            // Its descriptor would be ready forever.
            *is_waited_for = !ended.next().unwrap_or(false);
        }
        Ok(ready)
    }

    /// Hands everything that the buffers have to the writer.
    ///
    /// # Errors
    /// [`Error::Record`], or if the trace cannot be written.
    pub fn round(&mut self, writer: &mut Writer) -> Result<(), Error> {
        for place in 0..self.cpus.len().min(self.samplers.len()) {
            self.bytes.clear();
            if let Some(sampler) = self.samplers.get_mut(place) {
                sampler.drain(&mut self.bytes);
            }
            let mut rest: &[u8] = &self.bytes;
            while let Some((record, behind)) = next(rest, self.parse_info)? {
                rest = behind;
                if let Some((stamp, entry)) = Entry::of(0, &record)? {
                    if let Entry::Lost(count) = entry {
                        self.told_lost = self.told_lost.saturating_add(count);
                    }
                    writer.add(stamp, entry)?;
                }
            }
        }
        Ok(writer.end_round()?)
    }

    /// Ends the samples, and hands the rest to the writer; also how many records were lost at the
    /// end, of which the kernel could not write a record.
    ///
    /// # Errors
    /// Those of [`round`](Self::round).
    pub fn end(&mut self, writer: &mut Writer) -> Result<(), Error> {
        for sampler in &self.samplers {
            sampler.enable(false)?;
        }
        self.round(writer)?;
        let lost = self.samplers.iter().filter_map(Sampler::lost).sum::<u64>();
        let untold = lost.saturating_sub(self.told_lost);
        if untold > 0 {
            let time = now(ClockId::Monotonic);
            let cpu = self.cpus.first().copied().unwrap_or(0);
            writer.add(Stamp { time, cpu }, Entry::Lost(untold))?;
        }
        Ok(())
    }
}

/// The first record of these bytes, and the bytes behind it; `None` where there are none.
fn next(
    bytes: &[u8],
    parse_info: RecordParseInfo,
) -> Result<Option<(RawEventRecord<'_>, &[u8])>, Error> {
    const HEADER: usize = 8;
    let Some((&[a, b, c, d, e, f, g, h], _)) = bytes.split_first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let kind = RecordType(u32::from_ne_bytes([a, b, c, d]));
    let misc = u16::from_ne_bytes([e, f]);
    let size = usize::from(u16::from_ne_bytes([g, h]));
    let (body, rest) = bytes
        .get(HEADER..size)
        .zip(bytes.get(size..))
        .ok_or(Error::Record {
            source: io::ErrorKind::UnexpectedEof.into(),
        })?;
    let data = RawData::Single(body);
    Ok(Some((
        RawEventRecord::new(kind, misc, data, parse_info),
        rest,
    )))
}

fn target(tid: Option<u32>, cpu: u32) -> Target {
    tid.map_or(Target::Cpu(cpu), |tid| Target::ProcessOnCpu(tid, cpu))
}

/// The best way to sample that this machine has and permits.
fn choose(setup: &Setup, cpu: u32) -> Result<Sampling, Error> {
    let mut sampling = Sampling {
        event: SampledEvent::Cycles,
        hz: setup.hz,
        user_only: false,
        inherit: setup.whom != Whom::AllCpus,
        on_exec: matches!(setup.whom, Whom::Program(_)),
    };
    let tid = match &setup.whom {
        Whom::AllCpus => None,
        Whom::Program(pid) => Some(*pid),
        Whom::Processes(pids) => pids.first().copied(),
    };
    loop {
        match Sampler::open(target(tid, cpu), &sampling) {
            Ok(_) => return Ok(sampling),
            Err(PerfError::NotPermitted { .. }) if !sampling.user_only => sampling.user_only = true,
            Err(PerfError::NotOnThisMachine { .. } | PerfError::NotInThisWay { .. })
                if sampling.event == SampledEvent::Cycles =>
            {
                sampling.event = SampledEvent::CpuClock;
            }
            Err(PerfError::NotPermitted { paranoid, .. }) => {
                let needs = Needs {
                    at_most: if tid.is_none() { 0 } else { 2 },
                    user_only: false,
                };
                return Err(Error::NotPermitted { paranoid, needs });
            }
            Err(error) => return Err(error.into()),
        }
    }
}
