#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use kymo_ctf::{ItemRef, LossKind, Trace};
use kymo_machine::{Machine, Period};
use linux_perf_event_reader::{
    Endianness, PerfEventAttr, RawData, RawEventRecord, RecordParseInfo, RecordType,
};

use crate::entry::Kin;
use crate::{Entry, KernelSymbols, Origin, Stamp, Summary, Writer, write_kernel};

const KERNEL_MARK: u64 = 128_u64.wrapping_neg();
const USER_MARK: u64 = 512_u64.wrapping_neg();
const IN_KERNEL: u64 = 0xffff_ffff_8100_0010;

/// A folder that goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kymo-linux-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn writer(folder: &Folder) -> Writer {
    let origin = Origin {
        events: vec!["cpu-clock:u".to_owned()],
        unix_offset_ns: 5_000_000_000,
        environment: vec![("host", "a \"b\"".to_owned())],
    };
    Writer::create(&folder.0, &origin).unwrap()
}

fn at(time: u64, cpu: u32) -> Stamp {
    Stamp { time, cpu }
}

fn sample(tid: i32, ip: u64) -> Entry {
    Entry::Sample {
        event: 0,
        pid: 42,
        tid,
        ip,
        period: 1000,
        chain: vec![USER_MARK, ip, 0x2000],
    }
}

fn name(pid: i32, tid: i32, name: &str, exec: bool) -> Entry {
    let name = name.to_owned();
    Entry::Name {
        pid,
        tid,
        name,
        exec,
    }
}

fn mapping(pid: i32, start: u64, path: &str) -> Entry {
    let path = path.to_owned();
    let tid = pid;
    Entry::Mapping {
        pid,
        tid,
        start,
        path,
    }
}

/// Time and CPU of every event, lost events, and the machine at the end.
fn read(trace: &Path) -> (Vec<(i128, u64)>, u64, Machine) {
    let trace = Trace::open(trace).unwrap();
    let map = trace.map();
    let (mut machine, mut times, mut lost) = (Machine::new(), Vec::new(), 0);
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        machine.add(&item);
        match item {
            ItemRef::Event(event) => times.push((event.nanos().unwrap(), event.cpu().unwrap())),
            ItemRef::Loss(loss) if loss.kind == LossKind::Events => lost += loss.count,
            other => panic!("{other:?}"),
        }
    }
    (times, lost, machine)
}

fn finish(writer: Writer) -> Summary {
    let (summary, written) = writer.finish();
    written.unwrap();
    summary
}

/// Records as `perf_event_open(2)` has them, with what `Sampling` asks for.
struct Raw {
    parse_info: RecordParseInfo,
}

impl Raw {
    fn new() -> Raw {
        // Address, thread, time, callers, CPU and period; all records end with thread, time, CPU.
        let sample_type = 1 | 2 | 4 | 32 | 128 | 256_u64;
        let sample_id_all = 1 << 18_u64;
        let mut attr = [1_u32, 64].map(u32::to_le_bytes).concat();
        let words = [0, 997, sample_type, 0, sample_id_all, 0, 0];
        attr.extend(words.map(u64::to_le_bytes).concat());
        let (attr, _) = PerfEventAttr::parse::<_, byteorder::LittleEndian>(&*attr).unwrap();
        let parse_info = RecordParseInfo::new(&attr, Endianness::LittleEndian);
        Raw { parse_info }
    }

    fn entry(&self, kind: u32, misc: u16, body: &[u8]) -> (Stamp, Entry) {
        let data = RawData::Single(body);
        let record = RawEventRecord::new(RecordType(kind), misc, data, self.parse_info);
        Entry::of(0, &record).unwrap().unwrap()
    }
}

fn body(halves: &[u32], words: &[u64], text: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(text.bytes());
    let padding = bytes.len().next_multiple_of(8);
    bytes.resize(
        if text.is_empty() {
            padding
        } else {
            padding + 8
        },
        0,
    );
    bytes
}

/// Thread, time and CPU 3, as every record but a sample ends.
fn ending(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend([42_u32, 43].map(u32::to_le_bytes).concat());
    bytes.extend([77_u64, 3].map(u64::to_le_bytes).concat());
    bytes
}

#[test]
fn records_say_what_happened_where() {
    let raw = Raw::new();
    let chain = [KERNEL_MARK, IN_KERNEL, USER_MARK, 0x1000];
    let mut bytes = body(&[], &[IN_KERNEL], "");
    bytes.extend(body(&[42, 43], &[77, 3, 1_000_000, 4], ""));
    bytes.extend(body(&[], &chain, ""));
    let sampled = Entry::Sample {
        event: 0,
        pid: 42,
        tid: 43,
        ip: IN_KERNEL,
        period: 1_000_000,
        chain: chain.to_vec(),
    };
    assert_eq!(raw.entry(9, 1, &bytes), (at(77, 3), sampled));
    let kin = Kin {
        pid: 44,
        ppid: 42,
        tid: 45,
        ptid: 43,
    };
    let of_kin = ending(body(&[44, 42, 45, 43], &[77], ""));
    let mapped = body(&[42, 42], &[0x7f00, 0x1000, 0, 0, 1, 2, 5], "/lib/a");
    for (kind, misc, bytes, entry) in [
        (
            3,
            0x2000,
            ending(body(&[42, 43], &[], "work")),
            name(42, 43, "work", true),
        ),
        (
            3,
            0,
            ending(body(&[42, 43], &[], "a thread")),
            name(42, 43, "a thread", false),
        ),
        (7, 0, of_kin.clone(), Entry::Fork(kin)),
        (4, 0, of_kin, Entry::Exit(kin)),
        (10, 2, ending(mapped), mapping(42, 0x7f00, "/lib/a")),
        (2, 0, ending(body(&[], &[9, 12], "")), Entry::Lost(12)),
        (13, 0, ending(body(&[], &[5], "")), Entry::Lost(5)),
        (5, 0, ending(body(&[], &[77, 9, 9], "")), Entry::Throttled),
    ] {
        assert_eq!(raw.entry(kind, misc, &bytes), (at(77, 3), entry), "{kind}");
    }
}

/// Buffers are emptied one after the other: what the next round brings may be older.
#[test]
fn events_are_in_order_of_time_over_rounds() {
    let folder = Folder::new("order");
    let mut writer = writer(&folder);
    for round in [
        &[(10, 0), (30, 0), (20, 1)][..],
        &[(40, 0), (25, 1), (50, 1)],
        &[(45, 1)],
    ] {
        for (time, cpu) in round {
            writer.add(at(*time, *cpu), sample(42, 0x1000)).unwrap();
        }
        writer.end_round().unwrap();
    }
    let summary = finish(writer);
    assert_eq!((summary.samples, summary.late, summary.lost), (7, 0, 0));
    let (times, lost, _) = read(&folder.0);
    let wanted = [
        (10, 0),
        (20, 1),
        (25, 1),
        (30, 0),
        (40, 0),
        (45, 1),
        (50, 1),
    ];
    let wanted = wanted.map(|(time, cpu)| (5_000_000_000 + time, cpu));
    assert_eq!((times, lost), (wanted.to_vec(), 0));
}

#[test]
fn a_record_that_comes_too_late_is_kept_and_counted() {
    let folder = Folder::new("late");
    let mut writer = writer(&folder);
    for (time, rounds) in [(10, 2), (30, 2), (20, 1)] {
        writer.add(at(time, 0), sample(42, 0x1000)).unwrap();
        (0..rounds).for_each(|_| writer.end_round().unwrap());
    }
    assert_eq!(finish(writer).late, 1);
    let (times, ..) = read(&folder.0);
    let times: Vec<i128> = times.iter().map(|(time, _)| time - 5_000_000_000).collect();
    assert_eq!(times, [10, 30, 30]);
}

/// Also where a stream has nothing else.
#[test]
fn lost_records_are_events_that_were_discarded() {
    let folder = Folder::new("lost");
    let mut writer = writer(&folder);
    writer.add(at(10, 0), sample(42, 0x1000)).unwrap();
    writer.add(at(20, 0), Entry::Lost(7)).unwrap();
    writer.add(at(30, 0), sample(42, 0x1000)).unwrap();
    writer.add(at(40, 0), Entry::Lost(2)).unwrap();
    writer.add(at(15, 1), Entry::Lost(30)).unwrap();
    writer.add(at(50, 0), Entry::Throttled).unwrap();
    let summary = finish(writer);
    assert_eq!(
        (summary.lost, summary.throttled, summary.samples),
        (39, 1, 2)
    );
    let (times, lost, _) = read(&folder.0);
    assert_eq!((times.len(), lost), (2, 39));
}

#[test]
fn long_streams_have_packets_and_lose_nothing() {
    let folder = Folder::new("packets");
    let mut writer = writer(&folder);
    for time in 0..5_000 {
        writer.add(at(time, 2), sample(42, 0x1000)).unwrap();
    }
    finish(writer);
    let (times, lost, _) = read(&folder.0);
    assert_eq!((times.len(), lost), (5_000, 0));
    let bytes = std::fs::read(folder.0.join("perf_stream_2")).unwrap();
    let magic = 0xc1fc_1fc1_u32.to_le_bytes();
    let packets = bytes.windows(4).filter(|word| *word == magic).count();
    assert!((4..=8).contains(&packets), "{packets}");
}

/// The machine's model of them: names, files, other programs, ends.
#[test]
fn threads_and_programs_are_known_over_time() {
    let folder = Folder::new("programs");
    let mut writer = writer(&folder);
    let thread = Kin {
        pid: 42,
        ppid: 42,
        tid: 43,
        ptid: 42,
    };
    let child = Kin {
        pid: 50,
        ppid: 42,
        tid: 50,
        ptid: 43,
    };
    let entries = [
        name(42, 42, "work", true),
        mapping(42, 0x1000, "/bin/work"),
        mapping(42, 0x9000, "[vdso]"),
        Entry::Fork(thread),
        sample(43, 0x1004),
        Entry::Fork(child),
        name(50, 50, "other", true),
        mapping(50, 0x1000, "/bin/other"),
        Entry::Exit(thread),
        Entry::Exit(child),
    ];
    for (time, entry) in entries.into_iter().enumerate() {
        writer.add(at(time as u64, 0), entry).unwrap();
    }
    let summary = finish(writer);
    assert_eq!((summary.threads, summary.processes), (1, 1));
    assert_eq!(Vec::from_iter(&summary.files), ["/bin/other", "/bin/work"]);
    let (_, _, machine) = read(&folder.0);
    let known: Vec<_> = machine
        .threads()
        .iter()
        .map(|of| (of.tid, of.pid, of.name.as_deref(), of.ended.is_some()))
        .collect();
    let wanted = [
        (42, Some(42), Some("work"), false),
        (43, Some(42), Some("work"), true),
        (50, Some(50), Some("other"), true),
    ];
    assert_eq!(known, wanted);
    assert_eq!(machine.process(50).map(|name| &**name), Some("other"));
    let mut space = machine.address_space(50);
    let paths = |space| Vec::from_iter(machine.mappings(space).iter().map(|of| &*of.path));
    assert_eq!((space.execs, paths(space)), (1, vec!["/bin/other"]));
    // What its creator had in its memory.
    space.execs = 0;
    assert_eq!(paths(space), ["/bin/work"]);
}

#[test]
fn samples_have_both_parts_of_their_chains() {
    let folder = Folder::new("chains");
    let mut writer = writer(&folder);
    let entry = Entry::Sample {
        event: 0,
        pid: 42,
        tid: 43,
        ip: IN_KERNEL,
        period: 1000,
        chain: vec![KERNEL_MARK, IN_KERNEL, USER_MARK, 0x1000, 0x2000, 0],
    };
    writer.add(at(1, 0), entry).unwrap();
    let summary = finish(writer);
    assert_eq!(Vec::from_iter(summary.kernel), [IN_KERNEL]);
    let trace = Trace::open(&folder.0).unwrap();
    let (map, mut machine, mut addresses) = (trace.map(), Machine::new(), Vec::new());
    let mut reader = map.read();
    let item = reader.next().unwrap();
    machine.add(&item);
    let ItemRef::Event(event) = &item else {
        panic!("{item:?}");
    };
    let chain = machine.call_chain(event, &mut addresses).unwrap();
    assert_eq!(addresses, [IN_KERNEL, 0x1000, 0x2000]);
    assert_eq!(
        (chain.kernel.len, chain.user.len, chain.tid),
        (1, 2, Some(43))
    );
    let kymo_machine::ChainOf::Sample { period, unit, .. } = chain.of else {
        panic!("{chain:?}");
    };
    assert_eq!((period, unit), (1000, Period::Nanoseconds));
}

#[test]
fn the_kernels_own_list_becomes_a_file_of_symbols() {
    let symbols = KernelSymbols::parse(
        "ffffffff81000000 T _stext\nffffffff81000100 t work\nffffffff81000140 D data\n\
         ffffffff81000200 T next\nffffffffa0000000 t of_module\t[some]\nffffffffa0001000 t end\n",
    );
    assert_eq!(
        KernelSymbols::parse("0000000000000000 T hidden\n"),
        KernelSymbols::default()
    );
    let folder = Folder::new("kernel");
    std::fs::create_dir_all(&folder.0).unwrap();
    let path = folder.0.join("symbols");
    let sampled = [
        0xffff_ffff_8100_0123,
        0xffff_ffff_8100_01ff,
        0xffff_ffff_a000_0004,
    ]
    .into();
    assert!(write_kernel(&path, &symbols, &sampled).unwrap());
    let bytes = std::fs::read(&path).unwrap();
    let found = kymo_symbols::functions(&bytes).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|of| (of.range.clone(), &*of.name))
        .collect();
    let wanted = [
        (0xffff_ffff_8100_0100..0xffff_ffff_8100_0200, "work"),
        (0xffff_ffff_a000_0000..0xffff_ffff_a000_1000, "of_module"),
    ];
    assert_eq!(found, wanted);
    assert!(!write_kernel(&path, &symbols, &[1].into()).unwrap());
}
