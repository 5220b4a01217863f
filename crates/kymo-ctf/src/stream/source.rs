//! Sources of a stream's bytes: memory, or any sequential reader.

use std::io::Read;

use crate::error::DecodeError;

/// A stream of bytes with a window that moves forward.
pub(crate) trait Source {
    /// Moves the window to offset `at`, which must not have been released, and makes it `wanted`
    /// bytes long, or shorter at the end of the stream.
    fn seek(&mut self, at: u64, wanted: u64) -> Result<(), DecodeError>;

    /// Releases the bytes before offset `before`: they will not be needed again.
    fn release(&mut self, before: u64);

    /// The window.
    fn bytes(&self) -> &[u8];

    /// The window and up to [`AHEAD`] bytes after it, if available.
    fn ahead(&self) -> &[u8];
}

/// Bytes after the window that may be loaded.
pub(crate) const AHEAD: usize = 32;

/// Bytes in memory, mapped or not.
#[derive(Debug, Clone)]
pub(crate) struct Slice<'a> {
    all: &'a [u8],
    window: &'a [u8],
    ahead: &'a [u8],
}

impl<'a> Slice<'a> {
    pub(crate) fn new(all: &'a [u8]) -> Self {
        Slice {
            all,
            window: &[],
            ahead: &[],
        }
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> u64 {
        self.all.len() as u64
    }
}

impl Source for Slice<'_> {
    fn seek(&mut self, at: u64, wanted: u64) -> Result<(), DecodeError> {
        let rest = usize::try_from(at)
            .ok()
            .and_then(|at| self.all.get(at..))
            .unwrap_or(&[]);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        self.window = rest.get(..wanted).unwrap_or(rest);
        self.ahead = rest.get(..wanted.saturating_add(AHEAD)).unwrap_or(rest);
        Ok(())
    }

    fn release(&mut self, _: u64) {}

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.window
    }

    #[inline(always)]
    fn ahead(&self) -> &[u8] {
        self.ahead
    }
}

/// Bytes read on demand.
#[derive(Debug)]
pub(crate) struct Reading<R> {
    source: R,
    /// The bytes from offset `base`; those before offset `released` are no longer needed.
    buffer: Vec<u8>,
    base: u64,
    released: u64,
    start: usize,
    length: usize,
}

impl<R: Read> Reading<R> {
    pub(crate) fn new(source: R) -> Self {
        Reading {
            source,
            buffer: Vec::new(),
            base: 0,
            released: 0,
            start: 0,
            length: 0,
        }
    }
}

/// Released bytes are dropped in steps of at least this many, so that the rest is seldom moved.
const DONE_WITH: usize = 1 << 16;

impl<R: Read> Source for Reading<R> {
    fn seek(&mut self, at: u64, wanted: u64) -> Result<(), DecodeError> {
        let fail = |error: std::io::Error| DecodeError::Io(error.to_string());
        let done =
            usize::try_from(self.released.min(at).saturating_sub(self.base)).unwrap_or(usize::MAX);
        if done >= DONE_WITH {
            let dropped = done.min(self.buffer.len());
            self.buffer.drain(..dropped);
            self.base += dropped as u64;
            // Released bytes that were never read.
            let skipped = (done - dropped) as u64;
            self.base += std::io::copy(
                &mut self.source.by_ref().take(skipped),
                &mut std::io::sink(),
            )
            .map_err(fail)?;
        }
        let start = at.saturating_sub(self.base);
        let end = start.saturating_add(wanted);
        let missing = end.saturating_sub(self.buffer.len() as u64);
        if missing > 0 {
            // `read_to_end` grows the buffer with the bytes that arrive, so a packet that only
            // claims to be huge costs nothing.
            self.source
                .by_ref()
                .take(missing)
                .read_to_end(&mut self.buffer)
                .map_err(fail)?;
        }
        self.start = usize::try_from(start)
            .unwrap_or(usize::MAX)
            .min(self.buffer.len());
        self.length = usize::try_from(end)
            .unwrap_or(usize::MAX)
            .min(self.buffer.len())
            - self.start;
        Ok(())
    }

    fn release(&mut self, before: u64) {
        self.released = self.released.max(before);
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.buffer
            .get(self.start..self.start + self.length)
            .unwrap_or(&[])
    }

    #[inline(always)]
    fn ahead(&self) -> &[u8] {
        let end = (self.start + self.length + AHEAD).min(self.buffer.len());
        self.buffer.get(self.start..end).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_both_kinds_are_the_same() {
        let all: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let mut slice = Slice::new(&all);
        let mut reading = Reading::new(&all[..]);
        for (at, wanted) in [
            (0, 10),
            (0, 100),
            (5, 3),
            (5, 70_000),
            (70_000, 1),
            (150_000, 10),
            (150_001, 10),
            (199_999, 9),
            (300_000, 4),
        ] {
            slice.seek(at, wanted).unwrap();
            reading.seek(at + 3, wanted).unwrap();
            reading.seek(at, wanted).unwrap();
            reading.release(at);
            assert_eq!(slice.bytes(), reading.bytes(), "{at}+{wanted}");
            let length = (wanted as usize).min(all.len().saturating_sub(at as usize));
            assert_eq!(slice.bytes().len(), length);
        }
    }
}
