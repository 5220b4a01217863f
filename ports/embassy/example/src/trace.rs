//! What Kymo adds to the application, besides the marked lines of the other files.

use cortex_m::singleton;
use embassy_time::Timer;
use kymo::transport::rtt::{Rtt, Up, UpMemory};
use kymo::transport::{Sender, WhenFull};
use kymo::vocabulary::{IrqEnter, IrqExit, IrqName};
use kymo::{Config, Mode};
use kymo_embassy::Board as _;

use crate::time;

// SAFETY: the clock records nothing, and neither do faults.
kymo_embassy::port!(unsafe impl Platform for Board {
    clock: time::ticks,
    events: [IrqEnter, IrqExit, IrqName],
    interrupts: [(25, "alarm"), (36, "urgent")],
    memory: 128 << 10,
    tasks: 8,
});

/// Begins to record.
pub fn start() -> Sender<Up<'static>> {
    let block = singleton!(: Rtt<1> = Rtt::new()).unwrap();
    let memory = singleton!(: UpMemory<4096> = UpMemory::new()).unwrap();
    let [up] = block.start([("Kymo", memory.bytes())]);
    let mut sender = Sender::new(up, WhenFull::Drop, 1024);
    let config = Config {
        // Room for all that is recorded, however late the host reads it.
        packets: 192,
        ..Board::config(time::HZ)
    };
    let started = Board::recorder().start(Mode::Trace as u32, 0, Some(&config));
    sender.open_session(&started.unwrap()).unwrap();
    sender
}

/// Sends what was recorded, until the application is done.
#[embassy_executor::task]
pub async fn send(mut sender: Sender<Up<'static>>) {
    let (recorder, mut buffer) = (Board::recorder(), [0; 256]);
    while !crate::is_done() {
        Timer::after_millis(5).await;
        sender.pump(recorder, Mode::Trace, &mut buffer).unwrap();
    }
    let end = time::ticks() + 100 * time::HZ;
    let ended = sender.finish(recorder, Mode::Trace, &mut buffer, || time::ticks() < end);
    crate::results(ended.is_ok(), sender.sent());
}
