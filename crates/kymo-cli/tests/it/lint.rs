//! Tests `kymo lint` as a user runs it.

use std::path::PathBuf;
use std::process::Command;

/// Output and exit code of the command for a directory of these files.
fn lint(name: &str, files: &[(&str, &[u8])], input: &str, arguments: &[&str]) -> (String, i32) {
    let directory: PathBuf =
        std::env::temp_dir().join(format!("kymo-lint-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    for (file, bytes) in files {
        std::fs::write(directory.join(file), bytes).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .arg("lint")
        .arg(directory.join(input))
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout)
        .unwrap()
        .replace(&format!("{}/", directory.display()), "");
    let _ = std::fs::remove_dir_all(&directory);
    (text, output.status.code().unwrap())
}

const GOOD: &str = "/* CTF 1.8 */\ntrace { major = 1; minor = 8; byte_order = le; };\nclock { name = c; };
stream { event.header := struct { integer { size = 64; map = clock.c.value; } t; }; };\nevent { name = e; };\n";

#[test]
fn metadata_errors_have_their_line_and_a_mark_under_the_column() {
    let (text, code) = lint(
        "bad",
        &[("metadata", b"trace {\n\tmajor = ;\n};")],
        "metadata",
        &[],
    );
    assert_eq!(
        text,
        "metadata:2:10: error: expected a value, found `;`\n     major = ;\n             ^\n"
    );
    assert_eq!(code, 3);
}

#[test]
fn the_mark_is_under_what_is_wrong_in_fragments_too() {
    let (text, _) = lint(
        "json",
        &[("metadata", b"\x1e{\"type\": \"preamble\", \"version\": 3}")],
        "metadata",
        &[],
    );
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            r#"    \u{1e}{"type": "preamble", "version": 3}"#,
            &format!("{:42}^", "")
        ]
    );
    let long = format!(
        "\x1e{{\"type\": \"preamble\", \"attributes\": {{\"{}\": 0}}, \"version\": 3{}}}",
        "a".repeat(900),
        " ".repeat(900)
    );
    let (text, _) = lint("long", &[("metadata", long.as_bytes())], "metadata", &[]);
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].len() < 180 && lines[0].starts_with("    ...aaa") && lines[0].ends_with("  ..."),
        "{text}"
    );
    assert_eq!(lines[0].find('3'), lines[1].find('^'), "{text}");
}

#[test]
fn what_can_be_read_is_a_warning() {
    let text = GOOD.replace("name = e;", "name = e; colour = 1;");
    let (text, code) = lint(
        "odd",
        &[("metadata", text.as_bytes())],
        "metadata",
        &["--json"],
    );
    assert_eq!(code, 1);
    assert!(
        text.contains(r#""place":"metadata:5:19","type":"warning""#),
        "{text}"
    );
}

#[test]
fn streams_are_read_to_their_end() {
    let stream: Vec<u8> = [5u64, 4, 6]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    let (text, code) = lint(
        "back",
        &[("metadata", GOOD.as_bytes()), ("s", &stream)],
        "",
        &[],
    );
    assert_eq!(
        (text.as_str(), code),
        (
            "s, packet 0, byte 16: warning: the clock steps back from 5 to 4\n",
            1
        )
    );
    let cut = &stream[..20];
    let (text, code) = lint(
        "cut",
        &[("metadata", GOOD.as_bytes()), ("s", cut)],
        "",
        &["--jobs", "2"],
    );
    assert!(
        text.contains("byte 16: error: a field needs 64 bits")
            && text.contains("the rest of the stream cannot be read"),
        "{text}"
    );
    assert_eq!(code, 1);
    assert_eq!(
        lint(
            "good",
            &[("metadata", GOOD.as_bytes()), ("s", &stream[..8])],
            "",
            &[]
        ),
        (String::new(), 0)
    );
}

/// If the text is in packets, the line shown is that of the text, not of the file.
#[test]
fn the_line_of_metadata_in_packets_is_shown() {
    let mut bytes = Vec::new();
    for piece in ["trace {\n\tma", "jor = 1;\n\tminor = ;\n};"] {
        let size = (37 + piece.len() as u32) * 8;
        bytes.extend(0x75d1_1d57_u32.to_le_bytes());
        bytes.extend([b'\n'; 16]);
        [0, size, size + 16]
            .into_iter()
            .for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(piece.as_bytes());
        bytes.extend(b"\n\n");
    }
    let (text, code) = lint("packets", &[("metadata", &bytes)], "metadata", &[]);
    assert_eq!(
        text,
        "metadata:3:10: error: expected a value, found `;`\n     minor = ;\n             ^\n"
    );
    assert_eq!(code, 3);
    bytes.pop();
    let (text, _) = lint("cut-packets", &[("metadata", &bytes)], "metadata", &[]);
    assert_eq!(
        text,
        "metadata:1:1: error: metadata packet 1, byte 50 of the file: the file ends inside the \
         packet\n"
    );
}

#[cfg(unix)]
#[test]
fn what_never_ends_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["lint", "/dev/zero"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text.contains("more than 256 MiB"), "{text}");
}
