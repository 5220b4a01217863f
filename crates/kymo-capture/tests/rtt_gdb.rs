//! An RTT up-buffer behind a server for GDB, which keeps to the protocol or does not.
#![cfg(feature = "machines")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kymo::Diagnostics;
use kymo::transport::{Sender, Sink, WhenFull};
use kymo::wire::Open;
use kymo_capture::receive::{Ending, Error, Line, Options, receive, rtt_ranges};

/// Address of the machine's memory.
const BASE: u64 = 0x2000_0000;
const BLOCK: usize = 0x104;
const OFFSETS: usize = BLOCK + 24 + 12;
const BUFFER: usize = 0x400;
const SIZE: u32 = 300;
/// What the kernel sends on channel 0, the metadata.
const TEXT: &[u8] = b"/* CTF 1.8 */\n";

/// How a server behaves.
#[derive(Clone, Copy)]
struct Server {
    /// What it offers.
    offers: &'static str,
    /// Whether it takes requests while the machine runs.
    reads_running: bool,
    /// Requests for memory that it answers before it misbehaves.
    good: usize,
    /// What it does afterwards.
    then: Then,
    has_m: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    Garbage,
    WrongChecksums,
    Refuses,
    Once(&'static [u8]),
    Closes,
    IsSilent,
    Answers(&'static [u8]),
}

const SERVER: Server = Server {
    offers: "PacketSize=100;QStartNoAckMode+;vContSupported+",
    reads_running: true,
    good: usize::MAX,
    then: Then::Nothing,
    has_m: true,
};

/// A machine whose kernel sends what it has whenever there is room.
struct Machine {
    memory: Vec<u8>,
    unsent: Vec<u8>,
    runs: bool,
    halts: u32,
}

impl Machine {
    fn new(unsent: Vec<u8>) -> Machine {
        let mut memory = vec![0; 0x1000];
        memory[BLOCK..BLOCK + 16].copy_from_slice(b"SEGGER RTT\0\0\0\0\0\0");
        let address = |at: usize| BASE as u32 + at as u32;
        let words = [1, 0, address(0x300), address(BUFFER), SIZE, 0, 0, 0];
        for (word, place) in words.iter().zip(memory[BLOCK + 16..].chunks_exact_mut(4)) {
            place.copy_from_slice(&u32::to_le_bytes(*word));
        }
        memory[0x300..0x305].copy_from_slice(b"Kymo\0");
        Machine {
            memory,
            unsent,
            runs: false,
            halts: 0,
        }
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.memory[at..at + 4].try_into().unwrap())
    }

    /// The kernel puts into its buffer what fits.
    fn works(&mut self) {
        let (mut write, read) = (self.word(OFFSETS), self.word(OFFSETS + 4));
        while self.runs && !self.unsent.is_empty() && (write + 1) % SIZE != read {
            self.memory[BUFFER + write as usize] = self.unsent.remove(0);
            write = (write + 1) % SIZE;
        }
        self.memory[OFFSETS..OFFSETS + 4].copy_from_slice(&write.to_le_bytes());
    }

    fn answer(&mut self, body: &[u8], server: &Server) -> Option<Vec<u8>> {
        let text = String::from_utf8_lossy(body).into_owned();
        let part = |text: &str| {
            let (at, len) = text.split_once(',')?;
            let at = u64::from_str_radix(at, 16).ok()?.checked_sub(BASE)? as usize;
            let len = usize::from_str_radix(len, 16).ok()?;
            (at + len <= 0x1000).then_some(at..at + len)
        };
        Some(match body.first()? {
            b'q' if text.starts_with("qSupported") => server.offers.into(),
            b'Q' => b"OK".to_vec(),
            b'?' => b"T05thread:01;".to_vec(),
            b'v' if text == "vCont?" => b"vCont;c;C;s;S".to_vec(),
            b'v' | b'c' => {
                self.runs = true;
                return None;
            }
            b'm' => match part(&text[1..]) {
                Some(range) => hex(&self.memory[range]).into_bytes(),
                None => b"E0e".to_vec(),
            },
            b'x' => {
                let mut answer = b"b".to_vec();
                for &byte in &self.memory[part(&text[1..])?] {
                    match byte {
                        b'#' | b'$' | b'}' | b'*' => answer.extend([b'}', byte ^ 0x20]),
                        byte => answer.push(byte),
                    }
                }
                answer
            }
            b'M' if server.has_m => {
                let (place, digits) = text[1..].split_once(':')?;
                let digits = digits.as_bytes().chunks(2);
                let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
                let bytes: Vec<u8> = digits.map(|pair| byte(pair).unwrap()).collect();
                self.memory[part(place)?].copy_from_slice(&bytes);
                b"OK".to_vec()
            }
            b'X' => {
                let colon = body.iter().position(|&byte| byte == b':')?;
                let place = part(std::str::from_utf8(&body[1..colon]).ok()?)?;
                let (mut bytes, mut rest) = (Vec::new(), body[colon + 1..].iter());
                while let Some(&byte) = rest.next() {
                    bytes.push(match byte {
                        b'}' => rest.next()? ^ 0x20,
                        byte => byte,
                    });
                }
                self.memory[place].copy_from_slice(&bytes);
                b"OK".to_vec()
            }
            _ => Vec::new(),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn packet(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    [b"$", body, format!("#{sum:02x}").as_bytes()].concat()
}

/// Serves one connection; returns the machine as it is left.
fn serve(listener: &TcpListener, server: Server, mut machine: Machine) -> Machine {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let mut acknowledges = true;
    let (mut asked, mut input) = (0, Vec::new());
    let mut byte = [0];
    let mut next = |stream: &mut TcpStream| match stream.read(&mut byte) {
        Ok(1) => Some(byte[0]),
        _ => None,
    };
    // A client that goes away ends this, at its next read.
    let say = |stream: &mut TcpStream, bytes: &[u8]| {
        let _ = stream.write_all(bytes);
    };
    while let Some(first) = next(&mut stream) {
        match first {
            3 => {
                machine.works();
                machine.runs = false;
                machine.halts += 1;
                say(&mut stream, &packet(b"T02thread:01;"));
                continue;
            }
            b'$' => {}
            _ => continue,
        }
        input.clear();
        loop {
            match next(&mut stream) {
                Some(b'#') => break,
                Some(byte) => input.push(byte),
                None => return machine,
            }
        }
        next(&mut stream);
        next(&mut stream);
        if machine.runs && !server.reads_running {
            // As QEMU does.
            machine.runs = false;
            machine.halts += 1;
            say(&mut stream, &packet(b"T02thread:01;"));
            continue;
        }
        machine.works();
        if acknowledges {
            say(&mut stream, b"+");
        }
        let body = input.clone();
        let of_memory = b"mxMX".contains(&body[0]);
        asked += usize::from(of_memory);
        let answer = machine.answer(&body, &server);
        if of_memory && asked > server.good {
            match server.then {
                Then::Nothing => {}
                Then::Garbage => {
                    say(&mut stream, &[b'x'; 3 << 20]);
                    continue;
                }
                Then::WrongChecksums => {
                    say(&mut stream, b"$00000000#99");
                    // The client asks again, where there are acknowledgements.
                    continue;
                }
                Then::Refuses => {
                    say(&mut stream, &packet(b"E01"));
                    continue;
                }
                Then::Once(bytes) if asked == server.good + 1 => {
                    say(&mut stream, bytes);
                    continue;
                }
                Then::Once(_) => {}
                Then::Closes => {
                    say(&mut stream, b"$0000");
                    return machine;
                }
                Then::IsSilent => continue,
                Then::Answers(bytes) => {
                    say(&mut stream, &packet(bytes));
                    continue;
                }
            }
        }
        if let Some(answer) = answer {
            acknowledges &= body != b"QStartNoAckMode";
            // What the machine prints, and a notification, may come at any time.
            say(&mut stream, &packet(b"O48690a"));
            say(&mut stream, &[b"%Stop:", &b"#e0"[..]].concat());
            say(&mut stream, &packet(&answer));
        }
    }
    machine
}

struct Bytes(Vec<u8>);

impl Sink for Bytes {
    fn offer(&mut self, bytes: &[u8]) -> usize {
        self.0.extend(bytes);
        bytes.len()
    }
}

/// A trace of one packet that is long enough to wrap around the buffer; whole, or without its end.
fn sent(whole: bool) -> Vec<u8> {
    let mut sender = Sender::new(Bytes(Vec::new()), WhenFull::Drop, 64);
    let (channels, flags) = (2, 0);
    sender.open(Open { channels, flags }).unwrap();
    for _ in 0..80 {
        sender.data(0, TEXT).unwrap();
    }
    if whole {
        sender.close(&Diagnostics::default()).unwrap();
    }
    sender.into_sink().0
}

struct Run {
    result: Result<(u64, Ending), Error>,
    machine: Machine,
    folder: PathBuf,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Run {
    /// The sentence about the ending or the failure.
    fn sentence(&self) -> String {
        match &self.result {
            Ok((_, ending)) => ending.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

fn run(server: Server, unsent: Vec<u8>, halt_every: Option<Duration>, patience: Duration) -> Run {
    run_for(server, unsent, halt_every, patience, None)
}

fn run_for(
    server: Server,
    unsent: Vec<u8>,
    halt_every: Option<Duration>,
    patience: Duration,
    duration: Option<Duration>,
) -> Run {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("kymo-gdb-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    let served: JoinHandle<Machine> =
        std::thread::spawn(move || serve(&listener, server, Machine::new(unsent)));
    let options = Options {
        line: Line::RttGdb {
            server: &name,
            ranges: &[BASE..BASE + 0x1000],
            halt_every,
            patience,
        },
        out: &folder,
        duration,
        timeout: Some(LONG),
        grace: Duration::ZERO,
        interrupted: &AtomicBool::new(false),
    };
    let result = receive(&options, |_| ());
    Run {
        result: result.map(|(received, ending)| (received.bytes, ending)),
        machine: served.join().unwrap(),
        folder,
    }
}

/// Long enough for a machine under load.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(300);

/// Checks that the whole trace has arrived.
fn whole(run: &Run) {
    let sent = sent(true);
    assert!(
        matches!(&run.result, Ok((bytes, Ending::Closed)) if *bytes == 80 * TEXT.len() as u64),
        "{:?}",
        run.result
    );
    let metadata = fs::read(run.folder.join("metadata")).unwrap();
    assert_eq!(metadata, TEXT.repeat(80));
    assert!(run.machine.runs);
    let offset = sent.len() as u32 % SIZE;
    assert_eq!(run.machine.word(OFFSETS + 4), offset);
}

#[test]
fn servers_that_read_a_running_machine() {
    let usual = SERVER;
    let servers = [
        usual,
        // Acknowledgements for ever, no size of packets.
        Server {
            offers: "",
            ..usual
        },
        // Binary reads and writes, tiny packets.
        Server {
            offers: "binary-upload+;PacketSize=24;QStartNoAckMode+",
            has_m: false,
            ..usual
        },
        Server {
            offers: "PacketSize=ffffffff",
            ..usual
        },
    ];
    for server in servers {
        let run = run(server, sent(true), None, LONG);
        whole(&run);
        assert_eq!(run.machine.halts, 0);
    }
}

#[test]
fn a_server_that_halts_the_machine_is_used_only_on_purpose() {
    let server = Server {
        reads_running: false,
        ..SERVER
    };
    let halting = run(server, sent(true), Some(Duration::from_millis(1)), LONG);
    whole(&halting);
    assert!(halting.machine.halts > 10);
    let refused = run(server, sent(true), None, Duration::from_secs(2));
    let sentence = refused.sentence();
    assert!(
        sentence.contains("halts the machine when its memory is read"),
        "{sentence}"
    );
    assert!(sentence.contains("--halt-every"), "{sentence}");
    // Halted once, and left running.
    assert!(refused.machine.halts == 1 && refused.machine.runs);
}

/// What a server may do once in a while costs nothing.
#[test]
fn damage_is_mended_where_the_server_acknowledges() {
    for bytes in [&b"-"[..], b"$00#99", b"$0000000$12#99"] {
        let server = Server {
            offers: "",
            good: 40,
            then: Then::Once(bytes),
            ..SERVER
        };
        // A server whose answer was refused would send it again; this one has forgotten it, so
        // that the client waits in vain where it does not send its request again.
        let run = run(
            server,
            sent(true),
            None,
            if bytes == b"-" { LONG } else { SHORT },
        );
        if bytes == b"-" {
            whole(&run);
        } else {
            assert!(
                run.sentence().contains("did not answer"),
                "{}",
                run.sentence()
            );
        }
    }
}

#[test]
fn a_server_that_misbehaves_gets_one_sentence_and_what_has_arrived_is_kept() {
    let silent = "the GDB server did not answer a read of memory within 0.3 s";
    let refused = "the GDB server refused a read of memory at 0x2000";
    let cases = [
        (Then::Garbage, silent),
        (Then::WrongChecksums, "the GDB server's packets are damaged"),
        (Then::Refuses, refused),
        (Then::Closes, "the GDB server closed the connection"),
        (Then::IsSilent, silent),
        (
            Then::Answers(b""),
            "the GDB server does not offer a read of memory",
        ),
        (
            Then::Answers(b"zz"),
            "answered a read of memory with something else",
        ),
        (
            Then::Answers(b"0"),
            "answered a read of memory with something else",
        ),
        (
            Then::Answers(&[b'0'; 80]),
            "answered a read of memory with something else",
        ),
        (Then::Answers(b"W00"), "the machine has ended"),
        (
            Then::Answers(b"T05"),
            "halts the machine when its memory is read",
        ),
    ];
    for (then, words) in cases {
        for good in [0, 100] {
            let server = Server {
                good,
                then,
                ..SERVER
            };
            let run = run(server, sent(false), None, SHORT);
            let sentence = run.sentence();
            assert!(sentence.contains(words), "{good}: {sentence}");
            match &run.result {
                Err(Error::Nothing { .. }) => assert_eq!(good, 0),
                Ok((bytes, Ending::Failed(_))) => {
                    assert!(good > 0 && *bytes > 64, "{bytes}");
                    let kept = fs::read(run.folder.join("metadata")).unwrap();
                    assert!(kept.starts_with(TEXT) && TEXT.repeat(80).starts_with(&kept));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn what_is_no_server_is_not_connected_to() {
    let connect = |server: &str, patience| {
        let options = Options {
            line: Line::RttGdb {
                server,
                ranges: &[],
                halt_every: None,
                patience,
            },
            out: &std::env::temp_dir(),
            duration: None,
            timeout: None,
            grace: Duration::ZERO,
            interrupted: &AtomicBool::new(false),
        };
        receive(&options, |_| ()).unwrap_err().to_string()
    };
    for name in [
        "localhost",
        "localhost:",
        "localhost:gdb",
        "localhost:70000",
        "",
    ] {
        assert!(
            connect(name, SHORT).contains("expected HOST:PORT"),
            "{name}"
        );
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = listener.local_addr().unwrap().to_string();
    // It accepts, and says nothing, or greets as others do.
    assert!(connect(&name, SHORT).contains("did not answer what it supports within 0.3 s"));
    drop(listener.accept());
    let greets = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        let (mut stream, _) = listener.accept().unwrap();
        // Packets without end are no answer, either.
        while stream.write_all(&packet(b"O00")).is_ok() {}
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&packet(b"PacketSize=10")).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert!(connect(&name, SHORT).contains("what answers there is no GDB server"));
    assert!(connect(&name, SHORT).contains("did not answer what it supports within 0.3 s"));
    assert!(connect(&name, LONG).contains("takes packets of only 16 bytes"));
    greets.join().unwrap();
    let refused = connect(&name, LONG);
    assert!(
        refused.contains("cannot receive from 127.0.0.1:"),
        "{refused}"
    );
}

/// What a kernel in C calls its block; this test is the kernel.
#[unsafe(no_mangle)]
static _SEGGER_RTT: AtomicU32 = AtomicU32::new(7);

#[cfg(target_os = "linux")]
#[test]
fn a_kernels_file_says_where_its_block_may_be() {
    _SEGGER_RTT.store(9, Ordering::Relaxed);
    let of_symbol = rtt_ranges(&std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(&of_symbol[..], [one] if one.end - one.start == 4));
    // A program without its symbol: any place that it may write to.
    let of_memory = rtt_ranges("/bin/true".as_ref()).unwrap();
    assert!(of_memory.iter().all(|range| range.end - range.start > 4));
    let text = rtt_ranges(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").as_ref());
    let sentence = text.unwrap_err().to_string();
    assert!(sentence.contains("is not an ELF file with"), "{sentence}");
}

/// A requested duration ends the recording of a kernel that sends nothing, too.
#[test]
fn a_duration_ends_without_a_frame() {
    let duration = Some(Duration::from_millis(10));
    let begun = std::time::Instant::now();
    let run = run_for(SERVER, Vec::new(), None, LONG, duration);
    assert!(begun.elapsed() < LONG / 4);
    let message = run.sentence();
    let start =
        "the requested duration elapsed, and no frame of a trace had arrived from 127.0.0.1";
    assert!(message.starts_with(start), "{message}");
}
