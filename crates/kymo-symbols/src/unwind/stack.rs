//! A copy of a part of a thread's stack.

/// A copy of the top of a stack, from its lowest address. Words are little-endian, as on every
/// machine that is known here.
#[derive(Clone, Copy, Debug)]
pub struct StackCopy<'a> {
    /// Where the first byte was.
    pub address: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl StackCopy<'_> {
    /// The word at an address, which must be aligned.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        self.part(address, 8).filter(|_| address.is_multiple_of(8))
    }

    /// The unsigned number of up to 8 bytes at an address.
    pub(crate) fn part(&self, address: u64, size: u8) -> Option<u64> {
        let begin = usize::try_from(address.checked_sub(self.address)?).ok()?;
        let bytes = self.bytes.get(begin..begin.checked_add(size.into())?)?;
        let mut word = [0; 8];
        word.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(u64::from_le_bytes(word))
    }
}
