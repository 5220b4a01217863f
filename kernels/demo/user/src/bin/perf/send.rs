//! Frames to the host: the data of a session's channels, in the format of `kymo::wire`.

use core::cell::UnsafeCell;

use demo_user::abi::{Error, READ};
use demo_user::{println, sys};
use kymo::Diagnostics;
use kymo::perf::{Channels, Output};
use kymo::wire::{self, Arrived, HEADER_LEN, Kind, Open};

use crate::INTERVAL_MS;

/// Number of checks whether the host listens, before giving up: 10 s.
const PATIENCE: usize = 5000;

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
    /// Input from the host, and its length.
    heard: [u8; 2 * HEADER_LEN],
    len: usize,
}

impl Sender {
    /// Called once.
    pub fn new() -> Sender {
        // SAFETY: this is called once.
        let frame = unsafe { &mut *FRAME.0.get() };
        Sender {
            frame,
            sent: 0,
            heard: [0; 2 * HEADER_LEN],
            len: 0,
        }
    }

    /// Sends the frame, whose payload is already in the buffer.
    fn send(&mut self, kind: Kind, channel: u32, len: usize) -> Result<(), Error> {
        let (header, rest) = self.frame.split_at_mut(HEADER_LEN);
        header.copy_from_slice(&wire::header(kind, channel, self.sent, &rest[..len]));
        self.sent = self.sent.wrapping_add(1);
        sys::port_write(&self.frame[..HEADER_LEN + len]).map(drop)
    }

    fn send_payload(&mut self, kind: Kind, channel: u32, payload: &[u8]) -> Result<(), Error> {
        self.frame[HEADER_LEN..][..payload.len()].copy_from_slice(payload);
        self.send(kind, channel, payload.len())
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

impl Output for Sender {
    type Error = Error;

    /// Waits until the host listens.
    fn prepare(&mut self) -> Result<(), Error> {
        let mut listens = sys::port_write(&[]);
        for tried in 0..PATIENCE {
            if listens != Err(Error::NotConnected) {
                break;
            }
            if tried == 0 {
                println!("perf: waits for the host to listen at the port");
            }
            sys::sleep(1_000 * INTERVAL_MS);
            listens = sys::port_write(&[]);
        }
        listens.map(drop)
    }

    fn open(&mut self, channels: Channels) -> Result<(), Error> {
        let open = Open {
            channels: channels.count,
            flags: channels.flags,
        };
        self.send_payload(Kind::Open, 0, &open.to_bytes())
    }

    fn write(&mut self, channel: u32, bytes: &[u8]) -> Result<(), Error> {
        self.send_payload(Kind::Data, channel, bytes)
    }

    fn close(&mut self, totals: &Diagnostics) -> Result<(), Error> {
        self.send_payload(Kind::Close, 0, &wire::close(totals))
    }
}
