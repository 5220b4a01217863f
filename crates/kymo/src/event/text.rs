//! Bounded text.

use super::{Encoder, Field, FieldType};

/// A text of at most `N` bytes, cut at a character's end; where some were cut off, the trace says
/// so.
///
/// An empty text is best avoided: babeltrace2 2.0.4 shows it as whatever the field held in the
/// record before. Names belong on the names channel, once each: an event that happens often carries
/// an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
    cut: bool,
}

impl<const N: usize> Text<N> {
    /// As much of `text` as fits.
    pub fn new(text: &str) -> Self {
        let mut len = text.len().min(N);
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let mut bytes = [0; N];
        for (to, from) in bytes.iter_mut().zip(text.bytes().take(len)) {
            *to = from;
        }
        Text {
            bytes,
            len,
            cut: len < text.len(),
        }
    }

    /// Whether something was cut off.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The bytes that are recorded: whole UTF-8 characters.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl<const N: usize> From<&str> for Text<N> {
    fn from(text: &str) -> Self {
        Text::new(text)
    }
}

impl<const N: usize> Field for Text<N> {
    const TYPE: FieldType = FieldType::Text { max: N };
    #[inline]
    fn encode(self, out: &mut Encoder<'_>) {
        out.put_text(self.as_bytes(), self.cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_characters_end() {
        assert_eq!(Text::<4>::new("abcd").as_bytes(), b"abcd");
        assert!(!Text::<4>::new("abcd").is_cut());
        let cut = Text::<4>::new("abc\u{e9}");
        assert_eq!((cut.as_bytes(), cut.is_cut()), (&b"abc"[..], true));
        assert_eq!(Text::<0>::new("x").as_bytes(), b"");
    }
}
