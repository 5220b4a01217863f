//! `kymo view`: what its server says of a stretch of time is what `kymo report` says.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::pages::machine;
use crate::run::kymo;

/// Numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// `kymo view`, and its address.
pub(crate) struct View {
    child: Child,
    address: String,
}

impl View {
    pub(crate) fn new(trace: &Path, index: &Path) -> View {
        View::with(&[], trace, index)
    }

    pub(crate) fn with(options: &[&str], trace: &Path, index: &Path) -> View {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(["view", "--no-open"])
            .args(options)
            .arg("--index")
            .args([index, trace])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut address).unwrap();
        let address = address.trim().to_owned();
        assert!(address.starts_with("http://127.0.0.1:"), "{address}");
        View { child, address }
    }

    /// The trace, once all of it has been read.
    pub(crate) fn whole(&self) -> Value {
        loop {
            let (head, body) = self.ask("api/trace");
            if head.starts_with("HTTP/1.1 200") {
                let trace: Value = serde_json::from_str(&body).unwrap();
                if trace["is_whole"] == true {
                    return trace;
                }
            } else {
                assert!(head.starts_with("HTTP/1.1 503"), "{head}");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (head, body) = self.ask(path);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Head and body of an answer.
    pub(crate) fn ask(&self, path: &str) -> (String, String) {
        let (host, token) = self.address[7..].split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let request =
            format!("GET /{token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_report_of_a_stretch_is_that_of_the_command() {
    let mut made = machine("view", 60, 60);
    let trace = made.finish().to_owned();
    let index = std::env::temp_dir().join(format!("kymo-view-index-{}", std::process::id()));
    let view = View::new(&trace, &index);
    let about = view.whole();
    let begin: u64 = about["begin_ns"].as_str().unwrap().parse().unwrap();
    let mut random = Random(11);
    for _ in 0..20 {
        let from = random.below(500_000_000);
        let to = from + random.below(90_000_000);
        // Seconds of the clock's day are no option here: the trace begins at its origin.
        let seconds = |at: u64| {
            let nanos = begin + at;
            format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
        };
        let (first, last) = (seconds(from), seconds(to));
        let output = kymo(
            &["report", "--json", "--from", &first, "--to", &last],
            &trace,
        );
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut shown = view.get(&format!("api/report?from={from}&to={to}"));
        // Beside the report stand its worst cases, of which the page makes buttons.
        let worst = shown.as_object_mut().unwrap().remove("worst").unwrap();
        let longest = worst.as_array().unwrap().iter();
        let longest = longest
            .filter(|case| case["kind"] == "interrupt")
            .map(|case| {
                let at = |name: &str| case[name].as_i64().unwrap();
                at("end_ns") - at("begin_ns")
            });
        let interrupts = printed["interrupts"].as_array().into_iter().flatten();
        let most = interrupts.filter_map(|one| one["durations"]["max_ns"].as_i64());
        assert_eq!(longest.max(), most.max(), "{from} to {to}");
        assert_eq!(shown, printed, "{from} to {to}");
    }
    drop(view);
    std::fs::remove_dir_all(&index).unwrap();
}

/// A trace that another program records.
#[test]
fn a_trace_that_grows_is_followed() {
    let mut made = machine("view-follow", 20, 20);
    let trace = made.finish().to_owned();
    let index = std::env::temp_dir().join(format!("kymo-view-follow-{}", std::process::id()));
    let view = View::with(&["--follow"], &trace, &index);
    let mut last = 0;
    for round in 0..3 {
        let all = kymo(&["report", "--json"], &trace);
        let all: Value = serde_json::from_slice(&all.stdout).unwrap();
        let all = all["events"].as_u64().unwrap();
        assert!(all > last);
        last = all;
        loop {
            let (head, body) = view.ask("api/trace");
            if head.starts_with("HTTP/1.1 200") {
                let shown: Value = serde_json::from_str(&body).unwrap();
                assert_eq!(
                    (&shown["is_recorded"], &shown["is_whole"]),
                    (&true.into(), &false.into())
                );
                if shown["events"] == all {
                    break;
                }
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // A flame graph of what there is so far.
        let (head, body) = view.ask("api/flame?from=0&to=1000000");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(body.contains("no samples so far"), "{body}");
        let later = 3_600_000_000_000 * (round + 1);
        made.wake(0, later, 1, 0);
        made.wake(0, later + 5, 1, 0);
        made.finish();
    }
    drop(view);
    std::fs::remove_dir_all(&index).unwrap();
    let nothing = std::env::temp_dir().join(format!("kymo-follow-no-trace-{}", std::process::id()));
    let output = kymo(&["view", "--no-open", "--follow"], &nothing);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
}

/// No page is opened for what is not recorded at all.
#[test]
fn a_recording_that_cannot_begin_has_no_page() {
    let folder = std::env::temp_dir().join(format!("kymo-view-none-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("full")).unwrap();
    std::fs::write(folder.join("full/metadata"), "of another trace").unwrap();
    let refused = |arguments: &[&str], out: &str, status: i32| {
        let output = kymo(
            &[arguments, &["--view", "--no-open", "--out"]].concat(),
            &folder.join(out),
        );
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(!message.contains("see it at"), "{message}");
    };
    let file = folder.join("full/metadata");
    let file = file.to_str().unwrap();
    refused(&["record", "/nowhere/kernel.elf"], "new", 3);
    refused(&["record", "--file", file], "full", 2);
    refused(&["attach", file], "full", 2);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_cannot_be_shown_is_said_in_a_sentence() {
    let nothing = std::env::temp_dir().join(format!("kymo-no-trace-{}", std::process::id()));
    let output = kymo(&["view", "--no-open"], &nothing);
    assert_eq!(output.status.code(), Some(3));
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    let mut made = machine("view-port", 2, 1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let index = std::env::temp_dir().join(format!("kymo-view-port-{}", std::process::id()));
    let index_name = index.to_str().unwrap();
    let output = kymo(
        &["view", "--no-open", "--port", &port, "--index", index_name],
        made.finish(),
    );
    assert_eq!(output.status.code(), Some(4));
    let message = String::from_utf8(output.stderr).unwrap();
    let last = message.lines().last().unwrap();
    assert!(
        last.starts_with(&format!("kymo: cannot listen on port {port}")),
        "{message}"
    );
    std::fs::remove_dir_all(&index).unwrap();
}

#[test]
fn a_page_is_one_file_that_asks_nobody() {
    let mut made = machine("view-html", 10, 4);
    let trace = made.finish().to_owned();
    let index = std::env::temp_dir().join(format!("kymo-view-html-{}", std::process::id()));
    let index_name = index.to_str().unwrap();
    let page = |more: &[&str]| {
        let mut arguments = vec!["view", "--index", index_name, "--html"];
        arguments.extend(more);
        kymo(&arguments, &trace)
    };
    let output = page(&["-"]);
    assert_eq!(output.status.code(), Some(0));
    let html = String::from_utf8(output.stdout).unwrap();
    assert!(html.starts_with("<!doctype html>"), "{html}");
    assert!(html.trim_end().ends_with("</html>"));
    // What could make a browser ask for something.
    for word in ["http:", "https:", "src=", "href=\"style", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("default-src 'none'"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("kymo: a page of "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    // A part of it is smaller.
    let file = index.join("page.html");
    let name = file.to_str().unwrap();
    let output = page(&[name, "--from", "0.1", "--to", "+10ms"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(std::fs::read(&file).unwrap().len() < html.len());

    std::fs::remove_file(&file).unwrap();
    let inside = trace.join("page.html");
    let no_code = index.join("kernel.elf");
    std::fs::write(&no_code, "no code").unwrap();
    let no_code = no_code.to_str().unwrap();
    for (refused, code, why) in [
        (&[name, "--from", "1h"][..], 2, "expected a time"),
        (&[name, "--from", "9999"], 2, "no event is between"),
        (
            &[name, "--from", "0.2", "--to", "0.1"],
            2,
            "--to is before --from",
        ),
        (&[name, "--port", "80"], 2, "cannot be used with"),
        (&[inside.to_str().unwrap()], 2, "inside the input trace"),
        (&[name, "--kernel", no_code], 3, "cannot read"),
    ] {
        let output = page(refused);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{refused:?}: {said}");
        assert!(said.contains(why), "{refused:?}: {said}");
        assert!(
            code == 2 || said.lines().count() == 1,
            "{refused:?}: {said}"
        );
        assert!(!file.exists() && !inside.exists(), "{refused:?}");
    }
    std::fs::remove_dir_all(&index).unwrap();
}
