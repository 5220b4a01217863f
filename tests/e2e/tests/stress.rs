//! Writers under interrupts, three deep and NMIs on top, on four vCPUs that run in parallel (no
//! icount): `kernels/stress` on both processors. Every event has a number, a checksum and, some,
//! the time; the kernel counts its calls; the trace must hold all of it, or count it.
//!
//! QEMU interrupts a CPU between its blocks of translated code. Most runs have one instruction in
//! each, so that interrupts come before any.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kymo::ring::layout::{ChannelKind, TIME_BITS};
use kymo::ring::reader::Losses;
use kymo_capture::Summary;
use kymo_capture::qemu::Launch;
use kymo_capture::record::{self, Ending, Options};
use kymo_ctf::{Event, Item, LossKind, Trace};
use kymo_e2e::interrupted::{Function, Instruction, functions};
use kymo_e2e::{babeltrace, built, ledger, run, scratch};

const CPUS: usize = 4;
/// Bytes of a packet where the command line does not say.
const PACKET_SIZE: u64 = 4096;
/// Depths from the thread's, 0, to an NMI's in the third interrupt.
const DEPTHS: usize = 5;

/// Calls of all runs of one processor, about: 600,000, or `KYMO_QEMU_STRESS_EVENTS` (the long
/// form).
fn events() -> u64 {
    std::env::var("KYMO_QEMU_STRESS_EVENTS").map_or(600_000, |text| {
        text.parse().expect("KYMO_QEMU_STRESS_EVENTS is a number")
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    Riscv64,
    Riscv32,
    X86_64,
}

impl Machine {
    fn kernel(self) -> PathBuf {
        built(match self {
            Machine::Riscv64 => "KYMO_STRESS_RISCV64",
            Machine::Riscv32 => "KYMO_STRESS_RISCV32",
            Machine::X86_64 => "KYMO_STRESS_X86_64",
        })
    }

    fn is_riscv(self) -> bool {
        self != Machine::X86_64
    }

    fn ram_base(self) -> u64 {
        if self.is_riscv() { 0x8000_0000 } else { 0 }
    }

    /// All vCPUs in parallel; a block for each instruction where that is asked for.
    fn accelerator(self, one_instruction_blocks: bool) -> Vec<&'static str> {
        if !one_instruction_blocks {
            return vec!["-accel", "tcg,thread=multi"];
        }
        let program = match self {
            Machine::Riscv64 => "qemu-system-riscv64",
            Machine::Riscv32 => "qemu-system-riscv32",
            Machine::X86_64 => "qemu-system-x86_64",
        };
        let text =
            String::from_utf8(run(Command::new(program).arg("--version"), 0).stdout).unwrap();
        let mut numbers = text
            .split_once("version ")
            .unwrap()
            .1
            .split(|c: char| !c.is_ascii_digit());
        let mut number = || numbers.next().unwrap().parse::<u32>().unwrap();
        if (number(), number()) >= (8, 1) {
            vec!["-accel", "tcg,thread=multi,one-insn-per-tb=on"]
        } else {
            vec!["-accel", "tcg,thread=multi", "-singlestep"]
        }
    }

    fn functions(self, hits: &[u32]) -> Vec<Function> {
        let objdump = if self.is_riscv() {
            "riscv64-unknown-elf-objdump"
        } else {
            "objdump"
        };
        functions(&self.kernel(), objdump, hits)
    }
}

/// What a run was, and what it left.
struct Run {
    machine: Machine,
    name: String,
    trace: PathBuf,
    summary: Summary,
    /// QEMU made a block of each instruction.
    one_instruction_blocks: bool,
    /// The kernel's own counts.
    cpus: Vec<Counts>,
    functions: Vec<Function>,
}

impl Drop for Run {
    /// What failed is kept, to be looked at.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.trace).unwrap();
        }
    }
}

struct Counts {
    calls: [u64; DEPTHS],
    interrupts: u64,
    nmis: u64,
    jumps: u64,
}

/// Records the kernel with this command line, live. `blocks`: as QEMU makes them, or of one
/// instruction each.
fn stress(machine: Machine, name: &str, append: &str, one_instruction_blocks: bool) -> Run {
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    let kernel = machine.kernel();
    let trace = scratch(name).join("trace");
    fs::create_dir(&trace).unwrap();
    let ram = record::ram_file(&trace);
    let launch = Launch::kernel(&kernel, CPUS as u32, Some(append), &ram).unwrap();
    let launch = launch.with(machine.accelerator(one_instruction_blocks));
    let timeout = Some(Duration::from_secs(3600));
    let options = Options {
        timeout,
        keep_ram: true,
        console: Some(|_| ()),
        ..Options::new(&launch, &trace, &INTERRUPTED)
    };
    let recorded = record::record(&options, |_| ()).unwrap();
    assert_eq!(recorded.ending, Ending::PoweredOff, "{name}");
    let words = ledger::words(&ram, &kernel, machine.ram_base(), CPUS);
    let counts = |&[a, b, c, d, e, interrupts, nmis, jumps]: &[u64; 8]| Counts {
        calls: [a, b, c, d, e],
        interrupts,
        nmis,
        jumps,
    };
    let hits = ledger::memory(&ram, &kernel, machine.ram_base(), "HITS", 4 << 16);
    let hits: Vec<u32> = hits
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| u32::from_le_bytes(*bytes))
        .collect();
    fs::remove_file(&ram).unwrap();
    Run {
        machine,
        name: name.to_owned(),
        trace,
        summary: recorded.memory.unwrap().summary,
        one_instruction_blocks,
        cpus: words.iter().map(counts).collect(),
        functions: machine.functions(&hits),
    }
}

/// The times of one `timed` event: when it says it was recorded, the clock just before, how far
/// that was ahead of the hardware's, the latest time in the stream before it, the beginning of its
/// packet.
#[derive(Clone, Copy)]
struct Stamp {
    time: u64,
    raw: u64,
    offset: u64,
    before: u64,
    packet: u64,
}

/// What the trace has of one CPU.
#[derive(Default)]
struct Seen {
    events: u64,
    lost: u64,
    /// By depth: number of the last event, numbers missing before it, the last stamp.
    last: [u64; DEPTHS],
    missing: [u64; DEPTHS],
    stamps: [Option<Stamp>; DEPTHS],
    latest: u64,
    /// Which event that last one was, counted from 1.
    at: [u64; DEPTHS],
    /// Bytes recorded since the thread's last event; the last event at which they filled a packet.
    nested: u64,
    filled: u64,
    /// Lost events that no nested writers' filling a packet explains; see `unexplained`.
    unexplained: u64,
    /// Time stamps that must have been clamped, and those that may have been; the same for windows
    /// that stepped back.
    clamped: [u64; 2],
    windows_back: [u64; 2],
    jumps: Jumps,
}

#[derive(Default)]
struct Jumps {
    ahead: u64,
    back: u64,
    /// Jumps whose times were compared, and the most ticks that passed besides.
    measured: u64,
    most_besides: u64,
    /// The stamps around a jump, until the event after them says by when the second one was over.
    open: Option<(Stamp, Stamp)>,
}

impl Seen {
    fn event(&mut self, run: &Run, jump: u64, event: &Event) {
        let field = |name: &str| event.fields.get(name).unwrap().as_u64().unwrap();
        let (cpu, depth, seq) = (field("cpu"), field("depth") as usize, field("seq"));
        assert_eq!(Some(cpu), event.cpu(), "{}", run.name);
        let timed = event.name() != "beat";
        let (raw, offset) = if timed {
            (field("raw"), field("offset"))
        } else {
            (0, 0)
        };
        let mix = seq as u32
            ^ (cpu as u32) << 16
            ^ depth as u32
            ^ (raw ^ offset) as u32
            ^ ((raw ^ offset) >> 32) as u32;
        let check = mix.wrapping_mul(0x9e37_79b1).rotate_left(15);
        assert_eq!(
            field("check"),
            u64::from(check),
            "{}: {} of cpu {cpu}, depth {depth}, {seq}",
            run.name,
            event.name()
        );

        let last = &mut self.last[depth];
        assert!(
            seq > *last,
            "{}: {seq} after {last}, cpu {cpu}, depth {depth}",
            run.name
        );
        let gap = seq - *last - 1;
        *last = seq;
        self.gap(depth, gap);
        self.events += 1;
        self.at[depth] = self.events;
        let bytes = if timed { 32 } else { 16 };
        self.nested = if depth == 0 { 0 } else { self.nested + bytes };
        // But for its header, the thread's record that opened it, and the one that did not fit any
        // more.
        if self.nested >= PACKET_SIZE - 150 {
            self.filled = self.events;
        }

        let time = event.time.unwrap().0;
        let before = std::mem::replace(&mut self.latest, time);
        assert!(time >= before, "{}: time steps back", run.name);
        if timed {
            let packet = event.packet.begin.unwrap().0;
            let stamp = Stamp {
                time,
                raw,
                offset,
                before,
                packet,
            };
            assert!(
                time >= raw.wrapping_add(offset),
                "{}: {time} is before {raw} + {offset}",
                run.name
            );
            if let Some(earlier) = self.stamps[depth].replace(stamp) {
                self.bound(&run.name, earlier, raw);
                if depth == 0 && jump > 0 {
                    self.jumps.measure(&run.name, raw);
                    if gap == 0 && offset != earlier.offset {
                        self.jumps.note(jump, earlier, stamp);
                    }
                }
            }
        }
    }

    /// So many events of this depth are not in the trace. A compare-and-swap writer drops events,
    /// and counts them, in one case besides that of a full ring: while it is interrupted before it
    /// has prepared the packet after the one that it opened, nested writers fill that one.
    fn gap(&mut self, depth: usize, gap: u64) {
        self.missing[depth] += gap;
        if depth == 0 || self.filled < self.at[depth] {
            self.unexplained += gap;
        }
    }

    /// The event of `stamp` was recorded before the hardware's clock was at `raw`.
    fn bound(&mut self, name: &str, stamp: Stamp, raw: u64) {
        let (from, to) = (
            stamp.raw.wrapping_add(stamp.offset),
            raw.wrapping_add(stamp.offset),
        );
        // A clock that is behind is set to the time before. Where the record of that time was
        // overwritten, what is left of it is the end of the packet that it closed, where the
        // trace's next packet begins, or its window, at whose beginning the writer puts later ones.
        let window_begins = stamp.time.trailing_zeros() >= TIME_BITS && stamp.offset > 0;
        let clamped = [stamp.before, stamp.packet].contains(&stamp.time) || window_begins;
        assert!(
            stamp.time <= to || clamped,
            "{name}: {} is behind {to}, and not clamped",
            stamp.time
        );
        let window = |time: u64| time >> TIME_BITS;
        for (bound, limit) in [to, from].into_iter().enumerate() {
            self.clamped[bound] += u64::from(limit < stamp.before);
            self.windows_back[bound] += u64::from(window(limit) < window(stamp.before));
        }
    }
}

impl Jumps {
    fn note(&mut self, jump: u64, earlier: Stamp, later: Stamp) {
        if later.offset == earlier.offset.wrapping_add(jump) {
            self.ahead += 1;
            // Where the clock is behind after the jump back, the times are those before it.
            let true_times = earlier.raw + earlier.offset >= earlier.before
                && later.raw + later.offset >= later.before;
            self.open = true_times.then_some((earlier, later));
        } else {
            assert_eq!(later.offset, earlier.offset.wrapping_sub(3 * jump));
            self.back += 1;
        }
    }

    /// The second event of a jump was over when the hardware's clock was at `raw`.
    fn measure(&mut self, name: &str, raw: u64) {
        if let Some((earlier, later)) = self.open.take() {
            let (difference, jump) = (later.time - earlier.time, later.offset - earlier.offset);
            let range = jump..=jump + (raw - earlier.raw);
            assert!(
                range.contains(&difference),
                "{name}: {difference} between two events, and the clock jumped by {jump}"
            );
            self.measured += 1;
            self.most_besides = self.most_besides.max(difference - jump);
        }
    }
}

/// What is common to all runs: every call is in the trace or counted, every event is whole,
/// babeltrace2 agrees. Gives the events in the trace, the events lost, and what the trace has by
/// CPU.
fn account(run: &Run, jump: u64) -> (u64, u64, Vec<Seen>) {
    let mut seen: Vec<Seen> = (0..CPUS).map(|_| Seen::default()).collect();
    for item in Trace::open(&run.trace).unwrap().events() {
        match item.unwrap() {
            Item::Event(event) => seen[event.cpu().unwrap() as usize].event(run, jump, &event),
            Item::Loss(loss) if loss.kind == LossKind::Events => {
                seen[loss.cpu.unwrap() as usize].lost += loss.count
            }
            Item::Loss(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let mut calls = [0; DEPTHS];
    for (cpu, (seen, counts)) in seen.iter_mut().zip(&run.cpus).enumerate() {
        let name = &run.name;
        let made: u64 = counts.calls.iter().sum();
        assert_eq!(
            seen.events + seen.lost,
            made,
            "{name}, cpu {cpu}: in the trace + lost = calls"
        );
        for depth in 0..DEPTHS {
            seen.gap(depth, counts.calls[depth] - seen.last[depth]);
            // Of the last one nothing says by when it was over.
            if let Some(stamp) = seen.stamps[depth].take() {
                seen.bound(name, stamp, stamp.raw + (1 << 62));
            }
        }
        assert_eq!(
            seen.missing.iter().sum::<u64>(),
            seen.lost,
            "{name}, cpu {cpu}: the numbers that are missing are the losses reported"
        );
        let losses = losses(run, cpu);
        assert_eq!(losses.events(), seen.lost, "{name}, cpu {cpu}: {losses:?}");
        assert_eq!(
            (losses.unreadable, losses.too_large, losses.abandoned),
            (0, 0, 0),
            "{name}, cpu {cpu}"
        );
        if jump == 0 {
            assert_eq!(
                (losses.clamped, losses.clock_back),
                (0, 0),
                "{name}, cpu {cpu}: the clock goes ahead"
            );
        }
        for (sum, calls) in calls.iter_mut().zip(counts.calls) {
            *sum += calls;
        }
    }
    let (written, lost) = seen
        .iter()
        .fold((0, 0), |sum, cpu| (sum.0 + cpu.events, sum.1 + cpu.lost));
    let (read, reported) = babeltrace::compare(&run.trace);
    assert_eq!(read, written, "{}", run.name);
    assert_eq!(
        reported.values().map(|lost| lost.0).sum::<u64>(),
        lost,
        "{}: babeltrace2 tells the same losses",
        run.name
    );
    let sum = |count: fn(&Counts) -> u64| run.cpus.iter().map(count).sum::<u64>();
    println!(
        "{}: {written} events in the trace, {lost} lost; calls by depth {calls:?}, {} interrupts, \
         {} NMIs",
        run.name,
        sum(|cpu| cpu.interrupts),
        sum(|cpu| cpu.nmis)
    );
    assert!(calls[1] > 0, "{}: nothing was interrupted", run.name);
    if run.one_instruction_blocks {
        assert!(
            calls[..4].iter().all(|&calls| calls > 0),
            "{}: interrupts nested three deep",
            run.name
        );
        assert!(
            run.machine.is_riscv() || sum(|cpu| cpu.nmis) > 0,
            "{}: no NMI came",
            run.name
        );
    }
    (written, lost, seen)
}

fn losses(run: &Run, cpu: usize) -> Losses {
    let is_it =
        |kind: ChannelKind, number: u32| kind == ChannelKind::Events && number == cpu as u32;
    run.summary
        .channels
        .iter()
        .find(|channel| is_it(channel.kind, channel.cpu))
        .unwrap()
        .losses
}

/// Interrupts inside of functions whose symbol has one of these parts, by part.
fn inside(run: &Run, parts: &[&'static str]) -> BTreeMap<&'static str, u64> {
    let within = |part: &'static str| {
        let functions = run
            .functions
            .iter()
            .filter(|function| function.symbol.contains(part));
        (part, functions.map(Function::inside).sum())
    };
    parts.iter().copied().map(within).collect()
}

/// Where interrupts came in the writer of an x86-64 run: inside.
fn interrupts_come_inside(run: &Run, writer: &'static str) {
    let inside = inside(run, &[writer, "local_cas4slow", "local_cas7prepare"]);
    let hottest = run
        .functions
        .iter()
        .filter(|function| function.symbol.contains(writer))
        .max_by_key(|one| one.inside())
        .unwrap();
    let (hit, all) = (
        hottest.hot_path().iter().filter(|one| one.hits > 0).count(),
        hottest.hot_path().len(),
    );
    println!(
        "{}: interrupts and NMIs inside of {inside:?}, before {hit} of {all} instructions of a hot \
         path",
        run.name
    );
    assert!(
        inside.values().sum::<u64>() > 0,
        "{}: no interrupt came inside of a writer",
        run.name
    );
    assert!(
        inside[writer] > 0 || !run.one_instruction_blocks,
        "{}: none came in the hot path",
        run.name
    );
}

/// Of runs with blocks of one instruction: interrupts came before most instructions of the hot
/// path, and in the slow one.
fn interrupts_come_anywhere(runs: &[Run]) {
    let of = |run: &Run, part: &str| -> Vec<Function> {
        run.functions
            .iter()
            .filter(|function| function.symbol.contains(part))
            .cloned()
            .collect()
    };
    for writer in 0..of(&runs[0], "writer_tsc_cas").len() {
        let all: Vec<Function> = runs
            .iter()
            .map(|run| of(run, "writer_tsc_cas")[writer].clone())
            .collect();
        let mut sum = all[0].clone();
        for other in &all[1..] {
            sum.code
                .iter_mut()
                .zip(&other.code)
                .for_each(|(sum, other)| sum.hits += other.hits);
        }
        let path = sum.hot_path();
        let hit = path
            .iter()
            .filter(|instruction| instruction.hits > 0)
            .count();
        println!(
            "{hit} of {} instructions of a hot path were interrupted",
            path.len()
        );
        // The one that is in one piece. The other two record one event in 16.
        if path
            .iter()
            .any(|instruction| instruction.mnemonic() == "shld")
        {
            println!("{}", sum.listing());
            assert!(hit * 4 >= path.len() * 3, "only {hit} of {}", path.len());
        }
    }
    let slow: u64 = runs
        .iter()
        .flat_map(|run| inside(run, &["local_cas4slow", "local_cas7prepare"]).into_values())
        .sum();
    assert!(slow > 0, "no interrupt came in the slow path");
}

/// An instruction that objdump does not know, as it is with those of control registers where the
/// ELF file does not declare them.
fn word(instruction: &Instruction) -> Option<u32> {
    u32::from_str_radix(instruction.text.strip_prefix(".4byte 0x")?, 16).ok()
}

/// Where interrupts came in the writer of a RISC-V run: before it masks them and after, and nowhere
/// in between.
fn interrupts_wait(run: &Run) {
    let (mut around, mut writers) = (0, 0);
    for writer in run
        .functions
        .iter()
        .filter(|function| function.symbol.contains("writer_masked"))
    {
        let at = |is_it: fn(u32) -> bool| {
            writer
                .code
                .iter()
                .position(|one| word(one).is_some_and(is_it))
                .expect("it masks")
        };
        // csrrci .., sstatus, 2 or csrrci .., mstatus, 8; csrw sstatus, .. or csrw mstatus, ..
        let mask = at(|word| [0x1001_7073, 0x3004_7073].contains(&(word & 0xffff_f07f)));
        let restore = at(|word| [0x1000_1073, 0x3000_1073].contains(&(word & 0xfff0_7fff)));
        assert!(mask < restore, "{}", writer.listing());
        let masked: u32 = writer.code[mask + 1..=restore]
            .iter()
            .map(|one| one.hits)
            .sum();
        assert_eq!(
            masked,
            0,
            "{}: interrupted while they were masked:\n{}",
            run.name,
            writer.listing()
        );
        around += writer.inside();
        writers += 1;
    }
    assert_eq!(
        inside(run, &["masked11record_slow"])["masked11record_slow"],
        0,
        "{}",
        run.name
    );
    let hottest = run
        .functions
        .iter()
        .filter(|function| function.symbol.contains("writer_masked"))
        .max_by_key(|one| one.inside());
    println!(
        "{}: {around} interrupts inside of {writers} writers, none of them while they mask:\n{}",
        run.name,
        hottest.unwrap().listing()
    );
    assert!(around > 0);
}

fn interrupts(run: &Run) {
    match run.machine {
        Machine::Riscv64 | Machine::Riscv32 => interrupts_wait(run),
        Machine::X86_64 if run.name.contains("jump") => {
            interrupts_come_inside(run, "writer_local_cas")
        }
        Machine::X86_64 => interrupts_come_inside(run, "writer_tsc_cas"),
    }
}

/// Ticks and pokes that come as often as the machine bears.
fn rate(machine: Machine) -> &'static str {
    if machine.is_riscv() {
        "tick_us=40 poke=16"
    } else {
        "tick_us=10 poke=4"
    }
}

fn overwrite_and_discard(machine: Machine, label: &str) {
    let (share, rate) = (events() / 4, rate(machine));
    let name = |which: &str| format!("stress-{label}-{which}");
    // Small rings, read while they are overwritten: almost every packet is, by nested writers too.
    let append = format!("mode=overwrite packets=8 packet_size=512 events={share} {rate}");
    let overwritten = stress(machine, &name("overwrite"), &append, true);
    account(&overwritten, 0);
    interrupts(&overwritten);

    // A consumer that keeps up, because the rings hold it all.
    let append = format!(
        "mode=discard consumer=host packets={ROOMY} events={} {rate}",
        share.min(ROOM)
    );
    let whole = stress(machine, &name("discard"), &append, true);
    no_other_losses(&whole, &account(&whole, 0).2);
    interrupts(&whole);

    // One that cannot.
    let append =
        format!("mode=discard consumer=host packets=4 packet_size=256 events={share} {rate}");
    let dropped = stress(machine, &name("drop"), &append, true);
    let (_, lost, _) = account(&dropped, 0);
    assert!(
        lost > 0,
        "{}: four packets of 256 bytes hold everything",
        dropped.name
    );
    interrupts(&dropped);
    if machine == Machine::X86_64 {
        interrupts_come_anywhere(&[overwritten, whole, dropped]);
    }

    // At full speed, in both modes. There are few interrupts for so many events.
    for (which, mode) in [
        ("fast-overwrite", "overwrite packets=16"),
        ("fast-discard", "discard consumer=host packets=64"),
    ] {
        // Fewer pokes: a CPU that waits for QEMU's devices is interrupted there.
        let rate = if machine == Machine::X86_64 {
            "tick_us=5 poke=256"
        } else {
            rate
        };
        let append = format!("mode={mode} events={} {rate}", 2 * share);
        let run = stress(machine, &name(which), &append, false);
        account(&run, 0);
        interrupts(&run);
    }
}

/// A ring that holds all that a CPU records if all of them record so much.
const ROOMY: u64 = 2048;
const ROOM: u64 = ROOMY * PACKET_SIZE * CPUS as u64 / 40 / 2;

/// A run whose rings held everything has no loss but the one that nested writers explain.
fn no_other_losses(run: &Run, seen: &[Seen]) {
    let (lost, unexplained) = seen.iter().fold((0, 0), |sum, cpu| {
        (sum.0 + cpu.lost, sum.1 + cpu.unexplained)
    });
    println!(
        "{}: {lost} events dropped because nested writers filled a packet before the next one was \
         prepared",
        run.name
    );
    assert_eq!(
        unexplained, 0,
        "{}: events are lost, and the rings were not full",
        run.name
    );
    assert!(
        lost == 0 || run.machine == Machine::X86_64,
        "{}: {lost} lost, and no writer nests",
        run.name
    );
}

/// Jumps of one window, of 2^32 ticks and of one more, and one back.
fn jumps(machine: Machine, label: &str) {
    for jump in [1u64 << 27, 1 << 32, (1 << 32) + 1] {
        let share = (events() / 24).min(ROOM);
        let append = format!(
            "mode=discard packets={ROOMY} jump={jump} events={share} {}",
            rate(machine)
        );
        let run = stress(
            machine,
            &format!("stress-{label}-jump-{jump}"),
            &append,
            true,
        );
        let seen = account(&run, jump).2;
        no_other_losses(&run, &seen);
        for (cpu, seen) in seen.iter().enumerate() {
            let (counts, losses, jumps) = (&run.cpus[cpu], losses(&run, cpu), &seen.jumps);
            println!(
                "cpu {cpu}: {} jumps ahead, {} back; {} measured, at most {} ticks besides; {} \
                 stamps clamped, {} windows stepped back",
                jumps.ahead,
                jumps.back,
                jumps.measured,
                jumps.most_besides,
                losses.clamped,
                losses.clock_back
            );
            // The last one may have no event behind it.
            assert!(
                (counts.jumps - 1..=counts.jumps).contains(&(jumps.ahead + jumps.back)),
                "{}, cpu {cpu}",
                run.name
            );
            assert_eq!(jumps.back, 1, "{}, cpu {cpu}", run.name);
            // Not measured: those before the clock is where it was, and where an interrupt recorded
            // between a reading and its event.
            assert!(
                jumps.measured * 2 > jumps.ahead && jumps.ahead > 6,
                "{}, cpu {cpu}: {}",
                run.name,
                jumps.measured
            );
            let [least, most] = seen.clamped;
            assert!(
                (least..=most).contains(&losses.clamped) && least > 0,
                "{}, cpu {cpu}: {losses:?} {:?}",
                run.name,
                seen.clamped
            );
            let [least, most] = seen.windows_back;
            let back = losses.clock_back;
            assert!(
                (least..=most).contains(&back) && least > 0,
                "{}, cpu {cpu}: {losses:?} {:?}",
                run.name,
                seen.windows_back
            );
        }
        interrupts(&run);
        // And where the rings are too small for it.
        let append = format!(
            "mode=overwrite packets=8 packet_size=512 jump={jump} events={share} {}",
            rate(machine)
        );
        account(
            &stress(
                machine,
                &format!("stress-{label}-jump-{jump}-small"),
                &append,
                true,
            ),
            jump,
        );
    }
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn x86_64_interrupts_inside_of_writers() {
    overwrite_and_discard(Machine::X86_64, "x86-64");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn riscv64_interrupts_between_writers() {
    overwrite_and_discard(Machine::Riscv64, "riscv64");
}

/// Control words in halves, and a clock whose carry from the low half to the high one comes in the
/// run.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn riscv32_interrupts_between_writers() {
    overwrite_and_discard(Machine::Riscv32, "riscv32");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn riscv32_clock_jumps() {
    jumps(Machine::Riscv32, "riscv32");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn x86_64_clock_jumps() {
    jumps(Machine::X86_64, "x86-64");
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn riscv64_clock_jumps() {
    jumps(Machine::Riscv64, "riscv64");
}
