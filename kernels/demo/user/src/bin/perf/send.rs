//! Frames to the host: the data of a session's channels, in the format of `kymo::wire`.

use core::cell::UnsafeCell;

use demo_user::abi::{Diagnostics, Error, READ, Status};
use demo_user::{println, sys};
use kymo::wire::{self, Arrived, HEADER_LEN, Kind, Open};

use crate::INTERVAL;
use crate::options::Modes;

/// Number of checks whether the host listens, before giving up: 10 s.
const PATIENCE: usize = 5000;
/// Most packets of a channel per round.
const PACKETS: usize = 64;

/// A frame: too large for the stack.
struct Frame(UnsafeCell<[u8; HEADER_LEN + READ]>);

// SAFETY: a program is one thread.
unsafe impl Sync for Frame {}

static FRAME: Frame = Frame(UnsafeCell::new([0; HEADER_LEN + READ]));

/// The sending end of the port.
pub struct Sender {
    /// The frame: header and payload.
    frame: &'static mut [u8; HEADER_LEN + READ],
    /// Number of frames sent.
    sent: u32,
    channels: u32,
    /// The mode through which they are read.
    mode: u32,
    /// Input from the host, and its length.
    heard: [u8; 2 * HEADER_LEN],
    len: usize,
}

impl Sender {
    /// Waits until the host listens. Called once.
    pub fn new() -> Result<Sender, Error> {
        let mut listens = sys::port_write(&[]);
        for tried in 0..PATIENCE {
            if listens != Err(Error::NotConnected) {
                break;
            }
            if tried == 0 {
                println!("perf: waits for the host to listen at the port");
            }
            sys::sleep(INTERVAL);
            listens = sys::port_write(&[]);
        }
        listens?;
        // SAFETY: this is called once.
        let frame = unsafe { &mut *FRAME.0.get() };
        Ok(Sender {
            frame,
            sent: 0,
            channels: 0,
            mode: Modes::TRACE.reader(),
            heard: [0; 2 * HEADER_LEN],
            len: 0,
        })
    }

    /// Sends the frame, whose payload is already in the buffer.
    fn send(&mut self, kind: Kind, channel: u32, len: usize) -> Result<(), Error> {
        let (header, rest) = self.frame.split_at_mut(HEADER_LEN);
        header.copy_from_slice(&wire::header(kind, channel, self.sent, &rest[..len]));
        self.sent = self.sent.wrapping_add(1);
        sys::port_write(&self.frame[..HEADER_LEN + len]).map(drop)
    }

    fn send_payload(&mut self, kind: Kind, payload: &[u8]) -> Result<(), Error> {
        self.frame[HEADER_LEN..][..payload.len()].copy_from_slice(payload);
        self.send(kind, 0, payload.len())
    }

    /// Sends the first frame.
    pub fn open(&mut self, status: &Status) -> Result<(), Error> {
        self.channels = status.channels as u32;
        self.mode = Modes(status.modes).reader();
        self.send_payload(
            Kind::Open,
            &Open {
                channels: self.channels,
                flags: status.flags as u32,
            }
            .to_bytes(),
        )
    }

    /// Sends the last frame.
    pub fn close(&mut self, totals: &Diagnostics) -> Result<(), Error> {
        let Diagnostics {
            discarded,
            too_large,
            overwritten,
            clock_back,
            abandoned,
        } = *totals;
        self.send_payload(
            Kind::Close,
            &wire::close(&kymo::Diagnostics {
                discarded,
                too_large,
                overwritten,
                clock_back,
                abandoned,
                // Among those discarded.
                without_ring: 0,
            }),
        )
    }

    /// Sends the new data of every channel, at most a limited number of packets each. True if there
    /// was any.
    pub fn pass(&mut self) -> Result<bool, Error> {
        let before = self.sent;
        for channel in 0..self.channels {
            for _ in 0..PACKETS {
                let len = sys::perf_read(self.mode, channel, &mut self.frame[HEADER_LEN..])?;
                if len == 0 {
                    break;
                }
                self.send(Kind::Data, channel, len)?;
            }
        }
        Ok(self.sent != before)
    }

    /// Sends the rest after the recording has stopped.
    pub fn rest(&mut self) -> Result<(), Error> {
        while self.pass()? {}
        Ok(())
    }

    /// Whether the host has requested the end.
    pub fn is_to_stop(&mut self) -> bool {
        loop {
            let came = sys::port_read(&mut self.heard[self.len..]).unwrap_or(0);
            self.len += came;
            let taken = match wire::parse(&self.heard[..self.len]) {
                Arrived::Frame(frame) if frame.kind == Kind::Stop => return true,
                // The host sends nothing else; a larger frame is not its own.
                Arrived::Frame(frame) => frame.size(),
                Arrived::Damage(skip) => skip,
                Arrived::Need(need) if need > self.heard.len() => self.len,
                Arrived::Need(_) if came == 0 => return false,
                Arrived::Need(_) => 0,
            };
            self.heard.copy_within(taken..self.len, 0);
            self.len -= taken;
        }
    }
}
