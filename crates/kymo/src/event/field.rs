//! What a field of an event may be, and how it becomes words of a record.

/// The wire type of one field: what the metadata declares and the encoder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldType {
    /// An unsigned integer of 8, 16, 32 or 64 bits, shown in `base` (10 or 16).
    Unsigned {
        /// Width in bits.
        bits: u8,
        /// Preferred base for people: 10 or 16.
        base: u8,
    },
    /// A two's complement integer of 8, 16, 32 or 64 bits.
    Signed {
        /// Width in bits.
        bits: u8,
    },
    /// An unsigned integer whose values have labels.
    Enumeration {
        /// Width in bits.
        bits: u8,
        /// Every label with its value.
        labels: &'static [(&'static str, u64)],
    },
    /// `len` elements of one fixed-size type, one after the other.
    Array {
        /// The type of every element.
        element: &'static FieldType,
        /// How many elements there are.
        len: usize,
    },
    /// UTF-8 text of at most `max` bytes: a word with the length (31 bits) and a "was cut" bit,
    /// then the bytes.
    Text {
        /// Most bytes that are recorded.
        max: usize,
    },
    /// At most `max` elements of one integer type: a word with their number (31 bits) and a "was
    /// cut" bit, then the elements.
    Sequence {
        /// The type of every element.
        element: &'static FieldType,
        /// Most elements that are recorded.
        max: usize,
    },
}

impl FieldType {
    /// Alignment in bytes: the natural one, but at most a word (4).
    pub const fn align(&self) -> usize {
        match self {
            FieldType::Unsigned { bits, .. }
            | FieldType::Signed { bits }
            | FieldType::Enumeration { bits, .. } => {
                let bytes = (*bits / 8) as usize;
                if bytes > 4 { 4 } else { bytes }
            }
            FieldType::Array { element, .. } => element.align(),
            FieldType::Text { .. } | FieldType::Sequence { .. } => 4,
        }
    }

    /// Size in bytes where it is the same in every record, `None` where the record itself says it.
    pub const fn fixed_size(&self) -> Option<usize> {
        match self {
            FieldType::Unsigned { bits, .. }
            | FieldType::Signed { bits }
            | FieldType::Enumeration { bits, .. } => Some((*bits / 8) as usize),
            FieldType::Array { element, len } => match element.fixed_size() {
                Some(size) => Some(size * *len),
                None => None,
            },
            FieldType::Text { .. } | FieldType::Sequence { .. } => None,
        }
    }

    /// For a text or a sequence, the size of one element, as a power of two.
    pub(crate) const fn element_shift(&self) -> u32 {
        match self {
            FieldType::Sequence { element, .. } => match element.fixed_size() {
                Some(size) => size.trailing_zeros(),
                None => 0,
            },
            _ => 0,
        }
    }

    /// Most words that a field of this type takes when it starts on a word.
    pub const fn max_words(&self) -> usize {
        match self {
            FieldType::Text { max } => 1 + max.div_ceil(4),
            FieldType::Sequence { element, max } => match element.fixed_size() {
                Some(size) => 1 + (size * *max).div_ceil(4),
                None => 0,
            },
            _ => match self.fixed_size() {
                Some(size) => size.div_ceil(4),
                None => 0,
            },
        }
    }
}

/// The words of one record's payload while they are put together.
///
/// Everything here is inlined into the tracepoint; positions are constants there, so that what
/// remains is the words in registers.
#[derive(Debug)]
pub struct Encoder<'a> {
    words: &'a mut [u32],
    at: usize,
}

impl<'a> Encoder<'a> {
    /// Starts at the first of `words`, which must be zero.
    #[inline(always)]
    pub fn new(words: &'a mut [u32]) -> Self {
        Encoder { words, at: 0 }
    }

    /// Words used so far, a started one counted whole.
    #[inline(always)]
    pub fn words_used(&self) -> usize {
        self.at.div_ceil(4)
    }

    #[inline(always)]
    fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to);
    }

    /// Merges `value`, at most 4 bytes wide, into the word at the present position, which is
    /// aligned to `size`.
    #[inline(always)]
    fn merge(&mut self, value: u32, size: usize) {
        self.align(size);
        if let Some(word) = self.words.get_mut(self.at / 4) {
            let lane = self.at % 4;
            let shift = if cfg!(target_endian = "big") {
                4 - size - lane
            } else {
                lane
            };
            *word |= value << (8 * shift);
        }
        self.at += size;
    }

    /// Appends a byte.
    #[inline(always)]
    pub fn put_u8(&mut self, value: u8) {
        self.merge(u32::from(value), 1);
    }

    /// Appends 16 bits on the next even byte.
    #[inline(always)]
    pub fn put_u16(&mut self, value: u16) {
        self.merge(u32::from(value), 2);
    }

    /// Appends 32 bits on the next word.
    #[inline(always)]
    pub fn put_u32(&mut self, value: u32) {
        self.merge(value, 4);
    }

    /// Appends 64 bits on the next word, in the target's byte order.
    #[inline(always)]
    pub fn put_u64(&mut self, value: u64) {
        let (low, high) = (value as u32, (value >> 32) as u32);
        let (first, second) = if cfg!(target_endian = "big") {
            (high, low)
        } else {
            (low, high)
        };
        self.merge(first, 4);
        self.merge(second, 4);
    }

    /// Appends a text: the word with its length and the "was cut" bit, the bytes, zeros up to the
    /// next word.
    #[inline]
    pub fn put_text(&mut self, bytes: &[u8], cut: bool) {
        self.put_length(bytes.len(), cut);
        for &byte in bytes {
            self.put_u8(byte);
        }
        self.align(4);
    }

    /// Appends a sequence: the word with its length and the "was cut" bit, the elements, zeros up
    /// to the next word.
    #[inline]
    pub fn put_sequence<T: Field>(&mut self, elements: &[T], cut: bool) {
        self.put_length(elements.len(), cut);
        for &element in elements {
            element.encode(self);
        }
        self.align(4);
    }

    #[inline]
    fn put_length(&mut self, len: usize, cut: bool) {
        let len = len as u32 & LENGTH_MASK;
        // CTF bit fields start at the low end in little-endian streams and at the high end in
        // big-endian ones.
        let head = if cfg!(target_endian = "big") {
            (len << 1) | u32::from(cut)
        } else {
            len | (u32::from(cut) << 31)
        };
        self.put_u32(head);
    }
}

/// The length bits of a text's or a sequence's first word, as a number (little-endian streams).
pub const LENGTH_MASK: u32 = 0x7fff_ffff;

/// A type that an event may have as a field.
///
/// Implemented for the integers, `bool`, arrays, [`Text`](crate::Text),
/// [`Sequence`](crate::Sequence), the id types of this crate, and by
/// [`enumeration!`](crate::enumeration!) for enums with labels.
pub trait Field: Copy {
    /// The wire type of the field.
    const TYPE: FieldType;
    /// Appends the value; takes what `TYPE` says, no more.
    fn encode(self, out: &mut Encoder<'_>);
}

macro_rules! integers {
    ($($ty:ty as $via:ty, $put:ident, $class:expr;)*) => {$(
        impl Field for $ty {
            const TYPE: FieldType = $class;
            #[inline(always)]
            fn encode(self, out: &mut Encoder<'_>) {
                out.$put(self as $via);
            }
        }
    )*};
}

integers! {
    u8 as u8, put_u8, FieldType::Unsigned { bits: 8, base: 10 };
    u16 as u16, put_u16, FieldType::Unsigned { bits: 16, base: 10 };
    u32 as u32, put_u32, FieldType::Unsigned { bits: 32, base: 10 };
    u64 as u64, put_u64, FieldType::Unsigned { bits: 64, base: 10 };
    i8 as u8, put_u8, FieldType::Signed { bits: 8 };
    i16 as u16, put_u16, FieldType::Signed { bits: 16 };
    i32 as u32, put_u32, FieldType::Signed { bits: 32 };
    i64 as u64, put_u64, FieldType::Signed { bits: 64 };
}

impl Field for bool {
    /// CTF 1.8 has no boolean: a byte with two labels.
    const TYPE: FieldType = FieldType::Enumeration {
        bits: 8,
        labels: &[("false", 0), ("true", 1)],
    };
    #[inline(always)]
    fn encode(self, out: &mut Encoder<'_>) {
        out.put_u8(u8::from(self));
    }
}

impl<T: Field, const N: usize> Field for [T; N] {
    const TYPE: FieldType = {
        assert!(
            T::TYPE.fixed_size().is_some(),
            "an array's elements have one fixed size; a text has not"
        );
        FieldType::Array {
            element: &T::TYPE,
            len: N,
        }
    };
    #[inline(always)]
    fn encode(self, out: &mut Encoder<'_>) {
        for element in self {
            element.encode(out);
        }
    }
}

/// Declares an enum whose values travel as an unsigned integer with labels.
///
/// ```
/// kymo::enumeration! {
///     /// Why a thread does not run.
///     pub enum ThreadState: u8 { Ready = 0, Blocked = 1, Ended = 2 }
/// }
/// assert_eq!(ThreadState::Blocked as u8, 1);
/// ```
#[macro_export]
macro_rules! enumeration {
    ($(#[$meta:meta])* $vis:vis enum $name:ident : $repr:ident {
        $( $(#[$vmeta:meta])* $label:ident = $value:literal ),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($repr)]
        $vis enum $name {
            $( $(#[$vmeta])* #[allow(missing_docs)] $label = $value ),+
        }
        impl $crate::event::Enumeration for $name {
            #[inline]
            fn from_value(value: u64) -> Option<Self> {
                match value {
                    $( $value => Some($name::$label), )+
                    _ => None,
                }
            }
            fn label(&self) -> &'static str {
                match self { $( $name::$label => stringify!($label), )+ }
            }
        }
        impl<V: $crate::event::FieldValues> $crate::event::ReadField<V> for $name {
            type Value = Self;
            #[inline]
            fn read(values: &V, place: usize) -> Option<Self> {
                <$name as $crate::event::Enumeration>::from_value(values.unsigned(place)?)
            }
        }
        impl $crate::event::Field for $name {
            const TYPE: $crate::event::FieldType = $crate::event::FieldType::Enumeration {
                bits: 8 * ::core::mem::size_of::<$repr>() as u8,
                labels: &[ $( (stringify!($label), $value) ),+ ],
            };
            #[inline(always)]
            fn encode(self, out: &mut $crate::event::Encoder<'_>) {
                $crate::event::Field::encode(self as $repr, out);
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_share_words_at_their_natural_alignment() {
        let mut words = [0u32; 8];
        let mut out = Encoder::new(&mut words);
        0x11u8.encode(&mut out);
        0x3322u16.encode(&mut out);
        (-2i8).encode(&mut out);
        0x8877_6655_4433_2211u64.encode(&mut out);
        [true, false, true].encode(&mut out);
        assert_eq!(out.words_used(), 5);
        assert_eq!(
            words[..5],
            [0x3322_0011, 0xfe, 0x4433_2211, 0x8877_6655, 0x0001_0001]
        );
    }

    #[test]
    fn a_text_is_padded_with_zeros_to_the_word() {
        let mut words = [0u32; 4];
        let mut out = Encoder::new(&mut words);
        out.put_text(b"idle1", true);
        assert_eq!(out.words_used(), 3);
        assert_eq!(
            words,
            [
                0x8000_0005,
                u32::from_le_bytes(*b"idle"),
                u32::from(b'1'),
                0
            ]
        );
    }
}
