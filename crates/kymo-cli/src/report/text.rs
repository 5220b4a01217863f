//! The report's tables as text.

mod counters;

use std::cmp::Reverse;
use std::fmt::Write as _;

use kymo_analysis::{CpuUse, Durations, Report, Thread, ThreadRef};

use crate::dump::{escape_controls, table};
use crate::missed::{self, Sampler};
use crate::summary::{count, missing_events, thousands};

/// Most losses that are printed; JSON has more.
const LOSSES: usize = 10;
/// Most threads whose wake-up latency is printed; JSON has all.
const THREADS: usize = 20;

/// All tables, separated by blank lines.
pub fn tables(report: &Report, sampler: Sampler) -> String {
    let mut text = Text {
        zero: report.zero_ns.unwrap_or(0),
        out: String::new(),
    };
    text.trace(report);
    let head = text.out.len();
    text.cpus(report);
    text.run_queues(report);
    text.threads(report);
    text.system_calls(report);
    text.interrupts(report);
    text.wake_latency(report);
    text.locks(report);
    text.page_faults(report);
    text.messages(report);
    text.own_counters(report);
    text.own_histograms(report);
    text.samples(report, sampler);
    text.counters(report);
    text.contradictions(report);
    if text.out.len() == head && report.events > 0 {
        text.out += "No table of what a kernel does: no event is about threads, interrupts, system \
                     calls, locks, page faults, messages, counters or samples.\n";
        text.other_events(report);
    }
    text.out
}

/// A duration with its unit: four digits, or fewer below 1 us.
pub fn duration(ns: u64) -> String {
    let (unit, divisor) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1e3),
        1_000_000..1_000_000_000 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let value = ns as f64 / divisor;
    let digits = if value < 10.0 {
        3
    } else if value < 100.0 {
        2
    } else {
        1
    };
    format!("{value:.digits$} {unit}")
}

fn some_duration(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".to_owned(), duration)
}

/// A duration, or an empty cell for zero, so that the other cells stand out.
fn time_spent(ns: u64) -> String {
    if ns == 0 { String::new() } else { duration(ns) }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "-".to_owned()
    } else {
        format!("{:.1}%", part as f64 * 100.0 / whole as f64)
    }
}

fn number(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn name(number: impl std::fmt::Display, name: Option<&String>) -> String {
    name.map_or_else(|| number.to_string(), |name| format!("{name} ({number})"))
}

fn thread(thread: Option<&ThreadRef>) -> String {
    thread.map_or_else(
        || "-".to_owned(),
        |thread| name(thread.tid, thread.name.as_ref()),
    )
}

/// The lock's name, or its address if it has none.
fn lock_name(lock: u64, name: Option<&String>) -> String {
    name.cloned().unwrap_or_else(|| format!("{lock:#x}"))
}

/// A number with its thousands set apart, and its sign.
fn grouped(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let value = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
    format!("{sign}{}", thousands(value))
}

fn spread(durations: &Durations) -> [String; 4] {
    let Durations {
        p50_ns,
        p90_ns,
        p99_ns,
        max_ns,
        ..
    } = *durations;
    [p50_ns, p90_ns, p99_ns, max_ns].map(some_duration)
}

/// Nanoseconds from `begin` to `end`; 0 if `end` is earlier.
fn passed(begin: i64, end: i64) -> u64 {
    u64::try_from(i128::from(end) - i128::from(begin)).unwrap_or(0)
}

/// A point in time, as seconds since the trace began; `-` if unknown.
pub fn seconds(begin: i64, time: Option<i64>) -> String {
    let Some(time) = time else {
        return "-".to_owned();
    };
    let since = i128::from(time) - i128::from(begin);
    let sign = if since < 0 { "-" } else { "" };
    let since = since.unsigned_abs();
    format!(
        "{sign}{}.{:09}",
        since / 1_000_000_000,
        since % 1_000_000_000
    )
}

struct Text {
    /// Points in time are counted from here.
    zero: i64,
    out: String,
}

// Writing to a `String` cannot fail; the results of `write!` are dropped in the functions below.
impl Text {
    fn table<const N: usize>(&mut self, title: &str, head: [&str; N], rows: Vec<[String; N]>) {
        let rows = rows.into_iter().map(Vec::from);
        self.wide_table(title, head.map(str::to_owned).to_vec(), rows.collect());
    }

    /// A table whose columns depend on the trace.
    fn wide_table(&mut self, title: &str, head: Vec<String>, rows: Vec<Vec<String>>) {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(self.out, "\n{title}\n");
        let mut lines = vec![head];
        lines.extend(rows);
        for cell in lines.iter_mut().flatten() {
            escape_controls(cell);
        }
        for line in table(&lines).lines() {
            let _ = writeln!(self.out, "{}", line.trim_end());
        }
    }

    fn at(&self, time: Option<i64>) -> String {
        seconds(self.zero, time)
    }

    fn trace(&mut self, report: &Report) {
        let span = passed(report.begin_ns.unwrap_or(0), report.end_ns.unwrap_or(0));
        let _ = write!(
            self.out,
            "{} in {}",
            count(report.events, "event", "events"),
            duration(span)
        );
        let losses = &report.losses;
        let more = |events| count(events, "more was lost", "more were lost");
        let missing = |packets| count(packets, "packet is missing", "packets are missing");
        let _ = match (losses.events, losses.packets) {
            (0, 0) if losses.missing > 0 => {
                writeln!(self.out, "; {}.", missing_events(losses.missing))
            }
            (0, 0) if report.damage.is_empty() => writeln!(self.out, ", none lost."),
            (0, 0) => writeln!(self.out, ", none lost except by the damage:"),
            (events, 0) => writeln!(self.out, "; {}:", more(events)),
            (0, packets) => writeln!(self.out, "; {}, with more events:", missing(packets)),
            (events, packets) => {
                writeln!(self.out, "; {}, and {}:", more(events), missing(packets))
            }
        };
        for loss in losses.intervals.iter().take(LOSSES) {
            let (begin, end) = (self.at(loss.begin_ns), self.at(loss.end_ns));
            let one = loss.kind.trim_end_matches('s');
            let mut line = format!(
                "  {} on {}, between {begin} and {end}",
                count(loss.count, one, loss.kind),
                loss.stream
            );
            if let Some((begin, end)) = loss.begin_ns.zip(loss.end_ns) {
                line += &format!(" ({})", duration(passed(begin, end)));
            }
            escape_controls(&mut line);
            let _ = writeln!(self.out, "{line}");
        }
        let more =
            losses.intervals.len().saturating_sub(LOSSES) as u64 + losses.intervals_not_listed;
        if more > 0 {
            let _ = writeln!(self.out, "  and {}", count(more, "more time", "more times"));
        }
        if losses.missing > 0 && losses.reported() {
            let _ = writeln!(self.out, "Besides, {}.", missing_events(losses.missing));
        }
        if losses.reported() {
            let _ = writeln!(
                self.out,
                "No figure below includes lost events, and no duration spans a loss."
            );
        }
        for sentence in &report.damage {
            let mut line = format!("Damaged: {sentence}.");
            escape_controls(&mut line);
            let _ = writeln!(self.out, "{line}");
        }
        if report.events_without_place > 0 {
            let placeless = count(
                report.events_without_place,
                "event has no time or no CPU and is",
                "events have no time or no CPU and are",
            );
            let _ = writeln!(self.out, "{placeless} in no table.");
        }
        for clock in &report.clocks {
            let mut line = format!(
                "Clock {}: {} ticks per second. ",
                clock.name,
                thousands(clock.frequency_hz)
            );
            let _ = match clock.smallest_step_ticks {
                Some(step) => write!(
                    line,
                    "Different times on one CPU are at least {} apart, ",
                    count(step, "tick", "ticks")
                ),
                None => write!(line, "No CPU has events at two different times, "),
            };
            let _ = match clock.equal_stamps {
                0 => write!(line, "and no two events have the same time."),
                pairs => write!(
                    line,
                    "and {} the same time.",
                    count(pairs, "pair of events has", "pairs of events have")
                ),
            };
            if let Some(longest) = clock.longest_step_back_ticks {
                let _ = write!(
                    line,
                    " It stepped back {}, by {} at most: events have the time of an earlier one \
                     until it caught up.",
                    count(clock.steps_back, "time", "times"),
                    count(longest, "tick", "ticks")
                );
            }
            if clock.times_behind > 0 {
                let _ = write!(
                    line,
                    " The kernel found it behind its time window {}.",
                    count(clock.times_behind, "time", "times")
                );
            }
            escape_controls(&mut line);
            let _ = writeln!(self.out, "{line}");
        }
        if report.events > 0 {
            let _ = writeln!(
                self.out,
                "Points in time are in seconds since the trace began."
            );
        }
    }

    fn cpus(&mut self, report: &Report) {
        let known = |cpu: &CpuUse| {
            let parts = [cpu.switches, cpu.busy_ns, cpu.idle_ns, cpu.interrupts_ns];
            parts.iter().any(|part| *part > 0)
        };
        if !report.cpus.iter().any(known) {
            return;
        }
        let rows = report.cpus.iter().map(|cpu| {
            let span = cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns;
            let shares = [cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns, cpu.interrupts_ns]
                .map(|part| percent(part, span));
            let [busy, idle, unknown, interrupts] = shares;
            [
                cpu.cpu.to_string(),
                duration(cpu.busy_ns),
                busy,
                idle,
                unknown,
                interrupts,
                thousands(cpu.switches),
            ]
        });
        let head = [
            "cpu",
            "busy for",
            "busy",
            "idle",
            "unknown",
            "in interrupts",
            "switches",
        ];
        self.table("CPUs", head, rows.collect());
    }

    fn run_queues(&mut self, report: &Report) {
        let rows = report.run_queues.iter().map(|queue| {
            let cpu = queue.cpu.map(|cpu| cpu.to_string());
            [
                cpu.unwrap_or_else(|| "shared".to_owned()),
                number(queue.mean.map(|mean| format!("{mean:.2}"))),
                thousands(queue.max),
                thousands(queue.enqueued),
                thousands(queue.dequeued),
            ]
        });
        let head = ["cpu", "mean", "max", "enqueued", "dequeued"];
        let title = "Run queues: threads that are ready and do not run";
        self.table(title, head, rows.collect());
    }

    fn threads(&mut self, report: &Report) {
        let rows = report.threads.iter().map(|thread| {
            let switches = thread
                .switches
                .iter()
                .map(|(reason, count)| format!("{reason} {}", thousands(*count)));
            let cpu = thread.cpu.map_or_else(String::new, |cpu| format!("/{cpu}"));
            [
                format!("{}{cpu}", thread.tid),
                number(thread.pid),
                thread.name.clone().unwrap_or_else(|| "-".to_owned()),
                number(thread.priority),
                duration(thread.cpu_ns),
                format!("{:.1}%", thread.share_percent),
                time_spent(thread.runnable_ns),
                blocked(thread),
                time_spent(thread.sleeping_ns),
                time_spent(thread.suspended_ns),
                time_spent(thread.unknown_ns),
                thread.last_state.clone(),
                switches.collect::<Vec<_>>().join(", "),
            ]
        });
        let head = [
            "tid",
            "pid",
            "name",
            "prio",
            "on a CPU",
            "of known time",
            "runnable",
            "blocked",
            "sleeping",
            "suspended",
            "unknown",
            "at the end",
            "why it left a CPU",
        ];
        self.table("Threads", head, rows.collect());
    }

    fn system_calls(&mut self, report: &Report) {
        let rows = report.system_calls.iter().map(|call| {
            let what = match (call.id, &call.name) {
                (Some(id), call) => name(id, call.as_ref()),
                (None, call) => number(call.as_ref()),
            };
            let [p50, p90, p99, max] = spread(&call.durations);
            let total = duration(call.durations.total_ns);
            [
                what,
                thousands(call.count),
                thousands(call.errors),
                thousands(call.durations.count),
                p50,
                p90,
                p99,
                max,
                total,
            ]
        });
        let head = [
            "system call",
            "calls",
            "errors",
            "timed",
            "p50",
            "p90",
            "p99",
            "max",
            "total",
        ];
        self.table("System calls", head, rows.collect());
    }

    fn interrupts(&mut self, report: &Report) {
        let rows = report.interrupts.iter().map(|line| {
            let [p50, p90, p99, max] = spread(&line.durations);
            let cpu = line
                .longest_cpu
                .map_or_else(|| "-".to_owned(), |cpu| format!("cpu{cpu}"));
            [
                match line.soft {
                    true => name(format_args!("softirq {}", line.irq), line.name.as_ref()),
                    false => name(line.irq, line.name.as_ref()),
                },
                thousands(line.count),
                p50,
                p90,
                p99,
                max,
                format!("{:.2}%", line.share_percent),
                line.nesting.to_string(),
                self.at(line.longest_at_ns),
                cpu,
            ]
        });
        let rows = rows.collect();
        let title = match report.interrupt_nesting {
            0 | 1 => "Interrupts, none inside of another one".to_owned(),
            most => format!("Interrupts, up to {most} inside of one another"),
        };
        let head = [
            "interrupt",
            "count",
            "p50",
            "p90",
            "p99",
            "max",
            "of all CPUs",
            "nesting",
            "longest at",
            "on",
        ];
        self.table(&title, head, rows);
    }

    fn wake_latency(&mut self, report: &Report) {
        let Some(wake) = &report.wake_latency else {
            return;
        };
        let [p50, p90, p99, max] = spread(&wake.durations);
        let title = format!(
            "Wake-up latency, until the thread that was woken ran: {}, p50 {p50}, p90 {p90}, \
             p99 {p99}, max {max}; the longest:",
            count(wake.durations.count, "time", "times")
        );
        let rows = wake.worst.iter().map(|worst| {
            let waker = if worst.by_interrupt {
                "interrupt".to_owned()
            } else {
                let waker = worst.waker.as_ref();
                waker.map_or_else(|| "unknown".to_owned(), |waker| thread(Some(waker)))
            };
            [
                thread(Some(&worst.thread)),
                duration(worst.latency_ns),
                self.at(Some(worst.woken_ns)),
                self.at(Some(worst.ran_ns)),
                waker,
                format!("cpu{}", worst.cpu),
            ]
        });
        let rows = rows.collect();
        self.table(
            &title,
            ["thread", "latency", "woken at", "ran at", "woken by", "on"],
            rows,
        );
        let mut threads: Vec<&Thread> = report
            .threads
            .iter()
            .filter(|thread| thread.wake_latency.count > 0)
            .collect();
        threads.sort_by_key(|thread| (Reverse(thread.wake_latency.max_ns), thread.tid));
        let more = threads.len().saturating_sub(THREADS);
        let rows = threads.iter().take(THREADS).map(|thread| {
            let [p50, p90, p99, max] = spread(&thread.wake_latency);
            [
                name(thread.tid, thread.name.as_ref()),
                thousands(thread.wake_latency.count),
                p50,
                p90,
                p99,
                max,
            ]
        });
        let title = match more {
            0 => "Wake-up latency by thread".to_owned(),
            _ => format!(
                "Wake-up latency by thread, the {THREADS} with the longest of {}",
                threads.len()
            ),
        };
        self.table(
            &title,
            ["thread", "times", "p50", "p90", "p99", "max"],
            rows.collect(),
        );
    }

    fn locks(&mut self, report: &Report) {
        let mut longest = Vec::new();
        let rows = report.locks.iter().map(|lock| {
            let lock_name = lock_name(lock.lock, lock.name.as_ref());
            if let Some(wait) = &lock.longest_wait {
                longest.push([
                    lock_name.clone(),
                    duration(wait.ns),
                    self.at(Some(wait.begin_ns)),
                    thread(wait.waiter.as_ref()),
                    number(wait.waiter_priority),
                    thread(wait.owner.as_ref()),
                    number(wait.owner_priority),
                ]);
            }
            let [wait50, wait90, _, wait_max] = spread(&lock.wait);
            let [hold50, hold90, _, hold_max] = spread(&lock.hold);
            let kind = lock.kind.clone().unwrap_or_else(|| "-".to_owned());
            let counts = [lock.acquired, lock.contended, lock.failed].map(thousands);
            let [acquired, contended, failed] = counts;
            [
                lock_name, kind, acquired, contended, failed, wait50, wait90, wait_max, hold50,
                hold90, hold_max,
            ]
        });
        let rows = rows.collect();
        let head = [
            "lock",
            "kind",
            "acquired",
            "after a wait",
            "not got",
            "wait p50",
            "wait p90",
            "wait max",
            "held p50",
            "held p90",
            "held max",
        ];
        self.table("Locks", head, rows);
        let head = [
            "lock",
            "wait",
            "from",
            "who waited",
            "prio",
            "who had it",
            "prio",
        ];
        self.table("The longest wait for each lock", head, longest);
        let waiters = report.locks.iter().flat_map(|lock| {
            lock.waiters.iter().map(|waiter| {
                [
                    lock_name(lock.lock, lock.name.as_ref()),
                    thread(waiter.thread.as_ref()),
                    thousands(waiter.count),
                    duration(waiter.total_ns),
                    duration(waiter.max_ns),
                ]
            })
        });
        self.table(
            "Waits by lock and thread",
            ["lock", "thread", "waits", "total", "max"],
            waiters.collect(),
        );
    }

    fn page_faults(&mut self, report: &Report) {
        let Some(faults) = &report.page_faults else {
            return;
        };
        let rows = faults.processes.iter().map(|process| {
            let what = process.pid.map_or_else(
                || "unknown".to_owned(),
                |pid| name(pid, process.name.as_ref()),
            );
            [what, thousands(process.count)]
        });
        let title = format!("Page faults: {}", thousands(faults.count));
        self.table(&title, ["process", "faults"], rows.collect());
        let rows = faults.threads.iter().map(|row| {
            let causes = row
                .causes
                .iter()
                .map(|(cause, count)| format!("{cause} {}", thousands(*count)));
            let causes = causes.collect::<Vec<_>>().join(", ");
            [
                thread(row.thread.as_ref()),
                thousands(row.count),
                thousands(row.user),
                thousands(row.kernel),
                causes,
            ]
        });
        self.table(
            "Page faults by thread",
            ["thread", "faults", "user", "kernel", "cause"],
            rows.collect(),
        );
    }

    fn messages(&mut self, report: &Report) {
        let rows = report.messages.iter().map(|row| {
            let path = row
                .path
                .as_ref()
                .map_or_else(String::new, |path| format!(", {path} path"));
            let counts =
                [row.sent, row.received, row.sent_bytes, row.received_bytes].map(thousands);
            let [sent, received, sent_bytes, received_bytes] = counts;
            [
                format!("{}{path}", row.mechanism),
                sent,
                received,
                sent_bytes,
                received_bytes,
            ]
        });
        self.table(
            "Messages",
            ["by", "sent", "received", "bytes sent", "bytes received"],
            rows.collect(),
        );
    }

    fn other_events(&mut self, report: &Report) {
        let rows = report.other_events.iter().map(|row| {
            let per_second = row.per_second.map(|rate| format!("{rate:.1}"));
            let process = row.pid.map(|pid| name(pid, row.process.as_ref()));
            [
                row.name.clone(),
                thousands(row.count),
                number(per_second),
                number(process),
            ]
        });
        let head = ["event", "count", "per second", "process"];
        self.table("Events", head, rows.collect());
    }

    fn samples(&mut self, report: &Report, sampler: Sampler) {
        let Some(samples) = &report.samples else {
            return;
        };
        let mut rows = Vec::new();
        for of in &samples.threads {
            rows.push([
                name(of.thread.tid, of.thread.name.as_ref()),
                thousands(of.user + of.kernel),
                format!("{:.1}%", of.share_percent),
                thousands(of.user),
                thousands(of.kernel),
            ]);
        }
        for (what, number) in [
            ("unknown", samples.threadless),
            ("(idle CPUs)", samples.idle),
        ] {
            if number > 0 {
                let blank = String::new;
                rows.push([
                    what.to_owned(),
                    thousands(number),
                    blank(),
                    blank(),
                    blank(),
                ]);
            }
        }
        let title = format!(
            "Samples: {}; {}. kymo hot and kymo flame show the functions.",
            thousands(samples.count),
            missed::told(samples.missed, samples.count, sampler)
        );
        let head = [
            "thread",
            "samples",
            "of busy CPUs",
            "in a program",
            "in the kernel",
        ];
        self.table(&title, head, rows);
    }

    fn contradictions(&mut self, report: &Report) {
        let rows = report.contradictions.counts.iter().map(|(rule, count)| {
            let first = report
                .contradictions
                .first
                .iter()
                .find(|first| first.rule == *rule);
            let [at, on, what] = first.map_or_else(Default::default, |first| {
                [
                    self.at(Some(first.time_ns)),
                    format!("cpu{}", first.cpu),
                    first.message.clone(),
                ]
            });
            [(*rule).to_owned(), thousands(*count), at, on, what]
        });
        let rows = rows.collect();
        self.table(
            "What does not fit together",
            ["rule", "count", "first at", "on", "what"],
            rows,
        );
    }
}

/// Time spent blocked, and the lock that took most of it.
fn blocked(thread: &Thread) -> String {
    let mut text = time_spent(thread.blocked_ns);
    if let Some(most) = thread.blocked_on.first() {
        if most.ns < thread.blocked_ns {
            let _ = write!(
                text,
                " ({} on {})",
                duration(most.ns),
                lock_name(most.lock, most.name.as_ref())
            );
        } else {
            let _ = write!(text, " on {}", lock_name(most.lock, most.name.as_ref()));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_four_digits_and_a_unit() {
        let texts = [0, 999, 1000, 12_345, 5_000_000, 999_949_999, 62_500_000_000].map(duration);
        assert_eq!(
            texts,
            [
                "0 ns", "999 ns", "1.000 us", "12.35 us", "5.000 ms", "999.9 ms", "62.50 s"
            ]
        );
    }
}
