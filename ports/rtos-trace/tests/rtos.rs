//! What an RTOS says through the crate rtos-trace, and what is recorded of it.
#![cfg(target_pointer_width = "64")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../crates/kymo/tests/thread_cpu/mod.rs"]
mod thread_cpu;

use kymo::platform::Masked;
use kymo::{Clock, Config, History, Tid, Tracer};
use kymo_rtos_trace::{Port, Table, Tasks};
use rtos_trace::{TaskInfo, trace};
use thread_cpu::{BLOCK, NoInterrupts, OneThread, leaked};

type Board = OneThread<Masked<NoInterrupts>, 1>;
// port: begin
type Trace = kymo_rtos_trace::Trace<Board>;

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![kymo_rtos_trace::EVENTS;];

impl Port for Board {
    type Interrupts = NoInterrupts;
    fn tasks() -> &'static Tasks {
        static TASKS: Table<4> = Table::new();
        &TASKS
    }
}

rtos_trace::global_trace! { Trace }
// port: end

/// Another board, with room for two tasks.
type Small = OneThread<Masked<NoInterrupts>, 2>;

impl Port for Small {
    type Interrupts = NoInterrupts;
    fn tasks() -> &'static Tasks {
        static TASKS: Table<2> = Table::new();
        &TASKS
    }
}

/// The records that `act` makes, a line each, without times, and without the fields that are always
/// the same here.
fn recorded<P: Port>(act: impl FnOnce()) -> Vec<String> {
    let memory = leaked(64 << 10, 1);
    let config = Config {
        clock: Clock::at(1_000_000),
        packets: 8,
        names_packets: 4,
        ..Config::DEFAULT
    };
    let session = Tracer::<P>::start(memory, &config, &VOCABULARY).unwrap();
    BLOCK.set(memory.control(0));
    act();
    let mut text = String::new();
    let history = History::new(memory, &VOCABULARY);
    history.dump(&mut text, 1000).unwrap();
    session.stop().unwrap();
    let same = [
        " pid=0",
        " next_prio=0",
        " target_cpu=4294967295",
        " prio=0",
    ];
    let event = |line: &str| {
        // The time, the CPU, and the thread in brackets, if one is known.
        let line = line.split_once(" cpu0 ")?.1;
        let line = line.split_once("] ").map_or(line, |(_, event)| event);
        let line = same
            .iter()
            .fold(line.to_owned(), |line, field| line.replace(field, ""));
        Some(line)
    };
    text.lines().filter_map(event).collect()
}

fn info(name: &'static str) -> TaskInfo {
    TaskInfo {
        name,
        priority: 1,
        stack_base: 0,
        stack_size: 0,
    }
}

#[test]
fn what_an_rtos_says_is_recorded() {
    let lines = recorded::<Board>(|| {
        trace::start();
        trace::task_new(1);
        trace::task_send_info(1, info("one\0"));
        trace::task_new_stackless(2, "two", 5);
        trace::task_ready_begin(1);
        trace::task_exec_begin(1);
        trace::isr_enter();
        trace::task_ready_begin(2);
        trace::isr_exit_to_scheduler();
        // Two is more urgent, and then waits.
        trace::task_exec_begin(2);
        trace::name_marker(7, "lap");
        trace::marker_begin(7);
        trace::marker_end(7);
        trace::marker(8);
        trace::task_ready_end(2);
        // One is woken while it runs, and runs again at once.
        trace::task_exec_begin(1);
        trace::task_ready_begin(1);
        trace::task_exec_end();
        trace::task_exec_begin(1);
        trace::task_exec_end();
        trace::system_idle();
        trace::system_idle();
        trace::isr_enter();
        trace::task_ready_begin(2);
        trace::isr_exit();
        trace::task_exec_begin(2);
        trace::task_terminate(2);
        trace::task_exec_end();
        trace::system_idle();
        // It is woken, and looked at, after its end.
        trace::task_ready_begin(2);
        trace::task_exec_begin(2);
        trace::task_exec_end();
        trace::system_idle();
        trace::stop();
    });
    let expected = "\
thread_create tid=1 (one) parent_tid=0
thread_name tid=1 name=\"one\"
thread_create tid=2 (two) parent_tid=0
thread_name tid=2 name=\"two\"
sched_wakeup_new tid=1 (one) waker_tid=4294967295
sched_switch prev_tid=0 next_tid=1 (one) prev_state=Runnable reason=Idle
irq_handler_entry irq=0
sched_wakeup_new tid=2 (two) waker_tid=4294967295
irq_handler_exit irq=0
sched_switch prev_tid=1 (one) next_tid=2 (two) prev_state=Runnable reason=Preempted
user_name id=7 name=\"lap\"
span_begin id=7 (lap)
span_end id=7 (lap)
mark id=8 value=0
sched_switch prev_tid=2 (two) next_tid=1 (one) prev_state=Blocked reason=Waits
sched_switch prev_tid=1 (one) next_tid=1 (one) prev_state=Runnable reason=Yielded
sched_switch prev_tid=1 (one) next_tid=0 prev_state=Blocked reason=Waits
irq_handler_entry irq=0
sched_wakeup tid=2 (two) waker_tid=4294967295
irq_handler_exit irq=0
sched_switch prev_tid=0 next_tid=2 (two) prev_state=Runnable reason=Idle
thread_exit tid=2 (two) prev_state=Runnable
sched_switch prev_tid=2 (two) next_tid=0 prev_state=Ended reason=Ended";
    assert_eq!(lines.join("\n"), expected);
}

/// Executors that interrupt each other, as Embassy has them; and more tasks than the table has room
/// for.
#[test]
fn what_an_executor_interrupts_goes_on() {
    let tasks = Small::tasks();
    let lines = recorded::<Small>(|| {
        let (one, two, three) = (Tid(1), Tid(2), Tid(3));
        for (tid, name) in [(one, "one"), (two, "two"), (three, "three")] {
            tasks.named::<Small>(tid, name);
            tasks.created::<Small>(tid);
            tasks.ready::<Small>(tid);
        }
        tasks.executor_begins::<Small>();
        tasks.begins::<Small>(one);
        // In the middle of one, which is woken meanwhile.
        tasks.executor_begins::<Small>();
        tasks.begins::<Small>(two);
        tasks.ready::<Small>(one);
        tasks.stops::<Small>();
        tasks.idle::<Small>();
        // Nothing to do there.
        tasks.executor_begins::<Small>();
        tasks.idle::<Small>();
        tasks.stops::<Small>();
        // Between two tasks: the first is left.
        tasks.executor_begins::<Small>();
        tasks.begins::<Small>(three);
        tasks.stops::<Small>();
        tasks.idle::<Small>();
        tasks.begins::<Small>(one);
        tasks.ended::<Small>(one);
        tasks.stops::<Small>();
        // Its memory is another task's at once.
        tasks.created::<Small>(one);
        tasks.idle::<Small>();
        tasks.dump::<Small>();
    });
    let expected = "\
thread_create tid=1 (one) parent_tid=0
thread_name tid=1 name=\"one\"
sched_wakeup_new tid=1 (one) waker_tid=4294967295
thread_create tid=2 (two) parent_tid=0
thread_name tid=2 name=\"two\"
sched_wakeup_new tid=2 (two) waker_tid=4294967295
thread_create tid=3 parent_tid=0
sched_wakeup tid=3 waker_tid=4294967295
sched_switch prev_tid=0 next_tid=1 (one) prev_state=Runnable reason=Idle
sched_switch prev_tid=1 (one) next_tid=2 (two) prev_state=Runnable reason=Preempted
sched_switch prev_tid=2 (two) next_tid=1 (one) prev_state=Blocked reason=Waits
sched_switch prev_tid=1 (one) next_tid=3 prev_state=Runnable reason=Yielded
sched_switch prev_tid=3 next_tid=0 prev_state=Blocked reason=Waits
sched_switch prev_tid=0 next_tid=1 (one) prev_state=Runnable reason=Idle
thread_exit tid=1 (one) prev_state=Runnable
sched_switch prev_tid=1 (one) next_tid=0 prev_state=Ended reason=Ended
thread_create tid=1 (one) parent_tid=0
thread_name tid=1 name=\"one\"
thread_state tid=1 state=Blocked cpu=4294967295 name=\"one\"
thread_state tid=2 state=Blocked cpu=4294967295 name=\"two\"";
    assert_eq!(lines.join("\n"), expected);
}
