//! AArch64 at EL1: `-M virt`, CPU 0 starts the others by PSCI.
//!
//! Each CPU calls `f` and `g` 5000 times. `g` traps, and the first of two handlers in each other
//! calls `g`.

use super::{Function, Guest, PerCall};

/// The guest.
pub fn guest() -> Guest {
    Guest {
        qemu: "qemu-system-aarch64",
        arguments: &[
            "-M",
            "virt",
            "-cpu",
            "cortex-a72",
            "-m",
            "64M",
            "-display",
            "none",
            "-serial",
            "none",
            "-monitor",
            "none",
        ],
        status: 0,
        class: 2,
        machine: 183,
        base: 0x4020_0000,
        parts: vec![(0, super::bytes(&CODE)), (0xa00, super::bytes(&HANDLER))],
        cpus_at: 0xa3c,
        note: Vec::new(),
        functions: vec![
            // 1 + 5 turns of 5 + ret
            Function {
                name: "f",
                start: 0x94,
                end: 0xb0,
                calls: 5000,
                exactly: true,
                per_call: PerCall(27, 5, 5),
            },
            Function {
                name: "g",
                start: 0xb0,
                end: 0xc0,
                calls: 2 * 5000,
                exactly: true,
                per_call: PerCall(4, 1, 1),
            },
        ],
    }
}

#[rustfmt::skip]
const CODE: [u32; 48] = [
    // start:
    0x180051fa, // 0x0: ldr w26, 0xa3c <cpus>
    0xd2800014, // 0x4: mov x20, #0
    0xd2800033, // 0x8: mov x19, #1
    0xeb1a027f, // 0xc: cmp x19, x26
    0x5400014a, // 0x10: b.ge 0x38 <second+0x4>
    0xd2800060, // 0x14: mov x0, #3
    0xf2b88000, // 0x18: movk x0, #50176, lsl #16
    0xaa1303e1, // 0x1c: mov x1, x19
    0x100000a2, // 0x20: adr x2, #20
    0xaa1303e3, // 0x24: mov x3, x19
    0xd4000002, // 0x28: hvc #0
    0x91000673, // 0x2c: add x19, x19, #1
    0x17fffff7, // 0x30: b 0xc <start+0xc>
    // second:
    0xaa0003f4, // 0x34: mov x20, x0
    0x10003e40, // 0x38: adr x0, #1992
    0xd518c000, // 0x3c: msr VBAR_EL1, x0
    0xd2a80612, // 0x40: mov x18, #1076887552
    0x8b142241, // 0x44: add x1, x18, x20, lsl #8
    0x91040021, // 0x48: add x1, x1, #256
    0x52827115, // 0x4c: mov w21, #5000
    0x94000011, // 0x50: bl 0x94 <f>
    0x94000017, // 0x54: bl 0xb0 <g>
    0x710006b5, // 0x58: subs w21, w21, #1
    0x54ffffa1, // 0x5c: b.ne 0x50 <second+0x1c>
    0x885ffe40, // 0x60: ldaxr w0, [x18]
    0x11000400, // 0x64: add w0, w0, #1
    0x8802fe40, // 0x68: stlxr w2, w0, [x18]
    0x35ffffa2, // 0x6c: cbnz w2, 0x60 <second+0x2c>
    0xb50000f4, // 0x70: cbnz x20, 0x8c <park>
    0x88dffe40, // 0x74: ldar w0, [x18]
    0x6b1a001f, // 0x78: cmp w0, w26
    0x54ffffc1, // 0x7c: b.ne 0x74 <second+0x40>
    0xd2800100, // 0x80: mov x0, #8
    0xf2b08000, // 0x84: movk x0, #33792, lsl #16
    0xd4000002, // 0x88: hvc #0
    // park:
    0xd503207f, // 0x8c: wfi
    0x17ffffff, // 0x90: b 0x8c <park>
    // f:
    0x528000a9, // 0x94: mov w9, #5
    0xb940002a, // 0x98: ldr w10, [x1]
    0x1100054a, // 0x9c: add w10, w10, #1
    0xb900042a, // 0xa0: str w10, [x1, #4]
    0x71000529, // 0xa4: subs w9, w9, #1
    0x54ffff81, // 0xa8: b.ne 0x98 <f+0x4>
    0xd65f03c0, // 0xac: ret
    // g:
    0xb940002a, // 0xb0: ldr w10, [x1]
    0xd4000001, // 0xb4: svc #0
    0xb900002a, // 0xb8: str w10, [x1]
    0xd65f03c0, // 0xbc: ret
];

/// 0x200 behind the vectors' base: a synchronous exception of EL1 itself.
#[rustfmt::skip]
const HANDLER: [u32; 15] = [
    0xb940082b, // 0xa00: ldr w11, [x1, #8]
    0x350001ab, // 0xa04: cbnz w11, 0xa38 <$x+0x38>
    0x5280002b, // 0xa08: mov w11, #1
    0xb900082b, // 0xa0c: str w11, [x1, #8]
    0xaa1e03f6, // 0xa10: mov x22, x30
    0xd5384037, // 0xa14: mrs x23, ELR_EL1
    0xd5384018, // 0xa18: mrs x24, SPSR_EL1
    0x2a0a03f9, // 0xa1c: mov w25, w10
    0x97fffda4, // 0xa20: bl 0xb0 <g>
    0x2a1903ea, // 0xa24: mov w10, w25
    0xd5184018, // 0xa28: msr SPSR_EL1, x24
    0xd5184037, // 0xa2c: msr ELR_EL1, x23
    0xaa1603fe, // 0xa30: mov x30, x22
    0xb900083f, // 0xa34: str wzr, [x1, #8]
    0xd69f03e0, // 0xa38: eret
];
