//! Samples: `kymo_sample` and what a driver asks, which are a [`SamplerOver`] of the kernel's
//! memory.
//!
//! [`SamplerOver`]: kymo::sample::SamplerOver

use core::ops::Range;

use kymo::Tid;
use kymo::event::Enumeration;
use kymo::sample::{Interrupted, Memory, Registers, Window};
use kymo::vocabulary::CpuMode;

use kymo_c_record::port::{Port, cpu, sampler};

/// `struct kymo_window`: addresses that may be read.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CWindow {
    begin: usize,
    end: usize,
    /// Where the kernel reads them; null: where they are.
    at: *const u8,
}

impl CWindow {
    const NONE: CWindow = CWindow {
        begin: 0,
        end: 0,
        at: core::ptr::null(),
    };

    /// # Safety
    /// These addresses can be read until the sample is taken.
    unsafe fn window(&self) -> Window {
        let at = if self.at.is_null() {
            core::ptr::with_exposed_provenance(self.begin)
        } else {
            self.at
        };
        // SAFETY: the caller's promise.
        unsafe { Window::new(self.begin..self.end, at) }
    }
}

/// `struct kymo_sample`: what was interrupted, and where its callers are.
#[derive(Debug)]
#[repr(C)]
pub struct CSample {
    ip: usize,
    fp: usize,
    link: usize,
    tid: u32,
    mode: u32,
    missed: u32,
    has_program: bool,
    text: [usize; 2],
    stacks: [CWindow; 2],
    program_ip: usize,
    program_fp: usize,
    program_text: [usize; 2],
    program_stack: Option<extern "C" fn(usize, *mut CWindow) -> bool>,
}

impl CSample {
    /// Nothing, with no memory.
    pub(crate) const NONE: CSample = CSample {
        ip: 0,
        fp: 0,
        link: 0,
        tid: 0,
        mode: 0,
        missed: 0,
        has_program: false,
        text: [0; 2],
        stacks: [CWindow::NONE; 2],
        program_ip: 0,
        program_fp: 0,
        program_text: [0; 2],
        program_stack: None,
    };

    /// Takes away the link register, where no leaf function was interrupted.
    pub(crate) fn forget_link(&mut self) {
        self.link = 0;
    }

    pub(crate) fn tid(&self) -> Tid {
        Tid(self.tid)
    }
}

fn range(ends: [usize; 2]) -> Range<usize> {
    let [begin, end] = ends;
    begin..end
}

impl Memory for CSample {
    fn kernel_text(&self) -> Range<usize> {
        range(self.text)
    }

    fn kernel_stack(&self, address: usize) -> Option<Window> {
        let stacks = self.stacks.iter();
        let mut stacks = stacks.filter(|stack| (stack.begin..stack.end).contains(&address));
        // SAFETY: `kymo_sample` was promised that they can be read, or the sampler's `here` gives
        // such.
        stacks.next().map(|stack| unsafe { stack.window() })
    }

    fn link(&self) -> Option<usize> {
        Some(self.link).filter(|link| *link > 0)
    }

    fn user_registers(&self) -> Option<Registers> {
        self.has_program.then_some(Registers {
            ip: self.program_ip,
            fp: self.program_fp,
        })
    }

    fn user_text(&self) -> Range<usize> {
        range(self.program_text)
    }

    fn user_stack(&self, address: usize) -> Option<Window> {
        let mut found = CWindow::NONE;
        let is_there = self.program_stack?(address, &raw mut found);
        // SAFETY: as above, of what the kernel's function gives.
        is_there.then(|| unsafe { found.window() })
    }
}

/// Records a sample, if samples are taken. Returns whether one was recorded.
///
/// # Safety
/// `sample` leads to one whose stacks can be read, as what its function gives can; interrupts are
/// masked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_sample(sample: *const CSample) -> bool {
    // SAFETY: the caller's promise.
    let sample = unsafe { sample.as_ref() };
    let (Some(sampler), Some(sample)) = (sampler(), sample) else {
        return false;
    };
    let at = Interrupted {
        registers: Registers {
            ip: sample.ip,
            fp: sample.fp,
        },
        mode: CpuMode::from_value(sample.mode.into()).unwrap_or(CpuMode::Kernel),
        tid: sample.tid(),
        period: sampler.period(),
        missed: sample.missed,
    };
    // SAFETY: the caller's promise.
    unsafe { kymo::Tracer::<Port>::sample_masked(sampler, cpu(), &at, sample) }
}

/// Ticks between two samples of a CPU, on average; 0 where none are to be taken.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_sample_period() -> u64 {
    sampler().map_or(0, |sampler| sampler.period())
}

/// Ticks until the next sample of this CPU.
#[unsafe(no_mangle)]
pub extern "C" fn kymo_sample_next() -> u64 {
    sampler().map_or(u64::MAX, |sampler| sampler.next(cpu()))
}
