//! Messages through ports and queues, and bytes through pipes.
//!
//! A port keeps a few messages. If its receiver waits and nothing more urgent is ready, the sender
//! hands it the message and the hart directly: the fast path, past the queues of port and
//! scheduler.

use kymo::vocabulary::{
    IpcPath, IpcReceive, IpcSend, Object, PipeRead, PipeWrite, QueueReceive, QueueSend,
    SwitchReason,
};
use kymo::{Tid, count};

use crate::abi::Error;
use crate::counters::IpcMessages;
use crate::queue::{Queue, Side};
use crate::sched::{Guard, SCHEDULER, Scheduler, hand_over, settle, switch};
use crate::thread::{Slot, State};

/// Number of ports, of pipes, and of queues.
const PORTS: usize = 8;
const PIPES: usize = 8;
const QUEUES: usize = 2;
/// Everything at which threads wait: ports, then pipes, then queues.
const PLACES: usize = PORTS + PIPES + QUEUES;
/// Capacity of a port or queue in messages, and of a pipe in bytes.
const MESSAGES: usize = 4;
const BYTES: usize = 64;

/// A message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    value: u64,
    from: Tid,
    path: IpcPath,
}

const NO_MESSAGE: Message = Message {
    value: 0,
    from: Tid(0),
    path: IpcPath::Slow,
};

/// A FIFO buffer.
#[derive(Debug)]
struct Ring<T, const N: usize> {
    items: [T; N],
    first: usize,
    len: usize,
}

impl<T: Copy, const N: usize> Ring<T, N> {
    const fn new(nothing: T) -> Ring<T, N> {
        Ring {
            items: [nothing; N],
            first: 0,
            len: 0,
        }
    }

    /// Appends a value, if there is room.
    fn push(&mut self, item: T) -> bool {
        if self.len == N {
            return false;
        }
        self.items[(self.first + self.len) % N] = item;
        self.len += 1;
        true
    }

    fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        let item = self.items[self.first];
        self.first = (self.first + 1) % N;
        Some(item)
    }
}

/// Threads that wait at one of them, by what they wait for.
#[derive(Debug)]
struct Waiters {
    full: Queue,
    empty: Queue,
}

/// The condition for which a thread waits at a port, pipe or queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// There is data.
    Taker,
    /// There is room.
    Giver,
}

/// All ports, pipes and queues; the scheduler's lock guards them.
#[derive(Debug)]
pub struct Ipc {
    ports: [Ring<Message, MESSAGES>; PORTS],
    pipes: [Ring<u8, BYTES>; PIPES],
    queues: [Ring<u64, MESSAGES>; QUEUES],
    waiters: [Waiters; PLACES],
}

impl Ipc {
    pub const fn new() -> Ipc {
        Ipc {
            ports: [const { Ring::new(NO_MESSAGE) }; PORTS],
            pipes: [const { Ring::new(0) }; PIPES],
            queues: [const { Ring::new(0) }; QUEUES],
            waiters: [const {
                Waiters {
                    full: Queue::new(),
                    empty: Queue::new(),
                }
            }; PLACES],
        }
    }

    /// Id of a port, pipe or queue in the trace.
    fn object(&self, place: usize) -> Object {
        Object(&raw const self.waiters[place] as u64)
    }

    fn waiting(&mut self, place: usize, end: End) -> &mut Queue {
        let waiters = &mut self.waiters[place];
        if end == End::Taker {
            &mut waiters.empty
        } else {
            &mut waiters.full
        }
    }
}

impl Scheduler {
    /// Removes a thread from those that wait at its port, pipe or queue. False if it does not wait
    /// at one.
    pub fn stop_waiting(&mut self, slot: Slot) -> bool {
        let Some((place, end)) = self.threads[slot].waits_at.take() else {
            return false;
        };
        self.ipc.waiting(place, end).remove(&mut self.threads, slot);
        true
    }

    /// Wakes the first waiting thread, if any.
    fn wake_one(&mut self, place: usize, end: End) {
        let waker = self.running().tid;
        if let Some(slot) = self.ipc.waiting(place, end).pop(&mut self.threads) {
            self.threads[slot].waits_at = None;
            self.wake(slot, waker);
        }
    }
}

/// Waits until a port, pipe or queue changes. An error if the thread's process was killed.
fn wait(mut scheduler: Guard, place: usize, end: End) -> Result<(), Error> {
    let sched = &mut *scheduler;
    let me = sched.running_slot();
    if sched.threads[me].killed {
        return Err(Error::Interrupted);
    }
    sched.threads[me].waits_at = Some((place, end));
    sched
        .ipc
        .waiting(place, end)
        .insert(&mut sched.threads, me, Side::Behind);
    switch(scheduler, SwitchReason::Waits, State::Blocked);
    Ok(())
}

/// Sends a message; waits while the port is full.
pub fn send(port: usize, value: u64) -> Result<(), Error> {
    if port >= PORTS {
        return Err(Error::Invalid);
    }
    loop {
        let mut scheduler = SCHEDULER.lock();
        let sched = &mut *scheduler;
        let (object, from, len) = (
            sched.ipc.object(port),
            sched.running().tid,
            size_of::<u64>() as u32,
        );
        let receiver = sched.ipc.waiting(port, End::Taker).first();
        if let Some(receiver) = receiver.filter(|&receiver| sched.may_hand_over(receiver)) {
            let path = IpcPath::Fast;
            sched.stop_waiting(receiver);
            sched.threads[receiver].message = Some(Message { value, from, path });
            count!(IpcMessages);
            record!(IpcSend {
                port: object,
                target_tid: sched.threads[receiver].tid,
                len,
                path
            });
            hand_over(scheduler, receiver);
            return Ok(());
        }
        let path = IpcPath::Slow;
        if sched.ipc.ports[port].push(Message { value, from, path }) {
            count!(IpcMessages);
            record!(IpcSend {
                port: object,
                target_tid: receiver.map_or(Tid(0), |slot| sched.threads[slot].tid),
                len,
                path
            });
            sched.wake_one(port, End::Taker);
            settle(scheduler);
            return Ok(());
        }
        wait(scheduler, port, End::Giver)?;
    }
}

/// Waits for a message.
pub fn receive(port: usize) -> Result<u64, Error> {
    if port >= PORTS {
        return Err(Error::Invalid);
    }
    loop {
        let mut scheduler = SCHEDULER.lock();
        let sched = &mut *scheduler;
        let given = sched.running_mut().message.take();
        if let Some(Message { value, from, path }) = given.or_else(|| sched.ipc.ports[port].pop()) {
            record!(IpcReceive {
                port: sched.ipc.object(port),
                source_tid: from,
                len: size_of::<u64>() as u32,
                path
            });
            sched.wake_one(port, End::Giver);
            settle(scheduler);
            return Ok(value);
        }
        wait(scheduler, port, End::Taker)?;
    }
}

/// Writes as many bytes as fit into a pipe, and gives their number; waits while it is full.
pub fn write(pipe: usize, bytes: &[u8]) -> Result<usize, Error> {
    if pipe >= PIPES || bytes.is_empty() {
        return Err(Error::Invalid);
    }
    loop {
        let mut scheduler = SCHEDULER.lock();
        let ring = &mut scheduler.ipc.pipes[pipe];
        let written = bytes.iter().take_while(|&&byte| ring.push(byte)).count();
        if written > 0 {
            record!(PipeWrite {
                pipe: scheduler.ipc.object(PORTS + pipe),
                len: written as u32
            });
            scheduler.wake_one(PORTS + pipe, End::Taker);
            settle(scheduler);
            return Ok(written);
        }
        wait(scheduler, PORTS + pipe, End::Giver)?;
    }
}

/// Reads the available bytes of a pipe, and gives their number; waits while it is empty.
pub fn read(pipe: usize, bytes: &mut [u8]) -> Result<usize, Error> {
    if pipe >= PIPES || bytes.is_empty() {
        return Err(Error::Invalid);
    }
    loop {
        let mut scheduler = SCHEDULER.lock();
        let ring = &mut scheduler.ipc.pipes[pipe];
        let read = bytes
            .iter_mut()
            .map_while(|byte| ring.pop().map(|item| *byte = item))
            .count();
        if read > 0 {
            record!(PipeRead {
                pipe: scheduler.ipc.object(PORTS + pipe),
                len: read as u32
            });
            scheduler.wake_one(PORTS + pipe, End::Giver);
            settle(scheduler);
            return Ok(read);
        }
        wait(scheduler, PORTS + pipe, End::Taker)?;
    }
}

/// Puts a message into a queue of the kernel; waits while it is full.
pub fn put(queue: usize, value: u64) -> Result<(), Error> {
    let place = PORTS + PIPES + queue;
    loop {
        let mut scheduler = SCHEDULER.lock();
        if scheduler.ipc.queues[queue].push(value) {
            record!(QueueSend {
                queue: scheduler.ipc.object(place),
                depth: scheduler.ipc.queues[queue].len as u32
            });
            scheduler.wake_one(place, End::Taker);
            settle(scheduler);
            return Ok(());
        }
        wait(scheduler, place, End::Giver)?;
    }
}

/// Takes a message out of a queue of the kernel; waits while it is empty.
pub fn take(queue: usize) -> Result<u64, Error> {
    let place = PORTS + PIPES + queue;
    loop {
        let mut scheduler = SCHEDULER.lock();
        if let Some(value) = scheduler.ipc.queues[queue].pop() {
            record!(QueueReceive {
                queue: scheduler.ipc.object(place),
                depth: scheduler.ipc.queues[queue].len as u32
            });
            scheduler.wake_one(place, End::Giver);
            settle(scheduler);
            return Ok(value);
        }
        wait(scheduler, place, End::Taker)?;
    }
}
