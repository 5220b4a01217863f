//! Functions at addresses of a real program: this test.

#![allow(missing_docs, clippy::unwrap_used)]

use kymo_made::elf::{ARM, Elf, Symbol, function};
use kymo_symbols::{CodeMap, Image, SplitFile, demangled};

const INNERMOST: u32 = line!();
#[inline(always)]
fn innermost(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

const OUTERMOST: u32 = line!();
#[inline(never)]
fn outermost(number: u64) -> u64 {
    innermost(std::hint::black_box(number))
}

fn this_program() -> Vec<u8> {
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

/// What the scopes of the reader of the cost report say, in another way.
#[test]
fn a_place_has_its_inlined_functions_from_the_inside_out() {
    assert_eq!(outermost(1), 2);
    let bytes = this_program();
    let (map, image) = (
        CodeMap::parse(&bytes).unwrap(),
        Image::parse(&bytes).unwrap(),
    );
    let is_ours = |place: &usize| {
        let scope = map.scopes.get(*place);
        scope.is_some_and(|scope| scope.leaf == "innermost")
    };
    let place = (0..map.scopes.len()).find(is_ours).unwrap();
    let scope = map.scopes.get(place).unwrap();
    let parents = map.parents(place).count();
    assert!(parents >= 1, "{scope:?}");

    let located = image.locate(&[1, scope.entry]);
    assert_eq!(located.damage, None);
    assert!(
        located.places.first().unwrap().is_empty(),
        "nothing is there"
    );
    let frames = located
        .frames
        .get(located.places.get(1).cloned().unwrap())
        .unwrap();
    let names: Vec<&str> = frames
        .iter()
        .map(|frame| located.functions.get(frame.function).unwrap().name.as_str())
        .collect();
    assert_eq!(names.len(), parents + 1);
    assert!(names.first().unwrap().ends_with("innermost"), "{names:?}");
    assert_eq!(names.last(), Some(&"image::outermost"));
    let inlined: Vec<bool> = frames.iter().map(|frame| frame.is_inlined).collect();
    assert_eq!(
        (inlined.first(), inlined.last()),
        (Some(&true), Some(&false))
    );
    for (frame, line) in frames.iter().zip([INNERMOST, OUTERMOST]) {
        let file = located.files.get(frame.file.unwrap()).unwrap();
        assert!(file.ends_with("tests/image.rs"), "{file}");
        assert!((line..line + 4).contains(&frame.line.unwrap()), "{frame:?}");
    }
}

/// Every function of the symbol table is found at its first and its last address.
#[test]
fn a_function_holds_its_addresses() {
    let bytes = this_program();
    let (map, image) = (
        CodeMap::parse(&bytes).unwrap(),
        Image::parse(&bytes).unwrap(),
    );
    let symbols: Vec<_> = map.symbols.iter().step_by(97).collect();
    let ends = symbols
        .iter()
        .flat_map(|of| [of.range.start, of.range.end - 1]);
    let located = image.locate(&ends.collect::<Vec<u64>>());
    for (symbol, places) in symbols.iter().zip(located.places.chunks(2)) {
        for place in places {
            let frame = located.frames.get(place.end - 1).unwrap();
            let function = located.functions.get(frame.function).unwrap();
            // Of several names at one address, any.
            assert_eq!(
                function.begin,
                Some(symbol.range.start),
                "{symbol:?} {function:?}"
            );
        }
    }
    assert!(symbols.len() > 10);
    assert!(image.holds(symbols.first().unwrap().range.start));
    assert!(!image.holds(u64::MAX) && image.base() < symbols.first().unwrap().range.start);
}

#[test]
fn names_are_readable_in_rust_and_cpp() {
    for (name, readable) in [
        (
            "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
            "core::fmt::Formatter::pad",
        ),
        ("_RNvCs15kBYyAo9fc_7mycrate7example", "mycrate::example"),
        ("_ZN3foo3barEiPKc", "foo::bar"),
        (
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "std::vector<int, std::allocator<int> >::push_back",
        ),
        ("do_syscall_64", "do_syscall_64"),
        ("_Znot", "_Znot"),
    ] {
        assert_eq!(demangled(name), readable);
    }
}

/// Names of the functions at these addresses, each as it is shown.
fn named(image: &Image<'_>, addresses: &[u64]) -> Vec<String> {
    let located = image.locate(addresses);
    let name = |place: &std::ops::Range<usize>| {
        let frame = located.frames.get(place.clone()).unwrap().last();
        frame.map_or(String::new(), |frame| {
            located.functions.get(frame.function).unwrap().name.clone()
        })
    };
    located.places.iter().map(name).collect()
}

/// By `Image`, by `CodeMap` and by `functions`, as all read one table.
#[test]
fn an_address_is_of_the_innermost_symbol_that_contains_it() {
    let label = |name, value| Symbol {
        kind: 0,
        ..function(name, value, 0)
    };
    let (symbols, dynamic) = (
        [
            function("outer", 0x1010, 48),
            function("inner", 0x1020, 16),
            function("after", 0x1040, 1),
            label("part", 0x1018),
            label("assembly", 0x1050),
            label("last", 0x1060),
            Symbol {
                name: b"caf\xe9",
                ..function("", 0x1042, 2)
            },
        ],
        [
            function("outer", 0x1010, 48),
            Symbol {
                kind: 10,
                ..function("chosen", 0x1044, 4)
            },
        ],
    );
    let elf = Elf {
        symbols: &symbols,
        dynamic: &dynamic,
        ..Elf::program()
    };
    let bytes = elf.bytes();
    let (map, image) = (
        CodeMap::parse(&bytes).unwrap(),
        Image::parse(&bytes).unwrap(),
    );
    let wanted = [
        (0x100f, ""),
        (0x1010, "outer"),
        (0x1019, "outer"),
        (0x1020, "inner"),
        (0x102f, "inner"),
        (0x1030, "outer"),
        (0x103f, "outer"),
        (0x1040, "after"),
        (0x1041, ""),
        (0x1043, "caf\\xe9"),
        (0x1047, "chosen"),
        (0x105f, "assembly"),
        (0x1fff, "last"),
        (0x2000, ""),
    ];
    let found = named(&image, &wanted.map(|(address, _)| address));
    for ((address, name), found) in wanted.into_iter().zip(found) {
        assert_eq!(found, name, "{address:#x}");
        let symbol = map.symbol_at(address);
        assert_eq!(symbol.map_or("", |of| &of.name), name, "{address:#x}");
    }
    assert_eq!(kymo_symbols::functions(&bytes).unwrap(), map.symbols);
    let outer = map.symbols.iter().filter(|of| of.name == "outer");
    assert_eq!(outer.count(), 1, "it is in both tables");
}

/// Bit 0 of a function's symbol says that its instructions are Thumb's.
#[test]
fn a_function_of_thumb_begins_at_an_even_address() {
    let symbols = [
        function("first", 0x1017, 22),
        function("second", 0x102d, 22),
    ];
    let elf = Elf {
        machine: ARM,
        symbols: &symbols,
        ..Elf::program()
    };
    let bytes = elf.bytes();
    let found = named(&Image::parse(&bytes).unwrap(), &[0x1016, 0x102b, 0x102c]);
    assert_eq!(found, ["first", "first", "second"]);
    let map = CodeMap::parse(&bytes).unwrap();
    let begins: Vec<u64> = map.symbols.iter().map(|of| of.range.start).collect();
    assert_eq!(begins, [0x1016, 0x102c]);
}

/// `.debug_abbrev` and `.debug_info` of a function at 0x1000, with others inlined into each other.
fn nested(deep: usize) -> [(&'static str, Vec<u8>); 2] {
    const UNIT: [u8; 8] = [0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0];
    const INLINED: [u8; 8] = [0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0, 0];
    let mut abbreviations = vec![1, 0x11, 1];
    abbreviations.extend(UNIT);
    abbreviations.extend([2, 0x2e, 1]);
    abbreviations.extend(UNIT);
    abbreviations.extend([3, 0x1d, 1]);
    abbreviations.extend(INLINED);
    abbreviations.push(0);
    // Version 4, the abbreviations at 0, addresses of 8 bytes.
    let mut info = vec![4, 0, 0, 0, 0, 0, 8];
    let range = [0x1000_u64, 0x1000].map(u64::to_le_bytes).concat();
    let entry = |to: &mut Vec<u8>, number: u8, name: &[u8]| {
        to.push(number);
        to.extend(name);
        to.extend(&range);
    };
    entry(&mut info, 1, b"x.c\0");
    // An offset in the unit, whose length comes before.
    let origin = (info.len() as u32 + 4).to_le_bytes();
    info.extend(b"\x02origin\0");
    info.resize(info.len() + 16, 0);
    info.push(0);
    entry(&mut info, 2, b"f\0");
    (0..deep).for_each(|_| entry(&mut info, 3, &origin));
    // The ends of the lists of what is in them.
    info.resize(info.len() + deep + 2, 0);
    let length = (info.len() as u32).to_le_bytes();
    let info = [&length[..], &info].concat();
    [(".debug_abbrev", abbreviations), (".debug_info", info)]
}

/// A file must not make the reader's stack overflow.
#[test]
fn functions_that_are_inlined_too_deep_are_left_out() {
    let frames = |deep| {
        let (symbols, sections) = ([function("f", 0x1000, 0x1000)], nested(deep));
        let elf = Elf {
            symbols: &symbols,
            sections: &sections,
            ..Elf::program()
        };
        let bytes = elf.bytes();
        let located = Image::parse(&bytes).unwrap().locate(&[0x1010]);
        let names = |frame: &kymo_symbols::CodeFrame| {
            located.functions.get(frame.function).unwrap().name.clone()
        };
        let names: Vec<String> = located.frames.iter().map(names).collect();
        (names, located.damage)
    };
    let (names, damage) = frames(2);
    assert_eq!(
        (&names[..], damage),
        (&["origin", "origin", "f"].map(str::to_owned)[..], None)
    );
    assert_eq!(frames(256).0.len(), 257);
    for deep in [257, 100_000, 1_000_000] {
        let (names, damage) = frames(deep);
        assert_eq!(names, ["f"]);
        assert!(damage.unwrap().contains("more than 256 deep"));
    }
}

/// A unit of DWARF 4 with these abbreviations and this contents.
fn unit(abbreviations: &[&[u8]], contents: &[u8], dwo: bool) -> [(&'static str, Vec<u8>); 2] {
    let contents = [&[4, 0, 0, 0, 0, 0, 8][..], contents].concat();
    let info = [&(contents.len() as u32).to_le_bytes()[..], &contents].concat();
    let abbreviations = [&abbreviations.concat()[..], &[0]].concat();
    match dwo {
        true => [
            (".debug_abbrev.dwo", abbreviations),
            (".debug_info.dwo", info),
        ],
        false => [(".debug_abbrev", abbreviations), (".debug_info", info)],
    }
}

/// Inlined functions are found in the file that the compiler has written them to; one of another
/// version is not used, and `Located` names a file that is missing.
#[test]
fn debug_information_may_be_in_another_file() {
    const ID: u64 = 0x0123_4567_89ab_cdef;
    let range = [0x1000_u64, 0x1000].map(u64::to_le_bytes).concat();
    // Name and number of the other file, the addresses, and the compiler's directory.
    let skeleton: &[u8] = &[
        1, 0x11, 0, 0xb0, 0x42, 0x08, 0xb1, 0x42, 0x07, 0x11, 0x01, 0x12, 0x07, 0x1b, 0x08, 0, 0,
    ];
    let contents = [
        b"\x01sub/x.dwo\0",
        &ID.to_le_bytes()[..],
        &range,
        b"/build\0",
    ]
    .concat();
    let sections = unit(&[skeleton], &contents, false);
    let symbols = [function("f", 0x1000, 0x1000)];
    let main = Elf {
        symbols: &symbols,
        sections: &sections,
        ..Elf::program()
    };
    let dwo = |id: u64| {
        let of_unit: &[u8] = &[1, 0x11, 1, 0x03, 0x08, 0xb1, 0x42, 0x07, 0, 0];
        let of_function: &[u8] = &[2, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0];
        let inlined: &[u8] = &[3, 0x1d, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0];
        let contents = [
            &b"\x01x.c\0"[..],
            &id.to_le_bytes(),
            b"\x02f\0",
            &range,
            b"\x03inside\0",
            &range,
            &[0, 0],
        ];
        let sections = unit(&[of_unit, of_function, inlined], &contents.concat(), true);
        Elf {
            sections: &sections,
            ..Elf::program()
        }
        .bytes()
    };
    let bytes = main.bytes();
    let not_there = "its part in sub/x.dwo is not there";
    let other = "a file with a part of it is of another version, or damaged";
    for (found, names, damage) in [
        (Some(dwo(ID)), &["inside", "f"][..], None),
        (Some(dwo(ID + 1)), &["f"], Some(other)),
        (Some(b"no program".to_vec()), &["f"], Some(not_there)),
        (None, &["f"], Some(not_there)),
    ] {
        let find = |file: &SplitFile| match file {
            SplitFile::Package => None,
            SplitFile::Unit { directory, path } => {
                assert_eq!((&**directory, &**path), ("/build", "sub/x.dwo"));
                found.clone()
            }
        };
        let image = Image::parse(&bytes).unwrap().with_split_files(&find);
        let located = image.locate(&[0x1010]);
        let name = |frame: &kymo_symbols::CodeFrame| {
            located.functions.get(frame.function).unwrap().name.clone()
        };
        assert_eq!(located.frames.iter().map(name).collect::<Vec<_>>(), names);
        assert_eq!(located.damage.as_deref(), damage);
    }
}

/// What the compiler and `dwp` have written: the parts beside the program, each by itself and all
/// in one package. (Binutils' `dwp` knows DWARF 4 only.)
#[cfg(target_os = "linux")]
#[test]
fn a_package_of_the_toolchains_is_read() {
    use std::io::Write;
    let version = std::process::Command::new("dwp").arg("--version").output();
    if version.is_err() {
        // The harness keeps back what `eprintln` prints for a test that passes.
        let line = b"NOT RUN: a_package_of_the_toolchains_is_read: there is no dwp\n";
        std::io::stderr().write_all(line).unwrap();
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in [("a.c", PART_A), ("b.c", PART_B)] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(program);
        let output = command.args(arguments).current_dir(&folder).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {output:?}"
        );
    };
    let split = ["-g", "-gdwarf-4", "-gsplit-dwarf", "-O1"];
    run("cc", &[&split[..], &["-c", "a.c", "b.c"]].concat());
    run("cc", &["a.o", "b.o", "-o", "program"]);
    run("dwp", &["-e", "program", "-o", "program.dwp"]);
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let (program, package) = (read("program"), read("program.dwp"));
    let symbols = CodeMap::parse(&program).unwrap();
    let whole = |find: &dyn Fn(&SplitFile) -> Option<Vec<u8>>| {
        let image = Image::parse(&program).unwrap().with_split_files(find);
        ["outer", "other"].map(|function| {
            let range = symbols.symbols.iter().find(|found| found.name == function);
            let addresses: Vec<u64> = range.unwrap().range.clone().collect();
            let located = image.locate(&addresses);
            let mut names: Vec<_> = located
                .functions
                .iter()
                .map(|one| one.name.clone())
                .collect();
            names.sort();
            (names, located.damage)
        })
    };
    let all = |names: &[&str]| (names.iter().map(|name| name.to_string()).collect(), None);
    let expected = [all(&["inner", "outer"]), all(&["deep", "other"])];
    let packed = whole(&|file| (*file == SplitFile::Package).then(|| package.clone()));
    assert_eq!(packed, expected);
    let apart = whole(&|file| match file {
        SplitFile::Package => None,
        SplitFile::Unit { path, .. } => Some(read(path)),
    });
    assert_eq!(apart, expected);
    let none = whole(&|_| None);
    assert_eq!(none[0].0, ["outer"]);
    assert!(none[0].1.is_some(), "{none:?}");
}

const PART_A: &str = "extern int other(int);
static inline __attribute__((always_inline)) int inner(int x) {
    for (int i = 0; i < 9; i++)
        x = x * 7 + other(x);
    return x;
}
int outer(int x) { return inner(x) + 1; }
int main(int argc, char **argv) { return outer(argc + (argv != 0)); }
";
const PART_B: &str = "static inline __attribute__((always_inline)) int deep(int x) {
    return x ^ (x >> 3);
}
int other(int x) { return deep(x) * 3; }
";

/// Abbreviations of units with namespaces: 1 a unit of a language, 2 a namespace, 3 a type, 4 a
/// function that is only inlined, 5 a function with code, 6 a place where one of this unit was
/// inlined, 7 a place where one of any unit was, 8 a function by its declaration, 9 a namespace
/// without a name, 10 a function with a linkage name.
const NAMESPACES: [&[u8]; 10] = [
    &[
        1, 0x11, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0x13, 0x0b, 0, 0,
    ],
    &[2, 0x39, 1, 0x03, 0x08, 0, 0],
    &[3, 0x13, 1, 0x03, 0x08, 0, 0],
    &[4, 0x2e, 0, 0x03, 0x08, 0, 0],
    &[5, 0x2e, 1, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0],
    &[6, 0x1d, 0, 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0, 0],
    &[7, 0x1d, 0, 0x31, 0x10, 0x11, 0x01, 0x12, 0x07, 0, 0],
    &[8, 0x2e, 0, 0x47, 0x13, 0, 0],
    &[9, 0x39, 1, 0, 0],
    &[10, 0x2e, 0, 0x03, 0x08, 0x6e, 0x08, 0, 0],
];

/// A unit of `NAMESPACES` with the function `f` at an address, into which functions of the unit are
/// inlined, 16 bytes each; `others` are offsets in `.debug_info` of those of other units.
fn namespaces(language: u8, begin: u64, names: &[u8], inlined: &[u32], others: &[u32]) -> Vec<u8> {
    let range = |from: u64, size: u64| [from, size].map(u64::to_le_bytes).concat();
    let mut contents = [b"\x01x\0", &range(begin, 0x100)[..], &[language], names].concat();
    contents.extend(b"\x05f\0");
    contents.extend(range(begin, 0x100));
    let places = [(6, inlined), (7, others)];
    let places = places
        .iter()
        .flat_map(|(kind, origins)| origins.iter().map(move |of| (kind, of)));
    for ((kind, origin), place) in places.zip(0..) {
        contents.push(*kind);
        contents.extend(origin.to_le_bytes());
        contents.extend(range(begin + 16 * place, 16));
    }
    contents.extend([0, 0]);
    let contents = [&[4, 0, 0, 0, 0, 0, 8][..], &contents].concat();
    [&(contents.len() as u32).to_le_bytes()[..], &contents].concat()
}

/// A function that has no linkage name is told apart by the namespaces and types around it.
#[test]
fn an_inlined_function_has_its_namespaces() {
    const RUST: u8 = 0x1c;
    const C: u8 = 0x0c;
    // A unit's header, and its own entry.
    const FIRST: usize = 11 + 3 + 16 + 1;
    let mut names: Vec<u8> = Vec::new();
    let mut entry = |bytes: &[u8]| {
        names.extend(bytes);
        (FIRST + names.len() - bytes.len()) as u32
    };
    entry(b"\x02kernel\0");
    entry(b"\x03Queue<u8>\0");
    let method = entry(b"\x04push\0");
    entry(b"\0");
    entry(b"\x09");
    let hidden = entry(b"\x04lt\0");
    entry(b"\0\0");
    let by_declaration = entry(&[&b"\x08"[..], &method.to_le_bytes()].concat());
    let linked = entry(b"\x0anew\0_ZN5other3newE\0");
    let alone = entry(b"\x04memcpy\0");
    let inlined = [method, hidden, by_declaration, linked, alone];
    let first = namespaces(RUST, 0x1000, &names, &inlined, &[]);
    let second = namespaces(RUST, 0x1100, &[], &[], &[method]);
    // C has no namespaces, whatever is said of them.
    let third = namespaces(C, 0x1200, &names, &[method], &[]);
    let abbreviations = [&NAMESPACES.concat()[..], &[0]].concat();
    let info = [first, second, third].concat();
    let sections = [(".debug_abbrev", abbreviations), (".debug_info", info)];
    let elf = Elf {
        sections: &sections,
        ..Elf::program()
    };
    let bytes = elf.bytes();
    let wanted = [
        (0x1000, "kernel::Queue<u8>::push", ""),
        (0x1010, "kernel::(anonymous namespace)::lt", ""),
        (0x1020, "kernel::Queue<u8>::push", ""),
        (0x1030, "other::new", "_ZN5other3newE"),
        (0x1040, "memcpy", "memcpy"),
        (0x1100, "kernel::Queue<u8>::push", ""),
        (0x1200, "push", "push"),
    ];
    let image = Image::parse(&bytes).unwrap();
    for (address, name, linkage_name) in wanted {
        // Alone, so that a unit with names is read only for it.
        let located = image.locate(&[address]);
        assert_eq!(located.damage, None);
        let of = |frame: &kymo_symbols::CodeFrame| {
            let function = located.functions.get(frame.function).unwrap();
            (function.name.clone(), function.linkage_name.clone())
        };
        let names: Vec<(String, String)> = located.frames.iter().map(of).collect();
        let wanted = (name.to_owned(), linkage_name.to_owned());
        assert_eq!(
            names,
            [wanted, ("f".to_owned(), "f".to_owned())],
            "{address:#x}"
        );
    }
}
