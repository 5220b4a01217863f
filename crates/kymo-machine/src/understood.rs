//! The table of events that the model understands.

use kymo::ChannelKind;
use kymo::event::{Event, FieldSchema};
use kymo::vocabulary::{
    ClockBack, ClockStep, CountedEvent, Counter, CounterValue, EventCount, FrameAlloc, FrameFree,
    GaugeValue, GroupCount, HistogramValue, IpcReceive, IpcSend, IrqEnter, IrqExit, IrqName,
    LockAcquired, LockFailed, LockName, LockReleased, LockStateDump, LockWait, Mark, PageFault,
    PipeRead, PipeWrite, ProcessExec, ProcessExit, ProcessFork, ProcessName, ProcessStateDump,
    QueueReceive, QueueSend, RunQueue, SchedEnter, SchedExit, SchedPriority, SchedSwitch,
    SchedWakeup, SchedWakeupNew, SessionEnd, SpanBegin, SpanEnd, SyscallEnter, SyscallExit,
    SyscallName, ThreadCreate, ThreadExit, ThreadName, ThreadResume, ThreadState, ThreadStateDump,
    ThreadSuspend, UserName,
};
use kymo_ctf::EventRef;

use crate::change::{Change, Contradiction, Named};
use crate::irq::IrqLine;
use crate::lock::Attempt;
use crate::machine::{At, Machine, known};

/// Makes the enum of the events in the table, and the machine's call that does what each means.
macro_rules! understood {
    ($machine:ident, $at:ident: $($event:ident($view:pat) => $act:expr,)*) => {
        /// Events of the vocabulary that change the model.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Understood { $($event),* }

        impl Understood {
            /// The event of this name in a trace.
            pub(crate) fn of(name: &str) -> Option<Understood> {
                match name {
                    $(name if name == <$event as Event>::SCHEMA.name => Some(Understood::$event),)*
                    _ => None,
                }
            }

            /// The event's name in the vocabulary.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Understood::$event => <$event as Event>::SCHEMA.name),* }
            }

            /// The declared fields.
            pub(crate) fn fields(self) -> &'static [FieldSchema] {
                match self { $(Understood::$event => <$event as Event>::SCHEMA.fields),* }
            }

            /// Whether it reports a name or a state, and no action.
            pub(crate) fn is_name(self) -> bool {
                matches!(
                    match self { $(Understood::$event => <$event as Event>::CHANNEL),* },
                    ChannelKind::Names
                )
            }
        }

        impl Machine {
            /// Names in the vocabulary of what an event amounts to; none for an event that the
            /// machine does not understand.
            pub fn amounts_to(&self, event: &EventRef<'_>) -> impl Iterator<Item = &'static str> {
                let meanings = self.class(event).map(|class| class.meanings.iter());
                let meanings = meanings.into_iter().flatten();
                meanings.filter(|of| of.holds(event)).map(|of| of.event.name())
            }

            #[inline]
            pub(crate) fn apply(&mut self, event: Understood, at: &At<'_, '_>) {
                let ($machine, $at) = (self, at);
                match event {
                    $(Understood::$event => {
                        let $view = <$event as Event>::view($at);
                        $act;
                    })*
                }
            }
        }
    };
}

understood! { machine, at:
    SchedSwitch(e) => machine.switch(
        (e.prev_tid(), e.next_tid()), (e.prev_state(), e.reason()), e.next_prio(), at
    ),
    IrqEnter(e) => machine.irq_enter(e.irq(), at),
    IrqExit(e) => machine.irq_exit(e.irq(), at),
    SchedWakeup(e) => machine.wakeup(e.tid(), e.waker_tid(), at),
    SchedWakeupNew(e) => machine.wakeup(e.tid(), e.waker_tid(), at),
    SyscallEnter(e) => machine.call_enter(e.id(), at),
    SyscallExit(e) => machine.call_exit(e.id(), e.ret(), at),
    LockWait(e) => machine.lock_wait(e.lock(), e.owner_tid(), e.kind(), at),
    LockAcquired(e) => {
        let contended = e.contended().unwrap_or(false);
        machine.lock(Attempt::Acquired { contended }, e.lock(), e.kind(), at)
    },
    LockReleased(e) => machine.lock(Attempt::Released, e.lock(), e.kind(), at),
    LockFailed(e) => machine.lock(Attempt::Failed, e.lock(), e.kind(), at),
    PageFault(e) => {
        let thread = machine.current(at.cpu);
        machine.change(Change::Fault { thread, user: e.user(), cause: e.cause() })
    },
    FrameAlloc(e) => if let Some(frames) = e.order().and_then(frames) {
        machine.change(Change::Frames { allocated: frames })
    },
    FrameFree(e) => if let Some(frames) = e.order().and_then(frames) {
        machine.change(Change::Frames { allocated: frames.saturating_neg() })
    },
    IpcSend(e) => machine.message("ipc", true, e.path(), e.len()),
    IpcReceive(e) => machine.message("ipc", false, e.path(), e.len()),
    PipeWrite(e) => machine.message("pipe", true, None, e.len()),
    PipeRead(e) => machine.message("pipe", false, None, e.len()),
    QueueSend(_) => machine.message("queue", true, None, None),
    QueueReceive(_) => machine.message("queue", false, None, None),
    SchedEnter(_) => machine.change(Change::Scheduler { begins: true }),
    SchedExit(_) => machine.change(Change::Scheduler { begins: false }),
    SpanBegin(e) => machine.span(e.id(), true, at),
    SpanEnd(e) => machine.span(e.id(), false, at),
    Counter(e) => if let (Some(id), Some(value)) = (e.id(), e.value()) {
        machine.change(Change::Counter { id, value })
    },
    CounterValue(e) => if let (Some(cpu), Some(counter), Some(value)) =
        (e.cpu(), e.counter(), e.value())
    {
        let value = value.cast_signed();
        machine.change(Change::OwnCounter { cpu, counter, value })
    },
    GaugeValue(e) => if let (Some(cpu), Some(counter), Some(value)) =
        (e.cpu(), e.counter(), e.value())
    {
        machine.change(Change::OwnCounter { cpu, counter, value })
    },
    HistogramValue(e) => machine.histogram(
        (e.cpu(), e.counter()), e.sum(), e.first(), e.buckets()
    ),
    Mark(e) => machine.change(Change::Mark { id: e.id().unwrap_or(0) }),
    ThreadCreate(e) => machine.create(e.tid(), e.pid(), e.prio(), at),
    ThreadExit(e) => machine.exit(e.tid(), e.pid(), at),
    ThreadSuspend(e) => machine.suspend(true, e.tid(), at),
    ThreadResume(e) => machine.suspend(false, e.tid(), at),
    SchedPriority(e) => machine.priority(e.tid(), e.newprio(), at),
    RunQueue(e) => if let (Some(cpu), Some(len)) = (e.cpu(), e.len()) {
        machine.change(Change::RunQueue { cpu: known(cpu), len })
    },
    ProcessFork(e) => {
        let parent = e.parent_pid();
        machine.fork(parent, e.child_pid(), e.child_tid(), at)
    },
    ProcessExit(e) => machine.process_exit(e.pid(), e.tid(), at),
    ProcessExec(e) => machine.exec(e.pid(), e.tid(), e.filename(), at),
    ThreadName(e) => machine.thread_name(e.tid(), e.name(), Dumped::default(), at),
    ThreadStateDump(e) => {
        let cpu = e.cpu().and_then(known);
        let dumped = Dumped { pid: e.pid(), prio: e.prio(), state: e.state(), cpu };
        machine.thread_name(e.tid(), e.name(), dumped, at)
    },
    ProcessName(e) => machine.process_name(e.pid(), e.name()),
    ProcessStateDump(e) => machine.process_name(e.pid(), e.name()),
    LockName(e) => machine.lock_name(e.lock(), e.name(), e.kind()),
    LockStateDump(e) => machine.lock_held(e.lock(), e.owner_tid(), e.kind(), at),
    IrqName(e) => if let (Some(irq), Some(name)) = (e.irq(), e.name()) {
        let line = IrqLine(irq);
        machine.rename(|machine| &mut machine.irqs, irq, &name, Named::Irq(line))
    },
    SyscallName(e) => if let (Some(id), Some(name)) = (e.id(), e.name()) {
        let call = machine.calls.number(id);
        machine.calls.rename(call, &name);
        machine.change(Change::Named(Named::Call(call)))
    },
    CountedEvent(e) => {
        let place = (e.place(), e.events());
        machine.counted_event((e.group(), e.groups()), place, e.name().as_deref());
    },
    GroupCount(e) => {
        let times = (e.time_enabled(), e.time_running());
        machine.group_count(e.group(), times, e.counts(), at);
    },
    EventCount(e) => {
        machine.event_count(e.event(), e.group(), e.turns(), e.counts(), at);
    },
    SessionEnd(e) => if let (Some(recorded), Some(discarded)) = (e.recorded(), e.discarded()) {
        machine.change(Change::SessionEnd { recorded, discarded })
    },
    ClockStep(e) => {
        machine.contradict(Contradiction::ClockStep { ticks: e.ticks().unwrap_or(0) });
    },
    ClockBack(e) => {
        let (count, ticks) = (e.count().unwrap_or(0), e.ticks().unwrap_or(0));
        machine.contradict(Contradiction::ClockBehind { channel: e.channel(), count, ticks });
    },
    UserName(e) => if let (Some(id), Some(name)) = (e.id(), e.name()) {
        machine.rename(|machine| &mut machine.users, id, &name, Named::User(id))
    },
}

/// A thread's fields in a state dump, except its name.
#[derive(Default)]
pub(crate) struct Dumped {
    pub(crate) pid: Option<u64>,
    pub(crate) prio: Option<i64>,
    pub(crate) state: Option<ThreadState>,
    pub(crate) cpu: Option<u64>,
}

/// Number of frames of an order; `None` of one that no machine has.
fn frames(order: u64) -> Option<i64> {
    let frames = 1_i64.checked_shl(u32::try_from(order).ok()?)?;
    (frames > 0).then_some(frames)
}
