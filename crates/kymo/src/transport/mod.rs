//! Ways for a trace to leave a machine whose memory nobody can read: frames over anything that
//! takes bytes.
//!
//! A [`Sink`] takes bytes: a UART, a virtio port, a semihosting file, an RTT up-buffer
//! ([`rtt`]). A [`Sender`] makes [frames](crate::wire) of what [`Recorder::read`] gives, and passes
//! them on. Where the trace stays in memory that the host reads, neither is needed.
//!
//! # When the sink is full
//! [`WhenFull`] says what happens, once for each sender: the frame is dropped, or the sender waits
//! for a number of attempts and then drops it. It never waits with interrupts masked. A dropped
//! frame is counted in [`Sender::sent`] and keeps its number, so that the receiver knows exactly
//! how many frames it has not got.
//!
//! What is still in the rings is not lost: ask [`Sender::has_room`] before reading a packet, and
//! the rings take up what a slow line cannot, by their own policy.
//!
//! # Who may send
//! A sender belongs to one caller at a time (`&mut self`), on one CPU at a time. On several CPUs,
//! one of them sends what all have recorded.
//!
//! [`Recorder::read`]: crate::Recorder::read
//!
//! # Example
//! ```
//! use kymo::transport::{Sender, WhenFull, rtt};
//!
//! let (mut block, memory) = (rtt::Rtt::<1>::new(), rtt::UpMemory::<1024>::new());
//! let [up] = block.start([("Kymo", memory.bytes())]);
//! let mut sender = Sender::new(up, WhenFull::Drop, 512);
//! sender.data(2, b"a packet").unwrap();
//! // Where a packet does not fit, the rest of its frames are dropped, and counted.
//! assert!(sender.data(2, &[0; 2000]).is_err());
//! assert_eq!(sender.sent().dropped_frames, 3);
//! ```

mod pump;
pub mod rtt;

pub use pump::Stopped;

use core::num::NonZero;

use crate::Diagnostics;
use crate::wire::{self, HEADER_LEN, Kind, MAX_PAYLOAD, Open};

/// Takes bytes that leave the machine.
pub trait Sink {
    /// Takes as many of the first `bytes` as there is room for now; returns how many. Never waits.
    fn offer(&mut self, bytes: &[u8]) -> usize;

    /// Bytes for which there is room now, if the sink knows. A frame is then sent only if there is
    /// room for all of it. Otherwise it may be cut, which costs the receiver the same frame.
    fn room(&self) -> Option<usize> {
        None
    }

    /// Whether a sender with [`WhenFull::Wait`] may wait now. Otherwise it drops the frame at once.
    fn may_wait(&self) -> bool {
        true
    }
}

impl<S: Sink> Sink for &mut S {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        S::offer(self, bytes)
    }
    fn room(&self) -> Option<usize> {
        S::room(self)
    }
    fn may_wait(&self) -> bool {
        S::may_wait(self)
    }
}

/// What a sender does when its sink is full.
#[derive(Clone, Copy, Debug)]
pub enum WhenFull {
    /// Drops the frame.
    Drop,
    /// Tries again, and drops the frame after this many attempts.
    Wait {
        /// Most attempts for one frame, besides the first.
        attempts: u32,
        /// Whether interrupts are masked now. The sender then drops the frame at once.
        masked: fn() -> bool,
    },
}

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames that the sink took whole.
    pub frames: u64,
    /// Bytes that the sink took, those of cut frames included.
    pub bytes: u64,
    /// Frames that were dropped, or cut.
    pub dropped_frames: u64,
    /// Bytes of frames that the sink did not take.
    pub dropped_bytes: u64,
    /// Attempts that were made because the sink was full.
    pub waits: u64,
}

/// The sink was full; what was to be sent is lost, and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl core::fmt::Display for Dropped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the transport was full, and a frame was dropped")
    }
}

impl core::error::Error for Dropped {}

/// The least payload of a full frame.
const LEAST: NonZero<usize> = NonZero::new(64).unwrap();

/// Sends channels in frames over a sink.
#[derive(Debug)]
pub struct Sender<S> {
    sink: S,
    when_full: WhenFull,
    /// Most bytes of a frame's payload.
    payload: NonZero<usize>,
    number: u32,
    sent: Sent,
}

impl<S: Sink> Sender<S> {
    /// A sender whose frames have at most `payload` bytes after the header, within 64 and
    /// [`MAX_PAYLOAD`]. A sink that knows its room must have room for that and [`HEADER_LEN`] when
    /// it is empty.
    pub fn new(sink: S, when_full: WhenFull, payload: usize) -> Sender<S> {
        Sender {
            sink,
            when_full,
            payload: NonZero::new(payload.min(MAX_PAYLOAD))
                .unwrap_or(LEAST)
                .max(LEAST),
            number: 0,
            sent: Sent::default(),
        }
    }

    /// Goes on where another sender to the same receiver has stopped, with what that said of its
    /// [`next`](Self::next) and [`sent`](Self::sent): for callers that cannot keep a sender.
    pub fn going_on(self, next: u32, sent: Sent) -> Sender<S> {
        Sender {
            number: next,
            sent,
            ..self
        }
    }

    /// The number that the next frame will have.
    pub fn next(&self) -> u32 {
        self.number
    }

    /// The sink.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// What was sent and dropped so far.
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Whether there is room now for `len` bytes of a channel; true if the sink does not know.
    pub fn has_room(&self, len: usize) -> bool {
        let framed = self.framed(len);
        self.sink.room().is_none_or(|room| room >= framed)
    }

    /// How many bytes of the sink `len` bytes of a channel take, with their headers.
    pub fn framed(&self, len: usize) -> usize {
        let frames = len.saturating_sub(1) / self.payload + 1;
        len.saturating_add(HEADER_LEN * frames)
    }

    /// Sends the first frame.
    ///
    /// # Errors
    /// [`Dropped`].
    pub fn open(&mut self, open: Open) -> Result<(), Dropped> {
        self.frame(Kind::Open, 0, &open.to_bytes())
    }

    /// Sends the next bytes of a channel, in one frame or more. After a dropped frame the rest is
    /// dropped too: the receiver needs whole packets.
    ///
    /// # Errors
    /// [`Dropped`].
    pub fn data(&mut self, channel: u32, bytes: &[u8]) -> Result<(), Dropped> {
        let mut result = Ok(());
        for piece in bytes.chunks(self.payload.get()) {
            match result {
                Ok(()) => result = self.frame(Kind::Data, channel, piece),
                Err(Dropped) => {
                    self.number = self.number.wrapping_add(1);
                    self.drop_frame(HEADER_LEN + piece.len());
                }
            }
        }
        result
    }

    /// Sends the last frame, with the totals of [`Recorder::finish`](crate::Recorder::finish).
    ///
    /// # Errors
    /// [`Dropped`]: the receiver then does not know that this was the end.
    pub fn close(&mut self, totals: &Diagnostics) -> Result<(), Dropped> {
        self.frame(Kind::Close, 0, &wire::close(totals))
    }

    fn frame(&mut self, kind: Kind, channel: u32, payload: &[u8]) -> Result<(), Dropped> {
        let header = wire::header(kind, channel, self.number, payload);
        self.number = self.number.wrapping_add(1);
        let size = HEADER_LEN + payload.len();
        let mut left = match self.when_full {
            WhenFull::Drop => 0,
            WhenFull::Wait { attempts, .. } => attempts,
        };
        while self.sink.room().is_some_and(|room| room < size) {
            if !self.waits(&mut left) {
                self.drop_frame(size);
                return Err(Dropped);
            }
        }
        let mut unsent = size;
        for mut part in [&header[..], payload] {
            while !part.is_empty() {
                let taken = self.sink.offer(part).min(part.len());
                part = part.get(taken..).unwrap_or_default();
                unsent -= taken;
                self.sent.bytes += taken as u64;
                if taken == 0 && !self.waits(&mut left) {
                    self.drop_frame(unsent);
                    return Err(Dropped);
                }
            }
        }
        self.sent.frames += 1;
        Ok(())
    }

    /// Whether to try again.
    fn waits(&mut self, left: &mut u32) -> bool {
        let WhenFull::Wait { masked, .. } = self.when_full else {
            return false;
        };
        if *left == 0 || masked() || !self.sink.may_wait() {
            return false;
        }
        *left -= 1;
        self.sent.waits += 1;
        core::hint::spin_loop();
        true
    }

    fn drop_frame(&mut self, unsent: usize) {
        self.sent.dropped_frames += 1;
        self.sent.dropped_bytes += unsent as u64;
    }
}
