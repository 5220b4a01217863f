//! The plugin's arguments on QEMU's command line.

use std::path::PathBuf;

/// A half-open range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The end, exclusive; greater than `start`.
    pub end: u64,
}

impl Range {
    /// Whether the range contains the address.
    pub fn contains(self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Code whose counts are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name in the report.
    pub name: Option<String>,
    /// Its address ranges: at least one, without overlap.
    pub ranges: Vec<Range>,
    /// Addresses at which calls begin, each inside a range; at least one, or one of `tests`.
    pub entries: Vec<u64>,
    /// Pieces of code, each inside a range. A call begins with each that loads.
    pub tests: Vec<Range>,
    /// Calls that execute none of these addresses are reported separately. May be empty.
    pub marks: Vec<u64>,
    /// Other functions: calling one of them is a mark, too. May be empty.
    pub callees: Vec<u64>,
}

impl Function {
    /// Whether some calls may be without a mark.
    pub fn has_marks(&self) -> bool {
        !self.marks.is_empty() || !self.callees.is_empty()
    }

    /// Whether the address is in one of its ranges.
    pub fn contains(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }
}

/// All arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The functions to count: at least one, in the order given.
    pub functions: Vec<Function>,
    /// The file for the report as JSON; without it, text goes to the standard error.
    pub out: Option<PathBuf>,
}

/// An error in the arguments, as one sentence.
#[derive(Debug, PartialEq, Eq)]
pub struct Error(pub String);

/// Reads `start=A,end=B` pairs, `name=`, `entry=` and `out=`. A pair is a separate function; after
/// `name=`, pairs are ranges of that function up to the next `name=`. `entry=` adds an entry to the
/// preceding function, whose default entry is the start of its first range; `mark=` adds a mark,
/// `callee=` a function that makes marks of its calls, and `test=A,test_end=B` an entry if there is
/// a load of a byte in this piece.
pub fn parse<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<Arguments, Error> {
    let mut parsed = Arguments::default();
    // What begins a pair, if its end has not come.
    let mut start = None;
    let mut test = None;
    for argument in arguments {
        let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
        if let Some(start) = start
            && key != "end"
        {
            return Err(unpaired("start", start, "end"));
        }
        if let Some(test) = test
            && key != "test_end"
        {
            return Err(unpaired("test", test, "test_end"));
        }
        match key {
            "start" => start = Some(address(key, value)?),
            "end" => {
                let end = address(key, value)?;
                let Some(start) = start.take() else {
                    return Err(Error(format!(
                        "end={value} has no start: give start=ADDRESS,end=ADDRESS, in this order."
                    )));
                };
                if start >= end {
                    return Err(Error(format!(
                        "start={start:#x},end={end:#x} is empty: end must be greater than start."
                    )));
                }
                add(&mut parsed.functions, Range { start, end })?;
            }
            "name" if value.is_empty() => return Err(Error("name= is empty.".to_owned())),
            "name" => parsed.functions.push(Function {
                name: Some(value.to_owned()),
                ..Function::default()
            }),
            "entry" | "mark" => {
                let place = address(key, value)?;
                match parsed.functions.last_mut() {
                    Some(function) if function.contains(place) && key == "mark" => {
                        function.marks.push(place)
                    }
                    Some(function) if function.contains(place) => function.entries.push(place),
                    _ => {
                        return Err(Error(format!(
                            "{key}={value} is in no range of the function before it."
                        )));
                    }
                }
            }
            "test" => test = Some(address(key, value)?),
            "test_end" => {
                let end = address(key, value)?;
                let Some(start) = test.take() else {
                    return Err(Error(format!(
                        "test_end={value} is behind no test: give test=ADDRESS,test_end=ADDRESS."
                    )));
                };
                let function = parsed.functions.last_mut();
                add_test(function, Range { start, end })?;
            }
            "callee" => {
                let place = address(key, value)?;
                let Some(function) = parsed.functions.last_mut() else {
                    return Err(Error(format!("callee={value} is behind no function.")));
                };
                function.callees.push(place);
            }
            "out" if value.is_empty() => {
                return Err(Error("out= needs the name of a file.".to_owned()));
            }
            "out" if parsed.out.is_some() => return Err(Error("out= is given twice.".to_owned())),
            "out" => parsed.out = Some(value.into()),
            _ => {
                return Err(Error(format!(
                    "\"{argument}\" is no argument: there are start=ADDRESS, end=ADDRESS, \
                     name=TEXT, entry=ADDRESS, test=ADDRESS, test_end=ADDRESS, mark=ADDRESS, \
                     callee=ADDRESS, out=FILE and from=FILE."
                )));
            }
        }
    }
    if let Some(start) = start {
        return Err(unpaired("start", start, "end"));
    }
    if let Some(test) = test {
        return Err(unpaired("test", test, "test_end"));
    }
    if let Some(function) = parsed
        .functions
        .iter()
        .find(|function| function.ranges.is_empty())
    {
        let name = function.name.as_deref().unwrap_or_default();
        return Err(Error(format!(
            "name={name} has no range: give start=ADDRESS,end=ADDRESS behind it."
        )));
    }
    if parsed.functions.is_empty() {
        return Err(Error(
            "there is nothing to count: give start=ADDRESS,end=ADDRESS.".to_owned(),
        ));
    }
    for function in &mut parsed.functions {
        let has_entries = !function.entries.is_empty() || !function.tests.is_empty();
        if let (false, Some(first)) = (has_entries, function.ranges.first()) {
            function.entries.push(first.start);
        }
    }
    Ok(parsed)
}

fn unpaired(begin: &str, address: u64, end: &str) -> Error {
    Error(format!(
        "{begin}={address:#x} has no {end}: give {begin}=ADDRESS,{end}=ADDRESS."
    ))
}

fn add_test(function: Option<&mut Function>, test: Range) -> Result<(), Error> {
    let Range { start, end } = test;
    let text = format!("test={start:#x},test_end={end:#x}");
    if start >= end {
        return Err(Error(format!(
            "{text} is empty: test_end must be greater than test."
        )));
    }
    let is_inside =
        |function: &&mut Function| function.contains(start) && function.contains(end - 1);
    let Some(function) = function.filter(is_inside) else {
        return Err(Error(format!(
            "{text} is in no range of the function before it."
        )));
    };
    function.tests.push(test);
    Ok(())
}

fn add(functions: &mut Vec<Function>, range: Range) -> Result<(), Error> {
    match functions.last_mut() {
        Some(Function {
            name: Some(name),
            ranges,
            ..
        }) => {
            if let Some(other) = ranges
                .iter()
                .find(|other| other.start < range.end && range.start < other.end)
            {
                let (first, second) = (
                    format!("{:#x}..{:#x}", other.start, other.end),
                    format!("{:#x}..{:#x}", range.start, range.end),
                );
                return Err(Error(format!(
                    "the ranges {first} and {second} of {name} overlap."
                )));
            }
            ranges.push(range);
        }
        _ => functions.push(Function {
            ranges: vec![range],
            ..Function::default()
        }),
    }
    Ok(())
}

/// Parses an address, digits only: hexadecimal after `0x`, else decimal.
fn address(key: &str, text: &str) -> Result<u64, Error> {
    let (digits, radix) = text
        .strip_prefix("0x")
        .map_or((text, 10), |digits| (digits, 16));
    // The integer parser would accept a sign.
    let all_digits = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let value = all_digits
        .then(|| u64::from_str_radix(digits, radix).ok())
        .flatten();
    value.ok_or_else(|| {
        Error(format!(
            "{key}={text} is no address: write it as 0x80201000, or in decimal, within 64 bits."
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Arguments, Error> {
        parse(text.split(',').filter(|word| !word.is_empty()))
    }

    #[test]
    fn pairs_are_functions_and_names_join_them() {
        let parsed =
            of("start=0x10,end=0x20,start=32,end=0x30,name=f,start=0x100,end=0x110,start=0x80,end=0x90,entry=0x84,out=x").unwrap();
        let range = |start, end| Range { start, end };
        let function = |name: Option<&str>, ranges: &[Range], entry| Function {
            name: name.map(str::to_owned),
            ranges: ranges.to_vec(),
            entries: vec![entry],
            tests: Vec::new(),
            marks: Vec::new(),
            callees: Vec::new(),
        };
        assert_eq!(
            parsed.functions,
            [
                function(None, &[range(0x10, 0x20)], 0x10),
                function(None, &[range(0x20, 0x30)], 0x20),
                function(Some("f"), &[range(0x100, 0x110), range(0x80, 0x90)], 0x84),
            ]
        );
        assert_eq!(parsed.out, Some("x".into()));
        assert_eq!(
            of("start=1,end=9,mark=3,mark=4").unwrap().functions[0].marks,
            [3, 4]
        );
        let testing = of("start=1,end=9,test=3,test_end=5").unwrap();
        assert_eq!(testing.functions[0].tests, [range(3, 5)]);
        assert!(testing.functions[0].entries.is_empty());
        let calling = of("start=1,end=9,callee=0x100").unwrap();
        assert_eq!(calling.functions[0].callees, [0x100]);
        assert!(calling.functions[0].has_marks());
        let whole = of("start=0,end=0xffffffffffffffff").unwrap();
        assert_eq!(whole.functions[0].ranges, [range(0, u64::MAX)]);
        assert!(
            whole.functions[0].contains(u64::MAX - 1) && !whole.functions[0].contains(u64::MAX)
        );
    }

    #[test]
    fn anything_else_is_refused_in_one_sentence() {
        for (text, part) in [
            ("", "nothing to count"),
            ("out=x", "nothing to count"),
            ("start=0x10", "has no end"),
            ("end=0x10", "has no start"),
            ("start=0x10,start=0x20,end=0x30", "has no end"),
            ("start=0x10,name=f,end=0x30", "has no end"),
            ("start=0x10,end=0x20,end=0x30", "has no start"),
            ("start=0x10,end=0x10", "is empty"),
            ("start=0x10,end=0xf", "is empty"),
            ("start=+0x10,end=0x20", "no address"),
            ("start=0x+10,end=0x20", "no address"),
            ("start=-1,end=0x20", "no address"),
            ("start= 0x10,end=0x20", "no address"),
            ("start=0x10 ,end=0x20", "no address"),
            ("start=0x,end=0x20", "no address"),
            ("start=,end=0x20", "no address"),
            ("start,end=0x20", "no address"),
            ("start=0X10,end=0x20", "no address"),
            ("start=10h,end=0x20", "no address"),
            ("start=0x1_0,end=0x20", "no address"),
            ("start=0x10,end=0x10000000000000000", "no address"),
            ("start=0x10,end=18446744073709551616", "no address"),
            ("start=0x10,end=0x20,stop=0x30", "is no argument"),
            ("start=0x10,end=0x20,name=", "name= is empty"),
            ("start=0x10,end=0x20,name=f", "has no range"),
            ("name=f,start=0x10,end=0x20,start=0x1f,end=0x30", "overlap"),
            ("start=0x10,end=0x20,entry=0x20", "in no range"),
            ("start=0x10,end=0x20,mark=0xf", "in no range"),
            ("entry=0x20,start=0x10,end=0x20", "in no range"),
            ("start=0x10,end=0x20,test=0x14", "has no test_end"),
            ("start=0x10,end=0x20,test=0x14,mark=0x18", "has no test_end"),
            ("start=0x10,end=0x20,test_end=0x20", "behind no test"),
            ("start=0x10,end=0x20,test=0x20,test_end=0x21", "in no range"),
            ("start=0x10,end=0x20,test=0x14,test_end=0x21", "in no range"),
            ("start=0x10,end=0x20,test=0x14,test_end=0x14", "is empty"),
            ("test=0x14,test_end=0x18,start=0x10,end=0x20", "in no range"),
            ("callee=0x20,start=0x10,end=0x20", "behind no function"),
            ("start=0x10,end=0x20,callee=f", "no address"),
            ("start=0x10,end=0x20,out=", "name of a file"),
            ("start=0x10,end=0x20,out=a,out=b", "twice"),
        ] {
            let Error(sentence) = of(text).unwrap_err();
            assert!(
                sentence.contains(part) && sentence.ends_with('.') && !sentence.contains('\n'),
                "{text}: {sentence}"
            );
        }
    }
}
