//! The processed profile format of the Firefox Profiler, by the crate that samply writes it with.
//!
//! Times are relative to the first sample. Functions are labels, as they are known already, with a
//! category for kernel, program and idle.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use fxprof_processed_profile as fx;
use kymo_profile::{Mode, Profile, Row, StackId, Unit};

use super::{by_thread, counted_event, duration, nanoseconds, share, thread_label};

/// Writes the profile.
pub(super) fn write(profile: &Profile, name: &str, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &processed(profile, name)).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// The interval where the trace does not say it.
const UNKNOWN_INTERVAL: Duration = Duration::from_millis(1);

fn processed(profile: &Profile, name: &str) -> fx::Profile {
    let begin = profile.span_ns.map_or(0, |(begin, _)| begin);
    let is_absolute = profile.clock.as_ref().is_some_and(|clock| clock.absolute);
    let origin = u64::try_from(begin).ok().filter(|_| is_absolute);
    let origin = Duration::from_nanos(origin.unwrap_or(0));
    let event = counted_event(profile);
    let product = match (profile.unit, &profile.clock, event) {
        // The format's weights are small whole numbers.
        (Unit::Nanoseconds, ..) => format!("{name} (weights are microseconds)"),
        (.., Some(event)) => format!("{name} (weights are {event})"),
        (_, None, _) => format!("{name} (a nanosecond stands for a tick)"),
        _ => name.to_owned(),
    };
    let mut to = fx::Profile::new(
        &product,
        fx::ReferenceTimestamp::from_duration_since_unix_epoch(origin),
        fx::SamplingInterval::from_nanos(interval(profile).as_nanos() as u64),
    );
    // Nobody has to look for symbols.
    to.set_symbolicated(true);
    let categories = Categories {
        kernel: to.add_category("Kernel", fx::CategoryColor::Orange).into(),
        user: to.add_category("Program", fx::CategoryColor::Blue).into(),
        idle: to
            .add_category("Idle", fx::CategoryColor::Transparent)
            .into(),
    };
    let start = fx::Timestamp::from_nanos_since_reference(0);
    let mut processes: HashMap<Option<Option<u64>>, fx::ProcessHandle> = HashMap::new();
    for (number, entries) in by_thread(profile) {
        let thread = number.and_then(|number| profile.threads.get(number));
        let process = *processes
            .entry(thread.map(|thread| thread.pid))
            .or_insert_with(|| {
                let name = match thread {
                    Some(thread) => thread.process_label(),
                    None => "unknown process".to_owned(),
                };
                let pid = thread.and_then(|thread| thread.pid).unwrap_or(0);
                to.add_process(&name, pid as u32, start)
            });
        let tid = thread.map_or(0, |thread| thread.tid);
        let is_main = thread.is_some_and(|thread| thread.pid == Some(tid));
        let handle = to.add_thread(process, tid as u32, start, is_main);
        to.set_thread_name(handle, &thread_label(profile, number));
        to.set_thread_samples_weight_type(
            handle,
            match profile.unit {
                Unit::Samples | Unit::Nanoseconds => fx::WeightType::Samples,
                Unit::Bytes => fx::WeightType::Bytes,
            },
        );
        let mut stacks = Stacks::new(handle, categories);
        for entry in entries {
            let stack = stacks.of(&mut to, profile, entry.row);
            let time = entry.time.unwrap_or(begin).saturating_sub(begin).max(0) as u64;
            let weight = match profile.unit {
                Unit::Nanoseconds => entry.weight.div_ceil(1_000),
                _ if event.is_some() => share(entry.row.ticks, &entry),
                _ => entry.weight,
            };
            to.add_sample(
                handle,
                fx::Timestamp::from_nanos_since_reference(time),
                stack,
                cpu_time(profile, entry.row),
                i32::try_from(weight).unwrap_or(i32::MAX),
            );
        }
    }
    to
}

/// The time between two samples of a CPU.
fn interval(profile: &Profile) -> Duration {
    let period = profile.period.and_then(|period| duration(profile, period));
    match period {
        Some(nanos) if nanos > 0 => Duration::from_nanos(nanos),
        _ => UNKNOWN_INTERVAL,
    }
}

/// The time that the CPU worked for a sample of this row.
fn cpu_time(profile: &Profile, row: &Row) -> fx::CpuDelta {
    if row.mode == Mode::Idle || profile.unit != Unit::Samples {
        return fx::CpuDelta::ZERO;
    }
    let nanos = nanoseconds(profile, row).unwrap_or(0) / row.weight.max(1);
    fx::CpuDelta::from_nanos(nanos)
}

#[derive(Clone, Copy)]
struct Categories {
    kernel: fx::CategoryPairHandle,
    user: fx::CategoryPairHandle,
    idle: fx::CategoryPairHandle,
}

/// The stacks of a thread, each added once.
struct Stacks {
    thread: fx::ThreadHandle,
    categories: Categories,
    known: HashMap<(StackId, bool), Option<fx::StackHandle>>,
}

impl Stacks {
    fn new(thread: fx::ThreadHandle, categories: Categories) -> Stacks {
        Stacks {
            thread,
            categories,
            known: HashMap::new(),
        }
    }

    fn of(
        &mut self,
        to: &mut fx::Profile,
        profile: &Profile,
        row: &Row,
    ) -> Option<fx::StackHandle> {
        let stack = row.stack?;
        let is_idle = row.mode == Mode::Idle;
        if let Some(known) = self.known.get(&(stack, is_idle)) {
            return *known;
        }
        let mut frames: Vec<fx::FrameInfo> = Vec::new();
        for frame in profile.frames_of(Some(stack)) {
            let category_pair = match (is_idle, frame.is_kernel) {
                (true, _) => self.categories.idle,
                (false, true) => self.categories.kernel,
                (false, false) => self.categories.user,
            };
            frames.push(fx::FrameInfo {
                frame: fx::Frame::Label(to.intern_string(profile.name(frame))),
                category_pair,
                flags: fx::FrameFlags::empty(),
            });
        }
        frames.reverse();
        let handle = to.intern_stack_frames(self.thread, frames.into_iter());
        self.known.insert((stack, is_idle), handle);
        handle
    }
}
