//! What an event costs on RV64, counted in the machine code of one out-of-line function an event (`kernels/probes`): from its first instruction, with the fields
//! in registers, to its `ret`, the on/off test included.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::process::Command;

use kymo_e2e::{built, run};

/// The instructions of one function as objdump prints them, up to its first `ret`: the hot path, if every branch in it leads past that `ret`.
fn hot_path(symbol: &str) -> Vec<String> {
    let mut objdump = Command::new("riscv64-unknown-elf-objdump");
    objdump.args(["--disassemble", "--no-show-raw-insn", "--architecture=riscv:rv64"]).arg(built("KYMO_PROBES"));
    let text = String::from_utf8(run(&mut objdump, 0).stdout).unwrap();
    let head = format!("<{symbol}>:");
    let mut lines = text.lines().skip_while(|line| !line.ends_with(&head)).skip(1);
    let mut path = Vec::new();
    let mut branches = Vec::new();
    loop {
        let line =
            lines.next().filter(|line| !line.is_empty()).unwrap_or_else(|| panic!("{symbol} has no ret:\n{}", path.join("\n")));
        let (address, instruction) = line.split_once(':').expect("an instruction");
        let address = u64::from_str_radix(address.trim(), 16).unwrap();
        let instruction = instruction.trim().to_owned();
        let mut words = instruction.split_whitespace();
        let mnemonic = words.next().unwrap();
        assert!(
            !["j", "jr", "jal", "jalr", "call", "tail", "unimp"].contains(&mnemonic),
            "{symbol} jumps in its hot path: {instruction}"
        );
        if mnemonic.starts_with('b') {
            let operands = words.next().unwrap();
            branches.push(u64::from_str_radix(operands.rsplit(',').next().unwrap(), 16).unwrap());
        }
        let end = mnemonic == "ret";
        path.push(instruction);
        if end {
            assert!(branches.iter().all(|&target| target >= address), "{symbol} has a loop or a block in its hot path");
            return path;
        }
    }
}

fn count(symbol: &str, at_most: usize, stores: usize) {
    let path = hot_path(symbol);
    println!("{symbol}: {} instructions (at most {at_most})\n    {}", path.len(), path.join("\n    "));
    assert!(path.len() <= at_most, "{symbol} takes {} instructions; {at_most} are allowed", path.len());
    // A hot path that became shorter than what an event must do is a measuring error.
    assert!(path.len() >= 15, "{symbol} takes only {} instructions: is that the whole path?", path.len());
    let found = path.iter().filter(|line| ["sw", "sd", "sh", "sb"].contains(&line.split_whitespace().next().unwrap())).count();
    assert_eq!(found, stores, "stores of {symbol}");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn sched_switch_takes_21_instructions_masked_and_23_with_masking() {
    count("kymo_probe_sched_switch_masked", 21, 5);
    count("kymo_probe_sched_switch", 23, 5);
    count("kymo_probe_irq_enter_masked", 20, 4);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn sched_switch_takes_12_bytes() {
    use kymo::event::Event;
    use kymo::vocabulary::{IrqEnter, SchedSwitch};
    let bytes = |schema: kymo::event::EventSchema| 4 * (schema.header_words() + schema.max_payload_words());
    assert_eq!(bytes(SchedSwitch::SCHEMA), 12);
    assert_eq!(bytes(IrqEnter::SCHEMA), 8);
}
