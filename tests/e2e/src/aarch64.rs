//! Decodes a function's AArch64 machine code, as far as tests count it: branches, loads and stores.
//! (Debian's disassembler for it would be one more package.)

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol};

/// The address and the kind of each instruction of a function: `ret`, `j`, `call`, `b.if` with its
/// target, and what else it does to memory, with its word.
///
/// Source of the encodings: Arm Architecture Reference Manual (DDI 0487), C4.1.
///
/// # Panics
/// If the image has no such function.
pub fn disassembled(image: &Path, function: &str) -> Vec<(u64, String)> {
    let bytes = fs::read(image).unwrap();
    let image = object::File::parse(&*bytes).unwrap();
    let mut symbols = image.symbols();
    let symbol = symbols.find(|symbol| symbol.name() == Ok(function));
    let symbol = symbol.unwrap_or_else(|| panic!("there is no {function}"));
    let (start, size) = (symbol.address(), symbol.size());
    let code = image
        .sections()
        .find_map(|section| section.data_range(start, size).ok()?);
    let words = code.expect("a function has code").chunks_exact(4);
    let words = words.map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    (start..)
        .step_by(4)
        .zip(words)
        .map(|(address, word)| (address, text(address, word)))
        .collect()
}

fn text(address: u64, word: u32) -> String {
    // A signed number of words in these bits.
    let target = |shift: u32, bits: u32| {
        let offset = i64::from(word) << (64 - shift - bits) >> (64 - bits);
        format!("b.if {:x}", address.wrapping_add_signed(4 * offset))
    };
    match word {
        0xD65F_03C0 => "ret".to_owned(),
        // B.cond; CBZ and CBNZ; TBZ and TBNZ.
        _ if word >> 24 == 0x54 || word >> 25 & 0x3F == 0b01_1010 => target(5, 19),
        _ if word >> 25 & 0x3F == 0b01_1011 => target(5, 14),
        _ if word >> 26 == 0b10_0101 || word & 0xFFFF_FC1F == 0xD63F_0000 => {
            format!("call {word:x}")
        }
        _ if word >> 26 == 0b00_0101 || word & 0xFFFF_FC1F == 0xD61F_0000 => format!("j {word:x}"),
        _ => format!("{} {word:x}", memory(word)),
    }
}

/// What an instruction does to memory.
fn memory(word: u32) -> &'static str {
    let is_load = word & 1 << 22 != 0;
    if word >> 25 & 0b101 != 0b100 {
        return "other";
    }
    match word >> 27 & 0b111 {
        // Bit 23: a single access that is ordered.
        0b001 => match (word >> 23 & 1, is_load) {
            (0, true) => "load-exclusive",
            (0, false) => "store-exclusive",
            (_, true) => "load",
            (_, false) => "store",
        },
        0b101 if is_load => "load-pair",
        0b101 => "store-pair",
        0b011 => "load",
        // Two bits: 0 stores, the others load.
        _ if word >> 22 & 0b11 == 0 => "store",
        _ => "load",
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn instructions_are_told_apart() {
        for (word, expected) in [
            (0xD65F_03C0, "ret"),
            (0x5400_02E1, "b.if 10005c"),              // b.ne .+0x5c
            (0xB4FF_FFE9, "b.if ffffc"),               // cbz x9, .-4
            (0x35FF_FFCC, "b.if ffff8"),               // cbnz w12, .-8
            (0x3607_FFE0, "b.if ffffc"),               // tbz w0, 0, .-4
            (0x1400_0001, "j 14000001"),               // b .+4
            (0x9400_0001, "call 94000001"),            // bl .+4
            (0xC85F_7C4B, "load-exclusive c85f7c4b"),  // ldxr x11, [x2]
            (0xC80B_7C4C, "store-exclusive c80b7c4c"), // stxr w11, x12, [x2]
            (0x880C_FD2B, "store-exclusive 880cfd2b"), // stlxr w12, w11, [x9]
            (0x889F_FD2A, "store 889ffd2a"),           // stlr w10, [x9]
            (0xC8DF_FC20, "load c8dffc20"),            // ldar x0, [x1]
            (0xA940_B04B, "load-pair a940b04b"),       // ldp x11, x12, [x2, #8]
            (0x2900_8520, "store-pair 29008520"),      // stp w0, w1, [x9, #4]
            (0x3941_D508, "load 3941d508"),            // ldrb w8, [x8, #117]
            (0xF900_0041, "store f9000041"),           // str x1, [x2]
            (0x5800_0040, "load 58000040"),            // ldr x0, .+8
            (0xD53B_E04A, "other d53be04a"),           // mrs x10, cntvct_el0
            (0x9100_3129, "other 91003129"),           // add x9, x9, #12
        ] {
            assert_eq!(text(0x10_0000, word), expected);
        }
    }
}
