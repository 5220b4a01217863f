//! Where interrupts came: the histogram that `kernels/stress` keeps, by function and by
//! instruction.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSymbol, SymbolKind};

use crate::run;

/// An instruction of the kernel, and how often an interrupt came before it.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// As objdump prints it.
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
    /// All of it, in order.
    pub code: Vec<Instruction>,
}

impl Function {
    /// Interrupts in all of it. One that came before its first instruction did not come inside of
    /// it.
    pub fn inside(&self) -> u64 {
        self.code
            .iter()
            .skip(1)
            .map(|instruction| u64::from(instruction.hits))
            .sum()
    }

    /// Up to its first `ret`, which is its hot path.
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

/// The kernel's functions. `hits[n]` belongs to the instruction `n` bytes behind the beginning of
/// its code.
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

/// Address and text of a line of objdump's, if it is one of an instruction.
fn instruction(line: &str) -> Option<(u64, String)> {
    let (address, text) = line.split_once(":\t")?;
    Some((
        u64::from_str_radix(address.trim(), 16).ok()?,
        text.trim().replace('\t', " "),
    ))
}
