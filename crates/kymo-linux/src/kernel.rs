//! The kernel's functions, from its own list.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// The functions of the running kernel and its modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSymbols {
    /// Address and name, by address.
    functions: Vec<(u64, String)>,
}

impl KernelSymbols {
    /// Those of the running kernel; `None` if it hides its addresses, which it shows to root only
    /// (`kernel.kptr_restrict`).
    pub fn read() -> Option<KernelSymbols> {
        let text = fs::read("/proc/kallsyms").ok()?;
        let symbols = KernelSymbols::parse(&String::from_utf8_lossy(&text));
        (!symbols.functions.is_empty()).then_some(symbols)
    }

    /// [`read`](Self::read), if the running kernel is of this release, and its code begins at this
    /// address: it was not booted anew since.
    pub fn read_if(release: &str, begin: u64) -> Option<KernelSymbols> {
        let running = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        let symbols = KernelSymbols::read().filter(|_| running.trim() == release)?;
        // (Its first function has several names.)
        let place = symbols.functions.binary_search_by_key(&begin, |of| of.0);
        place.is_ok().then_some(symbols)
    }

    /// Those of a list with lines of `ADDRESS TYPE NAME [MODULE]`. Lines of other symbols, and
    /// those without an address, are left out.
    pub fn parse(text: &str) -> KernelSymbols {
        let function = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?.to_owned();
            (is_code && address > 0).then_some((address, name))
        };
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort();
        functions.dedup_by_key(|(address, _)| *address);
        KernelSymbols { functions }
    }

    /// Begin, size and name of the function with this code. The last one of the list has no end.
    fn at(&self, address: u64) -> Option<(u64, u64, &str)> {
        let behind = self
            .functions
            .partition_point(|(begin, _)| *begin <= address);
        let (begin, name) = self.functions.get(behind.checked_sub(1)?)?;
        let (end, _) = self.functions.get(behind)?;
        Some((*begin, end - begin, name))
    }
}

/// Writes an ELF file without code, whose symbols are the kernel's functions with these addresses.
/// Tools read it as they would read the kernel. Writes nothing if there is no such function.
/// Returns whether it has.
///
/// # Errors
/// If the file cannot be written.
pub fn write_kernel(
    path: &Path,
    symbols: &KernelSymbols,
    addresses: &BTreeSet<u64>,
) -> io::Result<bool> {
    let found = addresses.iter().filter_map(|address| symbols.at(*address));
    let functions: BTreeSet<(u64, u64, &str)> = found.collect();
    let (Some(first), Some(last)) = (functions.first(), functions.last()) else {
        return Ok(false);
    };
    let (begin, size) = (first.0, last.0 + last.1 - first.0);
    let written = fs::write(path, elf(begin, size, &functions));
    written.inspect_err(|_| drop(fs::remove_file(path)))?;
    Ok(true)
}

/// Sizes of a file's header, of a segment's, of a section's, and of a symbol.
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SECTION: u64 = 64;
const SYMBOL: u64 = 24;

/// Names of the sections, and where each begins among them.
const NAMES: &[u8] = b"\0.text\0.symtab\0.strtab\0.shstrtab\0";
const TEXT: u32 = 1;
const SYMTAB: u32 = 7;
const STRTAB: u32 = 15;
const SHSTRTAB: u32 = 23;

/// An ELF file of 64 bits, little-endian: one segment and one section of code that is not there,
/// and functions in it.
fn elf(begin: u64, size: u64, functions: &BTreeSet<(u64, u64, &str)>) -> Vec<u8> {
    let (mut table, mut strings) = (vec![0; SYMBOL as usize], vec![0]);
    for (address, size, name) in functions {
        table.extend((strings.len() as u32).to_le_bytes());
        // A global function, in the first section.
        table.extend([0x12, 0, 1, 0]);
        words(&mut table, &[*address, *size]);
        strings.extend(name.bytes().chain([0]));
    }
    let at_table = HEADER + SEGMENT;
    let at_strings = at_table + table.len() as u64;
    let at_names = at_strings + strings.len() as u64;
    let at_sections = (at_names + NAMES.len() as u64).next_multiple_of(8);
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2_u16, machine()].map(u16::to_le_bytes).concat());
    file.extend(1_u32.to_le_bytes());
    words(&mut file, &[begin, HEADER, at_sections]);
    file.extend(0_u32.to_le_bytes());
    let sizes = [HEADER, SEGMENT, 1, SECTION, 5, 4];
    file.extend(sizes.map(|size| (size as u16).to_le_bytes()).concat());
    // Loaded, readable and executable.
    file.extend([1_u32, 5].map(u32::to_le_bytes).concat());
    words(&mut file, &[0, begin, begin, 0, size, 4096]);
    file.extend(&table);
    file.extend(&strings);
    file.extend(NAMES);
    file.resize(at_sections as usize, 0);
    let (of_table, of_strings) = (table.len() as u64, strings.len() as u64);
    let sections = [
        (0, 0, [0; 4], [0; 2], 0),
        (TEXT, 1, [6, begin, 0, size], [0; 2], 0),
        (SYMTAB, 2, [0, 0, at_table, of_table], [3, 1], SYMBOL),
        (STRTAB, 3, [0, 0, at_strings, of_strings], [0; 2], 0),
        (SHSTRTAB, 3, [0, 0, at_names, NAMES.len() as u64], [0; 2], 0),
    ];
    for (name, kind, place, link, entry) in sections {
        file.extend([name, kind].map(u32::to_le_bytes).concat());
        words(&mut file, &place);
        file.extend(link.map(u32::to_le_bytes).concat());
        words(&mut file, &[1, entry]);
    }
    file
}

fn words(to: &mut Vec<u8>, numbers: &[u64]) {
    to.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

/// The processor's number in ELF files.
fn machine() -> u16 {
    match std::env::consts::ARCH {
        "aarch64" => 183,
        "riscv64" => 243,
        _ => 62,
    }
}
