//! Functions by address, from `nm -CS` or from a program.

use std::io::{self, BufRead};

use super::Problems;
use super::line::{Lines, Malformed, hexadecimal};

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its first address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Its demangled name.
    pub name: String,
}

/// The functions of a program, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    by_address: Vec<Function>,
    /// Functions that were left out as they have no size.
    pub without_size: u64,
}

impl Functions {
    /// The functions may be in any order.
    pub fn new(functions: Vec<Function>) -> Functions {
        let (mut by_address, others): (Vec<_>, Vec<_>) = functions
            .into_iter()
            .partition(|function| function.size > 0);
        // Of several at one address, the last one is the longest, then the first by name.
        by_address.sort_unstable_by(|a, b| {
            (a.address, a.size, &b.name).cmp(&(b.address, b.size, &a.name))
        });
        Functions {
            by_address,
            without_size: others.len() as u64,
        }
    }

    /// Reads what `nm -CS` prints: an address, a size, a type and a name on each line. Only the
    /// types `t` and `T` are functions. `problems` gets the lines that cannot be read.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub fn from_nm(text: impl BufRead, problems: &mut Problems) -> io::Result<Functions> {
        let mut lines = Lines::new(text);
        let mut functions = Vec::new();
        while let Some((number, line)) = lines.next_line()? {
            match line.and_then(row) {
                Ok(function) => functions.extend(function),
                Err(error) => problems.add(number, error),
            }
        }
        Ok(Functions::new(functions))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The last function that begins at or before the address, which may lie behind its end.
    pub fn before(&self, address: u64) -> Option<&Function> {
        let after = self
            .by_address
            .partition_point(|function| function.address <= address);
        self.by_address.get(after.checked_sub(1)?)
    }
}

/// The function on a line of `nm -CS`; `None` if the line is about something else.
fn row(line: &[u8]) -> Result<Option<Function>, Malformed> {
    let line = line.trim_ascii_end();
    // An undefined symbol has no address.
    if line.is_empty() || line.starts_with(b" ") {
        return Ok(None);
    }
    let (address, rest) = word(line);
    let address = hexadecimal(address).ok_or(Malformed::Symbol)?;
    // `nm` leaves out a size that is unknown: the type stands in its place.
    let (size, rest) = match word(rest) {
        ([letter], _) if letter.is_ascii_alphabetic() => (Some(0), rest),
        (size, rest) => (hexadecimal(size), rest),
    };
    let (kind, name) = word(rest);
    match (size, kind, name) {
        (Some(0), _, name) if is_local(name) => Ok(None),
        (Some(size), [kind], [_, ..]) => Ok(matches!(kind, b't' | b'T').then(|| Function {
            address,
            size,
            name: String::from_utf8_lossy(name).into_owned(),
        })),
        _ => Err(Malformed::Symbol),
    }
}

/// Whether a name is the assembler's: `.L0` and `$x` are places, not functions.
fn is_local(name: &[u8]) -> bool {
    name.starts_with(b".L") || name.starts_with(b"$")
}

/// The bytes before and behind the first blank.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let blank = text.iter().position(|&byte| byte == b' ');
    let end = blank.unwrap_or(text.len());
    (
        text.get(..end).unwrap_or_default(),
        text.get(end + 1..).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NM: &str = "0000000000001000 0000000000000010 T first
0000000000001020 0000000000000008 t kernel::second<(A, B)>::{closure#0}
0000000000001020 0000000000000004 T short alias
0000000000001020 0000000000000008 T alias
0000000000002000 0000000000000008 D data
                 U undefined
0000000000003000 T without_size
0000000000003000 d also
0000000000003000 t .Lpcrel_hi0
0000000000003000 t $x
not a symbol
0000000000004000 0000000000000010 T

";

    #[test]
    fn functions_are_read_from_nm() {
        let mut problems = Problems::default();
        let functions = Functions::from_nm(NM.as_bytes(), &mut problems).unwrap();
        let at = |address| functions.before(address).map(|function| &*function.name);
        assert_eq!(at(0xfff), None);
        assert_eq!(at(0x1000), Some("first"));
        assert_eq!(at(0x101f), Some("first"));
        assert_eq!(at(0x1020), Some("alias"));
        assert_eq!(at(u64::MAX), Some("alias"));
        assert_eq!(functions.without_size, 1);
        let lines: Vec<u64> = problems.first.iter().map(|(line, _)| *line).collect();
        assert_eq!((problems.count, lines), (2, vec![11, 12]));
        assert!(Functions::new(Vec::new()).is_empty());
    }
}
