//! What pages of the book show of a terminal is what their commands print, but for the numbers.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use kymo_e2e::{built, hello, scratch};

use crate::ten_steps::{blocks, path_with_kymo};

/// A command of a page, and the lines that the page shows behind it.
#[derive(Debug, Default)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// The commands of a block: behind `$`, and in lines that `\` or `>` continues.
fn commands(block: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut continues = false;
    for line in block.lines() {
        let begins = line.strip_prefix("$ ");
        let part = match begins {
            Some(part) => Some(part),
            None if continues => Some(line),
            None => line.strip_prefix("> "),
        };
        continues = part.is_some_and(|part| part.ends_with('\\'));
        if begins.is_some() {
            commands.push(Shown::default());
        }
        // What stands before the first command is another program's.
        let Some(last) = commands.last_mut() else {
            continue;
        };
        match part {
            Some(part) => last.command += &format!("{part}\n"),
            None => last.output.push(line.to_owned()),
        }
    }
    commands
}

/// A line with each number as `#`, and each gap as one blank: figures differ between compilers and
/// between runs, and so do the widths of their columns.
fn without_numbers(line: &str) -> String {
    let mut plain = String::new();
    let mut in_number = false;
    for c in line
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
    {
        let goes_on = in_number && (c == ',' || c == '.');
        if !c.is_ascii_digit() && !goes_on {
            plain.push(c);
        } else if !in_number {
            plain.push('#');
        }
        in_number = c.is_ascii_digit() || goes_on;
    }
    plain
}

#[test]
fn numbers_and_gaps_may_differ() {
    for (line, plain) in [
        ("hart 0:  last=2216,2216", "hart #: last=#"),
        ("4,432 events_0 100.0%", "# events_# #%"),
        ("a.b, c", "a.b, c"),
    ] {
        assert_eq!(without_numbers(line), plain);
    }
}

/// The first shown line that is not printed. `...` stands for any lines.
fn missing<'s>(shown: &'s [String], printed: &str) -> Option<&'s String> {
    let mut printed = printed.lines().map(without_numbers);
    let mut may_skip = false;
    for line in shown {
        if line == "..." {
            may_skip = true;
            continue;
        }
        let wanted = without_numbers(line);
        let is_there = match may_skip {
            true => printed.any(|line| line == wanted),
            false => printed.next() == Some(wanted),
        };
        if !is_there {
            return Some(line);
        }
        may_skip = false;
    }
    None
}

#[test]
fn a_line_that_is_not_printed_is_found() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let printed = "a 1\nb\nc 30\n";
    assert_eq!(missing(&shown("a 2\nb"), printed), None);
    assert_eq!(missing(&shown("...\nc 4"), printed), None);
    assert_eq!(missing(&shown("a 1\nc 30"), printed).unwrap(), "c 30");
    assert_eq!(missing(&shown("...\nd"), printed).unwrap(), "d");
}

/// Runs `first`, and then the commands of a page, in a shell and in a new folder, but for those that
/// begin with one of `left_out`; compares what they print.
fn check(page: &str, first: &str, left_out: &[&str]) {
    let folder = scratch(&format!("page-{page}"));
    symlink(hello(), folder.join("hello")).unwrap();
    let firmware = built("KYMO_FIRMWARE_C");
    symlink(firmware, folder.join("firmware-c.elf")).unwrap();
    let shown = blocks(page, "console");
    let shown: Vec<Shown> = shown.iter().flat_map(|block| commands(block)).collect();
    for left_out in left_out {
        let is_there = shown
            .iter()
            .any(|shown| shown.command.starts_with(left_out));
        assert!(is_there, "{page} has no command {left_out}");
    }
    let runs = |shown: &&Shown| !left_out.iter().any(|name| shown.command.starts_with(name));
    let shown: Vec<&Shown> = shown.iter().filter(runs).collect();
    // All in one shell: they share its jobs. What a command prints stands behind its number.
    let mark = |number: usize| format!("=== command {number} ===");
    // `ls` prints columns, as in a terminal.
    let mut script = format!("exec 2>&1\nls() {{ command ls -C \"$@\"; }}\n{first}\n");
    for (number, shown) in shown.iter().enumerate() {
        script += &format!("echo; echo '{}'\n{}", mark(number), shown.command);
    }
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(&folder);
    shell.env("PATH", path_with_kymo()).env("COLUMNS", "100");
    shell.env("HELLO", hello());
    shell.env("DEMO", built("KYMO_DEMO_RISCV64"));
    shell.env("AARCH64", built("KYMO_DEMO_AARCH64"));
    let output = shell.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut wrong = String::new();
    for (number, shown) in shown.iter().enumerate() {
        let (_, rest) = printed.split_once(&*mark(number)).expect("it was run");
        let own = rest.split("=== command ").next().unwrap_or_default();
        let own = own.trim_matches('\n');
        if let Some(line) = missing(&shown.output, own) {
            let command = &shown.command;
            wrong += &format!("$ {command}does not print\n{line}\nbut\n{own}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{page}: where the page has it,\n{wrong}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_first_trace_is_as_shown() {
    check("first-trace.md", "", &[]);
}

/// The rest shows fragments: of a debugger's session, of damaged traces, of other machines.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn recordings_are_as_shown() {
    let rest = [
        "kymo recover board",
        "kymo dump trace --",
        "kymo dump cut",
        "kymo lint",
    ];
    check("record-recover-dump.md", "", &rest);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn counts_are_as_shown() {
    check("counting.md", "", &["kymo count -- ls"]);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn costs_are_as_shown() {
    check("cost.md", "", &["qemu-system-riscv64"]);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn what_the_doctor_says_is_as_shown() {
    let first = "kymo record $HELLO --out trace --append events=1200000";
    check("doctor.md", first, &[]);
}
