//! Tests `kymo flame` on traces with known samples and waits.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::run::{kymo, printed};
use kymo::event::Event;
use kymo::vocabulary::{
    Address, ChainEnd, Cpu, CpuMode, EventStack, LockAcquired, LockKind, LockReleased, Object,
    PageFault, Pid, ProcessExec, Sample, SchedSwitch, SwitchReason, ThreadName, ThreadState,
    ThreadStateDump, Tid,
};
use kymo::{ChannelKind, Sequence, Text};
use kymo_made::{MS, Made, US};
use kymo_symbols::CodeMap;

/// This test's own program stands for the kernel.
fn elf() -> PathBuf {
    std::env::current_exe().unwrap()
}

// They call nothing that could be inlined into them.
#[inline(never)]
fn outermost_function(number: u64) -> u64 {
    innermost_function(number) ^ 1
}

#[inline(never)]
fn innermost_function(number: u64) -> u64 {
    number ^ 2
}

/// First address and length of one of this test's functions, as linked.
pub(crate) fn function(name: &str) -> (u64, u64) {
    let map = CodeMap::parse(&std::fs::read(elf()).unwrap()).unwrap();
    let mut symbols = map.symbols.iter();
    let symbol = symbols.find(|symbol| symbol.name.ends_with(name)).unwrap();
    (symbol.range.start, symbol.range.end - symbol.range.start)
}

/// Where the test's program was loaded as a kernel.
pub(crate) const BASE: u64 = 0xffff_ffff_8000_0000;

pub(crate) fn sample(tid: u32, callers: &[u64], ip: u64) -> Sample {
    let callers: Vec<Address> = callers.iter().copied().map(Address).collect();
    Sample {
        ip: Address(ip),
        tid: Tid(tid),
        period: 100_000,
        missed: 0,
        mode: CpuMode::Kernel,
        kernel_callers: callers.len() as u8,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Absent,
        callchain: Sequence::new(&callers),
    }
}

/// 30 samples of thread 5 in `innermost_function`, called by `outermost_function`; 10 of thread 6
/// in the latter; 4 of a CPU without work; 3 missed, 2 lost.
pub(crate) fn made(name: &str) -> Made {
    let outermost: fn(u64) -> u64 = std::hint::black_box(outermost_function);
    assert_eq!(outermost(4), 7);
    let (outermost, len) = function("::outermost_function");
    let (innermost, _) = function("::innermost_function");
    let mut made = Made::with_samples(name);
    for (tid, name) in [(5, "reader"), (6, "writer")] {
        let name = Text::from(name);
        made.event(
            0,
            0,
            ThreadName {
                tid: Tid(tid),
                name,
            },
        );
    }
    // The last address of the caller: behind a call that does not return, as in a tail.
    let caller = BASE + outermost + len;
    for round in 0..30 {
        made.event(
            0,
            MS + round * 100 * US,
            sample(5, &[caller], BASE + innermost),
        );
    }
    for round in 0..10 {
        made.event(1, MS + round * 100 * US, sample(6, &[], BASE + outermost));
    }
    for round in 0..4 {
        let idle = Sample {
            mode: CpuMode::Idle,
            missed: if round == 0 { 3 } else { 0 },
            ..sample(0, &[], BASE)
        };
        made.event(2, MS + round * 100 * US, idle);
    }
    made.lose_of(ChannelKind::Samples, 2, 2, 9 * MS);
    made
}

pub(crate) fn kernel() -> String {
    format!("--kernel={}@{BASE:#x}", elf().display())
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn stacks_have_names_and_everything_is_accounted_for() {
    let mut made = made("flame-stacks");
    let trace = made.finish();
    let output = kymo(&["flame", "--format=folded", &kernel()], trace);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(
        text,
        "it::flame::outermost_function 10\nit::flame::outermost_function;it::flame::innermost_function 30\n"
    );
    assert_eq!(output.status.code(), Some(0));
    let messages = errors(&output);
    let lines: Vec<&str> = messages.lines().collect();
    assert_eq!(
        lines,
        [
            "kymo: 40 samples kept.",
            "kymo: 4 samples of idle CPUs left out (--include-idle keeps them).",
            "kymo: 3 missed, 6.4 % of those due: the CPU could not be interrupted when they were due; \
             a lower rate, or samples by NMI, miss fewer.",
            "kymo: 2 lost: the trace had no room.",
        ]
    );
    let folded = |more: &[&str]| {
        let kernel = kernel();
        let all = ["flame", "--format=folded", &kernel];
        printed(&[&all, more].concat(), trace).1
    };
    assert_eq!(
        folded(&["--by=thread"]),
        "reader (5);it::flame::outermost_function;it::flame::innermost_function 30\n\
         writer (6);it::flame::outermost_function 10\n"
    );
    assert_eq!(
        folded(&["--thread=writer"]),
        "it::flame::outermost_function 10\n"
    );
    assert_eq!(folded(&["--cpu=1"]), "it::flame::outermost_function 10\n");
    let first_ten = folded(&["--to=1.9ms", "--cpu=0"]);
    assert_eq!(
        first_ten,
        "it::flame::outermost_function;it::flame::innermost_function 10\n"
    );
    assert!(folded(&["--include-idle"]).contains(
        " 4
"
    ));
}

#[test]
fn the_report_counts_the_samples_of_each_thread() {
    let mut made = made("flame-report");
    let user = Sample {
        mode: CpuMode::User,
        ..sample(5, &[], 0x1000)
    };
    made.event(0, 8 * MS, user);
    let unknown = Sample {
        tid: Tid::UNKNOWN,
        ..user
    };
    made.event(3, 8 * MS, unknown);
    let trace = made.finish();
    let text = printed(&["report"], trace).1;
    // Samples show how fine the clock is, as events do.
    assert!(text.contains("at least 100,000 ticks apart"), "{text}");
    let (_, table) = text.split_once("\nSamples: ").unwrap();
    let (table, _) = table.split_once("\nWorst cases\n").unwrap();
    assert_eq!(
        table,
        "46; 3 missed, 6.1 % of those due: the CPU could not be interrupted when they were due; a \
         lower rate, or samples by NMI, miss fewer. kymo hot and kymo flame show the functions.\n\n\
         thread       samples  of busy CPUs  in a program  in the kernel\n\
         reader (5)        31         73.8%             1             30\n\
         writer (6)        10         23.8%             0             10\n\
         unknown            1\n\
         (idle CPUs)        4\n"
    );
}

#[test]
fn the_graph_has_the_kept_samples_at_its_root() {
    let mut made = made("flame-svg");
    let trace = made.finish().to_owned();
    let out = std::env::temp_dir().join(format!("kymo-flame-{}.svg", std::process::id()));
    let file = out.display().to_string();
    let output = kymo(&["flame", &kernel(), "-o", &file], &trace);
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let svg = std::fs::read_to_string(&out).unwrap();
    for text in [
        "<title>all (40 samples, 100%)</title>",
        "<title>it::flame::innermost_function (30 samples, 75.00%)</title>",
        "40 samples kept; 4 idle left out; 3 missed (6.4 %); 2 lost",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    // Twice the same.
    let (code, again) = printed(&["flame", &kernel(), "-o", "-"], &trace);
    assert_eq!((code, again == svg), (Some(0), true));
    std::fs::remove_file(&out).unwrap();

    let inside = trace.join("out.svg").display().to_string();
    let output = kymo(&["flame", "-o", &inside], &trace);
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
}

/// Without an image there are addresses, and a sentence that says what to do.
#[test]
fn a_missing_image_is_named() {
    let mut made = Made::with_samples("flame-images");
    let exec = ProcessExec {
        pid: Pid(5),
        tid: Tid(5),
        filename: Text::from("/bin/worker"),
    };
    let (begin, _) = function("::innermost_function");
    made.event(0, US, exec);
    let user = Sample {
        mode: CpuMode::User,
        kernel_end: ChainEnd::Absent,
        user_end: ChainEnd::Complete,
        ..sample(5, &[], begin)
    };
    made.event(0, 2 * US, user);
    let trace = made.finish();
    let folded = |more: &[&str]| kymo(&[&["flame", "--format=folded"], more].concat(), trace);
    let output = folded(&[]);
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        format!("{begin:#x} 1\n")
    );
    assert!(
        errors(&output).contains("functions of 1 program (/bin/worker) are shown as addresses")
    );
    let named = "it::flame::innermost_function 1\n";
    let elf = elf().display().to_string();
    for option in [
        format!("--image={elf}"),
        format!("--image=/bin/worker={elf}"),
    ] {
        let output = folded(&[&option]);
        assert_eq!(String::from_utf8(output.stdout).unwrap(), named, "{option}");
    }
    let directory = trace.with_extension("images");
    std::fs::create_dir_all(directory.join("bin")).unwrap();
    std::fs::copy(&elf, directory.join("bin/worker")).unwrap();
    let output = folded(&["--images", &directory.display().to_string()]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), named);
    std::fs::remove_dir_all(&directory).unwrap();

    let output = folded(&["--image=/no/such/file"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(errors(&output).contains("cannot read /no/such/file"));
}

/// A process notes which files it has loaded, and where: each address is looked up in the file that
/// holds it, and files of other processes do not matter.
#[test]
fn functions_of_libraries_are_found_where_they_were_loaded() {
    const PROGRAM: u64 = 0x5500_0000_0000;
    const LIBRARY: u64 = 0x7f00_0000_0000;
    let (outermost, _) = function("::outermost_function");
    let (innermost, _) = function("::innermost_function");
    let mut made = Made::with_samples("flame-libraries");
    let thread = ThreadStateDump {
        tid: Tid(5),
        pid: Pid(3),
        prio: 0,
        state: ThreadState::Runnable,
        cpu: Cpu::UNKNOWN,
        name: Text::from("worker"),
    };
    made.event(0, US, thread);
    let callers = [PROGRAM + outermost + 1, 0x1234];
    let user = Sample {
        mode: CpuMode::User,
        kernel_callers: 0,
        kernel_end: ChainEnd::Absent,
        user_end: ChainEnd::Complete,
        ..sample(5, &callers, LIBRARY + innermost)
    };
    made.event(0, 2 * US, user);
    let trace = made.finish();
    let bytes = std::fs::read(elf()).unwrap();
    let image = kymo_symbols::Image::parse(&bytes).unwrap();
    let file = |process: u32, bias: u64| {
        let path = elf().display().to_string();
        let base = bias + image.base();
        format!(r#"{{"process":{process},"name":"{path}","file":"{path}","base":{base}}}"#)
    };
    let files = [file(4, PROGRAM + 1), file(3, PROGRAM), file(3, LIBRARY)].join(",");
    let note = format!(r#"{{"images":[{files}]}}"#);
    std::fs::write(trace.join(".kymo-images"), &note).unwrap();
    let output = kymo(&["flame", "--format=folded"], trace);
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        "0x1233;it::flame::outermost_function;it::flame::innermost_function 1\n",
        "{}",
        errors(&output)
    );
    assert!(!errors(&output).contains("shown as addresses"));

    // On another machine the files are elsewhere; where they were loaded, the note still says.
    let (folder, name) = (elf(), elf());
    let (folder, name) = (folder.parent().unwrap(), name.file_name().unwrap());
    let moved = |text: &str| {
        text.replace(
            &elf().display().to_string(),
            &format!("/no/{}", name.display()),
        )
    };
    std::fs::write(trace.join(".kymo-images"), moved(&note)).unwrap();
    let images = format!("--images={}", folder.display());
    let image = format!("--image=/no/{}={}", name.display(), elf().display());
    for option in [images, image] {
        assert_eq!(
            printed(&["flame", "--format=folded", &option], trace).1,
            "0x1233;it::flame::outermost_function;it::flame::innermost_function 1\n",
            "{option}"
        );
    }

    let missing = r#"{"images":[{"process":3,"name":"/no/file","file":"/no/file","base":0}]}"#;
    std::fs::write(trace.join(".kymo-images"), missing).unwrap();
    let output = kymo(&["flame"], trace);
    let gone = "/no/file was recorded, and cannot be read now";
    assert_eq!(errors(&output).matches(gone).count(), 1);
}

/// The note of the recording names the kernel; another build of it is a warning.
#[test]
fn the_recorded_kernel_is_found_and_compared() {
    let mut made = made("flame-note");
    let trace = made.finish();
    let note = |build_id: &str| {
        let text = format!(
            r#"{{"images":[{{"name":"kernel","file":"{}","base":{BASE},"build_id":{build_id}}}]}}"#,
            elf().display()
        );
        std::fs::write(trace.join(".kymo-images"), text).unwrap();
        kymo(&["flame", "--format=folded"], trace)
    };
    let output = note("null");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        text.contains("it::flame::innermost_function 30\n"),
        "{text}"
    );
    assert!(!errors(&output).contains("build id"));
    let bytes = std::fs::read(elf()).unwrap();
    if kymo_symbols::Image::parse(&bytes)
        .unwrap()
        .build_id()
        .is_some()
    {
        assert!(errors(&note("\"00\"")).contains("is not what was recorded: its build id is"));
    }
    std::fs::remove_file(trace.join(".kymo-images")).unwrap();
    assert!(errors(&kymo(&["flame"], trace)).contains("give the kernel with --kernel ELF"));
}

#[test]
fn blocked_time_and_locks_are_drawn_in_nanoseconds() {
    let mut made = Made::with_samples("flame-waits");
    let name = Text::from("worker");
    made.event(0, 0, ThreadName { tid: Tid(5), name });
    made.switch(0, 0, (0, ThreadState::Runnable, SwitchReason::Idle), (5, 0));
    made.switch(
        0,
        MS,
        (5, ThreadState::Sleeping, SwitchReason::Waits),
        (0, 0),
    );
    made.switch(
        0,
        3 * MS,
        (0, ThreadState::Runnable, SwitchReason::Idle),
        (5, 0),
    );
    let trace = made.finish();
    let output = kymo(&["flame", "--off-cpu", "--format=folded"], trace);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(text, "worker (5);asleep 2000000\n");
    assert_eq!(errors(&output), "kymo: 2.000 ms in 1 wait.\n");
    let (code, svg) = printed(&["flame", "--off-cpu"], trace);
    assert_eq!(code, Some(0));
    assert!(svg.contains("<title>asleep (2,000,000 ns, 100.00%)</title>"));
    let output = kymo(&["flame", "--locks"], trace);
    assert_eq!(output.status.code(), Some(3));
    let message = errors(&output);
    assert!(
        message.contains("has no events of locks; record the events lock_*"),
        "{message}"
    );
}

/// The message counts threads that wait all the time, and the graph leaves them out.
#[test]
fn threads_that_wait_throughout_are_told() {
    let mut made = Made::new("flame-throughout");
    let idle = (0, ThreadState::Runnable, SwitchReason::Idle);
    let sleeps = |tid| (tid, ThreadState::Sleeping, SwitchReason::Waits);
    for (tid, begin) in [(5, 1), (6, 2), (7, 30)] {
        made.switch(0, begin * MS, idle, (tid, 0));
        made.switch(0, begin * MS + US, sleeps(tid), (0, 0));
    }
    made.event(0, 60 * MS, kymo::vocabulary::Mark { id: 1, value: 0 });
    let trace = made.finish();
    let output = kymo(&["flame", "--off-cpu"], trace);
    let message = errors(&output);
    assert!(
        message.contains("2 threads that waited all the time are left out"),
        "{message}"
    );
    let svg = String::from_utf8(output.stdout).unwrap();
    assert!(svg.contains("truncate_text_right = true"));
    assert!(svg.contains("thread (7)") && !svg.contains("thread (5)"));
}

/// What is recorded is not asked for: nobody had to wait.
#[test]
fn a_trace_without_waits_says_what_it_has() {
    let mut made = Made::new("flame-no-waits");
    let (lock, kind, contended) = (Object(7), LockKind::Mutex, false);
    let idle = (0, ThreadState::Runnable, SwitchReason::Idle);
    made.switch(0, 0, idle, (5, 0));
    let acquired = LockAcquired {
        lock,
        kind,
        contended,
    };
    made.event(0, MS, acquired);
    made.event(0, 2 * MS, LockReleased { lock, kind });
    let trace = made.finish();
    for (option, sentence) in [
        ("--locks", "which has 2 events of locks"),
        ("--off-cpu", "which has 1 switch"),
    ] {
        let message = errors(&kymo(&["flame", option], trace));
        assert!(message.contains(sentence), "{message}");
        assert!(!message.contains("record the events"), "{message}");
    }
}

#[test]
fn a_difference_names_before_and_after() {
    let (mut before, mut after) = (made("flame-before"), made("flame-after"));
    let (innermost, _) = function("::innermost_function");
    for round in 0..40 {
        after.event(3, MS + round * 100 * US, sample(5, &[], BASE + innermost));
    }
    let (before, after) = (before.finish(), after.finish());
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["flame", &kernel(), "--diff"])
        .args([before, after])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let svg = String::from_utf8(output.stdout.clone()).unwrap();
    // 10 of 40 were 20 of 80, and are 10.
    for text in [
        "<title>all (80 samples, 100%)</title>",
        "<title>it::flame::innermost_function (40 samples, 50.00%; +50.00%)</title>",
        "width: after (",
        "red: more than before (",
    ] {
        assert!(svg.contains(text), "{text} is not in {svg}");
    }
    let messages = errors(&output);
    assert!(messages.contains("kymo: before, ") && messages.contains("kymo: after, "));
}

/// Who is at an event, with `record --stacks EVENT`.
#[test]
fn chains_of_an_event_are_drawn() {
    let mut made = Made::with_samples("flame-event");
    let stack = |event, ip| EventStack {
        event,
        ip: Address(BASE + ip + 1),
        tid: Tid(5),
        kernel_callers: 0,
        kernel_end: ChainEnd::Complete,
        user_end: ChainEnd::Absent,
        callchain: Sequence::new(&[]),
    };
    let (outermost, _) = function("::outermost_function");
    let (innermost, _) = function("::innermost_function");
    made.event(0, US, stack(PageFault::ID, outermost));
    made.event(0, 2 * US, stack(SchedSwitch::ID, innermost));
    let trace = made.finish();
    let folded = |event: &str| printed(&["flame", "--format=folded", &kernel(), event], trace).1;
    assert_eq!(
        folded("--event=page_fault"),
        "it::flame::outermost_function 1\n"
    );
    assert_eq!(
        folded("--event=sched_*"),
        "it::flame::innermost_function 1\n"
    );
}

/// `kymo hot`: 30 of 40 samples are in the innermost function, all 40 in or below the outermost.
#[test]
fn shares_of_functions_and_lines_have_an_interval() {
    let mut made = made("flame-hot");
    let trace = made.finish();
    let (code, text) = printed(&["hot", &kernel()], trace);
    assert_eq!(code, Some(0));
    assert_eq!(
        text,
        "  self  95 %            total    samples  function\n \
         75.0%  59.8-85.8%      75.0%         30  it::flame::innermost_function\n \
         25.0%  14.2-40.2%     100.0%         10  it::flame::outermost_function\n"
    );
    let (_, lines) = printed(&["hot", "--by=line", &kernel()], trace);
    let hottest = lines.lines().nth(1).unwrap();
    assert!(hottest.contains("tests/it/flame.rs:"), "{lines}");
    assert!(
        hottest.contains("  it::flame::innermost_function  | fn innermost_function("),
        "{lines}"
    );
    let (_, json) = printed(&["hot", "--json", "--thread=writer", &kernel()], trace);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["samples"], 10);
    assert_eq!(
        json["places"][0]["function"],
        "it::flame::outermost_function"
    );
    assert_eq!(json["places"][0]["self"]["share"], 1.0);
    let (_, first) = printed(&["hot", "--top=1", &kernel()], trace);
    assert!(
        first.ends_with("... 1 more; --top prints them\n"),
        "{first}"
    );
}

/// Its additions and its iterator are functions of Rust's library.
#[inline(never)]
fn function_with_iterator(numbers: &[u64]) -> u64 {
    numbers
        .iter()
        .fold(0u64, |sum, number| sum.rotate_left(3).wrapping_add(*number))
}

/// An inlined function of a library counts for the function of the program, in every format.
#[test]
fn inlined_functions_of_libraries_count_for_the_programs_own() {
    let used: fn(&[u64]) -> u64 = std::hint::black_box(function_with_iterator);
    assert_eq!(used(&[1, 2]), 10);
    let (begin, len) = function("::function_with_iterator");
    let mut made = Made::with_samples("flame-inlined");
    for offset in 0..len {
        made.event(0, (1 + offset) * US, sample(5, &[], BASE + begin + offset));
    }
    let trace = made.finish();
    let of_library = ["wrapping_add", "fold<u64", "rotate_left"];
    let (_, all) = printed(&["hot", "--inlined=all", &kernel()], trace);
    assert!(of_library.iter().all(|name| all.contains(name)), "{all}");
    let (_, text) = printed(&["hot", &kernel()], trace);
    let shares: f64 = text
        .lines()
        .filter(|line| line.contains("function_with_iterator") || line.contains("{closure"))
        .map(|line| {
            line.split('%')
                .next()
                .unwrap()
                .trim()
                .parse::<f64>()
                .unwrap()
        })
        .sum();
    assert!((99.5..=100.5).contains(&shares), "{text}");
    for format in ["folded", "perf-script", "firefox"] {
        let format = format!("--format={format}");
        let (_, own) = printed(&["flame", &format, &kernel()], trace);
        assert!(own.contains("function_with_iterator"), "{format}");
        let library = of_library.iter().find(|name| own.contains(*name));
        assert_eq!(library, None, "{format}: {own}");
    }
}

#[test]
fn nothing_to_draw_is_an_error_that_says_what_to_record() {
    let mut made = Made::new("flame-nothing");
    made.switch(0, 0, (0, ThreadState::Runnable, SwitchReason::Idle), (5, 0));
    let fails = |arguments: &[&str], trace: &Path, code, sentence: &str| {
        let output = kymo(&[&["flame"], arguments].concat(), trace);
        assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
        assert!(errors(&output).contains(sentence), "{}", errors(&output));
        assert!(output.stdout.is_empty());
    };
    fails(
        &[],
        made.finish(),
        3,
        " has no samples and no events with call chains",
    );
    let mut idle = Made::with_samples("flame-idle");
    let of = |mode| Sample {
        mode,
        ..sample(0, &[], BASE)
    };
    idle.event(0, 1, of(CpuMode::Idle));
    let trace = idle.finish();
    fails(
        &[],
        trace,
        2,
        " has only samples of idle CPUs; --include-idle keeps them",
    );
    fails(&["--cpu=7"], trace, 2, "the trace has no event from CPU 7");
    fails(&["--event=sched_switch"], trace, 3, "--stacks EVENT");
    assert_eq!(
        kymo(&["flame", "--include-idle"], trace).status.code(),
        Some(0)
    );
}

#[test]
fn every_format_has_the_kept_samples() {
    let mut made = made("flame-formats");
    let trace = made.finish();
    let written = |format: &str| {
        let output = kymo(&["flame", &kernel(), "--format", format, "-o", "-"], trace);
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        output.stdout
    };
    let script = String::from_utf8(written("perf-script")).unwrap();
    let first = "reader 0/5 [000] 0.001000000: samples:\n";
    assert!(script.starts_with(first), "{script}");
    let paragraph = |name| script.matches(&format!("\n\n{name} ")).count();
    assert_eq!((paragraph("reader"), paragraph("writer")), (29, 10));
    let stack = " it::flame::innermost_function+0x0 ([kernel])\n\tffffffff";
    assert!(script.contains(stack), "{script}");
    let json = |format| -> serde_json::Value { serde_json::from_slice(&written(format)).unwrap() };
    let samples = |list: &serde_json::Value, of: &str| -> Vec<usize> {
        let threads = list.as_array().unwrap().iter();
        threads
            .map(|thread| match &thread[of] {
                serde_json::Value::Array(samples) => samples.len(),
                samples => samples["length"].as_u64().unwrap() as usize,
            })
            .collect()
    };
    let speedscope = json("speedscope");
    assert_eq!(samples(&speedscope["profiles"], "samples"), [30, 10]);
    assert_eq!(speedscope["profiles"][0]["unit"], "nanoseconds");
    assert_eq!(speedscope["profiles"][0]["endValue"], 30 * 100_000);
    let firefox = json("firefox");
    let mut of_threads = samples(&firefox["threads"], "samples");
    of_threads.sort_unstable();
    of_threads.retain(|&samples| samples > 0);
    assert_eq!(of_threads, [10, 30]);
    assert!(written("pprof").starts_with(b"\x1f\x8b"));
    let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["flame", "--format=pprof", "--diff"])
        .args([trace, trace])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("--diff writes only svg or folded; choose"));
}

/// Samples are in the timeline of the events, by the functions of the kernel.
#[test]
fn timelines_have_the_samples() {
    let mut made = made("flame-timelines");
    let trace = made.finish();
    let exported = |to: &str| {
        let out = std::env::temp_dir().join(format!("kymo-timeline-{}-{to}", std::process::id()));
        let output = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(["export", trace.to_str().unwrap(), out.to_str().unwrap()])
            .args(["--to", to, &kernel()])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
        let bytes = std::fs::read(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        bytes
    };
    let chrome: serde_json::Value = serde_json::from_slice(&exported("chrome")).unwrap();
    let samples = chrome["samples"].as_array().unwrap();
    // Idle CPUs have their samples, too.
    assert_eq!(samples.len(), 44);
    let name = |sample: &serde_json::Value| {
        let frame = sample["sf"].as_str().unwrap();
        chrome["stackFrames"][frame]["name"].clone()
    };
    let innermost = samples
        .iter()
        .filter(|sample| name(sample) == "it::flame::innermost_function");
    assert_eq!(innermost.count(), 30);
    let perfetto = exported("perfetto");
    let name = b"it::flame::innermost_function";
    assert!(perfetto.windows(name.len()).any(|part| part == name));
}

/// A program's own start is no frame that failed a check.
#[test]
fn chains_that_may_lack_callers_are_told() {
    let mut made = Made::with_samples("flame-start");
    let user = Sample {
        mode: CpuMode::User,
        kernel_callers: 0,
        kernel_end: ChainEnd::Absent,
        user_end: ChainEnd::NotCode,
        ..sample(5, &[0x4000], 0x4100)
    };
    made.event(0, MS, user);
    let output = kymo(&["flame"], made.finish());
    let message = errors(&output);
    let sentence = "kymo: callers may be missing in 1 call chain: the chain ends where a program \
                    begins, or at a frame that failed a check.\n";
    assert!(message.contains(sentence), "{message}");
    let svg = String::from_utf8(output.stdout).unwrap();
    assert!(svg.contains("; 1 call chains may lack callers"), "{svg}");
}

/// What a kernel declares that does not count what it misses.
mod uncounted {
    pub static EVENTS: kymo::Vocabulary = kymo::vocabulary![Sample];
    kymo::event! {
        /// A sample.
        #[id(1000)]
        pub struct Sample {
            /// The interrupted instruction.
            pub ip: u64,
            /// The interrupted thread.
            pub tid: u32,
        }
    }
}

#[test]
fn what_was_missed_may_not_be_known() {
    let mut made = Made::of("flame-uncounted", &uncounted::EVENTS);
    made.event(0, MS, uncounted::Sample { ip: BASE, tid: 5 });
    let trace = made.finish();
    let sentence = "the trace does not say whether samples were missed";
    for verb in ["hot", "flame"] {
        let messages = errors(&kymo(&[verb], trace));
        assert!(
            messages.contains(&format!("kymo: {sentence}.\n")),
            "{messages}"
        );
    }
    let svg = printed(&["flame"], trace).1;
    assert!(
        svg.contains("1 sample kept; missed: not known; none lost"),
        "{svg}"
    );
    let report = printed(&["report"], trace).1;
    assert!(
        report.contains(&format!("\nSamples: 1; {sentence}. ")),
        "{report}"
    );
    let hot = printed(&["hot", "--json"], trace).1;
    assert!(hot.contains("\"missed\":null"), "{hot}");
}

/// A trace that Linux's perf recorded: nearly all of the program's time is in one function, which
/// another one called.
#[test]
#[ignore = "needs a trace: cargo xtask test tracers records it"]
fn chains_of_perf_are_drawn() {
    let named = |variable: &str| std::env::var(variable).expect(variable);
    let (trace, program) = (named("KYMO_PERF_TRACE"), named("KYMO_PERF_PROGRAM"));
    let options = ["flame", "--format", "folded", "--image", &program];
    for selected in [&[][..], &["--event", "cpu-clock*"]] {
        let arguments = [&options[..], selected].concat();
        let (code, folded) = printed(&arguments, Path::new(&trace));
        assert_eq!(code, Some(0));
        let (mut expected, mut all) = (0, 0);
        for line in folded.lines() {
            let (stack, count) = line.rsplit_once(' ').unwrap();
            let count: u64 = count.parse().unwrap();
            all += count;
            if stack.ends_with("main;outermost;innermost") {
                expected += count;
            }
        }
        assert!(all > 100 && expected * 10 > all * 9, "{folded}");
    }
}
