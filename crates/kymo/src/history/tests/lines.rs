//! What a record looks like: names, texts, sequences, what is too long, and a sink that fails.

use super::*;
use crate::ring::layout::ChannelKind;

fn names<R: Reserve + 'static>() {
    CLOCK.set(123_456_789);
    let setting = Setting::<R>::new(2, Overflow::Overwrite, 1024, 4);
    assert!(setting.history.is_enabled());
    setting.record(
        1,
        ThreadName {
            tid: Tid(5),
            name: Text::new("old"),
        },
    );
    setting.record(
        0,
        ThreadName {
            tid: Tid(6),
            name: Text::new("other"),
        },
    );
    setting.record(
        0,
        ProcessName {
            pid: Pid(5),
            name: Text::new("shell"),
        },
    );
    setting.record(
        0,
        LockName {
            lock: Object(1 << 40 | 5),
            kind: LockKind::Mutex,
            name: Text::new("wrong"),
        },
    );
    setting.record(
        0,
        LockName {
            lock: Object(1 << 32 | 5),
            kind: LockKind::Mutex,
            name: Text::new("inode"),
        },
    );
    setting.record(
        0,
        IrqName {
            irq: Irq(300),
            name: Text::new("disk\x1b[2J"),
        },
    );
    setting.record(
        1,
        SyscallName {
            id: Syscall(5),
            name: Text::new("read"),
        },
    );
    setting.record(
        1,
        UserName {
            id: 5,
            name: Text::new("frame"),
        },
    );
    CLOCK.set(123_456_790);
    let state = ThreadState::Runnable;
    let name = Text::new("a thread whose name has more bytes than any name of the vocabulary has");
    setting.record(
        0,
        ThreadStateDump {
            tid: Tid(5),
            pid: Pid(5),
            prio: 3,
            state,
            cpu: Cpu(0),
            name,
        },
    );
    setting.history.clear();
    CLOCK.set(123_456_799);
    let (prev_state, reason) = (ThreadState::Blocked, SwitchReason::Waits);
    setting.record(
        0,
        SchedSwitch {
            prev_tid: Tid(5),
            next_tid: Tid(7),
            prev_state,
            reason,
            next_prio: -2,
        },
    );
    setting.record(
        0,
        LockWait {
            lock: Object(1 << 32 | 5),
            owner_tid: Tid(6),
            kind: LockKind::Mutex,
        },
    );
    setting.record(0, IrqEnter { irq: Irq(300) });
    setting.record(
        1,
        SyscallEnter {
            id: Syscall(5),
            arg0: 5,
        },
    );
    setting.record(1, SpanBegin { id: 5 });
    setting.record(
        1,
        ThreadExit {
            tid: Tid(6),
            pid: Pid(5),
            prev_state,
        },
    );
    setting.record(
        1,
        Note {
            seq: 65535,
            small: -128,
            sure: false,
            text: Text::new("\"q\" \\ \n\u{7f}\u{85}\u{e9}"),
        },
    );
    setting.record(
        1,
        ThreadName {
            tid: Tid(6),
            name: Text::new("newer"),
        },
    );
    let expected = "\
kymo: 8 retained, 0 overwritten, 0 discarded
   12.3456799 cpu0 [5 a thread whose name has more bytes than any name of the vocabula...] sched_switch prev_tid=5 (a thread whose name has more bytes than any name of the vocabula...) next_tid=7 prev_state=Blocked reason=Waits next_prio=-2
   12.3456799 cpu0 [7] lock_wait lock=0x100000005 (inode) owner_tid=6 (newer) kind=Mutex
   12.3456799 cpu0 [7] irq_handler_entry irq=300 (disk\\u{1b}[2J)
   12.3456799 cpu1 sys_enter id=5 (read) arg0=5
   12.3456799 cpu1 span_begin id=5 (frame)
   12.3456799 cpu1 thread_exit tid=6 (newer) pid=5 (shell) prev_state=Blocked
   12.3456799 cpu1 note seq=65535 small=-128 sure=false text=\"\\\"q\\\" \\\\ \\n\\u{7f}\\u{85}\u{e9}\"
   12.3456799 cpu1 thread_name tid=6 name=\"newer\"
";
    assert_eq!(setting.dump(100), expected);
    setting.session.stop().unwrap();
    assert!(!setting.history.is_enabled());
    let end = "   12.3456799 cpu1 kymo_session_end recorded=17 reused=0 discarded=0 too_large=0 clock_back=0 abandoned=0 without_ring=0\n";
    let expected = expected.replacen('8', "9", 1) + end;
    assert_eq!(setting.dump(100), expected, "the rings keep what they hold");
}

#[test]
fn names_are_looked_up_and_texts_are_escaped() {
    names::<LocalCas>();
    names::<OneAtATime>();
}

/// L-01, L-03: a line says which thread ran: by the switch before it, else by the one behind it,
/// and not at all where a switch may have been dropped in between.
#[test]
fn a_line_says_which_thread_ran() {
    fn switch(prev: u32, next: u32) -> SchedSwitch {
        SchedSwitch {
            prev_tid: Tid(prev),
            next_tid: Tid(next),
            prev_state: ThreadState::Blocked,
            reason: SwitchReason::Waits,
            next_prio: 0,
        }
    }
    fn threads(setting: &Setting<impl Reserve + 'static>) -> Vec<String> {
        let who = |line: &String| {
            let (_, line) = line.split_once(" cpu").unwrap();
            line.split_once(" seq=").unwrap().0.to_owned()
        };
        let lines = setting.lines(usize::MAX);
        let shorts = lines.iter().filter(|line| line.contains(" short "));
        shorts.map(who).collect()
    }
    fn follows<R: Reserve + 'static>() {
        CLOCK.set(0);
        let setting = Setting::<R>::new(2, Overflow::Overwrite, 256, 8);
        let name = Text::new("init");
        setting.record(1, ThreadName { tid: Tid(3), name });
        setting.short(0, 1);
        setting.record(0, switch(3, 4));
        setting.short(0, 2);
        setting.short(1, 3);
        // Several packets without a switch.
        (4..40).for_each(|seq| setting.short(0, seq));
        setting.record(0, switch(4, 3));
        setting.short(0, 40);
        let mut expected = vec!["0 [3 init] short"];
        expected.extend(["0 [4] short"; 37]);
        expected.extend(["0 [3 init] short", "1 short"]);
        let mut found = threads(&setting);
        found.sort_by_key(|line| line.starts_with('1'));
        assert_eq!(found, expected);
        // The switch to thread 3 is overwritten by as many records as fill the ring.
        (0..200).for_each(|seq| setting.short(0, seq));
        assert!(
            threads(&setting)
                .iter()
                .all(|who| !who.contains('[') && who.contains("short"))
        );
        setting.record(0, switch(5, 6));
        assert!(threads(&setting).contains(&"0 [5] short".to_owned()));
    }
    follows::<LocalCas>();
    follows::<OneAtATime>();

    // A full ring drops a switch.
    CLOCK.set(0);
    let setting = Setting::<OneAtATime>::new(1, Overflow::Discard, 256, 8);
    (0..20).for_each(|seq| setting.short(0, seq));
    setting.record(0, switch(3, 4));
    while setting.history.counts().discarded == 0 {
        setting.short(0, 1);
    }
    setting.record(0, switch(4, 5));
    let live = setting.session.live();
    let region = Region::open(&live).unwrap();
    let mut reader = region.channel(&live, 0, ChannelKind::Events).unwrap();
    let mut scratch = vec![0; reader.scratch_words()];
    let mut batch = reader
        .read(&live, View::Live, &mut scratch)
        .unwrap()
        .unwrap();
    while batch.next_record(&VOCABULARY).is_some() {}
    reader.release(&live).unwrap();
    setting.short(0, 2);
    let found = threads(&setting);
    let (last, before) = found.split_last().unwrap();
    assert_eq!(last, "0 short", "thread 5 or another one");
    let earlier = before
        .iter()
        .take_while(|who| *who == "0 [3] short")
        .count();
    let later = before[earlier..].iter().all(|who| who == "0 [4] short");
    assert!(earlier > 0 && later, "{before:?}");
}

/// V-07: the newest of each CPU, however busy another one is.
#[test]
fn a_busy_cpu_hides_no_other() {
    CLOCK.set(0);
    let setting = Setting::<OneAtATime>::new(3, Overflow::Overwrite, 1024, 4);
    setting.short(2, 1);
    (2..100).for_each(|seq| setting.short(0, seq));
    let mut out = String::new();
    setting.history.dump_per_cpu(&mut out, 2).unwrap();
    let shown: Vec<_> = out
        .lines()
        .filter_map(|line| line.split_once(" cpu"))
        .collect();
    let shown = shown
        .iter()
        .map(|(_, rest)| rest.split(" check").next().unwrap());
    assert_eq!(
        shown.collect::<Vec<_>>(),
        ["0 short seq=98", "0 short seq=99", "2 short seq=1"]
    );
}

/// Events of which only the size is known: that of the region's table.
struct Nameless<'a>(&'a Region, &'a crate::ring::source::Live);

impl crate::ring::reader::Shapes for Nameless<'_> {
    fn shape(&self, id: u32) -> Option<crate::event::Shape> {
        self.0.shapes(self.1).shape(id)
    }
}

impl Known for Nameless<'_> {
    fn event(&self, id: u32) -> Option<KnownEvent> {
        Known::event(&VOCABULARY, id).filter(|_| id != Short::ID)
    }

    fn field(&self, id: u32, index: usize) -> Option<KnownField> {
        Known::field(&VOCABULARY, id, index)
    }
}

#[test]
fn an_event_without_a_name_hides_none_behind_it() {
    let setting = Setting::<OneAtATime>::new(1, Overflow::Discard, 1024, 4);
    setting.short(0, 1);
    setting.record(0, Told { seq: 2 });
    setting.short(0, 3);
    setting.record(0, ThreadYield { tid: Tid(4) });
    let source = setting.session.live();
    let region = Region::open(&source).unwrap();
    let reading = Reading {
        source: &source,
        known: &Nameless(&region, &source),
        mark: &Mark::new(),
    };
    let mut lines = String::new();
    let mut put = |text: &str| lines.write_str(text);
    let mut out = Out::new(&mut put);
    reading.dump(&mut out, 10, Rows::One).unwrap();
    let lines = lines.lines().skip(1);
    let events: Vec<&str> = lines
        .filter_map(|line| Some(line.split_once("cpu0 ")?.1))
        .collect();
    let expected = [
        "event 21 (8 bytes)",
        "told seq=2",
        "event 21 (8 bytes)",
        "thread_yield tid=4",
    ];
    assert_eq!(events.len(), 4);
    for event in expected {
        assert!(events.contains(&event), "{events:?}");
    }
}

#[test]
fn a_record_longer_than_the_buffer_is_shown_cut() {
    let setting = Setting::<OneAtATime>::with(1, Overflow::Overwrite, 4096, 4, &WITH_BIG);
    setting.record(
        0,
        Big {
            seq: 1,
            data: [7; 200],
        },
    );
    setting.short(0, 2);
    let lines = setting.lines(9);
    assert!(
        lines[0].contains(" big seq=1 data=[7, 7, 7") && lines[0].ends_with(", ... (404 bytes)"),
        "{}",
        lines[0]
    );
    assert_eq!(lines[0].matches("7, ").count(), 4 * (line::WORDS - 1) / 2);
    assert!(lines[1].contains("short seq=2"));
    // A caller with a small buffer gets the beginning.
    let mut two = [0; 2];
    let entry = setting.history.get(0, &mut two).unwrap();
    assert_eq!((entry.bytes, two), (404, [1, 7 | 7 << 16]));
}

#[test]
fn sequences_are_shown() {
    let setting = Setting::<OneAtATime>::with(1, Overflow::Overwrite, 4096, 4, &WITH_BIG);
    let many = |small: &[u8], ids: &[i64], states: &[bool]| Many {
        seq: 1,
        small: Sequence::new(small),
        name: Text::new("n"),
        ids: Sequence::new(ids),
        states: Sequence::new(states),
    };
    setting.record(0, many(&[1, 2, 3, 4, 5], &[-1, i64::MAX, 3], &[true]));
    setting.record(0, many(&[], &[], &[]));
    setting.record(0, many(&[1], &[-5], &[false; 100]));
    let lines = setting.lines(9);
    let ends = [
        " many seq=1 small=[1, 2, 3, 4, 5] name=\"n\" ids=[-1, 9223372036854775807]... \
         states=[true]",
        " many seq=1 small=[] name=\"n\" ids=[] states=[]",
    ];
    assert!(
        lines
            .iter()
            .zip(ends)
            .all(|(line, end)| line.ends_with(end)),
        "{lines:?}"
    );
    assert!(
        lines[2].contains(" small=[1] name=\"n\" ids=[-5] states=[false, false")
            && lines[2].ends_with("false]"),
        "{}",
        lines[2]
    );
}

struct Full(usize);
impl Write for Full {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[test]
fn a_sink_that_fails_ends_the_dump() {
    CLOCK.set(0);
    let setting = Setting::<OneAtATime>::new(2, Overflow::Overwrite, 256, 4);
    setting.record(
        0,
        ThreadName {
            tid: Tid(5),
            name: Text::new("worker"),
        },
    );
    setting.mixed(2, 0..300);
    setting.record(0, ThreadSuspend { tid: Tid(5) });
    let len = setting.dump(usize::MAX).len();
    for room in 0..len {
        assert_eq!(
            setting.history.dump(&mut Full(room), usize::MAX),
            Err(fmt::Error),
            "{room} of {len}"
        );
    }
    assert_eq!(setting.history.dump(&mut Full(len), usize::MAX), Ok(()));
    assert_eq!(
        setting.history.dump_on_panic(&mut Full(70), 0, 9),
        Err(fmt::Error)
    );
}
