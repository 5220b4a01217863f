//! A machine that a test controls: this test program, run again, with the RAM file mapped as by
//! QEMU and a `kymo::Recorder` in it.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use kymo::boot::Options;
use kymo::platform::{Blocks, ByPointer, Control, ControlPointer, ControlWord, Local, LocalCas};
use kymo::vocabulary::{self, Mark};
use kymo::{ChannelKind, Clock, Config, Memory, Overflow, Recorder, trace};

/// Environment variables that pass the file and the recording options to the child.
const RAM: &str = "KYMO_TEST_RAM";
const WORDS: &str = "KYMO_TEST_WORDS";
/// Arguments of the child.
const PROGRAM: [&str; 4] = ["--exact", "machine::machine", "--ignored", "--nocapture"];
const ANSWER: &str = "it is done";

const RAM_BYTES: u64 = 8 << 20;
const OFFSET: usize = 1 << 20;
const REGION_BYTES: usize = 1 << 20;
const BASE: u64 = 0x8000_0000;
/// A mode, as `Recorder` numbers it.
const TRACE: u32 = 0;

/// A new, empty folder.
pub fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("kymo-follow-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Creates a program in `folder` that stands in for QEMU: a machine that does this and ends with
/// status 0.
pub fn emulator(folder: &Path, ram: &Path, does: &[&str]) -> PathBuf {
    let path = folder.join("qemu-system-riscv64");
    let (program, ram, does) = (
        std::env::current_exe().unwrap(),
        ram.display(),
        does.join("\n"),
    );
    let script = format!(
        "#!/bin/sh\n{RAM}='{ram}' {WORDS}=rolling exec '{}' {} <<end >/dev/null\n{does}\nend\n",
        program.display(),
        PROGRAM.join(" ")
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// The machine, from the host's side.
pub struct Machine {
    child: Child,
    answers: BufReader<ChildStdout>,
    pub folder: PathBuf,
    pub ram: PathBuf,
}

impl Machine {
    /// Starts a machine whose kernel has started a session with the `words` after `kymo=`.
    pub fn start(name: &str, words: &str) -> Machine {
        let folder = scratch(name);
        let ram = folder.join("ram");
        fs::File::create(&ram).unwrap().set_len(RAM_BYTES).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(PROGRAM).env(RAM, &ram).env(WORDS, words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut machine = Machine {
            child,
            answers,
            folder,
            ram,
        };
        machine.does("start");
        machine
    }

    /// Lets the machine do something, and waits until it is done.
    pub fn does(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{what}").unwrap();
        let mut line = String::new();
        while !line.trim_end().ends_with(ANSWER) {
            line.clear();
            assert!(
                self.answers.read_line(&mut line).unwrap() > 0,
                "the machine is gone"
            );
        }
    }

    /// Kills the machine, like a killed QEMU.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

thread_local! {
    static BLOCK: Cell<*const Control> = const { Cell::new(std::ptr::null()) };
    static TIME: Cell<u64> = const { Cell::new(1000) };
    /// Number of words that the writer may still load before it stops in place.
    static PATIENCE: Cell<u32> = const { Cell::new(u32::MAX) };
}

pub struct Block;
// SAFETY: one thread records, on one CPU, whose blocks lie in a mapping that is never taken away.
unsafe impl ControlPointer for Block {
    fn get() -> *const Control {
        BLOCK.get()
    }
}

type Through = ByPointer<Block>;

/// A CPU whose writer can be stopped forever in the middle of a record.
pub struct Mortal;
// SAFETY: everything is `ByPointer`'s; a writer that unwinds is like one that was interrupted there
// and never resumes.
unsafe impl Local for Mortal {
    type Cpu = Blocks;
    fn is_on<W: ControlWord>() -> bool {
        Through::is_on::<W>()
    }
    fn cpu() -> Option<Blocks> {
        Through::cpu()
    }
    unsafe fn load_word<W: ControlWord>(cpu: Blocks) -> usize {
        match PATIENCE.get().checked_sub(1) {
            None => std::panic::resume_unwind(Box::new("the writer ends here")),
            Some(rest) => PATIENCE.set(rest),
        }
        // SAFETY: the caller's.
        unsafe { Through::load_word::<W>(cpu) }
    }
    unsafe fn load<W: ControlWord>(cpu: Blocks) -> u32 {
        // SAFETY: the caller's.
        unsafe { Through::load::<W>(cpu) }
    }
    unsafe fn store<W: ControlWord>(cpu: Blocks, value: u32) {
        // SAFETY: the caller's.
        unsafe { Through::store::<W>(cpu, value) }
    }
    unsafe fn publish_word<W: ControlWord>(cpu: Blocks, value: usize) {
        // SAFETY: the caller's.
        unsafe { Through::publish_word::<W>(cpu, value) }
    }
    fn control(cpu: Blocks, kind: ChannelKind) -> &'static Control {
        Through::control(cpu, kind)
    }
    fn counters(cpu: Blocks) -> *const std::sync::atomic::AtomicUsize {
        Through::counters(cpu)
    }
}

pub struct Guest;
/// For `trace!`, which finds it at the crate's root.
pub type Kymo = kymo::Tracer<Guest>;

// SAFETY: see `Block`.
unsafe impl kymo::platform::Platform for Guest {
    type Reserve = LocalCas;
    type Local = Mortal;
    fn clock() -> u64 {
        TIME.set(TIME.get() + 10);
        TIME.get()
    }
    fn synchronize() {}
}

/// The ring of events: 16 KiB.
fn config(phys: u64) -> Config {
    Config {
        cpus: 1,
        packets: 4,
        names_packets: 4,
        overflow: Overflow::Discard,
        clock: Clock::at(1_000_000_000),
        phys,
        ..Config::DEFAULT
    }
}

/// The machine, from the guest's side; does nothing unless a test has started it.
#[test]
#[ignore = "tests run it as the machine"]
fn machine() {
    let Some(ram) = std::env::var_os(RAM) else {
        return;
    };
    let words = std::env::var(WORDS).unwrap();
    let options = format!("kymo={words}");
    let options = Options::parse(&options).unwrap();
    let memory = mapped(Path::new(&ram));
    let recorder: &Recorder<Guest, 1> =
        Box::leak(Box::new(Recorder::new(memory, &vocabulary::ALL)));
    BLOCK.set(memory.control(0));
    let mut next = 0u32;
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("start", _) => {
                recorder
                    .start(
                        TRACE,
                        options.flags(0),
                        Some(&options.apply(&config(BASE + OFFSET as u64))),
                    )
                    .unwrap();
            }
            ("record", count) => {
                for _ in 0..count.parse::<u32>().unwrap() {
                    trace!(Mark { id: next, value: 0 });
                    next += 1;
                }
            }
            // On a CPU that has no ring.
            ("elsewhere", count) => {
                let block = BLOCK.replace(std::ptr::null());
                for _ in 0..count.parse::<u32>().unwrap() {
                    trace!(Mark { id: next, value: 0 });
                }
                BLOCK.set(block);
            }
            ("inside", _) => stop_inside(next),
            ("stop", _) => {
                recorder.stop(TRACE).unwrap();
            }
            ("finish", _) => {
                recorder.finish(TRACE).unwrap();
            }
            other => panic!("{other:?}"),
        }
        println!("{ANSWER}");
    }
}

fn mapped(ram: &Path) -> Memory {
    let file = OpenOptions::new().read(true).write(true).open(ram).unwrap();
    let map = memmap2::MmapOptions::new().map_raw(&file).unwrap();
    // SAFETY: inside of the mapping, which is never taken away; nobody else in this program touches
    // it.
    let memory = unsafe { Memory::new(map.as_mut_ptr().add(OFFSET), REGION_BYTES, 1) };
    std::mem::forget(map);
    memory
}

/// Reserves room for the next record but never writes it: after position, window and limit, the
/// writer loads the ring's address.
fn stop_inside(id: u32) {
    PATIENCE.set(3);
    let stopped = catch_unwind(AssertUnwindSafe(|| trace!(Mark { id, value: 0 })));
    assert!(stopped.is_err(), "the writer has come to its end");
    PATIENCE.set(u32::MAX);
}
