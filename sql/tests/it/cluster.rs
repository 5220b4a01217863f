//! Workers: the answers of one process, or one clear sentence, whatever happens to a worker or a
//! file.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use kymo_sql::{Cluster, Error, Limits, Session, Store, questions};

use crate::made::{Random, asked, busy, rows};
use crate::store::{Folder, add, labels, three};

/// A worker, which ends with the test.
struct Worker {
    child: Child,
    address: String,
    /// A line for each part of a query that it runs.
    parts: Receiver<String>,
}

impl Worker {
    fn start(words: &[&str]) -> Worker {
        let mut command = query_command();
        let listen = format!("{}:0", loopback());
        command.args(["worker", "--listen", &listen, "--log"]);
        command.args(words).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("a worker answers at ").unwrap();
        let (to, parts) = channel();
        let log = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                let _ = to.send(line);
            }
        });
        Worker {
            address: address.to_owned(),
            child,
            parts,
        }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it runs a part of a query, and forgets the parts of earlier ones.
    fn wait_for_part(&self, query: &mut Child) {
        while query.try_wait().unwrap().is_none() {
            if self.parts.recv_timeout(Duration::from_millis(10)).is_ok() {
                return;
            }
        }
    }

    fn forget_parts(&self) {
        while self.parts.try_recv().is_ok() {}
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A loopback address that no other test uses, so that none takes the port of a dead worker.
pub(crate) fn loopback() -> Ipv4Addr {
    static NUMBER: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, high, low, NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn query_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kymo-query"))
}

/// The command that asks workers about a store, and ends if a lost worker leaves it waiting.
fn on(workers: &[&Worker], store: &Folder, sql: &str) -> Command {
    within("300", workers, store, sql)
}

fn within(seconds: &str, workers: &[&Worker], store: &Folder, sql: &str) -> Command {
    let addresses: Vec<&str> = workers.iter().map(|worker| &*worker.address).collect();
    let mut command = query_command();
    command.args(["--format", "csv", "--deadline", seconds, "--cluster"]);
    command.arg(addresses.join(",")).arg(&store.0).arg(sql);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The standard output, the standard error and the status.
fn told(output: Output) -> (String, String, Option<i32>) {
    let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (out, said, output.status.code())
}

fn alone(store: &Folder, sql: &str) -> String {
    let mut command = query_command();
    command.args(["--format", "csv"]).arg(&store.0).arg(sql);
    let (out, said, status) = told(command.output().unwrap());
    assert_eq!(status, Some(0), "{said}");
    out
}

fn session_on(workers: &[&Worker], store: &Folder) -> Session {
    let opened = Store::open(&store.0).unwrap();
    let mut session = Session::of_store(&opened, Limits::default()).unwrap();
    let addresses = workers.iter().map(|worker| &*worker.address);
    let cluster = Arc::new(Cluster::new(addresses).unwrap());
    session.ask_workers(cluster).unwrap();
    session
}

/// The lines of an answer, in their order.
fn lines(answer: &str) -> Vec<String> {
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn sorted(rows: Vec<serde_json::Value>) -> Vec<String> {
    let mut rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    rows.sort();
    rows
}

#[test]
fn every_ready_question_has_the_rows_of_one_process() {
    let (store, _three, _) = three("cluster-questions");
    let workers = [Worker::start(&[]), Worker::start(&[])];
    let (alone, shared) = (store.session(), session_on(&workers.each_ref(), &store));
    let mut with_rows = 0;
    for question in questions() {
        let values = question.parameters.iter().map(|of| {
            let value = if of.is_build() { "a" } else { of.default };
            (of.name.to_owned(), value.to_owned())
        });
        let values: Vec<_> = values.collect();
        let wanted = sorted(asked(&alone, question.sql, &values).unwrap());
        let found = sorted(asked(&shared, question.sql, &values).unwrap());
        assert_eq!(found, wanted, "@{}", question.name);
        with_rows += usize::from(!wanted.is_empty());
    }
    assert!(with_rows > 20, "{with_rows}");
    // Each worker had its part, and has one of a client with one thread.
    let had_parts = || {
        workers
            .iter()
            .all(|worker| worker.parts.try_iter().count() > 0)
    };
    assert!(had_parts());
    let sql = "select host, max(duration_ns) from syscalls group by host";
    let mut query = on(&workers.each_ref(), &store, sql);
    let (_, said, status) = told(query.args(["--jobs", "1"]).output().unwrap());
    assert_eq!(status, Some(0), "{said}");
    assert!(had_parts());
}

#[test]
fn every_table_and_word_is_the_same_over_workers() {
    let (store, _three, _) = three("cluster-tables");
    let workers = [Worker::start(&[]), Worker::start(&["--jobs", "1"])];
    let (alone, shared) = (store.session(), session_on(&workers.each_ref(), &store));
    let tables = "select table_schema as schema, table_name as name \
                  from information_schema.tables where table_schema in ('trace', 'event')";
    let names = rows(&shared, tables).unwrap();
    assert_eq!(sorted(names.clone()), sorted(rows(&alone, tables).unwrap()));
    let tables = names.iter().map(|table| {
        let [schema, name] = ["schema", "name"].map(|cell| table[cell].as_str().unwrap());
        format!("select * from {schema}.\"{name}\"")
    });
    let others = [
        "select host, name, percentile(duration_ns, 0.99), count(*) from syscalls \
         where duration_ns > ns('10ns') group by host, name",
        "select * from syscalls order by begin_ns, cpu, name limit 10",
        "select date, host, boot, build, trace, time from events where host = '1'",
        "select sum(overlap(a.begin_ns, a.end_ns, b.begin_ns, b.end_ns)) from syscalls a \
         join interrupts b on a.trace = b.trace and a.cpu = b.cpu",
        "select p_value(count(*) / 1000.0) from events where glob(name, 'sched*')",
        "select 1 as n union all select count(*) from events",
        "select count(*) from events where build = 'nothing'",
        "select name, max(n) over (partition by name) from (select host, name, count(*) as n \
         from syscalls group by host, name)",
        "describe syscalls",
        "show tables",
    ];
    let others = others.iter().map(|sql| (*sql).to_owned());
    let mut compared = 0;
    for sql in tables.chain(others) {
        let wanted = sorted(rows(&alone, &sql).unwrap());
        assert!(sorted(rows(&shared, &sql).unwrap()) == wanted, "{sql}");
        compared += 1;
    }
    assert!(compared > 50, "{compared}");
    // Wrong queries have the sentences of one process.
    for sql in [
        "selec 1",
        "select * from nothing",
        "select ns(name) from syscalls",
    ] {
        let said = [&alone, &shared].map(|one| rows(one, sql).unwrap_err().to_string());
        assert_eq!(said[0], said[1]);
    }
}

/// A query that takes a while: pairs of calls.
const PAIRS: &str = "select a.host, a.number, count(*) as pairs, sum(a.duration_ns) as ns, \
                     max(b.duration_ns - a.duration_ns) as most \
                     from syscalls a join syscalls b on a.number = b.number \
                     where a.duration_ns <= b.duration_ns + 400 \
                     group by a.host, a.number order by a.host, a.number";

/// A query with many rows, in no order: some come while others are still computed.
const ROWS: &str = "select a.host, a.begin_ns, b.begin_ns, a.number \
                    from syscalls a join syscalls b on a.number = b.number where a.duration_ns > b.duration_ns + 350";

/// A store of four traces.
fn fleet(name: &str) -> Folder {
    let store = Folder::new(name);
    for host in 0..4 {
        let mut made = busy(&format!("{name}-{host}"), 50 + host, 2_000);
        add(&store, made.finish(), &labels(&host.to_string(), "a")).unwrap();
    }
    store
}

#[test]
fn a_worker_that_is_killed_costs_no_answer() {
    const KILLED: usize = 10;
    let store = fleet("cluster-killed");
    let queries = [PAIRS, ROWS].map(|sql| (sql, lines(&alone(&store, sql))));
    assert_eq!(queries[0].1.len(), 1 + 4 * 3);
    assert!(queries[1].1.len() > 50_000, "{}", queries[1].1.len());
    let stays = Worker::start(&[]);
    let first = Worker::start(&[]);
    for (sql, wanted) in &queries {
        let (out, said, status) = told(on(&[&stays, &first], &store, sql).output().unwrap());
        assert_eq!((said.as_str(), status), ("", Some(0)));
        assert!(lines(&out) == *wanted, "{sql}");
    }
    drop(first);

    // A worker is killed within this time, in milliseconds, after its first part; the time
    // shrinks where the query was faster.
    let (mut random, mut within, mut lost) = (Random(23), 4_000, 0);
    while lost < KILLED {
        let mut killed = Worker::start(&[]);
        let (sql, wanted) = &queries[lost % 2];
        let mut query = on(&[&stays, &killed], &store, sql).spawn().unwrap();
        killed.wait_for_part(&mut query);
        std::thread::sleep(Duration::from_millis(random.below(within + 1)));
        killed.kill();
        let (out, said, status) = told(query.wait_with_output().unwrap());
        assert_eq!(status, Some(0), "{said}");
        assert!(lines(&out) == *wanted, "{sql}: {said}");
        if said.is_empty() {
            within -= within / 8;
        } else {
            assert!(said.contains(&killed.address), "{said}");
            assert!(said.contains("is asked again of the others"), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            lost += 1;
        }
        // The next query works, and says who is missing.
        let next = "select count(*) as n from syscalls";
        let (out, said, status) = told(on(&[&stays, &killed], &store, next).output().unwrap());
        assert_eq!(status, Some(0), "{said}");
        assert_eq!(out, alone(&store, next));
        assert!(said.contains(&killed.address), "{said}");
    }
}

#[test]
fn without_workers_there_is_a_sentence_or_a_local_answer() {
    let store = fleet("cluster-none");
    let wanted = alone(&store, PAIRS);
    for is_local in [false, true] {
        let mut workers = [Worker::start(&[]), Worker::start(&[])];
        let mut query = on(&workers.each_ref(), &store, PAIRS);
        query.args(is_local.then_some("--local-fallback"));
        let mut query = query.spawn().unwrap();
        workers[0].wait_for_part(&mut query);
        workers[1].wait_for_part(&mut query);
        for worker in &mut workers {
            worker.kill();
        }
        let (out, said, status) = told(query.wait_with_output().unwrap());
        assert!(said.contains("no worker is left"), "{said}");
        match is_local {
            true => assert_eq!((out.as_str(), status), (wanted.as_str(), Some(0)), "{said}"),
            false => assert_eq!((out.as_str(), status), ("", Some(4)), "{said}"),
        }
        // From the beginning.
        let mut query = on(&workers.each_ref(), &store, PAIRS);
        query.args(is_local.then_some("--local-fallback"));
        let (out, said, status) = told(query.output().unwrap());
        match is_local {
            true => assert_eq!((out.as_str(), status), (wanted.as_str(), Some(0)), "{said}"),
            false => {
                assert_eq!((out.as_str(), status), ("", Some(4)), "{said}");
                assert_eq!(said.lines().count(), 1, "{said}");
                for worker in &workers {
                    assert!(said.contains(&worker.address), "{said}");
                }
            }
        }
    }
}

/// A query that no test waits for.
const LONG: &str = "select count(*) as n from syscalls a join syscalls b on a.cpu = b.cpu \
                    join syscalls c on b.cpu = c.cpu where a.duration_ns < b.duration_ns + c.cpu";

#[test]
fn a_query_on_which_two_workers_are_lost_is_asked_of_no_third() {
    let store = fleet("cluster-ends");
    let mut workers = [(); 3].map(|()| Worker::start(&[]));
    let mut query = on(&workers.each_ref(), &store, LONG).spawn().unwrap();
    for lost in 0..2 {
        workers[lost].wait_for_part(&mut query);
        for others in &workers[lost + 1..] {
            others.wait_for_part(&mut query);
            others.forget_parts();
        }
        workers[lost].kill();
    }
    let (out, said, status) = told(query.wait_with_output().unwrap());
    assert_eq!((out.as_str(), status), ("", Some(4)), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("is asked of no other"), "{said}");
    for worker in &workers[..2] {
        assert!(last.contains(&worker.address), "{said}");
    }
    // The third one is there for the next.
    let next = "select count(*) as n from syscalls";
    let (out, said, status) = told(on(&[&workers[2]], &store, next).output().unwrap());
    assert_eq!(
        (out, said.as_str(), status),
        (alone(&store, next), "", Some(0))
    );
}

#[test]
fn a_deadline_ends_a_query_and_workers_go_on() {
    let store = fleet("cluster-deadline");
    let workers = [Worker::start(&[]), Worker::start(&[])];
    let mut query = within("1", &workers.each_ref(), &store, LONG);
    let (out, said, status) = told(query.output().unwrap());
    assert_eq!((out.as_str(), status), ("", Some(4)), "{said}");
    assert!(said.contains("did not end within 1 s"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // ^C does, too.
    workers[0].forget_parts();
    let mut query = on(&workers.each_ref(), &store, LONG).spawn().unwrap();
    workers[0].wait_for_part(&mut query);
    signal(&query, "INT");
    let (out, said, status) = told(query.wait_with_output().unwrap());
    assert_eq!((out.as_str(), status), ("", Some(130)), "{said}");
    let next = "select count(*) as n from syscalls";
    let (out, said, status) = told(on(&workers.each_ref(), &store, next).output().unwrap());
    assert_eq!(
        (out, said.as_str(), status),
        (alone(&store, next), "", Some(0))
    );
}

#[test]
fn an_interrupt_ends_a_query_that_prints() {
    let store = fleet("cluster-prints");
    let worker = Worker::start(&[]);
    let mut query = on(&[&worker], &store, ROWS).spawn().unwrap();
    // The answer is longer than a pipe, and is there when its first line is.
    let mut out = BufReader::new(query.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    signal(&query, "INT");
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    let (_, said, status) = told(query.wait_with_output().unwrap());
    assert_eq!(status, Some(130), "{said}");
}

#[test]
fn a_worker_that_is_stopped_costs_no_answer() {
    let store = fleet("cluster-stopped");
    let wanted = alone(&store, PAIRS);
    let (stays, stopped) = (Worker::start(&[]), Worker::start(&[]));
    let mut query = on(&[&stays, &stopped], &store, PAIRS).spawn().unwrap();
    stopped.wait_for_part(&mut query);
    signal(&stopped.child, "STOP");
    let (out, said, status) = told(query.wait_with_output().unwrap());
    assert_eq!((out, status), (wanted, Some(0)), "{said}");
    assert!(said.contains(&stopped.address), "{said}");
    assert!(said.contains("is asked again of the others"), "{said}");
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn files_that_are_not_as_they_were_end_a_query_by_name() {
    let store = fleet("cluster-files");
    let workers = [Worker::start(&[]), Worker::start(&[])];
    let count = "select count(*) as n, sum(duration_ns) as ns from syscalls";
    let wanted = alone(&store, count);
    let files: Vec<PathBuf> = store.files("syscalls.parquet");
    let file = &files[2];
    let bytes = fs::read(file).unwrap();
    let refused = |says: &[&str]| {
        let (out, said, status) = told(on(&workers.each_ref(), &store, count).output().unwrap());
        assert_eq!((out.as_str(), status), ("", Some(3)), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for says in says {
            assert!(said.contains(says), "{says}: {said}");
        }
    };
    let path = file.to_str().unwrap();
    fs::write(file, &bytes[..bytes.len() / 2]).unwrap();
    refused(&[path, "its manifest says"]);
    fs::remove_file(file).unwrap();
    refused(&[path, "cannot be read"]);
    // As long as it was, but damaged, where only a worker looks.
    let mut damaged = bytes.clone();
    let end = damaged.len() - 8;
    damaged[end - 200..end].fill(0xff);
    fs::write(file, &damaged).unwrap();
    refused(&[path, "is damaged"]);
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 3] ^= 0x11;
    fs::write(file, &damaged).unwrap();
    refused(&[path, "is damaged", "worker http"]);
    fs::write(file, &bytes).unwrap();
    let manifest = file.parent().unwrap().join("manifest.json");
    let said = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, said.replace("\"version\": 2", "\"version\": 7")).unwrap();
    refused(&["version 7"]);
    fs::write(&manifest, said).unwrap();
    let (out, said, status) = told(on(&workers.each_ref(), &store, count).output().unwrap());
    assert_eq!((out, said.as_str(), status), (wanted, "", Some(0)));

    // A worker that sees other files says so.
    let elsewhere = Worker::start(&["--root", env!("CARGO_MANIFEST_DIR")]);
    let (out, said, status) = told(on(&[&elsewhere], &store, count).output().unwrap());
    assert_eq!((out.as_str(), status), ("", Some(3)), "{said}");
    assert!(
        said.contains(&elsewhere.address) && said.contains("outside --root"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn workers_end_when_they_are_told() {
    for name in ["TERM", "INT"] {
        let mut worker = Worker::start(&[]);
        signal(&worker.child, name);
        assert!(worker.child.wait().unwrap().success(), "{name}");
    }
    let first = Worker::start(&[]);
    let taken = first.address.strip_prefix("http://").unwrap();
    let mut second = query_command();
    second.args(["worker", "--listen", taken]);
    let (out, said, status) = told(second.output().unwrap());
    assert_eq!((out.as_str(), status), ("", Some(4)), "{said}");
    assert!(said.contains("cannot listen at 127."), "{said}");
}

#[test]
fn wrong_words_about_workers_are_one_sentence() {
    let mut made = busy("cluster-words", 3, 20);
    let trace = made.finish().to_str().unwrap().to_owned();
    let store = Folder::new("cluster-words");
    add(&store, made.finish(), &labels("h", "a")).unwrap();
    let store = store.0.to_str().unwrap();
    let bound = TcpListener::bind((loopback(), 0)).unwrap();
    let taken = bound.local_addr().unwrap().to_string();
    let wrong: [(&[&str], i32, &str); 6] = [
        (
            &["--cluster", "http://127.0.0.1:1", &trace, "select 1"],
            2,
            "about a store",
        ),
        (
            &["--cluster", "http://:x", store, "select 1"],
            2,
            "no address",
        ),
        (
            &["--cluster", "https://a:1", store, "select 1"],
            2,
            "no address",
        ),
        (&["--cluster", "", store, "select 1"], 2, "no address"),
        (&["--local-fallback", store, "select 1"], 2, "--cluster"),
        (
            &["worker", "--listen", &taken, "--root", "/nowhere"],
            3,
            "/nowhere",
        ),
    ];
    for (words, status, says) in wrong {
        let (out, said, found) = told(query_command().args(words).output().unwrap());
        assert_eq!(
            (out.as_str(), found),
            ("", Some(status)),
            "{words:?}: {said}"
        );
        assert!(said.contains(says), "{words:?}: {said}");
    }
    assert!(matches!(
        Cluster::new([] as [&str; 0]),
        Err(Error::Query(_))
    ));
}
