//! Metadata in packets (CTF 1.8.3, section 7.1): the text is split into packets with headers.

use crate::class::ByteOrder;
use crate::error::{MetadataError, Position};

const MAGIC: u32 = 0x75d1_1d57;

/// Bytes of a packet's header.
const HEADER: usize = 37;

/// The joined content of metadata packets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The text.
    pub(crate) text: Vec<u8>,
    /// The UUID of all packets.
    pub(crate) uuid: [u8; 16],
    /// The byte order of the packets' headers, which is the trace's.
    pub(crate) byte_order: ByteOrder,
}

/// Joins the text in the packets; `None` if `bytes` are not packets.
pub(crate) fn join(bytes: &[u8]) -> Result<Option<Joined>, MetadataError> {
    let Some(magic) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    type Word = fn([u8; 4]) -> u32;
    let magics = (u32::from_le_bytes(*magic), u32::from_be_bytes(*magic));
    let (byte_order, word) = match magics {
        (MAGIC, _) => (ByteOrder::Little, u32::from_le_bytes as Word),
        (_, MAGIC) => (ByteOrder::Big, u32::from_be_bytes as Word),
        _ => return Ok(None),
    };
    let mut text = Vec::with_capacity(bytes.len());
    let mut uuid = None;
    let (mut rest, mut number) = (bytes, 0);
    while !rest.is_empty() {
        let offset = bytes.len() - rest.len();
        let fail = |what: &str| {
            let message = format!("metadata packet {number}, byte {offset} of the file: {what}");
            Err(MetadataError::new(Position::START, message))
        };
        let Some(header) = rest.first_chunk::<HEADER>() else {
            return fail("the file ends inside the packet's header");
        };
        let field = |at: usize| {
            header
                .get(at..)
                .and_then(<[u8]>::first_chunk::<4>)
                .map_or(0, |four| word(*four))
        };
        let byte = |at: usize| header.get(at).copied().unwrap_or(0);
        if field(0) != MAGIC {
            return fail("the packet does not begin with the magic number of metadata");
        }
        let own = header
            .get(4..)
            .and_then(<[u8]>::first_chunk::<16>)
            .copied()
            .unwrap_or_default();
        if *uuid.get_or_insert(own) != own {
            return fail("the packet's UUID is not that of the packets before it");
        }
        match [byte(32), byte(33), byte(34)] {
            [0, 0, _] => {}
            [_, 0, _] => return fail("the packet is compressed, which is not supported"),
            _ => return fail("the packet is encrypted, which is not supported"),
        }
        if [byte(35), byte(36)] != [1, 8] {
            return fail(&format!(
                "the packet is of CTF {}.{}; 1.8 is the only version with metadata in packets",
                byte(35),
                byte(36)
            ));
        }
        let (content, size) = (field(24) as usize, field(28) as usize);
        if !content.is_multiple_of(8)
            || !size.is_multiple_of(8)
            || content < HEADER * 8
            || size < content
        {
            return fail(&format!(
                "the packet cannot have {content} bits of content in {size} bits"
            ));
        }
        match (rest.get(HEADER..content / 8), rest.get(size / 8..)) {
            (Some(piece), Some(behind)) => {
                text.extend_from_slice(piece);
                rest = behind;
            }
            _ => return fail("the file ends inside the packet"),
        }
        number += 1;
    }
    Ok(Some(Joined {
        text,
        uuid: uuid.unwrap_or_default(),
        byte_order,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str, padding: usize, word: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let content = HEADER + text.len();
        let mut bytes = word(MAGIC).to_vec();
        bytes.extend([7; 16]);
        for number in [0, content as u32 * 8, (content + padding) as u32 * 8] {
            bytes.extend(word(number));
        }
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(text.as_bytes());
        bytes.resize(content + padding, 0xee);
        bytes
    }

    #[test]
    fn pieces_are_joined_in_both_byte_orders() {
        let orders = [
            (ByteOrder::Little, u32::to_le_bytes as fn(u32) -> [u8; 4]),
            (ByteOrder::Big, u32::to_be_bytes),
        ];
        for (byte_order, word) in orders {
            let bytes = [
                packet("trace {", 0, word),
                packet("", 5, word),
                packet(" };", 3, word),
            ]
            .concat();
            assert_eq!(
                join(&bytes).unwrap().unwrap(),
                Joined {
                    text: b"trace { };".to_vec(),
                    uuid: [7; 16],
                    byte_order,
                }
            );
        }
        assert_eq!(join(b"trace {").unwrap(), None);
        assert_eq!(join(b"/*").unwrap(), None);
    }

    #[test]
    fn packets_that_cannot_be_are_refused() {
        let good = packet("x", 2, u32::to_le_bytes);
        let cases: [(usize, u8, &str); 7] = [
            (
                0,
                0,
                "packet 1, byte 40 of the file: the packet does not begin",
            ),
            (5, 8, "the packet's UUID is not"),
            (24, 1, "cannot have"),
            (25, 9, "cannot have"),
            (32, 1, "compressed"),
            (33, 1, "encrypted"),
            (36, 7, "of CTF 1.7"),
        ];
        for (at, byte, words) in cases {
            let mut bad = good.clone();
            bad[at] = byte;
            let message = join(&[good.clone(), bad].concat()).unwrap_err().message;
            assert!(message.contains(words), "{message}");
        }
        for cut in 5..good.len() {
            assert!(
                join(&good[..cut])
                    .unwrap_err()
                    .message
                    .contains("the file ends inside"),
                "{cut}"
            );
        }
    }
}
