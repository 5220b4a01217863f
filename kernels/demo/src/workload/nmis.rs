//! NMIs, which come at any instruction and also where interrupts are masked: a thread sends them to
//! all harts while processes make calls, fault and exchange messages.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{compute, faults, ipc};
use crate::console::println;
use crate::{arch, smp, thread};

/// Number of NMIs of a hart in a row, and the time between two rows in microseconds: two ticks or
/// more, so that the processes get on.
const BURST: usize = 400;
const PAUSE: u64 = 2_000;

/// Least number of NMIs at the places of the kernel that [`arch::NMIS_BETWEEN`] names.
const BETWEEN: u64 = 10;

static ENOUGH: AtomicBool = AtomicBool::new(false);

pub fn run(rounds: u32) {
    ENOUGH.store(false, Relaxed);
    let sender = thread::spawn("nmis", 9, sends, 0);
    loop {
        faults::run(rounds);
        ipc::run(rounds);
        // On one hart, they all come where it sends them.
        if smp::count_online() == 1 || arch::count_nmis_between() >= BETWEEN {
            break;
        }
    }
    ENOUGH.store(true, Relaxed);
    thread::join(sender);
    let counts = (0..arch::harts()).map(arch::count_nmis);
    let [kernel, user] = counts.fold([0, 0], |sum, [kernel, user]| {
        [sum[0] + kernel, sum[1] + user]
    });
    println!(
        "demo: {kernel} NMIs in the kernel, {} of them {}, and {user} in programs",
        arch::count_nmis_between(),
        arch::NMIS_BETWEEN
    );
}

/// Sends itself NMIs too, which come in the kernel's code that sends them.
fn sends(_: usize) {
    while !ENOUGH.load(Relaxed) {
        for _ in 0..BURST {
            (0..smp::count_online()).for_each(arch::send_nmi);
            compute(3_000);
        }
        thread::sleep(PAUSE);
    }
}
