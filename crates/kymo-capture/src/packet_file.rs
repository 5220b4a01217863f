//! A file of CTF packets that stays valid even if this program is killed during a write.
//!
//! A single write within one page of the file is atomic. A packet that fits into the rest of the
//! last page is appended there; otherwise that page is filled first, by rewriting its last packet
//! with padding. A packet of several pages gets its own pages: these first become empty packets,
//! then one empty packet of the full length, then its padding is overwritten with the content, and
//! finally its first page with the real header.
//!
//! A packet that fills its page may be rewritten in place as records are added.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use kymo::ctf::packet::HEADER_WORDS;

/// Size of an atomic write, in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;
/// Bytes of a packet's header and context, as written by [`kymo::ctf::packet`].
pub(crate) const HEADER_BYTES: usize = 4 * HEADER_WORDS;

// Places in the header, in bytes.
const BEGIN: usize = 32;
const END: usize = 40;
pub(crate) const CONTENT: usize = 48;
pub(crate) const SIZE: usize = 56;
const SEQUENCE: usize = 64;

pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn set(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(place) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = value.to_le_bytes();
    }
}

/// Storage that can be written and truncated: a file.
pub(crate) trait Medium {
    /// Writes bytes within one page of the file.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Truncates the file to this length.
    fn cut(&mut self, len: u64) -> io::Result<()>;
}

impl Medium for File {
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.seek(SeekFrom::Start(at))?;
        self.write_all(bytes)
    }
    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}

/// A stream file, which consists of whole packets at every moment.
#[derive(Debug)]
pub(crate) struct PacketFile<M = File> {
    file: M,
    /// Length of the file, all of it whole packets.
    len: u64,
    /// The last packet, while its page has room.
    last: Vec<u8>,
}

impl PacketFile {
    /// Creates an empty file.
    pub(crate) fn create(path: &Path) -> io::Result<PacketFile> {
        Ok(PacketFile::new(
            OpenOptions::new().write(true).create_new(true).open(path)?,
        ))
    }
}

impl<M: Medium> PacketFile<M> {
    fn new(file: M) -> PacketFile<M> {
        PacketFile {
            file,
            len: 0,
            last: Vec::new(),
        }
    }

    /// Appends a whole packet, with header and context.
    pub(crate) fn append(&mut self, packet: &[u8]) -> io::Result<()> {
        let page = PAGE_BYTES as u64;
        let room = (page - self.len % page) as usize;
        if packet.len() > room {
            self.fill_page(room)?;
        }
        if packet.len() > PAGE_BYTES {
            return self.append_pages(packet);
        }
        self.write(self.len, packet)?;
        self.len += packet.len() as u64;
        self.last.clear();
        self.last.extend_from_slice(packet);
        Ok(())
    }

    /// Rewrites the last packet, which must fill its page before and after.
    pub(crate) fn replace_last(&mut self, packet: &[u8]) -> io::Result<()> {
        self.rewrite_last(packet)?;
        self.last.clear();
        self.last.extend_from_slice(packet);
        Ok(())
    }

    /// Writes over the last packet. If that fails, what was there is written back, as far as the
    /// system permits it.
    fn rewrite_last(&mut self, packet: &[u8]) -> io::Result<()> {
        let start = self.len - self.last.len() as u64;
        self.write(start, packet).inspect_err(|_| {
            let _ = self.file.write_at(start, &self.last);
        })
    }

    /// Pads the last packet to the end of its page, in which `room` bytes are left.
    fn fill_page(&mut self, room: usize) -> io::Result<()> {
        if room == PAGE_BYTES {
            return Ok(());
        }
        let mut padded = self.last.clone();
        padded.resize(padded.len() + room, 0);
        let bits = 8 * padded.len() as u64;
        set(&mut padded, SIZE, bits);
        self.rewrite_last(&padded)?;
        self.last.clear();
        self.len += room as u64;
        Ok(())
    }

    /// Appends a packet of several pages, at the beginning of a page.
    fn append_pages(&mut self, packet: &[u8]) -> io::Result<()> {
        let mut whole = packet.to_vec();
        whole.resize(packet.len().next_multiple_of(PAGE_BYTES), 0);
        let (start, bits) = (self.len, 8 * whole.len() as u64);
        set(&mut whole, SIZE, bits);
        let sequence = long(packet, SEQUENCE).unwrap_or(0);
        let begin = long(packet, BEGIN).unwrap_or(0);
        let empty = |number: u64, bits: u64| {
            let mut page = vec![0; PAGE_BYTES];
            for (to, from) in page.iter_mut().zip(packet.iter().take(HEADER_BYTES)) {
                *to = *from;
            }
            set(&mut page, CONTENT, 8 * HEADER_BYTES as u64);
            set(&mut page, SIZE, bits);
            set(&mut page, SEQUENCE, sequence.wrapping_add(number));
            set(&mut page, END, begin);
            page
        };
        let pages = || whole.chunks(PAGE_BYTES).zip(0u64..);
        let at = |number: u64| start + number * PAGE_BYTES as u64;
        for (_, number) in pages() {
            self.write(at(number), &empty(number, 8 * PAGE_BYTES as u64))?;
        }
        self.write(start, &empty(0, bits))?;
        for (page, number) in pages().skip(1).chain(pages().take(1)) {
            self.write(at(number), page)?;
        }
        self.len += whole.len() as u64;
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(at, bytes).inspect_err(|_| {
            // For example, the disk is full. Try to remove the partial packet.
            let _ = self.file.cut(self.len);
        })
    }
}

#[cfg(test)]
#[cfg(feature = "machines")]
pub(crate) mod tests {
    use super::*;
    use crate::packet_header::PacketHeader;
    use kymo::ctf::packet::MAGIC;

    /// A packet of CPU 0's events with `len` bytes, filled with its number.
    pub(crate) fn packet(number: u64, len: usize) -> Vec<u8> {
        let mut packet = vec![number as u8 | 1; len];
        packet[..HEADER_BYTES].fill(0);
        packet[..4].copy_from_slice(&MAGIC.to_le_bytes());
        set(&mut packet, BEGIN, 10 * number);
        set(&mut packet, END, 10 * number + 9);
        set(&mut packet, CONTENT, 8 * len as u64);
        set(&mut packet, SIZE, 8 * len as u64);
        set(&mut packet, SEQUENCE, number);
        packet
    }

    /// Splits a file into the numbers and contents of its packets; `None` if it does not consist of
    /// whole packets.
    pub(crate) fn packets(mut bytes: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let head = PacketHeader::read(bytes.get(..HEADER_BYTES)?)?;
            let (packet, rest) = bytes.split_at_checked(head.len)?;
            let content = long(packet, CONTENT)? as usize / 8;
            all.push((
                long(packet, SEQUENCE)?,
                packet[HEADER_BYTES..content].to_vec(),
            ));
            bytes = rest;
        }
        Some(all)
    }

    /// A file that checks its state after every write; it holds at most `room` bytes.
    struct Watched {
        bytes: Vec<u8>,
        room: usize,
        states: u32,
    }

    impl Watched {
        /// Checks that the file holds the packets written so far, optionally followed by the next
        /// one or by empty packets in its place.
        fn check(&mut self) {
            let seen = packets(&self.bytes).expect("the file is whole packets");
            for (place, (number, _)) in (0u64..).zip(&seen) {
                assert_eq!(*number, place, "no packet seems to be lost");
            }
            let lens = seen
                .iter()
                .zip(LENS)
                .map(|((number, content), len)| (*number, content.len(), len - HEADER_BYTES));
            let unlike = lens
                .filter(|(_, is, should)| is != should)
                .collect::<Vec<_>>();
            let first = unlike.first().map_or(u64::MAX, |first| first.0);
            assert!(
                seen.iter()
                    .all(|(number, content)| *number < first || content.is_empty()),
                "{unlike:?}"
            );
            let own = |(number, content): &(u64, Vec<u8>)| {
                content.iter().all(|&byte| byte == *number as u8 | 1)
            };
            assert!(seen.iter().all(own), "a packet with something else in it");
            self.states += 1;
        }
    }

    impl Medium for Watched {
        fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
            let (at, end) = (at as usize, at as usize + bytes.len());
            assert_eq!(
                at / PAGE_BYTES,
                (end - 1) / PAGE_BYTES,
                "all of it lies in one page"
            );
            self.bytes
                .resize(self.bytes.len().max(end.min(self.room)), 0xee);
            let fits = bytes.len() - end.saturating_sub(self.room.max(at));
            self.bytes[at.min(self.room)..][..fits].copy_from_slice(&bytes[..fits]);
            if fits < bytes.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.check();
            Ok(())
        }
        fn cut(&mut self, len: u64) -> io::Result<()> {
            self.bytes.truncate(len as usize);
            Ok(())
        }
    }

    const LENS: [usize; 17] = [
        84, 100, 4096, 84, 4092, 4096, 88, 3924, 84, 5000, 84, 12288, 84, 4012, 84, 8192, 20000,
    ];

    #[test]
    fn the_file_is_whole_packets_after_every_write() {
        let mut file = PacketFile::new(Watched {
            bytes: Vec::new(),
            room: usize::MAX,
            states: 0,
        });
        let mut expected = Vec::new();
        for (number, len) in (0..).zip(LENS) {
            let packet = packet(number, len);
            expected.push((number, packet[HEADER_BYTES..].to_vec()));
            file.append(&packet).unwrap();
            assert_eq!(packets(&file.file.bytes).unwrap(), expected, "{number}");
            assert_eq!(file.file.bytes.len() as u64, file.len);
        }
        assert!(file.file.states > 2 * LENS.len() as u32);
    }

    #[test]
    fn a_disk_that_fills_up_keeps_whole_packets() {
        for room in (0..60_000).step_by(92) {
            let mut file = PacketFile::new(Watched {
                bytes: Vec::new(),
                room,
                states: 0,
            });
            let written = (0..)
                .zip(LENS)
                .take_while(|&(number, len)| file.append(&packet(number, len)).is_ok())
                .count();
            let seen = packets(&file.file.bytes).unwrap();
            assert_eq!(
                seen.iter()
                    .filter(
                        |(number, content)| content.len() + HEADER_BYTES == LENS[*number as usize]
                    )
                    .count(),
                written
            );
            assert_eq!(seen.len(), written, "{room}");
        }
    }

    /// A file of which one write stops half-way, as on a disk that is full for a moment.
    struct Torn {
        bytes: Vec<u8>,
        /// How many writes come before it.
        whole: u32,
        /// Whether it was.
        done: bool,
    }

    impl Medium for Torn {
        fn write_at(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
            let at = at as usize;
            let tears = !self.done && self.whole == 0;
            self.whole = self.whole.saturating_sub(1);
            let bytes = if tears {
                &bytes[..bytes.len() / 2]
            } else {
                bytes
            };
            self.bytes.resize(self.bytes.len().max(at + bytes.len()), 0);
            self.bytes[at..][..bytes.len()].copy_from_slice(bytes);
            self.done |= tears;
            if tears {
                Err(io::ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        }
        fn cut(&mut self, len: u64) -> io::Result<()> {
            self.bytes.truncate(len as usize);
            Ok(())
        }
    }

    #[test]
    fn a_write_that_stops_half_way_takes_no_packet_away() {
        // A packet that fills its page, with so many bytes of records.
        let page = |records: usize| {
            let mut page = packet(1, PAGE_BYTES);
            let content = HEADER_BYTES + records;
            page[content..].fill(0);
            set(&mut page, CONTENT, 8 * content as u64);
            page
        };
        for whole in 0..4 {
            let mut file = PacketFile::new(Torn {
                bytes: Vec::new(),
                whole,
                done: false,
            });
            let written = file
                .append(&packet(0, PAGE_BYTES))
                .and_then(|()| file.append(&page(100)))
                .and_then(|()| file.replace_last(&page(3000)))
                .is_ok();
            assert_eq!(written, whole == 3);
            let lens: Vec<_> = packets(&file.file.bytes)
                .unwrap()
                .into_iter()
                .map(|(number, content)| {
                    assert!(content.iter().all(|&byte| byte == number as u8 | 1));
                    content.len()
                })
                .collect();
            let first = PAGE_BYTES - HEADER_BYTES;
            let expected = [&[][..], &[first], &[first, 100], &[first, 3000]];
            assert_eq!(lens, expected[whole as usize], "{whole} whole writes");
        }
    }
}
