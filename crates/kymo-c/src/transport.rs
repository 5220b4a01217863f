//! Frames over a line: `kymo_send_open`, `kymo_send` and `kymo_send_finish`, which are a
//! [`Sender`] of [`kymo::transport`], and the up-buffer that `KYMO_RTT` defines.
//!
//! C keeps what a sender knows from call to call, and each call makes one of it.

use core::ffi::c_void;
use core::sync::atomic::AtomicU8;

use kymo::transport::rtt::{Rtt, Up};
use kymo::transport::{Sender, Sent, Sink, Stopped, WhenFull};
use kymo::{Mode, Overflow, Started};

use crate::error::Refusal;
use crate::session::{self, SESSIONS, kymo_buffer_size};

/// `struct kymo_rtt`: what `KYMO_RTT` defines.
#[derive(Debug)]
#[repr(C)]
pub struct CRtt {
    /// An [`Rtt`] with one up-buffer, of zeros at first.
    block: *mut Rtt<1>,
    memory: *const AtomicU8,
    size: usize,
    written: u32,
    has_begun: bool,
}

/// The macro `KYMO_RTT` has these numbers.
const _: () =
    assert!(size_of::<Rtt<1>>() == 56 + 2 * size_of::<usize>() && align_of::<Rtt<1>>() <= 8);

/// `struct kymo_sender`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSender {
    context: *mut c_void,
    offer: Option<extern "C" fn(*mut c_void, *const c_void, usize) -> usize>,
    room: Option<extern "C" fn(*mut c_void) -> usize>,
    rtt: *mut CRtt,
    attempts: u32,
    frame_size: u32,
    masked: Option<extern "C" fn() -> bool>,
    buffer: *mut u32,
    buffer_size: usize,
    next: u32,
    reserved: u32,
    sent: CSent,
}

/// `struct kymo_sent`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSent {
    frames: u64,
    bytes: u64,
    dropped_frames: u64,
    dropped_bytes: u64,
    waits: u64,
}

/// Where the frames go.
enum Line<'a> {
    Functions(&'a CSender),
    Rtt(Up<'a>, &'a CSender),
}

impl Sink for Line<'_> {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        match self {
            Line::Functions(of) => of.offer.map_or(0, |offer| {
                offer(of.context, bytes.as_ptr().cast(), bytes.len())
            }),
            Line::Rtt(up, _) => up.offer(bytes),
        }
    }

    fn room(&self) -> Option<usize> {
        match self {
            Line::Functions(of) => of.room.map(|room| room(of.context)),
            Line::Rtt(up, _) => up.room(),
        }
    }

    fn may_wait(&self) -> bool {
        let (Line::Functions(of) | Line::Rtt(_, of)) = self;
        !of.masked.is_some_and(|masked| masked())
    }
}

/// Passes a sender to `send`, and keeps what it knows then. `begins` has its up-buffer begin.
///
/// # Safety
/// `sender` is null, or leads to one that is the caller's, as its up-buffer and its buffer are.
unsafe fn with(
    sender: *mut CSender,
    begins: bool,
    send: impl FnOnce(&mut Sender<Line<'_>>, &mut [u32]) -> Result<usize, Refusal>,
) -> Result<usize, Refusal> {
    if sender.is_null() || !sender.is_aligned() {
        return Err(Refusal::Fault);
    }
    // Functions of the kernel's may look at it meanwhile.
    // SAFETY: the caller's promise.
    let of = &unsafe { sender.read() };
    if of.buffer.is_null() || !of.buffer.is_aligned() {
        return Err(Refusal::Fault);
    }
    let needed = usize::try_from(kymo_buffer_size()).map_err(|_| Refusal::Invalid)?;
    if of.reserved != 0 || of.buffer_size < needed {
        return Err(Refusal::Invalid);
    }
    // No more than is needed: a sink is to have room for all of it.
    // SAFETY: the caller's promise.
    let buffer = unsafe { core::slice::from_raw_parts_mut(of.buffer, needed / 4) };
    // SAFETY: the caller's promise: null, or what the macro has defined.
    let mut rtt = unsafe { of.rtt.as_mut() };
    let mut most = usize::MAX;
    let line = match &mut rtt {
        Some(rtt) => {
            // A full one has a byte less.
            most = rtt.size.saturating_sub(1);
            let size = rtt.size.min(isize::MAX as usize);
            // SAFETY: the macro's block and its memory, which live for ever.
            let (block, memory) = unsafe {
                (
                    rtt.block.as_mut(),
                    core::slice::from_raw_parts(rtt.memory, size),
                )
            };
            let block = block.ok_or(Refusal::Fault)?;
            let up = if begins && !rtt.has_begun {
                rtt.has_begun = true;
                let [up] = block.start([("Kymo", memory)]);
                up
            } else {
                let up = block.up(0, memory, rtt.written).filter(|_| rtt.has_begun);
                up.ok_or(Refusal::Invalid)?
            };
            Line::Rtt(up, of)
        }
        None if of.offer.is_none() => return Err(Refusal::Fault),
        None => Line::Functions(of),
    };
    let when_full = match of.attempts {
        0 => WhenFull::Drop,
        // The sink tells.
        attempts => WhenFull::Wait {
            attempts,
            masked: || false,
        },
    };
    let payload = match of.frame_size {
        0 => 512,
        size => size as usize,
    };
    let CSent {
        frames,
        bytes,
        dropped_frames,
        dropped_bytes,
        waits,
    } = of.sent;
    let sent = Sent {
        frames,
        bytes,
        dropped_frames,
        dropped_bytes,
        waits,
    };
    let mut sends = Sender::new(line, when_full, payload).going_on(of.next, sent);
    if sends.framed(needed) > most {
        return Err(Refusal::Invalid);
    }
    let result = send(&mut sends, buffer);
    let (next, sent) = (sends.next(), sends.sent());
    let written = match sends.into_sink() {
        Line::Rtt(up, _) => up.written(),
        Line::Functions(_) => 0,
    };
    if let Some(rtt) = rtt {
        rtt.written = written;
    }
    let sent = CSent {
        frames: sent.frames,
        bytes: sent.bytes,
        dropped_frames: sent.dropped_frames,
        dropped_bytes: sent.dropped_bytes,
        waits: sent.waits,
    };
    // SAFETY: the caller's promise.
    unsafe { sender.write(CSender { next, sent, ..*of }) };
    result
}

impl From<Stopped> for Refusal {
    fn from(stopped: Stopped) -> Refusal {
        match stopped {
            Stopped::Refused(refused) => refused.into(),
            _ => Refusal::Dropped,
        }
    }
}

/// The mode of this number.
fn mode_of(number: u32) -> Result<Mode, Refusal> {
    let mode = Mode::ALL.into_iter().nth(number as usize);
    mode.ok_or(Refusal::UnknownMode)
}

/// Sends the first frame of a session.
///
/// # Safety
/// `sender` is null, or leads to one that is the caller's, as its up-buffer and its buffer are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_send_open(sender: *mut CSender) -> i32 {
    let open = |sends: &mut Sender<Line<'_>>, _: &mut [u32]| {
        let is_rolling = session::is_rolling()?;
        let channels = SESSIONS.channels();
        let started = Started {
            channels: channels.len(),
            overflow: if is_rolling {
                Overflow::Overwrite
            } else {
                Overflow::Discard
            },
            samples: channels.samples,
        };
        let opened = sends.open_session(&started);
        opened.map(|()| 0).map_err(|_| Refusal::Dropped)
    };
    // SAFETY: the caller's promise.
    session::answer(unsafe { with(sender, true, open) })
}

/// Sends what is new in all channels, as far as there is room. Returns its bytes.
///
/// # Safety
/// See [`kymo_send_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_send(mode: u32, sender: *mut CSender) -> i32 {
    let pump = |sends: &mut Sender<Line<'_>>, buffer: &mut [u32]| {
        Ok(sends.pump(&SESSIONS, mode_of(mode)?, buffer)?)
    };
    // SAFETY: the caller's promise.
    session::answer(unsafe { with(sender, false, pump) })
}

/// Ends a mode, sends what is left, and closes.
///
/// # Safety
/// See [`kymo_send_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kymo_send_finish(
    mode: u32,
    sender: *mut CSender,
    wait: Option<extern "C" fn(*mut c_void) -> bool>,
) -> i32 {
    // SAFETY: the caller's promise.
    let context = unsafe { sender.as_ref() }.map_or(core::ptr::null_mut(), |of| of.context);
    let finish = |sends: &mut Sender<Line<'_>>, buffer: &mut [u32]| {
        let mode = mode_of(mode)?;
        sends.finish(&SESSIONS, mode, buffer, || {
            wait.is_some_and(|wait| wait(context))
        })?;
        Ok(0)
    };
    // SAFETY: the caller's promise.
    session::answer(unsafe { with(sender, false, finish) })
}
