//! The counters of a hart, by the firmware.

use core::arch::asm;

use kymo::count::pmu::riscv::{EXTENSION, Firmware, Sbi};

/// This hart's counters.
pub type Pmu = Sbi<Hart>;

/// The counters of this hart, all stopped.
pub fn new() -> Pmu {
    Sbi::new(Hart)
}

/// This hart.
#[derive(Debug)]
pub struct Hart;

impl Firmware for Hart {
    fn call(&self, function: usize, arguments: [usize; 5]) -> Result<usize, isize> {
        let (error, value): (isize, usize);
        let [first, second, third, fourth, fifth] = arguments;
        // SAFETY: an SBI call changes only a0 and a1, and none of the extension's functions that
        // the driver calls is passed memory.
        unsafe {
            asm!(
                "ecall",
                inlateout("a0") first => error,
                inlateout("a1") second => value,
                in("a2") third,
                in("a3") fourth,
                in("a4") fifth,
                in("a6") function,
                in("a7") EXTENSION,
                options(nostack),
            );
        }
        match error {
            0 => Ok(value),
            error => Err(error),
        }
    }

    fn read(&self, counter: u32) -> u64 {
        macro_rules! read {
            ($($number:literal)*) => {
                match counter {
                    $($number => {
                        let value;
                        // SAFETY: reads a counter that the firmware has.
                        unsafe {
                            asm!(
                                "csrr {}, {}",
                                out(reg) value,
                                const 0xC00 + $number,
                                options(nomem, nostack),
                            )
                        };
                        value
                    })*
                    _ => 0,
                }
            };
        }
        read!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    }

    fn overflowed(&self) -> u64 {
        // The machine is not asked for Sscofpmf: no counter interrupts.
        0
    }

    fn interrupts(&self) -> bool {
        false
    }

    fn end_interrupt(&self) {}
}
