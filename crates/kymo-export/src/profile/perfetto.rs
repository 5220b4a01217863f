//! Samples in Perfetto's trace file: a `PerfSample` for each, on a sequence of its own.
//!
//! What a call stack needs (its frames, their functions and mappings) goes with the first sample
//! that has it.

use kymo_profile::{FrameId, ImageId, Mode, Profile, StackId};

use super::Timed;
use crate::proto::Message;

const TRACE_PACKET: u32 = 1;

/// `TracePacket`.
mod packet {
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE_ID: u32 = 10;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const PERF_SAMPLE: u32 = 66;
    pub(super) const SEQ_INCREMENTAL_STATE_CLEARED: u64 = 1;
    pub(super) const SEQ_NEEDS_INCREMENTAL_STATE: u64 = 2;
    /// Of `TracePacketDefaults`, `PerfSampleDefaults` and `PerfEvents.Timebase`.
    pub(super) const PERF_SAMPLE_DEFAULTS: u32 = 12;
    pub(super) const TIMEBASE: u32 = 1;
    pub(super) const PERIOD: u32 = 1;
    pub(super) const TIMEBASE_NAME: u32 = 10;
}

/// `InternedData`, and the messages in it.
mod interned {
    pub(super) const FUNCTION_NAMES: u32 = 5;
    pub(super) const FRAMES: u32 = 6;
    pub(super) const CALLSTACKS: u32 = 7;
    pub(super) const BUILD_IDS: u32 = 16;
    pub(super) const MAPPING_PATHS: u32 = 17;
    pub(super) const MAPPINGS: u32 = 19;
    /// Of every one of them.
    pub(super) const IID: u32 = 1;
    /// Of `InternedString`.
    pub(super) const STRING: u32 = 2;
    /// Of `Frame`.
    pub(super) const FUNCTION_NAME: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const REL_PC: u32 = 4;
    /// Of `Callstack`.
    pub(super) const FRAME_IDS: u32 = 2;
    /// Of `Mapping`.
    pub(super) const BUILD_ID: u32 = 2;
    pub(super) const LOAD_BIAS: u32 = 6;
    pub(super) const PATHS: u32 = 7;
}

/// `PerfSample`.
mod sample {
    pub(super) const CPU: u32 = 1;
    pub(super) const PID: u32 = 2;
    pub(super) const TID: u32 = 3;
    pub(super) const CALLSTACK: u32 = 4;
    pub(super) const CPU_MODE: u32 = 5;
    pub(super) const MODE_KERNEL: u64 = 1;
    pub(super) const MODE_USER: u64 = 2;
}

/// The events are of sequence 1.
const SEQUENCE: u64 = 2;

/// Writes samples as packets.
pub(crate) struct Packets<'a> {
    profile: &'a Profile,
    has_begun: bool,
    images: Vec<bool>,
    functions: Vec<bool>,
    frames: Vec<bool>,
    stacks: Vec<bool>,
    new: Message,
}

/// Whether this is the first time.
fn is_new(seen: &mut [bool], index: usize) -> bool {
    seen.get_mut(index)
        .is_some_and(|seen| !std::mem::replace(seen, true))
}

/// Numbers begin at 1.
fn iid(index: u32) -> u64 {
    u64::from(index) + 1
}

impl<'a> Packets<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Packets<'a> {
        Packets {
            profile,
            has_begun: false,
            images: vec![false; profile.images.len()],
            functions: vec![false; profile.functions.len()],
            frames: vec![false; profile.frames.len()],
            stacks: vec![false; profile.stacks.len()],
            new: Message::default(),
        }
    }

    /// Appends the packet of a sample.
    pub(crate) fn add(&mut self, timed: &Timed<'_>, to: &mut Message) {
        let row = timed.row;
        if let Some(stack) = row
            .stack
            .filter(|stack| is_new(&mut self.stacks, stack.index()))
        {
            self.stack(stack);
        }
        to.message(TRACE_PACKET, |packet| {
            packet.unsigned(packet::TIMESTAMP, timed.at);
            let mut flags = packet::SEQ_NEEDS_INCREMENTAL_STATE;
            if !std::mem::replace(&mut self.has_begun, true) {
                flags |= packet::SEQ_INCREMENTAL_STATE_CLEARED;
                self.defaults(packet);
            }
            packet.unsigned(packet::SEQUENCE_FLAGS, flags);
            if !self.new.bytes().is_empty() {
                packet.message(packet::INTERNED_DATA, |data| data.append(&self.new));
                self.new.clear();
            }
            packet.message(packet::PERF_SAMPLE, |sample| {
                if let Some(cpu) = row.cpu {
                    sample.unsigned(sample::CPU, u64::from(cpu));
                }
                if let Some(thread) = self.profile.thread(row) {
                    sample.unsigned(sample::PID, u64::from(thread.pid.unwrap_or(0) as u32));
                    sample.unsigned(sample::TID, u64::from(thread.tid as u32));
                }
                let mode = match row.mode {
                    Mode::User => sample::MODE_USER,
                    Mode::Kernel | Mode::Idle => sample::MODE_KERNEL,
                };
                sample.unsigned(sample::CPU_MODE, mode);
                if let Some(stack) = row.stack {
                    sample.unsigned(sample::CALLSTACK, iid(stack.0));
                }
            });
            packet.unsigned(packet::SEQUENCE_ID, SEQUENCE);
        });
    }

    /// What all samples have in common.
    fn defaults(&self, packet: &mut Message) {
        packet.message(packet::DEFAULTS, |defaults| {
            defaults.message(packet::PERF_SAMPLE_DEFAULTS, |samples| {
                samples.message(packet::TIMEBASE, |timebase| {
                    if let Some(period) = self.profile.period {
                        timebase.unsigned(packet::PERIOD, period);
                    }
                    timebase.text(packet::TIMEBASE_NAME, "samples");
                });
            });
        });
    }

    /// Adds a stack and what it needs.
    fn stack(&mut self, id: StackId) {
        let mut frames = Vec::new();
        let mut next = Some(id);
        while let Some(stack) = next.and_then(|id| self.profile.stacks.get(id.index())) {
            frames.push(stack.frame);
            next = stack.parent;
        }
        for &frame in &frames {
            if is_new(&mut self.frames, frame.index()) {
                self.frame(frame);
            }
        }
        self.new.message(interned::CALLSTACKS, |callstack| {
            callstack.unsigned(interned::IID, iid(id.0));
            // The outermost first.
            for frame in frames.iter().rev() {
                callstack.unsigned(interned::FRAME_IDS, iid(frame.0));
            }
        });
    }

    fn frame(&mut self, id: FrameId) {
        let profile = self.profile;
        let Some(frame) = profile.frames.get(id.index()) else {
            return;
        };
        let function = profile.function(frame);
        let image = function.and_then(|function| function.image);
        if let Some(image) = image.filter(|image| is_new(&mut self.images, image.index())) {
            self.image(image);
        }
        if is_new(&mut self.functions, frame.function.index()) {
            self.string(
                interned::FUNCTION_NAMES,
                iid(frame.function.0),
                profile.name(frame),
            );
        }
        let bias = image
            .and_then(|image| profile.images.get(image.index()))
            .map_or(0, |image| image.bias);
        self.new.message(interned::FRAMES, |message| {
            message.unsigned(interned::IID, iid(id.0));
            message.unsigned(interned::FUNCTION_NAME, iid(frame.function.0));
            // Readers drop frames without a mapping.
            message.unsigned(interned::MAPPING, image.map_or(0, |image| iid(image.0)));
            message.unsigned(interned::REL_PC, frame.address.wrapping_sub(bias));
        });
    }

    fn image(&mut self, id: ImageId) {
        let Some(image) = self.profile.images.get(id.index()) else {
            return;
        };
        let number = iid(id.0);
        self.string(interned::MAPPING_PATHS, number, &image.name);
        self.string(interned::BUILD_IDS, number, &image.build_id);
        self.new.message(interned::MAPPINGS, |mapping| {
            mapping.unsigned(interned::IID, number);
            mapping.unsigned(interned::BUILD_ID, number);
            mapping.unsigned(interned::LOAD_BIAS, image.bias);
            mapping.unsigned(interned::PATHS, number);
        });
    }

    fn string(&mut self, table: u32, number: u64, text: &str) {
        self.new.message(table, |entry| {
            entry.unsigned(interned::IID, number);
            entry.text(interned::STRING, text);
        });
    }
}
