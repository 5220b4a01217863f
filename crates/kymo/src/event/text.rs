//! Bounded text.

use core::fmt;

use super::{Encoder, Field, FieldType};

/// A text of at most `N` bytes, cut at a character's end; where some were cut off, the trace says
/// so.
///
/// It can be written to, so that a name is put together without an allocation. What no longer fits
/// is cut off, which is not an error:
///
/// ```
/// use core::fmt::Write;
/// let mut name = kymo::Text::<8>::EMPTY;
/// write!(name, "hart {}", 3)?;
/// assert_eq!((name.as_bytes(), name.is_cut()), (&b"hart 3"[..], false));
/// write!(name, ", timer")?;
/// assert_eq!((name.as_bytes(), name.is_cut()), (&b"hart 3, "[..], true));
/// # Ok::<(), core::fmt::Error>(())
/// ```
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
    /// A text without a character, to write to.
    pub const EMPTY: Self = Text {
        bytes: [0; N],
        len: 0,
        cut: false,
    };

    /// As much of `text` as fits.
    pub fn new(text: &str) -> Self {
        let mut new = Text::EMPTY;
        new.append(text);
        new
    }

    /// Appends as much of `text` as fits; nothing after a cut.
    fn append(&mut self, text: &str) {
        let room = self.bytes.get_mut(self.len..).unwrap_or(&mut []);
        let mut len = if self.cut {
            0
        } else {
            text.len().min(room.len())
        };
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        for (to, from) in room.iter_mut().zip(text.bytes().take(len)) {
            *to = from;
        }
        self.len += len;
        self.cut |= len < text.len();
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

impl<const N: usize> fmt::Write for Text<N> {
    /// Never fails: [`is_cut`](Text::is_cut) tells whether all of it fitted.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.append(text);
        Ok(())
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

    #[test]
    fn nothing_is_appended_after_a_cut() {
        let mut text = Text::<4>::new("ab");
        text.append("c\u{e9}");
        text.append("d");
        assert_eq!((text.as_bytes(), text.is_cut()), (&b"abc"[..], true));
        text.append("");
        assert_eq!(text, Text::new("abc\u{e9}"));
    }
}
