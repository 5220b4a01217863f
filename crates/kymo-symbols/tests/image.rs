//! Functions at addresses of a real program: this test.

#![allow(missing_docs, clippy::unwrap_used)]

use kymo_symbols::{CodeMap, Image, demangled};

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
