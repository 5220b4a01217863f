//! An up-buffer that the target fills while a host empties it on another processor.

use super::*;
use crate::ring::models::explore;
use crate::transport::{Sender, Sent, WhenFull};
use crate::wire::{self, Arrived};

/// A block with one up-buffer of this size. It stays for ever, as on a target.
fn start(size: usize, watched: &[usize]) -> (Up<'static>, Host) {
    let memory: Vec<AtomicU8> = (0..size).map(|_| AtomicU8::new(0xaa)).collect();
    let memory: &'static [AtomicU8] = memory.leak();
    let [up] = Box::leak(Box::new(Rtt::<1>::new())).start([("Kymo", memory)]);
    for &at in watched {
        memory[at].watch();
    }
    up.block.write.watch();
    up.block.read.watch();
    let host = Host {
        block: up.block,
        memory,
        received: Vec::new(),
    };
    (up, host)
}

/// The host's end, by SEGGER's rules.
struct Host {
    block: &'static UpBlock,
    memory: &'static [AtomicU8],
    received: Vec<u8>,
}

impl Host {
    fn looks(&mut self) {
        let write = self.block.write.load(Ordering::Acquire) as usize;
        let mut read = self.block.read.load(Ordering::Relaxed) as usize;
        while read != write {
            self.received
                .push(self.memory[read].load(Ordering::Relaxed));
            read = (read + 1) % self.memory.len();
        }
        self.block.read.store(read as u32, Ordering::Release);
    }
}

/// What was taken arrives, in order, and nothing else: no byte is lost, torn off or repeated.
#[test]
fn what_an_up_buffer_takes_arrives_once_and_in_order() {
    // Three bytes fit; the second and the third offer wrap around.
    explore("up-buffer, bytes", 3, || {
        let (mut up, mut host) = start(4, &[0, 1, 2, 3]);
        let reader = loom::thread::spawn(move || {
            host.looks();
            host.looks();
            host
        });
        let (mut taken, mut next) = (Vec::new(), 1);
        for _ in 0..3 {
            let bytes = [next, next + 1];
            let took = up.offer(&bytes);
            taken.extend(&bytes[..took]);
            next += took as u8;
        }
        assert!(taken.len() >= 3, "there was room for three");
        let mut host = reader.join().unwrap();
        host.looks();
        assert_eq!(host.received, taken);
    });
}

/// Sends three frames where there is room for one; checks what arrives against what is counted.
fn sends(name: &'static str, when_full: WhenFull, check: fn(Sent)) {
    // The first byte of a frame and the last, wherever it begins.
    explore(name, 3, move || {
        let (up, mut host) = start(40, &[0, 12, 25, 26, 37]);
        let reader = loom::thread::spawn(move || {
            host.looks();
            host.looks();
            host
        });
        let mut sender = Sender::new(up, when_full, 64);
        for number in 0..3u8 {
            let _ = sender.data(1, &[number, !number]);
        }
        let sent = sender.sent();
        let mut host = reader.join().unwrap();
        host.looks();
        let (mut rest, mut frames) = (&host.received[..], 0);
        while let Arrived::Frame(frame) = wire::parse(rest) {
            let number = frame.number as u8;
            assert_eq!(frame.payload, [number, !number]);
            rest = &rest[wire::HEADER_LEN + 2..];
            frames += 1;
        }
        assert!(rest.is_empty(), "a frame is damaged: {rest:?}");
        assert_eq!(sent.frames, frames);
        assert_eq!(sent.bytes, 26 * frames);
        assert_eq!(sent.frames + sent.dropped_frames, 3);
        assert_eq!(sent.dropped_bytes, 26 * sent.dropped_frames);
        check(sent);
    });
}

#[test]
fn frames_are_received_or_counted() {
    sends("up-buffer, drop", WhenFull::Drop, |sent| {
        assert_eq!(sent.waits, 0);
    });
}

#[test]
fn waits_are_bounded_and_counted() {
    let wait = |masked| WhenFull::Wait {
        attempts: 2,
        masked,
    };
    sends("up-buffer, wait", wait(|| false), |sent| {
        // Two frames may find it full, and a frame is dropped only after all its attempts.
        assert!(sent.waits <= 4 && sent.waits >= 2 * sent.dropped_frames);
    });
    sends("up-buffer, masked", wait(|| true), |sent| {
        assert_eq!(sent.waits, 0);
    });
}
