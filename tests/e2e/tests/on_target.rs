//! The kernel's own printout of its trace on a serial line, compared with the trace that the host
//! reads from its memory.

use std::path::Path;
use std::process::Command;

use kymo_ctf::{Item, Trace};
use kymo_e2e::{hello, kymo, run, scratch};

/// Runs the kernel on four harts, to this exit code. Returns the header and lines of its dump, and
/// the lines that the host derives from its memory.
fn run_hello(name: &str, append: &str, code: i32) -> (String, Vec<String>, Vec<String>) {
    let folder = scratch(name);
    let ram = folder.join("ram");
    let mut command = Command::new("qemu-system-riscv64");
    command.args([
        "-M",
        "virt,memory-backend=ram",
        "-smp",
        "4",
        "-m",
        "128M",
        "-nographic",
        "-no-reboot",
        "-append",
        append,
    ]);
    command.arg("-kernel").arg(hello()).arg("-object");
    command.arg(format!(
        "memory-backend-file,id=ram,size=128M,mem-path={},share=on",
        ram.display()
    ));
    let text = String::from_utf8(run(&mut command, code).stdout).unwrap();
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("kymo: "))
        .map(|line| line.trim_end().to_owned());
    let header = lines
        .next()
        .unwrap_or_else(|| panic!("it printed no dump:\n{text}"));
    let out = folder.join("trace");
    run(
        &mut kymo([
            "recover".as_ref(),
            ram.as_os_str(),
            "--out".as_ref(),
            out.as_os_str(),
        ]),
        0,
    );
    std::fs::remove_file(ram).unwrap();
    (header, lines.collect(), by_the_host(&out))
}

/// The events of a trace, reduced to what both sides print: time, CPU, name.
fn by_the_host(trace: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for item in Trace::open(trace).unwrap().events() {
        if let Item::Event(event) = item.unwrap() {
            let mut line = format!(
                "{} cpu{} {}",
                event.time.unwrap().0,
                event.cpu().unwrap(),
                event.name()
            );
            if event.name() == "marker" {
                let field = |name: &str| event.fields.get(name).unwrap().as_u64().unwrap();
                let hart = ["a", "b"][(field("tid") as usize + 1) % 2];
                line += &format!(
                    " tid={} (hart{}.{hart}) seq={}",
                    field("tid"),
                    event.cpu().unwrap(),
                    field("seq")
                );
            }
            lines.push(line);
        }
    }
    lines
}

/// The line without the thread that ran, which must be the one that the event itself has: a
/// marker's, or the one that a switch takes the CPU from.
fn without_thread(line: &str) -> String {
    let field = |name: &str| {
        let (_, value) = line.split_once(name)?;
        // With its name in parentheses.
        Some(value.split_once(')')?.0.replace('(', ""))
    };
    let own = field(" marker tid=").or_else(|| field(" sched_switch prev_tid="));
    let Some((cpu, (thread, rest))) = line
        .split_once(" [")
        .and_then(|(cpu, rest)| Some((cpu, rest.split_once(']')?)))
    else {
        assert_eq!(own, None, "{line}");
        return line.to_owned();
    };
    assert!(own.is_none_or(|own| own == thread), "{line}");
    format!("{cpu}{rest}")
}

/// An event of a line that the kernel printed: seconds with seven digits are ticks of its clock.
fn as_the_host_has_it(line: &str) -> String {
    let (time, rest) = line.trim().split_once(' ').unwrap();
    let (seconds, fraction) = time.split_once('.').unwrap();
    assert_eq!(fraction.len(), 7, "{line}");
    let ticks = seconds.parse::<u64>().unwrap() * 10_000_000 + fraction.parse::<u64>().unwrap();
    let rest = &without_thread(rest);
    let rest = if rest.contains(" marker ") {
        rest.to_owned()
    } else {
        rest.split(' ').take(2).collect::<Vec<_>>().join(" ")
    };
    format!("{ticks} {rest}")
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn the_newest_records_at_the_end() {
    // Rings that are overwritten: all records, and the newest ones.
    let (header, lines, host) = run_hello(
        "dump-all",
        "events=4000 packets=4 packet_size=512 dump=100000",
        0,
    );
    let retained: usize = header.split(' ').nth(1).unwrap().parse().unwrap();
    assert_eq!(retained, host.len(), "{header}");
    assert!(
        lines[0].ends_with(" overwritten before this"),
        "{}",
        lines[0]
    );
    let mut printed: Vec<_> = lines[1..]
        .iter()
        .map(|line| as_the_host_has_it(line))
        .collect();
    let time = |line: &String| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(printed.is_sorted_by_key(time));
    // Events of the same tick may be in another order.
    let mut host = host;
    printed.sort();
    host.sort();
    assert_eq!(printed, host);
    let (_, lines, host) = run_hello("dump-newest", "events=4000 dump=40", 0);
    assert_eq!(lines.len(), 40);
    let newest: Vec<_> = host[host.len() - 40..].iter().map(time).collect();
    assert_eq!(
        lines
            .iter()
            .map(|line| time(&as_the_host_has_it(line)))
            .collect::<Vec<_>>(),
        newest
    );
}

/// V-07 to V-09: each CPU's last 32 events, up to the one before the panic; the other harts keep
/// running.
#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_panic_prints_each_cpus_last_events() {
    // Panic on a hart whose rings have wrapped.
    let (header, lines, _) = run_hello("panic", "panic=4000 packets=16", 7);
    assert!(
        header.ends_with(" 0 discarded") && !header.contains(" 0 overwritten"),
        "{header}"
    );
    let mut by_cpu = vec![Vec::new(); 4];
    for line in lines.iter().filter(|line| !line.starts_with("kymo: ")) {
        let cpu = line
            .split_once(" cpu")
            .unwrap()
            .1
            .split(' ')
            .next()
            .unwrap()
            .parse::<usize>()
            .unwrap();
        assert!(
            by_cpu[cpu + 1..].iter().all(Vec::is_empty),
            "CPU after CPU: {line}"
        );
        by_cpu[cpu].push(as_the_host_has_it(line));
    }
    let panicked = by_cpu
        .iter()
        .filter(|lines| lines.last().is_some_and(|line| line.ends_with(" seq=4000")))
        .count();
    assert!(panicked >= 1, "{lines:?}");
    // That hart wrote no more; events of other harts may have been overwritten before they were
    // printed, which the dump reports.
    let meanwhile = lines.iter().any(|line| line.contains(" meanwhile"));
    assert!(by_cpu.iter().any(|lines| lines.len() == 32));
    assert!(
        meanwhile || by_cpu.iter().all(|lines| lines.len() == 32),
        "{:?}",
        by_cpu.iter().map(Vec::len).collect::<Vec<_>>()
    );
    for lines in by_cpu {
        assert!(
            lines.len() <= 32
                && lines.is_sorted_by_key(|line| line
                    .split(' ')
                    .next()
                    .unwrap()
                    .parse::<u64>()
                    .unwrap())
        );
    }
}
