//! Reads header and context of a packet that another program wrote.

use kymo::ctf::packet::MAGIC;

use crate::packet_file::{CONTENT, HEADER_BYTES, SIZE, long};

/// Longer packets are treated as damaged. The longest ring packet is 128 KiB. A file's last packet
/// may be rewritten, so `kymo_ctf` maps none of so many bytes at its end.
const MAX_PACKET: u64 = 256 << 10;

// Offsets in the header, in bytes. Others are in `packet_file`.
const UUID: usize = 4;
const KIND: usize = 20;
const DISCARDED: usize = 72;
const CPU: usize = 80;

/// Values of a packet's header and context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketHeader {
    pub(crate) uuid: [u8; 16],
    pub(crate) kind: u32,
    pub(crate) cpu: u32,
    /// Size of the packet in bytes, with padding.
    pub(crate) len: usize,
    /// Events lost since the session began.
    pub(crate) discarded: u64,
}

impl PacketHeader {
    /// Reads the header at the start of `bytes`; `None` if no Kymo packet begins there.
    pub(crate) fn read(bytes: &[u8]) -> Option<PacketHeader> {
        let (content, size) = (long(bytes, CONTENT)?, long(bytes, SIZE)?);
        let len = size / 8;
        let good = word(bytes, 0)? == MAGIC
            && size.is_multiple_of(32)
            && content <= size
            && content >= 8 * HEADER_BYTES as u64
            && len <= MAX_PACKET;
        let header = PacketHeader {
            uuid: *bytes.get(UUID..)?.first_chunk()?,
            kind: word(bytes, KIND)?,
            cpu: word(bytes, CPU)?,
            len: usize::try_from(len).ok()?,
            discarded: long(bytes, DISCARDED)?,
        };
        good.then_some(header)
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_file::{set, tests::packet};

    #[test]
    fn what_is_no_packet_is_refused() {
        let good = packet(3, 100);
        assert_eq!(
            PacketHeader::read(&good).map(|header| (header.len, header.discarded)),
            Some((100, 0))
        );
        for (at, value) in [
            (0, 0),
            (SIZE, 8 * 99),
            (SIZE, 1 << 40),
            (CONTENT, 8 * 101),
            (CONTENT, 8 * 83),
        ] {
            let mut bad = packet(3, 100);
            set(&mut bad, at, value);
            assert_eq!(PacketHeader::read(&bad), None, "{at}: {value}");
        }
        assert_eq!(PacketHeader::read(&good[..HEADER_BYTES - 1]), None);
    }
}
