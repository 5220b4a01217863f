//! Callers that are found on copies of stacks.

use kymo::vocabulary::{
    Address, ChainEnd, CpuMode, Pid, ProcessExec, Sample, StackCopy as Copied, Tid,
};
use kymo::{ChannelKind, Sequence, Text};
use kymo_ctf::Trace;
use kymo_made::{Made, US};
use kymo_profile::{By, Collector, Options, Profile};
use kymo_symbols::{Chain, ChainEnd as Found, Registers, StackCopy};

const SP: u64 = 0x7000;

/// A sample of a thread in its program, with what frame pointers gave.
fn sample(tid: u32, ip: u64) -> Sample {
    Sample {
        ip: Address(ip),
        tid: Tid(tid),
        period: 1000,
        missed: 0,
        mode: CpuMode::User,
        kernel_callers: 0,
        kernel_end: ChainEnd::Absent,
        user_end: ChainEnd::Unmapped,
        callchain: Sequence::new(&[Address(0xbad + 1)]),
    }
}

fn part(tid: u32, sp: u64, address: u64, words: &[u64]) -> Copied {
    let words: Vec<Address> = words.iter().copied().map(Address).collect();
    Copied {
        tid: Tid(tid),
        sp: Address(sp),
        fp: Address(0xf0),
        link: Address(0),
        address: Address(address),
        words: Sequence::new(&words),
    }
}

/// A process of two threads, 5 and 6.
fn made(name: &str) -> Made {
    let mut made = Made::with_samples(name);
    for tid in [5, 6] {
        let filename = Text::from("/bin/sh");
        made.event(
            0,
            0,
            ProcessExec {
                pid: Pid(5),
                tid: Tid(tid),
                filename,
            },
        );
    }
    made
}

/// What was asked of an unwinder: process, registers, where the copy begins and its words.
type Asked = (u64, Registers, u64, Vec<u64>);

/// The profile of a trace whose stacks have two callers each, and what was asked.
fn profile(made: &mut Made, has_files: bool) -> (Profile, Vec<Asked>) {
    let trace = Trace::open(made.finish()).unwrap();
    let (map, mut asked) = (trace.map(), Vec::new());
    let unwind = |pid: u64, registers: Registers, stack: StackCopy<'_>| {
        let words = stack.bytes.chunks(8);
        let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        asked.push((pid, registers, stack.address, words.collect()));
        has_files.then(|| Chain {
            callers: vec![0x2001, 0x3001],
            end: Found::Outermost,
        })
    };
    let mut collector = Collector::new(Options::default()).unwinding(Some(Box::new(unwind)));
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        collector.add(&item, true);
    }
    let chains = collector.finish();
    (chains.symbolize(|_| []), asked)
}

fn registers(ip: u64) -> Registers {
    Registers {
        ip,
        sp: SP,
        fp: 0xf0,
        link: None,
    }
}

#[test]
fn callers_are_found_on_the_stack_of_the_sample() {
    let mut made = made("stacks-found");
    made.event(0, US, part(5, SP, SP, &[1, 2, 3]));
    made.event(0, 2 * US, part(5, SP, SP + 24, &[4]));
    // Another thread's sample comes between, with frame pointers alone.
    made.event(1, 3 * US, sample(6, 0x1600));
    made.event(0, 4 * US, sample(5, 0x1500));
    // The next sample of the thread has no copy: what it has is kept.
    made.event(0, 5 * US, sample(5, 0x1700));
    let (profile, asked) = profile(&mut made, true);
    assert_eq!(asked, [(5, registers(0x1500), SP, vec![1, 2, 3, 4])]);
    assert_eq!(
        profile.folded(By::Nothing),
        "0x3000;0x2000;0x1500 1\n0xbad;0x1600 1\n0xbad;0x1700 1\n"
    );
    assert_eq!(profile.totals.untrusted, 2, "found by tables, it is whole");
}

#[test]
fn a_lost_part_ends_the_copy() {
    let mut made = made("stacks-lost");
    // The second of three is lost.
    made.event(0, US, part(5, SP, SP, &[1, 2]));
    made.event(0, 2 * US, part(5, SP, SP + 32, &[5]));
    made.event(0, 3 * US, sample(5, 0x1500));
    // The first is lost, and so is a sample with its own.
    made.event(0, 4 * US, part(5, SP, SP, &[7]));
    made.event(0, 5 * US, part(5, SP + 64, SP + 80, &[8]));
    made.event(0, 6 * US, sample(5, 0x1600));
    // Of another sample, by chance with the same stack pointer, all but the first is lost.
    made.event(0, 7 * US, part(5, SP, SP, &[9]));
    made.lose_of(ChannelKind::Samples, 0, 3, 8 * US);
    made.event(0, 9 * US, sample(5, 0x1700));
    let (_, asked) = profile(&mut made, true);
    let words: Vec<_> = asked.into_iter().map(|(_, _, _, words)| words).collect();
    assert_eq!(words, [vec![1, 2]]);
}

#[test]
fn tables_that_lead_nowhere_leave_the_frame_pointers_chain() {
    let mut made = made("stacks-no-table");
    made.event(0, US, part(5, SP, SP, &[1]));
    made.event(0, 2 * US, sample(5, 0x1500));
    let trace = Trace::open(made.finish()).unwrap();
    let map = trace.map();
    let unwind = |_: u64, _: Registers, _: StackCopy<'_>| {
        Some(Chain {
            callers: Vec::new(),
            end: Found::NoTable(0x1500),
        })
    };
    let mut collector = Collector::new(Options::default()).unwinding(Some(Box::new(unwind)));
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        collector.add(&item, true);
    }
    let profile = collector.finish().symbolize(|_| []);
    assert_eq!(profile.folded(By::Nothing), "0xbad;0x1500 1\n");
}

#[test]
fn without_files_frame_pointers_serve() {
    let mut made = made("stacks-no-files");
    made.event(0, US, part(5, SP, SP, &[1]));
    made.event(0, 2 * US, sample(5, 0x1500));
    let (profile, asked) = profile(&mut made, false);
    assert_eq!(asked.len(), 1);
    assert_eq!(profile.folded(By::Nothing), "0xbad;0x1500 1\n");
}
