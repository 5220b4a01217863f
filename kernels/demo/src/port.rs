//! The port to the host: port 1 of a virtio console (Virtual I/O Device 1.2, 5.3), which QEMU calls
//! `virtserialport`. Writers wait until the host takes their bytes.

use kymo::vocabulary::Pid;

use crate::abi::Error;
use crate::lock::Spin;
use crate::sched::SCHEDULER;
use crate::virtio::{Device, End, For, Queue};
use crate::{process, space, thread};

const CONSOLE: u32 = 3;
/// The feature of several ports and control messages.
const MULTIPORT: u64 = 1 << 1;

/// The queues of control messages and of port 1.
const CONTROL_IN: u32 = 2;
const CONTROL_OUT: u32 = 3;
const IN: u32 = 4;
const OUT: u32 = 5;

/// Events of control messages.
const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;
const PORT: u32 = 1;

/// Size of an output or input buffer, in bytes.
const OUT_BYTES: usize = 32 << 10;
const IN_BYTES: usize = 256;
/// A control message, which a name may follow.
const MESSAGE: usize = 64;
const MESSAGES: usize = 8;

static CONTROL_IN_QUEUE: Queue<MESSAGES, MESSAGE> = Queue::new();
static CONTROL_OUT_QUEUE: Queue<MESSAGES, MESSAGE> = Queue::new();
static IN_QUEUE: Queue<1, IN_BYTES> = Queue::new();
static OUT_QUEUE: Queue<1, OUT_BYTES> = Queue::new();

/// Polling interval for the host to take output, in microseconds.
const PATIENCE: u64 = 100;

struct Console {
    device: Device,
    control_in: End<MESSAGES, MESSAGE>,
    control_out: End<MESSAGES, MESSAGE>,
    /// Control messages sent.
    sent: usize,
    input: End<1, IN_BYTES>,
    output: End<1, OUT_BYTES>,
    /// Whether the device has the output buffer.
    is_sending: bool,
    /// Unread input.
    came: core::ops::Range<usize>,
    /// Whether the machine has the port, and whether the host has opened it.
    is_there: bool,
    is_open: bool,
    /// The process that used it last, so that two cannot mix their data.
    user: Option<Pid>,
}

/// `None` if the machine has no such device.
static CONSOLE_DEVICE: Spin<Option<Console>> = Spin::new(None);

/// Looks for the device. Called once.
pub fn init() {
    *CONSOLE_DEVICE.lock() = Console::open();
}

impl Console {
    fn open() -> Option<Console> {
        let device = Device::open(CONSOLE, MULTIPORT)?;
        device.add(CONTROL_IN, &CONTROL_IN_QUEUE)?;
        device.add(CONTROL_OUT, &CONTROL_OUT_QUEUE)?;
        device.add(IN, &IN_QUEUE)?;
        device.add(OUT, &OUT_QUEUE)?;
        // SAFETY: this is called once.
        let (control_in, control_out, input, output) = unsafe {
            (
                End::new(&CONTROL_IN_QUEUE),
                End::new(&CONTROL_OUT_QUEUE),
                End::new(&IN_QUEUE),
                End::new(&OUT_QUEUE),
            )
        };
        let mut console = Console {
            device,
            control_in,
            control_out,
            sent: 0,
            input,
            output,
            is_sending: false,
            came: 0..0,
            is_there: false,
            is_open: false,
            user: None,
        };
        device.begin();
        (0..MESSAGES).for_each(|index| console.control_in.offer(index, For::Writing));
        device.notify(CONTROL_IN);
        console.input.offer(0, For::Writing);
        device.notify(IN);
        console.tell(u32::MAX, DEVICE_READY);
        console.listen();
        Some(console)
    }

    /// Sends a control message whose value is 1.
    fn tell(&mut self, port: u32, event: u16) {
        // The device takes each at once, and there are more buffers than consecutive messages.
        while self.control_out.take().is_some() {}
        let index = self.sent % MESSAGES;
        self.sent += 1;
        // SAFETY: as above, the device is done with this buffer.
        let buffer = unsafe { self.control_out.buffer(index) };
        buffer[..4].copy_from_slice(&port.to_le_bytes());
        buffer[4..6].copy_from_slice(&event.to_le_bytes());
        buffer[6..8].copy_from_slice(&1_u16.to_le_bytes());
        self.control_out.offer(index, For::Reading(8));
        self.device.notify(CONTROL_OUT);
    }

    /// Handles the device's control messages.
    fn listen(&mut self) {
        while let Some((index, _)) = self.control_in.take() {
            // SAFETY: taken back just now.
            let &mut [p0, p1, p2, p3, e0, e1, v0, v1, ..] =
                unsafe { self.control_in.buffer(index) };
            self.control_in.offer(index, For::Writing);
            self.device.notify(CONTROL_IN);
            let (port, event) = (
                u32::from_le_bytes([p0, p1, p2, p3]),
                u16::from_le_bytes([e0, e1]),
            );
            match (port, event) {
                (PORT, PORT_ADD) => {
                    self.is_there = true;
                    self.tell(PORT, PORT_READY);
                    self.tell(PORT, PORT_OPEN);
                }
                (PORT, PORT_OPEN) => self.is_open = [v0, v1] != [0, 0],
                _ => {}
            }
        }
    }

    /// Whether the output buffer is free.
    fn can_send(&mut self) -> bool {
        if self.is_sending && self.output.take().is_some() {
            self.is_sending = false;
        }
        !self.is_sending
    }
}

/// Calls `act` with the port, if there is one. The port then belongs to the running process until
/// that ends.
fn with<T>(work: impl FnOnce(&mut Console) -> Result<T, Error>) -> Result<T, Error> {
    let pid = SCHEDULER.lock().running().pid;
    let mut console = CONSOLE_DEVICE.lock();
    let console = console.as_mut().ok_or(Error::NoDevice)?;
    console.listen();
    if !console.is_there {
        return Err(Error::NoDevice);
    }
    if console
        .user
        .is_some_and(|user| user != pid && process::is_alive(user))
    {
        return Err(Error::Busy);
    }
    console.user = Some(pid);
    work(console)
}

/// Sends bytes of the running process to the host. Returns when the device is done with all of
/// them. With no bytes, checks whether the host listens.
pub fn write(address: usize, len: usize) -> Result<i64, Error> {
    space::check(address, len, false)?;
    let mut sent = 0;
    loop {
        let part = with(|console| {
            if !console.is_open {
                return Err(Error::NotConnected);
            }
            if !console.can_send() {
                return Ok(None);
            }
            let part = (len - sent).min(OUT_BYTES);
            if part == 0 {
                return Ok(Some(0));
            }
            // SAFETY: the device is done with it.
            let buffer = unsafe { console.output.buffer(0) };
            space::copy_from_user(address + sent, &mut buffer[..part])?;
            console.output.offer(0, For::Reading(part));
            console.is_sending = true;
            console.device.notify(OUT);
            Ok(Some(part))
        })?;
        match part {
            // The device has sent the last part too: what it holds at power-off would be lost.
            Some(0) => return Ok(len as i64),
            Some(part) => sent += part,
            None if process::is_killed() => return Err(Error::Interrupted),
            None => thread::sleep(PATIENCE),
        }
    }
}

/// Reads available bytes from the host, as many as fit. Does not wait.
pub fn read(address: usize, len: usize) -> Result<i64, Error> {
    space::check(address, len, true)?;
    with(|console| {
        if console.came.is_empty()
            && let Some((_, came)) = console.input.take()
        {
            console.came = 0..came;
        }
        let part = console.came.start..console.came.end.min(console.came.start + len);
        if part.is_empty() {
            return Ok(0);
        }
        // SAFETY: the device is done with it until it is offered again.
        let buffer = unsafe { console.input.buffer(0) };
        space::copy_to_user(address, &buffer[part.clone()])?;
        console.came.start = part.end;
        if console.came.is_empty() {
            console.input.offer(0, For::Writing);
            console.device.notify(IN);
        }
        Ok(part.len() as i64)
    })
}
