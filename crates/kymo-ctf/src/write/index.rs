//! LTTng's index files (`index/STREAM.idx`), which list the packets of a stream.

use super::packets::Placed;

/// The file header: magic number, version 1.1, bytes of an entry.
pub(super) fn header() -> Vec<u8> {
    [crate::stream::index::MAGIC, 1, 1, 72]
        .into_iter()
        .flat_map(u32::to_be_bytes)
        .collect()
}

/// The entry of a packet.
pub(super) fn entry(packet: &Placed) -> Vec<u8> {
    let bits = packet.bytes * 8;
    let numbers = [
        packet.offset,
        bits,
        bits,
        packet.begin,
        packet.end,
        packet.discarded,
        packet.class,
        packet.instance,
        packet.sequence,
    ];
    numbers.into_iter().flat_map(u64::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_believed() {
        let placed = |offset, bytes| Placed {
            offset,
            bytes,
            begin: 1,
            end: 2,
            discarded: 0,
            class: 0,
            instance: 0,
            sequence: 0,
        };
        let file: Vec<u8> = [header(), entry(&placed(0, 100)), entry(&placed(100, 60))].concat();
        assert_eq!(
            crate::stream::index::packets(&file, 160).as_deref(),
            Some(&[0, 100][..])
        );
        assert_eq!(crate::stream::index::packets(&file, 161), None);
    }
}
