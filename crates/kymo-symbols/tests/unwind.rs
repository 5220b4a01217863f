//! Chains of callers of a real program, this test, beside those that the platform's own unwinder
//! finds.

#![allow(missing_docs, clippy::unwrap_used)]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use kymo_symbols::{ChainEnd, Image, Loaded, Registers, StackCopy, Unwinder};

unsafe extern "C" {
    fn _Unwind_Backtrace(
        step: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        to: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// What the platform's unwinder finds, and what a sampler would have copied, in one frame.
struct Captured {
    expected: Vec<u64>,
    registers: Registers,
    stack: Vec<u8>,
}

extern "C" fn push(context: *mut c_void, to: *mut c_void) -> c_int {
    // SAFETY: `to` is the vector that `capture` gave, which lives until the last call.
    let to = unsafe { &mut *to.cast::<Vec<u64>>() };
    // SAFETY: the context is the one that the unwinder gave.
    to.push(unsafe { _Unwind_GetIP(context) } as u64);
    0
}

#[inline(never)]
fn capture() -> Captured {
    let mut expected: Vec<u64> = Vec::with_capacity(100);
    let to = (&raw mut expected).cast();
    // SAFETY: `push` takes the vector as what it is.
    unsafe { _Unwind_Backtrace(push, to) };
    let (ip, sp, fp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        asm!(
            "lea {ip}, [rip]",
            "mov {sp}, rsp",
            "mov {fp}, rbp",
            ip = out(reg) ip,
            sp = out(reg) sp,
            fp = out(reg) fp,
            options(nomem, nostack),
        );
    }
    let registers = Registers {
        ip,
        sp,
        fp,
        link: None,
    };
    // The first one is this function; behind the outermost one some versions give a zero.
    expected.remove(0);
    expected.retain(|address| *address != 0);
    Captured {
        expected,
        registers,
        stack: black_box(stack_from(sp)),
    }
}

/// The stack from an address up to its end.
fn stack_from(address: u64) -> Vec<u8> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut ranges = maps.lines().map(|line| range(line).0);
    let range = ranges.find(|range| range.contains(&address)).unwrap();
    let mut bytes = vec![0; ((range.end - address) as usize).min(1 << 16)];
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    memory.read_exact_at(&mut bytes, address).unwrap();
    bytes
}

/// A mapping's addresses and path.
fn range(line: &str) -> (std::ops::Range<u64>, &str) {
    let (begin, rest) = line.split_once('-').unwrap();
    let (end, rest) = rest.split_once(' ').unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    let path = rest.split_whitespace().nth(4).unwrap_or_default();
    (number(begin)..number(end), path)
}

/// All files that are mapped, and where.
fn files() -> Vec<(String, u64, Vec<u8>)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut files: Vec<(String, u64, Vec<u8>)> = Vec::new();
    for (range, path) in maps.lines().map(range) {
        if path.starts_with('/') && files.iter().all(|(known, ..)| known != path) {
            files.push((path.to_owned(), range.start, std::fs::read(path).unwrap()));
        }
    }
    files
}

/// Calls `inner` through a function with arrays of a size that differs from call to call.
#[inline(never)]
fn nested(depth: u32, inner: &dyn Fn() -> Captured) -> Captured {
    let kept = black_box([depth; 37]);
    let found = match depth {
        0 => inner(),
        _ => through_std(depth, inner),
    };
    black_box(kept);
    found
}

#[inline(never)]
fn through_std(depth: u32, inner: &dyn Fn() -> Captured) -> Captured {
    let mut found = (0..1).map(|_| nested(depth - 1, inner));
    let captured = found.next().unwrap();
    black_box(&captured);
    captured
}

fn with_unwinder<T>(check: impl FnOnce(&mut Unwinder<'_>) -> T) -> T {
    let files = files();
    let images: Vec<(u64, Image<'_>)> = files
        .iter()
        .map(|(_, begin, bytes)| (*begin, Image::parse(bytes).unwrap()))
        .collect();
    let loaded = images.iter().map(|(begin, image)| Loaded {
        image,
        bias: begin - image.base() / 4096 * 4096,
    });
    check(&mut Unwinder::new(loaded))
}

#[test]
fn the_chain_is_the_one_that_the_platform_finds() {
    let captured = nested(3, &capture);
    assert!(captured.expected.len() > 10);
    let stack = StackCopy {
        address: captured.registers.sp,
        bytes: &captured.stack,
    };
    with_unwinder(|unwinder| {
        let chain = unwinder.callers(captured.registers, stack, 1000);
        assert_eq!(chain.callers, captured.expected);
        assert_eq!(chain.end, ChainEnd::Outermost);
        // The second time, from the rules that were kept.
        let again = unwinder.callers(captured.registers, stack, 1000);
        assert_eq!(again, chain);
        // As deep as asked for.
        let few = unwinder.callers(captured.registers, stack, 5);
        assert_eq!(Some(&*few.callers), chain.callers.get(..5));
        assert_eq!(few.end, ChainEnd::Depth);
        let all = chain.callers.len();
        let exact = unwinder.callers(captured.registers, stack, all);
        assert_eq!(exact.end, ChainEnd::Outermost);
    });
}

#[test]
fn a_chain_ends_with_the_copy_of_the_stack() {
    let captured = nested(3, &capture);
    with_unwinder(|unwinder| {
        let mut lengths = Vec::new();
        for size in (0..captured.stack.len()).step_by(64) {
            let stack = StackCopy {
                address: captured.registers.sp,
                bytes: captured.stack.get(..size).unwrap(),
            };
            let chain = unwinder.callers(captured.registers, stack, 1000);
            assert!(captured.expected.starts_with(&chain.callers), "{size}");
            match chain.callers.len() == captured.expected.len() {
                true => assert_eq!(chain.end, ChainEnd::Outermost),
                false => assert_eq!(chain.end, ChainEnd::StackCopy, "{size}"),
            }
            lengths.push(chain.callers.len());
        }
        assert!(lengths.is_sorted());
        assert_eq!(lengths.first(), Some(&0));
        assert_eq!(lengths.last(), Some(&captured.expected.len()));
    });
}

#[test]
fn without_a_table_the_chain_says_where_it_ends() {
    let captured = capture();
    let stack = StackCopy {
        address: captured.registers.sp,
        bytes: &captured.stack,
    };
    let chain = Unwinder::new([]).callers(captured.registers, stack, 10);
    assert_eq!(chain.callers, []);
    assert_eq!(chain.end, ChainEnd::NoTable(captured.registers.ip));
    with_unwinder(|unwinder| {
        let nowhere = Registers {
            ip: 0x1000,
            fp: 8,
            ..captured.registers
        };
        let chain = unwinder.callers(nowhere, stack, 10);
        assert_eq!(chain.end, ChainEnd::NoTable(0x1000));
    });
}
