//! Dispatch of interrupts and exceptions.

use core::arch::asm;
use core::mem::{offset_of, size_of};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kymo::sample::Registers;
use kymo::vocabulary::FaultCause;

use super::{PerHart, apic, hart, segments, serial};
use crate::process::Start;
use crate::sampling::{self, Place};
use crate::syscall::Outcome;
use crate::{MAX_HARTS, interrupt, process, space, syscall, uart};

core::arch::global_asm!(
    include_str!("trap.s"),
    trap = sym trap,
    nmi = sym nmi,
    call = const CALL,
    cs = const offset_of!(TrapFrame, cs),
    rip = const offset_of!(TrapFrame, rip),
    frame = const size_of::<TrapFrame>(),
    stack = const PerHart::KERNEL_STACK,
    between = const offset_of!(PerHart, between),
    options(att_syntax),
);

/// The interrupted code's registers, in the layout of trap.s and the processor.
#[repr(C)]
#[derive(Debug)]
pub struct TrapFrame {
    pub r15: usize,
    pub r14: usize,
    pub r13: usize,
    pub r12: usize,
    pub r11: usize,
    pub r10: usize,
    pub r9: usize,
    pub r8: usize,
    pub rbp: usize,
    pub rdi: usize,
    pub rsi: usize,
    pub rdx: usize,
    pub rcx: usize,
    pub rbx: usize,
    pub rax: usize,
    pub vector: usize,
    /// The processor's error code, 0 for a vector without one.
    pub error: usize,
    /// The address at which the code continues.
    pub rip: usize,
    pub cs: usize,
    pub rflags: usize,
    pub rsp: usize,
    pub ss: usize,
}

// The stack must be a multiple of 16 at a call, and begins at one.
const _: () = assert!(size_of::<TrapFrame>().is_multiple_of(16));

impl TrapFrame {
    /// The frame with which a program starts.
    pub fn at(start: Start) -> TrapFrame {
        TrapFrame {
            r15: 0,
            r14: 0,
            r13: 0,
            r12: 0,
            r11: 0,
            r10: 0,
            r9: 0,
            r8: 0,
            rbp: 0,
            rdi: start.arguments[0],
            rsi: start.arguments[1],
            rdx: 0,
            rcx: 0,
            rbx: 0,
            rax: 0,
            vector: CALL,
            error: 0,
            rip: start.entry,
            cs: segments::USER_CODE,
            rflags: super::INTERRUPTS_ON,
            // As if a call had pushed the address to which it returns.
            rsp: start.stack - 8,
            ss: segments::USER_DATA,
        }
    }

    /// Where the interrupted code was.
    pub fn place(&self) -> Place {
        Place {
            registers: Registers {
                ip: self.rip,
                fp: self.rbp,
            },
            is_user: !self.is_kernels(),
        }
    }

    /// Whether the interrupted code was the kernel's.
    pub fn is_kernels(&self) -> bool {
        self.cs & 3 == 0
    }
}

pub const NMI: usize = 2;
const PAGE_FAULT: usize = 14;
/// A call from user mode.
pub const CALL: usize = 0x80;
/// The vectors of interrupts: another hart, the timer, the serial port (as on old PCs, number 4 of
/// the devices), and an interrupt that was withdrawn.
pub const SOFTWARE: usize = 33;
pub const TIMER: usize = 34;
pub const SPURIOUS: usize = 35;
pub const SERIAL: usize = 36;

/// trap.s calls this for every trap but NMIs, with interrupts masked.
extern "C" fn trap(frame: &mut TrapFrame) {
    let kernel = frame.is_kernels();
    match frame.vector {
        SOFTWARE => {
            apic::complete();
            interrupt::asked(SOFTWARE as u32, &frame.place());
        }
        TIMER => {
            apic::complete();
            interrupt::timer(TIMER as u32, &frame.place());
        }
        SERIAL => interrupt::handle(serial::IRQ, uart::interrupt),
        SPURIOUS => {}
        CALL if !kernel => call(frame),
        PAGE_FAULT if !kernel => space::fault(fault_address(), frame.rip, fault_cause(frame.error)),
        vector if !kernel => process::exception(vector as u32, frame.rip, frame.error),
        vector => {
            let (rip, error, address) = (frame.rip, frame.error, fault_address());
            panic!(
                "exception {vector} on hart {} at {rip:#x}, error {error:#x}, address {address:#x}",
                hart()
            );
        }
    }
    interrupt::leave();
    if !kernel {
        process::leave();
    }
}

/// The address of the last page fault.
fn fault_address() -> usize {
    let address;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

fn fault_cause(error: usize) -> FaultCause {
    const WRITE: usize = 1 << 1;
    const FETCH: usize = 1 << 4;
    if error & FETCH != 0 {
        FaultCause::Fetch
    } else if error & WRITE != 0 {
        FaultCause::Store
    } else {
        FaultCause::Load
    }
}

/// A system call: its number is in rax, its arguments as Linux has them; its result goes to rax.
fn call(frame: &mut TrapFrame) {
    let arguments = [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8];
    match syscall::call(frame.rax, arguments) {
        Outcome::Value(value) => frame.rax = value as usize,
        Outcome::Start(start) => *frame = TrapFrame::at(start),
    }
}

/// NMIs by hart, of the kernel and of programs.
static NMIS: [[AtomicU64; 2]; MAX_HARTS] = [const { [const { AtomicU64::new(0) }; 2] }; MAX_HARTS];

/// trap.s calls this for every NMI, on a stack of its own. Nothing here may fault: the return from
/// an exception lets the next NMI in, which would overwrite this one's frame.
extern "C" fn nmi(frame: &TrapFrame) {
    if sampling::on_request(&frame.place()) {
        return;
    }
    interrupt::handle(NMI as u32, || {
        let count = &NMIS[hart()][usize::from(!frame.is_kernels())];
        count.store(count.load(Relaxed) + 1, Relaxed);
    });
}

/// A hart's NMIs so far: in the kernel, and in programs.
pub fn count_nmis(hart: usize) -> [u64; 2] {
    NMIS[hart].each_ref().map(|count| count.load(Relaxed))
}
