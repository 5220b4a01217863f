//! Groups on a kernel that writes down what it is asked, and answers as any machine might.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use kymo::count::{EventSpec, GroupSpec, Refused};
use perf_event_open_sys::bindings::perf_event_attr;

use crate::error::Error;
use crate::group::Group;
use crate::limit::{LimitSource, SlotLimit};
use crate::sys::{Control, Scope, System};
use crate::target::Target;
use crate::{Handle, Options};

/// The calls, as lines; counts and times of the group.
#[derive(Debug, Default)]
struct Kernel {
    calls: RefCell<Vec<String>>,
    counts: RefCell<Vec<u64>>,
    times: RefCell<(u64, u64)>,
    refuses: RefCell<Option<i32>>,
    /// A call that fails, by its line.
    fails: RefCell<Option<&'static str>>,
    no_programs: RefCell<bool>,
    /// Events that were opened.
    opened: RefCell<u64>,
}

impl Kernel {
    fn call(&self, call: String) -> io::Result<()> {
        if *self.fails.borrow() == Some(call.as_str()) {
            return Err(io::ErrorKind::Other.into());
        }
        self.calls.borrow_mut().push(call);
        match self.refuses.take() {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.take()
    }
}

/// An event's number, from 0; its id is 100 more.
impl System for &Kernel {
    type Event = u64;

    fn open(
        &self,
        attributes: &perf_event_attr,
        target: Target,
        leader: Option<&u64>,
    ) -> io::Result<u64> {
        assert_eq!(attributes.disabled(), 1);
        let (pid, cpu) = target.numbers();
        let leader = leader.map_or(-1, |leader| *leader as i64);
        self.call(format!("open {pid} {cpu} {leader}"))?;
        self.counts.borrow_mut().push(0);
        Ok(self.opened.replace_with(|opened| *opened + 1))
    }

    fn id(&self, event: &u64) -> io::Result<u64> {
        Ok(100 + event)
    }

    fn control(&self, event: &u64, control: Control, scope: Scope) -> io::Result<()> {
        let whole = match scope {
            Scope::Event => "",
            Scope::Group => " group",
        };
        self.call(format!("{control:?} {event}{whole}").to_lowercase())
    }

    fn set_program(&self, event: &u64, program: BorrowedFd<'_>) -> io::Result<()> {
        assert!(program.as_raw_fd() >= 0);
        self.call(format!("program {event}"))?;
        match *self.no_programs.borrow() {
            true => Err(io::ErrorKind::InvalidInput.into()),
            false => Ok(()),
        }
    }

    /// The counts, the last event's first: no position says whose a count is.
    fn read(&self, leader: &u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.call(format!("read {leader}"))?;
        let counts = self.counts.borrow();
        let (enabled, running) = *self.times.borrow();
        let mut words = vec![counts.len() as u64, enabled, running];
        for (event, count) in counts.iter().enumerate().rev() {
            words.extend([*count, 100 + event as u64]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

fn limit(slots: usize) -> SlotLimit {
    let source = LimitSource::Default;
    SlotLimit { slots, source }
}

fn event(name: &str) -> EventSpec {
    EventSpec::from_name(name).expect(name)
}

/// A group with these events, and their handles.
fn group<'k>(kernel: &'k Kernel, names: &[&str]) -> (Group<&'k Kernel>, Vec<Handle>) {
    let mut group = Group::on(kernel, Target::SELF, Options::default(), limit(4));
    let handles = names.iter().map(|name| group.add(event(name)).expect(name));
    let handles = handles.collect();
    (group, handles)
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Refused {
    match result.expect_err("refused") {
        Error::Refused(refused) => refused,
        error => panic!("{error}"),
    }
}

/// K-07, K-20: RESET precedes ENABLE, the program is attached before ENABLE.
#[test]
fn an_event_is_reset_and_linked_before_the_group_is_enabled() {
    let kernel = Kernel::default();
    let mut group = Group::on(&kernel, Target::Process(7), Options::default(), limit(4));
    let program = std::io::stdin();
    group
        .add_with_program(event("cycles"), program.as_fd())
        .expect("added");
    assert_eq!(kernel.calls(), ["open 7 -1 -1", "reset 0", "program 0"]);
    group.start().expect("started");
    assert_eq!(
        kernel.calls(),
        [
            "disable 0 group",
            "reset 0 group",
            "read 0",
            "enable 0 group"
        ]
    );
}

/// K-08, K-20: the restart is for the group, three times, behind the new member's program.
#[test]
fn adding_a_member_restarts_the_group_behind_its_program() {
    let kernel = Kernel::default();
    let (mut group, _) = group(&kernel, &["cycles"]);
    group.start().expect("started");
    kernel.calls();
    let program = std::io::stdin();
    group
        .add_with_program(event("instructions"), program.as_fd())
        .expect("added");
    assert_eq!(
        kernel.calls(),
        [
            "open 0 -1 0",
            "reset 1",
            "program 1",
            "disable 0 group",
            "reset 0 group",
            "read 0",
            "enable 1",
            "enable 0 group"
        ]
    );
}

/// K-08: times and counts that Linux does not reset start from zero too.
#[test]
fn a_restart_is_from_zero() {
    let kernel = Kernel::default();
    let (mut group, handles) = group(&kernel, &["cycles"]);
    // What threads that have ended counted, no reset takes back.
    *kernel.counts.borrow_mut() = vec![1000];
    *kernel.times.borrow_mut() = (500, 400);
    group.start().expect("started");
    let counts = group.read(handles[0]).expect("counts");
    assert_eq!((counts.raw, counts.scaled), (0, None));
    *kernel.counts.borrow_mut() = vec![1007];
    *kernel.times.borrow_mut() = (520, 410);
    let counts = group.read(handles[0]).expect("counts");
    assert_eq!((counts.raw, counts.scaled), (7, Some(14)));
    assert_eq!((counts.time_enabled, counts.time_running), (20, 10));
    group.add(event("instructions")).expect("added");
    let counts = group.read(handles[0]).expect("counts");
    assert_eq!((counts.raw, counts.time_enabled), (0, 0));
}

/// K-10, K-13, and one system call whatever the group's size.
#[test]
fn a_member_reads_its_own_count_by_id_with_one_call() {
    let kernel = Kernel::default();
    let (mut group, handles) = group(&kernel, &["cycles", "instructions", "cs", "faults"]);
    group.start().expect("started");
    *kernel.counts.borrow_mut() = vec![10, 11, 12, 13];
    *kernel.times.borrow_mut() = (2, 1);
    kernel.calls();
    for (handle, raw) in handles.iter().zip(10..) {
        let counts = group.read(*handle).expect("counts");
        assert_eq!((counts.raw, counts.scaled), (raw, Some(raw * 2)));
        assert_eq!(
            counts.member(handle.id()).map(|member| member.raw),
            Some(raw)
        );
        let leader = counts.members()[0];
        assert_eq!((leader.id, leader.raw), (handles[0].id(), 10));
        assert_eq!(kernel.calls(), ["read 0"]);
    }
}

/// K-11: 128 bits, and nothing where the group never ran.
#[test]
fn scaling_is_exact_and_says_nothing_of_what_never_ran() {
    let kernel = Kernel::default();
    let (group, handles) = group(&kernel, &["cycles"]);
    for (raw, times, scaled) in [
        (7, (9, 0), None),
        (7, (9, 9), Some(7)),
        (1 << 60, (1 << 60, 1 << 58), Some(1 << 62)),
    ] {
        *kernel.counts.borrow_mut() = vec![raw];
        *kernel.times.borrow_mut() = times;
        let counts = group.read(handles[0]).expect("counts");
        assert_eq!((counts.raw, counts.scaled), (raw, scaled));
    }
}

/// K-06, K-20: a stale handle fails without asking the kernel, and stays so.
#[test]
fn a_stale_handle_fails_at_once() {
    let kernel = Kernel::default();
    let (mut group, handles) = group(&kernel, &["cycles", "instructions"]);
    group.detach(handles[1]).expect("detached");
    // Another event takes the place.
    group.add(event("branches")).expect("added");
    kernel.calls();
    assert_eq!(refused(group.read(handles[1])), Refused::Stale);
    assert_eq!(refused(group.detach(handles[1])), Refused::Stale);
    assert_eq!(kernel.calls(), [""; 0]);
}

/// K-09, K-20: only `detach_all` ends a leader with members, and says how many went with it.
#[test]
fn a_leader_goes_with_its_members_only_when_asked() {
    let kernel = Kernel::default();
    let (mut group, handles) = group(&kernel, &["cycles", "instructions", "cs"]);
    group.start().expect("started");
    kernel.calls();
    assert_eq!(refused(group.detach(handles[0])), Refused::HasMembers(2));
    assert_eq!(kernel.calls(), [""; 0]);
    group.detach(handles[2]).expect("detached");
    assert_eq!(kernel.calls(), ["disable 2"]);
    assert_eq!(group.detach_all().expect("ended"), 1);
    assert_eq!(kernel.calls(), ["disable 0 group"]);
    assert_eq!(refused(group.read(handles[0])), Refused::Stale);
    assert_eq!(refused(group.start()), Refused::Empty);
    assert_eq!(group.handles().count(), 0);
}

/// K-14, K-15, K-20: 5 in 4, and 17 software events; nothing is opened.
#[test]
fn groups_that_cannot_be_are_refused_before_anything_is_opened() {
    let kernel = Kernel::default();
    let (mut group, _) = group(&kernel, &["cycles", "instructions", "r1", "LLC-loads"]);
    kernel.calls();
    let leader = event("cycles").kind;
    for name in ["branches", "mem:0x10"] {
        let (needed, slots) = (5, 4);
        assert_eq!(
            refused(group.add(event(name))),
            Refused::TooManySlots {
                leader,
                needed,
                slots
            }
        );
    }
    for _ in 4..16 {
        group.add(event("page-faults")).expect("added");
    }
    kernel.calls();
    let events = 17;
    assert_eq!(
        refused(group.add(event("page-faults"))),
        Refused::TooManyEvents { leader, events }
    );
    assert_eq!(kernel.calls(), [""; 0]);
    let five = ["cycles"; 5].map(event);
    let five = GroupSpec::new(&five).expect("a group");
    let opened = Group::open(Target::SELF, &five, Options::default(), limit(4));
    assert!(matches!(
        refused(opened),
        Refused::TooManySlots { needed: 5, .. }
    ));
}

/// K-22: a refusal by the kernel leaves the group as it was.
#[test]
fn a_member_that_cannot_be_opened_changes_nothing() {
    let kernel = Kernel::default();
    let (mut group, handles) = group(&kernel, &["cycles"]);
    group.start().expect("started");
    kernel.calls();
    *kernel.refuses.borrow_mut() = Some(2);
    let error = group.add(event("instructions")).expect_err("refused");
    assert!(matches!(error, Error::NotOnThisMachine { .. }), "{error}");
    assert_eq!(kernel.calls(), ["open 0 -1 0"]);
    assert_eq!(group.handles().collect::<Vec<_>>(), handles);
    group.read(handles[0]).expect("counts");
}

/// K-22: what the kernel fails to start again is stopped, and is not started by the next member.
#[test]
fn a_group_that_cannot_be_started_again_is_stopped() {
    for fails in ["reset 0 group", "read 0", "enable 1", "enable 0 group"] {
        let kernel = Kernel::default();
        let (mut group, handles) = group(&kernel, &["cycles"]);
        group.start().expect("started");
        *kernel.fails.borrow_mut() = Some(fails);
        let error = group.add(event("instructions")).expect_err(fails);
        assert!(matches!(error, Error::System { .. }), "{error}");
        assert_eq!(group.handles().collect::<Vec<_>>(), handles, "{fails}");
        kernel.fails.take();
        kernel.calls();
        group.add(event("branches")).expect("added");
        assert_eq!(kernel.calls(), ["open 0 -1 0", "reset 2"], "{fails}");
        group.start().expect("started");
    }
}

/// K-05.
#[test]
fn a_program_that_is_refused_changes_nothing() {
    let kernel = Kernel::default();
    let (mut group, handles) = group(&kernel, &["cycles"]);
    group.start().expect("started");
    kernel.calls();
    *kernel.no_programs.borrow_mut() = true;
    let program = std::io::stdin();
    let error = group.add_with_program(event("page-faults"), program.as_fd());
    let error = error.expect_err("refused");
    let words = "page-faults does not take the eBPF program";
    assert!(error.to_string().starts_with(words), "{error}");
    assert_eq!(kernel.calls(), ["open 0 -1 0", "reset 1", "program 1"]);
    assert_eq!(group.handles().collect::<Vec<_>>(), handles);
}

/// K-04.
#[test]
fn the_pair_of_process_and_cpu_is_checked() {
    for (pid, cpu, target) in [
        (5, 1, Target::ProcessOnCpu(5, 1)),
        (0, 0, Target::ProcessOnCpu(0, 0)),
        (5, -1, Target::Process(5)),
        (0, -1, Target::SELF),
        (-1, 0, Target::Cpu(0)),
    ] {
        assert_eq!(Target::from_numbers(pid, cpu).expect("a target"), target);
        assert_eq!(target.numbers(), (pid, cpu));
    }
    for (pid, cpu, sentence) in [
        (
            -1,
            -1,
            "there is nothing to count: name a process, a CPU, or both",
        ),
        (-2, 0, "-2 is no process id; it is 0 or more, or -1 for any"),
        (1, -7, "-7 is no CPU number; it is 0 or more, or -1 for any"),
    ] {
        let error = Target::from_numbers(pid, cpu).expect_err(sentence);
        assert_eq!(error.to_string(), sentence);
    }
}

#[test]
fn counts_of_other_events_are_not_taken_for_the_groups() {
    let kernel = Kernel::default();
    let (group, handles) = group(&kernel, &["cycles", "instructions"]);
    kernel.counts.borrow_mut().pop();
    let error = group.read(handles[0]).expect_err("one is missing");
    assert!(matches!(error, Error::BadRead { .. }), "{error}");
}
