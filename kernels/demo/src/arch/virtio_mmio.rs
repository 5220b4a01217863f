//! The registers of a virtio device, memory-mapped (Virtual I/O Device 1.2, 4.2).

use super::virtio::slots;

const MAGIC: usize = 0x000;
const VERSION: usize = 0x004;
const DEVICE_ID: usize = 0x008;
const DEVICE_FEATURES: usize = 0x010;
const DEVICE_FEATURES_SELECT: usize = 0x014;
const DRIVER_FEATURES: usize = 0x020;
const DRIVER_FEATURES_SELECT: usize = 0x024;
const QUEUE_SELECT: usize = 0x030;
const QUEUE_SIZE_MAX: usize = 0x034;
const QUEUE_SIZE: usize = 0x038;
const QUEUE_READY: usize = 0x044;
const QUEUE_NOTIFY: usize = 0x050;
const STATUS: usize = 0x070;
const QUEUE_DESCRIPTORS: usize = 0x080;
const QUEUE_AVAILABLE: usize = 0x090;
const QUEUE_USED: usize = 0x0a0;

/// A device, by the address of its registers.
#[derive(Clone, Copy, Debug)]
pub struct Registers(usize);

impl Registers {
    /// The first device of this kind.
    pub fn find(kind: u32) -> Option<Registers> {
        let mut slots = slots().map(Registers);
        let is_it = |slot: &Registers| {
            slot.get(MAGIC) == u32::from_le_bytes(*b"virt")
                && slot.get(VERSION) == 2
                && slot.get(DEVICE_ID) == kind
        };
        slots.find(is_it)
    }

    pub fn status(self) -> u32 {
        self.get(STATUS)
    }

    /// 0 resets the device.
    pub fn set_status(self, status: u32) {
        self.set(STATUS, status);
    }

    /// A half of the device's features: 0 for the lower 32 bits, 1 for the upper.
    pub fn features(self, half: u32) -> u32 {
        self.set(DEVICE_FEATURES_SELECT, half);
        self.get(DEVICE_FEATURES)
    }

    /// Accepts features of this half.
    pub fn accept(self, half: u32, features: u32) {
        self.set(DRIVER_FEATURES_SELECT, half);
        self.set(DRIVER_FEATURES, features);
    }

    /// Gives the device a queue of `size` buffers, by the addresses of its parts: descriptors,
    /// available and used ring. `None` if it has no such queue.
    pub fn add(self, number: u32, size: u32, parts: [usize; 3]) -> Option<()> {
        self.set(QUEUE_SELECT, number);
        if self.get(QUEUE_SIZE_MAX) < size {
            return None;
        }
        self.set(QUEUE_SIZE, size);
        let registers = [QUEUE_DESCRIPTORS, QUEUE_AVAILABLE, QUEUE_USED];
        for (register, address) in registers.into_iter().zip(parts) {
            self.set(register, address as u32);
            self.set(register + 4, (address >> 32) as u32);
        }
        self.set(QUEUE_READY, 1);
        Some(())
    }

    /// Notifies the device of new buffers in a queue.
    pub fn notify(self, number: u32) {
        self.set(QUEUE_NOTIFY, number);
    }

    fn get(self, register: usize) -> u32 {
        // SAFETY: a register of a device slot, which is mapped.
        unsafe { ((self.0 + register) as *const u32).read_volatile() }
    }

    fn set(self, register: usize, value: u32) {
        // SAFETY: as above.
        unsafe { ((self.0 + register) as *mut u32).write_volatile(value) };
    }
}
