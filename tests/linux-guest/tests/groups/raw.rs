//! Counter groups by nothing but system calls: what `kymo_perf` is compared with.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// The first version of `struct perf_event_attr` of `linux/perf_event.h`, 64 bytes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
}

/// `PERF_TYPE_RAW`.
const RAW: u32 = 4;
/// `TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING | ID | GROUP` of `read_format`.
const READ_FORMAT: u64 = 1 | 2 | 4 | 8;
/// Bits of `flags`: disabled, exclude_kernel, exclude_hv.
const FLAGS: u64 = 1 | 1 << 5 | 1 << 6;
/// `_IO('$', 0)` and `_IO('$', 1)`.
const ENABLE: u32 = 0x2400;
const DISABLE: u32 = 0x2401;
/// `PERF_IOC_FLAG_GROUP`.
const WHOLE_GROUP: libc::c_ulong = 1;

/// What a read of a group's leader gives.
#[derive(Debug, PartialEq, Eq)]
pub struct Values {
    pub enabled: u64,
    pub running: u64,
    /// Count and id of each event.
    pub counts: Vec<(u64, u64)>,
}

impl Values {
    /// A count as it would be had the group counted all the time.
    pub fn scaled(&self, event: usize) -> f64 {
        self.counts[event].0 as f64 * self.enabled as f64 / self.running as f64
    }
}

/// Reads the group whose leader has this descriptor.
pub fn read(leader: BorrowedFd<'_>) -> Values {
    let mut file = File::from(leader.try_clone_to_owned().unwrap());
    let mut bytes = [0; 8 * 64];
    let len = file.read(&mut bytes).unwrap();
    let words: Vec<u64> = bytes[..len]
        .chunks(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
        .collect();
    let [members, enabled, running, counts @ ..] = &words[..] else {
        panic!("{words:?}");
    };
    let counts = counts.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let values = Values {
        enabled: *enabled,
        running: *running,
        counts,
    };
    assert_eq!(values.counts.len() as u64, *members);
    values
}

/// A group of this thread's events, by the processor's numbers, outside of the kernel.
pub struct Group {
    events: Vec<OwnedFd>,
}

impl Group {
    pub fn open(numbers: &[u64]) -> Group {
        let mut events: Vec<OwnedFd> = Vec::new();
        for number in numbers {
            let leader = events.first().map_or(-1, |leader| leader.as_raw_fd());
            events.push(open(*number, leader).unwrap());
        }
        Group { events }
    }

    pub fn enable(&self) {
        // The members wait for their leader.
        for event in self.events.iter().rev() {
            control(event, ENABLE, 0);
        }
    }

    pub fn disable(&self) {
        control(&self.events[0], DISABLE, WHOLE_GROUP);
    }

    pub fn read(&self) -> Values {
        use std::os::fd::AsFd as _;
        read(self.events[0].as_fd())
    }
}

fn open(number: u64, leader: i32) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: RAW,
        size: size_of::<Attributes>() as u32,
        config: number,
        read_format: READ_FORMAT,
        flags: FLAGS,
        ..Attributes::default()
    };
    let (this_thread, any_cpu, no_flags) = (0, -1, 0);
    // SAFETY: `attributes` is a whole structure of the size that it states, which the call reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            leader,
            no_flags,
        )
    };
    match i32::try_from(fd) {
        // SAFETY: the call has just opened the descriptor, and nothing else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn control(event: &OwnedFd, request: u32, scope: libc::c_ulong) {
    // SAFETY: these calls take a number, and touch no memory of this process.
    let result = unsafe { libc::ioctl(event.as_raw_fd(), request as _, scope) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
