//! Virtio devices and their queues (Virtual I/O Device 1.2: 2.7 "split virtqueues", 3.1 "device
//! initialization"; not the legacy interface). The registers are the architecture's.

use core::cell::UnsafeCell;

use crate::arch;
use crate::arch::virtio::Registers;

const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;
/// The feature bit of a modern device.
const VERSION_1: u64 = 1 << 32;

/// A device.
#[derive(Clone, Copy, Debug)]
pub struct Device(Registers);

impl Device {
    /// Resets the first device of this kind and negotiates these features. `None` if no device has
    /// them.
    pub fn open(kind: u32, features: u64) -> Option<Device> {
        let registers = Registers::find(kind)?;
        registers.set_status(0);
        registers.set_status(ACKNOWLEDGE | DRIVER);
        let wanted = features | VERSION_1;
        for half in [0, 1] {
            let part = (wanted >> (32 * half)) as u32;
            if registers.features(half) & part != part {
                return None;
            }
            registers.accept(half, part);
        }
        registers.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK);
        (registers.status() & FEATURES_OK != 0).then_some(Device(registers))
    }

    /// Gives the device a queue, which must not move any more. `None` if the device has no queue of
    /// this number.
    pub fn add<const N: usize, const SIZE: usize>(
        self,
        number: u32,
        queue: &'static Queue<N, SIZE>,
    ) -> Option<()> {
        let shared = queue.0.get();
        // SAFETY: this takes addresses only.
        let parts = unsafe {
            [
                &raw const (*shared).descriptors as usize,
                &raw const (*shared).available as usize,
                &raw const (*shared).used as usize,
            ]
        };
        self.0.add(number, N as u32, parts)
    }

    /// Starts the device.
    pub fn begin(self) {
        self.0
            .set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
    }

    /// Notifies the device of new buffers in a queue.
    pub fn notify(self, number: u32) {
        arch::io_fence();
        self.0.notify(number);
    }
}

#[repr(C, align(16))]
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

/// The device writes to the buffer.
const DEVICE_WRITES: u16 = 2;

#[repr(C)]
struct Available<const N: usize> {
    flags: u16,
    index: u16,
    ring: [u16; N],
}

#[repr(C, align(4))]
struct Used<const N: usize> {
    flags: u16,
    index: u16,
    ring: [[u32; 2]; N],
}

#[repr(C)]
struct Shared<const N: usize, const SIZE: usize> {
    descriptors: [Descriptor; N],
    available: Available<N>,
    used: Used<N>,
    buffers: [[u8; SIZE]; N],
}

/// The memory shared by a driver and its device: a queue with `N` buffers (a power of two) of
/// `SIZE` bytes. The device owns a buffer from [`End::offer`] to [`End::take`].
pub struct Queue<const N: usize, const SIZE: usize>(UnsafeCell<Shared<N, SIZE>>);

// SAFETY: only its one `End` accesses it.
unsafe impl<const N: usize, const SIZE: usize> Sync for Queue<N, SIZE> {}

impl<const N: usize, const SIZE: usize> Queue<N, SIZE> {
    pub const fn new() -> Self {
        Queue(UnsafeCell::new(Shared {
            descriptors: [const {
                Descriptor {
                    address: 0,
                    len: 0,
                    flags: 0,
                    next: 0,
                }
            }; N],
            available: Available {
                flags: 0,
                index: 0,
                ring: [0; N],
            },
            used: Used {
                flags: 0,
                index: 0,
                ring: [[0; 2]; N],
            },
            buffers: [[0; SIZE]; N],
        }))
    }
}

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// The device reads it.
    Reading(usize),
    /// The device writes to it.
    Writing,
}

/// The driver's end of a queue.
pub struct End<const N: usize, const SIZE: usize> {
    queue: &'static Queue<N, SIZE>,
    /// Number of buffers offered and taken back, both modulo 2^16.
    offered: u16,
    taken: u16,
}

impl<const N: usize, const SIZE: usize> End<N, SIZE> {
    /// # Safety
    /// There must be no other `End` of the queue.
    pub const unsafe fn new(queue: &'static Queue<N, SIZE>) -> Self {
        End {
            queue,
            offered: 0,
            taken: 0,
        }
    }

    /// A buffer that the device does not have.
    ///
    /// # Safety
    /// The buffer was never offered, or has been taken back.
    pub unsafe fn buffer(&mut self, index: usize) -> &mut [u8; SIZE] {
        // SAFETY: this is the only end, and the device does not have the buffer.
        unsafe { &mut (*self.queue.0.get()).buffers[index] }
    }

    /// Offers the device a buffer that it does not own. The device sees it when it is notified.
    pub fn offer(&mut self, index: usize, purpose: For) {
        let shared = self.queue.0.get();
        let (len, flags) = match purpose {
            For::Reading(len) => (len, 0),
            For::Writing => (SIZE, DEVICE_WRITES),
        };
        self.offered = self.offered.wrapping_add(1);
        // SAFETY: this is the only end, and the device reads these words only behind `index`, which
        // is written last.
        unsafe {
            let address = &raw const (*shared).buffers[index] as u64;
            (&raw mut (*shared).descriptors[index]).write_volatile(Descriptor {
                address,
                len: len as u32,
                flags,
                next: 0,
            });
            (&raw mut (*shared).available.ring[usize::from(self.offered.wrapping_sub(1)) % N])
                .write_volatile(index as u16);
            arch::io_fence();
            (&raw mut (*shared).available.index).write_volatile(self.offered);
        }
    }

    /// Takes back a finished buffer, and gives its index and the number of bytes that the device
    /// wrote.
    pub fn take(&mut self) -> Option<(usize, usize)> {
        let shared = self.queue.0.get();
        // SAFETY: the device writes these words, whole, `index` last.
        unsafe {
            if (&raw const (*shared).used.index).read_volatile() == self.taken {
                return None;
            }
            arch::io_fence();
            let [index, len] =
                (&raw const (*shared).used.ring[usize::from(self.taken) % N]).read_volatile();
            self.taken = self.taken.wrapping_add(1);
            Some((index as usize % N, (len as usize).min(SIZE)))
        }
    }
}
