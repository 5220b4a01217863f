//! The cost of an event, counted in the machine code of one out-of-line function per event
//! (`kernels/probes`), and by the QEMU plugin at run time; compared with `budgets.toml`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use kymo::event::{Event, EventSchema};
use kymo::vocabulary::IrqEnter;
use kymo_e2e::demo::ARCHES;
use kymo_e2e::{built, kymo, patience, run, scratch};
use object::{Object, ObjectSymbol};
use serde_json::Value;

kymo::event! {
    /// The event of `kernels/probes`.
    #[id(21)]
    struct TwoFields { a: u32, b: u32 }
}

/// An entry of `budgets.toml`.
#[derive(Clone)]
struct Budget {
    arch: Arch,
    probe: String,
    what: String,
    instructions: usize,
    loads: usize,
    stores: usize,
    bytes: usize,
    off: usize,
}

/// An architecture with probes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arch {
    Riscv64,
    Riscv32,
    Aarch64,
    X86_64,
}

impl Arch {
    const ALL: [Arch; 4] = [Arch::Riscv64, Arch::Riscv32, Arch::Aarch64, Arch::X86_64];

    /// Its name in `budgets.toml`.
    fn name(self) -> &'static str {
        match self {
            Arch::Riscv64 => "riscv64",
            Arch::Riscv32 => "riscv32",
            Arch::Aarch64 => "aarch64",
            Arch::X86_64 => "x86_64",
        }
    }

    fn named(name: &str) -> Arch {
        let arch = Arch::ALL.into_iter().find(|arch| arch.name() == name);
        arch.unwrap_or_else(|| panic!("there are no probes for {name}"))
    }

    /// Whether its probes can be built here: x86-64's only on x86-64, the others everywhere.
    fn is_here(self) -> bool {
        self != Arch::X86_64 || cfg!(target_arch = "x86_64")
    }
}

fn budgets() -> Vec<Budget> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let entries = table["event"].as_array().unwrap().iter();
    let budget = |entry: &toml::Value| {
        let number = |key: &str| entry[key].as_integer().unwrap() as usize;
        Budget {
            arch: Arch::named(entry["arch"].as_str().unwrap()),
            probe: entry["probe"].as_str().unwrap().to_owned(),
            what: entry["what"].as_str().unwrap().to_owned(),
            instructions: number("instructions"),
            loads: number("loads"),
            stores: number("stores"),
            bytes: number("bytes"),
            off: number("off"),
        }
    };
    let (here, elsewhere): (Vec<_>, Vec<_>) = entries
        .map(budget)
        .partition(|budget| budget.arch.is_here());
    for budget in elsewhere {
        println!(
            "not counted on this machine, which is no x86-64: {} ({})",
            budget.what, budget.probe
        );
    }
    here
}

/// An instruction as objdump prints it.
struct Instruction {
    address: u64,
    text: String,
}

impl Instruction {
    fn mnemonic(&self) -> &str {
        self.text.split_whitespace().next().unwrap()
    }

    /// Target of a conditional branch.
    fn target(&self) -> Option<u64> {
        let operands = self.text.split_whitespace().nth(1)?;
        let target = u64::from_str_radix(operands.rsplit(',').next()?, 16).ok()?;
        // RISC-V's conditional branches, x86's conditional jumps.
        self.mnemonic().starts_with(['b', 'j']).then_some(target)
    }

    /// Numbers of its loads and stores.
    fn memory(&self, arch: Arch) -> (usize, usize) {
        if arch == Arch::Aarch64 {
            return match self.mnemonic() {
                "load" | "load-exclusive" => (1, 0),
                "load-pair" => (2, 0),
                "store" => (0, 1),
                "store-pair" => (0, 2),
                // It compares what is there.
                "store-exclusive" => (1, 1),
                _ => (0, 0),
            };
        }
        if arch != Arch::X86_64 {
            let loads = self.is_one_of(&["lb", "lbu", "lh", "lhu", "lw", "lwu", "ld"]);
            let stores = self.is_one_of(&["sb", "sh", "sw", "sd"]);
            return (loads.into(), stores.into());
        }
        let operands = self
            .text
            .split_once(' ')
            .map_or("", |(_, operands)| operands.trim());
        let touches = operands.contains('(') || operands.contains("%gs:");
        if !touches || self.mnemonic() == "lea" {
            return (0, 0);
        }
        // The last operand is written, except by a comparison.
        let writes = operands.ends_with(')') && !self.mnemonic().starts_with("cmp")
            || self.mnemonic() == "cmpxchg";
        let reads = !writes || !self.mnemonic().starts_with("mov");
        (reads.into(), writes.into())
    }

    fn is_one_of(&self, mnemonics: &[&str]) -> bool {
        mnemonics.contains(&self.mnemonic())
    }
}

/// The instructions of one function up to its first `ret`: the hot path, if nothing in it jumps and
/// every branch leads to that `ret` or past it.
fn hot_path(arch: Arch, symbol: &str) -> Vec<Instruction> {
    let mut path = Vec::new();
    for instruction in disassembled(arch, symbol) {
        assert!(
            !instruction.is_one_of(&[
                "j", "jr", "jal", "jalr", "jmp", "call", "tail", "unimp", "ud2"
            ]),
            "{symbol} jumps in its hot path: {}",
            instruction.text
        );
        let end = instruction.mnemonic() == "ret";
        let address = instruction.address;
        path.push(instruction);
        if end {
            let mut branches = path.iter().enumerate();
            let stays = branches.all(|(index, branch)| match branch.target() {
                Some(target) => target >= address || retries(&path[..index]),
                None => true,
            });
            assert!(
                stays,
                "{symbol} has a loop or a block in its hot path:\n{}",
                listing(&path)
            );
            return path;
        }
    }
    panic!("{symbol} has no ret:\n{}", listing(&path));
}

/// Whether a branch behind these instructions may lead back, because it retries a swap or an
/// addition that failed.
fn retries(before: &[Instruction]) -> bool {
    let is = |from_end: usize, mnemonic: &str| {
        let at = before.len().checked_sub(from_end);
        at.is_some_and(|at| before[at].mnemonic() == mnemonic)
    };
    // AArch64 compares what it has loaded in between.
    is(1, "cmpxchg") || is(1, "store-exclusive") || is(2, "load-exclusive")
}

/// The instructions of a function, and perhaps of those behind it.
fn disassembled(arch: Arch, symbol: &str) -> Vec<Instruction> {
    let mut objdump = match arch {
        Arch::Riscv64 | Arch::Riscv32 => {
            let mut objdump = Command::new("riscv64-unknown-elf-objdump");
            let (width, probes) = if arch == Arch::Riscv64 {
                ("rv64", "KYMO_PROBES_RISCV64")
            } else {
                ("rv32", "KYMO_PROBES_RISCV32")
            };
            objdump
                .arg(format!("--architecture=riscv:{width}"))
                .arg(built(probes));
            objdump
        }
        Arch::Aarch64 => {
            let image = built("KYMO_MEASURE_AARCH64");
            let code = kymo_e2e::aarch64::disassembled(&image, symbol).into_iter();
            let instruction = |(address, text)| Instruction { address, text };
            return code.map(instruction).collect();
        }
        Arch::X86_64 => {
            let mut objdump = Command::new("objdump");
            objdump.arg(built("KYMO_HOST_PROBES"));
            objdump
        }
    };
    objdump.args(["--disassemble", "--no-show-raw-insn"]);
    let text = String::from_utf8(run(&mut objdump, 0).stdout).unwrap();
    let head = format!("<{symbol}>:");
    let lines = text.lines().skip_while(|line| !line.ends_with(&head));
    let instructions = lines.skip(1).map_while(|line| line.split_once(':'));
    let instruction = |(address, text): (&str, &str)| Instruction {
        address: u64::from_str_radix(address.trim(), 16).unwrap(),
        text: text.trim().to_owned(),
    };
    instructions.map(instruction).collect()
}

fn listing(path: &[Instruction]) -> String {
    path.iter()
        .map(|instruction| format!("    {}\n", instruction.text))
        .collect()
}

/// Compares a path with its budget; the result includes the code.
fn check(budget: &Budget, path: &[Instruction]) -> Result<String, String> {
    let memory = path
        .iter()
        .map(|instruction| instruction.memory(budget.arch));
    let (loads, stores) = memory.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    // Switched off: everything up to the first branch, and the `ret` to which it leads.
    let branch = path
        .iter()
        .position(|instruction| instruction.target().is_some())
        .unwrap_or(path.len());
    let leads_to = path.get(branch).and_then(Instruction::target);
    let off = if leads_to == path.last().map(|ret| ret.address) {
        branch + 2
    } else {
        usize::MAX
    };
    let figures = [
        ("instructions", path.len(), budget.instructions),
        ("loads", loads, budget.loads),
        ("stores", stores, budget.stores),
        ("instructions when off", off, budget.off),
    ];
    let mut text = format!("{} ({}):", budget.what, budget.probe);
    for (name, found, allowed) in figures {
        text.push_str(&format!(" {found} {name} (budget {allowed})"));
    }
    text.push('\n');
    text.push_str(&listing(path));
    if figures.iter().all(|(_, found, allowed)| found <= allowed) {
        Ok(text)
    } else {
        Err(text)
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_event_keeps_to_its_budget() {
    for budget in budgets() {
        match check(&budget, &hot_path(budget.arch, &budget.probe)) {
            Ok(text) => println!("{text}"),
            Err(text) => panic!("over its budget: {text}"),
        }
    }
}

/// Tests the counting itself: one additional instruction must exceed the budget.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn one_instruction_more_is_noticed() {
    let budgets = budgets();
    let budget = budgets
        .iter()
        .find(|budget| budget.probe == "kymo_probe_two_fields_masked")
        .unwrap();
    let (path, more) = (
        hot_path(budget.arch, &budget.probe),
        hot_path(budget.arch, "kymo_probe_one_more"),
    );
    assert_eq!(more.len(), path.len() + 1);
    assert!(check(budget, &path).is_ok());
    assert!(
        check(
            &Budget {
                instructions: path.len(),
                ..budget.clone()
            },
            &more
        )
        .is_err()
    );
    // A path that is too short is a measurement error.
    assert!(path.len() >= 15, "{}", listing(&path));
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn records_take_the_bytes_of_their_budget() {
    let bytes = |schema: EventSchema| 4 * (schema.header_words() + schema.max_payload_words());
    for budget in budgets() {
        let schema = if budget.what.starts_with("two") {
            TwoFields::SCHEMA
        } else {
            IrqEnter::SCHEMA
        };
        assert_eq!(bytes(schema), budget.bytes, "{}", budget.what);
    }
}

/// Histograms of instructions, loads and stores per call.
type Histograms = [BTreeMap<u64, u64>; 3];

/// The plugin's counts for `kernels/probes/src/measure.rs`, by probe: of five calls of each probe,
/// four record and one is switched off.
fn measured(arch: Arch, folder: &Path) -> BTreeMap<String, Histograms> {
    let program = built(match arch {
        Arch::Riscv64 => "KYMO_MEASURE_RISCV64",
        Arch::Riscv32 => "KYMO_MEASURE_RISCV32",
        Arch::Aarch64 => "KYMO_MEASURE_AARCH64",
        Arch::X86_64 => "KYMO_HOST_MEASURE",
    });
    let image = fs::read(&program).unwrap();
    let image = object::File::parse(&*image).unwrap();
    let probes = image
        .symbols()
        .filter(|symbol| symbol.size() > 0 && symbol.name().unwrap().starts_with("kymo_probe_"));
    let ranges: String = probes
        .map(|probe| {
            let (name, start, end) = (
                probe.name().unwrap(),
                probe.address(),
                probe.address() + probe.size(),
            );
            format!(",name={name},start={start:#x},end={end:#x}")
        })
        .collect();
    let out = folder.join("report.json");
    let mut plugin = built("KYMO_COST_PLUGIN").into_os_string();
    plugin.push(format!("{ranges},out={}", out.display()));
    let mut command = match arch {
        Arch::Riscv64 => Command::new("qemu-system-riscv64"),
        Arch::Riscv32 => Command::new("qemu-system-riscv32"),
        Arch::Aarch64 => Command::new("qemu-system-aarch64"),
        Arch::X86_64 => Command::new("qemu-x86_64"),
    };
    if arch != Arch::X86_64 {
        command.args([
            "-M", "virt", "-m", "64M", "-display", "none", "-serial", "none", "-monitor", "none",
        ]);
        command
            .args(["-icount", "shift=0,sleep=off", "-kernel"])
            .arg(&program);
    }
    if arch == Arch::Riscv32 {
        command.args(["-bios", "none"]);
    }
    if arch == Arch::Aarch64 {
        command.args(["-cpu", "cortex-a72", "-semihosting"]);
    }
    command.arg("-plugin").arg(plugin);
    if arch == Arch::X86_64 {
        command.arg(&program);
    }
    run(&mut command, 0);
    let report: Value = serde_json::from_str(&fs::read_to_string(&out).unwrap()).unwrap();
    let functions = report["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|function| {
            let of = |quantity: &str| {
                let pairs = function["per_call"][quantity]["histogram"]
                    .as_array()
                    .unwrap()
                    .iter();
                pairs
                    .map(|pair| (pair[0].as_u64().unwrap(), pair[1].as_u64().unwrap()))
                    .collect()
            };
            (
                function["name"].as_str().unwrap().to_owned(),
                ["instructions", "loads", "stores"].map(of),
            )
        });
    functions.collect()
}

/// The value that half of the calls do not exceed.
fn median(histogram: &BTreeMap<u64, u64>) -> u64 {
    let calls: u64 = histogram.values().sum();
    let mut below = 0;
    let middle = histogram.iter().find(|&(_, count)| {
        below += count;
        2 * below >= calls
    });
    *middle.expect("it was called").0
}

/// Compares the measurement with the budget. It must not be below it either, as the machine code is
/// the same.
fn check_measured(budget: &Budget, histograms: &Histograms) -> Result<String, String> {
    let [instructions, loads, stores] = histograms;
    let calls: u64 = instructions.values().sum();
    // x86's `ret` loads the return address, which the machine code does not show.
    let returns = usize::from(budget.arch == Arch::X86_64);
    let off = instructions.get(&(budget.off as u64)).copied().unwrap_or(0);
    let figures = [
        (
            "instructions",
            median(instructions),
            budget.instructions as u64,
        ),
        ("loads", median(loads), (budget.loads + returns) as u64),
        ("stores", median(stores), budget.stores as u64),
        ("calls switched off that take what they may", off, calls / 5),
    ];
    let mut text = format!(
        "{} ({}), measured in {calls} calls:",
        budget.what, budget.probe
    );
    for (name, found, expected) in figures {
        text.push_str(&format!(" {found} {name} ({expected})"));
    }
    if figures.iter().all(|(_, found, expected)| found == expected) {
        Ok(text)
    } else {
        Err(text)
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn every_event_keeps_to_its_budget_while_it_runs() {
    let folder = scratch("cost-measured");
    let budgets = budgets();
    for arch in Arch::ALL.into_iter().filter(|arch| arch.is_here()) {
        let measured = measured(arch, &folder);
        for budget in budgets.iter().filter(|budget| budget.arch == arch) {
            match check_measured(budget, &measured[&budget.probe]) {
                Ok(text) => println!("{text}"),
                Err(text) => panic!("{text}\n{}", listing(&hot_path(arch, &budget.probe))),
            }
        }
    }
}

/// One additional instruction must also be detected at run time.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn one_instruction_more_is_noticed_while_it_runs() {
    let measured = measured(Arch::Riscv64, &scratch("cost-measured-one-more"));
    let budgets = budgets();
    let budget = budgets
        .iter()
        .find(|budget| budget.probe == "kymo_probe_two_fields_masked")
        .unwrap();
    assert!(check_measured(budget, &measured["kymo_probe_two_fields_masked"]).is_ok());
    let more = &measured["kymo_probe_one_more"];
    let text = check_measured(budget, more).unwrap_err();
    assert!(
        text.contains(&format!(
            " {} instructions ({})",
            budget.instructions + 1,
            budget.instructions
        )),
        "{text}"
    );
    // Even with the right budget, the calls that are switched off are one instruction too long.
    let text = check_measured(
        &Budget {
            instructions: budget.instructions + 1,
            ..budget.clone()
        },
        more,
    )
    .unwrap_err();
    assert!(text.contains(" 0 calls switched off"), "{text}");
}

/// The most that a sample may cost: 150 instructions, and 25 for each caller.
fn limit(callers: u64) -> u64 {
    150 + 25 * callers
}

/// a sample's instructions, from the registers to the record, all checks included.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_sample_keeps_to_its_budget() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let folder = scratch("cost-sample");
    let mut over = String::new();
    for arch in Arch::ALL {
        let name = arch.name();
        if !arch.is_here() {
            println!("not counted on this machine, which is no x86-64");
            continue;
        }
        let measured = measured(arch, &folder);
        for callers in [1, 8, 32] {
            let budget = table["sample"].as_array().unwrap().iter().find(|budget| {
                budget["arch"].as_str() == Some(name)
                    && budget["callers"].as_integer() == Some(callers)
            });
            let budget = budget.expect("each depth has a budget")["instructions"].as_integer();
            let budget = budget.unwrap() as u64;
            let found = median(&measured[&format!("kymo_probe_sample_{callers}")][0]);
            let text = format!("{name}, {callers} callers: {found} instructions ({budget})\n");
            print!("{text}");
            if found != budget || budget > limit(callers as u64) {
                over.push_str(&text);
            }
        }
    }
    assert!(over.is_empty(), "not what budgets.toml says:\n{over}");
}

/// N-18: reading a group of four counters takes at most three times the instructions of reading the
/// four registers.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn reading_a_group_keeps_to_its_budget() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let folder = scratch("cost-group");
    let mut over = String::new();
    for budget in table["group_read"].as_array().unwrap() {
        let number = |key: &str| budget[key].as_integer().unwrap() as u64;
        let name = budget["arch"].as_str().unwrap();
        let measured = measured(Arch::named(name), &folder);
        let of = |probe: &str| median(&measured[probe][0]);
        let (group, registers) = (of("kymo_probe_read_group"), of("kymo_probe_read_registers"));
        let bare = of("kymo_probe_read_bare");
        let text = format!(
            "{name}: {group} instructions ({}) for a group, {registers} ({}) for its registers, \
             {bare} ({}) for constant ones\n",
            number("instructions"),
            number("registers"),
            number("bare"),
        );
        print!("{text}");
        let found = [group, registers, bare];
        let is_as_said = found == ["instructions", "registers", "bare"].map(number);
        if !is_as_said || group > 3 * registers {
            over.push_str(&text);
        }
    }
    assert!(over.is_empty(), "not what budgets.toml says:\n{over}");
}

/// V-12: what counting costs, without the `ret` of the function that does it.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_counter_keeps_to_its_budget() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let folder = scratch("cost-counter");
    let mut over = String::new();
    for (arch, name) in [
        (Arch::Riscv64, "riscv64"),
        (Arch::Riscv32, "riscv32"),
        (Arch::Aarch64, "aarch64"),
        (Arch::X86_64, "x86_64"),
    ] {
        if !arch.is_here() {
            println!("not counted on this machine, which is no x86-64");
            continue;
        }
        let measured = measured(arch, &folder);
        let budgets = table["counter"].as_array().unwrap().iter();
        let mut known = 0;
        for budget in budgets.filter(|budget| budget["arch"].as_str() == Some(name)) {
            let number = |key: &str| budget[key].as_integer().unwrap() as u64;
            let (probe, what) = (&budget["probe"], budget["what"].as_str().unwrap());
            let found = median(&measured[probe.as_str().unwrap()][0]) - 1;
            let text = format!("{name}, {what}: {found} ({})\n", number("instructions"));
            print!("{text}");
            if found != number("instructions") || found > number("limit") {
                over.push_str(&text);
            }
            known += 1;
        }
        assert_eq!(known, 3, "{name} has a budget for each probe");
    }
    assert!(over.is_empty(), "not what budgets.toml says:\n{over}");
}

/// What `budgets.toml` says of an event where it is inlined in kernels/demo.
#[derive(Clone, Copy)]
struct Inlined {
    median: u64,
    worst: u64,
    stores: u64,
}

/// The calls of each event in kernels/demo on one hart, by instructions and by stores: all places
/// where the event is inlined together.
fn inlined(kernel: &Path) -> BTreeMap<String, [BTreeMap<u64, u64>; 2]> {
    let mut command = kymo([OsStr::new("cost"), kernel.as_os_str()]);
    command.args(["--json", "--cpus", "1", "--timeout", patience()]);
    command.args(["--append", "workload=all rounds=20 packets=4096"]);
    let output = run(&mut command, 0);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut events: BTreeMap<String, [BTreeMap<u64, u64>; 2]> = BTreeMap::new();
    for site in report["sites"].as_array().unwrap() {
        let Some(event) = site["event"].as_str() else {
            continue;
        };
        let sums = events.entry(event.to_owned()).or_default();
        for (sum, quantity) in sums.iter_mut().zip(["instructions", "stores"]) {
            for pair in site["per_call"][quantity]["histogram"].as_array().unwrap() {
                *sum.entry(pair[0].as_u64().unwrap()).or_default() += pair[1].as_u64().unwrap();
            }
        }
    }
    events
}

/// Compares an event's calls with the budget, which they may stay below: the compiler decides what
/// belongs to an inlined event.
fn check_inlined(
    what: &str,
    budget: Inlined,
    [instructions, stores]: &[BTreeMap<u64, u64>; 2],
) -> Result<String, String> {
    let calls: u64 = instructions.values().sum();
    let worst = *instructions.keys().next_back().expect("it was called");
    let found = [median(instructions), worst, median(stores)];
    let allowed = [budget.median, budget.worst, budget.stores];
    let cells = found.iter().zip(allowed);
    let text = format!(
        "{what} as inlined in kernels/demo, {calls} calls: {}",
        ["instructions", "at worst", "stores"]
            .iter()
            .zip(cells)
            .map(|(name, (found, allowed))| format!("{found} {name} ({allowed})"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    if found
        .iter()
        .zip(allowed)
        .all(|(found, allowed)| *found <= allowed)
    {
        Ok(text)
    } else {
        Err(text)
    }
}

/// V-01: what is recorded most keeps to its budget where it is inlined in kernels/demo.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_is_recorded_most_keeps_to_its_budget_where_it_is_inlined() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../budgets.toml");
    let table: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let mut over = String::new();
    for arch in ARCHES {
        let events = inlined(&arch.kernel());
        let budgets = table["inlined"].as_array().unwrap().iter();
        let mut known = 0;
        for budget in budgets.filter(|budget| budget["arch"].as_str() == Some(arch.name)) {
            let number = |key: &str| budget[key].as_integer().unwrap() as u64;
            let event = budget["event"].as_str().unwrap();
            let what = format!("{}, {event}", arch.name);
            let allowed = Inlined {
                median: number("median"),
                worst: number("worst"),
                stores: number("stores"),
            };
            match check_inlined(&what, allowed, &events[event]) {
                Ok(text) => println!("{text}"),
                Err(text) => over.push_str(&format!("{text}\n")),
            }
            // One instruction more would be noticed, and one store.
            let [instructions, stores] = &events[event];
            let less = |figure: u64| figure.saturating_sub(1);
            for allowed in [
                Inlined {
                    median: less(median(instructions)),
                    ..allowed
                },
                Inlined {
                    worst: less(*instructions.keys().next_back().unwrap()),
                    ..allowed
                },
                Inlined {
                    stores: less(median(stores)),
                    ..allowed
                },
            ] {
                assert!(
                    check_inlined(&what, allowed, &events[event]).is_err(),
                    "{what}"
                );
            }
            known += 1;
        }
        assert_eq!(known, 6, "{} has a budget for each event", arch.name);
    }
    assert!(over.is_empty(), "over the budget of budgets.toml:\n{over}");
}
