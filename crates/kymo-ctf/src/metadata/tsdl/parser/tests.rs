//! Tests of the grammar.

use super::*;

#[test]
fn reads_every_kind_of_item() {
    let items = parse(
        "trace { a = 1; }; env { b = \"c\"; }; clock { d = e.f; };\n\
         stream { g.h := struct { int i; unsigned long j[k.l][4]; } align(8); };\n\
         event { typedef int m, n; typealias integer { size = 8; } := o; }; struct p { string q; };",
    )
    .unwrap();
    assert_eq!(items.len(), 6);
    assert_eq!(
        parse("callsite { ip = 0x4; func = \"f\"; }; struct a { int x : 3, *y, (*z); } ; event { a->b = (-(1)); };").unwrap().len(),
        3
    );
}

#[test]
fn says_where_and_what() {
    let cases = [
        (
            "trace {\n  major = ;\n};",
            "line 2, column 11: expected a value, found `;`",
        ),
        (
            "struct a { int (*b)[2]; };",
            "line 1, column 20: a pointer to an array is not supported",
        ),
        (
            "struct a { int b : -3; };",
            "column 20: a bit-field cannot have a negative size",
        ),
        (
            "struct a { int event; };",
            "column 16: `event` is a keyword",
        ),
        ("struct a { event b; };", "column 12: `event` is a keyword"),
        (
            "enum a : int { };",
            "column 16: an enumeration needs at least one label",
        ),
        (
            "integer { size = 8; };",
            "expected a block or a declaration, found `integer`",
        ),
        (
            "struct { int a; };",
            "a declaration of a type needs a name and a body",
        ),
        (
            "event { a = ((((1))); };",
            "column 21: expected `)`, found `;`",
        ),
    ];
    for (text, wanted) in cases {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(wanted), "{text}: {message}");
    }
}

#[test]
fn refuses_nesting_that_would_exhaust_the_stack() {
    let deep = "struct { ".repeat(100_000);
    let message = parse(&format!("struct a {{ {deep}")).unwrap_err().message;
    assert!(message.contains("nested"), "{message}");
}
