//! Protocol Buffers' wire format, as far as it is written here:
//! <https://protobuf.dev/programming-guides/encoding/>.

/// A message under construction. Fields are written in the order of the calls.
#[derive(Debug, Default)]
pub(crate) struct Message(Vec<u8>);

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

impl Message {
    /// What was written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// A field of an unsigned type, an enumeration or `bool`.
    pub(crate) fn unsigned(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// A field of type `int32` or `int64`.
    pub(crate) fn signed(&mut self, field: u32, value: i64) {
        self.unsigned(field, value.cast_unsigned());
    }

    /// A field of type `fixed64`.
    pub(crate) fn fixed(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A field of type `double`.
    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.fixed(field, value.to_bits());
    }

    /// A field of type `string`.
    pub(crate) fn text(&mut self, field: u32, value: &str) {
        self.raw(field, value.as_bytes());
    }

    /// A field that is a message.
    pub(crate) fn message(&mut self, field: u32, value: &Message) {
        self.raw(field, &value.0);
    }

    fn raw(&mut self, field: u32, value: &[u8]) {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

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
    use super::Message;

    /// The examples of the encoding's description, and the extremes.
    #[test]
    fn fields_are_encoded_as_the_format_says() {
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
}
