//! From samples to a [`Profile`].

use std::sync::Arc;

use kymo_ctf::{Attributes, ClockClass};
use rustc_hash::FxHashMap;

use super::{Frequency, Sample};
use crate::profile::{
    Coverage, Frame, FrameId, FunctionId, ImageId, Mode, Profile, ProfileFunction, ProfileImage,
    Row, Stack, StackId, Thread,
};

/// Collects samples. Memory grows with their number: 16 bytes for each, and with their distinct
/// stacks.
#[derive(Debug, Default)]
pub struct Builder {
    frequency: Option<Frequency>,
    profile: Profile,
    /// The image of the kernel has no name here.
    images: FxHashMap<Option<Arc<str>>, ImageId>,
    functions: FxHashMap<(Arc<str>, ImageId, Option<u64>), FunctionId>,
    frames: FxHashMap<(FunctionId, u64), FrameId>,
    stacks: FxHashMap<(Option<StackId>, FrameId), StackId>,
    threads: FxHashMap<Arc<str>, u32>,
    rows: FxHashMap<(u32, u32, Option<StackId>, Mode), u32>,
}

impl Builder {
    /// A builder for counters of this frequency. Without it, the profile has no clock, and its
    /// times are ticks.
    pub fn new(frequency: Option<Frequency>) -> Builder {
        Builder {
            frequency,
            ..Builder::default()
        }
    }

    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample<'_>) {
        let mut stack = None;
        for frame in sample.frames.iter().rev() {
            let image = self.image((!frame.is_kernel).then_some(sample.context));
            let begin = frame.function.map(|function| function.address);
            let function = self.function(&frame.name(), image, begin);
            let frame = self.frame(function, frame.address, frame.is_kernel);
            stack = Some(self.stack(stack, frame));
        }
        let mode = match sample.is_kernel {
            true => Mode::Kernel,
            false => Mode::User,
        };
        let row = self.row(sample, stack, mode);
        if let Some(row) = self.profile.rows.get_mut(row as usize) {
            row.weight += 1;
        }
        let time = match self.frequency {
            Some(frequency) => frequency.time(sample.ticks, 1_000_000_000),
            None => u128::from(sample.ticks),
        };
        let time_ns = i64::try_from(time).unwrap_or(i64::MAX);
        self.profile.samples.push(crate::Sample { time_ns, row });
        self.profile.totals.kept += 1;
    }

    fn row(&mut self, sample: &Sample<'_>, stack: Option<StackId>, mode: Mode) -> u32 {
        let thread = self.thread(sample.name);
        let rows = &mut self.profile.rows;
        let key = (thread, sample.cpu, stack, mode);
        *self.rows.entry(key).or_insert_with(|| {
            rows.push(Row {
                thread: Some(thread),
                cpu: Some(sample.cpu),
                stack,
                mode,
                weight: 0,
                ticks: 0,
            });
            rows.len() as u32 - 1
        })
    }

    fn thread(&mut self, name: &str) -> u32 {
        if let Some(thread) = self.threads.get(name) {
            return *thread;
        }
        let (name, thread) = (Arc::from(name), self.profile.threads.len() as u32);
        self.threads.insert(Arc::clone(&name), thread);
        self.profile.threads.push(Thread {
            tid: Thread::NO_NUMBER,
            name: Some(name),
            ..Thread::default()
        });
        thread
    }

    fn image(&mut self, context: Option<&str>) -> ImageId {
        let images = &mut self.profile.images;
        *self
            .images
            .entry(context.map(Arc::from))
            .or_insert_with(|| {
                images.push(ProfileImage {
                    name: Arc::from(context.unwrap_or("kernel")),
                    is_kernel: context.is_none(),
                    build_id: String::new(),
                    has_file: true,
                    bias: 0,
                    damage: None,
                    coverage: Coverage::default(),
                });
                ImageId::next(images.len() - 1)
            })
    }

    fn function(&mut self, name: &str, image: ImageId, begin: Option<u64>) -> FunctionId {
        let functions = &mut self.profile.functions;
        let name: Arc<str> = Arc::from(name);
        let key = (Arc::clone(&name), image, begin);
        *self.functions.entry(key).or_insert_with(|| {
            functions.push(ProfileFunction {
                name,
                linkage_name: Arc::from(""),
                image: Some(image),
                begin,
            });
            FunctionId::next(functions.len() - 1)
        })
    }

    fn frame(&mut self, function: FunctionId, address: u64, is_kernel: bool) -> FrameId {
        let frames = &mut self.profile.frames;
        *self.frames.entry((function, address)).or_insert_with(|| {
            frames.push(Frame {
                function,
                file: None,
                line: None,
                address,
                is_inlined: false,
                is_kernel,
            });
            FrameId::next(frames.len() - 1)
        })
    }

    fn stack(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let stacks = &mut self.profile.stacks;
        *self.stacks.entry((parent, frame)).or_insert_with(|| {
            stacks.push(Stack { parent, frame });
            StackId::next(stacks.len() - 1)
        })
    }

    /// The profile, with its samples in time order: the kernel's profiler writes one CPU after the
    /// other.
    pub fn finish(self) -> Profile {
        let mut profile = self.profile;
        profile.samples.sort_by_key(|sample| sample.time_ns);
        let first = profile.samples.first().map(|sample| sample.time_ns);
        let last = profile.samples.last().map(|sample| sample.time_ns);
        profile.span_ns = first.zip(last);
        profile.clock = self.frequency.map(|frequency| Arc::new(clock(frequency)));
        profile
    }
}

/// The time stamp counter as a clock.
fn clock(frequency: Frequency) -> ClockClass {
    ClockClass {
        name: "tsc".to_owned(),
        id: "tsc".to_owned(),
        namespace: None,
        uid: None,
        uuid: None,
        description: None,
        frequency: frequency.hertz(),
        precision: 0,
        accuracy: None,
        offset_s: 0,
        offset: 0,
        absolute: false,
        origin: None,
        attributes: Attributes::default(),
    }
}
