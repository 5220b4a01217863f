//! docs/src/recipes.md, but for the kernel like xv6.

fn read_the_time() {
    use core::arch::asm;

    // In M-mode, with `use core::arch::asm;`.
    // SAFETY: bit 1 lets supervisor mode read `time`.
    unsafe { asm!("csrs mcounteren, {}", in(reg) 1 << 1) };
}

fn a_small_target() {
    use kymo::vocabulary::{IrqEnter, IrqExit, SchedSwitch, ThreadName};

    kymo::event! {
        /// The sensor has a value.
        #[id(21)]
        pub struct Sample { pub value: u32 }
    }
    static VOCABULARY: kymo::Vocabulary =
        kymo::vocabulary![SchedSwitch, IrqEnter, IrqExit, ThreadName, Sample];
    static REGION: kymo::RegionMemory<{ 16 << 10 }, 1> = kymo::RegionMemory::new();
    static HISTORY: kymo::History = kymo::History::new(REGION.memory(), &VOCABULARY);

    let config = kymo::Config {
        packet_size: 256,
        packets: 8,
        names_packets: 4,
        clock: kymo::Clock::at(32_768),
        phys: &raw const REGION as u64,
        ..kymo::Config::DEFAULT
    };
}
