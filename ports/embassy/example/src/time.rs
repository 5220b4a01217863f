//! Time: a free-running timer of 25 MHz, and another one for the next alarm; both count downwards.
//! CMSDK APB timers, as in Arm's Cortex-M System Design Kit (DDI 0479), section 4.3.

use core::cell::{Cell, RefCell};
use core::task::Waker;

use critical_section::Mutex;
use embassy_time_driver::Driver;
use embassy_time_queue_utils::Queue;

/// Ticks a second.
pub const HZ: u64 = 25_000_000;
/// Ticks of Embassy's clock, which counts microseconds.
const TICKS_PER_MICROSECOND: u64 = HZ / 1_000_000;

/// The free-running timer.
const CLOCK: *mut u32 = 0x4000_0000 as *mut u32;
/// The alarm, interrupt 9.
const ALARM: *mut u32 = 0x4000_1000 as *mut u32;
pub const ALARM_IRQ: u16 = 9;

const CONTROL: usize = 0;
const VALUE: usize = 1;
const RELOAD: usize = 2;
const INTERRUPT: usize = 3;
const ENABLE: u32 = 1;
const ENABLE_WITH_INTERRUPT: u32 = 9;

fn write(timer: *mut u32, register: usize, value: u32) {
    // SAFETY: a register of a timer that only this file uses.
    unsafe { timer.add(register).write_volatile(value) }
}

/// The last value of the clock, and how often it has wrapped.
static WIDE: Mutex<Cell<(u32, u32)>> = Mutex::new(Cell::new((0, 0)));

/// Ticks since the start.
pub fn ticks() -> u64 {
    critical_section::with(|cs| {
        // SAFETY: as in `write`.
        let now = !unsafe { CLOCK.add(VALUE).read_volatile() };
        let (last, mut wraps) = WIDE.borrow(cs).get();
        wraps += u32::from(now < last);
        WIDE.borrow(cs).set((now, wraps));
        u64::from(wraps) << 32 | u64::from(now)
    })
}

struct Alarms {
    queue: Mutex<RefCell<Queue>>,
}

impl Alarms {
    /// Wakes whose time has come, and sets the alarm for the next.
    fn set(&self, queue: &mut Queue) {
        let next = queue.next_expiration(self.now());
        write(ALARM, CONTROL, 0);
        if next != u64::MAX {
            let ticks = next.saturating_sub(self.now()).max(1) * TICKS_PER_MICROSECOND;
            let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
            write(ALARM, RELOAD, ticks);
            write(ALARM, VALUE, ticks);
            write(ALARM, CONTROL, ENABLE_WITH_INTERRUPT);
        }
    }
}

impl Driver for Alarms {
    fn now(&self) -> u64 {
        ticks() / TICKS_PER_MICROSECOND
    }
    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|cs| {
            let mut queue = self.queue.borrow(cs).borrow_mut();
            if queue.schedule_wake(at, waker) {
                self.set(&mut queue);
            }
        });
    }
}

embassy_time_driver::time_driver_impl!(static ALARMS: Alarms = Alarms {
    queue: Mutex::new(RefCell::new(Queue::new()))
});

/// Starts the clock.
pub fn start() {
    write(CLOCK, RELOAD, u32::MAX);
    write(CLOCK, VALUE, u32::MAX);
    write(CLOCK, CONTROL, ENABLE);
}

/// The handler of the alarm's interrupt.
pub fn on_alarm() {
    write(ALARM, INTERRUPT, 1);
    critical_section::with(|cs| ALARMS.set(&mut ALARMS.queue.borrow(cs).borrow_mut()));
}
