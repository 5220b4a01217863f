//! Writes a trace that arrives in frames, channel by channel, to a directory that is a valid trace
//! at every moment.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use kymo::{ChannelId, ChannelKind, ChannelSet, Diagnostics, flags};

use crate::frames::{Faults, FrameReader, Message};
use crate::packet_file::{HEADER_BYTES, PacketFile};
use crate::packet_header::PacketHeader;
use crate::region::publish_metadata;

/// Limit on the channel numbers of a guest: those of 4,096 CPUs.
const MAX_CHANNELS: u32 = ChannelSet {
    cpus: 4096,
    samples: true,
}
.len();

/// The beginning of metadata (CTF 1.8.3, section 7.3.2).
const BEGINNING: &[u8] = b"/* CTF 1.8";

/// Result of receiving a trace over a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The [`flags`] in effect, as reported by the guest; `None` if it never opened a session.
    pub flags: Option<u32>,
    /// Packets in the trace.
    pub packets: u64,
    /// Bytes received of all channels.
    pub bytes: u64,
    /// CPUs with data in the trace.
    pub cpus: u32,
    /// Lost events, as reported in the packets that arrived.
    pub discarded: u64,
    /// The guest's totals at its end; `None` if it sent none.
    pub closed: Option<Diagnostics>,
    /// Transmission faults.
    pub faults: Faults,
    /// Pieces of channels that were left out because they were not a packet or incomplete.
    pub broken: u64,
    /// Whether the guest opened another session after this one, which is not in the trace.
    pub another_session: bool,
    /// Whether the metadata is missing, so that the trace cannot be read.
    pub no_metadata: bool,
}

impl Received {
    /// The numbering of channels, for the largest number of CPUs.
    fn numbered(&self) -> ChannelSet {
        ChannelSet {
            cpus: u32::MAX,
            samples: self.flags.is_some_and(|bits| bits & flags::SAMPLES != 0),
        }
    }

    /// Whether the ring overwrites its oldest packets.
    pub fn is_rolling(&self) -> bool {
        self.flags.is_some_and(|flags| flags & flags::ROLLING != 0)
    }

    /// Whether everything that was sent has arrived.
    pub fn is_whole(&self) -> bool {
        !self.faults.any() && self.broken == 0 && !self.no_metadata && self.closed.is_some()
    }
}

/// A channel other than the metadata.
#[derive(Debug)]
struct Channel {
    file: PacketFile,
    /// Bytes of an incomplete packet.
    waiting: Vec<u8>,
    /// Whether data is missing: nothing is used until a frame begins with a packet.
    lost: bool,
    discarded: u64,
}

/// Writes the trace that the bytes of a line carry.
#[derive(Debug)]
pub(crate) struct FramedTrace {
    out: PathBuf,
    frames: FrameReader,
    written: Channels,
}

/// The channels' files, and the data that is not yet in them.
#[derive(Debug)]
struct Channels {
    out: PathBuf,
    metadata: Vec<u8>,
    /// Bytes of the metadata that are in the file.
    published: usize,
    /// Whether missing frames may have been metadata.
    gap: bool,
    /// Whether a piece of the metadata is missing, which makes it useless.
    metadata_lost: bool,
    channels: BTreeMap<u32, Channel>,
    uuid: Option<[u8; 16]>,
    received: Received,
}

impl FramedTrace {
    pub(crate) fn new(out: &Path) -> FramedTrace {
        let out = out.to_owned();
        let written = Channels {
            out: out.clone(),
            metadata: Vec::new(),
            published: 0,
            gap: false,
            metadata_lost: false,
            channels: BTreeMap::new(),
            uuid: None,
            received: Received::default(),
        };
        FramedTrace {
            out,
            frames: FrameReader::default(),
            written,
        }
    }

    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    /// Processes bytes that have arrived.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = &mut self.written;
        self.frames.take(bytes, |message| written.message(message))
    }

    /// Whether the guest has opened a session.
    pub(crate) fn is_open(&self) -> bool {
        self.written.received.flags.is_some() || self.written.received.bytes > 0
    }

    /// Whether the guest reported the end of the trace.
    pub(crate) fn is_closed(&self) -> bool {
        self.written.received.closed.is_some()
    }

    /// Bytes received of all channels.
    pub(crate) fn bytes(&self) -> u64 {
        self.written.received.bytes
    }

    /// Ends the trace: no more bytes will arrive.
    pub(crate) fn finish(mut self) -> io::Result<Received> {
        let written = &mut self.written;
        self.frames.end(|message| written.message(message))?;
        written.publish()?;
        let waiting = written
            .channels
            .values()
            .filter(|channel| !channel.waiting.is_empty())
            .count();
        let mut received = std::mem::take(&mut written.received);
        received.broken += waiting as u64;
        received.faults = self.frames.faults();
        received.discarded = written
            .channels
            .values()
            .fold(0, |sum, channel| channel.discarded.saturating_add(sum));
        let numbered = received.numbered();
        let mut cpus: Vec<u32> = written
            .channels
            .keys()
            .filter_map(|&channel| numbered.get(channel)?.cpu())
            .collect();
        cpus.dedup();
        received.cpus = cpus.len() as u32;
        received.no_metadata = written.published == 0 && received.flags.is_some();
        Ok(received)
    }
}

impl Channels {
    fn message(&mut self, message: Message<'_>) -> io::Result<()> {
        if self.received.another_session {
            return Ok(());
        }
        match message {
            Message::Open(_) if self.received.flags.is_some() => {
                self.received.another_session = true
            }
            Message::Open(open) => self.received.flags = Some(open.flags),
            Message::Gap => {
                // The lost frames may be of any channel.
                self.gap = true;
                for channel in self.channels.values_mut() {
                    self.received.broken += u64::from(!channel.waiting.is_empty());
                    channel.waiting.clear();
                    channel.lost = true;
                }
            }
            Message::Data { channel: 0, bytes } => {
                self.received.bytes += bytes.len() as u64;
                // If the frame holds the beginning of the metadata, nothing before it is missing.
                let lost = std::mem::take(&mut self.gap)
                    && !bytes.is_empty()
                    && !bytes.starts_with(BEGINNING);
                self.received.broken += u64::from(lost);
                self.metadata_lost |= lost;
                self.metadata.extend_from_slice(bytes);
            }
            Message::Data { channel, bytes } if channel < MAX_CHANNELS => {
                self.received.bytes += bytes.len() as u64;
                self.publish()?;
                self.packets(channel, bytes)?;
            }
            Message::Data { .. } => self.received.broken += 1,
            Message::Close(diagnostics) => {
                self.publish()?;
                self.received.closed = Some(diagnostics);
            }
        }
        Ok(())
    }

    /// Publishes the metadata received so far; readers never see a partial update.
    fn publish(&mut self) -> io::Result<()> {
        if self.published == self.metadata.len() || self.metadata_lost {
            return Ok(());
        }
        fs::create_dir_all(&self.out)?;
        publish_metadata(&self.out, &self.metadata)?;
        self.published = self.metadata.len();
        Ok(())
    }

    fn packets(&mut self, number: u32, bytes: &[u8]) -> io::Result<()> {
        let numbered = self.received.numbered();
        let channel = match self.channels.entry(number) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                // `message` accepts only numbers of CPU channels.
                let name = numbered
                    .get(number)
                    .unwrap_or(ChannelId::Metadata)
                    .to_string();
                fs::create_dir_all(&self.out)?;
                let file = PacketFile::create(&self.out.join(name))?;
                entry.insert(Channel {
                    file,
                    waiting: Vec::new(),
                    lost: false,
                    discarded: 0,
                })
            }
        };
        if channel.lost {
            if PacketHeader::read(bytes).is_none() {
                return Ok(());
            }
            channel.lost = false;
        }
        channel.waiting.extend_from_slice(bytes);
        let mut rest = channel.waiting.as_slice();
        while rest.len() >= HEADER_BYTES {
            let head = PacketHeader::read(rest).filter(|head| {
                let uuid = *self.uuid.get_or_insert(head.uuid);
                // Accept only packets of this trace and channel: any other would end the stream for
                // its readers.
                let kind = ChannelKind::from_number(head.kind);
                let its = kind.and_then(|kind| numbered.number(ChannelId::Cpu(head.cpu, kind)));
                uuid == head.uuid && its == Some(number)
            });
            let Some(head) = head else {
                self.received.broken += 1;
                channel.lost = true;
                rest = &[];
                break;
            };
            let Some((packet, after)) = rest.split_at_checked(head.len) else {
                break;
            };
            channel.file.append(packet)?;
            channel.discarded = channel.discarded.max(head.discarded);
            self.received.packets += 1;
            rest = after;
        }
        channel.waiting = rest.to_vec();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_file::tests::{packet, packets};
    use kymo::wire::{self, Kind, Open};

    /// CPU 0's events.
    const EVENTS: u32 = 2;

    /// Receives these frames, numbered in this order, without those in `lost`. Returns the result
    /// and the numbers of the packets in the file.
    fn received(
        name: &str,
        frames: &[(Kind, u32, Vec<u8>)],
        lost: &[usize],
    ) -> (Received, Option<Vec<u64>>, Option<Vec<u8>>) {
        let out = std::env::temp_dir().join(format!("kymo-framed-{}-{name}", std::process::id()));
        let mut trace = FramedTrace::new(&out);
        for (number, (kind, channel, payload)) in frames
            .iter()
            .enumerate()
            .filter(|(number, _)| !lost.contains(number))
        {
            trace
                .take(&wire::header(*kind, *channel, number as u32, payload))
                .unwrap();
            trace.take(payload).unwrap();
        }
        let received = trace.finish().unwrap();
        let numbers = |bytes: Vec<u8>| {
            packets(&bytes)
                .unwrap()
                .iter()
                .map(|(number, _)| *number)
                .collect()
        };
        let found = fs::read(out.join("events_0")).ok().map(numbers);
        let metadata = fs::read(out.join("metadata")).ok();
        let _ = fs::remove_dir_all(&out);
        (received, found, metadata)
    }

    /// Metadata in two frames, packets 0 to 5 in frames of 100 bytes, and the end.
    fn frames() -> Vec<(Kind, u32, Vec<u8>)> {
        let mut frames = vec![
            (
                Kind::Open,
                0,
                Open {
                    channels: 3,
                    flags: flags::ROLLING,
                }
                .to_bytes()
                .to_vec(),
            ),
            (Kind::Data, 0, b"/* CTF 1.8 */ trace".to_vec()),
            (Kind::Data, 0, b" {};".to_vec()),
        ];
        // Packets of 120 bytes and one of 4,000, so that frames split them at various places.
        let bytes: Vec<u8> = (0..6)
            .flat_map(|number| packet(number, if number == 3 { 4000 } else { 120 }))
            .collect();
        frames.extend(
            bytes
                .chunks(100)
                .map(|piece| (Kind::Data, EVENTS, piece.to_vec())),
        );
        frames.push((
            Kind::Close,
            0,
            wire::close(&Diagnostics {
                discarded: 5,
                ..Diagnostics::default()
            })
            .to_vec(),
        ));
        frames
    }

    #[test]
    fn what_is_sent_in_pieces_is_written_in_packets() {
        let (received, numbers, metadata) = received("pieces", &frames(), &[]);
        assert_eq!(numbers.unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(metadata.unwrap(), b"/* CTF 1.8 */ trace {};");
        assert!(received.is_whole() && received.is_rolling());
        assert_eq!(
            (
                received.packets,
                received.cpus,
                received.closed.unwrap().discarded,
                received.bytes
            ),
            (6, 1, 5, 5 * 120 + 4000 + 23)
        );
    }

    #[test]
    fn a_piece_that_is_missing_costs_no_more_than_up_to_the_next_packet_that_a_frame_begins_with() {
        // Frame 4 has the rest of packet 0 and the beginning of packet 1; no later frame begins
        // with a packet.
        let (received, numbers, _) = received("gap", &frames(), &[4]);
        assert_eq!(numbers.unwrap(), [0; 0]);
        assert_eq!(
            (
                received.broken,
                received.faults.missing,
                received.is_whole()
            ),
            (1, 1, false)
        );
        let mut frames = frames();
        frames.insert(6, (Kind::Data, EVENTS, packet(9, 200)));
        let (received, numbers, _) = self::received("again", &frames, &[4]);
        assert_eq!(
            (numbers.unwrap(), received.broken),
            (vec![9], 2),
            "the rest of the one before is no packet"
        );
    }

    #[test]
    fn metadata_counts_if_nothing_of_it_can_be_missing() {
        let all = frames();
        let last = all.len() - 1;
        for (lost, opens, whole) in [
            (vec![], true, true),
            (vec![0], true, false),
            (vec![1], false, false),
            (vec![3], true, false),
            (vec![last], true, false),
        ] {
            let (received, _, metadata) = received("metadata", &all, &lost);
            assert_eq!(
                (metadata.is_some(), received.is_whole()),
                (opens, whole),
                "{lost:?}"
            );
            assert_eq!(received.no_metadata, !opens, "{lost:?}");
        }
    }

    /// Where CPUs have samples, their channels have other numbers.
    #[test]
    fn channels_of_a_session_with_samples_are_told_apart() {
        let open = Open {
            channels: 7,
            flags: flags::SAMPLES,
        };
        let mut frames = vec![(Kind::Open, 0, open.to_bytes().to_vec())];
        frames.push((Kind::Data, 0, b"/* CTF 1.8 */ trace".to_vec()));
        for (number, channel) in open.channel_set().iter().enumerate().skip(1) {
            let ChannelId::Cpu(cpu, kind) = channel else {
                unreachable!()
            };
            let mut bytes = packet(number as u64, 120);
            bytes[20] = kind as u8;
            bytes[80..84].copy_from_slice(&cpu.to_le_bytes());
            frames.push((Kind::Data, number as u32, bytes));
        }
        let mut far = packet(1, 120);
        far[80..84].copy_from_slice(&[0xff; 4]);
        frames.push((Kind::Data, 3, far));
        let (received, events, _) = received("samples", &frames, &[]);
        assert_eq!(events.unwrap(), [2]);
        assert_eq!(
            (received.packets, received.cpus, received.broken),
            (6, 2, 1)
        );
    }

    #[test]
    fn packets_of_another_trace_or_channel_are_left_out() {
        let mut other_trace = packet(1, 120);
        other_trace[4] = 1;
        let mut other_cpu = packet(1, 120);
        other_cpu[80] = 1;
        for foreign in [other_trace, other_cpu, vec![0x55; 120]] {
            let mut frames = frames();
            frames.truncate(3);
            frames.extend(
                [packet(0, 120), foreign, packet(2, 120)]
                    .map(|packet| (Kind::Data, EVENTS, packet)),
            );
            let (received, numbers, _) = received("other", &frames, &[]);
            assert_eq!((numbers.unwrap(), received.broken), (vec![0, 2], 1));
        }
        let (received, numbers, _) =
            received("number", &[(Kind::Data, 70_000, packet(0, 120))], &[]);
        assert_eq!((numbers, received.broken), (None, 1));
    }
}
