//! Changes in words. A thread is its number; the next one of the same number has a prime: `5'`.

use std::fmt::Display;

use kymo_machine::{
    CallId, CallKey, Change, Contradiction, Doing, Machine, Named, ThreadId, Waker,
};

fn thread(machine: &Machine, id: ThreadId) -> String {
    let of = machine.thread(id).unwrap();
    let earlier = machine.threads()[..id.index()].iter();
    let primes = earlier
        .filter(|other| (other.tid, other.cpu) == (of.tid, of.cpu))
        .count();
    match of.cpu {
        Some(cpu) => format!("idle{cpu}{}", "'".repeat(primes)),
        None => format!("{}{}", of.tid, "'".repeat(primes)),
    }
}

fn or_unknown(value: Option<impl Display>) -> String {
    value.map_or("?".to_owned(), |value| value.to_string())
}

fn doing(doing: Doing) -> String {
    match doing {
        Doing::Running(cpu) => format!("running({cpu})"),
        Doing::Blocked(Some(lock)) => format!("blocked({lock})"),
        other => other.label().to_owned(),
    }
}

fn call(machine: &Machine, id: CallId) -> String {
    match machine.call(id).unwrap().0 {
        CallKey::Number(number) => number.to_string(),
        CallKey::Named(name) => name.to_string(),
    }
}

/// A change in words, of which the first is its kind.
pub fn shown(machine: &Machine, change: &Change) -> String {
    let who = |id: ThreadId| thread(machine, id);
    let maybe = |id: Option<ThreadId>| or_unknown(id.map(who));
    let waker = |waker: Waker| match waker {
        Waker::Unknown => "?".to_owned(),
        Waker::Interrupt => "interrupt".to_owned(),
        Waker::Thread(id) => who(id),
    };
    match *change {
        Change::Doing {
            thread,
            was,
            since,
            until,
            now,
        } => {
            let (was, now) = (doing(was), doing(now));
            format!("doing {} {was} {since}..{until} {now}", who(thread))
        }
        Change::Switch {
            prev,
            next,
            reason,
            left,
        } => {
            let reason = format!("{:?}", reason.unwrap()).to_lowercase();
            format!(
                "switch {} {} {reason} {}",
                who(prev),
                doing(left),
                who(next)
            )
        }
        Change::Forgot { cpu } => format!("forgot {cpu}"),
        Change::OnCpu { thread, since } => format!("on-cpu {} {since}", who(thread)),
        Change::OffCpu { thread, since } => format!("off-cpu {} {since}", who(thread)),
        Change::Wakeup {
            thread,
            waker: by,
            waited,
        } => {
            let waited = if waited { "" } else { " in vain" };
            format!("wakeup {} by {}{waited}", who(thread), waker(by))
        }
        Change::WakeLatency {
            thread,
            since,
            waker: by,
        } => {
            format!("latency {} {since} by {}", who(thread), waker(by))
        }
        Change::Created { thread } => format!("created {}", who(thread)),
        Change::Ended { thread } => format!("ended {}", who(thread)),
        Change::Interrupted { thread } => format!("interrupted {}", who(thread)),
        Change::Replaced { thread } => format!("replaced {}", who(thread)),
        Change::Priority { thread, prio } => format!("priority {} {prio}", who(thread)),
        Change::Named(named) => {
            let what = match named {
                Named::Thread(id) => format!("thread {}", who(id)),
                Named::Process(pid) => format!("process {pid}"),
                Named::Lock(lock) => format!("lock {lock}"),
                Named::Irq(line) => format!("irq {line}"),
                Named::Call(id) => format!("call {}", call(machine, id)),
                Named::User(id) => format!("user {id}"),
            };
            format!("named {what} {}", or_unknown(machine.name(named)))
        }
        Change::IrqEnter { line, depth } => format!("irq {line} depth {depth}"),
        Change::IrqExit { line, since } => match since {
            Some((since, own)) => format!("irq-end {line} {since} own {own}"),
            None => format!("irq-end {line} ?"),
        },
        Change::IrqMismatch { line } => format!("irq-mismatch {line}"),
        Change::CallEnter {
            call: of,
            thread,
            unfinished,
        } => {
            let unfinished = unfinished.map(|of| format!(" unfinished {}", call(machine, of)));
            let unfinished = unfinished.unwrap_or_default();
            format!(
                "call {} by {}{unfinished}",
                call(machine, of),
                maybe(thread)
            )
        }
        Change::CallExit {
            call: of,
            since,
            thread,
            failed,
        } => {
            let failed = if failed { " failed" } else { "" };
            let of = call(machine, of);
            format!(
                "return {of} by {} {}{failed}",
                maybe(thread),
                or_unknown(since)
            )
        }
        Change::LockWait { lock, thread, .. } => format!("wait {lock} by {}", maybe(thread)),
        Change::LockWaited {
            lock,
            since,
            thread,
            prio,
            owner,
            owner_prio,
        } => format!(
            "waited {lock} by {}({}) {since} owner {}({})",
            maybe(thread),
            or_unknown(prio),
            maybe(owner),
            or_unknown(owner_prio)
        ),
        Change::LockAcquired {
            lock,
            contended,
            thread,
            ..
        } => {
            let contended = if contended { " contended" } else { "" };
            format!("acquired {lock} by {}{contended}", maybe(thread))
        }
        Change::LockFailed { lock, thread, .. } => format!("failed {lock} by {}", maybe(thread)),
        Change::LockReleased {
            lock,
            since,
            thread,
            ..
        } => {
            format!("released {lock} by {} {}", maybe(thread), or_unknown(since))
        }
        Change::Fault {
            thread,
            user,
            cause,
        } => {
            let cause = format!("{:?}", cause.unwrap()).to_lowercase();
            let mode = if user.unwrap() { "user" } else { "kernel" };
            format!("fault {} {mode} {cause}", maybe(thread))
        }
        Change::Recognised { thread } => format!("recognised {}", who(thread)),
        Change::Message {
            mechanism,
            sends,
            path,
            len,
        } => {
            let way = if sends { "out" } else { "in" };
            let path = or_unknown(path.map(|path| format!("{path:?}").to_lowercase()));
            format!("message {mechanism} {way} {path} {len}")
        }
        Change::Exec { pid, thread } => format!("exec {} {}", or_unknown(pid), maybe(thread)),
        Change::Forked {
            parent,
            pid,
            thread,
        } => {
            format!("forked {} to {pid} {}", or_unknown(parent), maybe(thread))
        }
        Change::ProcessEnded { pid, thread } => format!("process-ended {pid} {}", maybe(thread)),
        Change::RunQueue { cpu, len } => format!("run-queue {} {len}", or_unknown(cpu)),
        Change::Scheduler { begins } => {
            format!("scheduler {}", if begins { "begins" } else { "ends" })
        }
        Change::SpanBegin { id, thread } => format!("span {id} by {}", maybe(thread)),
        Change::SpanEnd { id, thread, ends } => {
            format!("span-end {id} by {} ends {ends}", maybe(thread))
        }
        Change::Counter { id, value } => format!("counter {id} {value}"),
        Change::Counted {
            group,
            ran,
            is_whole,
        } => {
            let whole = if is_whole { "" } else { " not whole" };
            let of = or_unknown(ran.call.map(|id| call(machine, id)));
            let (line, begins) = (
                or_unknown(ran.line),
                if ran.begins { " begins" } else { "" },
            );
            let counts = machine.counted();
            format!(
                "counted {group} by {} call {of} irq {line}{begins} {counts:?}{whole}",
                maybe(ran.thread)
            )
        }
        Change::GroupCounted {
            group,
            enabled,
            running,
        } => {
            format!("group {group} {enabled} {running} {:?}", machine.counted())
        }
        Change::OwnCounter {
            cpu,
            counter,
            value,
        } => format!("own {cpu} {counter} {value}"),
        Change::OwnBucket {
            cpu,
            counter,
            bucket,
            count,
        } => {
            format!("bucket {cpu} {counter} {bucket} {count}")
        }
        Change::Mark { id } => format!("mark {id}"),
        Change::SessionEnd {
            recorded,
            discarded,
        } => {
            format!("session-end {recorded} {discarded}")
        }
        Change::Lost { loss, cpu } => format!("lost {loss} of {}", or_unknown(cpu)),
        Change::Regained { loss, not_after } => {
            format!("regained {loss} {}", or_unknown(not_after))
        }
        Change::Contradiction(broken) => {
            let detail = match broken {
                Contradiction::SwitchChain { prev, ran } => format!("{prev} left, {ran} ran"),
                Contradiction::OneCpu { tid, cpu } => format!("{tid} is on {cpu}"),
                Contradiction::AfterEnd { tid } => format!("{tid}"),
                Contradiction::IrqPair { line } => format!("{line}"),
                Contradiction::SyscallPair { ends, began } => {
                    format!("{} in {}", call(machine, ends), call(machine, began))
                }
                Contradiction::LockHeld { lock, free } => {
                    format!("{lock} {}", if free { "free" } else { "another's" })
                }
                Contradiction::ClockStep { ticks } => format!("{ticks}"),
                Contradiction::ClockBehind { count, ticks, .. } => format!("{count} {ticks}"),
                Contradiction::IdleThread(what) => format!("{what:?}").to_lowercase(),
            };
            format!("contradiction {} {detail}", broken.rule())
        }
        _ => panic!("{change:?} has no words"),
    }
}
