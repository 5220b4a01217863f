//! The programs in the kernel's image: ELF files, built by build.rs.

use crate::arch::paging::PAGE;

/// Aligned to a page, so that the content can be mapped.
#[repr(C, align(4096))]
struct Aligned<T: ?Sized>(T);

const _: () = assert!(align_of::<Aligned<u8>>() == PAGE);

/// A program.
pub struct Program {
    pub name: &'static str,
    elf: &'static Aligned<[u8]>,
}

// `PROGRAMS`.
include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// A segment of a program, on pages of its own.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Its address in the program.
    pub address: usize,
    /// Its initial content, aligned to a page; zeros follow.
    pub bytes: &'static [u8],
    /// Size in bytes, zeros included.
    pub size: usize,
    pub writable: bool,
    pub executable: bool,
}

impl Segment {
    /// Its pages.
    pub fn pages(&self) -> impl Iterator<Item = usize> {
        (self.address..self.address + self.size).step_by(PAGE)
    }

    /// Initial content of a page.
    pub fn bytes_of(&self, page: usize) -> &'static [u8] {
        let begin = (page - self.address).min(self.bytes.len());
        &self.bytes[begin..self.bytes.len().min(begin + PAGE)]
    }
}

/// The type of loadable program headers, and their flags.
const LOAD: u64 = 1;
const EXECUTABLE: u64 = 1;
const WRITABLE: u64 = 2;

impl Program {
    /// Finds a program by name.
    pub fn named(name: &str) -> Option<&'static Program> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Its entry point.
    pub fn entry(&self) -> usize {
        self.number(24, 8) as usize
    }

    /// Its loadable segments (System V ABI, "ELF header" and "program header" of 64-bit files).
    pub fn segments(&'static self) -> impl Iterator<Item = Segment> {
        let (headers, size, count) = (
            self.number(32, 8) as usize,
            self.number(54, 2) as usize,
            self.number(56, 2) as usize,
        );
        let headers = (0..count).map(move |index| headers + index * size);
        headers.filter(|&at| self.number(at, 4) == LOAD).map(|at| {
            let field = |offset| self.number(at + offset, 8) as usize;
            let flags = self.number(at + 4, 4);
            debug_assert_eq!(field(16) % PAGE, 0, "link.ld puts each segment on a page");
            Segment {
                address: field(16),
                bytes: &self.elf.0[field(8)..][..field(32)],
                size: field(40),
                writable: flags & WRITABLE != 0,
                executable: flags & EXECUTABLE != 0,
            }
        })
    }

    fn number(&self, at: usize, len: usize) -> u64 {
        self.elf.0[at..at + len]
            .iter()
            .rev()
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}
