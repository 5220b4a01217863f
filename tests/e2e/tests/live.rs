//! `kymo record --view`: the page shows the machine as it runs, and the whole trace afterwards.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use kymo_e2e::{hello, patience, recording, run, scratch, wait_until};
use serde_json::Value;

/// What the page knows of the trace; `None` before there is something.
fn shown(address: &str) -> Option<Value> {
    let (host, token) = address["http://".len()..].split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!("Host: {host}\r\nConnection: close\r\n\r\n");
    write!(stream, "GET /{token}api/trace HTTP/1.1\r\n{head}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let is_there = head.starts_with("HTTP/1.1 200");
    assert!(is_there || head.starts_with("HTTP/1.1 503"), "{head}");
    is_there.then(|| serde_json::from_str(body).unwrap())
}

fn interrupt(child: &Child) {
    let id = child.id().to_string();
    run(Command::new("kill").args(["-INT", &id]), 0);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_machine_is_shown_while_it_runs() {
    let folder = scratch("live");
    let out = folder.join("trace");
    let mut record = recording(&hello(), &out);
    record.args(["--timeout", patience(), "--view", "--no-open"]);
    record.args(["--append", "work=markers events=1000000000"]);
    record.env("XDG_CACHE_HOME", folder.join("cache"));
    record.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut recording = record.spawn().unwrap();
    let mut lines = BufReader::new(recording.stderr.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    let first = line();
    let address = first.strip_prefix("kymo: see it at ").unwrap();
    let events = |shown: &Value| shown["events"].as_u64().unwrap();
    let has = |least: u64| {
        let shown = shown(address);
        shown.is_some_and(|shown| {
            assert_eq!(shown["is_recorded"], true);
            assert_eq!(shown["is_whole"], false);
            events(&shown) >= least
        })
    };
    wait_until(|| has(1));
    let before = events(&shown(address).unwrap());
    wait_until(|| has(before + 20_000));

    interrupt(&recording);
    let summary = line();
    assert!(summary.contains("ended by an interrupt"), "{summary}");
    wait_until(|| shown(address).is_some_and(|shown| shown["is_whole"] == true));
    let shown = shown(address).unwrap();
    assert_eq!(shown["is_recorded"], false);
    let said = summary.split(" has ").nth(1).unwrap();
    let said: u64 = said
        .split(' ')
        .next()
        .unwrap()
        .replace(',', "")
        .parse()
        .unwrap();
    assert_eq!(events(&shown), said, "{summary}");
    // Lines about what was lost come before.
    while !line().ends_with(" until Ctrl-C") {}
    interrupt(&recording);
    assert_eq!(recording.wait().unwrap().code(), Some(0));
    // The index of the whole trace is kept, that of the recorded one is not.
    let kept = std::fs::read_dir(folder.join("cache/kymo")).unwrap();
    let kept: Vec<_> = kept.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(!kept[0].to_string_lossy().starts_with("live"), "{kept:?}");
}
