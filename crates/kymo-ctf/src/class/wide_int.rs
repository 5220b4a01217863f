//! Integers of any size.
//!
//! The crate only reads, compares and prints such integers, so it has its own type instead of a
//! dependency with arithmetic.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::class::Base;

/// An exact integer of any size. It is cheap to clone.
///
/// [`Display`](fmt::Display) prints decimal; `{:x}`, `{:X}`, `{:o}` and `{:b}` print other bases,
/// with a prefix for `#`. A negative number is a `-` and its absolute value in all of them.
/// Printing decimal takes time quadratic in the digits, so numbers of more than
/// [`MOST_DECIMAL_BITS`](WideInt::MOST_DECIMAL_BITS) are printed as `0x` and hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WideInt {
    negative: bool,
    /// The absolute value, least significant word first, without trailing zeros.
    limbs: Arc<[u64]>,
}

/// The largest power of ten in 64 bits, and its number of zeros.
const TEN: (u64, usize) = (10_000_000_000_000_000_000, 19);

/// Numbers of this many decimal digits are always printed in decimal.
const MOST_DIGITS: usize = 19_728;

impl WideInt {
    /// Numbers of more bits are printed in hexadecimal.
    pub const MOST_DECIMAL_BITS: u64 = 1 << 16;

    /// The number whose absolute value is `limbs`, least significant word first.
    fn new(negative: bool, mut limbs: Vec<u64>) -> Self {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        WideInt {
            negative: negative && !limbs.is_empty(),
            limbs: limbs.into(),
        }
    }

    /// The number in the low `bits` bits of `limbs`, in two's complement if `signed`. The bits
    /// above must be zero.
    pub(crate) fn from_bits(mut limbs: Vec<u64>, bits: u64, signed: bool) -> Self {
        let negative = signed && bits.checked_sub(1).is_some_and(|top| bit(&limbs, top));
        if negative {
            negate(&mut limbs, bits);
        }
        WideInt::new(negative, limbs)
    }

    /// The number's low `bits` bits, in two's complement if it is negative.
    pub(crate) fn to_bits(&self, bits: u64) -> Vec<u64> {
        let mut limbs = self.limbs.to_vec();
        limbs.resize(usize::try_from(bits.div_ceil(64)).unwrap_or(0), 0);
        if self.negative {
            negate(&mut limbs, bits);
        } else {
            clear_above(&mut limbs, bits);
        }
        limbs
    }

    /// The low `bits` bits of the two's complement, as an unsigned number; the number itself if it
    /// is not negative and fits.
    #[must_use]
    pub fn twos_complement(&self, bits: u64) -> Self {
        // The bits above a non-negative number are zero.
        let bits = if self.negative {
            bits
        } else {
            bits.min(self.bits())
        };
        WideInt::new(false, self.to_bits(bits))
    }

    /// Parses decimal digits with an optional `-`. `None` for anything else, and for numbers that
    /// would take too long to parse.
    pub(crate) fn from_decimal(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty()
            || digits.len() > MOST_DIGITS
            || !digits.bytes().all(|digit| digit.is_ascii_digit())
        {
            return None;
        }
        let mut limbs = Vec::new();
        for chunk in digits.as_bytes().chunks(TEN.1) {
            let (mut scale, mut carry) = (1_u64, 0);
            for digit in chunk {
                (scale, carry) = (scale * 10, carry * 10 + u64::from(digit - b'0'));
            }
            for limb in &mut limbs {
                let product = u128::from(*limb) * u128::from(scale) + u128::from(carry);
                (*limb, carry) = (product as u64, (product >> 64) as u64);
            }
            limbs.push(carry);
        }
        Some(WideInt::new(text.starts_with('-'), limbs))
    }

    /// Whether it is less than 0.
    pub fn is_negative(&self) -> bool {
        self.negative
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// The absolute value in 64-bit words, least significant first; the last word is not 0.
    pub fn magnitude(&self) -> &[u64] {
        &self.limbs
    }

    /// Number of bits of the absolute value.
    pub fn bits(&self) -> u64 {
        let last = self
            .limbs
            .last()
            .map_or(0, |limb| u64::from(64 - limb.leading_zeros()));
        (self.limbs.len() as u64)
            .saturating_sub(1)
            .saturating_mul(64)
            + last
    }

    /// The number, if it fits.
    pub fn to_u64(&self) -> Option<u64> {
        u64::try_from(self.to_i128()?).ok()
    }

    /// The number, if it fits.
    pub fn to_i64(&self) -> Option<i64> {
        i64::try_from(self.to_i128()?).ok()
    }

    /// The number, if it fits.
    pub fn to_u128(&self) -> Option<u128> {
        match *self.limbs {
            _ if self.negative => None,
            [] => Some(0),
            [low] => Some(low.into()),
            [low, high] => Some(u128::from(high) << 64 | u128::from(low)),
            _ => None,
        }
    }

    /// The number, if it fits.
    pub fn to_i128(&self) -> Option<i128> {
        let size = WideInt {
            negative: false,
            limbs: Arc::clone(&self.limbs),
        }
        .to_u128()?;
        if self.negative {
            0_i128.checked_sub_unsigned(size)
        } else {
            i128::try_from(size).ok()
        }
    }

    /// The low 64 bits, in two's complement if it is negative.
    pub(crate) fn low(&self) -> u64 {
        let low = self.limbs.first().copied().unwrap_or(0);
        if self.negative {
            low.wrapping_neg()
        } else {
            low
        }
    }

    /// The digits of the absolute value in base 2 to the power of `bits`.
    fn digits(&self, bits: u32, upper: bool) -> String {
        let count = self.bits().div_ceil(bits.into()).max(1);
        let digit = |index: u64| {
            let at = index * u64::from(bits);
            let value = (0..bits)
                .filter(|more| bit(&self.limbs, at + u64::from(*more)))
                .fold(0, |value, more| value | 1 << more);
            let digit = char::from_digit(value, 16).unwrap_or('?');
            if upper {
                digit.to_ascii_uppercase()
            } else {
                digit
            }
        };
        (0..count).rev().map(digit).collect()
    }

    /// The number in a base, with its prefix.
    pub fn in_base(&self, base: Base) -> String {
        match base {
            Base::Binary => format!("{self:#b}"),
            Base::Octal => format!("{self:#o}"),
            Base::Decimal => self.to_string(),
            Base::Hexadecimal => format!("{self:#x}"),
        }
    }

    /// The number for messages, in which a long one is described by its size.
    pub(crate) fn brief(&self) -> String {
        match self.bits() {
            ..=256 => self.to_string(),
            bits => format!("a number of {bits} bits"),
        }
    }
}

/// Whether the bit `at` is set.
fn bit(limbs: &[u64], at: u64) -> bool {
    let limb = usize::try_from(at / 64)
        .ok()
        .and_then(|index| limbs.get(index));
    limb.is_some_and(|limb| limb >> (at % 64) & 1 == 1)
}

fn clear_above(limbs: &mut [u64], bits: u64) {
    if !bits.is_multiple_of(64)
        && let Some(limb) = usize::try_from(bits / 64)
            .ok()
            .and_then(|index| limbs.get_mut(index))
    {
        *limb &= (1 << (bits % 64)) - 1;
    }
}

/// Negates the number in two's complement of `bits` bits.
fn negate(limbs: &mut [u64], bits: u64) {
    let mut carry = true;
    for limb in limbs.iter_mut() {
        (*limb, carry) = (!*limb).overflowing_add(carry.into());
    }
    clear_above(limbs, bits);
}

impl From<i128> for WideInt {
    fn from(value: i128) -> Self {
        let size = WideInt::from(value.unsigned_abs());
        WideInt {
            negative: value < 0,
            ..size
        }
    }
}

impl From<u128> for WideInt {
    fn from(value: u128) -> Self {
        WideInt::new(false, vec![value as u64, (value >> 64) as u64])
    }
}

impl Ord for WideInt {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |a: &Self, b: &Self| {
            a.limbs
                .len()
                .cmp(&b.limbs.len())
                .then_with(|| a.limbs.iter().rev().cmp(b.limbs.iter().rev()))
        };
        match (self.negative, other.negative) {
            (false, false) => size(self, other),
            (true, true) => size(other, self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for WideInt {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for WideInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits() > WideInt::MOST_DECIMAL_BITS {
            return f.pad(&format!("{self:#x}"));
        }
        let mut limbs = self.limbs.to_vec();
        let mut parts = Vec::new();
        while !limbs.is_empty() {
            let mut rest = 0;
            for limb in limbs.iter_mut().rev() {
                let dividend = u128::from(rest) << 64 | u128::from(*limb);
                let ten = u128::from(TEN.0);
                (*limb, rest) = ((dividend / ten) as u64, (dividend % ten) as u64);
            }
            if limbs.last() == Some(&0) {
                limbs.pop();
            }
            parts.push(rest);
        }
        let mut digits = parts.pop().unwrap_or(0).to_string();
        for part in parts.into_iter().rev() {
            digits += &format!("{part:0width$}", width = TEN.1);
        }
        f.pad_integral(!self.negative, "", &digits)
    }
}

impl fmt::Debug for WideInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::LowerHex for WideInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(!self.negative, "0x", &self.digits(4, false))
    }
}

impl fmt::UpperHex for WideInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(!self.negative, "0x", &self.digits(4, true))
    }
}

impl fmt::Octal for WideInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(!self.negative, "0o", &self.digits(3, false))
    }
}

impl fmt::Binary for WideInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(!self.negative, "0b", &self.digits(1, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> WideInt {
        WideInt::from_decimal(text).unwrap()
    }

    #[test]
    fn decimal_is_read_and_shown() {
        for text in [
            "0",
            "-1",
            "18446744073709551615",
            "18446744073709551616",
            "-18446744073709551616",
            "10000000000000000000",
            "100000000000000000000000000000000000000",
            "340282366920938463463374607431768211456",
            "-1606938044258990275541962092341162602522202993782792835301376",
        ] {
            assert_eq!(of(text).to_string(), text);
        }
        assert_eq!(of("-0"), WideInt::from(0_u128));
        assert_eq!(
            of("00000000000000000000000000000000000000000000007"),
            WideInt::from(7_u128)
        );
        for text in ["", "-", "1.5", "+1", "1 ", "--1"] {
            assert_eq!(WideInt::from_decimal(text), None, "{text:?}");
        }
        let most = "9".repeat(MOST_DIGITS);
        assert_eq!(of(&most).to_string(), most);
        assert_eq!(WideInt::from_decimal(&"1".repeat(MOST_DIGITS + 1)), None);
    }

    #[test]
    fn other_bases_have_their_prefixes() {
        let number = of("1361129467683753853853498429727072845823");
        assert_eq!(format!("{number:x}"), "3ffffffffffffffffffffffffffffffff");
        assert_eq!(
            format!("{number:#X}"),
            "0x3FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"
        );
        assert_eq!(format!("{number:#o}"), format!("0o17{}", "7".repeat(42)));
        assert_eq!(format!("{number:#b}"), format!("0b{}", "1".repeat(130)));
        assert_eq!(
            format!("{:#x}", of("-36893488147419103232")),
            "-0x20000000000000000"
        );
        assert_eq!(format!("{:#x} {:o}", of("0"), of("8")), "0x0 10");
        assert_eq!(
            format!("{:>25}|", of("-18446744073709551616")),
            "    -18446744073709551616|"
        );
    }

    #[test]
    fn conversions_are_of_what_fits() {
        for value in [
            0,
            1,
            -1,
            i128::MAX,
            i128::MIN,
            u64::MAX.into(),
            i64::MIN.into(),
            i128::from(i64::MIN) - 1,
        ] {
            let wide = WideInt::from(value);
            assert_eq!(wide.to_i128(), Some(value));
            assert_eq!(
                (wide.to_i64(), wide.to_u64()),
                (i64::try_from(value).ok(), u64::try_from(value).ok())
            );
            assert_eq!(wide.to_string(), value.to_string());
            assert_eq!(wide.low(), value as u64);
        }
        let most = WideInt::from(u128::MAX);
        assert_eq!(
            (most.to_u128(), most.to_i128(), most.bits()),
            (Some(u128::MAX), None, 128)
        );
        assert_eq!(
            of("-170141183460469231731687303715884105729").to_i128(),
            None
        );
        assert_eq!(
            of("340282366920938463463374607431768211456").to_u128(),
            None
        );
    }

    #[test]
    fn numbers_have_an_order() {
        let texts = [
            "-340282366920938463463374607431768211456",
            "-18446744073709551617",
            "-18446744073709551616",
            "-1",
            "0",
            "1",
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709551617",
            "36893488147419103232",
            "340282366920938463463374607431768211456",
        ];
        for (a, left) in texts.iter().enumerate() {
            for (b, right) in texts.iter().enumerate() {
                assert_eq!(of(left).cmp(&of(right)), a.cmp(&b), "{left} {right}");
            }
        }
    }

    #[test]
    fn twos_complement_goes_both_ways() {
        for bits in [65, 70, 127, 128, 129, 192, 200] {
            for value in [0, 1, -1, i128::from(u64::MAX), -(1 << 64), (1 << 63) - 1] {
                let wide = WideInt::from(value);
                let limbs = wide.to_bits(bits);
                assert_eq!(limbs.len() as u64, bits.div_ceil(64));
                assert_eq!(
                    WideInt::from_bits(limbs.clone(), bits, true),
                    wide,
                    "{value} in {bits}"
                );
                let above = bits % 64;
                assert!(
                    above == 0 || limbs.last().unwrap() >> above == 0,
                    "{value} in {bits}"
                );
            }
        }
        let top = WideInt::from_bits(vec![0, 0, 1], 129, true);
        assert_eq!(top, of("-340282366920938463463374607431768211456"));
        assert_eq!(
            WideInt::from_bits(vec![0, 0, 1], 129, false),
            of("340282366920938463463374607431768211456")
        );
    }

    #[test]
    fn negative_numbers_have_ones_above() {
        let hex = |text: &str, bits| format!("{:x}", of(text).twos_complement(bits));
        assert_eq!(hex("-1", 68), "fffffffffffffffff");
        assert_eq!(hex("-18446744073709551616", 72), "ff0000000000000000");
        assert_eq!(hex("18446744073709551617", 200), "10000000000000001");
        assert_eq!(hex("18446744073709551617", 64), "1");
        assert_eq!(hex("0", 64), "0");
    }

    #[test]
    fn what_decimal_would_take_long_for_is_hexadecimal() {
        let large =
            |bits: u64| WideInt::from_bits(WideInt::from(-1_i128).to_bits(bits), bits, false);
        let most = large(WideInt::MOST_DECIMAL_BITS).to_string();
        assert!(
            most.len() == 19_729
                && most.starts_with(
                    "200352993040684646497907235156025575044782547556975141926501697371"
                )
        );
        assert_eq!(
            large(WideInt::MOST_DECIMAL_BITS + 1).to_string(),
            format!("0x1{}", "f".repeat(1 << 14))
        );
        assert_eq!(large(256).brief().len(), 78);
        assert_eq!(large(257).brief(), "a number of 257 bits");
    }
}
