//! The registers of a virtio device on the PCI bus (Virtual I/O Device 1.2, 4.1).

use super::paging::DEVICES;
use super::pci::Function;

const VENDOR: u16 = 0x1AF4;
/// Numbers of devices: their kind behind this one, or other numbers where a device also has the
/// legacy interface.
const MODERN: u16 = 0x1040;
const CONSOLE_WITH_LEGACY: u16 = 0x1003;

/// The kind of a vendor's capability, and virtio's own kinds.
const VENDORS: u8 = 9;
const COMMON: u8 = 1;
const NOTIFY: u8 = 2;

/// The common registers, by offset.
const DEVICE_FEATURES_SELECT: usize = 0;
const DEVICE_FEATURES: usize = 4;
const DRIVER_FEATURES_SELECT: usize = 8;
const DRIVER_FEATURES: usize = 12;
const STATUS: usize = 20;
const QUEUE_SELECT: usize = 22;
const QUEUE_SIZE: usize = 24;
const QUEUE_ENABLE: usize = 28;
const QUEUE_NOTIFY_OFFSET: usize = 30;
const QUEUE_PARTS: usize = 32;
/// Their end.
const SIZE: usize = 56;

/// A device, by the addresses of its registers.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    common: usize,
    notify: usize,
    /// Distance between the notification registers of two queues.
    stride: usize,
}

impl Registers {
    /// The first device of this kind.
    pub fn find(kind: u32) -> Option<Registers> {
        let is_it = |function: &Function| {
            let device = function.device();
            function.vendor() == VENDOR
                && (u32::from(device) == u32::from(MODERN) + kind
                    || (device, kind) == (CONSOLE_WITH_LEGACY, 3))
        };
        let function = Function::all().find(is_it)?;
        let at = |kind: u8| {
            function
                .capabilities(VENDORS)
                .find(|&at| (function.read(at) >> 24) as u8 == kind)
        };
        let registers = |capability: u8| {
            let begin = function.region(function.read(capability + 4) as u8)?;
            let begin = begin.checked_add(function.read(capability + 8) as usize)?;
            let end = begin.checked_add(SIZE)?;
            (DEVICES.contains(&begin) && end <= DEVICES.end).then_some(begin)
        };
        let notify = at(NOTIFY)?;
        function.enable();
        Some(Registers {
            common: registers(at(COMMON)?)?,
            notify: registers(notify)?,
            stride: function.read(notify + 16) as usize,
        })
    }

    pub fn status(self) -> u32 {
        // SAFETY: a register of the device, which is mapped.
        unsafe { (self.register(STATUS) as *const u8).read_volatile() }.into()
    }

    /// 0 resets the device.
    pub fn set_status(self, status: u32) {
        // SAFETY: as above.
        unsafe { (self.register(STATUS) as *mut u8).write_volatile(status as u8) };
        while status == 0 && self.status() != 0 {
            core::hint::spin_loop();
        }
    }

    /// A half of the device's features: 0 for the lower 32 bits, 1 for the upper.
    pub fn features(self, half: u32) -> u32 {
        self.set(DEVICE_FEATURES_SELECT, half);
        // SAFETY: as above.
        unsafe { (self.register(DEVICE_FEATURES) as *const u32).read_volatile() }
    }

    /// Accepts features of this half.
    pub fn accept(self, half: u32, features: u32) {
        self.set(DRIVER_FEATURES_SELECT, half);
        self.set(DRIVER_FEATURES, features);
    }

    /// Gives the device a queue of `size` buffers, by the addresses of its parts: descriptors,
    /// available and used ring. `None` if it has no such queue.
    pub fn add(self, number: u32, size: u32, parts: [usize; 3]) -> Option<()> {
        self.set16(QUEUE_SELECT, number as u16);
        if u32::from(self.get16(QUEUE_SIZE)) < size {
            return None;
        }
        self.set16(QUEUE_SIZE, size as u16);
        for (register, address) in (QUEUE_PARTS..).step_by(8).zip(parts) {
            self.set(register, address as u32);
            self.set(register + 4, (address >> 32) as u32);
        }
        self.set16(QUEUE_ENABLE, 1);
        Some(())
    }

    /// Notifies the device of new buffers in a queue.
    pub fn notify(self, number: u32) {
        self.set16(QUEUE_SELECT, number as u16);
        let offset = usize::from(self.get16(QUEUE_NOTIFY_OFFSET)) * self.stride;
        // SAFETY: as above; the device has given this offset for the queue.
        unsafe { ((self.notify + offset) as *mut u16).write_volatile(number as u16) };
    }

    fn register(self, offset: usize) -> usize {
        self.common + offset
    }

    fn get16(self, offset: usize) -> u16 {
        // SAFETY: as above.
        unsafe { (self.register(offset) as *const u16).read_volatile() }
    }

    fn set16(self, offset: usize, value: u16) {
        // SAFETY: as above.
        unsafe { (self.register(offset) as *mut u16).write_volatile(value) };
    }

    fn set(self, offset: usize, value: u32) {
        // SAFETY: as above.
        unsafe { (self.register(offset) as *mut u32).write_volatile(value) };
    }
}
