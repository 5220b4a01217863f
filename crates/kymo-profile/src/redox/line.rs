//! Lines of a profile: `context cpu tsc address address ...`, numbers in hexadecimal.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// A sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The thread's name in the Redox kernel; `[kmain]` while the kernel starts or idles.
    pub context: Cow<'a, str>,
    /// The CPU.
    pub cpu: u32,
    /// The time stamp counter.
    pub ticks: u64,
    /// The instruction pointer, then the return addresses, innermost caller first; not empty.
    pub stack: Vec<u64>,
}

/// Why a line is not a sample, or not a symbol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// It ends before the first address.
    #[error("expected a context, a CPU, a time and addresses, found {words} words")]
    Short {
        /// How many words there are.
        words: usize,
    },
    /// The second word is no CPU.
    #[error("the CPU \"{0}\" is not a hexadecimal number of at most 32 bits")]
    Cpu(String),
    /// The third word is no time.
    #[error("the time \"{0}\" is not a hexadecimal number of at most 64 bits")]
    Time(String),
    /// A later word is no address.
    #[error("the address \"{0}\" is not a hexadecimal number of at most 64 bits")]
    Address(String),
    /// A line of `nm` is none.
    #[error("expected an address, a size, a type and a name, as nm -CS prints them")]
    Symbol,
    /// There are more bytes than in any profile.
    #[error("the line has more than {LONGEST} bytes")]
    Long,
}

/// The longest line that is read, in bytes. The kernel's samples have at most 29 addresses.
pub const LONGEST: usize = 1 << 16;

/// Characters of a wrong word that an error shows.
const SHOWN: usize = 32;

impl<'a> Line<'a> {
    /// Parses a line. `None` if it is blank.
    ///
    /// # Errors
    /// [`Malformed`] if any word is wrong: half a stack would be a wrong sample.
    pub fn parse(line: &'a [u8]) -> Result<Option<Line<'a>>, Malformed> {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let (first, cpu, ticks) = (words.next(), words.next(), words.next());
        let Some(context) = first else {
            return Ok(None);
        };
        let (Some(cpu), Some(ticks)) = (cpu, ticks) else {
            let words = [cpu, ticks].into_iter().flatten().count() + 1;
            return Err(Malformed::Short { words });
        };
        let narrow = hexadecimal(cpu).and_then(|cpu| u32::try_from(cpu).ok());
        let cpu = narrow.ok_or_else(|| Malformed::Cpu(shown(cpu)))?;
        let ticks = hexadecimal(ticks).ok_or_else(|| Malformed::Time(shown(ticks)))?;
        let stack = words
            .map(|word| hexadecimal(word).ok_or_else(|| Malformed::Address(shown(word))))
            .collect::<Result<Vec<u64>, Malformed>>()?;
        if stack.is_empty() {
            return Err(Malformed::Short { words: 3 });
        }
        Ok(Some(Line {
            context: String::from_utf8_lossy(context),
            cpu,
            ticks,
            stack,
        }))
    }
}

/// A number of hexadecimal digits only, of at most 64 bits.
pub(super) fn hexadecimal(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |number, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        (number >> 60 == 0).then_some(number << 4 | u64::from(digit))
    })
}

/// The word as an error shows it.
fn shown(word: &[u8]) -> String {
    let word = String::from_utf8_lossy(word);
    let mut text: String = word
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if word.chars().nth(SHOWN).is_some() {
        text.push_str("...");
    }
    text
}

/// A line's number and its bytes.
pub type Numbered<'a> = (u64, Result<&'a [u8], Malformed>);

/// The lines of a text, each with its number from 1. Memory is bounded by [`LONGEST`].
#[derive(Debug)]
pub struct Lines<R> {
    text: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The lines of this text.
    pub fn new(text: R) -> Lines<R> {
        Lines {
            text,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The next line without its end; `None` after the last one.
    ///
    /// # Errors
    /// If the text cannot be read; a line that is too long is an error of its own.
    pub fn next_line(&mut self) -> io::Result<Option<Numbered<'_>>> {
        self.line.clear();
        let mut is_long = false;
        let mut is_empty = true;
        loop {
            let block = match self.text.fill_buf() {
                Ok(block) => block,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if block.is_empty() {
                break;
            }
            is_empty = false;
            let end = block.iter().position(|&byte| byte == b'\n');
            let part = block.get(..end.unwrap_or(block.len())).unwrap_or_default();
            is_long |= self.line.len() + part.len() > LONGEST;
            if !is_long {
                self.line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.text.consume(used);
            if end.is_some() {
                break;
            }
        }
        if is_empty {
            return Ok(None);
        }
        self.number += 1;
        let line = match is_long {
            true => Err(Malformed::Long),
            false => Ok(self.line.strip_suffix(b"\r").unwrap_or(&self.line)),
        };
        Ok(Some((self.number, line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_sample() {
        let line = Line::parse(b"file:/bin/dd 1f 7f3a00 ffffffff80001000 7fff1\r").unwrap();
        let wanted = Line {
            context: "file:/bin/dd".into(),
            cpu: 31,
            ticks: 0x7f3a00,
            stack: vec![0xffff_ffff_8000_1000, 0x7fff1],
        };
        assert_eq!(line, Some(wanted));
        let line = Line::parse(b"  [kmain]  0\t0 ffffffffffffffff ")
            .unwrap()
            .unwrap();
        assert_eq!(line.stack, [u64::MAX]);
        assert_eq!(Line::parse(b" \t"), Ok(None));
        assert_eq!(Line::parse(b""), Ok(None));
    }

    #[test]
    fn a_malformed_line_is_an_error_that_shows_its_word() {
        for (line, wanted) in [
            (
                &b"a"[..],
                "expected a context, a CPU, a time and addresses, found 1 words",
            ),
            (
                b"a 1 2",
                "expected a context, a CPU, a time and addresses, found 3 words",
            ),
            (b"a b c 1 x", "the address \"x\" is not"),
            (b"a zz 1 1", "the CPU \"zz\" is not"),
            (b"a 100000000 1 1", "the CPU \"100000000\" is not"),
            (b"a 1 -1 1", "the time \"-1\" is not"),
            (
                b"a 1 10000000000000000 1",
                "the time \"10000000000000000\" is not",
            ),
            (
                b"a 1 1 1 10000000000000000",
                "the address \"10000000000000000\" is not",
            ),
            (b"a 1 1 +1", "the address \"+1\" is not"),
            (b"a 1 1 0x1", "the address \"0x1\" is not"),
            (b"a 1 1 \xff\x1b", "the address \"\u{fffd}\\u{1b}\" is not"),
        ] {
            let error = Line::parse(line).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
        let long = [b"a 1 1 ".as_slice(), &[b'z'; 500]].concat();
        let error = Line::parse(&long).unwrap_err().to_string();
        assert!(error.len() < 120, "{error}");
    }

    fn lines(text: &[u8], block: usize) -> Vec<(u64, Result<Vec<u8>, Malformed>)> {
        let mut lines = Lines::new(io::BufReader::with_capacity(block, text));
        let mut all = Vec::new();
        while let Some((number, line)) = lines.next_line().unwrap() {
            all.push((number, line.map(<[u8]>::to_vec)));
        }
        all
    }

    #[test]
    fn lines_are_numbered_and_bounded() {
        let long = vec![b'x'; LONGEST + 1];
        let text = [b"a\r\n\n".as_slice(), &long, b"\nb"].concat();
        for block in [1, 7, 1 << 20] {
            assert_eq!(
                lines(&text, block),
                [
                    (1, Ok(b"a".to_vec())),
                    (2, Ok(Vec::new())),
                    (3, Err(Malformed::Long)),
                    (4, Ok(b"b".to_vec())),
                ]
            );
        }
        assert_eq!(lines(&long[1..], 100), [(1, Ok(long[1..].to_vec()))]);
        assert_eq!(lines(b"", 100), []);
    }
}
