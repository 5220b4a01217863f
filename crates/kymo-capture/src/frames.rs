//! Decodes frames from a line; missing ones are counted. Takes bytes and delivers messages, without
//! files or sockets.

use kymo::Diagnostics;
use kymo::wire::{self, Arrived, Frame, Kind, Open};

/// A message of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A session was opened.
    Open(Open),
    /// The next bytes of a channel.
    Data {
        /// The channel, as [`kymo::Recorder`] numbers them.
        channel: u32,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Frames of unknown channels are missing here.
    Gap,
    /// The end of the trace.
    Close(Diagnostics),
}

/// Faults of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Stretches of bytes in which no frame was found.
    pub damaged: u64,
    /// Bytes in these stretches.
    pub damaged_bytes: u64,
    /// Missing frames, according to the numbers of the others.
    pub missing: u64,
    /// Frames that were duplicated, late or malformed, and were left out.
    pub unexpected: u64,
}

impl Faults {
    /// Whether there were any faults.
    pub fn any(&self) -> bool {
        *self != Faults::default()
    }
}

/// Assembles frames and counts faults.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// Bytes that have arrived and are not part of a frame yet.
    waiting: Vec<u8>,
    /// Bytes that have to be waiting before there is anything to parse.
    need: usize,
    /// The expected number of the next frame.
    next: u32,
    /// Whether the position is inside a damaged stretch.
    lost: bool,
    faults: Faults,
}

impl FrameReader {
    /// The faults so far.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Processes bytes that have arrived; passes each message to `deliver` as soon as it is
    /// complete.
    ///
    /// # Errors
    /// Those of `deliver`; the message is then lost.
    pub fn take<E>(
        &mut self,
        bytes: &[u8],
        deliver: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.waiting.extend_from_slice(bytes);
        self.parse(false, deliver)
    }

    /// Ends the line: finds frames after one that is truncated or has a wrong length.
    ///
    /// # Errors
    /// The errors of [`take`](Self::take).
    pub fn end<E>(&mut self, deliver: impl FnMut(Message<'_>) -> Result<(), E>) -> Result<(), E> {
        self.parse(true, deliver)
    }

    fn parse<E>(
        &mut self,
        ended: bool,
        mut deliver: impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.waiting.len() < self.need && !ended {
            return Ok(());
        }
        self.need = 0;
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut rest = waiting.as_slice();
        let mut result = Ok(());
        while !rest.is_empty() && result.is_ok() {
            let skip = match wire::parse(rest) {
                Arrived::Frame(frame) => {
                    self.lost = false;
                    rest = rest.get(frame.size()..).unwrap_or_default();
                    result = self.frame(&frame, &mut deliver);
                    continue;
                }
                Arrived::Need(need) if !ended => {
                    self.need = need;
                    break;
                }
                // The frame is truncated, or its length is wrong and it contains others.
                Arrived::Need(_) => 1,
                Arrived::Damage(bytes) => bytes,
            };
            self.faults.damaged += u64::from(!std::mem::replace(&mut self.lost, true));
            self.faults.damaged_bytes += skip as u64;
            rest = rest.get(skip..).unwrap_or_default();
        }
        let taken = waiting.len() - rest.len();
        waiting.drain(..taken);
        self.waiting = waiting;
        result
    }

    fn frame<E>(
        &mut self,
        frame: &Frame<'_>,
        deliver: &mut impl FnMut(Message<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let message = match frame.kind {
            Kind::Open => Open::from_bytes(frame.payload).map(Message::Open),
            Kind::Data => Some(Message::Data {
                channel: frame.channel,
                bytes: frame.payload,
            }),
            Kind::Close => wire::diagnostics(frame.payload).map(Message::Close),
            Kind::Stop => None,
        };
        // A restarted program numbers its frames anew.
        let again = frame.kind == Kind::Open && frame.number == 0;
        let ahead = if again {
            0
        } else {
            frame.number.wrapping_sub(self.next)
        };
        let Some(message) = message.filter(|_| ahead < 1 << 31) else {
            self.faults.unexpected += 1;
            return Ok(());
        };
        self.next = frame.number.wrapping_add(1);
        if ahead > 0 {
            self.faults.missing += u64::from(ahead);
            deliver(Message::Gap)?;
        }
        deliver(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, channel: u32, number: u32, payload: &[u8]) -> Vec<u8> {
        [&wire::header(kind, channel, number, payload)[..], payload].concat()
    }

    fn data(number: u32) -> Vec<u8> {
        frame(Kind::Data, 1, number, &number.to_le_bytes())
    }

    /// Reads a line that arrives in pieces of `step` bytes; returns the numbers in the data,
    /// `u32::MAX` for a gap.
    fn through(line: &[u8], step: usize) -> (Vec<u32>, Faults) {
        let mut reader = FrameReader {
            next: first(line),
            ..FrameReader::default()
        };
        let mut seen = Vec::new();
        let mut deliver = |message: Message<'_>| {
            match message {
                Message::Data { channel, bytes } => {
                    assert_eq!(channel, 1);
                    seen.push(u32::from_le_bytes(bytes.try_into().unwrap()));
                }
                Message::Gap => seen.push(u32::MAX),
                Message::Open(_) => seen.push(1000),
                Message::Close(diagnostics) => seen.push(2000 + diagnostics.overwritten as u32),
            }
            Ok::<(), ()>(())
        };
        for piece in line.chunks(step) {
            reader.take(piece, &mut deliver).unwrap();
        }
        reader.end(&mut deliver).unwrap();
        (seen, reader.faults())
    }

    fn first(line: &[u8]) -> u32 {
        line.get(12..16)
            .map_or(0, |number| u32::from_le_bytes(number.try_into().unwrap()))
    }

    #[test]
    fn frames_arrive_however_the_line_is_cut() {
        let totals = Diagnostics {
            overwritten: 7,
            ..Diagnostics::default()
        };
        let line = [
            frame(
                Kind::Open,
                0,
                0,
                &Open {
                    channels: 3,
                    flags: 0,
                }
                .to_bytes(),
            ),
            data(1),
            data(2),
            frame(Kind::Close, 0, 3, &wire::close(&totals)),
        ]
        .concat();
        for step in [1, 2, 23, 24, 25, 29, line.len()] {
            assert_eq!(
                through(&line, step),
                (vec![1000, 1, 2, 2007], Faults::default()),
                "{step}"
            );
        }
    }

    #[test]
    fn frames_that_are_missing_are_counted_where_they_are() {
        let line = [data(0), data(1), data(5), data(6)].concat();
        assert_eq!(
            through(&line, 7),
            (
                vec![0, 1, u32::MAX, 5, 6],
                Faults {
                    missing: 3,
                    ..Faults::default()
                }
            )
        );
        // Numbers wrap after the largest one.
        let line = [data(u32::MAX - 1), data(u32::MAX), data(0), data(2)].concat();
        let (seen, faults) = through(&line, 7);
        assert_eq!(
            (&seen[2..], faults),
            (
                &[0, u32::MAX, 2][..],
                Faults {
                    missing: 1,
                    ..Faults::default()
                }
            )
        );
    }

    #[test]
    fn frames_that_come_again_or_make_no_sense_are_left_out() {
        let line = [
            data(0),
            data(1),
            data(0),
            frame(Kind::Stop, 0, 2, b""),
            frame(Kind::Close, 0, 2, b"short"),
            data(2),
        ]
        .concat();
        assert_eq!(
            through(&line, 100),
            (
                vec![0, 1, 2],
                Faults {
                    unexpected: 3,
                    ..Faults::default()
                }
            )
        );
        // But a sender that opens a session numbers its frames anew.
        let open = frame(
            Kind::Open,
            0,
            0,
            &Open {
                channels: 3,
                flags: 0,
            }
            .to_bytes(),
        );
        let line = [data(8), data(9), open, data(1)].concat();
        assert_eq!(
            through(&line, 100),
            (vec![8, 9, 1000, 1], Faults::default())
        );
    }

    #[test]
    fn any_flipped_bit_costs_one_frame() {
        let good: Vec<Vec<u8>> = (0..4).map(data).collect();
        let size = good[1].len();
        for bit in 0..8 * size {
            let mut line = good.concat();
            line[size + bit / 8] ^= 1 << (bit % 8);
            let (seen, faults) = through(&line, 5);
            assert_eq!(seen, [0, u32::MAX, 2, 3], "bit {bit}");
            assert_eq!(
                faults,
                Faults {
                    damaged: 1,
                    damaged_bytes: size as u64,
                    missing: 1,
                    unexpected: 0
                },
                "bit {bit}"
            );
        }
    }

    #[test]
    fn what_is_cut_at_the_end_is_damage() {
        let line = [data(0), data(1)].concat();
        let (seen, faults) = through(&line[..line.len() - 1], 100);
        assert_eq!(
            (seen, faults.damaged, faults.damaged_bytes),
            (vec![0], 1, data(1).len() as u64 - 1)
        );
    }
}
