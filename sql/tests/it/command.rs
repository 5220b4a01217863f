//! The command: formats, errors, exit codes.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::made::busy;

fn query(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kymo-query"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn errors_are_one_sentence_with_a_status() {
    let mut made = busy("errors", 11, 10);
    let path = made.finish().to_owned();
    let trace = path.to_str().unwrap();
    let garbage = std::env::temp_dir().join(format!("kymo-sql-{}", std::process::id()));
    std::fs::create_dir_all(&garbage).unwrap();
    std::fs::write(garbage.join("metadata"), [0xff; 100]).unwrap();
    let wrong: &[(&[&str], i32, &str)] = &[
        (&[trace, "selec 1"], 2, "SQL syntax"),
        (
            &[trace, "select * from nothing"],
            2,
            "there is no table nothing",
        ),
        (&[trace, "select nothing from events"], 2, "nothing"),
        (&[trace, "select ns('5 parsecs')"], 2, "ns('5 parsecs')"),
        (&[trace, "create table t as select 1"], 2, "DDL"),
        (
            &[trace, "copy (select 1) to '/tmp/kymo-sql-never.csv'"],
            2,
            "DML",
        ),
        (
            &[
                trace,
                "--memory",
                "1KiB",
                "select * from events order by time",
            ],
            4,
            "give it more with --memory",
        ),
        (&[trace, ""], 2, ""),
        (&[trace, "@nothing"], 2, "no question @nothing"),
        (&[trace, "select 1", "--format", "parquet"], 2, "--out"),
        (&["select 1"], 2, "give a trace"),
        (&["/nowhere", "select 1"], 3, "/nowhere"),
        (&[garbage.to_str().unwrap(), "select 1"], 3, "metadata"),
    ];
    for (arguments, status, says) in wrong {
        let output = query(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*status), "{arguments:?}: {said}");
        assert!(
            said.contains(says) && said.starts_with("kymo: "),
            "{arguments:?}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    std::fs::remove_dir_all(&garbage).unwrap();
}

/// Planning takes the square of an expression's depth: 5,000 terms would take minutes.
#[test]
fn expressions_that_are_too_deep_are_refused() {
    let mut made = busy("deep", 16, 10);
    let path = made.finish().to_owned();
    let trace = path.to_str().unwrap();
    let sum = |terms: usize| format!("select {} as n", vec!["1"; terms].join("+"));
    let output = query(&[trace, "--format=csv", &sum(400)]);
    assert_eq!(text(&output.stdout), "n\n400\n");
    for deep in [
        sum(5_000),
        format!("explain {}", sum(5_000)),
        // What copies is refused, but only once it is planned.
        format!("copy ({}) to 'sums.csv'", sum(5_000)),
        format!("explain copy ({}) to 'sums.csv'", sum(5_000)),
    ] {
        let output = query(&[trace, &deep]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("nested more than 500 deep"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // A long list is not deep.
    let list: Vec<_> = (0..2_000).map(|number| number.to_string()).collect();
    let sql = format!("select 1 as n where 1999 in ({})", list.join(","));
    let output = query(&[trace, "--format=csv", &sql]);
    assert_eq!(text(&output.stdout), "n\n1\n");
}

#[test]
fn a_damaged_stream_gives_the_rest_and_a_message() {
    let mut made = busy("damaged", 12, 300);
    let path = made.finish().to_owned();
    let stream = path.join("events_0");
    let mut bytes = std::fs::read(&stream).unwrap();
    let end = bytes.len() - 100;
    bytes.truncate(end);
    std::fs::write(&stream, bytes).unwrap();
    let output = query(&[path.to_str().unwrap(), "select count(*) as n from events"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("events_0"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn formats_have_the_same_rows() {
    let mut made = busy("formats", 13, 50);
    let path = made.finish().to_owned();
    let trace = path.to_str().unwrap();
    let sql = "select name, cpu, count(*) as n, null as none from events \
               group by name, cpu order by name, cpu";
    let csv = text(&query(&[trace, sql, "--format", "csv"]).stdout);
    let json = text(&query(&[trace, sql, "--format", "json"]).stdout);
    let table = text(&query(&[trace, sql]).stdout);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("name,cpu,n,none"));
    let lines: Vec<_> = lines.collect();
    let objects: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.len() > 3 && lines.len() == objects.len());
    for ((line, object), row) in lines.iter().zip(&objects).zip(table.lines().skip(1)) {
        let cells = [
            object["name"].as_str().unwrap(),
            &object["cpu"].to_string(),
            &object["n"].to_string(),
            "",
        ];
        assert_eq!(line.split(',').collect::<Vec<_>>(), cells);
        assert!(object["none"].is_null());
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), cells[..3]);
    }
    // A Parquet file, and no other one beside it.
    let file = path.join("out.parquet");
    let output = query(&[
        trace,
        sql,
        "--format",
        "parquet",
        "--out",
        file.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(std::fs::read(&file).unwrap().starts_with(b"PAR1"));
    assert!(!Path::new(&format!("{}.part", file.display())).exists());
    let listed = text(&query(&["--list"]).stdout);
    assert!(listed.contains("@wake-latency") && listed.contains("--thread"));
}

/// Without a query on the command line it is read from the standard input, here no terminal.
#[test]
fn a_query_may_come_from_the_standard_input() {
    use std::io::Write as _;
    let mut made = busy("input", 14, 20);
    let path = made.finish().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-query"));
    command.arg(&path).args(["--format", "csv"]);
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = pipes.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"select 1 + 1 as two").unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stdout), "two\n2\n");
}

/// An interrupt ends a query that would take for ever, and leaves no file.
#[cfg(unix)]
#[test]
fn an_interrupt_ends_a_query() {
    let mut made = busy("interrupt", 15, 400);
    let path = made.finish().to_owned();
    let out = path.with_extension("csv");
    let part = path.with_extension("csv.part");
    let sql =
        "select count(*) from events a, events b, events c, events d where a.ns > b.ns + c.ns";
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo-query"));
    command
        .arg(&path)
        .arg(sql)
        .args(["--format", "csv", "--out"])
        .arg(&out);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    // The file is there before the query is planned, which takes less than a second.
    while !part.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    let kill = Command::new("kill")
        .arg("-INT")
        .arg(child.id().to_string())
        .status();
    assert!(kill.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "kymo: interrupted\n");
    assert!(!out.exists() && !part.exists());
}
