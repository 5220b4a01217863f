//! Groups of software events on the running kernel, beside the kernel's own accounts.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod permission;

use std::fs;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use kymo::count::{EventSpec, Refused, Snapshot};
use kymo_perf::{
    Error, EventNames, Group, Handle, HeldCommand, Options, SlotLimit, Target, online_cpus,
};
use permission::{may_count, not_run};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

const PAGE: usize = 4096;

fn limit() -> SlotLimit {
    SlotLimit::of_machine().unwrap()
}

/// A group with these events that counts this thread, and their handles.
fn group(names: &[&str], options: Options) -> (Group, Vec<Handle>) {
    group_of(Target::SELF, names, options)
}

fn group_of(target: Target, names: &[&str], options: Options) -> (Group, Vec<Handle>) {
    let mut group = Group::new(target, options, limit());
    let known = EventNames::default();
    let add = |name: &&str| group.add(known.event(name).unwrap()).unwrap();
    let handles = names.iter().map(add).collect();
    (group, handles)
}

/// Writes to so many pages for the first time. They are never freed: the allocator would give them
/// again, and they would be there.
fn touch(pages: usize) {
    let mut memory: Vec<u8> = Vec::with_capacity(pages * PAGE);
    for page in memory.spare_capacity_mut().chunks_mut(PAGE) {
        page[0].write(1);
    }
    std::mem::forget(black_box(memory));
}

/// The page faults of this thread, as the kernel's statistics have them.
fn faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<u64> = fields
        .split(' ')
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    // minflt and majflt of proc_pid_stat(5), which counts from the process id, 1.
    fields[10 - 3] + fields[12 - 3]
}

/// The times that this thread waited, as the kernel's statistics have them.
fn waits() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
    lines
        .map(|line| {
            line.split_whitespace()
                .last()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        })
        .sum()
}

fn run_on(cpu: u32) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu as usize);
    sched_setaffinity(None, &cpus).unwrap();
}

fn raws(counts: &Snapshot) -> Vec<u64> {
    counts.members().iter().map(|member| member.raw).collect()
}

#[test]
fn counts_are_those_of_the_kernels_own_statistics() {
    if !may_count() {
        return;
    }
    let (mut group, _) = group(&["page-faults", "context-switches"], Options::default());
    let before = (faults(), waits());
    group.start().unwrap();
    touch(200);
    for _ in 0..20 {
        std::thread::sleep(Duration::from_micros(100));
    }
    group.stop().unwrap();
    let after = (faults(), waits());
    let counts = group.read_all().unwrap();
    assert_eq!(counts.time_enabled, counts.time_running);
    for (member, all) in counts
        .members()
        .iter()
        .zip([after.0 - before.0, after.1 - before.1])
    {
        // What the reading of the statistics needs, besides.
        let (least, most) = (all.saturating_sub(60), all);
        assert!((least..=most).contains(&member.raw), "{member:?} {all}");
        // A sleep may be over before its thread gives way.
        assert!(member.raw >= 5, "{member:?}");
        assert_eq!(member.scaled, Some(member.raw));
    }
    // It is stopped.
    touch(50);
    assert_eq!(raws(&group.read_all().unwrap()), raws(&counts));
}

/// K-13, K-17: each member has its own count, of the same time as the others'.
#[test]
fn members_that_count_the_same_have_the_same_count() {
    if !may_count() {
        return;
    }
    let names = ["page-faults", "context-switches", "faults", "page_faults"];
    let (mut group, handles) = group(&names, Options::default());
    group.start().unwrap();
    let mut is_another = false;
    for round in 1..=5 {
        touch(64);
        let counts = group.read(handles[2]).unwrap();
        let [first, switches, second, third] = raws(&counts)[..] else {
            panic!("{counts:?}");
        };
        assert!(first >= round * 64 / 16, "{counts:?}");
        assert_eq!((first, first), (second, third));
        assert_eq!(counts.raw, first);
        // It grows between two reads.
        let later = group.read(handles[1]).unwrap();
        assert_eq!(later.raw, raws(&later)[1]);
        is_another |= switches != first;
    }
    assert!(is_another, "the second member has the counts of the first");
}

/// K-17, with members of several PMUs: Linux counts the clocks and the other software events by
/// different ones.
#[test]
fn members_of_other_pmus_count_with_their_leader() {
    if !may_count() {
        return;
    }
    for names in [
        ["task-clock", "page-faults"],
        ["page-faults", "task-clock"],
        ["cpu-clock", "page-faults"],
    ] {
        let (mut group, _) = group(&names, Options::default());
        for restart in [true, true, false] {
            match restart {
                true => group.start().unwrap(),
                false => group.resume().unwrap(),
            }
            touch(64);
            group.stop().unwrap();
            let counts = raws(&group.read_all().unwrap());
            assert!(
                counts.iter().all(|count| *count > 0),
                "{names:?} {counts:?}"
            );
        }
        group.start().unwrap();
        group.add(EventSpec::from_name("faults").unwrap()).unwrap();
        touch(64);
        let counts = raws(&group.read_all().unwrap());
        assert!(
            counts.iter().all(|count| *count > 0),
            "{names:?} {counts:?}"
        );
    }
}

/// K-08, K-20.
#[test]
fn a_new_member_starts_the_group_from_zero() {
    if !may_count() {
        return;
    }
    let (mut group, handles) = group(&["page-faults"], Options::default());
    group.start().unwrap();
    touch(200);
    let before = group.read(handles[0]).unwrap();
    assert!(before.raw >= 200 / 16, "{before:?}");
    let member = EventSpec::from_name("faults").unwrap();
    let member = group.add(member).unwrap();
    let after = group.read(member).unwrap();
    assert!(after.raw < before.raw, "{after:?}");
    assert!(after.time_enabled < before.time_enabled, "{after:?}");
    assert_eq!(raws(&after), [after.raw, after.raw]);
}

/// K-01: a member joins the leader that a descriptor names, which anybody may have opened.
#[test]
fn a_member_joins_the_leader_of_a_descriptor() {
    if !may_count() {
        return;
    }
    let faults = EventSpec::from_name("page-faults").unwrap();
    let (first, handles) = group(&["page-faults"], Options::default());
    let leader = first.descriptor(handles[0]).unwrap();
    let led_by =
        |leader: OwnedFd| Group::led_by(leader, faults, Target::SELF, Options::default(), limit());
    let mut joined = led_by(leader.try_clone_to_owned().unwrap()).unwrap();
    // The event lives as long as any descriptor of it.
    drop(first);
    let member = joined.add(EventSpec::from_name("faults").unwrap()).unwrap();
    joined.start().unwrap();
    touch(200);
    let counts = joined.read(member).unwrap();
    assert!(counts.raw >= 200 / 16, "{counts:?}");
    assert_eq!(raws(&counts), [counts.raw, counts.raw]);

    let (pair, handles) = group(&["page-faults", "faults"], Options::default());
    let leader = pair.descriptor(handles[0]).unwrap();
    let (other, _) = UnixStream::pair().unwrap();
    for (leader, errno) in [
        (leader.try_clone_to_owned().unwrap(), None),
        (other.into(), Some(Errno::NOTTY.raw_os_error())),
    ] {
        match led_by(leader) {
            Err(error @ Error::NoLeader { .. }) => {
                let sentence = error.to_string();
                assert!(
                    sentence.starts_with("page-faults leads no group"),
                    "{sentence}"
                );
                let Error::NoLeader { source, .. } = error else {
                    unreachable!("{sentence}");
                };
                let said = source.and_then(|source| source.raw_os_error());
                assert_eq!(said, errno, "{sentence}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// K-09: a group ends as a whole only by `detach_all`.
#[test]
fn a_leader_cannot_leave_its_members() {
    if !may_count() {
        return;
    }
    let (mut group, handles) = group(&["page-faults", "cs", "faults"], Options::default());
    group.start().unwrap();
    for handle in [handles[0], handles[0]] {
        match group.detach(handle) {
            Err(Error::Refused(Refused::HasMembers(2))) => {}
            other => panic!("{other:?}"),
        }
    }
    group.detach(handles[1]).unwrap();
    touch(64);
    let counts = group.read(handles[2]).unwrap();
    let [leader, member] = raws(&counts)[..] else {
        panic!("{counts:?}");
    };
    assert!(leader > 0 && leader == member, "{counts:?}");
    assert_eq!(group.detach_all().unwrap(), 1);
    for handle in handles {
        match group.read(handle) {
            Err(Error::Refused(Refused::Stale)) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// K-04, K-11, K-22: a group that is bound to another CPU than its thread opens, is enabled, and
/// never runs. Where the thread then runs there, its counts are scaled.
#[test]
fn a_group_that_never_ran_has_no_scaled_count() {
    if !may_count() {
        return;
    }
    let cpus = online_cpus().unwrap();
    let [here, there, ..] = cpus[..] else {
        return not_run("this machine has one CPU");
    };
    run_on(here);
    let target = Target::from_numbers(0, there as i32).unwrap();
    let (mut group, handles) = group_of(target, &["page-faults", "cs"], Options::default());
    group.start().unwrap();
    touch(500);
    let never = group.read(handles[0]).unwrap();
    assert_eq!((never.raw, never.scaled, never.time_running), (0, None, 0));
    assert!(never.time_enabled > 0, "{never:?}");
    run_on(there);
    touch(500);
    let counts = group.read(handles[0]).unwrap();
    assert!(
        counts.raw >= 500 / 16 && counts.time_running > 0,
        "{counts:?}"
    );
    assert!(counts.time_running < counts.time_enabled, "{counts:?}");
    let (raw, enabled) = (u128::from(counts.raw), u128::from(counts.time_enabled));
    let scaled = raw * enabled / u128::from(counts.time_running);
    assert_eq!(counts.scaled.map(u128::from), Some(scaled));
    assert!(scaled > raw);
}

#[test]
fn threads_of_the_target_are_counted_where_they_are_inherited() {
    if !may_count() {
        return;
    }
    for inherit in [true, false] {
        let options = Options {
            inherit,
            ..Options::default()
        };
        let (mut group, handles) = group(&["page-faults"], options);
        group.start().unwrap();
        let before = group.read(handles[0]).unwrap().raw;
        std::thread::spawn(|| touch(4000)).join().unwrap();
        let faults = group.read(handles[0]).unwrap().raw - before;
        assert_eq!(faults >= 4000 / 16, inherit, "{faults}");
        // What an ended thread counted is no part of the next run.
        group.start().unwrap();
        let faults = group.read(handles[0]).unwrap().raw;
        assert!(faults < 4000 / 16, "{faults}");
    }
}

/// K-10: nothing is known of what has not run.
#[test]
fn a_program_is_counted_from_its_first_instruction_and_not_before() {
    if !may_count() {
        return;
    }
    let held = HeldCommand::new(Command::new("true")).unwrap();
    let target = Target::Process(held.pid());
    let (inherit, on_exec) = (true, true);
    let options = Options {
        inherit,
        on_exec,
        ..Options::default()
    };
    let (group, handles) = group_of(target, &["page-faults", "task-clock"], options);
    let before = group.read(handles[1]).unwrap();
    assert_eq!(
        (before.raw, before.scaled, before.time_enabled),
        (0, None, 0)
    );
    assert!(held.release().unwrap().wait().unwrap().success());
    let after = group.read(handles[1]).unwrap();
    assert!(raws(&after).iter().all(|count| *count > 0), "{after:?}");
    assert_eq!(after.time_enabled, after.time_running);
}

#[test]
fn a_program_that_does_not_exist_is_an_error_and_leaves_no_process() {
    let held = HeldCommand::new(Command::new("/nowhere/program")).unwrap();
    let pid = held.pid();
    let sentence = held.release().expect_err("nothing to start").to_string();
    let words = "cannot start /nowhere/program: No such file or directory";
    assert!(sentence.starts_with(words), "{sentence}");
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
}

#[test]
fn a_program_that_is_not_released_ends() {
    let held = HeldCommand::new(Command::new("true")).unwrap();
    let process = format!("/proc/{}", held.pid());
    assert!(fs::exists(&process).unwrap());
    drop(held);
    assert!(!fs::exists(&process).unwrap());
}

/// Whatever its size, a group is read by one system call.
#[test]
fn a_group_is_read_by_one_system_call() {
    if !may_count() {
        return;
    }
    let sixteen = ["page-faults"; 16];
    let (mut group, handles) = group(&sixteen, Options::default());
    group.start().unwrap();
    let tracepoint = EventNames::default().event("raw_syscalls:sys_enter");
    let calls = match tracepoint {
        Ok(calls) => calls.event,
        Err(error) => return not_run(&error.to_string()),
    };
    let mut counter = Group::new(Target::SELF, Options::default(), limit());
    let calls = match counter.add(calls) {
        Ok(calls) => calls,
        Err(error) => return not_run(&error.to_string()),
    };
    counter.start().unwrap();
    let before = counter.read(calls).unwrap().raw;
    for handle in handles.iter().cycle().take(100) {
        group.read(*handle).unwrap();
    }
    let after = counter.read(calls).unwrap().raw;
    assert_eq!(after - before, 101);
}

/// K-04: a target that does not exist, and an event of the hardware that is there or is not.
#[test]
fn what_cannot_be_counted_says_why() {
    if !may_count() {
        return;
    }
    let open = |target, name: &str| {
        let mut group = Group::new(target, Options::default(), limit());
        let event = EventSpec::from_name(name).unwrap();
        group.add(event).map(|handle| group.read(handle).unwrap())
    };
    // No process has a number beyond the kernel's limit of 2^22.
    let error = open(Target::Process(1 << 23), "page-faults").unwrap_err();
    assert_eq!(error.to_string(), "there is no process 8388608");
    match open(Target::SELF, "instructions") {
        Ok(_) => {}
        Err(Error::NotOnThisMachine { event }) => assert_eq!(event.to_string(), "instructions"),
        Err(error) => panic!("{error}"),
    }
}
