//! What an event costs: QEMU's plugin counts the instructions of these functions.

use kymo::arch::arm::{Primask, Wide, exception, start_systick, systick};
use kymo::platform::{ByPointer, Masked, Platform};

use crate::{AtRegion, Written};

/// A board whose clock is SysTick.
struct Board;

static CLOCK: Wide = Wide::new();

// SAFETY: see `AtRegion`; nothing interrupts while this runs.
unsafe impl Platform for Board {
    type Reserve = Masked<Primask>;
    type Local = ByPointer<AtRegion>;

    #[inline(always)]
    fn clock() -> u64 {
        CLOCK.read(systick)
    }
    #[inline(always)]
    fn quick_clock() -> u64 {
        CLOCK.read_masked(systick)
    }
    fn synchronize() {}
    fn nesting() -> u32 {
        exception()
    }
}

type Kymo = kymo::Tracer<Board>;

/// Recording calls of each probe.
const ON: u32 = 2000;
/// Calls of each probe that record nothing.
const OFF: u32 = 500;

/// Two fields, masking included.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn kymo_probe_two_fields(writer: u32, seq: u32) {
    if Kymo::is_on::<Written>() {
        Kymo::record(Written { writer, seq });
    }
}

/// Two fields, interrupts masked already.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn kymo_probe_two_fields_masked(writer: u32, seq: u32) {
    if Kymo::is_on::<Written>() {
        // SAFETY: nothing interrupts while this runs.
        unsafe { Kymo::record_masked(Written { writer, seq }) };
    }
}

/// Calls the probes.
///
/// # Errors
/// Those of the session's start and end.
pub fn run() -> Result<(), kymo::Error> {
    // SAFETY: nothing else uses SysTick yet.
    unsafe { start_systick() };
    let config = crate::config();
    let session = Kymo::start(crate::REGION.memory(), &config, &crate::VOCABULARY)?;
    let probes: [extern "C" fn(u32, u32); 2] =
        [kymo_probe_two_fields, kymo_probe_two_fields_masked];
    let call = |times: u32| {
        for probe in probes {
            let probe = core::hint::black_box(probe);
            (0..times).for_each(|turn| probe(turn, turn + 1));
        }
    };
    call(ON);
    session.stop()?;
    call(OFF);
    Ok(())
}
