//! Two threads per hart, which take turns when the timer interrupts and when one yields.

use core::arch::asm;
use core::cell::Cell;
use core::sync::atomic::Ordering::{Relaxed, Release};

use kymo::arch::riscv::{kernel_word, time};
use kymo::vocabulary::{IrqEnter, IrqExit, SchedSwitch, SwitchReason, ThreadName, ThreadState};
use kymo::{Irq, Text, Tid, trace, trace_masked};

use crate::cmdline::Settings;
use crate::ledger::{Calls, LAST_MARKER, LEDGER, count};
use crate::{MAX_HARTS, Marker, STACK_SHIFT, sbi};

/// Number of the supervisor timer interrupt in `scause` and `sie`.
const TIMER: usize = 5;
const INTERRUPT: usize = 1 << (usize::BITS - 1);
/// Ticks of the `time` register per microsecond.
const TICKS_PER_US: u64 = 10;

/// The state of a hart, private to it. A slot is one of its contexts: 0 is idle (the boot context),
/// 1 and 2 are the threads. Interrupts must be masked to use fields that change.
struct Hart {
    cpu: usize,
    settings: &'static Settings,
    deadline: u64,
    current: Cell<usize>,
    runnable: [Cell<bool>; 3],
    /// Stack pointers of the slots that do not run.
    sp: [Cell<usize>; 3],
}

/// This hart's state. `tp` points to its Kymo block, which has a word for the kernel: the state's
/// address.
fn hart() -> &'static Hart {
    // SAFETY: `tp` points to the block, and `run` stored there the address of a `Hart` in its own
    // frame, which lives as long as threads run.
    unsafe { &*(kernel_word().load(Relaxed) as *const Hart) }
}

impl Hart {
    /// The idle contexts of all harts are thread 0.
    fn tid(&self, slot: usize) -> Tid {
        Tid(if slot == 0 {
            0
        } else {
            (2 * self.cpu + slot) as u32
        })
    }

    /// The other thread if it is ready, else the same one, else idle.
    fn next_slot(&self) -> usize {
        let other = if self.current.get() == 1 { 2 } else { 1 };
        [other, 3 - other]
            .into_iter()
            .find(|&slot| self.runnable[slot].get())
            .unwrap_or(0)
    }

    fn finished(&self) -> bool {
        let calls = &LEDGER.harts[self.cpu][..LAST_MARKER];
        let total: u64 = calls.iter().map(|calls| calls.load(Relaxed)).sum();
        total >= self.settings.events / self.settings.cpus as u64 || time() >= self.deadline
    }

    /// Requests the next timer interrupt. The harts' interrupts are spread out: QEMU with `-icount`
    /// runs one hart at a time, from one timer interrupt to the next, and would starve the others
    /// if all came at once.
    fn arm_timer(&self) {
        let tick = self.settings.tick_us * TICKS_PER_US;
        let phase = self.cpu as u64 * tick / self.settings.cpus as u64;
        sbi::set_timer(((time() - phase) / tick + 1) * tick + phase);
    }
}

/// Sleeps until `time` with interrupts masked: even a masked interrupt ends `wfi`.
pub fn sleep_until(time: u64) {
    sbi::set_timer(time);
    // SAFETY: this only waits.
    unsafe { asm!("wfi") };
}

/// Creates this hart's threads and runs them to their end. Called, and returns, with interrupts
/// masked.
pub fn run(cpu: usize, settings: &'static Settings) {
    let deadline = time().saturating_add(settings.ms.saturating_mul(1000 * TICKS_PER_US));
    let (current, runnable) = (Cell::new(0), [const { Cell::new(true) }; 3]);
    let hart = Hart {
        cpu,
        settings,
        deadline,
        current,
        runnable,
        sp: Default::default(),
    };
    // SAFETY: boot.s has set `tp`.
    unsafe { kernel_word() }.store(&raw const hart as usize, Relaxed);
    for slot in [1, 2] {
        hart.sp[slot].set(new_stack(cpu, slot));
        let name = [
            b'h',
            b'a',
            b'r',
            b't',
            b'0' + cpu as u8,
            b'.',
            b'a' + slot as u8 - 1,
        ];
        let name = core::str::from_utf8(&name).unwrap_or_default();
        // SAFETY: interrupts are masked.
        unsafe {
            trace_masked!(ThreadName {
                tid: hart.tid(slot),
                name: Text::new(name)
            })
        };
        count(hart.cpu, Calls::ThreadName);
    }
    hart.arm_timer();
    // SAFETY: the trap entry and everything that the timer interrupt needs are in place.
    unsafe { asm!("csrs sie, {}", in(reg) 1 << TIMER) };
    switch(SwitchReason::Idle);
}

/// A new stack to which `switch_stacks` can switch: the 14 words that it pops, of which only the
/// return address matters.
fn new_stack(cpu: usize, slot: usize) -> usize {
    unsafe extern "C" {
        /// In boot.s.
        safe static stacks: u8;
    }
    let top = &raw const stacks as usize + ((slot * MAX_HARTS + cpu + 1) << STACK_SHIFT);
    let frame = top - 14 * size_of::<usize>();
    // SAFETY: the frame is inside this thread's stack, and nobody uses that yet.
    unsafe { (frame as *mut usize).write(thread as *const () as usize) };
    frame
}

/// Switches to the next thread. Interrupts must be masked.
fn switch(reason: SwitchReason) {
    unsafe extern "C" {
        /// In boot.s.
        fn switch_stacks(old: *mut usize, new: usize);
    }
    let hart = hart();
    let (prev, next) = (hart.current.get(), hart.next_slot());
    if prev != next {
        let prev_state = if reason == SwitchReason::Ended {
            ThreadState::Ended
        } else {
            ThreadState::Runnable
        };
        // SAFETY: interrupts are masked.
        unsafe {
            trace_masked!(SchedSwitch {
                prev_tid: hart.tid(prev),
                next_tid: hart.tid(next),
                prev_state,
                reason,
                next_prio: 0
            })
        };
        count(hart.cpu, Calls::Switch);
        hart.current.set(next);
        // SAFETY: `next` does not run, so its `sp` is what `switch_stacks` or `new_stack` left, and
        // only this hart runs it.
        unsafe { switch_stacks(hart.sp[prev].as_ptr(), hart.sp[next].get()) };
    }
}

/// boot.s calls this for every interrupt and exception, with interrupts masked.
pub extern "C" fn trap(cause: usize, pc: usize, value: usize) {
    assert_eq!(
        cause,
        INTERRUPT | TIMER,
        "unexpected trap at {pc:#x}, value {value:#x}"
    );
    let hart = hart();
    // SAFETY: interrupts are masked.
    unsafe {
        trace_masked!(IrqEnter {
            irq: Irq(TIMER as u32)
        })
    };
    count(hart.cpu, Calls::IrqEnter);
    hart.arm_timer();
    // SAFETY: interrupts are masked.
    unsafe {
        trace_masked!(IrqExit {
            irq: Irq(TIMER as u32)
        })
    };
    count(hart.cpu, Calls::IrqExit);
    switch(SwitchReason::Expired);
}

/// Calls `f` with interrupts masked, and restores them.
pub fn without_interrupts(f: impl FnOnce()) {
    const SIE: usize = 1 << 1;
    let before: usize;
    // SAFETY: masking interrupts breaks nothing.
    unsafe { asm!("csrrci {}, sstatus, {}", out(reg) before, const SIE) };
    f();
    // SAFETY: this sets at most the bit that was set before.
    unsafe { asm!("csrs sstatus, {}", in(reg) before & SIE) };
}

/// Entry of every thread, with interrupts masked by the switch.
extern "C" fn thread() -> ! {
    let hart = hart();
    let slot = hart.current.get();
    let tid = hart.tid(slot);
    let last_marker = &LEDGER.harts[hart.cpu][LAST_MARKER + slot - 1];
    // SAFETY: this code holds nothing that an interrupt could disturb.
    unsafe { asm!("csrsi sstatus, 2") };
    let mut seq: u32 = 0;
    // Each iteration is a unit of work.
    while seq < hart.settings.units && !hart.finished() {
        seq += 1;
        trace!(Marker { tid, seq });
        last_marker.store(seq.into(), Release);
        count(hart.cpu, Calls::Marker);
        assert!(
            seq != hart.settings.panic,
            "thread {} panics on request after {seq} units of work",
            tid.0
        );
        if !hart.settings.only_markers {
            // Stands for the work of a real thread: about two thousand instructions, of varying
            // number.
            (0..500 + seq % 61 * 8).for_each(|step| _ = core::hint::black_box(step));
            if seq.is_multiple_of(8) {
                without_interrupts(|| switch(SwitchReason::Yielded));
            }
        }
    }
    without_interrupts(|| {
        hart.runnable[slot].set(false);
        switch(SwitchReason::Ended);
    });
    unreachable!("a thread that has ended runs")
}
