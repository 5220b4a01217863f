//! The histogram of interrupted instructions that `kernels/stress` keeps, by function and
//! instruction.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol, SymbolKind};

use crate::run;

/// An instruction of the kernel, and the number of interrupts before it.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The instruction as printed by objdump.
    pub text: String,
    /// Interrupts.
    pub hits: u32,
}

impl Instruction {
    /// Its first word.
    pub fn mnemonic(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }
}

/// A function of the kernel.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its symbol.
    pub symbol: String,
    /// Its instructions, in order.
    pub code: Vec<Instruction>,
}

impl Function {
    /// Number of interrupts inside the function, so not those before its first instruction.
    pub fn inside(&self) -> u64 {
        self.code
            .iter()
            .skip(1)
            .map(|instruction| u64::from(instruction.hits))
            .sum()
    }

    /// The hot path: everything up to the first `ret`.
    pub fn hot_path(&self) -> &[Instruction] {
        let end = self
            .code
            .iter()
            .position(|instruction| instruction.mnemonic() == "ret");
        &self.code[..=end.expect("a function returns")]
    }

    /// The hot path, with the number of interrupts before each instruction.
    pub fn listing(&self) -> String {
        self.hot_path()
            .iter()
            .fold(String::new(), |mut text, instruction| {
                writeln!(text, "{:>8}  {}", instruction.hits, instruction.text).unwrap();
                text
            })
    }
}

/// The kernel's functions. `hits[n]` belongs to the instruction at offset `n` of its code.
pub fn functions(elf: &Path, objdump: &str, hits: &[u32]) -> Vec<Function> {
    let image = fs::read(elf).unwrap();
    let object = object::File::parse(&*image).unwrap();
    let text = object
        .symbols()
        .find(|symbol| symbol.name() == Ok("__text"))
        .unwrap()
        .address();
    let disassembly = run(
        Command::new(objdump)
            .args(["--disassemble", "--no-show-raw-insn"])
            .arg(elf),
        0,
    )
    .stdout;
    let code: BTreeMap<u64, String> = String::from_utf8(disassembly)
        .unwrap()
        .lines()
        .filter_map(instruction)
        .collect();
    let function = |symbol: object::Symbol<'_, '_>| {
        let range = symbol.address()..symbol.address() + symbol.size();
        let hits = |address: u64| {
            hits.get((address - text) as usize)
                .copied()
                .unwrap_or_default()
        };
        let code = code.range(range).map(|(&address, text)| Instruction {
            text: text.clone(),
            hits: hits(address),
        });
        Function {
            symbol: symbol.name().unwrap().to_owned(),
            code: code.collect(),
        }
    };
    object
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .map(function)
        .collect()
}

/// Address and text of a line of objdump's output, if it is an instruction.
fn instruction(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(":\t")?;
    Some((
        u64::from_str_radix(address.trim(), 16).ok()?,
        text.trim().replace('\t', " "),
    ))
}
