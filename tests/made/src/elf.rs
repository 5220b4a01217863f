//! Writes ELF files whose code, symbols and debug sections the test chooses.

/// 64-bit x86.
pub const X86_64: u16 = 62;
/// 32-bit Arm.
pub const ARM: u16 = 40;

/// A symbol.
#[derive(Clone, Copy, Debug)]
pub struct Symbol<'a> {
    /// Its name: bytes up to the first 0.
    pub name: &'a [u8],
    /// Its value.
    pub value: u64,
    /// Its size, or 0.
    pub size: u64,
    /// Its type: 0 for a label of assembly, 2 for a function, 10 for one with several versions.
    pub kind: u8,
    /// Whether other files can refer to it.
    pub is_global: bool,
}

/// A global function.
pub fn function(name: &str, value: u64, size: u64) -> Symbol<'_> {
    Symbol {
        name: name.as_bytes(),
        value,
        size,
        kind: 2,
        is_global: true,
    }
}

/// The section that says what the build of a file is called.
pub fn build_id(id: &[u8]) -> (&'static str, Vec<u8>) {
    let mut note = Vec::new();
    half(&mut note, &[4, id.len() as u32, 3]);
    note.extend(b"GNU\0");
    note.extend(id);
    note.resize(note.len().next_multiple_of(4), 0);
    (".note.gnu.build-id", note)
}

/// An ELF file of 64 bits, little-endian.
#[derive(Clone, Debug)]
pub struct Elf<'a> {
    /// The processor's number.
    pub machine: u16,
    /// Where the code begins.
    pub begin: u64,
    /// Bytes of code.
    pub size: u64,
    /// `.symtab`.
    pub symbols: &'a [Symbol<'a>],
    /// `.dynsym`.
    pub dynamic: &'a [Symbol<'a>],
    /// Other sections: name and contents.
    pub sections: &'a [(&'a str, Vec<u8>)],
}

/// A section: name, type, flags, address, contents, link, size of an entry.
type Section<'a> = (&'a str, u32, u64, u64, Vec<u8>, u32, u64);

impl Elf<'_> {
    /// An x86-64 program with a page of code at 0x1000.
    pub fn program() -> Elf<'static> {
        Elf {
            machine: X86_64,
            begin: 0x1000,
            size: 0x1000,
            symbols: &[],
            dynamic: &[],
            sections: &[],
        }
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let code = vec![0x90; self.size as usize];
        let mut sections: Vec<Section<'_>> = vec![
            ("", 0, 0, 0, Vec::new(), 0, 0),
            (".text", 1, 6, self.begin, code, 0, 0),
        ];
        for (name, strings, kind, symbols) in [
            (".symtab", ".strtab", 2, self.symbols),
            (".dynsym", ".dynstr", 11, self.dynamic),
        ] {
            let (table, names) = table(symbols);
            let link = sections.len() as u32 + 1;
            sections.push((name, kind, 0, 0, table, link, 24));
            sections.push((strings, 3, 0, 0, names, 0, 0));
        }
        let others = self.sections.iter();
        sections.extend(others.map(|(name, bytes)| {
            // Readers look for notes by their type.
            let kind = if name.starts_with(".note") { 7 } else { 1 };
            (*name, kind, 0, 0, bytes.clone(), 0, 0)
        }));
        let mut names = Vec::new();
        let mut places: Vec<u32> = Vec::new();
        let all = sections.iter().map(|(name, ..)| *name);
        for name in all.chain([".shstrtab"]) {
            places.push(names.len() as u32);
            names.extend(name.as_bytes());
            names.push(0);
        }
        sections.push((".shstrtab", 3, 0, 0, names, 0, 0));
        let mut body: Vec<u8> = Vec::new();
        let mut headers = Vec::new();
        const HEAD: u64 = 64 + 56;
        for ((_, kind, flags, address, bytes, link, entry), name) in sections.iter().zip(places) {
            let offset = HEAD + body.len() as u64;
            // The first global symbol follows the empty one.
            let info = u32::from(*entry > 0);
            half(&mut headers, &[name, *kind]);
            word(
                &mut headers,
                &[*flags, *address, offset, bytes.len() as u64],
            );
            half(&mut headers, &[*link, info]);
            word(&mut headers, &[1, *entry]);
            body.extend(bytes);
            // Readers expect tables at multiples of 8.
            body.resize(body.len().next_multiple_of(8), 0);
        }
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend(2_u16.to_le_bytes());
        file.extend(self.machine.to_le_bytes());
        half(&mut file, &[1]);
        word(&mut file, &[self.begin, 64, HEAD + body.len() as u64]);
        half(&mut file, &[0]);
        let count = sections.len() as u16;
        for number in [64, 56, 1, 64, count, count - 1] {
            file.extend(number.to_le_bytes());
        }
        half(&mut file, &[1, 5]);
        word(
            &mut file,
            &[HEAD, self.begin, self.begin, self.size, self.size, 0x1000],
        );
        file.extend(body);
        file.extend(headers);
        file
    }
}

/// A symbol table, and its strings.
fn table(symbols: &[Symbol<'_>]) -> (Vec<u8>, Vec<u8>) {
    let (mut table, mut names) = (vec![0; 24], vec![0]);
    for symbol in symbols {
        half(&mut table, &[names.len() as u32]);
        // In the section `.text`.
        table.extend([symbol.kind | u8::from(symbol.is_global) << 4, 0, 1, 0]);
        word(&mut table, &[symbol.value, symbol.size]);
        names.extend(symbol.name);
        names.push(0);
    }
    (table, names)
}

fn half(to: &mut Vec<u8>, numbers: &[u32]) {
    to.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn word(to: &mut Vec<u8>, numbers: &[u64]) {
    to.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}
