//! Call chains of `kernels/demo` that are broken, found in the interrupt that takes the sample: the
//! kernel does not fault, and each sample says where its chain ends and why.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use kymo::vocabulary::ChainEnd::{
    self, Absent, Complete, Misaligned, NotCode, NotRising, Unmapped,
};
use kymo_ctf::{Event, Item, Trace, Value};
use kymo_e2e::demo::{ARCHES, Arch};
use kymo_e2e::{recording, run, scratch};
use object::{Object, ObjectSymbol};

/// A chain, by the symbol of the code that has its frame pointer: why it ends, and after how many
/// callers.
type Chain = (&'static str, ChainEnd, u64);

/// Those of kernels/demo/user/src/bin/broken/main.rs.
const PROGRAM: [Chain; 12] = [
    ("broken_misaligned", Misaligned, 0),
    ("broken_wild", Unmapped, 0),
    ("broken_unmapped", Unmapped, 0),
    ("broken_edge", Unmapped, 0),
    ("broken_kernel", Unmapped, 0),
    ("broken_not_code", NotCode, 0),
    ("broken_later_misaligned", Misaligned, 1),
    ("broken_later_unmapped", Unmapped, 1),
    ("broken_itself", NotRising, 1),
    ("broken_circle", NotRising, 2),
    ("broken_from_heap", Complete, 2),
    ("broken_to_heap", NotRising, 1),
];

/// Those of kernels/demo/src/workload/broken.rs.
const KERNEL: [Chain; 13] = [
    ("broken_misaligned", Misaligned, 0),
    ("broken_wild", Unmapped, 0),
    ("broken_unmapped", Unmapped, 0),
    ("broken_edge", Unmapped, 0),
    ("broken_programs", Unmapped, 0),
    ("broken_others", Unmapped, 0),
    ("broken_not_code", NotCode, 0),
    ("broken_later_misaligned", Misaligned, 1),
    ("broken_later_unmapped", Unmapped, 1),
    ("broken_to_others", Unmapped, 1),
    ("broken_itself", NotRising, 1),
    ("broken_circle", NotRising, 2),
    MASKED,
];

/// Interrupts are masked there.
const MASKED: Chain = ("broken_masked", Unmapped, 0);

/// The chains of an ELF file, by their code, and the address that their callers begin at.
struct Chains {
    chains: Vec<(Range<u64>, Chain)>,
    caller: u64,
}

impl Chains {
    fn of(elf: &Path, chains: &[Chain]) -> Chains {
        let image = fs::read(elf).unwrap();
        let file = object::File::parse(&*image).unwrap();
        let code = |name: &str| {
            let is_it = |symbol: &object::Symbol<'_, '_>| symbol.name() == Ok(name);
            let symbol = file.symbols().find(is_it);
            let symbol = symbol.unwrap_or_else(|| panic!("{name} is in {}", elf.display()));
            symbol.address()..symbol.address() + symbol.size()
        };
        Chains {
            chains: chains.iter().map(|&chain| (code(chain.0), chain)).collect(),
            caller: code("broken_caller").start,
        }
    }

    /// The chain whose code this address is in.
    fn at(&self, address: u64) -> Option<Chain> {
        let found = self.chains.iter().find(|(code, _)| code.contains(&address));
        found.map(|(_, chain)| *chain)
    }

    /// The callers that a chain has up to where it ends.
    fn callers(&self, (_, _, count): Chain) -> Vec<u64> {
        (1..=count).map(|call| self.caller + call).collect()
    }
}

/// A sample, as far as it matters here.
#[derive(Debug)]
struct Sample {
    ip: u64,
    /// The kernel's part of the callers, then the program's, and why each ends.
    callers: [Vec<u64>; 2],
    ends: [u64; 2],
    is_user: bool,
}

impl Sample {
    fn of(event: &Event) -> Sample {
        let number = |name| event.fields.get(name).and_then(Value::as_u64).unwrap();
        let Some(Value::Array(all)) = event.fields.get("callchain") else {
            panic!("a sample has callers: {event:?}")
        };
        let mut kernel: Vec<u64> = all.iter().map(|value| value.as_u64().unwrap()).collect();
        let user = kernel.split_off(number("kernel_callers") as usize);
        Sample {
            ip: number("ip"),
            callers: [kernel, user],
            ends: [number("kernel_end"), number("user_end")],
            is_user: number("mode") == 0,
        }
    }
}

fn samples(trace: &Path) -> Vec<Sample> {
    let sample = |item| match item {
        Item::Event(event) if event.name() == "sample" => Some(Sample::of(&event)),
        _ => None,
    };
    let items = Trace::open(trace).unwrap().events();
    items.filter_map(|item| sample(item.unwrap())).collect()
}

/// How many samples each chain has: in programs, in the kernel when a program has called it, and
/// in the kernel's own threads. Each sample is checked.
fn checked(
    samples: &[Sample],
    program: &Chains,
    kernel: &Chains,
) -> [BTreeMap<&'static str, u64>; 3] {
    let mut counts = [const { BTreeMap::new() }; 3];
    for sample in samples {
        let [kernels, users] = &sample.callers;
        let found = if sample.is_user {
            program.at(sample.ip).map(|chain| (0, chain))
        } else if let Some(chain) = users.first().and_then(|&entered| program.at(entered)) {
            Some((1, chain))
        } else {
            kernel.at(sample.ip).map(|chain| (2, chain))
        };
        let Some((place, chain)) = found else {
            continue;
        };
        let (name, end, _) = chain;
        *counts[place].entry(name).or_default() += 1;
        match place {
            0 => {
                assert_eq!(
                    sample.ends,
                    [Absent as u64, end as u64],
                    "{name} {sample:x?}"
                );
                assert_eq!(*users, program.callers(chain), "{name} {sample:x?}");
            }
            1 => {
                assert_eq!(sample.ends[1], end as u64, "{name} {sample:x?}");
                assert_eq!(users[1..], program.callers(chain), "{name} {sample:x?}");
            }
            _ => {
                assert_eq!(
                    sample.ends,
                    [end as u64, Absent as u64],
                    "{name} {sample:x?}"
                );
                assert_eq!(*kernels, kernel.callers(chain), "{name} {sample:x?}");
            }
        }
    }
    counts
}

/// whatever the frame pointer is, in a program and in the kernel, found by a timer's
/// interrupt and by an NMI.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_broken_chain_ends_in_the_interrupt_and_says_why() {
    for arch in &ARCHES {
        for (driver, cpus) in [("timer", "1"), (arch.remote_driver, "2")] {
            sampled(arch, driver, cpus);
        }
    }
}

fn sampled(arch: &Arch, driver: &str, cpus: &str) {
    let out = scratch(&format!("broken-{driver}-{}", arch.name)).join("trace");
    let mut command = recording(&arch.kernel(), &out);
    command.args(["--mode", "sample", "--hz", "10000", "--deterministic"]);
    command.args(["--driver", driver, "--cpus", cpus]);
    command.args(["--append", "run=broken rounds=60"]);
    run(&mut command, 0);

    let elf = arch.kernel();
    let programs = elf.with_file_name("demo.programs");
    let program = Chains::of(&programs.join("broken"), &PROGRAM);
    let kernel = Chains::of(&elf, &KERNEL);
    let counts = checked(&samples(&out), &program, &kernel);
    let what = format!("{} {driver}: {counts:?}", arch.name);
    let sees_masked = driver == "nmi";
    for (place, chains) in [(0, &PROGRAM[..]), (1, &PROGRAM), (2, &KERNEL)] {
        for (name, _, _) in chains {
            let count = counts[place].get(name).copied().unwrap_or(0);
            if *name == MASKED.0 && !sees_masked {
                assert_eq!(count, 0, "{name} {what}");
            } else {
                assert!(count >= 10, "{name} {what}");
            }
        }
    }
}
