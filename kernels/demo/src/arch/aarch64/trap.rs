//! Dispatch of interrupts and exceptions.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::sample::Registers;
use kymo::vocabulary::FaultCause;

use super::{firmware, gic, hart, pmu, serial, timer};
use crate::process::Start;
use crate::sampling::{self, Place};
use crate::syscall::Outcome;
use crate::{MAX_HARTS, interrupt, process, space, syscall, uart};

core::arch::global_asm!(
    include_str!("trap.s"),
    trap = sym trap,
    frame = const size_of::<Frame>(),
    exception = const EXCEPTION,
    interrupt = const INTERRUPT,
    other = const OTHER,
);

/// The registers that a trap saves, in the layout of trap.s.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// x0 to x30.
    pub registers: [usize; 31],
    /// `sp_el0`, the program's stack pointer.
    pub stack: usize,
    /// `elr_el1`, the address at which the code continues.
    pub pc: usize,
    /// `spsr_el1`.
    pub status: usize,
    /// `icc_pmr_el1`: which interrupts are masked.
    pub mask: usize,
    unused: usize,
}

// The stack must be a multiple of 16.
const _: () = assert!(size_of::<Frame>().is_multiple_of(16));

const FP: usize = 29;

impl Frame {
    /// Where the interrupted code was.
    pub fn place(&self) -> Place {
        Place {
            registers: Registers {
                ip: self.pc,
                fp: self.registers[FP],
            },
            is_user: !self.is_kernels(),
        }
    }

    /// Whether the interrupted code was the kernel's.
    fn is_kernels(&self) -> bool {
        /// The exception level, and which stack pointer it uses.
        const MODE: usize = 0xF;
        self.status & MODE != 0
    }

    /// The frame with which a program starts.
    pub fn at(start: Start) -> Frame {
        /// In user mode, only interrupts are on.
        const STATUS: usize = 0b1101 << 6;
        let mut registers = [0; 31];
        registers[..2].copy_from_slice(&start.arguments);
        Frame {
            registers,
            stack: start.stack,
            pc: start.entry,
            status: STATUS,
            mask: gic::UNMASKED as usize,
            unused: 0,
        }
    }
}

/// The kinds of entries in trap.s.
const EXCEPTION: usize = 0;
const INTERRUPT: usize = 1;
const OTHER: usize = 2;

/// Classes of exceptions in `esr_el1`: a call, and faults at the fetch of code and at an access,
/// each by a program.
const CALL: usize = 0x15;
const FETCH_ABORT: usize = 0x20;
const DATA_ABORT: usize = 0x24;

/// trap.s calls this for every trap, with all interrupts masked.
extern "C" fn trap(frame: &mut Frame, kind: usize) {
    let irq = match kind {
        INTERRUPT => match gic::claim() {
            Some(irq) => Some(irq),
            None => return,
        },
        _ => None,
    };
    if irq == Some(gic::PSEUDO_NMI) {
        nmi(frame);
        gic::complete(gic::PSEUDO_NMI);
        return;
    }
    // Before a pseudo-NMI changes them.
    let (syndrome, address) = (syndrome(), fault_address());
    let kernel = frame.is_kernels();
    super::mask();
    // SAFETY: interrupts but pseudo-NMIs are masked by their priority.
    unsafe { asm!("msr daifclr, 2") };
    match (irq, syndrome >> 26) {
        (Some(gic::SOFTWARE), _) => {
            gic::complete(gic::SOFTWARE);
            interrupt::asked(gic::SOFTWARE, &frame.place());
        }
        (Some(timer::IRQ), _) => {
            gic::complete(timer::IRQ);
            interrupt::timer(timer::IRQ, &frame.place());
        }
        (Some(pmu::IRQ), _) => {
            sampling::on_overflow(&frame.place());
            // The counters interrupt until their overflows are cleared.
            gic::complete(pmu::IRQ);
        }
        (Some(serial::IRQ), _) => interrupt::handle(serial::IRQ, uart::interrupt),
        (Some(irq), _) => panic!("interrupt {irq}, which nobody uses"),
        (None, CALL) if !kernel => call(frame),
        (None, FETCH_ABORT | DATA_ABORT) if !kernel && is_page_fault(syndrome) => {
            space::fault(address, frame.pc, fault_cause(syndrome));
        }
        (None, class) if !kernel => process::exception(class as u32, frame.pc, syndrome),
        _ if firmware::was_asked() => firmware::switch_off(),
        (None, class) => {
            let pc = frame.pc;
            panic!(
                "exception {class:#x} (entry {kind}) on hart {} at {pc:#x}, syndrome \
                 {syndrome:#x}, address {address:#x}",
                hart()
            );
        }
    }
    interrupt::leave();
    if !kernel {
        process::leave();
    }
}

/// Pseudo-NMIs by hart: of programs, of the kernel with interrupts on, and with interrupts masked.
static NMIS: [[AtomicU64; 3]; MAX_HARTS] = [const { [const { AtomicU64::new(0) }; 3] }; MAX_HARTS];

/// A pseudo-NMI, which the processor keeps from being interrupted.
fn nmi(frame: &Frame) {
    if sampling::on_request(&frame.place()) {
        return;
    }
    interrupt::handle(gic::PSEUDO_NMI, || {
        let place = match (frame.is_kernels(), frame.mask as u64) {
            (false, _) => 0,
            (true, gic::UNMASKED) => 1,
            (true, _) => 2,
        };
        let count = &NMIS[hart()][place];
        count.store(count.load(Relaxed) + 1, Relaxed);
    });
}

/// A hart's pseudo-NMIs so far: in the kernel, and in programs.
pub fn count_nmis(hart: usize) -> [u64; 2] {
    let [programs, on, masked] = NMIS[hart].each_ref().map(|count| count.load(Relaxed));
    [on + masked, programs]
}

/// Pseudo-NMIs of all harts in the kernel where interrupts are masked.
pub fn count_nmis_between() -> u64 {
    NMIS.iter().map(|[.., masked]| masked.load(Relaxed)).sum()
}

/// What is known of the last exception.
fn syndrome() -> usize {
    let syndrome;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, esr_el1", out(reg) syndrome, options(nomem, nostack, preserves_flags)) };
    syndrome
}

/// The address of the last fault.
fn fault_address() -> usize {
    let address;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, far_el1", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

/// Whether a fault is one of translation, or of permission; there are others, as of alignment.
fn is_page_fault(syndrome: usize) -> bool {
    matches!(syndrome & 0b11_1100, 0b00_0100 | 0b00_1100)
}

fn fault_cause(syndrome: usize) -> FaultCause {
    const WRITE: usize = 1 << 6;
    if syndrome >> 26 == FETCH_ABORT {
        FaultCause::Fetch
    } else if syndrome & WRITE != 0 {
        FaultCause::Store
    } else {
        FaultCause::Load
    }
}

/// A system call: its number is in x8, its arguments in x0 to x4; its result goes to x0.
fn call(frame: &mut Frame) {
    let [a, b, c, d, e, _, _, _, number, ..] = frame.registers;
    match syscall::call(number, [a, b, c, d, e]) {
        Outcome::Value(value) => frame.registers[0] = value as usize,
        Outcome::Start(start) => *frame = Frame::at(start),
    }
}
