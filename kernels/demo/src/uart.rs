//! The serial port, which sends by interrupts: one per byte, each on the next hart.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::arch::{self, serial};
use crate::lock::Spin;
use crate::mutex::Mutex;
use crate::semaphore::Semaphore;
use crate::workload::compute_for;

/// Most bytes of a line.
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
/// The right to send a line.
static SENDER: Mutex = Mutex::new("uart");
/// Signals that a line is sent.
static SENT: Semaphore = Semaphore::new("uart_sent", 0);
static HARTS: AtomicUsize = AtomicUsize::new(1);
/// Additional computing time of the handler, in microseconds.
static WORK: AtomicU64 = AtomicU64::new(0);

pub use crate::arch::serial::receive;

/// Routes its interrupts to this hart first, then to the others in turn.
pub fn init(harts: usize) {
    HARTS.store(harts, Relaxed);
    serial::route_here();
}

/// Lets the handler compute for this many microseconds, like a driver that does work which it
/// should defer.
pub fn burden(us: u64) {
    WORK.store(us, Relaxed);
}

/// Sends a line of at most [`LINE`] bytes and sleeps until it is sent.
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
        serial::interrupt_when_free(true);
    }
    SENT.down();
    drop(sender);
}

/// Handles its interrupt: a byte can be sent.
pub fn interrupt() {
    compute_for(WORK.load(Relaxed));
    let mut output = OUTPUT.lock();
    let (byte, last) = (output.line[output.sent], output.sent + 1 == output.len);
    output.sent += 1;
    if last {
        serial::interrupt_when_free(false);
    }
    serial::send(byte);
    serial::complete((arch::hart() + 1) % HARTS.load(Relaxed));
    drop(output);
    if last {
        SENT.up_from_interrupt();
    }
}
