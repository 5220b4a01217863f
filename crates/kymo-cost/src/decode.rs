//! Decodes where an instruction can lead, and whether QEMU must report its loads and stores;
//! nothing else. The encodings are from the RISC-V, Arm and x86 manuals.

/// Where an instruction can lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next instruction; also a call of a function that is only known at run time, which
    /// returns there.
    Next,
    /// To the next instruction, when the function at this address has returned.
    Call(u64),
    /// To the next instruction or to this address.
    Branch(u64),
    /// To this address.
    Jump(u64),
    /// To an address that is only known at run time.
    Indirect,
    /// To the caller, or to where an exception occurred.
    Return,
    /// Unknown architecture.
    Unknown,
}

/// The source of an instruction's loads and stores.
///
/// QEMU reports them. But if QEMU 7.2 translates an instruction by a helper and the instruction
/// ends the block (a jump to a computed address, a write to a control register), it also reports
/// accesses of *later* instructions as this one's. So callbacks are requested only for instructions
/// that access memory; for x86's jumps through memory, the numbers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accesses {
    /// QEMU reports them.
    Reported,
    /// Always these numbers.
    Known {
        /// Loads.
        loads: u8,
        /// Stores.
        stores: u8,
    },
}

const NO_ACCESSES: Accesses = Accesses::Known {
    loads: 0,
    stores: 0,
};

/// An instruction set, by QEMU's name of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// `riscv32`.
    Riscv32,
    /// `riscv64`.
    Riscv64,
    /// `aarch64`.
    Aarch64,
    /// `i386`, `x86_64`.
    X86,
    /// Any other.
    Unknown,
}

impl Isa {
    /// The instruction set with QEMU's name.
    pub fn named(target: &str) -> Isa {
        match target {
            "riscv32" => Isa::Riscv32,
            "riscv64" => Isa::Riscv64,
            "aarch64" => Isa::Aarch64,
            "i386" | "x86_64" => Isa::X86,
            _ => Isa::Unknown,
        }
    }

    /// The source of the loads and stores of the instruction with these bytes.
    pub fn accesses(self, bytes: &[u8]) -> Accesses {
        let touches = match (self, bytes) {
            // Loads, stores, atomics; opcodes of extensions may be anything.
            (Isa::Riscv32 | Isa::Riscv64, &[a, _, _, _]) => matches!(
                a & 0x7f,
                0x03 | 0x07 | 0x23 | 0x27 | 0x2f | 0x0b | 0x2b | 0x5b | 0x7b
            ),
            (Isa::Riscv32 | Isa::Riscv64, &[a, b]) => match (a & 3, b >> 5) {
                (0, function) => function != 0,
                (2, function) => !matches!(function, 0 | 4),
                _ => false,
            },
            // The group of loads and stores, and `dc zva`, which is a system instruction.
            (Isa::Aarch64, &[a, b, c, d]) => {
                let word = u32::from_le_bytes([a, b, c, d]);
                word >> 25 & 0b0101 == 0b0100 || word & !0x1f == 0xd50b_7420
            }
            (Isa::X86, bytes) => return x86_accesses(x86_opcode(bytes)),
            _ => true,
        };
        if touches {
            Accesses::Reported
        } else {
            NO_ACCESSES
        }
    }

    /// Whether the instruction loads a byte into a register, or compares one in memory.
    pub fn loads_byte(self, bytes: &[u8]) -> bool {
        match (self, bytes) {
            // lb, lbu; c.lbu (of Zcb)
            (Isa::Riscv32 | Isa::Riscv64, &[a, b, _, _]) => {
                a & 0x7f == 0x03 && matches!(b >> 4 & 7, 0 | 4)
            }
            (Isa::Riscv32 | Isa::Riscv64, &[a, b]) => a & 3 == 0 && b >> 2 == 0b10_0000,
            (Isa::Aarch64, &[a, b, c, d]) => {
                let word = u32::from_le_bytes([a, b, c, d]);
                // ldrb, ldurb, ldrsb, ldaprb
                let is_register = word >> 24 & !1 == 0x38 && word >> 22 & 3 != 0;
                // ldarb, ldaxrb, ldxrb
                let is_exclusive = word >> 24 == 0x08 && word >> 21 & 3 == 0b10;
                is_register || is_exclusive
            }
            (Isa::X86, bytes) => match *x86_opcode(bytes) {
                // cmp and the rest of group 1; cmp; mov; test; movzx and movsx.
                [0x80 | 0x38 | 0x3a | 0x84 | 0x8a | 0xf6, modrm, ..]
                | [0x0f, 0xb6 | 0xbe, modrm, ..] => modrm < 0xc0,
                [0xa0, ..] => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// Decodes the instruction with these bytes at `pc`.
    pub fn flow(self, pc: u64, bytes: &[u8]) -> Flow {
        match (self, bytes) {
            (Isa::Riscv32 | Isa::Riscv64, &[a, b, c, d]) => {
                riscv(pc, u32::from_le_bytes([a, b, c, d]))
            }
            (Isa::Riscv32 | Isa::Riscv64, &[a, b]) => {
                riscv_compressed(pc, u16::from_le_bytes([a, b]), self == Isa::Riscv32)
            }
            (Isa::Aarch64, &[a, b, c, d]) => aarch64(pc, u32::from_le_bytes([a, b, c, d])),
            (Isa::X86, bytes) => x86(pc, bytes),
            _ => Flow::Unknown,
        }
    }
}

/// The lowest `bits` bits of `value` as a signed number.
fn signed(value: u32, bits: u32) -> u64 {
    let shift = 32 - bits;
    i64::from((value << shift) as i32 >> shift) as u64
}

fn riscv(pc: u64, word: u32) -> Flow {
    let field = |low: u32, bits: u32| word >> low & ((1 << bits) - 1);
    let (rd, rs1) = (field(7, 5), field(15, 5));
    // x1 and x5 are link registers.
    let links = |register: u32| register == 1 || register == 5;
    match field(0, 7) {
        0x63 => {
            let offset =
                field(31, 1) << 12 | field(7, 1) << 11 | field(25, 6) << 5 | field(8, 4) << 1;
            Flow::Branch(pc.wrapping_add(signed(offset, 13)))
        }
        0x6f => {
            let offset =
                field(31, 1) << 20 | field(12, 8) << 12 | field(20, 1) << 11 | field(21, 10) << 1;
            let target = pc.wrapping_add(signed(offset, 21));
            if links(rd) {
                Flow::Call(target)
            } else {
                Flow::Jump(target)
            }
        }
        0x67 if links(rd) => Flow::Next,
        0x67 if links(rs1) => Flow::Return,
        0x67 => Flow::Indirect,
        // mret, sret
        0x73 if matches!(word, 0x3020_0073 | 0x1020_0073) => Flow::Return,
        _ => Flow::Next,
    }
}

fn riscv_compressed(pc: u64, half: u16, is_32: bool) -> Flow {
    let half = u32::from(half);
    let field = |low: u32, bits: u32| half >> low & ((1 << bits) - 1);
    match (field(0, 2), field(13, 3)) {
        // c.jal, which RV64 does not have: there it is c.addiw.
        (1, 1) if !is_32 => Flow::Next,
        // c.j, c.jal
        (1, 1 | 5) => {
            let offset = field(12, 1) << 11
                | field(8, 1) << 10
                | field(9, 2) << 8
                | field(6, 1) << 7
                | field(7, 1) << 6
                | field(2, 1) << 5
                | field(11, 1) << 4
                | field(3, 3) << 1;
            let target = pc.wrapping_add(signed(offset, 12));
            if field(13, 3) == 1 {
                Flow::Call(target)
            } else {
                Flow::Jump(target)
            }
        }
        // c.beqz, c.bnez
        (1, 6 | 7) => {
            let offset = field(12, 1) << 8
                | field(5, 2) << 6
                | field(2, 1) << 5
                | field(10, 2) << 3
                | field(3, 2) << 1;
            Flow::Branch(pc.wrapping_add(signed(offset, 9)))
        }
        // c.jr; with bit 12 it is c.jalr, which links, and with a second register c.mv or c.add.
        (2, 4) if field(2, 5) == 0 && field(12, 1) == 0 => match field(7, 5) {
            1 | 5 => Flow::Return,
            _ => Flow::Indirect,
        },
        _ => Flow::Next,
    }
}

fn aarch64(pc: u64, word: u32) -> Flow {
    let relative =
        |low: u32, bits: u32| pc.wrapping_add(signed(word >> low & ((1 << bits) - 1), bits) << 2);
    match word >> 24 {
        0x14..=0x17 => Flow::Jump(relative(0, 26)),
        0x94..=0x97 => Flow::Call(relative(0, 26)),
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 => Flow::Branch(relative(5, 19)),
        0x36 | 0x37 | 0xb6 | 0xb7 => Flow::Branch(relative(5, 14)),
        0xd6 | 0xd7 => match word >> 21 & 7 {
            0 => Flow::Indirect,
            1 => Flow::Next,
            _ => Flow::Return,
        },
        _ => Flow::Next,
    }
}

/// The instruction without prefixes, from its opcode.
fn x86_opcode(bytes: &[u8]) -> &[u8] {
    let is_prefix = |byte: &u8| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf0 | 0xf2 | 0xf3);
    bytes
        .iter()
        .position(|byte| !is_prefix(byte))
        .map_or(&[][..], |first| &bytes[first..])
}

fn x86_accesses(opcode: &[u8]) -> Accesses {
    let (loads, stores) = match *opcode {
        // Near: ret; popf, which may enable interrupts; call; and jump and call by register or
        // memory.
        [0xc2 | 0xc3 | 0x9d, ..] => (1, 0),
        [0xe8, ..] => (0, 1),
        [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 2 | 4) => {
            let is_call = modrm >> 3 & 7 == 2;
            (u8::from(modrm < 0xc0), is_call.into())
        }
        // Jumps; ports; hlt, cli, sti. The accesses of far transfers and traps are the processor's,
        // not the program's.
        [
            0x70..=0x7f | 0xe0..=0xe7 | 0xe9..=0xef | 0xf4 | 0xfa | 0xfb,
            ..,
        ] => (0, 0),
        [0xca | 0xcb | 0xcc..=0xcf | 0x9a | 0xf1, ..] => (0, 0),
        // syscall, sysret, sysenter, sysexit; control registers; wrmsr, rdtsc, rdmsr, rdpmc;
        // conditional jumps; cpuid
        [
            0x0f,
            0x05 | 0x07 | 0x34 | 0x35 | 0x20..=0x23 | 0x30..=0x33 | 0x80..=0x8f | 0xa2,
            ..,
        ] => (0, 0),
        _ => return Accesses::Reported,
    };
    Accesses::Known { loads, stores }
}

fn x86(pc: u64, bytes: &[u8]) -> Flow {
    let opcode = x86_opcode(bytes);
    let after = pc.wrapping_add(bytes.len() as u64);
    let relative = |offset: &[u8]| match *offset {
        [a] => after.wrapping_add(i64::from(a as i8) as u64),
        [a, b, c, d] => after.wrapping_add(i64::from(i32::from_le_bytes([a, b, c, d])) as u64),
        // 16 bits: real mode, which wraps.
        _ => u64::MAX,
    };
    match opcode {
        [0x70..=0x7f | 0xe0..=0xe3, offset @ ..] | [0x0f, 0x80..=0x8f, offset @ ..] => {
            Flow::Branch(relative(offset))
        }
        [0xeb | 0xe9, offset @ ..] => Flow::Jump(relative(offset)),
        [0xe8, offset @ ..] => Flow::Call(relative(offset)),
        // ret, far ret, iret; sysret, sysexit
        [0xc2 | 0xc3 | 0xca | 0xcb | 0xcf, ..] | [0x0f, 0x07 | 0x35, ..] => Flow::Return,
        // Group 5: 4 and 5 are jumps, 2 and 3 calls.
        [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 4 | 5) => Flow::Indirect,
        [0xea, ..] => Flow::Indirect,
        _ => Flow::Next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PC: u64 = 0x8000_1000;

    fn words(isa: Isa, cases: &[(u32, Flow)]) {
        for &(word, flow) in cases {
            assert_eq!(isa.flow(PC, &word.to_le_bytes()), flow, "{word:#010x}");
        }
    }

    #[test]
    fn riscv_words() {
        words(
            Isa::Riscv64,
            &[
                (0x0050_0093, Flow::Next),           // li ra, 5
                (0xfe00_9ee3, Flow::Branch(PC - 4)), // bnez ra, -4
                (0x0000_8463, Flow::Branch(PC + 8)), // beqz ra, +8
                (0x0000_006f, Flow::Jump(PC)),       // j 0
                (0x0100_00ef, Flow::Call(PC + 16)),  // jal ra, +16
                (0xff9f_f06f, Flow::Jump(PC - 8)),   // j -8
                (0x0000_8067, Flow::Return),         // ret
                (0x0003_0067, Flow::Indirect),       // jr t1
                (0x0003_00e7, Flow::Next),           // jalr ra, t1
                (0x3020_0073, Flow::Return),         // mret
                (0x0000_0073, Flow::Next),           // ecall
                (0xc010_2573, Flow::Next),           // rdtime a0
            ],
        );
    }

    #[test]
    fn riscv_compressed_words() {
        for (half, flow) in [
            (0x8082_u16, Flow::Return),       // ret
            (0x8302, Flow::Indirect),         // jr t1
            (0x9302, Flow::Next),             // jalr t1
            (0x852e, Flow::Next),             // mv a0, a1
            (0xa001, Flow::Jump(PC)),         // j 0
            (0xbffd, Flow::Jump(PC - 2)),     // j -2
            (0xc511, Flow::Branch(PC + 0xc)), // beqz a0, +12
            (0xfd7d, Flow::Branch(PC - 2)),   // bnez a0, -2
            (0x0001, Flow::Next),             // nop
        ] {
            for isa in [Isa::Riscv32, Isa::Riscv64] {
                assert_eq!(isa.flow(PC, &half.to_le_bytes()), flow, "{half:#06x}");
            }
        }
        // c.jal +32 is c.addiw zero, 8 on RV64.
        let half = 0x2005_u16.to_le_bytes();
        assert_eq!(Isa::Riscv32.flow(PC, &half), Flow::Call(PC + 32));
        assert_eq!(Isa::Riscv64.flow(PC, &half), Flow::Next);
    }

    #[test]
    fn aarch64_words() {
        words(
            Isa::Aarch64,
            &[
                (0xd503_201f, Flow::Next),           // nop
                (0x17ff_ffff, Flow::Jump(PC - 4)),   // b -4
                (0x9400_0004, Flow::Call(PC + 16)),  // bl +16
                (0x54ff_ffc1, Flow::Branch(PC - 8)), // b.ne -8
                (0xb400_0040, Flow::Branch(PC + 8)), // cbz x0, +8
                (0x3707_ffe0, Flow::Branch(PC - 4)), // tbnz w0, #0, -4
                (0xd65f_03c0, Flow::Return),         // ret
                (0xd61f_0200, Flow::Indirect),       // br x16
                (0xd63f_0200, Flow::Next),           // blr x16
                (0xd69f_03e0, Flow::Return),         // eret
            ],
        );
    }

    #[test]
    fn x86_bytes() {
        for (bytes, flow) in [
            (&[0x90][..], Flow::Next),
            (&[0x75, 0xfc], Flow::Branch(PC - 2)),
            (&[0x0f, 0x84, 0x10, 0, 0, 0], Flow::Branch(PC + 0x16)),
            (&[0xeb, 0x02], Flow::Jump(PC + 4)),
            (&[0xe9, 0xfb, 0xff, 0xff, 0xff], Flow::Jump(PC)),
            (&[0xe8, 0, 0, 0, 0], Flow::Call(PC + 5)),
            (&[0xc3], Flow::Return),
            (&[0xf3, 0xc3], Flow::Return),
            (&[0x48, 0xcf], Flow::Return),
            (&[0xff, 0xe0], Flow::Indirect),
            (&[0x41, 0xff, 0xe4], Flow::Indirect),
            (&[0xff, 0xd0], Flow::Next),
            (&[0xff, 0xc0], Flow::Next),
            (&[0xcd, 0x80], Flow::Next),
            (&[0x48], Flow::Next),
            (&[], Flow::Next),
        ] {
            assert_eq!(Isa::X86.flow(PC, bytes), flow, "{bytes:x?}");
        }
    }

    #[test]
    fn only_memory_instructions_are_reported() {
        for (word, reported) in [
            (0x0005_3503_u32, true), // ld a0, 0(a0)
            (0x00a5_3023, true),     // sd a0, 0(a0)
            (0x00a5_252f, true),     // amoadd.w a0, a0, (a0)
            (0x0005_2507, true),     // flw fa0, 0(a0)
            (0x0050_0093, false),    // li ra, 5
            (0x1001_77f3, false),    // csrrci a5, sstatus, 2
            (0x0000_8067, false),    // ret
            (0x0330_000f, false),    // fence rw, rw
        ] {
            assert_eq!(
                Isa::Riscv64.accesses(&word.to_le_bytes()) == Accesses::Reported,
                reported,
                "{word:#010x}"
            );
        }
        for (half, reported) in [
            (0x6108_u16, true), // ld a0, 0(a0)
            (0xe108, true),     // sd a0, 0(a0)
            (0x6502, true),     // ld a0, 0(sp)
            (0xe02a, true),     // sd a0, 0(sp)
            (0x0808, false),    // addi a0, sp, 16
            (0x8082, false),    // ret
            (0x0505, false),    // addi a0, a0, 1
        ] {
            assert_eq!(
                Isa::Riscv64.accesses(&half.to_le_bytes()) == Accesses::Reported,
                reported,
                "{half:#06x}"
            );
        }
        for (word, reported) in [
            (0xf940_0020_u32, true), // ldr x0, [x1]
            (0xa9bf_7bfd, true),     // stp x29, x30, [sp, #-16]!
            (0xc85f_7c20, true),     // ldxr x0, [x1]
            (0xd50b_7420, true),     // dc zva, x0
            (0xd65f_03c0, false),    // ret
            (0x9100_0400, false),    // add x0, x0, #1
            (0xd53b_e040, false),    // mrs x0, cntvct_el0
        ] {
            assert_eq!(
                Isa::Aarch64.accesses(&word.to_le_bytes()) == Accesses::Reported,
                reported,
                "{word:#010x}"
            );
        }
        let known = |loads, stores| Accesses::Known { loads, stores };
        for (bytes, accesses) in [
            (&[0xc3][..], known(1, 0)),
            (&[0xe8, 0, 0, 0, 0], known(0, 1)),
            (&[0xff, 0xd0], known(0, 1)),        // call *%rax
            (&[0xff, 0x10], known(1, 1)),        // call *(%rax)
            (&[0xff, 0x20], known(1, 0)),        // jmp *(%rax)
            (&[0xff, 0xe0], known(0, 0)),        // jmp *%rax
            (&[0xff, 0x30], Accesses::Reported), // push (%rax)
            (&[0x75, 0xfe], known(0, 0)),
            (&[0x0f, 0x31], known(0, 0)), // rdtsc
            (&[0x65, 0x48, 0x8b, 4, 0x25, 0, 0, 0, 0], Accesses::Reported),
            (&[0xf0, 0x48, 0x0f, 0xb1, 0x0a], Accesses::Reported), // lock cmpxchg
        ] {
            assert_eq!(Isa::X86.accesses(bytes), accesses, "{bytes:x?}");
        }
    }

    /// In code with a GOT, the address of the switches is loaded beside them.
    #[test]
    fn only_loads_of_a_byte_are_loads_of_a_switch() {
        for (word, loads) in [
            (0x0005_c503_u32, true), // lbu a0, 0(a1)
            (0x0005_8503, true),     // lb a0, 0(a1)
            (0x0005_9503, false),    // lh a0, 0(a1)
            (0x0005_a503, false),    // lw a0, 0(a1)
            (0x0005_b503, false),    // ld a0, 0(a1), as of the GOT
            (0x00a5_8023, false),    // sb a0, 0(a1)
            (0x0000_0517, false),    // auipc a0, 0
        ] {
            let loaded = Isa::Riscv64.loads_byte(&word.to_le_bytes());
            assert_eq!(loaded, loads, "{word:#010x}");
        }
        for (half, loads) in [
            (0x8188_u16, true), // c.lbu a0, 0(a1)
            (0x8588, false),    // c.lhu a0, 0(a1)
            (0x8988, false),    // c.sb a0, 0(a1)
            (0x6188, false),    // c.ld a0, 0(a1)
            (0x4188, false),    // c.lw a0, 0(a1)
        ] {
            let loaded = Isa::Riscv32.loads_byte(&half.to_le_bytes());
            assert_eq!(loaded, loads, "{half:#06x}");
        }
        for (word, loads) in [
            (0x3940_0020_u32, true), // ldrb w0, [x1]
            (0x3862_6820, true),     // ldrb w0, [x1, x2]
            (0x385f_f020, true),     // ldurb w0, [x1, #-1]
            (0x3980_0020, true),     // ldrsb x0, [x1]
            (0x38bf_c020, true),     // ldaprb w0, [x1]
            (0x08df_fc20, true),     // ldarb w0, [x1]
            (0x085f_7c20, true),     // ldxrb w0, [x1]
            (0x3900_0020, false),    // strb w0, [x1]
            (0x089f_fc20, false),    // stlrb w0, [x1]
            (0x0803_7c20, false),    // stxrb w3, w0, [x1]
            (0x7940_0020, false),    // ldrh w0, [x1]
            (0xf940_0420, false),    // ldr x0, [x1, #8], as of the GOT
            (0x3d40_0020, false),    // ldr b0, [x1]
            (0xa940_0440, false),    // ldp x0, x1, [x2]
        ] {
            let loaded = Isa::Aarch64.loads_byte(&word.to_le_bytes());
            assert_eq!(loaded, loads, "{word:#010x}");
        }
        for (bytes, loads) in [
            (&[0x80, 0x3d, 0, 0, 0, 0, 0][..], true), // cmpb $0, 0(%rip)
            (&[0x0f, 0xb6, 0x05, 0, 0, 0, 0], true),  // movzbl 0(%rip), %eax
            (&[0x0f, 0xb6, 0xc0], false),             // movzbl %al, %eax
            (&[0x84, 0xc0], false),                   // test %al, %al
            (&[0x48, 0x8d, 0x05, 0, 0, 0, 0], false), // lea 0(%rip), %rax
            (&[0x89, 0xd8], false),                   // mov %ebx, %eax
        ] {
            assert_eq!(Isa::X86.loads_byte(bytes), loads, "{bytes:x?}");
        }
    }
}
