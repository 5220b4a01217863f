//! From what was found to tables.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::analysis::Analysis;
use crate::context::Faults;
use crate::histogram::Histogram;
use crate::kind::SyscallKey;
use crate::report::{
    CpuUse, Durations, Interrupt, Lock, LockBlock, LongestWait, PageFaults, ProcessFaults, Report,
    SystemCall, Thread, ThreadFaults, ThreadRef, Waiter, WakeLatency, WorstWake,
};
use crate::thread::{Doing, ThreadState, Waker, passed};

fn durations(histogram: &Histogram) -> Durations {
    Durations {
        count: histogram.count(),
        total_ns: histogram.sum(),
        p50_ns: histogram.percentile(50),
        p99_ns: histogram.percentile(99),
        max_ns: histogram.max(),
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    // Durations beyond 2^53 ns (104 days) lose their last digits, which nobody sees.
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

/// Closes what is under way at the end, and makes the tables.
pub(crate) fn report(mut analysis: Analysis) -> Report {
    let (begin, end) = analysis.span.unwrap_or((0, 0));
    analysis.gaps.pass(end, None);
    close(&mut analysis, end);
    let span = passed(begin, end);
    let thread = |place: usize| {
        let thread = analysis.threads.get(place);
        thread.map(|thread| ThreadRef {
            tid: thread.tid,
            name: thread.name.clone(),
        })
    };
    let cpus = cpus(&analysis, span);
    let known: u64 = cpus.iter().fold(0, |sum: u64, cpu| {
        sum.saturating_add(cpu.busy_ns + cpu.idle_ns)
    });
    let all = span.saturating_mul(cpus.len() as u64);
    let mut threads: Vec<Thread> = analysis
        .threads
        .iter()
        .map(|thread| one_thread(&analysis, thread, (begin, end), known))
        .collect();
    threads.sort_by_key(|thread| (thread.idle, Reverse(thread.cpu_ns), thread.tid));

    let mut system_calls: Vec<SystemCall> = analysis
        .syscalls
        .iter()
        .filter(|(_, call)| call.count > 0)
        .map(|(key, call)| SystemCall {
            id: match key {
                SyscallKey::Number(id) => Some(*id),
                SyscallKey::Named(_) => None,
            },
            name: match key {
                SyscallKey::Number(_) => call.name.clone(),
                SyscallKey::Named(name) => Some(name.to_string()),
            },
            count: call.count,
            errors: call.errors,
            durations: durations(&call.durations),
        })
        .collect();
    system_calls.sort_by_key(|call| Reverse(call.durations.total_ns));

    let interrupts = analysis
        .irqs
        .iter()
        .filter(|(_, line)| line.count > 0)
        .map(|(&irq, line)| Interrupt {
            irq,
            name: line.name.clone(),
            count: line.count,
            durations: durations(&line.durations),
            share_percent: percent(line.own, all),
            nesting: line.nesting,
            longest_at_ns: line.longest_at.map(|(at, _)| at),
            longest_cpu: line.longest_at.map(|(_, cpu)| cpu),
        });
    let interrupts = interrupts.collect();

    let worst = analysis.worst.iter().filter_map(|worst| {
        Some(WorstWake {
            latency_ns: worst.latency,
            woken_ns: worst.woken,
            ran_ns: worst.ran,
            thread: thread(worst.thread)?,
            waker: match worst.waker {
                Waker::Thread(place) => thread(place),
                _ => None,
            },
            by_interrupt: worst.waker == Waker::Interrupt,
            cpu: worst.cpu,
        })
    });
    let worst = worst.collect();
    let wake_latency = (analysis.wakes.count() > 0).then(|| WakeLatency {
        durations: durations(&analysis.wakes),
        worst,
    });

    let mut locks: Vec<Lock> = Vec::new();
    for (&lock, state) in &analysis.locks {
        if state.acquired + state.failed + state.waits.count() + state.holds.count() == 0 {
            continue;
        }
        let waiters = state
            .waiters
            .iter()
            .map(|(&place, &(count, total_ns, max_ns))| Waiter {
                thread: place.and_then(thread),
                count,
                total_ns,
                max_ns,
            });
        let mut waiters: Vec<Waiter> = waiters.collect();
        waiters.sort_by_key(|waiter| Reverse(waiter.total_ns));
        let longest_wait = state.longest.as_ref().map(|longest| LongestWait {
            ns: longest.duration,
            begin_ns: longest.since,
            end_ns: longest.until,
            waiter: longest.waiter.and_then(thread),
            waiter_priority: longest.waiter_prio,
            owner: longest.owner.and_then(thread),
            owner_priority: longest.owner_prio,
        });
        locks.push(Lock {
            lock,
            name: state.name.clone(),
            kind: state.kind.clone(),
            acquired: state.acquired,
            contended: state.contended,
            failed: state.failed,
            wait: durations(&state.waits),
            hold: durations(&state.holds),
            waiters,
            longest_wait,
        });
    }
    locks.sort_by_key(|lock| (Reverse(lock.wait.max_ns), lock.lock));

    Report {
        begin_ns: analysis.span.map(|(begin, _)| begin),
        end_ns: analysis.span.map(|(_, end)| end),
        events: analysis.events,
        events_without_place: analysis.placeless,
        page_faults: page_faults(&analysis),
        messages: analysis.messages.values().cloned().collect(),
        losses: analysis.gaps.listed,
        damage: analysis.damage,
        clocks: if analysis.clock.name.is_empty() {
            Vec::new()
        } else {
            vec![analysis.clock]
        },
        cpus,
        threads,
        system_calls,
        interrupts,
        interrupt_nesting: analysis.nesting,
        wake_latency,
        locks,
        contradictions: analysis.contradictions,
    }
}

/// What goes on at the end goes on until the end; on a damaged stream's CPU nothing is known to.
fn close(analysis: &mut Analysis, end: i64) {
    let cpus: Vec<(u64, Option<usize>)> = analysis
        .cpus
        .iter()
        .map(|(&cpu, state)| (cpu, state.current))
        .collect();
    for (cpu, current) in cpus {
        if let Some(place) = current.filter(|_| !analysis.gaps.is_damaged(cpu)) {
            analysis.credit(cpu, place, end);
        }
        if let Some(state) = analysis.cpus.get_mut(&cpu) {
            let stranger = std::mem::take(&mut state.stranger);
            analysis
                .strangers
                .count(stranger.faults, stranger.fault_causes);
        }
    }
    let losses = analysis.gaps.stamp();
    for thread in &mut analysis.threads {
        thread.refresh(losses);
        let doing = thread.doing;
        thread.begin(doing, end, losses);
    }
}

fn cpus(analysis: &Analysis, span: u64) -> Vec<CpuUse> {
    let cpus = analysis.cpus.iter().map(|(&cpu, state)| {
        let idle = |place: &usize| {
            analysis
                .threads
                .get(*place)
                .is_some_and(ThreadState::is_idle)
        };
        let (mut busy_ns, mut idle_ns) = (0, 0);
        for (place, ns) in &state.ran {
            *if idle(place) {
                &mut idle_ns
            } else {
                &mut busy_ns
            } += ns;
        }
        let unknown_ns = span.saturating_sub(busy_ns + idle_ns);
        CpuUse {
            cpu,
            busy_ns,
            idle_ns,
            unknown_ns,
            interrupts_ns: state.interrupts,
            switches: state.switches,
        }
    });
    cpus.collect()
}

fn one_thread(
    analysis: &Analysis,
    thread: &ThreadState,
    (begin, end): (i64, i64),
    known: u64,
) -> Thread {
    let mut blocked_on: Vec<LockBlock> = thread
        .blocked_on
        .iter()
        .map(|(&lock, &ns)| LockBlock {
            lock,
            name: analysis
                .locks
                .get(&lock)
                .and_then(|state| state.name.clone()),
            ns,
        })
        .collect();
    blocked_on.sort_by_key(|block| Reverse(block.ns));
    let life = passed(thread.created.unwrap_or(begin), thread.ended.unwrap_or(end));
    let last_state = match (thread.doing, &thread.dumped) {
        (Doing::Unknown, Some(dumped)) if thread.known() == 0 && thread.switches.is_empty() => {
            dumped.clone()
        }
        (doing, _) => doing.label().to_owned(),
    };
    Thread {
        pid: thread.pid,
        tid: thread.tid,
        cpu: thread.cpu,
        name: thread.name.clone(),
        priority: thread.prio,
        idle: thread.is_idle(),
        cpu_ns: thread.ran,
        share_percent: percent(thread.ran, known),
        runnable_ns: thread.runnable,
        blocked_ns: thread.blocked + thread.blocked_on.values().sum::<u64>(),
        blocked_on,
        sleeping_ns: thread.sleeping,
        suspended_ns: thread.suspended,
        unknown_ns: life.saturating_sub(thread.known()),
        switches: thread.switches.clone(),
        wake_latency: durations(&thread.wakes),
        last_state,
    }
}

fn page_faults(analysis: &Analysis) -> Option<PageFaults> {
    let mut processes: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    let mut threads = Vec::new();
    let mut row = |thread: Option<&ThreadState>, faults: Faults, causes: &BTreeMap<String, u64>| {
        if faults.total() == 0 {
            return;
        }
        *processes
            .entry(thread.and_then(|thread| thread.pid))
            .or_default() += faults.total();
        threads.push(ThreadFaults {
            thread: thread.map(|thread| ThreadRef {
                tid: thread.tid,
                name: thread.name.clone(),
            }),
            count: faults.total(),
            user: faults.user,
            kernel: faults.kernel,
            causes: causes.clone(),
        });
    };
    for thread in &analysis.threads {
        row(
            Some(thread),
            thread.context.faults,
            &thread.context.fault_causes,
        );
    }
    row(
        None,
        analysis.strangers.faults,
        &analysis.strangers.fault_causes,
    );
    threads.sort_by_key(|thread| Reverse(thread.count));
    let processes = processes.into_iter().map(|(pid, count)| ProcessFaults {
        pid,
        name: pid.and_then(|pid| analysis.processes.get(&pid).cloned()),
        count,
    });
    let mut processes: Vec<ProcessFaults> = processes.collect();
    processes.sort_by_key(|process| Reverse(process.count));
    let count = threads.iter().map(|thread| thread.count).sum();
    (count > 0).then_some(PageFaults {
        count,
        processes,
        threads,
    })
}
