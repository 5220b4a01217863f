//! Samples: the timer's interrupt records what it has interrupted.

use core::ops::Range;

use axcpu::TrapFrame;
use axtask::CurrentTask;
use kymo::sample::{Interrupted, Memory, Registers, Sampler, Window};
use kymo::vocabulary::{CpuMode, Sampling};
use kymo::{Config, Tid};

use crate::here::Here;
use crate::{CPUS, HZ, Kymo, task};

/// How samples are taken.
pub static SAMPLER: Sampler<CPUS> = Sampler::new();

/// Takes samples from now on, if the session has packets for them.
pub fn set(config: &Config) {
    let ticks = config.clock.frequency_hz / HZ as u64;
    SAMPLER.set(&Sampling {
        period: if config.samples_packets > 0 { ticks } else { 0 },
        ..config.sampling
    });
}

/// Takes a sample, with interrupts masked.
pub fn take(here: &Here, frame: &TrapFrame) {
    let Some(current) = axtask::current_may_uninit() else {
        return;
    };
    let tid = task::tid(&current);
    let at = Interrupted {
        registers: Registers {
            ip: frame.sepc,
            fp: frame.regs.s0,
        },
        mode: match tid {
            Tid(0) => CpuMode::Idle,
            _ => CpuMode::Kernel,
        },
        tid,
        period: SAMPLER.period(),
        missed: 0,
    };
    let stack = Stack::of(&current, frame.regs.sp);
    // SAFETY: the caller has masked interrupts.
    unsafe { Kymo::sample_masked(&SAMPLER, here.cpu(), &at, &stack) };
}

unsafe extern "C" {
    // In the linker script of `axhal`.
    safe static _stext: u8;
    safe static _etext: u8;
    safe static boot_stack_top: u8;
}

/// Bytes of a frame's two words.
const FRAME: usize = 2 * size_of::<usize>();

/// The stack of the interrupted task, from where it was interrupted.
struct Stack {
    range: Range<usize>,
    /// The frame of the outermost function, if ArceOS has called that by a switch. The return
    /// address in it is the beginning of that function itself.
    outermost: Range<usize>,
}

impl Stack {
    /// The stack of this task, which was interrupted with this stack pointer.
    fn of(task: &CurrentTask, sp: usize) -> Stack {
        match task.kernel_stack_top() {
            Some(top) => Stack {
                range: sp..top.as_usize() - FRAME,
                outermost: top.as_usize() - FRAME..top.as_usize(),
            },
            // The first task of a CPU runs on a stack from boot.
            None => Stack {
                range: sp..&raw const boot_stack_top as usize,
                outermost: 0..0,
            },
        }
    }
}

impl Memory for Stack {
    fn kernel_text(&self) -> Range<usize> {
        &raw const _stext as usize..&raw const _etext as usize
    }

    fn kernel_stack(&self, address: usize) -> Option<Window> {
        /// What the unwinder takes for the end of a chain.
        static END: [usize; 2] = [0; 2];
        if self.outermost.contains(&address) {
            // SAFETY: a static of this size.
            return Some(unsafe { Window::new(self.outermost.clone(), END.as_ptr().cast()) });
        }
        let start = self.range.start;
        // SAFETY: the task that is on this stack does not run while this interrupt does.
        let window = || unsafe { Window::new(self.range.clone(), start as *const u8) };
        self.range.contains(&address).then(window)
    }
}
