//! Facts about emulators and their machines.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use object::endian::LittleEndian;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

use super::Error;

/// The part of the program's file name after `qemu-system-`.
pub(super) fn architecture(program: &OsStr) -> Option<&str> {
    Path::new(program)
        .file_name()?
        .to_str()?
        .strip_prefix("qemu-system-")
}

pub(super) const RISCV_VIRT: &[&str] = &["qemu-system-riscv64", "-M", "virt", "-nographic"];
/// For a kernel that lies where QEMU would put its firmware.
const RISCV64_BARE: &[&str] = &[
    "qemu-system-riscv64",
    "-M",
    "virt",
    "-nographic",
    "-bios",
    "none",
];
/// QEMU is often packaged without firmware for it, so the kernel is entered in M-mode, at the
/// beginning of RAM.
const RISCV32_VIRT: &[&str] = &[
    "qemu-system-riscv32",
    "-M",
    "virt",
    "-nographic",
    "-bios",
    "none",
];
/// Without `-nographic`, which would let the firmware write to the serial port. `isa-debug-exit`
/// lets a kernel end QEMU with an exit code.
const X86_64_Q35: &[&str] = &[
    "qemu-system-x86_64",
    "-M",
    "q35",
    "-display",
    "none",
    "-serial",
    "stdio",
    "-device",
    "isa-debug-exit,iobase=0xf4,iosize=4",
];
/// With the third version of the interrupt controller, whose priorities let pseudo-NMIs through.
/// Semihosting lets a kernel end QEMU with an exit code; it also lets it open the user's files.
const AARCH64_VIRT: &[&str] = &[
    "qemu-system-aarch64",
    "-M",
    "virt,gic-version=3",
    "-cpu",
    "cortex-a72",
    "-nographic",
    "-semihosting-config",
    "enable=on,target=native",
];

/// The emulator and machine options for this ELF file.
pub(super) fn standard_machine(kernel: &Path) -> Result<&'static [&'static str], Error> {
    const CLASS_32: u8 = 1;
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    const X86_64: u16 = 62;
    const AARCH64: u16 = 183;
    const RISCV: u16 = 243;
    let mut header = Vec::new();
    File::open(kernel)
        .and_then(|file| file.take(20).read_to_end(&mut header))
        .map_err(|source| Error::Kernel {
            path: kernel.to_owned(),
            source,
        })?;
    let &[0x7F, b'E', b'L', b'F', class, order, .., low, high] = header.as_slice() else {
        return Err(Error::NotElf {
            path: kernel.to_owned(),
        });
    };
    if header.len() < 20 {
        return Err(Error::NotElf {
            path: kernel.to_owned(),
        });
    }
    let machine = if order == LITTLE_ENDIAN {
        u16::from_le_bytes([low, high])
    } else {
        u16::from_be_bytes([low, high])
    };
    match (machine, class, order) {
        (RISCV, CLASS_64, LITTLE_ENDIAN) if is_its_own_firmware(kernel) => Ok(RISCV64_BARE),
        (RISCV, CLASS_64, LITTLE_ENDIAN) => Ok(RISCV_VIRT),
        (RISCV, CLASS_32, LITTLE_ENDIAN) => Ok(RISCV32_VIRT),
        (AARCH64, CLASS_64, LITTLE_ENDIAN) => Ok(AARCH64_VIRT),
        (X86_64, CLASS_64, LITTLE_ENDIAN) if has_pvh_entry(kernel) => Ok(X86_64_Q35),
        (X86_64, CLASS_64, LITTLE_ENDIAN) => Err(Error::NoEntry {
            path: kernel.to_owned(),
        }),
        _ => {
            let bits = if class == CLASS_64 { 64 } else { 32 };
            let name = match machine {
                3 => "x86 (32 bits)".to_owned(),
                40 => "Arm (32 bits)".to_owned(),
                X86_64 => format!("x86-64 ({bits} bits)"),
                AARCH64 => format!("AArch64 ({bits} bits)"),
                RISCV => format!("RISC-V ({bits} bits)"),
                other => format!("ELF machine {other} ({bits} bits)"),
            };
            Err(Error::Architecture {
                path: kernel.to_owned(),
                architecture: name,
            })
        }
    }
}

/// Whether a segment of the image is loaded at the beginning of RAM, where QEMU's firmware for
/// RISC-V would lie.
fn is_its_own_firmware(kernel: &Path) -> bool {
    const RAM: u64 = 0x8000_0000;
    let found = || {
        let cache = ReadCache::new(File::open(kernel).ok()?);
        let elf = object::elf::FileHeader64::<LittleEndian>::parse(&cache).ok()?;
        let endian = elf.endian().ok()?;
        let mut segments = elf.program_headers(endian, &cache).ok()?.iter();
        segments.find(|segment| {
            segment.p_type(endian) == object::elf::PT_LOAD && segment.p_paddr(endian) == RAM
        })?;
        Some(())
    };
    found().is_some()
}

/// Whether the image has the note by which QEMU's `-kernel` finds the 32-bit entry of an x86-64 ELF
/// file (Xen's public/elfnote.h).
fn has_pvh_entry(kernel: &Path) -> bool {
    const XEN_PHYS32_ENTRY: u32 = 18;
    let found = || {
        let cache = ReadCache::new(File::open(kernel).ok()?);
        let elf = object::elf::FileHeader64::<LittleEndian>::parse(&cache).ok()?;
        let endian = elf.endian().ok()?;
        for header in elf.program_headers(endian, &cache).ok()? {
            // A segment of another type, or damaged.
            let Ok(Some(mut notes)) = header.notes(endian, &cache) else {
                continue;
            };
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"Xen" && note.n_type(endian) == XEN_PHYS32_ENTRY {
                    return Some(());
                }
            }
        }
        None
    };
    found().is_some()
}

/// Base address of a machine's RAM, from QEMU's sources (`hw/riscv/virt.c`, `hw/arm/virt.c`,
/// `hw/arm/mps2.c`; PC memory begins at 0). That of the MPS2 boards is their 16 MiB of PSRAM, not
/// the smaller memory beside it.
pub(crate) fn ram_base(architecture: &str, machine: Option<&str>) -> Option<u64> {
    match (architecture, machine) {
        // Without -M, QEMU for RISC-V uses `spike`, whose RAM begins at the same address.
        ("riscv32" | "riscv64", None | Some("virt" | "spike" | "sifive_u")) => Some(0x8000_0000),
        ("arm" | "aarch64", Some(machine)) if machine == "virt" || machine.starts_with("virt-") => {
            Some(0x4000_0000)
        }
        ("arm", Some("mps2-an385" | "mps2-an386" | "mps2-an511")) => Some(0x2100_0000),
        ("i386" | "x86_64", _) => Some(0),
        _ => None,
    }
}

/// The device that carries virtio serial ports on a machine.
pub(super) fn serial_bus(architecture: &str, machine: &str) -> Option<&'static str> {
    match (architecture, machine) {
        ("riscv32" | "riscv64", "virt") | ("i386" | "x86_64", "microvm") => {
            Some("virtio-serial-device")
        }
        ("arm" | "aarch64", machine) if machine == "virt" || machine.starts_with("virt-") => {
            Some("virtio-serial-device")
        }
        ("i386" | "x86_64", _) => Some("virtio-serial-pci"),
        _ => None,
    }
}

/// The Debian package of this emulator.
pub(super) fn package(program: &OsStr) -> &'static str {
    match architecture(program).unwrap_or_default() {
        "arm" | "aarch64" => "qemu-system-arm",
        "i386" | "x86_64" => "qemu-system-x86",
        "mips" | "mipsel" | "mips64" | "mips64el" => "qemu-system-mips",
        "ppc" | "ppc64" => "qemu-system-ppc",
        "sparc" | "sparc64" => "qemu-system-sparc",
        _ => "qemu-system-misc",
    }
}
