//! Samples of a kernel image: a trace, and the same as text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::{Context, Result, bail};
use kymo::ctf::packet::{PacketBuilder, StreamId, Totals};
use kymo::ctf::tsdl;
use kymo::event::Event;
use kymo::ring::reader::Record;
use kymo::vocabulary::{ALL, Address, ChainEnd, CpuMode, Sample, ThreadName, Tid};
use kymo::{ChannelKind, Clock, Sequence, Text};
use kymo_symbols::{CodeMap, Image};

use crate::{create, flush};

const UUID: [u8; 16] = [11; 16];
const PACKET_WORDS: usize = 1 << 12;
/// CPUs, each with a thread of its own that is sampled at 10 kHz.
const CPUS: u32 = 3;
const PERIOD: u64 = 100_000;
/// Depths of the stacks.
const DEPTHS: std::ops::Range<u64> = 4..20;

/// What was made.
pub struct Made {
    /// Frames of all samples together, inlined functions included.
    pub frames: u64,
}

/// A stack of the image.
struct Stack {
    ip: u64,
    /// Return addresses, the innermost first.
    callers: Vec<u64>,
    /// Its lines of text.
    text: String,
    frames: u64,
}

/// Makes `count` samples of `distinct` stacks.
pub fn samples(
    kernel: &Path,
    count: u64,
    distinct: usize,
    trace: &Path,
    text: &Path,
) -> Result<Made> {
    let elf = fs::read(kernel).with_context(|| format!("cannot read {}", kernel.display()))?;
    let mut random = Random(1);
    let stacks = stacks(&elf, distinct, &mut random)?;
    fs::create_dir_all(trace)?;
    let mut metadata = String::new();
    let session = tsdl::Session {
        uuid: UUID,
        clock: Clock::at(1_000_000_000),
        hosted: false,
        samples: true,
        counters: kymo::counter::Counters::NONE,
    };
    tsdl::write(&mut metadata, &session, &ALL)?;
    fs::write(trace.join("metadata"), metadata)?;
    let mut names = Stream::new(trace, ChannelKind::Names, 0)?;
    let mut streams = Vec::new();
    for cpu in 0..CPUS {
        let name = Text::from(format!("worker{cpu}").as_str());
        names.event(
            0,
            ThreadName {
                tid: Tid(cpu + 1),
                name,
            },
        )?;
        streams.push(Stream::new(trace, ChannelKind::Samples, cpu)?);
    }
    let mut script = create(text)?;
    let mut made = Made { frames: 0 };
    for number in 0..count {
        // A few stacks have most of the samples, as in real profiles.
        let place = random.below(stacks.len() as u64 + 1);
        let place = place * random.below(stacks.len() as u64) / (stacks.len() as u64 + 1);
        let stack = stacks.get(place as usize).context("no stack")?;
        let cpu = (number % u64::from(CPUS)) as u32;
        let time = (number / u64::from(CPUS) + 1) * PERIOD + u64::from(cpu);
        let callers: Vec<Address> = stack.callers.iter().copied().map(Address).collect();
        let sample = Sample {
            ip: Address(stack.ip),
            tid: Tid(cpu + 1),
            period: PERIOD,
            missed: 0,
            mode: CpuMode::Kernel,
            kernel_callers: callers.len() as u8,
            kernel_end: ChainEnd::Complete,
            user_end: ChainEnd::Absent,
            callchain: Sequence::new(&callers),
        };
        let stream = streams.get_mut(cpu as usize).context("no such CPU")?;
        stream.event(time, sample)?;
        made.frames += stack.frames;
        // The thread's number as kymo shows it, in the name: inferno does not show numbers.
        writeln!(
            script,
            "worker{cpu} ({tid}) {tid} [{cpu:03}] {}.{:06}: cpu-clock: ",
            time / 1_000_000_000,
            time % 1_000_000_000 / 1_000,
            tid = cpu + 1,
        )?;
        script.write_all(stack.text.as_bytes())?;
    }
    names.finish()?;
    streams.into_iter().try_for_each(Stream::finish)?;
    flush(script)?;
    Ok(made)
}

/// Distinct stacks of the image's functions, in the form of a tree: a caller is shared by several.
fn stacks(elf: &[u8], distinct: usize, random: &mut Random) -> Result<Vec<Stack>> {
    let (image, map) = (Image::parse(elf)?, CodeMap::parse(elf)?);
    // Inside functions, on even addresses as return addresses are.
    let mut places = BTreeSet::new();
    for symbol in &map.symbols {
        let mut at = symbol.range.start + 4;
        while at < symbol.range.end {
            places.insert(at);
            at += 32;
        }
    }
    let places: Vec<u64> = places.into_iter().collect();
    // As the text has a return address's function: that of the address before.
    let behind: Vec<u64> = places.iter().map(|place| place - 1).collect();
    let (exact, behind) = (image.locate(&places), image.locate(&behind));
    let lines = |located: &kymo_symbols::Located, place: usize, address: u64| {
        let mut text = String::new();
        let range = located.places.get(place).cloned().unwrap_or(0..0);
        let frames = located.frames.get(range).unwrap_or(&[]);
        for frame in frames {
            let function = located.functions.get(frame.function)?;
            // inferno reads a meaning into these.
            if function.name.contains([';', '(', ')']) || function.name.contains("->") {
                return None;
            }
            let offset = address.saturating_sub(function.begin.unwrap_or(address));
            let _ = writeln!(
                text,
                "\t{address:16x} {}+{offset:#x} (/boot/kernel)",
                function.name
            );
        }
        (!frames.is_empty()).then_some((text, frames.len() as u64))
    };
    let usable: Vec<usize> = (0..places.len())
        .filter(|&place| {
            let at = places.get(place).copied().unwrap_or_default();
            lines(&exact, place, at).is_some() && lines(&behind, place, at).is_some()
        })
        .collect();
    if usable.len() < 100 {
        bail!("the kernel has too few functions");
    }
    // Each function calls few others.
    let callee = |place: usize, random: &mut Random| {
        let hashed = place as u64 * 0x9e37_79b9 + random.below(3) * 0x85eb_ca6b;
        usable
            .get((hashed % usable.len() as u64) as usize)
            .copied()
            .unwrap_or_default()
    };
    let mut known = BTreeSet::new();
    let mut stacks = Vec::with_capacity(distinct);
    let mut tries = 0;
    while stacks.len() < distinct {
        tries += 1;
        if tries > distinct * 20 {
            bail!("the kernel has too few functions for {distinct} stacks");
        }
        let depth = DEPTHS.start + random.below(DEPTHS.end - DEPTHS.start);
        let mut chain = vec![
            usable
                .get(random.below(4) as usize)
                .copied()
                .unwrap_or_default(),
        ];
        for _ in 1..depth {
            chain.push(callee(chain.last().copied().unwrap_or_default(), random));
        }
        chain.reverse();
        if !known.insert(chain.clone()) {
            continue;
        }
        let address = |place: usize| places.get(place).copied().unwrap_or_default();
        let mut stack = Stack {
            ip: chain.first().copied().map_or(0, address),
            callers: chain.iter().skip(1).copied().map(address).collect(),
            text: String::new(),
            frames: 0,
        };
        for (index, &place) in chain.iter().enumerate() {
            let located = if index == 0 { &exact } else { &behind };
            let (text, frames) = lines(located, place, address(place)).context("no lines")?;
            stack.text.push_str(&text);
            stack.frames += frames;
        }
        stack.text.push('\n');
        stacks.push(stack);
    }
    Ok(stacks)
}

/// A file of the trace.
struct Stream {
    id: StreamId,
    file: BufWriter<File>,
    buffer: Vec<u32>,
    packet: PacketBuilder,
    totals: Totals,
}

impl Stream {
    fn new(trace: &Path, kind: ChannelKind, cpu: u32) -> Result<Stream> {
        let id = StreamId {
            uuid: UUID,
            kind,
            cpu,
        };
        let mut stream = Stream {
            id,
            file: create(&trace.join(format!("{}_{cpu}", kind.label())))?,
            buffer: vec![0; PACKET_WORDS],
            packet: PacketBuilder::new(0),
            totals: Totals::default(),
        };
        // An empty packet, from which readers count losses.
        stream.seal(0)?;
        Ok(stream)
    }

    fn seal(&mut self, end: u64) -> Result<()> {
        let words = self
            .packet
            .seal(&mut self.buffer, &self.id, end, self.totals, false);
        for word in self.buffer.get(..words).unwrap_or_default() {
            self.file.write_all(&word.to_le_bytes())?;
        }
        self.totals.sequence += 1;
        self.packet = PacketBuilder::new(end.max(self.packet.last()));
        Ok(())
    }

    fn event<E: Event>(&mut self, time: u64, event: E) -> Result<()> {
        let (words, used) = event.encode();
        let payload = words.as_ref().get(..used).unwrap_or_default();
        let bytes = E::SCHEMA
            .shape()
            .payload_bytes(payload)
            .context("not a record")?;
        let record = Record {
            time,
            id: E::ID,
            payload,
            padding: (4 * used - bytes) as u8,
            stepped_back: 0,
        };
        if !self.packet.push(&mut self.buffer, &record) {
            self.seal(time)?;
            if !self.packet.push(&mut self.buffer, &record) {
                bail!("a record is longer than a packet");
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let last = self.packet.last();
        self.seal(last)?;
        flush(self.file)
    }
}

/// A pseudo-random sequence (xorshift64), the same in every run.
struct Random(u64);

impl Random {
    /// The next number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}
