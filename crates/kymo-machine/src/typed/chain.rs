//! Sources of call chains: Kymo's samples, perf's callchains, LTTng's callstack contexts.

use kymo::event::Event;
use kymo::vocabulary::{ChainEnd, CpuMode, EventStack, Sample, StackCopy};
use kymo_ctf::{EventRef, FieldAccess};

use crate::sample::{CallChain, ChainOf, ChainPart, Period, StackPart};
use crate::typed::Tracer;

/// Fields of an event class that hold a call chain.
#[derive(Clone, Debug)]
pub(crate) enum ChainSource {
    Kymo(Box<KymoChain>),
    Perf(PerfChain),
    Lttng(LttngChain),
}

/// Kymo's `sample` and `event_stack`.
#[derive(Clone, Debug)]
pub(crate) struct KymoChain {
    /// The event's id, in an `event_stack`.
    event: Option<FieldAccess>,
    ip: FieldAccess,
    tid: Option<FieldAccess>,
    period: Option<FieldAccess>,
    missed: Option<FieldAccess>,
    mode: Option<FieldAccess>,
    kernel_callers: Option<FieldAccess>,
    kernel_end: Option<FieldAccess>,
    user_end: Option<FieldAccess>,
    /// `None` where callers are fields.
    callchain: Option<FieldAccess>,
    /// `caller_1` and so on: a kernel in C declares its samples itself, and it has no sequences.
    callers: [Option<FieldAccess>; 8],
    /// Whether a program recorded itself.
    is_program: bool,
}

/// What `perf data convert --to-ctf` writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerfChain {
    /// What its samples count; `None` for a tracepoint, whose events are no samples.
    unit: Option<Period>,
    ip: Option<FieldAccess>,
    tid: Option<FieldAccess>,
    period: Option<FieldAccess>,
    callchain: Option<FieldAccess>,
}

/// LTTng's contexts `callstack-kernel` and `callstack-user`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LttngChain {
    tid: Option<FieldAccess>,
    kernel: Option<FieldAccess>,
    user: Option<FieldAccess>,
}

/// Fields of Kymo's `stack_copy`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackSource {
    tid: FieldAccess,
    sp: FieldAccess,
    fp: FieldAccess,
    link: FieldAccess,
    address: FieldAccess,
    words: FieldAccess,
}

impl StackSource {
    /// The source in an event class of this name, whose fields the function finds.
    pub(super) fn of(
        name: &str,
        is_kymo: bool,
        field: &dyn Fn(&str) -> Option<FieldAccess>,
    ) -> Option<Box<StackSource>> {
        if !is_kymo || name != StackCopy::SCHEMA.name {
            return None;
        }
        Some(Box::new(StackSource {
            tid: field("tid")?,
            sp: field("sp")?,
            fp: field("fp")?,
            link: field("link")?,
            address: field("address")?,
            words: field("words")?,
        }))
    }

    /// Appends the part's words.
    pub(crate) fn read(&self, event: &EventRef<'_>, words: &mut Vec<u64>) -> Option<StackPart> {
        event.append_unsigned(&self.words, words);
        Some(StackPart {
            tid: event.unsigned(&self.tid)?,
            sp: event.unsigned(&self.sp)?,
            fp: event.unsigned(&self.fp)?,
            link: event.unsigned(&self.link).filter(|link| *link != 0),
            address: event.unsigned(&self.address)?,
        })
    }
}

impl ChainSource {
    /// The source in an event class of this name, whose fields and contexts the two functions find.
    pub(super) fn of(
        name: &str,
        tracer: &Tracer,
        field: &dyn Fn(&str) -> Option<FieldAccess>,
        context: &dyn Fn([&str; 2]) -> Option<FieldAccess>,
    ) -> Option<ChainSource> {
        if tracer.is_kymo {
            let is_sample = name == Sample::SCHEMA.name;
            if !is_sample && name != EventStack::SCHEMA.name {
                return None;
            }
            return Some(ChainSource::Kymo(Box::new(KymoChain {
                event: field("event").filter(|_| !is_sample),
                ip: field("ip")?,
                tid: field("tid"),
                period: field("period"),
                missed: field("missed"),
                mode: field("mode"),
                kernel_callers: field("kernel_callers"),
                kernel_end: field("kernel_end"),
                user_end: field("user_end"),
                callchain: field("callchain"),
                callers: [
                    "caller_1", "caller_2", "caller_3", "caller_4", "caller_5", "caller_6",
                    "caller_7", "caller_8",
                ]
                .map(field),
                is_program: tracer.is_program,
            })));
        }
        let either = |name| field(name).or_else(|| context([name, name]));
        let (ip, callchain) = (either("perf_ip"), either("perf_callchain"));
        if ip.is_some() || callchain.is_some() {
            return Some(ChainSource::Perf(PerfChain {
                unit: period_of(name),
                ip,
                tid: either("perf_tid"),
                period: either("perf_period"),
                callchain,
            }));
        }
        let kernel = either("callstack_kernel");
        let user = either("callstack_user");
        (kernel.is_some() || user.is_some()).then(|| {
            ChainSource::Lttng(LttngChain {
                tid: context(["tid", "vtid"]),
                kernel,
                user,
            })
        })
    }

    /// Whether its events are samples.
    pub(crate) fn is_of_samples(&self) -> bool {
        match self {
            ChainSource::Kymo(source) => source.event.is_none(),
            ChainSource::Perf(source) => source.unit.is_some(),
            ChainSource::Lttng(_) => false,
        }
    }

    /// Appends the chain's addresses.
    #[inline]
    pub(crate) fn read(&self, event: &EventRef<'_>, addresses: &mut Vec<u64>) -> Option<CallChain> {
        match self {
            ChainSource::Kymo(source) => source.read(event, addresses),
            ChainSource::Perf(source) => source.read(event, addresses),
            ChainSource::Lttng(source) => source.read(event, addresses),
        }
    }
}

impl KymoChain {
    /// A kernel or program in C recorded it: its fields hold the callers, up to the first 0.
    fn read_callers(&self, event: &EventRef<'_>, addresses: &mut Vec<u64>) -> CallChain {
        let value = |access: &Option<FieldAccess>| event.unsigned(access.as_ref()?);
        let fields = self.callers.iter().map_while(value);
        let before = addresses.len();
        addresses.extend(fields.take_while(|caller| *caller != 0));
        let is_full = self.callers.iter().flatten().count() == addresses.len() - before;
        let tid = value(&self.tid);
        let mode = match (value(&self.mode), tid) {
            (Some(0), _) => CpuMode::User,
            (Some(2), _) | (None, Some(0)) => CpuMode::Idle,
            (None, _) if self.is_program => CpuMode::User,
            _ => CpuMode::Kernel,
        };
        let part = ChainPart {
            len: addresses.len(),
            first_is_exact: true,
            end: match is_full {
                true => ChainEnd::Cut,
                false => ChainEnd::Complete,
            },
        };
        let (kernel, user) = match mode {
            CpuMode::User => (ChainPart::ABSENT, part),
            _ => (part, ChainPart::ABSENT),
        };
        CallChain {
            of: ChainOf::Sample {
                period: value(&self.period).unwrap_or(0),
                unit: Period::Ticks,
                missed: value(&self.missed),
            },
            tid,
            mode,
            kernel,
            user,
        }
    }

    #[inline]
    fn read(&self, event: &EventRef<'_>, addresses: &mut Vec<u64>) -> Option<CallChain> {
        let value = |access: &Option<FieldAccess>| event.unsigned(access.as_ref()?);
        addresses.push(event.unsigned(&self.ip)?);
        let Some(callchain) = &self.callchain else {
            return Some(self.read_callers(event, addresses));
        };
        event.append_unsigned(callchain, addresses);
        let kernel_end = end(value(&self.kernel_end));
        let of = match value(&self.event) {
            Some(id) => ChainOf::EventBefore { id },
            None => ChainOf::Sample {
                period: value(&self.period).unwrap_or(0),
                unit: Period::Ticks,
                missed: value(&self.missed),
            },
        };
        let mode = match value(&self.mode) {
            Some(0) => CpuMode::User,
            Some(2) => CpuMode::Idle,
            Some(_) => CpuMode::Kernel,
            // A program that records itself has no kernel part.
            None if kernel_end == ChainEnd::Absent => CpuMode::User,
            None => CpuMode::Kernel,
        };
        let callers = value(&self.kernel_callers).unwrap_or(0);
        let kernel = match mode {
            CpuMode::User => 0,
            _ => usize::try_from(callers).map_or(1, |callers| callers.saturating_add(1)),
        };
        let kernel = kernel.min(addresses.len());
        let user = addresses.len() - kernel;
        let is_sample = self.event.is_none();
        Some(CallChain {
            of,
            tid: value(&self.tid),
            mode,
            kernel: ChainPart {
                len: kernel,
                first_is_exact: is_sample,
                end: kernel_end,
            },
            user: ChainPart {
                len: user,
                // Behind kernel code, the program's own instruction pointer.
                first_is_exact: is_sample || kernel > 0,
                end: end(value(&self.user_end)),
            },
        })
    }
}

#[inline]
fn end(value: Option<u64>) -> ChainEnd {
    match value {
        Some(0) | None => ChainEnd::Absent,
        Some(1) => ChainEnd::Complete,
        Some(2) => ChainEnd::Cut,
        Some(3) => ChainEnd::Misaligned,
        Some(4) => ChainEnd::Unmapped,
        Some(5) => ChainEnd::NotRising,
        // The last one declared, and those of later versions: not trusted.
        Some(_) => ChainEnd::NotCode,
    }
}

/// Markers in perf's callchains (`enum perf_callchain_context` in Linux's perf_event.h): negative
/// numbers above -4096. The addresses behind one are of its kind.
const FIRST_MARKER: u64 = 4095_u64.wrapping_neg();
const KERNEL: u64 = 128_u64.wrapping_neg();
const USER: u64 = 512_u64.wrapping_neg();

/// Whether an address is in the upper half, where 64-bit Linux has its kernel.
fn is_upper(address: u64) -> bool {
    address >> 63 == 1
}

/// What the periods of `perf`'s samples of this event count; `None` for a tracepoint.
fn period_of(name: &str) -> Option<Period> {
    match counted(name) {
        "cpu-clock" | "task-clock" => Some(Period::Nanoseconds),
        // `system:event`. Events of a PMU, `cpu/event=0x3c/`, and raw ones have no colon.
        of if of.contains(':') && !of.contains('/') => None,
        _ => Some(Period::Events),
    }
}

/// The name of one of `perf`'s events without modifiers: `cycles` of `cycles:pp`.
fn counted(name: &str) -> &str {
    const MODIFIERS: &str = "ukhIGHpPSDWeb";
    match name.rsplit_once(':') {
        Some((event, modifiers)) if modifiers.chars().all(|of| MODIFIERS.contains(of)) => event,
        _ => name,
    }
}

impl PerfChain {
    /// `None` for an event that has no address, as a tracepoint's `perf_ip` is 0.
    fn read(&self, event: &EventRef<'_>, addresses: &mut Vec<u64>) -> Option<CallChain> {
        let value = |access: &Option<FieldAccess>| event.unsigned(access.as_ref()?);
        if let Some(callchain) = &self.callchain {
            event.append_unsigned(callchain, addresses);
        }
        let (mut kernel, mut user, mut is_kernel) = (Vec::new(), Vec::new(), None);
        for &address in addresses.iter() {
            match address {
                KERNEL => is_kernel = Some(true),
                USER => is_kernel = Some(false),
                // A virtual machine's frames, or deferred ones: only addresses tell kernel from
                // user.
                FIRST_MARKER.. => is_kernel = None,
                // Linux follows the outermost frame to a caller that is none.
                0 => {}
                _ if is_kernel.unwrap_or_else(|| is_upper(address)) => kernel.push(address),
                _ => user.push(address),
            }
        }
        let ip = value(&self.ip).filter(|ip| *ip != 0);
        if let (true, Some(ip)) = (kernel.is_empty() && user.is_empty(), ip) {
            if is_upper(ip) {
                kernel.push(ip);
            } else {
                user.push(ip);
            }
        }
        addresses.clear();
        addresses.extend(kernel.iter().chain(&user));
        if addresses.is_empty() && self.unit.is_none() {
            return None;
        }
        let tid = value(&self.tid);
        let part = |len: usize| ChainPart {
            len,
            first_is_exact: true,
            end: match len {
                0 => ChainEnd::Absent,
                _ => ChainEnd::Complete,
            },
        };
        let of = self.unit.map_or(ChainOf::This, |unit| ChainOf::Sample {
            period: value(&self.period).unwrap_or(0),
            unit,
            missed: None,
        });
        Some(CallChain {
            of,
            tid,
            mode: match kernel.is_empty() {
                // Linux's idle threads have the number 0. Their events happen all the same.
                _ if tid == Some(0) && self.unit.is_some() => CpuMode::Idle,
                true => CpuMode::User,
                false => CpuMode::Kernel,
            },
            kernel: part(kernel.len()),
            user: part(user.len()),
        })
    }
}

impl LttngChain {
    fn read(&self, event: &EventRef<'_>, addresses: &mut Vec<u64>) -> Option<CallChain> {
        let mut part = |access: &Option<FieldAccess>, first_is_exact| {
            let before = addresses.len();
            if let Some(access) = access {
                event.append_unsigned(access, addresses);
            }
            // LTTng ends a chain with all ones where it was too long.
            let is_cut = addresses.len() > before && addresses.last() == Some(&u64::MAX);
            if is_cut {
                addresses.pop();
            }
            let len = addresses.len() - before;
            let end = match (is_cut, len) {
                (true, _) => ChainEnd::Cut,
                (false, 0) => ChainEnd::Absent,
                (false, _) => ChainEnd::Complete,
            };
            ChainPart {
                len,
                first_is_exact,
                end,
            }
        };
        let kernel = part(&self.kernel, false);
        let user = part(&self.user, true);
        (kernel.len + user.len > 0).then(|| CallChain {
            of: ChainOf::This,
            tid: self.tid.and_then(|access| event.unsigned(&access)),
            mode: match kernel.len {
                0 => CpuMode::User,
                _ => CpuMode::Kernel,
            },
            kernel,
            user,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kymo_ctf::{ItemRef, Metadata, Reader};

    use super::*;
    use crate::Machine;

    /// The chains of all events of a stream with this metadata, with their addresses.
    fn chains(metadata: &str, stream: &[u8]) -> Vec<(CallChain, Vec<u64>)> {
        let metadata = Arc::new(Metadata::parse(metadata).unwrap());
        let mut reader = Reader::new([(&metadata, "s", stream)]);
        let (mut machine, mut addresses, mut found) = (Machine::new(), Vec::new(), Vec::new());
        while let Some(item) = reader.next() {
            machine.add(&item);
            if let ItemRef::Event(event) = &item
                && let Some(chain) = machine.call_chain(event, &mut addresses)
            {
                found.push((chain, addresses.clone()));
            }
        }
        found
    }

    const TYPES: &str = "/* CTF 1.8 */
        typealias integer { size = 64; align = 8; } := u64;
        typealias integer { size = 32; align = 8; } := u32;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; };
        stream { event.header := struct { integer { size = 64; align = 8; map = clock.c.value; } t; }; };";

    fn part(len: usize, first_is_exact: bool, end: ChainEnd) -> ChainPart {
        ChainPart {
            len,
            first_is_exact,
            end,
        }
    }

    /// As `perf record -g` and `perf data convert --to-ctf` write them.
    #[test]
    fn a_callchain_of_perf_is_parted_at_its_markers() {
        let metadata = format!(
            "{TYPES} event {{ name = \"cpu-clock\"; fields := struct {{ u64 perf_ip; u32 perf_tid; \
             u32 perf_cpu; u64 perf_period; u32 perf_callchain_size; \
             u64 perf_callchain[perf_callchain_size]; }}; }};"
        );
        let kernel = 0xffff_ffff_8100_0010_u64;
        let record = |callchain: &[u64]| {
            let mut bytes = 5u64.to_le_bytes().to_vec();
            bytes.extend(kernel.to_le_bytes());
            [7u32, 1]
                .iter()
                .for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.extend(250_000u64.to_le_bytes());
            bytes.extend((callchain.len() as u32).to_le_bytes());
            callchain
                .iter()
                .for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes
        };
        let stream = [
            record(&[KERNEL, kernel, kernel + 0x40, USER, 0x1000, 0x2000]),
            record(&[]),
        ]
        .concat();
        let found = chains(&metadata, &stream);
        let (chain, addresses) = found.first().unwrap();
        assert_eq!(addresses, &[kernel, kernel + 0x40, 0x1000, 0x2000]);
        assert_eq!(
            chain.of,
            ChainOf::Sample {
                period: 250_000,
                unit: Period::Nanoseconds,
                missed: None
            }
        );
        assert_eq!((chain.tid, chain.mode), (Some(7), CpuMode::Kernel));
        assert_eq!(chain.kernel, part(2, true, ChainEnd::Complete));
        assert_eq!(chain.user, part(2, true, ChainEnd::Complete));
        // Without -g there is the instruction alone.
        assert_eq!(found.get(1).unwrap().1, [kernel]);
    }

    /// As LTTng writes its contexts: all ones mark a chain that was too long.
    #[test]
    fn a_callstack_of_lttng_may_be_cut() {
        let metadata = format!(
            "{TYPES} event {{ name = any; context := struct {{ u32 _tid; u32 _callstack_kernel_length; \
             u64 _callstack_kernel[_callstack_kernel_length]; u32 _callstack_user_length; \
             u64 _callstack_user[_callstack_user_length]; }}; }};"
        );
        let record = |kernel: &[u64], user: &[u64]| {
            let mut bytes = 5u64.to_le_bytes().to_vec();
            bytes.extend(9u32.to_le_bytes());
            for chain in [kernel, user] {
                bytes.extend((chain.len() as u32).to_le_bytes());
                chain
                    .iter()
                    .for_each(|word| bytes.extend(word.to_le_bytes()));
            }
            bytes
        };
        let found = chains(
            &metadata,
            &[record(&[3, 4], &[1, 2, u64::MAX]), record(&[], &[])].concat(),
        );
        assert_eq!(found.len(), 1, "an event without a chain has none");
        let (chain, addresses) = found.first().unwrap();
        assert_eq!(addresses, &[3, 4, 1, 2]);
        assert_eq!((chain.of, chain.tid), (ChainOf::This, Some(9)));
        assert_eq!(chain.kernel, part(2, false, ChainEnd::Complete));
        assert_eq!(chain.user, part(2, true, ChainEnd::Cut));
    }
}
