//! `kymo record` of what a kernel sends: over a pseudo-terminal, in an RTT up-buffer, in a file.
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use kymo::Diagnostics;
use kymo::transport::{Sender, Sink, WhenFull};
use kymo::vocabulary::{SwitchReason, ThreadState};
use kymo::wire::{self, HEADER_LEN, Kind, Open};
use kymo_made::{MS, Made};
use rustix::termios::{ControlModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

const FILES: [&str; 3] = ["metadata", "names_0", "events_0"];

/// A kernel's trace, and a folder for what is made of it.
struct Kernel {
    _made: Made,
    trace: PathBuf,
    folder: PathBuf,
}

impl Kernel {
    fn new(name: &str) -> Kernel {
        let folder = std::env::temp_dir().join(format!("kymo-lines-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let mut made = Made::new(name);
        for time in 1..500 {
            let (prev, next) = (time as u32, time as u32 + 1);
            let how = (prev, ThreadState::Runnable, SwitchReason::Expired);
            made.switch(0, time * MS, how, (next, 0));
        }
        let trace = made.finish().to_owned();
        Kernel {
            _made: made,
            trace,
            folder,
        }
    }

    /// The file of a channel, which may be absent.
    fn channel(&self, name: &str) -> Vec<u8> {
        fs::read(self.trace.join(name)).unwrap_or_default()
    }

    /// What the kernel sends.
    fn sent(&self) -> Vec<u8> {
        self.sent_with(&self.channel("metadata"))
    }

    /// What it would send with these declarations.
    fn sent_with(&self, metadata: &[u8]) -> Vec<u8> {
        let mut sender = Sender::new(Bytes(Vec::new()), WhenFull::Drop, 500);
        sender
            .open(Open {
                channels: 3,
                flags: 0,
            })
            .unwrap();
        for (number, name) in FILES.into_iter().enumerate() {
            let bytes = match number {
                0 => metadata.to_vec(),
                _ => self.channel(name),
            };
            sender.data(number as u32, &bytes).unwrap();
        }
        sender.close(&Diagnostics::default()).unwrap();
        sender.into_sink().0
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `kymo record --out OUT` with these arguments.
    fn record(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        command.args(["record", "--out"]).arg(self.path("out"));
        command.args(arguments).stderr(Stdio::piped());
        command
    }

    /// Checks that the trace is the kernel's.
    fn is_whole(&self, output: &Output) {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{message}");
        assert!(
            message.contains("the kernel has sent its whole trace"),
            "{message}"
        );
        // Padding may differ; the events may not.
        let dump = |trace: &Path| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
            let output = command.arg("dump").arg(trace).output().unwrap();
            assert_eq!(output.status.code(), Some(0));
            String::from_utf8(output.stdout).unwrap()
        };
        let (written, expected) = (dump(&self.path("out")), dump(&self.trace));
        assert!(written == expected, "{written}");
        assert_eq!(
            written
                .lines()
                .filter(|line| line.contains("sched_switch"))
                .count(),
            499
        );
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

struct Bytes(Vec<u8>);

impl Sink for Bytes {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        self.0.extend(bytes);
        bytes.len()
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_file_that_a_kernel_wrote_is_read() {
    let kernel = Kernel::new("file");
    let (file, mut sent) = (kernel.path("sent"), kernel.sent());
    fs::write(&file, &sent).unwrap();
    let output = kernel.record(&["--file", text(&file)]).output().unwrap();
    kernel.is_whole(&output);

    // Damage and a missing end are findings.
    fs::remove_dir_all(kernel.path("out")).unwrap();
    sent.truncate(sent.len() - 1);
    fs::write(&file, &sent).unwrap();
    let output = kernel.record(&["--file", text(&file)]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("the line has ended; "), "{message}");
    assert!(
        message.contains("did not send the end of its trace"),
        "{message}"
    );
    assert!(
        message.contains("bytes in 1 place were damaged"),
        "{message}"
    );
}

/// All frames have arrived, and the trace cannot be read: the kernel has not declared everything.
#[test]
fn declarations_that_are_incomplete_are_told() {
    let kernel = Kernel::new("undeclared");
    let metadata = kernel.channel("metadata");
    let all = std::str::from_utf8(&metadata).unwrap();
    let switch = all.find("\"sched_switch\"").unwrap();
    let event = all[..switch].rfind("event {").unwrap();
    let file = kernel.folder.join("sent");
    for (cut, sentence) in [
        (switch, "the declarations in "),
        (event, " cannot be read whole: "),
    ] {
        fs::write(&file, kernel.sent_with(&metadata[..cut])).unwrap();
        let _ = fs::remove_dir_all(kernel.path("out"));
        let output = kernel.record(&["--file", text(&file)]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(sentence), "{message}");
        assert_eq!(output.status.code(), Some(1), "{message}");
    }
}

#[test]
fn an_rtt_buffer_in_a_ram_file_is_emptied() {
    let kernel = Kernel::new("rtt");
    let (file, sent) = (kernel.path("ram"), kernel.sent());
    let (base, size) = (0x2100_0000, sent.len() as u32 + 1);
    // A block of a 32-bit machine, with its name beside it as Kymo's own have.
    let mut ram = vec![0; 0x2000];
    ram[0x104..0x114].copy_from_slice(b"SEGGER RTT\0\0\0\0\0\0");
    let words = [1, 0, base + 0x134, base + 0x2000, size, size - 1, 0, 0];
    for (word, place) in words.into_iter().zip(ram[0x114..].chunks_exact_mut(4)) {
        place.copy_from_slice(&u32::to_le_bytes(word));
    }
    ram[0x134..0x138].copy_from_slice(b"Kymo");
    ram.extend(&sent);
    ram.push(0);
    fs::write(&file, &ram).unwrap();
    let output = kernel.record(&["--rtt", text(&file)]).output().unwrap();
    kernel.is_whole(&output);
    // The reader has said how far it has read.
    let mut emptied = ram;
    emptied[0x12c..0x130].copy_from_slice(&u32::to_le_bytes(size - 1));
    assert!(fs::read(&file).unwrap() == emptied);
}

/// A pseudo-terminal: the device's side, the kernel's side, and the device's name.
fn terminal() -> (fs::File, fs::File, String) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new())
        .unwrap()
        .into_string()
        .unwrap();
    // Raw from the beginning: what is sent before kymo opens the line must not be changed.
    let line = fs::File::options()
        .read(true)
        .write(true)
        .open(&name)
        .unwrap();
    let mut mode = tcgetattr(&line).unwrap();
    mode.make_raw();
    // Not what kymo sets, but nothing that changes what is sent.
    mode.set_speed(9600).unwrap();
    mode.control_modes |= ControlModes::HUPCL;
    mode.special_codes[SpecialCodeIndex::VTIME] = 3;
    tcsetattr(&line, OptionalActions::Now, &mode).unwrap();
    (line, terminal.into(), name)
}

/// The line's settings.
fn settings(line: &fs::File) -> String {
    let mode = tcgetattr(line).unwrap();
    assert_eq!(mode.special_codes[SpecialCodeIndex::VTIME], 3);
    format!("{mode:?}")
}

#[test]
fn an_interrupted_recording_puts_the_line_back() {
    let kernel = Kernel::new("interrupted");
    let (line, _terminal, name) = terminal();
    let before = settings(&line);
    let speed = format!("{name}:57600");
    let kymo = kernel.record(&["--serial", &speed]).spawn().unwrap();
    while tcgetattr(&line).unwrap().output_speed() != 57600 {
        std::thread::yield_now();
    }
    let process = rustix::process::Pid::from_child(&kymo);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = kymo.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    assert!(
        message.contains("the recording was interrupted, and no frame"),
        "{message}"
    );
    assert_eq!(settings(&line), before);
}

#[test]
fn a_serial_line_is_read_and_asked_to_stop() {
    let kernel = Kernel::new("serial");
    let sent = kernel.sent();
    let (line, mut terminal, name) = terminal();
    let before = settings(&line);
    let speed = format!("{name}:921600");
    let arguments = ["--serial", &speed, "--duration", "0.01", "--grace", "60"];
    let kymo = kernel.record(&arguments).spawn().unwrap();
    let close = sent.len() - HEADER_LEN - 48;
    terminal
        .write_all(b"console text before the trace")
        .unwrap();
    terminal.write_all(&sent[..close]).unwrap();
    // The host asks before the kernel ends its trace.
    let mut asked = [0; HEADER_LEN];
    terminal.read_exact(&mut asked).unwrap();
    assert_eq!(asked, wire::header(Kind::Stop, 0, 0, b""));
    let speed = tcgetattr(&line).unwrap().output_speed();
    terminal.write_all(&sent[close..]).unwrap();
    let output = kymo.wait_with_output().unwrap();
    assert_eq!(speed, 921_600);
    assert_eq!(settings(&line), before);
    // The report counts the text among the damage.
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(
        message.contains("29 bytes in 1 place were damaged"),
        "{message}"
    );
    assert_eq!(output.status.code(), Some(1), "{message}");
    let whole = Output {
        status: Command::new("true").status().unwrap(),
        ..output
    };
    kernel.is_whole(&whole);
}

#[test]
fn what_cannot_be_received_is_refused_in_a_sentence() {
    let kernel = Kernel::new("refused");
    let (file, folder) = (kernel.path("nothing"), text(&kernel.folder));
    fs::write(&file, vec![b'x'; 5000]).unwrap();
    let file = text(&file);
    let missing = format!("{folder}/missing");
    let [gdb, elf] = ["--rtt-gdb", "--kernel"];
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let cases: [(&[&str], i32, &str); 25] = [
        (&[gdb, &nobody], 2, "where to look for the RTT block"),
        (
            &[gdb, &nobody, elf, file, "--base", "0"],
            2,
            "cannot be used with",
        ),
        (&[gdb, &nobody, elf, file], 3, "is not an ELF file with"),
        (&[gdb, &nobody, elf, &missing], 3, "cannot receive from"),
        (&[gdb, &nobody, "--base", "0:3"], 2, "4 bytes to 1 GiB"),
        (
            &[gdb, &nobody, "--base", "0:x"],
            2,
            "an address and a length",
        ),
        (&[gdb, "localhost", "--base", "0"], 2, "expected HOST:PORT"),
        (
            &[gdb, &nobody, "--base", "0x20000000:64"],
            4,
            "Connection refused",
        ),
        (
            &["--rtt", file, "--base", "0:64"],
            2,
            "no length with --rtt",
        ),
        (
            &["--rtt", file, "--halt-every", "5"],
            2,
            "cannot be used with",
        ),
        (&["--base", "0", "my-kernel"], 2, "--base needs --rtt"),
        (&["--rtt", "/dev/zero"], 2, "is not a file"),
        (&["--file", "/dev/urandom"], 2, "is not a file"),
        (&["--file", file, "--rtt", file], 2, "cannot be used with"),
        (&["--serial", file, "my-kernel"], 2, "cannot be used with"),
        (&["--file", file, "--rolling"], 2, "cannot be used with"),
        (
            &["--rtt", file, "--via", "memory"],
            2,
            "cannot be used with",
        ),
        (&["--file", file, "--base", "0"], 2, "cannot be used with"),
        (&["--serial", file], 2, "it is not a serial device"),
        (
            &["--serial", "/dev/ttyNone:fast"],
            2,
            "is no speed of a serial line",
        ),
        (
            &["--serial", "/dev/ttyNone:9600"],
            3,
            "cannot receive from /dev/ttyNone: No such",
        ),
        (&["--file", folder], 2, "is not a file; use --serial"),
        (&["--file", &missing], 3, "cannot receive from"),
        (
            &["--file", file],
            3,
            "the line has ended, and no frame of a trace had arrived",
        ),
        (
            &["--rtt", file, "--timeout", "0.2"],
            3,
            "has an up-buffer named Kymo",
        ),
    ];
    for (arguments, status, words) in cases {
        let output = kernel.record(arguments).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {message}"
        );
        assert!(message.contains(words), "{arguments:?}: {message}");
        assert!(!kernel.path("out").exists(), "{arguments:?}");
    }
}

/// On a terminal, which `script` provides, the last line is the next command to type.
#[test]
fn the_next_command_is_told_on_a_terminal() {
    let kernel = Kernel::new("next");
    let file = kernel.path("sent");
    fs::write(&file, kernel.sent()).unwrap();
    let out = kernel.path("a trace");
    let line = format!(
        "'{}' record --out '{}' --file '{}'",
        env!("CARGO_BIN_EXE_kymo"),
        text(&out),
        text(&file)
    );
    let mut command = Command::new("script");
    let command = command
        .args(["-qec", &line, "/dev/null"])
        .env("TERM", "xterm");
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let last = format!("kymo: next: kymo report '{}'\r\n", text(&out));
    assert!(shown.ends_with(&last), "{shown}");
    // Without a terminal there is no next command.
    fs::remove_dir_all(&out).unwrap();
    let output = kernel.record(&["--file", text(&file)]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!message.contains("next:"), "{message}");
}
