//! Functions by address, from `nm -CS` or from a program.

use std::io::{self, BufRead};

use kymo_symbols::{SymbolTable, text_of};

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
    table: SymbolTable,
    /// Functions that were left out as they have no size.
    pub without_size: u64,
}

impl Functions {
    /// The functions may be in any order.
    pub fn new(functions: Vec<Function>) -> Functions {
        let (mut by_address, others): (Vec<_>, Vec<_>) = functions
            .into_iter()
            .partition(|function| function.size > 0);
        // Of several with the same range, the first by name is the function's.
        by_address.sort_unstable_by(|a, b| {
            (a.address, a.size, &a.name).cmp(&(b.address, b.size, &b.name))
        });
        let ranges = by_address
            .iter()
            .map(|of| of.address..of.address.saturating_add(of.size));
        Functions {
            table: SymbolTable::new(ranges),
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
        let mut has_thumb = false;
        while let Some((number, line)) = lines.next_line()? {
            has_thumb |= line
                .as_ref()
                .is_ok_and(|line| line.trim_ascii_end().ends_with(b" t $t"));
            match line.and_then(row) {
                Ok(function) => functions.extend(function),
                Err(error) => problems.add(number, error),
            }
        }
        if has_thumb {
            // Bit 0 says that a function's instructions are Thumb's: they are at even addresses.
            functions
                .iter_mut()
                .for_each(|of: &mut Function| of.address &= !1);
        }
        Ok(Functions::new(functions))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// The innermost function that contains the address. If none does, the last one that begins
    /// before the address, which lies behind its end.
    pub fn before(&self, address: u64) -> Option<&Function> {
        if let Some(place) = self.table.at(address) {
            return self.by_address.get(place);
        }
        let after = self
            .by_address
            .partition_point(|function| function.address <= address);
        let last = self.by_address.get(after.checked_sub(1)?)?;
        let same_range = |of: &Function| (of.address, of.size) < (last.address, last.size);
        self.by_address
            .get(self.by_address.partition_point(same_range))
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
            name: text_of(name).into_owned(),
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
0000000000001020 0000000000000008 T same range
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
    fn the_innermost_function_contains_an_address() {
        let nm = "1000 30 T outer\n1010 10 t inner\n1030 1 T after\n2001 8 T thumb\n2000 t $t\n";
        let functions = Functions::from_nm(nm.as_bytes(), &mut Problems::default()).unwrap();
        for (address, name) in [
            (0x100f, "outer"),
            (0x1010, "inner"),
            (0x1020, "outer"),
            (0x1030, "after"),
            (0x2000, "thumb"),
        ] {
            let found = functions.before(address).map(|function| &*function.name);
            assert_eq!(found, Some(name), "{address:#x}");
        }
        let bytes = b"1000 10 T caf\xe9".as_slice();
        let functions = Functions::from_nm(bytes, &mut Problems::default()).unwrap();
        assert_eq!(functions.before(0x1000).unwrap().name, "caf\\xe9");
    }

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
