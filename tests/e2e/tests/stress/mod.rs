//! Writers under interrupts, three deep and NMIs on top, on four vCPUs that run in parallel (no
//! icount): `kernels/stress` on both processors. Every event has a number, a checksum and, some,
//! the time; the kernel counts its calls; the trace must hold all of it, or count it.
//!
//! QEMU interrupts a CPU between its blocks of translated code. Most runs have one instruction in
//! each, so that interrupts come before any.

mod interrupts;
mod machine;
mod seen;

use interrupts::{interrupts, interrupts_come_anywhere};
use machine::{Machine, Run, stress};
use seen::{Jumps, Seen, account, losses};

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

    // A consumer that does not keep up.
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
            assert!(jumps.ahead > 6, "{}, cpu {cpu}: {}", run.name, jumps.ahead);
            assert!(
                jumps.all_accounted_for(),
                "{}, cpu {cpu}: {jumps:?}",
                run.name
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
        // How many are obscured is chance, and more than half on one CPU is rare but comes.
        let sum = |count: fn(&Jumps) -> u64| seen.iter().map(|cpu| count(&cpu.jumps)).sum::<u64>();
        let (measured, ahead) = (sum(|jumps| jumps.measured), sum(|jumps| jumps.ahead));
        assert!(measured * 4 > ahead, "{}: {measured} of {ahead}", run.name);
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
