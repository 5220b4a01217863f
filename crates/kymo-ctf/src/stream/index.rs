//! LTTng's index files, which list the packet offsets of a stream.
//!
//! An index is used only if it describes the whole file without gaps. It helps if a packet header
//! is damaged.

use std::sync::Arc;

pub(crate) const MAGIC: u32 = 0xc1f1_dcc1;

/// Bytes of the file header, and the minimum of an entry.
const HEADER: usize = 16;
const LEAST_ENTRY: usize = 56;

/// The packet offsets in the index file `bytes` of a stream of `length` bytes; `None` if it is not
/// a valid index of this stream.
pub(crate) fn packets(bytes: &[u8], length: u64) -> Option<Arc<[u64]>> {
    let (header, entries) = bytes.split_first_chunk::<HEADER>()?;
    let word = |at: usize| Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?));
    // Minor versions only append fields.
    let size = word(12)? as usize;
    if word(0)? != MAGIC
        || word(4)? != 1
        || size < LEAST_ENTRY
        || !entries.len().is_multiple_of(size)
    {
        return None;
    }
    let mut end = 0;
    let mut offsets = Vec::new();
    for entry in entries.chunks_exact(size) {
        let number = |at: usize| Some(u64::from_be_bytes(*entry.get(at..)?.first_chunk()?));
        let (offset, bits) = (number(0)?, number(8)?);
        if offset != end || !bits.is_multiple_of(8) || bits == 0 {
            return None;
        }
        end = offset.checked_add(bits / 8)?;
        offsets.push(offset);
    }
    (end == length).then(|| offsets.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(minor: u32, size: u32, packets: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [MAGIC, 1, minor, size]
            .into_iter()
            .flat_map(u32::to_be_bytes)
            .collect();
        for (offset, length) in packets {
            let begin = bytes.len();
            bytes.extend(offset.to_be_bytes());
            bytes.extend((length * 8).to_be_bytes());
            bytes.resize(begin + size as usize, 0);
        }
        bytes
    }

    #[test]
    fn an_index_must_describe_the_whole_stream() {
        let good = [(0, 100), (100, 50), (150, 8)];
        for (minor, size) in [(0, 56), (1, 72)] {
            assert_eq!(
                packets(&index(minor, size, &good), 158).as_deref(),
                Some(&[0, 100, 150][..])
            );
        }
        // Stale: the stream was extended, shortened or changed.
        assert_eq!(packets(&index(1, 72, &good), 200), None);
        assert_eq!(packets(&index(1, 72, &good), 150), None);
        assert_eq!(packets(&index(1, 72, &[(0, 100), (101, 57)]), 158), None);
        assert_eq!(packets(&index(1, 72, &[(0, 0)]), 0), None);
        // Not an index.
        let mut bad = index(1, 72, &good);
        bad.pop();
        assert_eq!(packets(&bad, 158), None);
        assert_eq!(packets(&index(1, 48, &good), 158), None);
        assert_eq!(packets(&[0; 100], 0), None);
        assert_eq!(packets(&[], 0), None);
    }
}
