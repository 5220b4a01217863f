//! eBPF programs on members of groups, where this process may load them.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod permission;

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;

use aya::maps::Array;
use kymo::count::EventSpec;
use kymo_perf::{Error, Group, Options, ProgramFile, SlotLimit, Target};
use object::write::{Object, Relocation, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope,
};
use permission::{may_count, not_run};

/// Instructions of a program that adds 1 to the 64-bit number 0 of a map:
///
/// ```c
/// __u32 key = 0;
/// __u64 *count = bpf_map_lookup_elem(&runs, &key);
/// if (count) __sync_fetch_and_add(count, 1);
/// return 0;
/// ```
///
/// Each is an operation, two registers (the low half is the target), an offset and a number.
const COUNT: [(u8, u8, i16, i32); 12] = [
    (0xb7, 0x01, 0, 0),  // r1 = 0
    (0x63, 0x1a, -4, 0), // *(u32 *)(r10 - 4) = r1
    (0xbf, 0xa2, 0, 0),  // r2 = r10
    (0x07, 0x02, 0, -4), // r2 += -4
    (0x18, 0x01, 0, 0),  // r1 = the map
    (0x00, 0x00, 0, 0),  // its upper half
    (0x85, 0x00, 0, 1),  // call 1, map_lookup_elem
    (0x15, 0x00, 2, 0),  // if r0 == 0, go 2 on
    (0xb7, 0x01, 0, 1),  // r1 = 1
    (0xdb, 0x10, 0, 0),  // *(u64 *)r0 += r1, atomically
    (0xb7, 0x00, 0, 0),  // r0 = 0
    (0x95, 0x00, 0, 0),  // return r0
];

/// Where [`COUNT`] names the map.
const MAP_AT: u64 = 4 * 8;

/// An array of one element: type, bytes of a key and of a value, elements, flags.
const MAP: [u32; 5] = [2, 4, 8, 1, 0];

/// An object file with the program `count` in a section of this name, which says its type.
fn object_file(test: &str, section: &str) -> PathBuf {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let symbol = |name: &str, section, size, kind| Symbol {
        name: name.into(),
        value: 0,
        size,
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Section(section),
        flags: SymbolFlags::None,
    };
    let maps = object.add_section(Vec::new(), "maps".into(), SectionKind::Data);
    let map: Vec<u8> = MAP.iter().flat_map(|word| word.to_le_bytes()).collect();
    object.append_section_data(maps, &map, 8);
    let map = object.add_symbol(symbol("runs", maps, map.len() as u64, SymbolKind::Data));
    let code: Vec<u8> = COUNT
        .iter()
        .flat_map(|(operation, registers, offset, number)| {
            let mut bytes = vec![*operation, *registers];
            bytes.extend(offset.to_le_bytes());
            bytes.extend(number.to_le_bytes());
            bytes
        })
        .collect();
    let text = object.add_section(Vec::new(), section.into(), SectionKind::Text);
    object.append_section_data(text, &code, 8);
    object.add_symbol(symbol("count", text, code.len() as u64, SymbolKind::Text));
    let relocation = Relocation {
        offset: MAP_AT,
        symbol: map,
        addend: 0,
        // R_BPF_64_64
        flags: RelocationFlags::Elf { r_type: 1 },
    };
    object.add_relocation(text, relocation).unwrap();
    let license = object.add_section(Vec::new(), "license".into(), SectionKind::Data);
    object.append_section_data(license, b"GPL\0", 1);
    let name = format!("kymo-bpf-{test}-{}.o", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, object.write().unwrap()).unwrap();
    path
}

/// The file with its program loaded; `None`, and a word about it, where that is not permitted.
fn loaded(test: &str, section: &str) -> Option<ProgramFile> {
    let path = object_file(test, section);
    let mut file = match ProgramFile::open(&path) {
        Ok(file) => file,
        Err(error) => {
            fs::remove_file(&path).unwrap();
            let sentence = error.to_string();
            // EPERM, EACCES or ENOSYS of bpf(2).
            let missing = ["(os error 1)", "(os error 13)", "(os error 38)"];
            assert!(
                missing.iter().any(|words| sentence.contains(words)),
                "{sentence}"
            );
            not_run(&sentence);
            return None;
        }
    };
    fs::remove_file(&path).unwrap();
    match file.program("count").map(drop) {
        Ok(()) => Some(file),
        Err(error) => {
            let sentence = error.to_string();
            assert!(
                sentence.contains("ermission") || sentence.contains("ermitted"),
                "{sentence}"
            );
            not_run(&sentence);
            None
        }
    }
}

fn runs(file: &mut ProgramFile) -> u64 {
    let map = file.ebpf().map_mut("runs").unwrap();
    let array: Array<_, u64> = Array::try_from(map).unwrap();
    array.get(&0, 0).unwrap()
}

/// Gives up the CPU at most so many times: a sleep may be over before its thread gives way.
fn wait(times: usize) {
    for _ in 0..times {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Takes the processor for ten million instructions or more.
fn work() {
    (0..5_000_000_u64).for_each(|at| {
        std::hint::black_box(at);
    });
}

fn new_group() -> Group {
    let limit = SlotLimit::of_machine().unwrap();
    Group::new(Target::SELF, Options::default(), limit)
}

/// K-05, K-07: a member's program runs after each period of its event, and only while the group
/// counts.
#[test]
fn a_program_on_a_member_counts() {
    if !may_count() {
        return;
    }
    let Some(mut file) = loaded("member", "perf_event") else {
        return;
    };
    let mut group = new_group();
    group
        .add(EventSpec::from_name("page-faults").unwrap())
        .unwrap();
    let mut switches = EventSpec::from_name("context-switches").unwrap();
    switches.period = 1;
    let program = file.descriptor("count").unwrap();
    let switches = group.add_with_program(switches, program).unwrap();
    wait(10);
    assert_eq!(runs(&mut file), 0);
    group.start().unwrap();
    wait(50);
    group.stop().unwrap();
    let counts = group.read(switches).unwrap();
    assert!(counts.raw >= 10, "{counts:?}");
    assert_eq!(runs(&mut file), counts.raw);
    group.detach(switches).unwrap();
    group.start().unwrap();
    wait(10);
    assert_eq!(runs(&mut file), counts.raw);
}

/// K-05, K-07: a program on an event that a counter of the processor counts.
#[test]
fn a_program_on_a_member_of_the_hardware_runs_after_each_period() {
    if !may_count() {
        return;
    }
    let mut group = new_group();
    let instructions = EventSpec::from_name("instructions:u").unwrap();
    if let Err(error) = group.add(instructions) {
        return not_run(&error.to_string());
    }
    let Some(mut file) = loaded("hardware", "perf_event") else {
        return;
    };
    let period = 1_000_000;
    let mut cycles = EventSpec::from_name("cycles:u").unwrap();
    cycles.period = period;
    let program = file.descriptor("count").unwrap();
    let cycles = group.add_with_program(cycles, program).unwrap();
    work();
    assert_eq!(runs(&mut file), 0);
    group.start().unwrap();
    work();
    group.stop().unwrap();
    let counts = group.read(cycles).unwrap();
    assert!(counts.raw >= 5 * period, "{counts:?}");
    assert!(counts.members()[0].raw >= 5_000_000, "{counts:?}");
    // Overflows that come late make the periods longer.
    let (most, ran) = (counts.raw / period, runs(&mut file));
    assert!(ran <= most && ran * 10 >= most * 8, "{ran} of {most}");
    group.detach(cycles).unwrap();
    group.start().unwrap();
    work();
    assert_eq!(runs(&mut file), ran);
}

/// K-05.
#[test]
fn what_an_event_cannot_run_is_refused_and_the_group_is_as_before() {
    if !may_count() {
        return;
    }
    let mut group = new_group();
    let faults = EventSpec::from_name("page-faults").unwrap();
    let leader = group.add(faults).unwrap();
    group.start().unwrap();
    let no_program = File::open("/dev/null").unwrap();
    let error = group
        .add_with_program(faults, no_program.as_fd())
        .unwrap_err();
    assert!(matches!(error, Error::Program { .. }), "{error}");
    let sentence = error.to_string();
    assert!(
        sentence.starts_with("page-faults does not take the eBPF program"),
        "{sentence}"
    );
    assert_eq!(group.handles().count(), 1);
    group.read(leader).unwrap();
    // A program of another type.
    let Some(file) = loaded("other", "tracepoint/sched/sched_switch") else {
        return;
    };
    let program = file.descriptor("count").unwrap();
    let error = group.add_with_program(faults, program).unwrap_err();
    assert!(matches!(error, Error::Program { .. }), "{error}");
    assert_eq!(group.handles().count(), 1);
}

#[test]
fn a_file_without_the_program_says_which_it_has() {
    let path = object_file("names", "perf_event");
    let file = ProgramFile::open(&path);
    fs::remove_file(&path).unwrap();
    match file {
        Ok(mut file) => {
            let error = file.program("other").map(drop).unwrap_err();
            let sentence = error.to_string();
            assert!(sentence.contains("program other of"), "{sentence}");
            assert!(sentence.ends_with("it has only count"), "{sentence}");
        }
        // This process may not make maps.
        Err(error) => {
            let sentence = error.to_string();
            assert!(
                sentence.contains("CAP_BPF") || sentence.contains("(os error 38)"),
                "{sentence}"
            );
        }
    }
    let error = ProgramFile::open("/nowhere".as_ref())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/nowhere") && error.contains("No such file"),
        "{error}"
    );
}
