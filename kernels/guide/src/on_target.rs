//! docs/src/on-target.md.

use core::fmt;

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![kymo::vocabulary::ALL;];
static REGION: kymo::RegionMemory<{ 1 << 20 }, 8> = kymo::RegionMemory::new();

struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

#[allow(non_upper_case_globals)]
const serial: Serial = Serial;

fn mask_interrupts() {}

fn this_cpu() -> u32 {
    0
}

static HISTORY: kymo::History = kymo::History::new(REGION.memory(), &VOCABULARY);

fn print() -> fmt::Result {
    HISTORY.dump(&mut serial, 32)?;     // serial: any core::fmt::Write
    Ok(())
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    mask_interrupts();
    // .. print info ..
    let _ = HISTORY.dump_on_panic(&mut serial, this_cpu(), 32);
    loop {}
}
