//! The commands over a target and an output that fail where they are told to.

use super::{Channels, Failed, Options, Output, Step, Target, gather, record};
use crate::{Diagnostics, flags};

/// A kernel with one session at most, whose channels get a byte with each microsecond.
#[derive(Clone, Debug, Default, PartialEq)]
struct Kernel {
    /// Whether there is a session, and whether it records.
    session: Option<bool>,
    rolling: bool,
    now: u64,
    priority: i32,
    recorded: [u64; 2],
    read: [u64; 2],
    /// Reads while it recorded.
    read_live: u32,
    sleeps: Vec<u64>,
    fails: Option<Step>,
}

impl Kernel {
    fn refused(&self, step: Step) -> Result<(), &'static str> {
        if self.fails == Some(step) {
            Err("refused")
        } else {
            Ok(())
        }
    }
}

impl Target for Kernel {
    type Error = &'static str;

    fn start(&mut self) -> Result<Channels, Self::Error> {
        self.refused(Step::Start)?;
        if self.session.is_some() {
            return Err("in progress");
        }
        self.session = Some(true);
        self.channels()
    }
    fn channels(&mut self) -> Result<Channels, Self::Error> {
        self.refused(Step::Ask)?;
        let flags = if self.rolling { flags::ROLLING } else { 0 };
        self.session
            .map(|_| Channels { count: 2, flags })
            .ok_or("no session")
    }
    fn read(&mut self, channel: u32, buffer: &mut [u8]) -> Result<usize, Self::Error> {
        self.refused(Step::Read)?;
        self.read_live += u32::from(self.session == Some(true));
        let channel = channel as usize;
        let news = self.recorded[channel] - self.read[channel];
        let len = buffer.len().min(news as usize);
        buffer[..len].fill(channel as u8);
        self.read[channel] += len as u64;
        Ok(len)
    }
    fn stop(&mut self) -> Result<(), Self::Error> {
        self.refused(Step::Stop)?;
        self.session.as_mut().map(|it| *it = false).ok_or("none")
    }
    fn finish(&mut self) -> Result<Diagnostics, Self::Error> {
        let was = self.session.take();
        self.refused(Step::Finish)?;
        was.map(|_| Diagnostics::default()).ok_or("no session")
    }
    fn time(&mut self) -> u64 {
        self.now
    }
    fn sleep(&mut self, microseconds: u64) {
        self.now += microseconds;
        self.sleeps.push(microseconds);
        if self.session == Some(true) {
            for channel in &mut self.recorded {
                *channel += microseconds;
            }
        }
    }
    fn set_priority(&mut self, priority: i32) -> Result<i32, Self::Error> {
        self.refused(Step::Priority)?;
        Ok(core::mem::replace(&mut self.priority, priority))
    }
}

/// A folder that fails at this call, counted from 1.
#[derive(Default)]
struct Folder {
    files: [u64; 2],
    calls: u32,
    fails_at: Option<u32>,
    is_closed: bool,
}

impl Folder {
    fn call(&mut self) -> Result<(), &'static str> {
        self.calls += 1;
        if self.fails_at == Some(self.calls) {
            Err("no space")
        } else {
            Ok(())
        }
    }
}

impl Output for Folder {
    type Error = &'static str;

    fn prepare(&mut self) -> Result<(), Self::Error> {
        self.call()
    }
    fn open(&mut self, _: Channels) -> Result<(), Self::Error> {
        self.call()
    }
    fn write(&mut self, channel: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        self.call()?;
        assert!(bytes.iter().all(|byte| u32::from(*byte) == channel));
        self.files[channel as usize] += bytes.len() as u64;
        Ok(())
    }
    fn close(&mut self, _: &Diagnostics) -> Result<(), Self::Error> {
        self.is_closed = true;
        self.call()
    }
}

fn options() -> Options<'static> {
    Options {
        duration_ms: Some(2),
        interval_ms: 1,
        priority: Some(7),
        ..Options::DEFAULT
    }
}

#[test]
fn all_of_a_recording_is_written() {
    for rolling in [false, true] {
        let mut kernel = Kernel {
            rolling,
            priority: 3,
            ..Kernel::default()
        };
        let mut folder = Folder::default();
        let mut buffer = [0; 100];
        record(&mut kernel, &mut folder, &mut buffer, &options(), |_, _| {
            false
        })
        .unwrap();
        assert_eq!(folder.files, [2000; 2]);
        assert!(folder.is_closed);
        assert_eq!(kernel.sleeps, [1000, 1000]);
        assert_eq!((kernel.session, kernel.priority), (None, 3));
        assert_eq!(kernel.read_live == 0, rolling);
    }
}

#[test]
fn a_recording_ends_with_its_subject_or_its_time() {
    let mut kernel = Kernel::default();
    let forever = Options {
        duration_ms: None,
        ..options()
    };
    let mut looks = 0;
    let until = |_: &mut Kernel, _: &mut Folder| {
        looks += 1;
        looks > 3
    };
    record(
        &mut kernel,
        &mut Folder::default(),
        &mut [0; 8],
        &forever,
        until,
    )
    .unwrap();
    assert_eq!(kernel.sleeps, [1000; 3]);
    let mut kernel = Kernel::default();
    let odd = Options {
        duration_ms: Some(5),
        interval_ms: 3,
        ..options()
    };
    record(
        &mut kernel,
        &mut Folder::default(),
        &mut [0; 8],
        &odd,
        |_, _| false,
    )
    .unwrap();
    assert_eq!(kernel.sleeps, [3000, 2000]);
}

/// P-42: after an error, everything is as it was.
#[test]
fn a_failed_recording_leaves_nothing_behind() {
    let steps = [
        Step::Start,
        Step::Read,
        Step::Stop,
        Step::Finish,
        Step::Priority,
    ];
    for step in steps {
        let mut kernel = Kernel {
            priority: 3,
            fails: Some(step),
            ..Kernel::default()
        };
        let done = record(
            &mut kernel,
            &mut Folder::default(),
            &mut [0; 100],
            &options(),
            |_, _| false,
        );
        assert_eq!(done, Err(Failed::Target(step, "refused")));
        assert_eq!((kernel.session, kernel.priority), (None, 3), "{step:?}");
    }
    for at in 1.. {
        let mut kernel = Kernel {
            priority: 3,
            ..Kernel::default()
        };
        let mut folder = Folder {
            fails_at: Some(at),
            ..Folder::default()
        };
        let done = record(
            &mut kernel,
            &mut folder,
            &mut [0; 1000],
            &options(),
            |_, _| false,
        );
        assert_eq!((kernel.session, kernel.priority), (None, 3), "call {at}");
        if done.is_ok() {
            assert!(at > 6);
            break;
        }
        assert_eq!(done, Err(Failed::Output("no space")));
        if at == 1 {
            assert_eq!(
                kernel,
                Kernel {
                    priority: 3,
                    ..Kernel::default()
                }
            );
        }
    }
}

/// P-42: a session that runs is not disturbed by who cannot start another.
#[test]
fn another_session_is_left_alone() {
    let mut kernel = Kernel {
        session: Some(true),
        ..Kernel::default()
    };
    let mut folder = Folder::default();
    let done = record(&mut kernel, &mut folder, &mut [0; 8], &options(), |_, _| {
        false
    });
    assert_eq!(done, Err(Failed::Target(Step::Start, "in progress")));
    assert_eq!(kernel.session, Some(true));
}

/// P-42: stop and gather, whoever has started.
#[test]
fn a_session_of_others_is_gathered() {
    for rolling in [false, true] {
        let mut kernel = Kernel {
            session: Some(true),
            rolling,
            ..Kernel::default()
        };
        kernel.sleep(10_000);
        let mut folder = Folder::default();
        gather(&mut kernel, &mut folder, &mut [0; 100]).unwrap();
        assert_eq!(folder.files, [10_000; 2]);
        assert_eq!(kernel.session, None);
        let none = gather(&mut kernel, &mut Folder::default(), &mut [0; 100]);
        assert_eq!(none, Err(Failed::Target(Step::Ask, "no session")));
    }
}

#[test]
fn a_session_that_cannot_be_kept_goes_on_and_can_be_gathered_again() {
    let mut kernel = Kernel {
        session: Some(true),
        ..Kernel::default()
    };
    kernel.sleep(1000);
    let before = kernel.clone();
    for at in 1..=2 {
        let mut folder = Folder {
            fails_at: Some(at),
            ..Folder::default()
        };
        let done = gather(&mut kernel, &mut folder, &mut [0; 100]);
        assert_eq!(done, Err(Failed::Output("no space")));
        assert_eq!(kernel, before);
    }
    let mut folder = Folder {
        fails_at: Some(5),
        ..Folder::default()
    };
    gather(&mut kernel, &mut folder, &mut [0; 100]).unwrap_err();
    assert_eq!(kernel.session, Some(false));
    let first = folder.files;
    let mut folder = Folder::default();
    gather(&mut kernel, &mut folder, &mut [0; 100]).unwrap();
    // The bytes of the failed write are gone.
    assert_eq!(first[0] + folder.files[0] + 100, 1000);
}

/// P-44: options, and what is wrong with them.
#[test]
fn options_are_parsed() {
    let parse = |line: &'static str| Options::parse(&mut line.split_whitespace());
    assert_eq!(parse(""), Ok((Options::DEFAULT, None)));
    let (options, rest) = parse("-t 10 -s 2 -b 4096 -p -3 -o traces/one subject").unwrap();
    assert_eq!(
        options,
        Options {
            duration_ms: Some(10),
            interval_ms: 2,
            buffer: 4096,
            priority: Some(-3),
            output: "traces/one",
        }
    );
    assert_eq!(rest, Some("subject"));
    for wrong in [
        "-t", "-t 0", "-t x", "-s -1", "-b 0", "-b 1k", "-p high", "-o",
    ] {
        assert_eq!(parse(wrong), Err(&wrong[..2]), "{wrong}");
    }
}
