//! The part of GDB's remote serial protocol that is needed to read and write a machine's memory
//! through a debug probe's server ("Debugging with GDB", appendix "GDB Remote Serial Protocol").
//!
//! A machine runs or is halted. Servers differ in what they do with a request while it runs:
//!
//! | server | while the machine runs |
//! | --- | --- |
//! | OpenOCD, J-Link | reads and writes memory, where the debug unit can |
//! | QEMU | halts the machine at any byte that it receives, and answers only that it has halted |
//! | probe-rs | takes nothing but the interrupt, a byte 3 |
//!
//! So a machine is either read while it runs, which fails with [`Error::Halted`] where the server
//! halts it, or its reader [halts](Gdb::halt) it and lets it [run](Gdb::run) again. Whoever
//! connects finds it halted by most servers, and lets it run. It is left running.
//!
//! Every wait has a time limit, which no number of other packets extends.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Bytes of a packet if the server does not name a number.
const USUAL_PACKET: usize = 400;
/// Room for the longest packet that is sent: `$Mffffffffffffffff,4:00112233#00`.
const LEAST_PACKET: usize = 36;
/// More bytes than any packet or pause between packets has.
const MUCH: usize = 1 << 20;
/// Bytes of memory that are asked for at once, at most.
const PIECE: usize = 4096;
/// Attempts to send or receive a packet that arrives damaged.
const ATTEMPTS: u32 = 5;

/// What a server did instead of answering; each is the rest of a sentence about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name is not one of a server.
    #[error("expected HOST:PORT, such as localhost:3333")]
    Name,
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It closed the connection.
    #[error("the GDB server closed the connection")]
    Closed,
    /// No answer came in time.
    #[error("the GDB server did not answer {what} within {} s", .patience.as_secs_f64())]
    Silent {
        /// What it was asked for.
        what: &'static str,
        /// The time limit.
        patience: Duration,
    },
    /// What it sends is not the protocol.
    #[error("what answers there is no GDB server")]
    Foreign,
    /// Its packets arrive damaged.
    #[error("the GDB server's packets are damaged")]
    Damaged,
    /// An answer that does not fit the request.
    #[error("the GDB server answered {what} with something else")]
    Unexpected {
        /// What it was asked for.
        what: &'static str,
    },
    /// It has no such request.
    #[error("the GDB server does not offer {what}")]
    Unsupported {
        /// What it was asked for.
        what: &'static str,
    },
    /// It answered with an error.
    #[error("the GDB server refused {what} at {at:#x} ({code})")]
    Refused {
        /// What it was asked for.
        what: &'static str,
        /// The address.
        at: u64,
        /// Its error code.
        code: String,
    },
    /// Its packets are too small for an address.
    #[error("the GDB server takes packets of only {0} bytes")]
    TinyPackets(usize),
    /// It halts a machine whose memory it is to read.
    #[error(
        "the GDB server halts the machine when its memory is read; give --halt-every MS to have it \
         halted on purpose"
    )]
    Halted,
    /// The machine has ended.
    #[error("the machine has ended")]
    Ended,
}

/// What counts as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// Anything that is not about the machine's state.
    Answer,
    /// That the machine is halted.
    Halt,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Gdb {
    stream: TcpStream,
    /// What was received and not looked at.
    input: Vec<u8>,
    /// Whether bytes have arrived, and no packet yet.
    is_foreign: bool,
    has_answered: bool,
    patience: Duration,
    acknowledges: bool,
    packet_size: usize,
    reads_binary: bool,
    writes_binary: bool,
    resume: &'static [u8],
    runs: bool,
}

impl Gdb {
    /// Connects to the server `HOST:PORT` and lets the machine run; without a host, to this one.
    pub(crate) fn connect(server: &str, patience: Duration) -> Result<Gdb, Error> {
        let (host, port) = server.rsplit_once(':').ok_or(Error::Name)?;
        let port: u16 = port.parse().map_err(|_| Error::Name)?;
        let host = match host.trim_matches(['[', ']']) {
            "" => "localhost",
            host => host,
        };
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(stream) => return Gdb::over(stream, patience),
                Err(error) => failed = error,
            }
        }
        Err(failed.into())
    }

    /// Negotiates the protocol and lets the machine run.
    fn over(stream: TcpStream, patience: Duration) -> Result<Gdb, Error> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        let mut gdb = Gdb {
            stream,
            input: Vec::new(),
            is_foreign: false,
            has_answered: false,
            patience,
            acknowledges: true,
            packet_size: USUAL_PACKET,
            reads_binary: false,
            writes_binary: false,
            resume: b"c",
            // Until the server says that the machine is halted.
            runs: true,
        };
        gdb.send(b"+")?;
        let offers = gdb.request(
            "what it supports",
            b"qSupported:binary-upload+",
            Want::Answer,
        )?;
        let mut no_acknowledgements = false;
        for offer in offers.split(|&byte| byte == b';') {
            match offer {
                b"QStartNoAckMode+" => no_acknowledgements = true,
                b"binary-upload+" => gdb.reads_binary = true,
                _ => {
                    if let Some(size) = offer.strip_prefix(b"PacketSize=").and_then(number) {
                        gdb.packet_size = size;
                    }
                }
            }
        }
        if gdb.packet_size < LEAST_PACKET {
            return Err(Error::TinyPackets(gdb.packet_size));
        }
        if no_acknowledgements {
            let what = "the request for no acknowledgements";
            gdb.acknowledges = gdb.request(what, b"QStartNoAckMode", Want::Answer)? != b"OK";
        }
        gdb.request("the question about the machine's state", b"?", Want::Halt)?;
        gdb.runs = false;
        let ways = gdb.request("how it lets a machine run", b"vCont?", Want::Answer)?;
        if ways.split(|&byte| byte == b';').any(|way| way == b"c") {
            gdb.resume = b"vCont;c";
        }
        gdb.run()?;
        Ok(gdb)
    }

    /// Lets the machine run. Nothing is answered until it halts.
    pub(crate) fn run(&mut self) -> Result<(), Error> {
        if !self.runs {
            self.send(&packet(self.resume))?;
            self.runs = true;
        }
        Ok(())
    }

    /// Halts the machine.
    pub(crate) fn halt(&mut self) -> Result<(), Error> {
        if self.runs {
            self.send(&[3])?;
            self.answer("the request to halt the machine", b"", Want::Halt)?;
            self.runs = false;
        }
        Ok(())
    }

    /// Reads the machine's memory from `at` on.
    pub(crate) fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        let what = "a read of memory";
        let piece = ((self.packet_size - 4) / 2).min(PIECE) & !3;
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let len = rest.len().min(piece);
            let how = if self.reads_binary { 'x' } else { 'm' };
            let request = format!("{how}{at:x},{len:x}");
            let answer = self.request(what, request.as_bytes(), Want::Answer)?;
            let bytes = match answer.strip_prefix(b"b") {
                Some(bytes) if self.reads_binary => Some(bytes.to_vec()),
                _ => {
                    refusal(what, at, &answer)?;
                    (!self.reads_binary).then(|| from_hex(&answer)).flatten()
                }
            };
            // A server may answer with less than it was asked for.
            let bytes = bytes.filter(|bytes| !bytes.is_empty());
            let bytes = bytes.ok_or(Error::Unexpected { what })?;
            let Some((place, after)) = rest.split_at_mut_checked(bytes.len()) else {
                return Err(Error::Unexpected { what });
            };
            place.copy_from_slice(&bytes);
            at = at.wrapping_add(bytes.len() as u64);
            rest = after;
        }
        Ok(())
    }

    /// Writes a word to the machine's memory.
    pub(crate) fn write(&mut self, at: u64, word: u32) -> Result<(), Error> {
        let what = "a write to memory";
        let bytes = word.to_le_bytes();
        if !self.writes_binary {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let request = format!("M{at:x},4:{digits}");
            let answer = self.request(what, request.as_bytes(), Want::Answer)?;
            self.writes_binary = answer.is_empty();
            if !self.writes_binary {
                return written(what, at, &answer);
            }
        }
        let mut request = format!("X{at:x},4:").into_bytes();
        for byte in bytes {
            match byte {
                b'#' | b'$' | b'}' | b'*' => request.extend([b'}', byte ^ 0x20]),
                byte => request.push(byte),
            }
        }
        let answer = self.request(what, &request, Want::Answer)?;
        written(what, at, &answer)
    }

    fn request(&mut self, what: &'static str, body: &[u8], want: Want) -> Result<Vec<u8>, Error> {
        let request = packet(body);
        self.send(&request)?;
        self.answer(what, &request, want)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream
            .write_all(bytes)
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Closed,
                _ => Error::Io(error),
            })
    }

    /// Waits for an answer; sends the request again if the server asks for it.
    fn answer(&mut self, what: &'static str, request: &[u8], want: Want) -> Result<Vec<u8>, Error> {
        let mut deadline = Instant::now() + self.patience;
        let (mut attempts, mut has_halted) = (0, false);
        loop {
            match self.next()? {
                Some(Piece::Packet(body)) => match (body.first(), want) {
                    // What the machine prints.
                    (Some(b'O'), _) if body != b"OK" => {}
                    (Some(b'W' | b'X'), _) => return Err(Error::Ended),
                    (Some(b'T' | b'S'), Want::Halt) => return Ok(body),
                    (Some(b'T' | b'S'), Want::Answer) => {
                        // The machine has halted for a reason of its own, and the answer follows;
                        // or because the server has received the request, which is then lost.
                        if std::mem::take(&mut self.runs) {
                            has_halted = true;
                            deadline = deadline.min(Instant::now() + self.patience / 10);
                        }
                    }
                    (None, Want::Halt) => return Err(Error::Unsupported { what }),
                    (Some(_), Want::Halt) => {}
                    (_, Want::Answer) => return Ok(body),
                },
                Some(Piece::Again) if self.acknowledges => {
                    attempts += 1;
                    if attempts >= ATTEMPTS {
                        return Err(Error::Damaged);
                    }
                    self.send(request)?;
                }
                Some(Piece::Again) => {}
                Some(Piece::Damaged) => {
                    attempts += 1;
                    if !self.acknowledges || attempts >= ATTEMPTS {
                        return Err(Error::Damaged);
                    }
                    self.send(b"-")?;
                }
                None if self.fill(deadline)? => {}
                None if has_halted => return Err(Error::Halted),
                None if self.is_foreign => return Err(Error::Foreign),
                None => {
                    return Err(Error::Silent {
                        what,
                        patience: self.patience,
                    });
                }
            }
        }
    }

    /// The next packet that has arrived, acknowledged if it has to be.
    fn next(&mut self) -> Result<Option<Piece>, Error> {
        let (used, piece) = parse(&self.input);
        self.input.drain(..used);
        match &piece {
            Some(Piece::Packet(_)) => {
                (self.is_foreign, self.has_answered) = (false, true);
                if self.acknowledges {
                    self.send(b"+")?;
                }
            }
            None if self.input.len() > MUCH => return Err(Error::Foreign),
            _ => {}
        }
        Ok(piece)
    }

    /// Waits for more bytes; `false` if none have come by `deadline`.
    fn fill(&mut self, deadline: Instant) -> Result<bool, Error> {
        let mut bytes = [0; 8192];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(Error::Closed),
                Ok(read) => {
                    // Until the first packet: afterwards text between packets does no harm.
                    self.is_foreign |= !self.has_answered;
                    self.input.extend(bytes.get(..read).unwrap_or_default());
                    return Ok(true);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Ok(false),
                    io::ErrorKind::ConnectionReset => return Err(Error::Closed),
                    _ => return Err(Error::Io(error)),
                },
            }
        }
    }
}

/// Leaves the machine running.
impl Drop for Gdb {
    fn drop(&mut self) {
        // Nothing can be done if the server has gone.
        let _ = self.run();
    }
}

/// What a server sends.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// A packet's body, decoded.
    Packet(Vec<u8>),
    /// A packet whose checksum is wrong.
    Damaged,
    /// The server asks for the last packet again.
    Again,
}

/// Looks for a piece at the beginning of `input`; returns how many bytes are dealt with.
fn parse(input: &[u8]) -> (usize, Option<Piece>) {
    let Some(begin) = input.iter().position(|byte| b"$%-".contains(byte)) else {
        return (input.len(), None);
    };
    if input.get(begin) == Some(&b'-') {
        return (begin + 1, Some(Piece::Again));
    }
    let rest = input.get(begin + 1..).unwrap_or_default();
    let Some(len) = rest.iter().position(|&byte| byte == b'#') else {
        return (begin, None);
    };
    let (body, check) = rest.split_at(len);
    let Some(check) = check.get(1..3) else {
        return (begin, None);
    };
    let used = begin + 1 + len + 3;
    // A packet that was cut is followed by a whole one: its text never has this byte.
    let body = body.rsplit(|&byte| byte == b'$').next().unwrap_or(body);
    let whole = from_hex(check).is_some_and(|check| check == [sum(body)]);
    match decode(body).filter(|_| whole) {
        None => (used, Some(Piece::Damaged)),
        // Notifications are not asked for.
        Some(_) if input.get(begin) == Some(&b'%') => {
            let (more, piece) = parse(input.get(used..).unwrap_or_default());
            (used + more, piece)
        }
        Some(body) => (used, Some(Piece::Packet(body))),
    }
}

/// Undoes escapes, and runs of the same byte.
fn decode(body: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(body.len());
    let mut bytes = body.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'}' => decoded.push(bytes.next()? ^ 0x20),
            b'*' => {
                let times = usize::from(bytes.next()?.checked_sub(29)?);
                let last = *decoded.last()?;
                decoded.resize(decoded.len() + times, last);
            }
            byte => decoded.push(byte),
        }
        if decoded.len() > MUCH {
            return None;
        }
    }
    Some(decoded)
}

fn packet(body: &[u8]) -> Vec<u8> {
    let check = format!("#{:02x}", sum(body));
    [b"$", body, check.as_bytes()].concat()
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

fn number(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs
        .iter()
        .map(|&[high, low]| u8::try_from(digit(high)? << 4 | digit(low)?).ok());
    bytes.collect::<Option<_>>().filter(|_| rest.is_empty())
}

/// The error in an answer, if it is one.
fn refusal(what: &'static str, at: u64, answer: &[u8]) -> Result<(), Error> {
    match answer {
        [] => Err(Error::Unsupported { what }),
        [b'E', b'.', ..] | [b'E', _, _] => Err(Error::Refused {
            what,
            at,
            code: String::from_utf8_lossy(answer)
                .escape_debug()
                .take(80)
                .collect(),
        }),
        _ => Ok(()),
    }
}

fn written(what: &'static str, at: u64, answer: &[u8]) -> Result<(), Error> {
    refusal(what, at, answer)?;
    match answer {
        b"OK" => Ok(()),
        _ => Err(Error::Unexpected { what }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_found_between_other_bytes() {
        let body = |text: &str| Some(Piece::Packet(text.as_bytes().to_vec()));
        type Case = (&'static [u8], (usize, Option<Piece>));
        let cases: [Case; 14] = [
            (b"", (0, None)),
            (b"+++text", (7, None)),
            (b"+$OK#9a$", (7, body("OK"))),
            (b"$#00", (4, body(""))),
            (b"$OK#9", (0, None)),
            (b"$OK", (0, None)),
            (b"+$OK", (1, None)),
            (b"-$OK#9a", (1, Some(Piece::Again))),
            (b"$OK#9b", (6, Some(Piece::Damaged))),
            (b"$OK#zz", (6, Some(Piece::Damaged))),
            // A packet that was cut, a notification, a run, an escaped byte.
            (b"$12ab$OK#9a", (11, body("OK"))),
            (b"%Stop:#e0$OK#9a", (15, body("OK"))),
            (b"$0* #7a", (7, body("0000"))),
            (b"$}\x03#80", (6, body("#"))),
        ];
        for (input, expected) in cases {
            assert_eq!(
                parse(input),
                expected,
                "{:?}",
                String::from_utf8_lossy(input)
            );
        }
        // Runs and escapes of nothing.
        for body in [&b"*!"[..], b"0*", b"0*\x1c", b"0}"] {
            assert_eq!(decode(body), None, "{body:?}");
        }
    }

    #[test]
    fn hexadecimal_digits_are_read() {
        assert_eq!(from_hex(b"00fFa7"), Some(vec![0, 255, 0xa7]));
        assert_eq!(from_hex(b"0"), None);
        assert_eq!(from_hex(b"0g"), None);
    }
}
