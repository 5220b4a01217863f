//! Reading what a session has recorded, channel by channel, while it records and afterwards.

use super::{Ground, REOPENED, Refused, Sessions};
use crate::channel::{ChannelId, ChannelKind};
use crate::ctf::stream::Stream;
use crate::exclusive::Exclusive;
use crate::platform::{Call, Platform};
use crate::ring::layout::Consumer;
use crate::ring::reader::{ChannelReader, Region, Shapes, View};
use crate::ring::source::{Live, Source};
use crate::sync::Ordering::Relaxed;

impl<P: Platform, G: Ground> Sessions<P, G> {
    /// Copies what is new in a channel to the front of `buffer`: its next CTF packet, or the next
    /// part of the metadata. Returns the length in bytes, a multiple of 4 except at the end of the
    /// metadata; 0 where there is nothing new. `buffer` is `None` where the caller's pointer is
    /// bad; what lies behind that length is undefined and must not leave the kernel.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::Invalid`] also for a buffer of less than
    /// [`buffer_words`](Self::buffer_words). For the metadata, one word is enough.
    pub fn read(
        &self,
        mode: u32,
        channel: u32,
        buffer: Option<&mut [u32]>,
    ) -> Result<usize, Refused> {
        let buffer = buffer.ok_or(Refused::Fault)?;
        let mode = self.admit(mode, Call::Read)?;
        if !self.state(mode).is_readable() {
            return Err(Refused::Invalid);
        }
        let (cpu, kind) = match self.channels().get(channel).ok_or(Refused::Invalid)? {
            ChannelId::Metadata => return self.read_metadata(buffer),
            ChannelId::Cpu(cpu, kind) => (cpu, kind),
        };
        let place = self.ground.stream(cpu, kind).ok_or(Refused::Invalid)?;
        let mut claim = place.claim().ok_or(Refused::Busy)?;
        // A `finish` may have come in between. One that comes now waits for the claim.
        if !self.state(mode).is_readable() {
            return Err(Refused::Invalid);
        }
        let stream = self.opened(claim.get(), cpu, kind)?;
        let live = self.ground.memory().live();
        let is_reopened = self.channels.load(Relaxed) & REOPENED != 0;
        match self.ground.vocabulary().filter(|_| !is_reopened) {
            Some(vocabulary) => self.read_stream(stream, &live, vocabulary, buffer),
            None => {
                let region = Region::open(&live).map_err(|_| Refused::Invalid)?;
                self.read_stream(stream, &live, &region.shapes(&live), buffer)
            }
        }
    }

    /// Reads records of these shapes. Of a session that another kernel may have recorded, nobody
    /// frees packets, and its clock need not be that of this one.
    fn read_stream(
        &self,
        stream: &mut Stream,
        live: &Live,
        shapes: &impl Shapes,
        buffer: &mut [u32],
    ) -> Result<usize, Refused> {
        let is_reopened = self.channels.load(Relaxed) & REOPENED != 0;
        let now = if is_reopened { 0 } else { P::clock() };
        let view = if self.states().any_runs() {
            View::Live
        } else {
            View::PostMortem
        };
        let consumes = !is_reopened && stream.reader().is_consumed_by(Consumer::Kernel);
        let words = stream.read(
            live,
            shapes,
            (view, now),
            self.record_words(),
            buffer,
            |reader| {
                if consumes {
                    reader.release(live)
                } else {
                    Ok(())
                }
            },
        );
        words.map(|words| 4 * words).map_err(|_| Refused::Invalid)
    }

    fn read_metadata(&self, buffer: &mut [u32]) -> Result<usize, Refused> {
        let mut claim = self.metadata.claim().ok_or(Refused::Busy)?;
        let live = self.ground.memory().live();
        let region = Region::open(&live).map_err(|_| Refused::Invalid)?;
        if buffer.is_empty() {
            // Each call would read 0 bytes, which would mean that there is nothing new.
            return Err(Refused::Invalid);
        }
        let (at, len) = (claim.get(), region.header().metadata_len as usize);
        let words = (len.saturating_sub(*at)).div_ceil(4).min(buffer.len());
        let part = buffer.get_mut(..words).ok_or(Refused::Invalid)?;
        live.copy(region.header().metadata_offset + *at as u64, part)
            .map_err(|_| Refused::Invalid)?;
        let bytes = (4 * words).min(len.saturating_sub(*at));
        *at += bytes;
        Ok(bytes)
    }

    /// The least number of words that a buffer of `read` must have in the present session. One of
    /// more than 65,536 words gains nothing: host tools take no packet of more than 256 KiB.
    pub fn buffer_words(&self, packet_size: u32) -> usize {
        Stream::buffer_words(packet_size as usize / 4, self.record_words())
    }

    /// Words of the longest record of the present session or, before the first one, of one of all
    /// events that are known.
    pub(super) fn record_words(&self) -> usize {
        let words = self.record_words.load(Relaxed) as usize;
        match self.ground.vocabulary() {
            Some(vocabulary) if words == 0 => vocabulary.max_record_words(self.channels()),
            _ => words,
        }
    }

    /// Has a look at the reader of a channel of the present session.
    ///
    /// # Errors
    /// [`Refused::Invalid`] where there is no session, or not that channel; [`Refused::Busy`] while
    /// it is read.
    pub fn with_reader<R>(
        &self,
        cpu: u32,
        kind: ChannelKind,
        look: impl FnOnce(&ChannelReader) -> R,
    ) -> Result<R, Refused> {
        let place = self.ground.stream(cpu, kind).ok_or(Refused::Invalid)?;
        let mut claim = place.claim().ok_or(Refused::Busy)?;
        if !self.states().any_is_readable() {
            return Err(Refused::Invalid);
        }
        let stream = self.opened(claim.get(), cpu, kind)?;
        Ok(look(stream.reader()))
    }

    /// The stream of a channel in its place, opened where nobody has asked for it before: a kernel
    /// that leaves the reading to a host is linked without a reader. The caller has claimed the
    /// place, and has seen since that there is a session: none ends until the claim does.
    pub(super) fn opened<'a>(
        &self,
        place: &'a mut Option<Stream>,
        cpu: u32,
        kind: ChannelKind,
    ) -> Result<&'a mut Stream, Refused> {
        if place.is_none() {
            let live = self.ground.memory().live();
            let region = Region::open(&live).map_err(|_| Refused::Invalid)?;
            let reader = region.channel(&live, cpu, kind);
            let (reader, header) = (reader.map_err(|_| Refused::Invalid)?, region.header());
            *place = Some(Stream::new(reader, header.uuid, header.clock_start));
        }
        place.as_mut().ok_or(Refused::Invalid)
    }

    /// Opens all channels of the region. Gives its packets' largest size, in words.
    pub(super) fn open_streams(&self) -> Result<usize, Refused> {
        let live = self.ground.memory().live();
        let region = Region::open(&live).map_err(|_| Refused::Invalid)?;
        let mut packet_words = 0;
        for (cpu, kind) in region.channels().streams() {
            let place = self.ground.stream(cpu, kind).ok_or(Refused::Invalid)?;
            let mut claim = place.wait();
            let stream = self.opened(claim.get(), cpu, kind)?;
            packet_words = packet_words.max(stream.reader().scratch_words());
        }
        Ok(packet_words)
    }

    pub(super) fn close_streams(&self) {
        for stream in self.streams() {
            *stream.wait().get() = None;
        }
    }

    /// The places of all streams.
    fn streams(&self) -> impl Iterator<Item = &Exclusive<Option<Stream>>> {
        let of = |cpu| ChannelKind::ALL.map(|kind| self.ground.stream(cpu, kind));
        (0..self.ground.cpus()).flat_map(of).flatten()
    }
}
