//! Recovery: finds the packet at which reading resumes after damage.
//!
//! After a malformed record, reading resumes at the end of the packet if another packet begins or
//! the stream ends there. Otherwise, and after a malformed packet header, the reader searches for
//! the next magic number that begins a packet: its header and context must be valid, belong to this
//! trace and stream, and lead to another packet or to the end, unlike a magic number among an
//! event's bytes. If there is an index of the packets, it is used first.

use memchr::memmem;

use super::packets::FIRST_READ;
use super::{Stream, wants_more};
use crate::class::{ByteOrder, Role};
use crate::decode::state::Slots;
use crate::error::DecodeError;
use crate::stream::item::Consequence;
use crate::stream::packet::{HeaderError, MAGIC};
use crate::stream::source::Source;

/// Bytes to search at a time.
const STRETCH: u64 = 1 << 16;

/// A packet that claims to be longer than this, in bytes, is not read only to check what follows
/// it.
const LARGEST_LOOK: u64 = 1 << 26;

impl<S: Source> Stream<S> {
    /// Handles a malformed packet header or context.
    pub(super) fn lose_header(&mut self, error: HeaderError) {
        let resume = match error.reason {
            DecodeError::Io(_) => None,
            _ if self.strict => None,
            _ => self
                .known()
                .or_else(|| self.search(self.packet.offset.saturating_add(1), false)),
        };
        self.resume(error, resume);
    }

    /// Handles a malformed record.
    pub(super) fn lose_records(&mut self, error: HeaderError) {
        let HeaderError {
            mut reason,
            position,
        } = error;
        if self.packet.truncated && wants_more(&reason) {
            reason = DecodeError::Truncated {
                available: self.packet.available,
            };
        }
        let sized = self
            .packet
            .head
            .as_ref()
            .is_some_and(|head| head.packet_size.is_some() || head.never_closed);
        let header = self
            .packet
            .head
            .as_ref()
            .map_or(0, |head| head.bits.div_ceil(8));
        let next = self.packet.offset.saturating_add(self.packet.available);
        let resume = if self.strict || !sized {
            None
        } else if !self.packet.truncated && self.begins_or_ends(next) {
            Some(next)
        } else {
            self.known()
                .or_else(|| self.search(self.packet.offset.saturating_add(header.max(1)), false))
        };
        self.resume(HeaderError { reason, position }, resume);
    }

    fn resume(&mut self, error: HeaderError, resume: Option<u64>) {
        let consequence = match resume {
            Some(resumes) => Consequence::PacketLost { resumes },
            None => Consequence::StreamEnds,
        };
        self.problem(error.reason, error.position, consequence);
        if let Some(next) = resume {
            self.leave_packet(next);
        }
    }

    /// Whether a packet of this stream begins at `offset`, or the stream ends there.
    fn begins_or_ends(&mut self, offset: u64) -> bool {
        let mut slots = Slots::new(self.metadata().slots);
        match self.read_head(offset, &mut slots) {
            Ok(None) => true,
            Ok(Some(head)) => self.belongs_here(&head),
            Err(_) => false,
        }
    }

    /// The next packet according to the index, if there is one.
    fn known(&mut self) -> Option<u64> {
        let index = std::sync::Arc::clone(&self.index);
        let behind = index.partition_point(|offset| *offset <= self.packet.offset);
        index
            .get(behind..)?
            .iter()
            .copied()
            .find(|offset| self.begins_or_ends(*offset))
    }

    /// Searches for the first packet of this stream at or after `from`, by its magic number. Unless
    /// `back` is set, the bytes before it will not be read again.
    pub(super) fn search(&mut self, mut from: u64, back: bool) -> Option<u64> {
        let magic = self.magic()?;
        loop {
            if !back {
                self.source.release(from);
            }
            self.source.seek(from, STRETCH).ok()?;
            let bytes = self.source.bytes();
            let length = bytes.len() as u64;
            match memmem::find(bytes, &magic) {
                Some(found) => {
                    let at = from + found as u64;
                    if self.is_whole(at) {
                        return Some(at);
                    }
                    from = at + 1;
                }
                None if length < STRETCH => return None,
                None => from += STRETCH - magic.len() as u64 + 1,
            }
        }
    }

    /// The first bytes of every packet, if they are the magic number.
    pub(super) fn magic(&self) -> Option<[u8; 4]> {
        let header = self.metadata().trace.packet_header.as_deref()?;
        let first = header.members.first()?.class.storage()?;
        let magic = u32::try_from(MAGIC).ok()?;
        (first.roles.has(Role::PacketMagic) && first.size == 32).then_some(match first.byte_order {
            ByteOrder::Little => magic.to_le_bytes(),
            ByteOrder::Big => magic.to_be_bytes(),
        })
    }

    /// Whether a packet of this stream begins at `at` and is followed by another one, or by the end
    /// of the stream.
    fn is_whole(&mut self, at: u64) -> bool {
        let mut slots = Slots::new(self.metadata().slots);
        let Ok(Some(head)) = self.read_head(at, &mut slots) else {
            return false;
        };
        if !self.belongs_here(&head) {
            return false;
        }
        let Some(size) = head.packet_size.map(|bits| bits / 8) else {
            return true;
        };
        if size > LARGEST_LOOK {
            return true;
        }
        if self
            .source
            .seek(at, size.saturating_add(FIRST_READ))
            .is_err()
        {
            return false;
        }
        let window = self.source.bytes();
        let behind = usize::try_from(size)
            .ok()
            .and_then(|size| window.get(size..));
        match behind {
            // It extends to the end of the stream, or beyond.
            None | Some([]) => true,
            Some(behind) => match crate::stream::packet::read(behind, &self.plans, &mut slots) {
                Ok(next) => self.belongs_here(&next),
                Err(error) => wants_more(&error.reason),
            },
        }
    }
}
