//! An application on Embassy: a sensor that is read every 2 ms, a filter behind it, a worker that
//! yields, and an urgent task, which interrupts the others. Each counts how often it is polled.
#![no_std]
#![no_main]

mod time;
// port: begin
mod trace;
// port: end

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::NVIC;
use cortex_m_rt::{entry, exception};
use cortex_m_semihosting::{debug, hprintln};
use embassy_executor::{Executor, InterruptExecutor};
use embassy_futures::yield_now;
use embassy_sync::blocking_mutex::raw::CriticalSectionRawMutex;
use embassy_sync::channel::Channel;
use embassy_sync::signal::Signal;
use embassy_time::{Duration, Ticker};
// port: begin
use kymo::transport::Sent;
use kymo::vocabulary::{IrqEnter, IrqExit};
use kymo::{Irq, trace};
use kymo_embassy::named;
use trace::Board;
// port: end

// port: begin
type Kymo = kymo::Tracer<Board>;
// port: end

const READINGS: u32 = 100;
const ROUNDS: u32 = 40;

/// The interrupt in which the urgent task runs.
#[derive(Clone, Copy)]
struct UrgentIrq;

const URGENT_IRQ: u16 = 20;

// SAFETY: a number of this processor's interrupts, and the one that it stands for.
unsafe impl InterruptNumber for UrgentIrq {
    fn number(self) -> u16 {
        URGENT_IRQ
    }
}

/// The alarm's interrupt.
#[derive(Clone, Copy)]
struct AlarmIrq;

// SAFETY: as above.
unsafe impl InterruptNumber for AlarmIrq {
    fn number(self) -> u16 {
        time::ALARM_IRQ
    }
}

static URGENT: InterruptExecutor = InterruptExecutor::new();
static VALUES: Channel<CriticalSectionRawMutex, u32, 4> = Channel::new();
static ALERT: Signal<CriticalSectionRawMutex, u32> = Signal::new();

/// What a task has counted itself.
struct Polls {
    name: &'static str,
    polls: AtomicU32,
}

impl Polls {
    const fn of(name: &'static str) -> Polls {
        Polls {
            name,
            polls: AtomicU32::new(0),
        }
    }

    /// Counts how often a future is polled.
    async fn count(&self, future: impl Future<Output = ()>) {
        let mut future = pin!(future);
        poll_fn(|context| {
            self.polls.fetch_add(1, Relaxed);
            future.as_mut().poll(context)
        })
        .await;
        FINISHED.fetch_add(1, Relaxed);
    }
}

static POLLS: [Polls; 5] = [
    Polls::of("sensor"),
    Polls::of("filter"),
    Polls::of("worker 1"),
    Polls::of("worker 2"),
    Polls::of("urgent"),
];
static FINISHED: AtomicU32 = AtomicU32::new(0);
static ALARM_COUNT: AtomicU32 = AtomicU32::new(0);

fn is_done() -> bool {
    FINISHED.load(Relaxed) == POLLS.len() as u32
}

#[embassy_executor::task]
async fn sensor() {
    let readings = async {
        let mut ticker = Ticker::every(Duration::from_millis(2));
        for reading in 0..READINGS {
            ticker.next().await;
            VALUES.send(reading * reading % 97).await;
        }
    };
    POLLS[0].count(readings).await;
}

#[embassy_executor::task]
async fn filter() {
    let sums = async {
        let mut sum = 0;
        for _ in 0..READINGS {
            sum += VALUES.receive().await;
        }
        hprintln!("sum {}", sum);
    };
    POLLS[1].count(sums).await;
}

/// Each round interrupts the worker itself, by the urgent task.
#[embassy_executor::task(pool_size = 2)]
async fn worker(number: usize) {
    let rounds = async {
        for round in 0..ROUNDS {
            ALERT.signal(round);
            yield_now().await;
        }
    };
    POLLS[1 + number].count(rounds).await;
}

#[embassy_executor::task]
async fn urgent() {
    let alerts = async {
        for _ in 0..2 * ROUNDS {
            ALERT.wait().await;
        }
    };
    POLLS[4].count(alerts).await;
}

#[exception]
unsafe fn DefaultHandler(exception: i16) {
    // port: begin
    let irq = Irq(16 + exception as u32);
    trace!(IrqEnter { irq });
    // port: end
    match exception as u16 {
        time::ALARM_IRQ => {
            ALARM_COUNT.fetch_add(1, Relaxed);
            time::on_alarm();
        }
        // SAFETY: `main` has started it before the interrupt was enabled.
        URGENT_IRQ => unsafe { URGENT.on_interrupt() },
        _ => debug::exit(debug::EXIT_FAILURE),
    }
    // port: begin
    trace!(IrqExit { irq });
    // port: end
}

#[entry]
fn main() -> ! {
    time::start();
    // port: begin
    let sender = trace::start();
    // port: end
    let urgent_spawner = URGENT.start(UrgentIrq);
    // SAFETY: nothing relies on the interrupt being masked.
    unsafe { NVIC::unmask(AlarmIrq) };
    // port: begin
    urgent_spawner.spawn(named::<Board, _>("urgent", urgent().unwrap()));
    // port: end
    let executor = cortex_m::singleton!(: Executor = Executor::new()).unwrap();
    executor.run(|spawner| {
        // port: begin
        spawner.spawn(named::<Board, _>("sensor", sensor().unwrap()));
        spawner.spawn(named::<Board, _>("filter", filter().unwrap()));
        spawner.spawn(named::<Board, _>("worker 1", worker(1).unwrap()));
        spawner.spawn(named::<Board, _>("worker 2", worker(2).unwrap()));
        spawner.spawn(named::<Board, _>("send", trace::send(sender).unwrap()));
        // port: end
    })
}

/// Prints what the application has counted itself, and ends.
fn results(is_sent: bool, sent: Sent) {
    for Polls { name, polls } in &POLLS {
        hprintln!("polls {} = {}", name, polls.load(Relaxed));
    }
    hprintln!("alarms = {}", ALARM_COUNT.load(Relaxed));
    hprintln!("frames = {}", sent.frames);
    hprintln!("dropped frames = {}", sent.dropped_frames);
    let status = if is_sent {
        debug::EXIT_SUCCESS
    } else {
        debug::EXIT_FAILURE
    };
    debug::exit(status);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    loop {
        debug::exit(debug::EXIT_FAILURE);
    }
}
