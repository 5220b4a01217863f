//! Bare-metal guests that execute known numbers of instructions, loads and stores on every CPU:
//! machine code, so that no compiler changes it and none is needed.

mod aarch64;
mod riscv;
mod x86_64;

use std::fs;
use std::path::Path;

/// Instructions, loads and stores of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerCall(pub u64, pub u64, pub u64);

/// A function of a guest.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// Its range, as offsets from the guest's base.
    pub start: u64,
    /// Its end, exclusive.
    pub end: u64,
    /// How often every CPU calls it,
    pub calls: u64,
    /// and whether exactly so often, or at least.
    pub exactly: bool,
    /// The counts of each call.
    pub per_call: PerCall,
}

/// A guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its emulator.
    pub qemu: &'static str,
    /// The machine.
    pub arguments: &'static [&'static str],
    /// QEMU's exit status when the guest is done.
    pub status: i32,
    /// ELF class (1: 32 bits, 2: 64 bits) and machine.
    pub class: u8,
    /// See `class`.
    pub machine: u16,
    /// Its link address and entry point.
    pub base: u64,
    parts: Vec<(u64, Vec<u8>)>,
    /// Offset of the number of CPUs, its last word.
    cpus_at: u64,
    note: Vec<u8>,
    /// The functions to count.
    pub functions: Vec<Function>,
}

/// All guests.
pub fn all() -> Vec<Guest> {
    vec![
        riscv::guest(64),
        riscv::guest(32),
        aarch64::guest(),
        x86_64::guest(),
    ]
}

/// The program for QEMU's user mode.
pub fn program() -> Guest {
    x86_64::program()
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Guest {
    /// Writes the guest as an ELF file, for this many CPUs.
    pub fn write(&self, path: &Path, cpus: u32) {
        let mut image = vec![0; self.cpus_at as usize];
        for (at, part) in &self.parts {
            image[*at as usize..*at as usize + part.len()].copy_from_slice(part);
        }
        image.extend(cpus.to_le_bytes());
        let note_at = image.len() as u64;
        image.extend(&self.note);
        fs::write(path, elf(self, &image, note_at)).unwrap();
    }
}

/// An ELF file with one segment to load, and one for the note if there is one, which lies in the
/// first.
fn elf(guest: &Guest, image: &[u8], note_at: u64) -> Vec<u8> {
    const OFFSET: u64 = 0x1000;
    let is_64 = guest.class == 2;
    let mut out = vec![
        0x7f,
        b'E',
        b'L',
        b'F',
        guest.class,
        1,
        1,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    let long = |out: &mut Vec<u8>, value: u64| match is_64 {
        true => out.extend(value.to_le_bytes()),
        false => out.extend((value as u32).to_le_bytes()),
    };
    let segments: u16 = if guest.note.is_empty() { 1 } else { 2 };
    let (header, entry): (u16, u16) = if is_64 { (64, 56) } else { (52, 32) };
    // An executable for this machine, version 1; entry; program headers behind this one; no section
    // headers; no flags.
    out.extend([2_u16, guest.machine].map(u16::to_le_bytes).as_flattened());
    out.extend(1_u32.to_le_bytes());
    long(&mut out, guest.base);
    long(&mut out, header.into());
    long(&mut out, 0);
    out.extend(0_u32.to_le_bytes());
    out.extend(
        [header, entry, segments, 0, 0, 0]
            .map(u16::to_le_bytes)
            .as_flattened(),
    );
    let load = (1_u32, OFFSET, guest.base, image.len() as u64, OFFSET);
    let note = (
        4_u32,
        OFFSET + note_at,
        guest.base + note_at,
        guest.note.len() as u64,
        4,
    );
    for (kind, offset, address, size, alignment) in [load, note].into_iter().take(segments.into()) {
        const READ_WRITE_EXECUTE: u32 = 7;
        out.extend(kind.to_le_bytes());
        if is_64 {
            out.extend(READ_WRITE_EXECUTE.to_le_bytes());
        }
        for value in [offset, address, address, size, size] {
            long(&mut out, value);
        }
        if !is_64 {
            out.extend(READ_WRITE_EXECUTE.to_le_bytes());
        }
        long(&mut out, alignment);
    }
    out.resize(OFFSET as usize, 0);
    out.extend(image);
    out
}
