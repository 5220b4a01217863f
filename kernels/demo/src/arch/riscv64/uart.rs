//! The serial port (an ns16550), sending by interrupts: one for each byte, each on the next hart.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::plic;
use crate::lock::Spin;
use crate::mutex::Mutex;
use crate::semaphore::Semaphore;
use crate::workload::compute_for;

/// Its registers, of a byte each, and its number at the interrupt controller.
pub const BASE: usize = 0x1000_0000;
pub const SOURCE: u32 = 10;
const DATA: usize = 0;
const INTERRUPTS: usize = 1;
/// Interrupt when a byte can be sent.
const CAN_SEND: u8 = 1 << 1;

/// Bytes of a line at most.
pub const LINE: usize = 80;

struct Output {
    line: [u8; LINE],
    sent: usize,
    len: usize,
}

static OUTPUT: Spin<Output> = Spin::new(Output {
    line: [0; LINE],
    sent: 0,
    len: 0,
});
/// Who sends a line.
static SENDER: Mutex = Mutex::new("uart");
/// A line is sent.
static SENT: Semaphore = Semaphore::new("uart_sent", 0);
static HARTS: AtomicUsize = AtomicUsize::new(1);
/// How long the handler computes besides, in microseconds.
static WORK: AtomicU64 = AtomicU64::new(0);

fn set(register: usize, value: u8) {
    // SAFETY: a register of the device, which is mapped.
    unsafe { ((BASE + register) as *mut u8).write_volatile(value) };
}

/// Has its interrupts go to this hart first, then to the others in turn.
pub fn init(harts: usize) {
    HARTS.store(harts, Relaxed);
    plic::route(SOURCE, super::hart(), super::hart());
}

/// Has the handler compute besides, for so many microseconds: a driver that does in it what it
/// should do later.
pub fn burden(us: u64) {
    WORK.store(us, Relaxed);
}

/// Sends a line of at most [`LINE`] bytes, and sleeps meanwhile.
pub fn send(line: &[u8]) {
    let sender = SENDER.lock();
    {
        let mut output = OUTPUT.lock();
        let len = line.len().min(LINE);
        output.line[..len].copy_from_slice(&line[..len]);
        (output.sent, output.len) = (0, len);
        if len == 0 {
            return;
        }
        set(INTERRUPTS, CAN_SEND);
    }
    SENT.down();
    drop(sender);
}

/// Its interrupt: a byte can be sent.
pub fn interrupt() {
    compute_for(WORK.load(Relaxed));
    let mut output = OUTPUT.lock();
    let (byte, last) = (output.line[output.sent], output.sent + 1 == output.len);
    output.sent += 1;
    if last {
        set(INTERRUPTS, 0);
    }
    set(DATA, byte);
    plic::complete(SOURCE);
    let here = super::hart();
    plic::route(SOURCE, here, (here + 1) % HARTS.load(Relaxed));
    drop(output);
    if last {
        SENT.up_from_interrupt();
    }
}
