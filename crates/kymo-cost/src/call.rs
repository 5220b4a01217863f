//! Assigns instructions to calls.
//!
//! A *call* begins whenever the instruction at an entry address is executed, even if a loop leads
//! back there. It gets every instruction of the function that its CPU executes from then on, until
//! the function returns or the next call begins.
//!
//! In between, control may leave and come back: to a called function or an interrupt handler. If
//! the handler, or another thread, calls the same function, the current call is *suspended*: its
//! last instruction leads on inside the function, but not to the new call's entry. It is resumed by
//! the next instruction to which the suspended call can lead and the running call cannot.
//!
//! | the running call's last instruction | next: an entry | next: where it leads | next: elsewhere in the function |
//! | --- | --- | --- | --- |
//! | leads on inside only | suspend, begin | continue | resume another; or suspend, and count outside of calls |
//! | leads to the entry | end, begin | - | as above |
//! | may leave (a branch or jump out, the end of a range) | suspend if it may also stay, else end; begin | continue | resume another; or continue |
//! | jumps to an unknown address | end, begin | - | resume another; or continue |
//! | returns | end, begin | - | resume another; or count outside of calls |
//!
//! Two cases cannot be distinguished: a suspended call that continues on another CPU (its rest is
//! counted outside calls there), and an interrupt just after a jump out of a range of inlined code.
//! The totals are always exact.

use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::arguments::Function;
use crate::decode::{Accesses, Flow};
use crate::histogram::Histogram;

/// The counted quantities, in this order everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Instructions executed.
    Instructions,
    /// Loads made by them.
    Loads,
    /// Stores made by them.
    Stores,
}

/// Limit on suspended calls: more would be handlers nested 64 deep, or calls that left the function
/// in a way that looks like an interruption.
const MAX_SUSPENDED: usize = 64;

/// An address at which no instruction of a half-open range can be.
const NOWHERE: u64 = u64::MAX;

/// An instruction of a function.
#[derive(Debug)]
pub struct Insn {
    /// Index of the function.
    pub function: usize,
    pc: u64,
    /// Address of the next instruction, if this one can lead there.
    after: u64,
    /// Address to which it can jump.
    target: u64,
    is_entry: bool,
    /// The piece of a test that it is in, from 1; 0 for none.
    test: usize,
    /// Whether it loads the switch, if it is in a test.
    loads: bool,
    is_mark: bool,
    /// Whether it can lead on inside the function, not only to an entry.
    stays: bool,
    /// Whether it can lead out of the function.
    leaves: bool,
    returns: bool,
    /// Loads and stores, if they are known rather than reported.
    accesses: [u8; 2],
}

impl Insn {
    /// Describes the instruction of `size` bytes at `pc`, in the function `code` with index
    /// `function`. Whether it may load a byte decides whether it [tests](Function::tests).
    pub fn new(
        function: usize,
        code: &Function,
        pc: u64,
        size: u64,
        flow: Flow,
        accesses: Accesses,
        loads_byte: bool,
    ) -> Insn {
        let behind = pc.wrapping_add(size);
        let (after, target) = match flow {
            Flow::Next | Flow::Call(_) => (behind, NOWHERE),
            Flow::Branch(target) => (behind, target),
            Flow::Jump(target) => (NOWHERE, target),
            Flow::Indirect | Flow::Return | Flow::Unknown => (NOWHERE, NOWHERE),
        };
        let leads = [after, target]
            .into_iter()
            .filter(|&address| address != NOWHERE);
        let test = |address| {
            let place = code.tests.iter().position(|test| test.contains(address));
            place.map_or(0, |place| place + 1)
        };
        let begins = |address| code.entries.contains(&address) || test(address) > 0;
        let to_entry = leads.clone().any(begins);
        let inside = leads
            .clone()
            .filter(|&address| code.contains(address))
            .count();
        let known = leads.count();
        Insn {
            function,
            pc,
            after,
            target,
            is_entry: code.entries.contains(&pc),
            test: test(pc),
            loads: loads_byte && test(pc) > 0,
            // Without marks, every call counts as marked.
            is_mark: match flow {
                _ if !code.has_marks() => {
                    code.entries.contains(&pc) || (loads_byte && test(pc) > 0)
                }
                Flow::Call(callee) | Flow::Jump(callee) if code.callees.contains(&callee) => true,
                _ => code.marks.contains(&pc),
            },
            stays: inside > 0 && !to_entry,
            leaves: inside < known || matches!(flow, Flow::Indirect | Flow::Unknown),
            returns: flow == Flow::Return,
            accesses: match accesses {
                Accesses::Known { loads, stores } => [loads, stores],
                Accesses::Reported => [0, 0],
            },
        }
    }

    /// Whether `next` can directly follow it. An instruction can follow itself if it faulted or
    /// repeats.
    #[inline(always)]
    fn leads_to(&self, next: &Insn) -> bool {
        next.pc == self.after || next.pc == self.target || next.pc == self.pc
    }
}

/// The counts of one call: by [`Quantity`], and the number of marks it executed.
type Counts = [u64; 4];
const MARKS: usize = 3;

/// A call that was interrupted by another one.
struct Suspended {
    counts: Counts,
    last: &'static Insn,
}

/// The calls of one function on one CPU. Only that CPU's thread counts; any thread may read, and
/// misses at most the update in progress.
#[derive(Default)]
pub struct Calls {
    totals: [AtomicU64; 3],
    begun: AtomicU64,
    outside: AtomicU64,
    /// The current call: its counts, and its last instruction (null: no call).
    counts: [AtomicU64; 4],
    last: AtomicPtr<Insn>,
    /// The piece of a test that is being executed, and its instructions so far: they belong to the
    /// call that begins when the switch is loaded.
    test: AtomicUsize,
    test_counts: AtomicU64,
    /// Its last instruction: it is executed from lower to higher addresses.
    test_pc: AtomicU64,
    /// Length of `suspended`, so that the lock is not taken for an empty list.
    depth: AtomicUsize,
    suspended: Mutex<Vec<Suspended>>,
    /// Calls abandoned although they seemed to continue.
    unfinished: AtomicU64,
    marked: OnceLock<[Histogram; 3]>,
    unmarked: OnceLock<[Histogram; 3]>,
}

/// Adds one, without an atomic increment, as there is one writer.
#[inline(always)]
fn add_one(count: &AtomicU64) {
    count.store(count.load(Relaxed) + 1, Relaxed);
}

impl Calls {
    /// Counts an instruction that the CPU executes.
    #[inline(always)]
    pub fn executed(&self, insn: &'static Insn) {
        self.count(insn);
        if insn.accesses != [0, 0] {
            for (quantity, count) in [Quantity::Loads, Quantity::Stores]
                .into_iter()
                .zip(insn.accesses)
            {
                (0..count).for_each(|_| self.accessed(quantity));
            }
        }
    }

    #[inline(always)]
    fn count(&self, insn: &'static Insn) {
        add_one(&self.totals[Quantity::Instructions as usize]);
        // SAFETY: only `&'static Insn` is ever stored there.
        let last = unsafe { self.last.load(Relaxed).as_ref() };
        let before = self.tested(insn);
        match last {
            _ if insn.loads && before.is_some() => self.begin_before(last, before.unwrap_or(0)),
            Some(last) if !insn.is_entry && last.leads_to(insn) && !last.returns => {}
            _ if insn.is_entry => self.begin(last),
            _ => {
                if !self.resume(last, insn) {
                    add_one(&self.outside);
                    self.last.store(null_mut(), Relaxed);
                    return;
                }
            }
        }
        add_one(&self.counts[Quantity::Instructions as usize]);
        if insn.is_mark {
            add_one(&self.counts[MARKS]);
        }
        self.last
            .store(std::ptr::from_ref(insn).cast_mut(), Relaxed);
    }

    /// Follows a test up to the load of the switch. Gives the instructions of the test before this
    /// one; `None` where the switch was loaded already, or there is no test.
    #[inline(always)]
    fn tested(&self, insn: &Insn) -> Option<u64> {
        const LOADED: u64 = u64::MAX;
        let is_new = insn.test != self.test.load(Relaxed)
            || (insn.test > 0 && insn.pc <= self.test_pc.load(Relaxed));
        if is_new {
            self.test.store(insn.test, Relaxed);
            self.test_counts.store(0, Relaxed);
        }
        if insn.test == 0 {
            return None;
        }
        self.test_pc.store(insn.pc, Relaxed);
        let before = self.test_counts.load(Relaxed);
        if before == LOADED {
            return None;
        }
        let after = if insn.loads { LOADED } else { before + 1 };
        self.test_counts.store(after, Relaxed);
        Some(before)
    }

    /// Begins a call to which the last `before` instructions belong, too.
    fn begin_before(&self, last: Option<&'static Insn>, before: u64) {
        let counted = match last {
            Some(_) => &self.counts[Quantity::Instructions as usize],
            None => &self.outside,
        };
        counted.store(counted.load(Relaxed).saturating_sub(before), Relaxed);
        self.begin(last);
        self.counts[Quantity::Instructions as usize].store(before, Relaxed);
    }

    /// Counts a load or store of the last executed instruction.
    #[inline(always)]
    pub fn accessed(&self, quantity: Quantity) {
        add_one(&self.totals[quantity as usize]);
        if !self.last.load(Relaxed).is_null() {
            add_one(&self.counts[quantity as usize]);
        }
    }

    /// Begins a call at an entry.
    fn begin(&self, last: Option<&'static Insn>) {
        match last {
            Some(last) if last.stays => self.suspend(last),
            Some(_) => self.end(self.running()),
            None => {}
        }
        self.set_running([0; 4]);
        add_one(&self.begun);
    }

    /// Handles an instruction to which the running call does not lead. Returns `false` if it
    /// belongs to no call.
    #[cold]
    fn resume(&self, last: Option<&'static Insn>, insn: &'static Insn) -> bool {
        if self.depth.load(Relaxed) > 0 {
            let mut suspended = self
                .suspended
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = suspended.iter().rposition(|call| call.last.leads_to(insn)) {
                let call = suspended.remove(place);
                self.depth.store(suspended.len(), Relaxed);
                drop(suspended);
                self.leave(last);
                self.set_running(call.counts);
                return true;
            }
        }
        if last.is_some_and(|last| last.leaves && !last.returns) {
            return true;
        }
        self.leave(last);
        false
    }

    /// Ends or suspends the running call.
    fn leave(&self, last: Option<&'static Insn>) {
        match last {
            Some(last) if last.stays && !last.leaves => self.suspend(last),
            Some(_) => self.end(self.running()),
            None => {}
        }
    }

    #[cold]
    fn suspend(&self, last: &'static Insn) {
        let mut suspended = self
            .suspended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if suspended.len() == MAX_SUSPENDED {
            // Prefer one that may have left the function unnoticed.
            let place = suspended
                .iter()
                .position(|call| call.last.leaves)
                .unwrap_or(0);
            let oldest = suspended.remove(place);
            if !oldest.last.leaves {
                add_one(&self.unfinished);
            }
            self.end(oldest.counts);
        }
        suspended.push(Suspended {
            counts: self.running(),
            last,
        });
        self.depth.store(suspended.len(), Relaxed);
    }

    fn running(&self) -> Counts {
        self.counts.each_ref().map(|count| count.load(Relaxed))
    }

    fn set_running(&self, counts: Counts) {
        for (to, count) in self.counts.iter().zip(counts) {
            to.store(count, Relaxed);
        }
    }

    fn end(&self, counts: Counts) {
        let histograms = if counts[MARKS] > 0 {
            &self.marked
        } else {
            &self.unmarked
        }
        .get_or_init(Default::default);
        for (histogram, count) in histograms.iter().zip(counts) {
            histogram.count(count);
        }
    }

    /// Adds all counts to `sum`; unfinished calls count as they are.
    pub fn add_to(&self, sum: &mut Sum) {
        for (sum, total) in sum.totals.iter_mut().zip(&self.totals) {
            *sum += total.load(Relaxed);
        }
        sum.calls += self.begun.load(Relaxed);
        sum.outside += self.outside.load(Relaxed);
        sum.unfinished += self.unfinished.load(Relaxed);
        for (histograms, sum) in [
            (&self.marked, &mut sum.per_call),
            (&self.unmarked, &mut sum.unmarked),
        ] {
            for (histogram, sum) in histograms.get().into_iter().flatten().zip(sum) {
                histogram.add_to(sum);
            }
        }
        // SAFETY: only `&'static Insn` is ever stored there.
        let last = unsafe { self.last.load(Relaxed).as_ref() };
        let suspended = self
            .suspended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let running = last.map(|last| (self.running(), last));
        for (counts, last) in running
            .into_iter()
            .chain(suspended.iter().map(|call| (call.counts, call.last)))
        {
            sum.unfinished += u64::from(!last.returns && !last.leaves);
            let per_call = if counts[MARKS] > 0 {
                &mut sum.per_call
            } else {
                &mut sum.unmarked
            };
            for (sum, count) in per_call.iter_mut().zip(counts) {
                *sum.entry(count).or_default() += 1;
            }
        }
    }
}

/// The counts of several CPUs, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Instructions, loads, stores: see [`Quantity`].
    pub totals: [u64; 3],
    /// Number of calls.
    pub calls: u64,
    /// Instructions outside the calls known to the CPU.
    pub outside: u64,
    /// Calls that were unfinished when the counting ended, or continued on another CPU.
    pub unfinished: u64,
    /// Histograms of instructions, loads and stores per call.
    pub per_call: [BTreeMap<u64, u64>; 3],
    /// Like `per_call`, for calls that executed none of the function's marks.
    pub unmarked: [BTreeMap<u64, u64>; 3],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Range;

    /// 0x10 next, 0x14 branch to 0x1c, 0x18 next, 0x1c return.
    fn function() -> Function {
        Function {
            ranges: vec![Range {
                start: 0x10,
                end: 0x20,
            }],
            entries: vec![0x10],
            ..Function::default()
        }
    }

    fn insn(code: &Function, pc: u64, flow: Flow) -> &'static Insn {
        Box::leak(Box::new(Insn::new(
            0,
            code,
            pc,
            4,
            flow,
            Accesses::Reported,
            false,
        )))
    }

    fn four() -> [&'static Insn; 4] {
        let code = function();
        let flows = [Flow::Next, Flow::Branch(0x1c), Flow::Next, Flow::Return];
        std::array::from_fn(|index| insn(&code, 0x10 + 4 * index as u64, flows[index]))
    }

    fn sum(steps: &[&'static Insn]) -> Sum {
        let calls = Calls::default();
        steps.iter().for_each(|insn| calls.executed(insn));
        let mut sum = Sum::default();
        calls.add_to(&mut sum);
        let counted: u64 = sum.per_call[0]
            .iter()
            .map(|(value, count)| value * count)
            .sum();
        assert_eq!(sum.totals[0], steps.len() as u64);
        assert_eq!(counted + sum.outside, sum.totals[0]);
        assert_eq!(sum.per_call[0].values().sum::<u64>(), sum.calls);
        sum
    }

    fn lengths<const N: usize>(sum: &Sum, expected: [(u64, u64); N]) {
        assert_eq!(sum.per_call[0], BTreeMap::from(expected));
    }

    #[test]
    fn calls_one_after_the_other() {
        let [a, b, c, d] = four();
        let sum = sum(&[a, b, c, d, a, b, d, a, b, c, d]);
        lengths(&sum, [(3, 1), (4, 2)]);
        assert_eq!((sum.calls, sum.outside, sum.unfinished), (3, 0, 0));
    }

    /// 0x10 next, 0x14 loads, 0x18 branches to 0x20, 0x1c calls 0x80; the test is the first two.
    #[test]
    fn a_test_is_the_instructions_up_to_its_load() {
        let code = Function {
            ranges: vec![Range {
                start: 0x10,
                end: 0x24,
            }],
            tests: vec![Range {
                start: 0x10,
                end: 0x18,
            }],
            callees: vec![0x80],
            ..Function::default()
        };
        let flows = [
            (Flow::Next, false),
            (Flow::Next, true),
            (Flow::Branch(0x20), false),
            (Flow::Call(0x80), false),
            (Flow::Return, false),
        ];
        let mut pc = 0xc;
        let insns = flows.map(|(flow, loads)| {
            pc += 4;
            let insn = Insn::new(0, &code, pc, 4, flow, Accesses::Reported, loads);
            &*Box::leak(Box::new(insn))
        });
        let [before, load, branch, call, end] = insns;
        let off = [before, load, branch, end];
        let on = [before, load, branch, call, end];
        // A loop may begin at the load: what is before it was moved out of the loop.
        let moved = [before, load, branch, end, load, branch, call, end, load];
        for (steps, recorded, skipped) in [
            ([&off[..], &on, &off].concat(), &[(5, 1)][..], &[(4, 2)][..]),
            (moved.to_vec(), &[(4, 1)], &[(1, 1), (4, 1)]),
            // Nothing else of the function is executed.
            (vec![load; 3], &[], &[(1, 3)]),
            // No load: no call.
            (vec![before, end], &[], &[]),
        ] {
            let sum = sum_of(&steps);
            let of = |pairs: &[(u64, u64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
            assert_eq!(sum.per_call[0], of(recorded), "{}", steps.len());
            assert_eq!(sum.unmarked[0], of(skipped), "{}", steps.len());
            let counted: u64 = [&sum.per_call[0], &sum.unmarked[0]]
                .into_iter()
                .flatten()
                .map(|(value, count)| value * count)
                .sum();
            assert_eq!(counted + sum.outside, steps.len() as u64);
        }
    }

    /// The last instruction may be a jump to the other function.
    #[test]
    fn a_jump_to_a_callee_is_a_mark() {
        let code = Function {
            callees: vec![0x80],
            ..function()
        };
        let sum = sum_of(&[
            insn(&code, 0x10, Flow::Next),
            insn(&code, 0x14, Flow::Jump(0x80)),
            insn(&code, 0x10, Flow::Next),
            insn(&code, 0x14, Flow::Jump(0x90)),
        ]);
        assert_eq!(sum.per_call[0], BTreeMap::from([(2, 1)]));
        assert_eq!(sum.unmarked[0], BTreeMap::from([(2, 1)]));
    }

    fn sum_of(steps: &[&'static Insn]) -> Sum {
        let calls = Calls::default();
        steps.iter().for_each(|insn| calls.executed(insn));
        let mut sum = Sum::default();
        calls.add_to(&mut sum);
        sum
    }

    #[test]
    fn a_call_within_a_call_at_every_place() {
        let [a, b, c, d] = four();
        // Interrupted after each instruction but the last, by one call, and that by another.
        for at in 1..4 {
            for inner in 1..4 {
                let outer = [a, b, c, d];
                let steps = [
                    &outer[..at],
                    &outer[..inner],
                    &[a, b, d],
                    &outer[inner..],
                    &outer[at..],
                ]
                .concat();
                lengths(&sum(&steps), [(3, 1), (4, 2)]);
            }
        }
    }

    #[test]
    fn an_instruction_that_faults_and_is_executed_again() {
        let [a, b, c, d] = four();
        lengths(&sum(&[a, b, c, a, b, d, c, d]), [(3, 1), (5, 1)]);
        lengths(&sum(&[a, b, c, c, c, d]), [(6, 1)]);
    }

    #[test]
    fn threads_that_take_turns() {
        let [a, b, c, d] = four();
        // The first call is resumed first, from within the second.
        let sum = sum(&[a, b, a, c, d, b, d]);
        lengths(&sum, [(3, 1), (4, 1)]);
        assert_eq!((sum.calls, sum.outside, sum.unfinished), (2, 0, 0));
    }

    #[test]
    fn an_instruction_without_a_call() {
        let [a, b, c, d] = four();
        let sum = sum(&[c, d, a, b, c, d, c, d, a, b, d]);
        lengths(&sum, [(3, 1), (4, 1)]);
        assert_eq!((sum.calls, sum.outside, sum.unfinished), (2, 4, 0));
    }

    #[test]
    fn a_call_that_goes_on_elsewhere_is_unfinished() {
        let [a, b, c, d] = four();
        let sum = sum(&[a, b, a, b, c, d]);
        lengths(&sum, [(2, 1), (4, 1)]);
        assert_eq!((sum.calls, sum.outside, sum.unfinished), (2, 0, 1));
        // A branch that can lead out of the function may have done so.
        let out = insn(&function(), 0x14, Flow::Branch(0x1000));
        assert_eq!(self::sum(&[a, out, a, out, c, d]).unfinished, 0);
    }

    #[test]
    fn a_loop_to_the_entry_is_a_call_a_turn() {
        let code = Function {
            ranges: vec![Range {
                start: 0x10,
                end: 0x18,
            }],
            ..function()
        };
        let [a, b] = [
            insn(&code, 0x10, Flow::Next),
            insn(&code, 0x14, Flow::Branch(0x10)),
        ];
        let sum = sum(&[a, b, a, b, a, b]);
        lengths(&sum, [(2, 3)]);
        assert_eq!(sum.unfinished, 0);
    }

    #[test]
    fn a_tail_call_does_not_come_back() {
        let code = function();
        let [a, b, jump, d] = [
            insn(&code, 0x10, Flow::Next),
            insn(&code, 0x14, Flow::Branch(0x1c)),
            insn(&code, 0x18, Flow::Jump(0x1000)),
            insn(&code, 0x1c, Flow::Return),
        ];
        lengths(&sum(&[a, b, d, a, b, jump, a, b, d]), [(3, 3)]);
        // From within a handler, the outer call continues.
        lengths(&sum(&[a, a, b, jump, b, d]), [(3, 2)]);
    }

    #[test]
    fn inlined_code_in_two_pieces() {
        let ranges = vec![
            Range {
                start: 0x10,
                end: 0x18,
            },
            Range {
                start: 0x40,
                end: 0x48,
            },
        ];
        let code = Function {
            ranges,
            ..function()
        };
        let piece = [0x10, 0x14, 0x40, 0x44].map(|pc| insn(&code, pc, Flow::Next));
        lengths(
            &sum(&[&piece[..], &piece[..2], &piece[..]].concat()),
            [(2, 1), (4, 2)],
        );
    }

    #[test]
    fn an_unknown_instruction_set_has_calls_without_nesting() {
        let code = function();
        let [a, b] = [0x10, 0x14].map(|pc| insn(&code, pc, Flow::Unknown));
        lengths(&sum(&[a, b, b, a, b]), [(2, 1), (3, 1)]);
    }

    #[test]
    fn more_interruptions_than_are_kept() {
        let [a, ..] = four();
        let sum = sum(&vec![a; 100]);
        assert_eq!((sum.calls, sum.unfinished), (100, 100));
    }

    #[test]
    fn accesses_belong_to_the_call() {
        let [a, b, c, d] = four();
        let calls = Calls::default();
        for insn in [c, a, b, c, d, a, b, d] {
            calls.executed(insn);
            if std::ptr::eq(insn, c) {
                calls.accessed(Quantity::Stores);
            }
            calls.accessed(Quantity::Loads);
        }
        let mut sum = Sum::default();
        calls.add_to(&mut sum);
        assert_eq!(sum.totals, [8, 8, 2]);
        assert_eq!(sum.per_call[1], BTreeMap::from([(3, 1), (4, 1)]));
        assert_eq!(sum.per_call[2], BTreeMap::from([(0, 1), (1, 1)]));
    }

    #[test]
    fn accesses_that_are_known_count_at_every_execution() {
        let code = function();
        let known = Accesses::Known {
            loads: 1,
            stores: 2,
        };
        let (a, d) = (
            insn(&code, 0x10, Flow::Jump(0x1c)),
            Insn::new(0, &code, 0x1c, 4, Flow::Return, known, false),
        );
        let sum = sum(&[a, Box::leak(Box::new(d)), a]);
        assert_eq!(sum.totals, [3, 1, 2]);
        assert_eq!(sum.per_call[2], BTreeMap::from([(0, 1), (2, 1)]));
    }

    #[test]
    fn calls_that_meet_no_mark_are_kept_apart() {
        let code = Function {
            marks: vec![0x18],
            ..function()
        };
        let flows = [Flow::Next, Flow::Branch(0x1c), Flow::Next, Flow::Return];
        let [a, b, c, d] =
            std::array::from_fn(|index| insn(&code, 0x10 + 4 * index as u64, flows[index]));
        let calls = Calls::default();
        // The second one interrupts the first.
        [a, b, a, b, d, c, d, a, b, d]
            .iter()
            .for_each(|insn| calls.executed(insn));
        let mut sum = Sum::default();
        calls.add_to(&mut sum);
        assert_eq!(
            (sum.calls, &sum.per_call[0], &sum.unmarked[0]),
            (3, &BTreeMap::from([(4, 1)]), &BTreeMap::from([(3, 2)]))
        );
    }
}
