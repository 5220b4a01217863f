//! From a recorder's channels to a sink, as far as there is room.

use super::{Dropped, Sender, Sink};
use crate::platform::Platform;
use crate::recorder::{Ground, Mode, Refused, Sessions, Started, flags};
use crate::ring::layout::Overflow;
use crate::wire::Open;

/// Packets of a channel that one call sends, at most: more may be recorded meanwhile than is read.
const MOST: u32 = 64;

/// Why [`Sender::pump`] or [`Sender::finish`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// There was no room in the sink.
    Dropped(Dropped),
    /// The recorder refused to read.
    Refused(Refused),
}

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Stopped::Dropped(dropped) => dropped.fmt(f),
            Stopped::Refused(refused) => refused.fmt(f),
        }
    }
}

impl core::error::Error for Stopped {}

impl From<Dropped> for Stopped {
    fn from(dropped: Dropped) -> Stopped {
        Stopped::Dropped(dropped)
    }
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Stopped {
        Stopped::Refused(refused)
    }
}

impl<S: Sink> Sender<S> {
    /// Sends the first frame of a session that [`Recorder::start`](crate::Recorder::start) has begun.
    ///
    /// # Errors
    /// [`Dropped`].
    pub fn open_session(&mut self, started: &Started) -> Result<(), Dropped> {
        let rolling = match started.overflow {
            Overflow::Overwrite => flags::ROLLING,
            Overflow::Discard => 0,
        };
        let samples = if started.samples { flags::SAMPLES } else { 0 };
        self.open(Open {
            channels: started.channels,
            flags: rolling | samples,
        })
    }

    /// Sends what is new in all channels of a recorder, and reads nothing for which there may be no
    /// room: that stays in the rings until the next call, and so does what is beyond 64 packets of a
    /// channel. Returns the bytes that were sent.
    ///
    /// `buffer` must have at least [`Sessions::buffer_words`], and the sink, when it is empty, room
    /// for as much and a header for each of its frames; otherwise nothing is ever sent.
    ///
    /// # Errors
    /// [`Stopped::Refused`], as from [`Sessions::read`]. [`Stopped::Dropped`] only where the sink
    /// does not know its room.
    pub fn pump<P: Platform, G: Ground>(
        &mut self,
        recorder: &Sessions<P, G>,
        mode: Mode,
        buffer: &mut [u32],
    ) -> Result<usize, Stopped> {
        self.pump_each(recorder, mode, buffer).map(|(sent, _)| sent)
    }

    /// [`pump`](Self::pump). Also returns whether there was nothing more in any channel: a host that
    /// empties the sink right behind the last look at its room does not make it so.
    fn pump_each<P: Platform, G: Ground>(
        &mut self,
        recorder: &Sessions<P, G>,
        mode: Mode,
        buffer: &mut [u32],
    ) -> Result<(usize, bool), Stopped> {
        let (mut sent, mut is_all) = (0, true);
        for channel in 0..recorder.channels().len() {
            let mut is_empty = false;
            for _ in 0..MOST {
                if !self.has_room(size_of_val(buffer)) {
                    break;
                }
                let len = recorder.read(mode as u32, channel, Some(buffer))?;
                is_empty = len == 0;
                if is_empty {
                    break;
                }
                self.data(channel, bytes(buffer).get(..len).unwrap_or_default())?;
                sent += len;
            }
            is_all &= is_empty;
        }
        Ok((sent, is_all))
    }

    /// Ends the mode, sends what is left, and closes. Between attempts it calls `wait`, which may
    /// give up by returning false: what is left in the rings is then not sent, and the receiver
    /// sees that the session has no end.
    ///
    /// # Errors
    /// [`Stopped::Refused`] where the mode does not run; [`Stopped::Dropped`] where `wait` gave up.
    pub fn finish<P: Platform, G: Ground>(
        &mut self,
        recorder: &Sessions<P, G>,
        mode: Mode,
        buffer: &mut [u32],
        mut wait: impl FnMut() -> bool,
    ) -> Result<(), Stopped> {
        recorder.stop(mode as u32)?;
        loop {
            let (sent, is_all) = self.pump_each(recorder, mode, buffer)?;
            if is_all && self.has_room(size_of_val(buffer)) {
                break;
            }
            if sent == 0 && !wait() {
                recorder.finish(mode as u32)?;
                return Err(Dropped.into());
            }
        }
        let totals = recorder.finish(mode as u32)?;
        Ok(self.close(&totals)?)
    }
}

/// The words in the order in which they are stored: little-endian, as all of Kymo.
fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: every word is four bytes that may have any value, and a byte needs no alignment.
    unsafe { core::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}
