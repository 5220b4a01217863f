//! Tables written by hand for each machine, and what damaged ones lead to.

use gimli::constants::*;
use gimli::{BaseAddresses, EndianSlice, RunTimeEndian};
use object::Architecture::{Aarch64, Riscv64, X86_64};

use super::*;

/// Where the code of the tests is loaded.
const BIAS: u64 = 0x5000_0000;

/// An `.eh_frame` section in the making. Data is counted in units of -8 bytes.
#[derive(Default)]
struct Section {
    bytes: Vec<u8>,
    cie: usize,
}

impl Section {
    fn entry(&mut self, body: &[u8]) {
        let padding = body.len().next_multiple_of(4) - body.len();
        let length = body.len() + padding;
        self.bytes.extend((length as u32).to_le_bytes());
        self.bytes.extend(body);
        self.bytes.extend(vec![DW_CFA_nop.0; padding]);
    }

    fn cie(&mut self, augmentation: &str, return_address: u8, instructions: &[u8]) {
        self.cie = self.bytes.len();
        let mut body = vec![0, 0, 0, 0, 1];
        body.extend(augmentation.bytes());
        body.extend([0, 1, 0x78, return_address, 1, DW_EH_PE_absptr.0]);
        body.extend(instructions);
        self.entry(&body);
    }

    fn fde(&mut self, begin: u64, instructions: &[u8]) {
        let distance = self.bytes.len() + 4 - self.cie;
        let mut body = (distance as u32).to_le_bytes().to_vec();
        body.extend(begin.to_le_bytes());
        body.extend(0x100_u64.to_le_bytes());
        body.push(0);
        body.extend(instructions);
        self.entry(&body);
    }
}

/// A program's table, and a thread of it whose callers are known.
struct Case {
    machine: &'static Machine,
    section: Vec<u8>,
    registers: Registers,
    stack: Vec<u64>,
    callers: Vec<u64>,
}

/// Where the stacks of the tests are.
const STACK: u64 = 0x7fff_0000;
/// A word that no table refers to.
const UNUSED: u64 = 0x3333;

impl Case {
    fn unwind(&self, section: &[u8], stack: &[u8]) -> Chain {
        let bytes = EndianSlice::new(section, RunTimeEndian::Little);
        let table = Table::read(bytes, BaseAddresses::default(), self.machine);
        let image = Tabled {
            code: std::iter::once(0x1000..0x9000).collect(),
            bias: BIAS,
            table,
        };
        let mut unwinder = Unwinder::with(Some(self.machine), vec![image]);
        let stack = StackCopy {
            address: STACK,
            bytes: stack,
        };
        unwinder.callers(self.registers, stack, 20)
    }

    fn bytes(&self) -> Vec<u8> {
        let words = self.stack.iter();
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The end of the chain from other registers.
    fn end_from(&self, registers: Registers) -> ChainEnd {
        let case = Case {
            registers,
            section: self.section.clone(),
            stack: self.stack.clone(),
            callers: Vec::new(),
            ..*self
        };
        case.unwind(&case.section, &case.bytes()).end
    }
}

fn def_cfa(register: u8, offset: u8) -> [u8; 3] {
    [DW_CFA_def_cfa.0, register, offset]
}

/// The register is saved this many words below the caller's stack pointer.
fn saved(register: u8, words: u8) -> [u8; 2] {
    [DW_CFA_offset.0 | register, words]
}

fn code(offset: u64) -> u64 {
    BIAS + offset
}

fn x86_64() -> Case {
    let (rbx, rbp, rsp, ra) = (3, 6, 7, 16);
    let mut section = Section::default();
    let at_entry = [&def_cfa(rsp, 8)[..], &saved(ra, 1)].concat();
    section.cie("zR", ra, &at_entry);
    // A leaf function that has pushed nothing.
    section.fde(0x1000, &[]);
    // Uses rbx and rbp as any register.
    let kept = [saved(rbx, 2), saved(rbp, 3)].concat();
    section.fde(0x2000, &[&def_cfa(rsp, 32)[..], &kept].concat());
    // Counts from rbx, which only the function before tells.
    section.fde(0x3000, &def_cfa(rbx, 24));
    // A procedure linkage table: 8 bytes more are on the stack in the later half of each 16.
    let operations = [
        [DW_OP_breg7.0, 8, DW_OP_breg16.0, 0],
        [DW_OP_lit15.0, DW_OP_and.0, DW_OP_lit8.0, DW_OP_ge.0],
        [DW_OP_lit3.0, DW_OP_shl.0, DW_OP_plus.0, DW_OP_nop.0],
    ];
    let expression = [DW_CFA_def_cfa_expression.0, 12];
    section.fde(0x4000, &[&expression[..], &operations.concat()].concat());
    // The thread's first function.
    section.fde(0x6000, &[DW_CFA_undefined.0, ra]);
    // A signal: the interrupted registers are on the stack.
    section.cie("zRS", ra, &[]);
    let at = |register, offset| [DW_CFA_expression.0, register, 2, DW_OP_breg7.0, offset];
    let cfa = [DW_CFA_def_cfa_expression.0, 3];
    let operations = [DW_OP_breg7.0, 16, DW_OP_deref.0];
    let kept = [at(ra, 0), at(rbp, 8)].concat();
    section.fde(0x5000, &[&cfa[..], &operations, &kept].concat());
    section.bytes.extend([0; 4]);
    Case {
        machine: Machine::of(X86_64).unwrap(),
        section: section.bytes,
        registers: Registers {
            ip: code(0x1000),
            sp: STACK,
            fp: UNUSED,
            link: None,
        },
        stack: vec![
            code(0x2010),
            UNUSED,
            UNUSED,
            // rbx for 0x3000
            STACK + 32,
            // The call is the last instruction of 0x3000.
            code(0x3100),
            UNUSED,
            code(0x4019),
            UNUSED,
            code(0x5001),
            // The interrupted ip, rbp and rsp; interrupted at the first instruction.
            code(0x1000),
            STACK + 120,
            STACK + 104,
            UNUSED,
            // No table is at 0x8010, but rbp points to a frame record.
            code(0x8010),
            UNUSED,
            0,
            code(0x6010),
        ],
        callers: [0x2010, 0x3100, 0x4019, 0x5001, 0x1000, 0x8010, 0x6010]
            .map(code)
            .to_vec(),
    }
}

fn aarch64() -> Case {
    let (fp, link, sp) = (29, 30, 31);
    /// What pointer authentication puts into a return address.
    const SIGNATURE: u64 = 0x2b << 48;
    let mut section = Section::default();
    section.cie("zR", link, &def_cfa(sp, 0));
    // A leaf function.
    section.fde(0x1000, &[]);
    // Signs its return address.
    let kept = [saved(fp, 4), saved(link, 3)].concat();
    let signed = [DW_CFA_AARCH64_negate_ra_state.0];
    section.fde(0x2000, &[&signed[..], &def_cfa(sp, 32), &kept].concat());
    let kept = [saved(fp, 2), saved(link, 1)].concat();
    section.fde(0x3000, &[&def_cfa(fp, 16)[..], &kept].concat());
    section.fde(0x6000, &[DW_CFA_undefined.0, link]);
    Case {
        machine: Machine::of(Aarch64).unwrap(),
        section: section.bytes,
        registers: Registers {
            ip: code(0x1004),
            sp: STACK,
            fp: UNUSED,
            link: Some(code(0x2010) | SIGNATURE),
        },
        stack: vec![
            STACK + 48,
            code(0x3010) | SIGNATURE,
            UNUSED,
            UNUSED,
            UNUSED,
            UNUSED,
            // The frame record for 0x8010, which has no table.
            STACK + 80,
            code(0x8010),
            UNUSED,
            UNUSED,
            0,
            code(0x6010),
        ],
        callers: [0x2010, 0x3010, 0x8010, 0x6010].map(code).to_vec(),
    }
}

fn riscv64() -> Case {
    let (ra, sp, s0) = (1, 2, 8);
    let mut section = Section::default();
    section.cie("zR", ra, &def_cfa(sp, 0));
    section.fde(0x1000, &[]);
    let kept = [saved(ra, 1), saved(s0, 2)].concat();
    section.fde(0x2000, &[&def_cfa(sp, 16)[..], &kept].concat());
    section.fde(0x3000, &[&def_cfa(s0, 0)[..], &kept].concat());
    section.fde(0x6000, &[DW_CFA_undefined.0, ra]);
    Case {
        machine: Machine::of(Riscv64).unwrap(),
        section: section.bytes,
        registers: Registers {
            ip: code(0x1004),
            sp: STACK,
            fp: UNUSED,
            link: Some(code(0x2010)),
        },
        stack: vec![
            STACK + 48,
            code(0x8010),
            UNUSED,
            UNUSED,
            // The frame record for 0x8010, which has no table.
            STACK + 80,
            code(0x3010),
            UNUSED,
            UNUSED,
            UNUSED,
            code(0x6010),
        ],
        callers: [0x2010, 0x8010, 0x3010, 0x6010].map(code).to_vec(),
    }
}

#[test]
fn each_machine_s_rules_lead_to_the_outermost_function() {
    for case in [x86_64(), aarch64(), riscv64()] {
        let chain = case.unwind(&case.section, &case.bytes());
        assert_eq!(
            (chain.callers, chain.end),
            (case.callers, ChainEnd::Outermost)
        );
    }
}

#[test]
fn what_cannot_be_known_ends_the_chain() {
    let case = x86_64();
    let ip = code(0x3000);
    let from = |ip| Registers {
        ip,
        ..case.registers
    };
    // rbx is not recorded.
    assert_eq!(case.end_from(from(ip)), ChainEnd::NoRegister(ip));
    // Nothing leads on from code without a table.
    let ip = code(0x8010);
    assert_eq!(case.end_from(from(ip)), ChainEnd::NoTable(ip));
    // The word above rbp leads to code, but is below the stack pointer.
    let low = Registers {
        sp: STACK + 40,
        fp: STACK + 24,
        ..from(ip)
    };
    assert_eq!(case.end_from(low), ChainEnd::NoTable(ip));
    // The word above rbp is not in code.
    let data = Registers {
        fp: STACK + 32,
        ..from(ip)
    };
    assert_eq!(case.end_from(data), ChainEnd::NoTable(ip));

    // A leaf's return address is only in the link register.
    for case in [aarch64(), riscv64()] {
        let registers = Registers {
            link: None,
            ..case.registers
        };
        let end = ChainEnd::NoRegister(registers.ip);
        assert_eq!(case.end_from(registers), end);
        // A table that finds the return address of a caller in that register is wrong.
        let registers = Registers {
            link: Some(code(0x1008)),
            ..case.registers
        };
        let end = ChainEnd::Damaged(code(0x1008));
        assert_eq!(case.end_from(registers), end);
    }
}

/// The interrupted function has no value in the link register but what the signal's frame kept.
#[test]
fn a_leaf_behind_a_signal_needs_its_own_link() {
    let (sp, ip) = (31, 32);
    let mut section = Section::default();
    section.cie("zRS", ip, &[]);
    section.fde(0x5000, &[&def_cfa(sp, 16)[..], &saved(ip, 1)].concat());
    section.cie("zR", 30, &def_cfa(sp, 0));
    section.fde(0x1000, &[]);
    let case = Case {
        section: section.bytes,
        stack: vec![0, code(0x1000), 0, 0],
        ..aarch64()
    };
    let registers = Registers {
        ip: code(0x5000),
        ..case.registers
    };
    let end = ChainEnd::NoRegister(code(0x1000));
    assert_eq!(case.end_from(registers), end);
}

#[test]
fn a_frame_that_does_not_move_the_stack_is_no_caller() {
    let mut section = Section::default();
    section.cie("zR", 16, &[&def_cfa(7, 0)[..], &saved(16, 0)].concat());
    section.fde(0x1000, &[]);
    let case = Case {
        section: section.bytes,
        stack: vec![code(0x1010); 4],
        ..x86_64()
    };
    let chain = case.unwind(&case.section, &case.bytes());
    assert_eq!(chain.callers, [code(0x1010)]);
    assert_eq!(chain.end, ChainEnd::Damaged(code(0x1010)));
}

#[test]
fn an_expression_without_end_is_given_up() {
    let mut section = Section::default();
    section.cie("zR", 16, &[]);
    // Skips back to itself.
    let expression = [DW_CFA_def_cfa_expression.0, 3, DW_OP_skip.0, 0xfd, 0xff];
    section.fde(0x1000, &expression);
    let case = Case {
        section: section.bytes,
        ..x86_64()
    };
    let chain = case.unwind(&case.section, &case.bytes());
    assert_eq!(chain.end, ChainEnd::Damaged(case.registers.ip));
}

/// Numbers without a pattern (Marsaglia, "Xorshift RNGs").
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.below(4) {
            let place = self.below(bytes.len());
            if let Some(byte) = bytes.get_mut(place) {
                *byte = match self.below(3) {
                    0 => self.below(256) as u8,
                    1 => *byte ^ 1 << self.below(8),
                    _ => byte.wrapping_add(1),
                };
            }
        }
    }
}

/// Whatever is damaged, a chain keeps to its depth, and only tells what is on the stack.
#[test]
fn damaged_tables_and_stacks_are_survived() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for case in [x86_64(), aarch64(), riscv64()] {
        let mut ends = [0_u32; 5];
        for _ in 0..20_000 {
            let (mut section, mut stack) = (case.section.clone(), case.bytes());
            random.damage(&mut section);
            random.damage(&mut stack);
            section.truncate(section.len() - random.below(20).saturating_sub(15));
            stack.truncate(stack.len() - random.below(20).saturating_sub(15));
            let chain = case.unwind(&section, &stack);
            assert!(chain.callers.len() <= 20);
            let end = match chain.end {
                ChainEnd::Outermost => 0,
                ChainEnd::StackCopy => 1,
                ChainEnd::NoTable(_) => 2,
                ChainEnd::Damaged(_) => 3,
                ChainEnd::NoRegister(_) => 4,
                ChainEnd::Depth => continue,
            };
            if let Some(count) = ends.get_mut(end) {
                *count += 1;
            }
        }
        assert!(ends.iter().all(|count| *count > 50), "{ends:?}");
    }
}
