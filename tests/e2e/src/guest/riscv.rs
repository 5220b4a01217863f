//! RISC-V, 32 and 64 bits (no instruction differs): `-M virt -bios none`, every hart at 0x80000000
//! in M-mode.
//!
//! Each hart calls `f` and `g` 5000 times, then `h` 2000 times with its timer interrupting all 200
//! us, whose handler calls `h` too. `g` traps, and the first of two handlers in each other calls
//! `g`.

use super::{Function, Guest, PerCall};

/// A guest for this emulator.
pub fn guest(bits: u32) -> Guest {
    let (qemu, class) = if bits == 32 {
        ("qemu-system-riscv32", 1)
    } else {
        ("qemu-system-riscv64", 2)
    };
    Guest {
        qemu,
        arguments: &[
            "-M", "virt", "-m", "64M", "-bios", "none", "-display", "none", "-serial", "none",
            "-monitor", "none",
        ],
        status: 0,
        class,
        machine: 243,
        base: 0x8000_0000,
        parts: vec![(0, super::bytes(&CODE))],
        cpus_at: 4 * CODE.len() as u64,
        note: Vec::new(),
        functions: vec![
            // 1 + 5 turns of 5 + amoadd + ret
            Function {
                name: "f",
                start: 0x134,
                end: 0x154,
                calls: 5000,
                exactly: true,
                per_call: PerCall(28, 6, 6),
            },
            Function {
                name: "g",
                start: 0x154,
                end: 0x164,
                calls: 2 * 5000,
                exactly: true,
                per_call: PerCall(4, 1, 1),
            },
            // 1 + 200 turns of 5 + ret; how often the timer interrupts is its own affair.
            Function {
                name: "h",
                start: 0x164,
                end: 0x180,
                calls: 2000,
                exactly: false,
                per_call: PerCall(1002, 200, 200),
            },
        ],
    }
}

#[rustfmt::skip]
const CODE: [u32; 96] = [
    // start:
    0x00010417, // 0x0: auipc s0,0x10
    0xf14024f3, // 0x4: csrr s1,mhartid
    0x00849293, // 0x8: sll t0,s1,0x8
    0x005405b3, // 0xc: add a1,s0,t0
    0x10058593, // 0x10: add a1,a1,256
    0x00c58613, // 0x14: add a2,a1,12
    0x00000297, // 0x18: auipc t0,0x0
    0x0a028293, // 0x1c: add t0,t0,160
    0x30529073, // 0x20: csrw mtvec,t0
    0x00001937, // 0x24: lui s2,0x1
    0x38890913, // 0x28: add s2,s2,904
    0x108000ef, // 0x2c: jal <f>
    0x124000ef, // 0x30: jal <g>
    0xfff90913, // 0x34: add s2,s2,-1
    0xfe091ae3, // 0x38: bnez s2,<start+0x2c>
    0x02004bb7, // 0x3c: lui s7,0x2004
    0x00349293, // 0x40: sll t0,s1,0x3
    0x005b8bb3, // 0x44: add s7,s7,t0
    0x0200cc37, // 0x48: lui s8,0x200c
    0x7d000c93, // 0x4c: li s9,2000
    0x000ba223, // 0x50: sw zero,4(s7)
    0xff8c2283, // 0x54: lw t0,-8(s8)
    0x019282b3, // 0x58: add t0,t0,s9
    0x005ba023, // 0x5c: sw t0,0(s7)
    0x08000293, // 0x60: li t0,128
    0x30429073, // 0x64: csrw mie,t0
    0x30046073, // 0x68: csrs mstatus,8
    0x7d000913, // 0x6c: li s2,2000
    0x0f4000ef, // 0x70: jal <h>
    0xfff90913, // 0x74: add s2,s2,-1
    0xfe091ce3, // 0x78: bnez s2,<start+0x70>
    0x30047073, // 0x7c: csrc mstatus,8
    0x00100293, // 0x80: li t0,1
    0x0054202f, // 0x84: amoadd.w zero,t0,(s0)
    0x02049463, // 0x88: bnez s1,<park>
    0x00042283, // 0x8c: lw t0,0(s0)
    0x00000317, // 0x90: auipc t1,0x0
    0x0f030313, // 0x94: add t1,t1,240
    0x00032303, // 0x98: lw t1,0(t1)
    0xfe6298e3, // 0x9c: bne t0,t1,<start+0x8c>
    0x001002b7, // 0xa0: lui t0,0x100
    0x00005337, // 0xa4: lui t1,0x5
    0x55530313, // 0xa8: add t1,t1,1365
    0x0062a023, // 0xac: sw t1,0(t0)
    // park:
    0x10500073, // 0xb0: wfi
    0xffdff06f, // 0xb4: j <park>
    // handler:
    0x342023f3, // 0xb8: csrr t2,mcause
    0x0403c663, // 0xbc: bltz t2,<timer>
    0x341023f3, // 0xc0: csrr t2,mepc
    0x00438393, // 0xc4: add t2,t2,4
    0x34139073, // 0xc8: csrw mepc,t2
    0x0085a383, // 0xcc: lw t2,8(a1)
    0x02039a63, // 0xd0: bnez t2,<back>
    0x00100393, // 0xd4: li t2,1
    0x0075a423, // 0xd8: sw t2,8(a1)
    0x00008993, // 0xdc: mv s3,ra
    0x00030a93, // 0xe0: mv s5,t1
    0x34102a73, // 0xe4: csrr s4,mepc
    0x30002b73, // 0xe8: csrr s6,mstatus
    0x068000ef, // 0xec: jal <g>
    0x300b1073, // 0xf0: csrw mstatus,s6
    0x341a1073, // 0xf4: csrw mepc,s4
    0x000a8313, // 0xf8: mv t1,s5
    0x00098093, // 0xfc: mv ra,s3
    0x0005a423, // 0x100: sw zero,8(a1)
    // back:
    0x30200073, // 0x104: mret
    // timer:
    0x00008993, // 0x108: mv s3,ra
    0x00028a13, // 0x10c: mv s4,t0
    0x00030a93, // 0x110: mv s5,t1
    0x050000ef, // 0x114: jal <h>
    0xff8c2283, // 0x118: lw t0,-8(s8)
    0x019282b3, // 0x11c: add t0,t0,s9
    0x005ba023, // 0x120: sw t0,0(s7)
    0x000a8313, // 0x124: mv t1,s5
    0x000a0293, // 0x128: mv t0,s4
    0x00098093, // 0x12c: mv ra,s3
    0x30200073, // 0x130: mret
    // f:
    0x00500293, // 0x134: li t0,5
    0x0005a303, // 0x138: lw t1,0(a1)
    0x00130313, // 0x13c: add t1,t1,1
    0x0065a223, // 0x140: sw t1,4(a1)
    0xfff28293, // 0x144: add t0,t0,-1
    0xfe0298e3, // 0x148: bnez t0,<f+0x4>
    0x0066202f, // 0x14c: amoadd.w zero,t1,(a2)
    0x00008067, // 0x150: ret
    // g:
    0x0005a303, // 0x154: lw t1,0(a1)
    0x00000073, // 0x158: ecall
    0x0065a023, // 0x15c: sw t1,0(a1)
    0x00008067, // 0x160: ret
    // h:
    0x0c800293, // 0x164: li t0,200
    0x0005a303, // 0x168: lw t1,0(a1)
    0x00130313, // 0x16c: add t1,t1,1
    0x0065a023, // 0x170: sw t1,0(a1)
    0xfff28293, // 0x174: add t0,t0,-1
    0xfe0298e3, // 0x178: bnez t0,<h+0x4>
    0x00008067, // 0x17c: ret
];
