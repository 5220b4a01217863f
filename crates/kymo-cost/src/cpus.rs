//! One block per CPU, created at the CPU's first access. In QEMU's user mode every thread is a CPU,
//! so their number is unlimited.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::AcqRel, Ordering::Acquire};

/// Blocks by CPU number; finding one takes two loads and no lock. Segment `s` holds `2^s` of them.
pub struct Cpus<T> {
    segments: [AtomicPtr<AtomicPtr<T>>; 32],
}

impl<T> Cpus<T> {
    /// A table without blocks.
    pub const fn new() -> Cpus<T> {
        Cpus {
            segments: [const { AtomicPtr::new(null_mut()) }; 32],
        }
    }

    /// Segment and index of the pointer to this CPU's block.
    fn place(cpu: u32) -> (usize, usize) {
        let number = u64::from(cpu) + 1;
        let segment = number.ilog2() as usize;
        (segment, (number - (1 << segment)) as usize)
    }

    /// This CPU's block.
    #[inline(always)]
    pub fn get(&self, cpu: u32) -> Option<&T> {
        let (segment, index) = Self::place(cpu);
        // Partner: the compare-exchanges in `get_or_make`.
        let segment = self.segments.get(segment)?.load(Acquire);
        if segment.is_null() {
            return None;
        }
        // SAFETY: a segment has `2^s` pointers, `index` is below that, and neither segments nor
        // blocks are ever freed.
        unsafe { (*segment.add(index)).load(Acquire).as_ref() }
    }

    /// This CPU's block, created by `make` if it does not exist.
    pub fn get_or_make(&self, cpu: u32, make: impl FnOnce() -> T) -> Option<&T> {
        if let Some(block) = self.get(cpu) {
            return Some(block);
        }
        let (number, index) = Self::place(cpu);
        let segment = self.segments.get(number)?;
        if segment.load(Acquire).is_null() {
            let pointers: Box<[AtomicPtr<T>]> = (0..1_usize << number)
                .map(|_| AtomicPtr::default())
                .collect();
            let pointers = Box::leak(pointers);
            // If two threads create a segment at once, one segment is leaked.
            let _ = segment.compare_exchange(null_mut(), pointers.as_mut_ptr(), AcqRel, Acquire);
        }
        let pointers = segment.load(Acquire);
        // SAFETY: as in `get`; it is not null now.
        let slot = unsafe { &*pointers.add(index) };
        let _ = slot.compare_exchange(null_mut(), Box::leak(Box::new(make())), AcqRel, Acquire);
        self.get(cpu)
    }

    /// All blocks with their CPU numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let made =
            (0..32_u32).filter(|&segment| !self.segments[segment as usize].load(Acquire).is_null());
        let numbers = made.flat_map(|segment| (1_u64 << segment) - 1..(1_u64 << (segment + 1)) - 1);
        numbers
            .filter_map(|number| u32::try_from(number).ok())
            .filter_map(|cpu| Some((cpu, self.get(cpu)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_has_a_block_of_its_own_and_keeps_it() {
        let cpus: Cpus<u32> = Cpus::new();
        let numbers = [0, 1, 2, 3, 6, 7, 8, 255, 256, 100_000];
        assert!(cpus.get(0).is_none() && cpus.iter().next().is_none());
        for cpu in numbers {
            assert_eq!(cpus.get_or_make(cpu, || cpu), Some(&cpu));
        }
        for cpu in numbers {
            assert_eq!(cpus.get_or_make(cpu, || unreachable!()), Some(&cpu));
        }
        assert_eq!(cpus.get(5), None);
        assert_eq!(
            cpus.iter()
                .map(|(cpu, &block)| (cpu, block))
                .collect::<Vec<_>>(),
            numbers.map(|cpu| (cpu, cpu))
        );
    }

    #[test]
    fn threads_that_come_at_once_share_no_block() {
        let cpus: &Cpus<u32> = &Cpus::new();
        std::thread::scope(|scope| {
            for first in 0..4 {
                scope.spawn(move || {
                    for cpu in (first..1000).step_by(4) {
                        assert_eq!(cpus.get_or_make(cpu, || cpu), Some(&cpu));
                    }
                });
            }
        });
        assert_eq!(cpus.iter().count(), 1000);
    }
}
