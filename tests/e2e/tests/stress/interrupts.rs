//! Distribution of interrupts over the interrupted instructions.

use std::collections::BTreeMap;

use kymo_e2e::interrupted::{Function, Instruction};

use super::machine::{Machine, Run};

/// Numbers of interrupts inside functions whose symbols contain one of these parts, by part.
fn inside(run: &Run, parts: &[&'static str]) -> BTreeMap<&'static str, u64> {
    let within = |part: &'static str| {
        let functions = run
            .functions
            .iter()
            .filter(|function| function.symbol.contains(part));
        (part, functions.map(Function::inside).sum())
    };
    parts.iter().copied().map(within).collect()
}

/// Checks that interrupts occurred inside the writer of an x86-64 run.
fn interrupts_come_inside(run: &Run, writer: &'static str) {
    let inside = inside(run, &[writer, "local_cas4slow", "local_cas7prepare"]);
    let hottest = run
        .functions
        .iter()
        .filter(|function| function.symbol.contains(writer))
        .max_by_key(|one| one.inside())
        .unwrap();
    let (hit, all) = (
        hottest.hot_path().iter().filter(|one| one.hits > 0).count(),
        hottest.hot_path().len(),
    );
    println!(
        "{}: interrupts and NMIs inside of {inside:?}, before {hit} of {all} instructions of a hot \
         path",
        run.name
    );
    assert!(
        inside.values().sum::<u64>() > 0,
        "{}: no interrupt came inside of a writer",
        run.name
    );
    assert!(
        inside[writer] > 0 || !run.one_instruction_blocks,
        "{}: none came in the hot path",
        run.name
    );
}

/// Checks that in runs with blocks of one instruction, interrupts occurred before most instructions
/// of the hot path, and in the slow path.
pub(crate) fn interrupts_come_anywhere(runs: &[Run]) {
    let of = |run: &Run, part: &str| -> Vec<Function> {
        run.functions
            .iter()
            .filter(|function| function.symbol.contains(part))
            .cloned()
            .collect()
    };
    for writer in 0..of(&runs[0], "writer_tsc_cas").len() {
        let all: Vec<Function> = runs
            .iter()
            .map(|run| of(run, "writer_tsc_cas")[writer].clone())
            .collect();
        let mut sum = all[0].clone();
        for other in &all[1..] {
            sum.code
                .iter_mut()
                .zip(&other.code)
                .for_each(|(sum, other)| sum.hits += other.hits);
        }
        let path = sum.hot_path();
        let hit = path
            .iter()
            .filter(|instruction| instruction.hits > 0)
            .count();
        println!(
            "{hit} of {} instructions of a hot path were interrupted",
            path.len()
        );
        // The common path. The other two record one event in 16.
        if path
            .iter()
            .any(|instruction| instruction.mnemonic() == "shld")
        {
            println!("{}", sum.listing());
            assert!(hit * 4 >= path.len() * 3, "only {hit} of {}", path.len());
        }
    }
    let slow: u64 = runs
        .iter()
        .flat_map(|run| inside(run, &["local_cas4slow", "local_cas7prepare"]).into_values())
        .sum();
    assert!(slow > 0, "no interrupt came in the slow path");
}

/// The word of an instruction that objdump does not decode, such as control register accesses that
/// the ELF file does not declare.
fn word(instruction: &Instruction) -> Option<u32> {
    u32::from_str_radix(instruction.text.strip_prefix(".4byte 0x")?, 16).ok()
}

/// Checks that interrupts in the writer of a RISC-V run occurred only outside the masked section.
fn interrupts_wait(run: &Run) {
    let (mut around, mut writers) = (0, 0);
    for writer in run
        .functions
        .iter()
        .filter(|function| function.symbol.contains("writer_masked"))
    {
        let at = |is_it: fn(u32) -> bool| {
            writer
                .code
                .iter()
                .position(|one| word(one).is_some_and(is_it))
                .expect("it masks")
        };
        // csrrci .., sstatus, 2 or csrrci .., mstatus, 8; csrw sstatus, .. or csrw mstatus, ..
        let mask = at(|word| [0x1001_7073, 0x3004_7073].contains(&(word & 0xffff_f07f)));
        let restore = at(|word| [0x1000_1073, 0x3000_1073].contains(&(word & 0xfff0_7fff)));
        assert!(mask < restore, "{}", writer.listing());
        let masked: u32 = writer.code[mask + 1..=restore]
            .iter()
            .map(|one| one.hits)
            .sum();
        assert_eq!(
            masked,
            0,
            "{}: interrupted while they were masked:\n{}",
            run.name,
            writer.listing()
        );
        around += writer.inside();
        writers += 1;
    }
    assert_eq!(
        inside(run, &["masked11record_slow"])["masked11record_slow"],
        0,
        "{}",
        run.name
    );
    let hottest = run
        .functions
        .iter()
        .filter(|function| function.symbol.contains("writer_masked"))
        .max_by_key(|one| one.inside());
    println!(
        "{}: {around} interrupts inside of {writers} writers, none of them while they mask:\n{}",
        run.name,
        hottest.unwrap().listing()
    );
    assert!(around > 0);
}

/// Checks the interrupts in the writers of a run.
pub(crate) fn interrupts(run: &Run) {
    match run.machine {
        Machine::Riscv64 | Machine::Riscv32 => interrupts_wait(run),
        Machine::X86_64 if run.name.contains("jump") => {
            interrupts_come_inside(run, "writer_local_cas")
        }
        Machine::X86_64 => interrupts_come_inside(run, "writer_tsc_cas"),
    }
}
