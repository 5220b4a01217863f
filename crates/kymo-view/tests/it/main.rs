//! The server, by requests over TCP.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod cases;
mod flame;
mod live;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use kymo::Text;
use kymo::vocabulary::{Irq, IrqEnter, IrqExit, SwitchReason, ThreadName, ThreadState, Tid};
use kymo_ctf::Trace;
use kymo_index::{Content, Index, Key, Options};
use kymo_made::{Made, US};
use kymo_view::{Server, View};

/// A folder for indexes.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let own = format!("kymo-view-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(own);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A server of a small trace, which runs until the test's process ends.
struct Site {
    port: u16,
    token: String,
    folder: PathBuf,
    made: Made,
}

impl Site {
    fn new() -> Site {
        Site::of(|view, path| view.read(path, Options::default()).unwrap())
    }

    /// The server, of which this is done before it answers.
    fn of(first: impl FnOnce(&View, &Path)) -> Site {
        Site::of_made(machine(), first)
    }

    /// The server of another trace, likewise.
    fn of_made(mut made: Made, first: impl FnOnce(&View, &Path)) -> Site {
        let folder = folder();
        let trace = Trace::open(made.finish()).unwrap();
        let map = trace.map();
        let path = Key::of(&trace, &map).unwrap().path_in(&folder);
        let view = View::new("<b>made</b>");
        view.open(trace, map);
        let server = Server::new(view, 0).unwrap();
        first(server.view(), &path);
        Site::in_folder(Box::leak(Box::new(server)), folder, made)
    }

    /// The server, which runs from now on.
    fn in_folder(server: &'static Server, folder: PathBuf, made: Made) -> Site {
        let address = server.address();
        let rest = address.strip_prefix("http://127.0.0.1:").unwrap();
        let (port, token) = rest.trim_end_matches('/').split_once('/').unwrap();
        let (port, token) = (port.parse().unwrap(), token.to_owned());
        thread::spawn(|| server.run());
        Site {
            port,
            token,
            folder,
            made,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(600)))
            .unwrap();
        stream
    }

    /// Head and body of what the server answers to these bytes.
    fn ask(&self, bytes: &[u8]) -> (String, Vec<u8>) {
        let mut stream = self.connect();
        // The server may refuse before it has all.
        let _ = stream.write_all(bytes);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let end = all.windows(4).position(|part| part == b"\r\n\r\n");
        let Some(end) = end else {
            return (String::new(), all);
        };
        let head = String::from_utf8(all[..end].to_vec()).unwrap();
        (head, all[end + 4..].to_vec())
    }

    /// The answer to a request with the token and this host.
    fn get(&self, path: &str) -> (String, Vec<u8>) {
        let (token, port) = (&self.token, self.port);
        let head = format!("Host: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
        self.ask(format!("GET /{token}/{path} HTTP/1.1\r\n{head}").as_bytes())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Two threads that take turns, of which one sleeps in one turn, and an interrupt in each turn.
fn machine() -> Made {
    let mut made = Made::new("view");
    for (tid, name) in [(5, "worker"), (6, "</script>")] {
        let (tid, name) = (Tid(tid), Text::new(name));
        made.event(0, 0, ThreadName { tid, name });
    }
    for turn in 0..200_u64 {
        let t = 1_000 * US + turn * 100 * US;
        let (prev, next) = if turn % 2 == 0 { (5, 6) } else { (6, 5) };
        let how = match turn {
            0 => (prev, ThreadState::Blocked, SwitchReason::Waits),
            _ => (prev, ThreadState::Runnable, SwitchReason::Expired),
        };
        made.switch(0, t, how, (next, 0));
        made.event(0, t + 40 * US, IrqEnter { irq: Irq(7) });
        if turn == 0 {
            made.wake(0, t + 45 * US, prev, 0);
        }
        made.event(0, t + 50 * US, IrqExit { irq: Irq(7) });
    }
    made
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap_or("0").parse().unwrap()
}

#[test]
fn the_page_and_its_parts_are_there_and_may_ask_nobody_else() {
    let site = Site::new();
    let (head, page) = site.get("");
    assert_eq!(status(&head), 200, "{head}");
    let page = String::from_utf8(page).unwrap();
    for line in [
        "Content-Security-Policy: default-src 'none'; script-src 'self';",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "Content-Type: text/html",
    ] {
        assert!(head.contains(line), "{head}");
    }
    // Everything that the page and its scripts name is there.
    let mut wanted = vec!["main.js".to_owned(), "style.css".to_owned()];
    assert!(page.contains("src=\"main.js\"") && page.contains("href=\"style.css\""));
    let mut size = page.len();
    let mut seen = Vec::new();
    while let Some(name) = wanted.pop() {
        if seen.contains(&name) {
            continue;
        }
        let (head, text) = site.get(&name);
        assert_eq!(status(&head), 200, "{name}");
        let text = String::from_utf8(text).unwrap();
        assert!(
            !text.contains("http://") && !text.contains("https://"),
            "{name}"
        );
        size += text.len();
        let names = text.split("from \"./").skip(1);
        wanted.extend(names.map(|rest| rest.split('"').next().unwrap().to_owned()));
        seen.push(name);
    }
    assert!(seen.len() > 5, "{seen:?}");
    assert!(size < 150 << 10, "the page's code has {size} bytes");
}

#[test]
fn nobody_else_gets_anything() {
    let site = Site::new();
    let (port, token) = (site.port, site.token.clone());
    let host = format!("127.0.0.1:{port}");
    let other_token = token.replace(|c: char| c.is_ascii_digit(), "a");
    let cross = "Sec-Fetch-Site: cross-site\r\n";
    for (path, host, more, wanted) in [
        (format!("/{token}/"), &*host, "", 200),
        (format!("/{token}/"), &*format!("localhost:{port}"), "", 200),
        (format!("/{token}/"), "localhost", "", 403),
        (format!("/{token}/"), "evil.example", "", 403),
        (
            format!("/{token}/api/trace"),
            &*format!("evil.example:{port}"),
            "",
            403,
        ),
        ("/".to_owned(), &*host, "", 403),
        ("/api/trace".to_owned(), &*host, "", 403),
        (format!("/{other_token}/api/trace"), &*host, "", 403),
        (format!("/{}/api/trace", &token[1..]), &*host, "", 403),
        (format!("/{token}"), &*host, "", 403),
        (format!("/{token}/api/trace"), &*host, cross, 403),
        (format!("/{token}/../Cargo.toml"), &*host, "", 404),
        (
            format!("/{token}/%2e%2e/%2e%2e/etc/passwd"),
            &*host,
            "",
            404,
        ),
        (format!("/{token}/page.rs"), &*host, "", 404),
        (format!("/{token}/api/"), &*host, "", 404),
        (format!("/{token}/api/window"), &*host, "", 400),
        (
            format!("/{token}/api/window?from=2&to=1&columns=5&rows=0"),
            &*host,
            "",
            400,
        ),
        (
            format!("/{token}/api/window?from=0&to=1&columns=5&rows=0-4000000000"),
            &*host,
            "",
            400,
        ),
        (
            format!("/{token}/api/window?from=0&to=1&columns=5&rows=a"),
            &*host,
            "",
            400,
        ),
        (
            format!("/{token}/api/window?from=-1&to=1&columns=5&rows=0"),
            &*host,
            "",
            400,
        ),
        (
            format!("/{token}/api/at?from=0&to=1&columns=5&row=99999999999&at=0"),
            &*host,
            "",
            400,
        ),
    ] {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n");
        let (head, body) = site.ask(request.as_bytes());
        assert_eq!(status(&head), wanted, "{path} {host}: {head}");
        let body = String::from_utf8(body).unwrap();
        if wanted != 200 {
            assert_eq!(body.lines().count(), 1, "{path}: {body}");
            assert!(!body.contains(&token), "{path}: {body}");
        }
    }
    let (head, _) = site.ask(format!("POST /{token}/ HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    assert_eq!(status(&head), 405);
}

/// Bytes without sense, and requests that are cut off, end their own connection only.
#[test]
fn noise_harms_nobody() {
    let site = Arc::new(Site::new());
    let mut seed = 7_u64;
    let mut random = |end: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) % end
    };
    let whole = format!(
        "GET /{}/api/trace HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
        site.token, site.port
    );
    for turn in 0..2_000 {
        let mut bytes = whole.clone().into_bytes();
        match turn % 3 {
            0 => bytes = (0..random(300)).map(|_| random(256) as u8).collect(),
            1 => {
                let place = random(bytes.len() as u64) as usize;
                bytes[place] = random(256) as u8;
            }
            _ => bytes.truncate(random(bytes.len() as u64) as usize),
        }
        let mut stream = site.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(status(&site.get("api/trace").0), 200);
}

/// The largest numbers are answered as others are.
#[test]
fn times_of_any_size_are_answered() {
    let site = Site::new();
    let most = u64::MAX;
    for query in [
        format!("window?from=0&to={most}&columns=1&rows=0-9"),
        format!("window?from={most}&to={most}&columns={most}&rows=0"),
        format!("at?from=0&to={most}&columns=1&row=0&at={most}"),
        format!("report?from=0&to={most}"),
        format!("events?from=0&to={most}"),
        format!("flame?from=0&to={most}&cpu={most}&thread={most}"),
        format!("diff?from=0&to={most}&other_from={most}&other_to={most}"),
        format!("find?from=0&to={most}&row=0"),
        format!("find?from={most}&to={most}&category=irq&tid={most}"),
        format!("arrows?from=0&to={most}&row=0"),
    ] {
        let (head, _) = site.get(&format!("api/{query}"));
        assert_eq!(status(&head), 200, "{query}: {head}");
    }
}

/// Until the first chunk has been read, the server serves the page, and answers what the page asks
/// for with status 503.
#[test]
fn a_trace_of_which_nothing_has_been_read_is_asked_for_again() {
    let site = Site::of(|_, _| ());
    assert_eq!(status(&site.get("").0), 200);
    for what in [
        "trace",
        "window?from=0&to=1&columns=1&rows=0",
        "report?from=0&to=1",
    ] {
        let (head, body) = site.get(&format!("api/{what}"));
        assert_eq!(status(&head), 503, "{head}");
        let body = String::from_utf8(body).unwrap();
        assert_eq!(body.trim(), "Nothing of the trace has been read yet.");
    }
    let whole = Site::new();
    let (_, body) = whole.get("api/trace");
    let trace: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(trace["is_whole"], true);
    let read = trace["read_ns"].as_u64().unwrap();
    assert_eq!(trace["span_ns"].as_u64().unwrap() + 1, read);
}

/// A connection is used again, and many may be open.
#[test]
fn a_connection_serves_several_requests() {
    let site = Site::new();
    let mut idle: Vec<TcpStream> = (0..40).map(|_| site.connect()).collect();
    let request = format!(
        "GET /{}/style.css HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
        site.token, site.port
    );
    for stream in &mut idle {
        for _ in 0..3 {
            stream.write_all(request.as_bytes()).unwrap();
            let mut bytes = [0; 15];
            stream.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"HTTP/1.1 200 OK");
            // The rest, by its length.
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let length = head.split("Content-Length: ").nth(1).unwrap();
            let length = length.split("\r\n").next().unwrap().parse().unwrap();
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
        }
    }
}

/// The words of a window are what the index has, in sixteenths of a column.
#[test]
fn a_window_is_that_of_the_index() {
    let mut site = Site::new();
    let trace = Trace::open(site.made.finish()).unwrap();
    let map = trace.map();
    let path = Key::of(&trace, &map).unwrap().path_in(&site.folder);
    let index = Index::open_or_make(&trace, &map, &path, Options::default(), |_| ()).unwrap();
    let rows: Vec<u32> = (0..index.registry().rows().len() as u32).collect();
    let begin = index.span().start;
    let (from, to, columns) = (3_000_000_u64, 9_000_000_u64, 600_u32);
    let window = index
        .window(&map, &rows, begin + from..begin + to, columns)
        .unwrap();
    let list = format!("0-{}", rows.len() - 1);
    let (head, body) = site.get(&format!(
        "api/window?from={from}&to={to}&columns={columns}&rows={list}"
    ));
    assert_eq!(status(&head), 200, "{head}");
    let words: Vec<u32> = body
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let mut at = 1;
    let mut slices = 0;
    assert_eq!(words[0], 1);
    let place = |time: u64| {
        (time.saturating_sub(begin + from) * 16 * u64::from(columns) / (to - from)) as u32
    };
    for row in &window.rows {
        let count = words[at] as usize;
        let entries: Vec<&[u32]> = words[at + 1..at + 1 + 5 * count].chunks_exact(5).collect();
        at += 1 + 5 * count;
        match row {
            Content::Runs(runs) => {
                assert_eq!(runs.len(), count);
                for (run, entry) in runs.iter().zip(entries) {
                    let wanted = [place(run.begin), place(run.end), run.name, run.count as u32];
                    assert_eq!(entry[..4], wanted, "{run:?}");
                }
                slices += count;
            }
            Content::Values(values) => assert_eq!(values.len(), count),
        }
    }
    assert_eq!(at, words.len());
    assert!(slices > 100, "{slices}");
    // A slice under the mouse: the interrupt of the 25th turn.
    let interrupts = index
        .registry()
        .names()
        .iter()
        .position(|name| name.category == "irq");
    let row = window.rows.iter().position(|row| match row {
        Content::Runs(runs) => runs
            .first()
            .is_some_and(|run| Some(run.name as usize) == interrupts),
        Content::Values(_) => false,
    });
    let at = 1_000_000 + 25 * 100_000 + 45_000 - begin;
    let (_, found) = site.get(&format!(
        "api/at?from={from}&to={to}&columns={columns}&row={}&at={at}",
        row.unwrap()
    ));
    let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
    assert_eq!(found["begin_ns"], 1_000_000 + 25 * 100_000 + 40_000 - begin);
    assert_eq!((&found["count"], &found["number"]), (&1.into(), &7.into()));
    assert_eq!(found["longest_ns"], 10_000);
}
