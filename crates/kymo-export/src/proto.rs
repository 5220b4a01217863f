//! A writer of Protocol Buffers' wire format:
//! <https://protobuf.dev/programming-guides/encoding/>.

/// A message under construction, or several in a row. Fields are written in the order of the calls,
/// nested messages in place.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

impl Message {
    /// The bytes written so far.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// A field of an unsigned type, an enumeration or `bool`.
    #[inline]
    pub(crate) fn unsigned(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// A field of type `int32` or `int64`.
    #[inline]
    pub(crate) fn signed(&mut self, field: u32, value: i64) {
        self.unsigned(field, value.cast_unsigned());
    }

    /// A field of type `fixed64`.
    #[inline]
    pub(crate) fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A field of type `double`.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// A field of type `string`.
    #[inline]
    pub(crate) fn text(&mut self, field: u32, value: &str) {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value.as_bytes());
    }

    /// A field with a nested message, which `fill` writes.
    #[inline]
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Message)) {
        self.key(field, BYTES);
        // Most messages are short: their length is one byte.
        let place = self.0.len();
        self.0.push(0);
        fill(self);
        let length = self.0.len() - place - 1;
        match self.0.get_mut(place) {
            Some(byte) if length < 0x80 => *byte = length as u8,
            _ => self.make_room_for(length, place),
        }
    }

    /// Replaces the length of an already written message by one of several bytes.
    #[cold]
    fn make_room_for(&mut self, length: usize, place: usize) {
        let mut bytes = Message::default();
        bytes.varint(length as u64);
        self.0.splice(place..=place, bytes.0);
    }

    /// Appends fields that were written elsewhere.
    pub(crate) fn append(&mut self, fields: &Message) {
        self.0.extend_from_slice(&fields.0);
    }

    #[inline]
    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES, Message};

    /// Has the examples of the encoding's description, and the extremes.
    #[test]
    fn fields_have_the_specified_encoding() {
        let mut message = Message::default();
        message.unsigned(1, 150);
        assert_eq!(message.bytes(), [0x08, 0x96, 0x01]);
        message.clear();
        message.text(2, "testing");
        assert_eq!(message.bytes(), b"\x12\x07testing");
        message.clear();
        message.signed(16, -2);
        assert_eq!(
            message.bytes(),
            b"\x80\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
        );
        message.clear();
        message.double(3, 1.0);
        assert_eq!(message.bytes(), b"\x19\0\0\0\0\0\0\xf0\x3f");
    }

    #[test]
    fn nested_messages_start_with_their_length() {
        let mut message = Message::default();
        message.message(3, |inner| inner.unsigned(1, 150));
        assert_eq!(message.bytes(), [0x1a, 3, 0x08, 0x96, 0x01]);
        for length in [0, 126, 127, 128, 20_000] {
            let text = "x".repeat(length);
            let mut inner = Message::default();
            inner.text(1, &text);
            let mut wanted = Message::default();
            wanted.unsigned(9, 7);
            wanted.key(2, BYTES);
            wanted.varint(inner.bytes().len() as u64);
            wanted.append(&inner);
            let mut message = Message::default();
            message.unsigned(9, 7);
            message.message(2, |inner| inner.text(1, &text));
            assert_eq!(message.bytes(), wanted.bytes(), "{length}");
        }
    }
}
