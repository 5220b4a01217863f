//! Dispatch of interrupts and exceptions.

use kymo::count::pmu::riscv::OVERFLOW_INTERRUPT;
use kymo::sample::Registers;
use kymo::vocabulary::FaultCause;

use super::{disarm_software, hart, plic, serial};
use crate::process::Start;
use crate::sampling::{self, Place};
use crate::syscall::Outcome;
use crate::{interrupt, process, space, syscall, uart};

/// The registers that a trap saves, in the layout of trap.s.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// x0 to x31; x0 is unused.
    pub registers: [usize; 32],
    /// `sepc`, the address at which the code continues.
    pub pc: usize,
    /// `sstatus`.
    pub status: usize,
}

const SP: usize = 2;
const FP: usize = 8;
const A0: usize = 10;

impl Frame {
    /// Where the interrupted code was.
    pub fn place(&self) -> Place {
        Place {
            registers: Registers {
                ip: self.pc,
                fp: self.registers[FP],
            },
            is_user: self.status & FROM_KERNEL == 0,
        }
    }

    /// The frame with which a program starts.
    pub fn at(start: Start, status: usize) -> Frame {
        let mut registers = [0; 32];
        [registers[SP], registers[A0], registers[A0 + 1]] =
            [start.stack, start.arguments[0], start.arguments[1]];
        Frame {
            registers,
            pc: start.entry,
            status,
        }
    }
}

const INTERRUPT: usize = 1 << (usize::BITS - 1);
pub const SOFTWARE: usize = 1;
pub const TIMER: usize = 5;
pub const EXTERNAL: usize = 9;
/// First number of devices' interrupts, to which their source at the interrupt controller is added.
pub const FIRST_SOURCE: u32 = 16;
/// A call from user mode.
const ECALL: usize = 8;
/// `sstatus`: the trap came from the kernel.
const FROM_KERNEL: usize = 1 << 8;

/// trap.s calls this for every trap, with interrupts masked.
pub extern "C" fn trap(frame: &mut Frame, cause: usize, value: usize) {
    let kernel = frame.status & FROM_KERNEL != 0;
    match cause {
        _ if cause == INTERRUPT | SOFTWARE => {
            disarm_software();
            interrupt::asked(SOFTWARE as u32, &frame.place());
        }
        _ if cause == INTERRUPT | TIMER => interrupt::timer(TIMER as u32, &frame.place()),
        _ if cause == INTERRUPT | OVERFLOW_INTERRUPT as usize => {
            sampling::on_overflow(&frame.place());
        }
        _ if cause == INTERRUPT | EXTERNAL => {
            // None if another hart was faster.
            if let Some(source) = plic::claim() {
                assert_eq!(
                    source,
                    serial::SOURCE,
                    "a device interrupts that nobody uses"
                );
                interrupt::handle(FIRST_SOURCE + source, uart::interrupt);
            }
        }
        ECALL if !kernel => call(frame),
        _ if !kernel => match fault_cause(cause) {
            Some(access) => space::fault(value, frame.pc, access),
            None => process::exception(cause as u32, frame.pc, value),
        },
        _ => {
            let pc = frame.pc;
            panic!(
                "exception {cause} on hart {} at {pc:#x}, value {value:#x}",
                hart()
            );
        }
    }
    interrupt::leave();
    if !kernel {
        process::leave();
    }
}

fn fault_cause(cause: usize) -> Option<FaultCause> {
    match cause {
        12 => Some(FaultCause::Fetch),
        13 => Some(FaultCause::Load),
        15 => Some(FaultCause::Store),
        _ => None,
    }
}

/// A system call: its number is in a7, arguments in a0 to a4, its result goes to a0.
fn call(frame: &mut Frame) {
    let registers = &frame.registers;
    match syscall::call(
        registers[A0 + 7],
        core::array::from_fn(|index| registers[A0 + index]),
    ) {
        Outcome::Value(value) => {
            frame.registers[A0] = value as usize;
            frame.pc += 4;
        }
        Outcome::Start(start) => *frame = Frame::at(start, frame.status),
    }
}
