//! `kymo attach` on running machines, which keep running; whatever ends it, the trace is complete
//! and the message gives the reason.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use kymo_capture::locate;
use kymo_capture::qemu::{Launch, Qemu};
use kymo_ctf::{Item, Trace};
use kymo_e2e::{babeltrace, hello, kymo, ledger, run, scratch, wait_until};

/// A machine with `kernels/hello` that is not being recorded.
struct Machine {
    qemu: Qemu,
    folder: PathBuf,
    ram: PathBuf,
    /// QEMU's monitor, for `kymo attach`.
    socket: PathBuf,
    /// A monitor for the test: each serves one client at a time.
    control: PathBuf,
}

fn is_tracing(ram: &Path) -> bool {
    locate::segments(ram, None)
        .and_then(|segments| locate::region(ram, &segments))
        .is_ok()
}

impl Machine {
    /// Starts a machine, and waits for its kernel's trace unless `-S` is among the options.
    fn start(name: &str, append: &str, more: &[&str]) -> Machine {
        let folder = scratch(name);
        let ram = folder.join("ram");
        // A socket's path must be short.
        let socket =
            std::env::temp_dir().join(format!("kymo-attach-{}-{name}", std::process::id()));
        let control = socket.with_extension("control");
        let monitor = |path: &Path| format!("unix:{},server=on,wait=off", path.display());
        let launch = Launch::kernel(&hello(), 4, Some(append), &ram)
            .unwrap()
            .with(["-qmp", &monitor(&socket), "-qmp", &monitor(&control)])
            .with(more.iter().copied());
        let qemu = Qemu::spawn(&launch, Stdio::null()).unwrap();
        let machine = Machine {
            qemu,
            folder,
            ram,
            socket,
            control,
        };
        // The file exists before QEMU listens.
        wait_until(|| UnixStream::connect(&machine.control).is_ok());
        machine.ask("query-status");
        if !more.contains(&"-S") {
            wait_until(|| is_tracing(&machine.ram));
        }
        machine
    }

    fn attach(&self, out: &str, options: &[&str]) -> Command {
        let mut command = kymo([
            "attach".as_ref(),
            "--out".as_ref(),
            self.folder.join(out).as_os_str(),
        ]);
        command.arg(&self.ram).args(options);
        command
    }

    fn attach_by_socket(&self, out: &str, options: &[&str]) -> Command {
        let mut command = kymo([
            "attach".as_ref(),
            "--out".as_ref(),
            self.folder.join(out).as_os_str(),
        ]);
        command.arg("--qmp").arg(&self.socket).args(options);
        command
    }

    /// QEMU's answer to a command.
    fn ask(&self, command: &str) -> String {
        let mut monitor = BufReader::new(UnixStream::connect(&self.control).unwrap());
        let mut answer = String::new();
        for command in ["qmp_capabilities", command] {
            monitor
                .get_mut()
                .write_all(format!("{{\"execute\":\"{command}\"}}\n").as_bytes())
                .unwrap();
            answer.clear();
            while !answer.contains("\"return\"") {
                answer.clear();
                assert!(monitor.read_line(&mut answer).unwrap() > 0);
            }
        }
        answer
    }

    /// Calls of tracepoints so far, by the kernel's own count.
    fn calls(&self) -> u64 {
        ledger::read(&self.ram, &hello(), 4)
            .iter()
            .map(ledger::Hart::events)
            .sum()
    }

    /// Waits for this many further calls: on a busy host the machine may be stopped for a while.
    fn goes_on(&self, calls: u64) {
        let before = self.calls();
        wait_until(|| self.calls() >= before + calls);
    }

    fn runs(&mut self) -> bool {
        self.qemu.try_wait().unwrap().is_none()
            && self.ask("query-status").contains("\"running\": true")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for socket in [&self.socket, &self.control] {
            let _ = fs::remove_file(socket);
        }
    }
}

fn said(command: &mut Command, code: i32) -> String {
    String::from_utf8(run(command, code).stderr).unwrap()
}

fn interrupted(child: Child, code: i32) -> String {
    run(
        Command::new("kill").args(["-INT", &child.id().to_string()]),
        0,
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// By hart: the events in the trace plus the reported losses.
fn accounted(trace: &Path) -> Vec<u64> {
    let mut harts = vec![0; 4];
    for item in Trace::open(trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event)
                if event.name() != "thread_name" && !event.name().starts_with("kymo_") =>
            {
                harts[event.cpu().unwrap() as usize] += 1
            }
            Item::Loss(loss)
                if loss.stream.starts_with("events") && loss.kind == kymo_ctf::LossKind::Events =>
            {
                harts[loss.cpu.unwrap() as usize] += loss.count;
            }
            _ => {}
        }
    }
    harts
}

const ENDLESS: &str = "kymo=rolling work=markers events=1000000000 packets=16";

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_machine_that_runs_is_read_and_runs_on() {
    let mut machine = Machine::start("attach", ENDLESS, &[]);
    machine.goes_on(10_000);
    for (out, mut command) in [
        ("by-file", machine.attach("by-file", &["--duration", "0.1"])),
        (
            "by-socket",
            machine.attach_by_socket("by-socket", &["--duration", "0.1"]),
        ),
    ] {
        let text = said(&mut command, 0);
        assert!(
            text.contains("the requested duration elapsed and the machine was left running; "),
            "{text}"
        );
        assert!(babeltrace::compare(&machine.folder.join(out)).0 > 1000);
        assert!(machine.runs());
    }
    let child = machine
        .attach("interrupt", &[])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| machine.folder.join("interrupt/events_3").exists());
    let text = interrupted(child, 0);
    assert!(
        text.contains("the recording was interrupted and the machine was left running; "),
        "{text}"
    );
    assert!(machine.runs());
    babeltrace::compare(&machine.folder.join("interrupt"));
    // The machine is stopped for a copy, and resumes.
    let text = said(&mut machine.attach_by_socket("copy", &["--snapshot"]), 0);
    assert!(
        text.contains("the machine was stopped while its memory was copied, and resumed; "),
        "{text}"
    );
    assert!(babeltrace::compare(&machine.folder.join("copy")).0 > 1000);
    assert!(machine.runs() && !machine.folder.join("copy/.core").exists());
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_machine_that_ends_leaves_a_trace_of_all_there_was() {
    let append = "kymo=rolling work=markers events=1000000 packets=16";
    let mut machine = Machine::start("attach-off", append, &["-S"]);
    let child = machine
        .attach_by_socket("trace", &[])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The machine has little to do: it goes on when it is being read.
    wait_until(|| machine.folder.join("trace").exists());
    machine.ask("cont");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    machine.qemu.wait().unwrap();
    // The session ends first, then QEMU reports the machine's end, then its process ends; any of
    // these may be noticed.
    let endings = [
        "the kernel has stopped its session; ",
        "the machine powered off; ",
        "the machine has ended; ",
    ];
    assert!(endings.iter().any(|ending| text.contains(ending)), "{text}");
    let ledger: Vec<u64> = ledger::read(&machine.ram, &hello(), 4)
        .iter()
        .map(ledger::Hart::events)
        .collect();
    assert_eq!(
        accounted(&machine.folder.join("trace")),
        ledger,
        "every event is there or counted"
    );
    babeltrace::compare(&machine.folder.join("trace"));
    // No machine runs in the file anymore.
    let text = said(&mut machine.attach("nobody", &[]), 3);
    assert!(
        text.contains("no process on this host has") && text.contains("kymo recover"),
        "{text}"
    );
    assert!(!machine.folder.join("nobody").exists());

    // The machine is killed: no process has the file mapped, and the socket is closed.
    for by_socket in [false, true] {
        let mut machine = Machine::start("attach-kill", ENDLESS, &[]);
        let mut command = if by_socket {
            machine.attach_by_socket("trace", &[])
        } else {
            machine.attach("trace", &[])
        };
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let trace = machine.folder.join("trace");
        wait_until(|| trace.join("events_3").exists());
        machine.qemu.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() && text.contains("the machine has ended; "),
            "{text}"
        );
        babeltrace::compare(&trace);
        // A call may have written its record without being counted yet, in the thread and in the
        // interrupt on top of it.
        let ledger = ledger::read(&machine.ram, &hello(), 4);
        for (hart, (found, ledger)) in accounted(&trace).into_iter().zip(&ledger).enumerate() {
            assert!(
                (ledger.events()..=ledger.events() + 2).contains(&found),
                "hart {hart}: {found} of {}",
                ledger.events()
            );
        }
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn it_waits_for_a_kernel_that_has_not_started_its_trace() {
    let machine = Machine::start("attach-early", "events=20000", &["-S"]);
    let child = machine
        .attach("never", &[])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| machine.folder.join("never").exists());
    sleep(Duration::from_millis(100));
    let text = interrupted(child, 3);
    assert!(
        text.contains("left running") && text.contains("had not started a trace"),
        "{text}"
    );
    assert!(!machine.folder.join("never").exists());
    let child = machine
        .attach("trace", &[])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| machine.folder.join("trace").exists());
    machine.ask("cont");
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && text.contains("none lost"),
        "{text}"
    );
    let ledger: Vec<u64> = ledger::read(&machine.ram, &hello(), 4)
        .iter()
        .map(ledger::Hart::events)
        .collect();
    assert_eq!(accounted(&machine.folder.join("trace")), ledger);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_session_that_waits_for_a_host_is_emptied_by_one_at_a_time() {
    let append = "kymo=discard,reader=host work=markers events=1000000000 packets=16";
    let mut machine = Machine::start("attach-host", append, &[]);
    // While the first one frees packets, a second one only reads.
    let child = machine
        .attach("first", &[])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| machine.folder.join("first/events_3").exists());
    let text = said(&mut machine.attach("second", &["--duration", "0.2"]), 0);
    assert!(
        text.contains("the rings were read without emptying them"),
        "{text}"
    );
    let text = interrupted(child, 0);
    assert!(!text.contains("without emptying"), "{text}");
    // The trace has events from after the rings were first full, so they were emptied.
    let newest = |out: &str| {
        let markers = Trace::open(&machine.folder.join(out))
            .unwrap()
            .events()
            .filter_map(|item| match item.unwrap() {
                Item::Event(event) if event.name() == "marker" => {
                    event.fields.get("seq").unwrap().as_u64()
                }
                _ => None,
            });
        markers.max().unwrap()
    };
    let first = newest("first");
    // The next one takes over.
    let child = machine
        .attach("third", &[])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| machine.folder.join("third/events_3").exists());
    machine.goes_on(100_000);
    let text = interrupted(child, 0);
    assert!(!text.contains("without emptying"), "{text}");
    assert!(newest("third") > first, "the rings are emptied again");
    // It would interfere with the following part.
    machine.qemu.kill().unwrap();
    for out in ["first", "second", "third"] {
        babeltrace::compare(&machine.folder.join(out));
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_session_that_was_stopped_is_taken_whole() {
    let folder = scratch("attach-stopped");
    let (program, ram) = (folder.join("qemu-system-riscv64"), folder.join("ram"));
    symlink(env!("CARGO_BIN_EXE_sender"), &program).unwrap();
    let launch = Launch::command(&[program.into(), "-M".into(), "virt".into()], &ram).unwrap();
    // It inherits this.
    let mut machine = {
        let words = format!("KYMO_SENDER={}", "events=3000 stay");
        let mut command = Command::new("env");
        fs::File::create(&ram)
            .unwrap()
            .set_len(launch.ram().size)
            .unwrap();
        command
            .arg(words)
            .args(launch.words())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    wait_until(|| is_tracing(&ram));
    let mut command = kymo([
        "attach".as_ref(),
        ram.as_os_str(),
        "--out".as_ref(),
        folder.join("trace").as_os_str(),
    ]);
    let text = said(&mut command, 0);
    machine.kill().unwrap();
    machine.wait().unwrap();
    assert!(
        text.contains("the kernel has stopped its session; ") && text.contains("none lost"),
        "{text}"
    );
    // Including Kymo's own events about the session.
    assert!(babeltrace::compare(&folder.join("trace")).0 >= 3030);
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn memory_that_cannot_be_seen_is_copied_or_refused() {
    let folder = scratch("attach-hidden");
    let socket = std::env::temp_dir().join(format!("kymo-attach-{}-hidden", std::process::id()));
    let mut command = Command::new("qemu-system-riscv64");
    command
        .args([
            "-M",
            "virt",
            "-smp",
            "2",
            "-display",
            "none",
            "-serial",
            "file:serial",
            "-append",
            ENDLESS,
            "-kernel",
        ])
        .arg(hello());
    command
        .arg("-qmp")
        .arg(format!("unix:{},server=on,wait=off", socket.display()))
        .current_dir(&folder);
    let mut machine = command.stdin(Stdio::null()).spawn().unwrap();
    wait_until(|| {
        fs::read_to_string(folder.join("serial"))
            .is_ok_and(|text| text.contains("recording on 2 harts"))
    });
    sleep(Duration::from_millis(200));
    let attach = |out: &str, more: &[&str]| {
        let mut command = kymo([
            "attach".as_ref(),
            "--qmp".as_ref(),
            socket.as_os_str(),
            "--out".as_ref(),
        ]);
        command.arg(folder.join(out)).args(more);
        command
    };
    let text = said(&mut attach("refused", &[]), 3);
    assert!(
        text.contains("not a shared file (it is a memory-backend-ram)")
            && text.contains("--snapshot"),
        "{text}"
    );
    assert!(!folder.join("refused").exists());
    said(&mut attach("copy", &["--snapshot"]), 0);
    assert!(babeltrace::compare(&folder.join("copy")).0 > 1000);
    machine.kill().unwrap();
    machine.wait().unwrap();
    // Nothing listens anymore.
    assert!(said(&mut attach("gone", &[]), 4).contains("cannot connect to"));
    fs::remove_file(&socket).unwrap();

    // A server that is not QEMU.
    let listener = UnixListener::bind(&socket).unwrap();
    let greeter = std::thread::spawn(move || {
        listener
            .accept()
            .unwrap()
            .0
            .write_all(b"220 ready\r\n")
            .unwrap()
    });
    assert!(said(&mut attach("other", &[]), 3).contains("does not answer like QEMU's -qmp"));
    greeter.join().unwrap();
    fs::remove_file(&socket).unwrap();
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn command_lines_that_make_no_sense() {
    let folder = scratch("attach-usage");
    let out = folder.join("trace");
    let out = out.to_str().unwrap();
    let refused = |words: &[&str], code: i32, part: &str| {
        let text = said(
            &mut kymo(["attach", "--out", out].iter().chain(words)),
            code,
        );
        assert!(text.contains(part), "{text}");
        assert!(!Path::new(out).exists());
    };
    refused(&[], 2, "RAMFILE");
    refused(&["ram", "--qmp", "socket"], 2, "--qmp");
    refused(&["ram", "--snapshot"], 2, "--snapshot");
    refused(&["--qmp", "socket", "--base", "0"], 2, "--base");
    refused(
        &["--qmp", "socket", "--snapshot", "--duration", "1"],
        2,
        "--duration",
    );
    refused(&["no-such-file"], 3, "no-such-file");
    refused(&[folder.to_str().unwrap()], 3, "directory");
    refused(&["--qmp", "no-such-socket"], 4, "-qmp unix:PATH");
}
