//! Fields of an event's configuration: which bits a PMU's parameter has.

/// Words of a configuration: `config`, `config1`, `config2` and `config3`.
pub(super) const WORDS: usize = 4;

/// Bits of one word of a configuration, as a file in a PMU's folder `format` names them:
/// `config:0-7,32-35`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    word: usize,
    /// The bits' numbers, that of the value's lowest first.
    bits: Vec<u8>,
}

impl Field {
    /// The whole of a word.
    pub(super) fn whole(word: usize) -> Field {
        Field {
            word,
            bits: (0..64).collect(),
        }
    }

    /// `None` if the text names no bits that Linux has.
    pub(super) fn parse(text: &str) -> Option<Field> {
        let (word, ranges) = text.trim().split_once(':')?;
        let mut bits = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u8, u8) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            if first > last || last > 63 {
                return None;
            }
            bits.extend(first..=last);
        }
        let word = word_number(word)?;
        Some(Field { word, bits })
    }

    /// Puts a value into the field, in place of what was there. Returns whether it fits.
    pub(super) fn set(&self, value: u64, config: &mut [u64; WORDS]) -> bool {
        let Some(word) = config.get_mut(self.word) else {
            return false;
        };
        let mut rest = value;
        for bit in &self.bits {
            *word = *word & !(1 << bit) | (rest & 1) << bit;
            rest >>= 1;
        }
        rest == 0
    }

    /// Number of its bits.
    pub(super) fn len(&self) -> usize {
        self.bits.len()
    }
}

/// The number of a word of the configuration.
pub(super) fn word_number(name: &str) -> Option<usize> {
    match name {
        "config" => Some(0),
        "config1" => Some(1),
        "config2" => Some(2),
        "config3" => Some(3),
        _ => None,
    }
}

/// A decimal number, or a hexadecimal one behind `0x`.
pub(super) fn number(text: &str) -> Option<u64> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((text, 10), |digits| (digits, 16));
    // A sign is no part of a number here, though the library would take it.
    let are_digits = digits.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|_| are_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_may_have_several_parts() {
        for (text, value, config) in [
            ("config:0-7", 0x3c, [0x3c, 0, 0, 0]),
            ("config:0-7,32-35\n", 0x13c, [0x1_0000_003c, 0, 0, 0]),
            ("config1:1,6-7", 0b110, [0, 0b1100_0000, 0, 0]),
            ("config2:63", 1, [0, 0, 1 << 63, 0]),
            ("config3:0-63", u64::MAX, [0, 0, 0, u64::MAX]),
        ] {
            let mut words = [0; WORDS];
            let field = Field::parse(text).expect(text);
            assert!(field.set(value, &mut words), "{text}");
            assert_eq!(words, config, "{text}");
        }
        let mut words = [u64::MAX; WORDS];
        let field = Field::parse("config:8-15").expect("a field");
        assert!(!field.set(0x101, &mut words), "9 bits in 8");
        assert_eq!((words[0], field.len()), (!0xfe00, 8));
        for text in [
            "",
            "config",
            "config:",
            "config:7-0",
            "config:64",
            "word:0",
            "config:a",
        ] {
            assert_eq!(Field::parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        for (text, value) in [
            ("0", Some(0)),
            ("60", Some(60)),
            ("0x3C", Some(60)),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("0x10000000000000000", None),
            ("+1", None),
            ("0x", None),
            ("", None),
            ("3c", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
