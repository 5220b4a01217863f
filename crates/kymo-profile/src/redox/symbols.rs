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
    /// Functions that were left out as they have no size, and no symbol lies behind them.
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
    /// A function without a size, as all are that `nm` prints without `-S`, reaches to the next
    /// symbol of any type; one that lies inside another is a part of it.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub fn from_nm(text: impl BufRead, problems: &mut Problems) -> io::Result<Functions> {
        let mut lines = Lines::new(text);
        let mut functions: Vec<Function> = Vec::new();
        let mut borders = Vec::new();
        let mut has_thumb = false;
        while let Some((number, line)) = lines.next_line()? {
            has_thumb |= line
                .as_ref()
                .is_ok_and(|line| line.trim_ascii_end().ends_with(b" t $t"));
            match line.and_then(row) {
                Ok(Some(row)) => {
                    borders.push(row.symbol.address);
                    functions.extend(row.is_function.then_some(row.symbol));
                }
                Ok(None) => {}
                Err(error) => problems.add(number, error),
            }
        }
        if has_thumb {
            // Bit 0 says that a function's instructions are Thumb's: they are at even addresses.
            functions.iter_mut().for_each(|of| of.address &= !1);
            borders.iter_mut().for_each(|border| *border &= !1);
        }
        reach_to_borders(&mut functions, borders);
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

/// Gives functions without a size that of the bytes up to the next border. Those inside functions
/// with a size go.
fn reach_to_borders(functions: &mut Vec<Function>, mut borders: Vec<u64>) {
    borders.sort_unstable();
    functions.sort_by_key(|of| (of.address, of.size == 0));
    let mut reach = 0;
    functions.retain_mut(|of| {
        if of.size == 0 {
            if of.address < reach {
                return false;
            }
            let behind = borders.partition_point(|border| *border <= of.address);
            let next = borders.get(behind).copied();
            of.size = next.map_or(0, |next| next - of.address);
            return true;
        }
        reach = reach.max(of.address.saturating_add(of.size));
        true
    });
}

/// A symbol on a line of `nm`.
struct Row {
    symbol: Function,
    is_function: bool,
}

/// The symbol on a line of `nm -CS`; `None` if the line is about something else than a place.
fn row(line: &[u8]) -> Result<Option<Row>, Malformed> {
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
        // Numbers and notes of the debugger are not in memory.
        (Some(_), b"a" | b"A" | b"N" | b"n", [_, ..]) => Ok(None),
        (Some(size), [kind], [_, ..]) => Ok(Some(Row {
            symbol: Function {
                address,
                size,
                name: text_of(name).into_owned(),
            },
            is_function: matches!(kind, b't' | b'T'),
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

    /// As `nm` prints without `-S`, and assembly in between with it.
    #[test]
    fn a_function_without_a_size_reaches_to_the_next_symbol() {
        let plain = "1000 T first\n1010 t second\n1010 T alias\n1018 r table\n1020 t third\n\
                     1020 t $x\n1024 A number\n1030 T _etext\n";
        let mixed = "1000 10 T first\n1008 t label\n1010 t second\n1010 T alias\n1018 8 r table\n\
                     1020 t third\n1030 B data\n";
        for text in [plain, mixed] {
            let mut problems = Problems::default();
            let functions = Functions::from_nm(text.as_bytes(), &mut problems).unwrap();
            assert_eq!(problems.count, 0);
            let inside = |address| {
                let found = functions.before(address)?;
                (address - found.address < found.size).then_some(&*found.name)
            };
            let names = [
                0xfff, 0x1000, 0x100f, 0x1010, 0x1017, 0x1018, 0x1020, 0x102f,
            ];
            assert_eq!(
                names.map(inside),
                [
                    None,
                    Some("first"),
                    Some("first"),
                    Some("alias"),
                    Some("alias"),
                    None,
                    Some("third"),
                    Some("third"),
                ],
                "{text}"
            );
            // Behind the last one is nothing.
            assert_eq!(functions.without_size, u64::from(text == plain));
        }
        let thumb = b"1001 T first\n1000 t $t\n1011 T second\n".as_slice();
        let functions = Functions::from_nm(thumb, &mut Problems::default()).unwrap();
        let first = functions.before(0x1000).unwrap();
        assert_eq!((first.address, first.size), (0x1000, 16));
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
