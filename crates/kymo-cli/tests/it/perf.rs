//! Traces of `perf`: events that count different things are never added without being asked.

use std::path::Path;

use crate::run::kymo;
use kymo_made::elf::{Elf, Symbol, build_id, function};
use kymo_made::perf::{Perf, Sampled, USER};

/// Two samples of one event at 0x1000, one of the other at 0x2000.
fn made(name: &str, events: [&str; 2]) -> Perf {
    let mut made = Perf::new(name);
    let events = events.map(|event| made.sampled(event));
    for (event, time, ip) in [(0, 1, 0x1000), (0, 2, 0x1000), (1, 3, 0x2000)] {
        let chain = &[USER, ip];
        let of = Sampled {
            tid: 42,
            pid: 42,
            ip,
            period: 5,
            chain,
        };
        made.sample(events[event], time, of);
    }
    made
}

/// Exit code, output and messages of `kymo flame --format folded`.
fn folded(options: &[&str], trace: &Path) -> (Option<i32>, String, String) {
    let arguments = [&["flame", "--format=folded"][..], options].concat();
    let output = kymo(&arguments, trace);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn samples_of_time_are_shown_and_those_of_other_events_named() {
    for (shown, other) in [
        ("cycles:pp", "page-faults"),
        ("cpu-clock", "page-faults"),
        // Without a kind of time: what was sampled, and no tracepoint.
        ("page-faults", "sched:sched_wakeup"),
    ] {
        let made = made("kinds", [shown, other]);
        let trace = made.finish();
        let (code, out, errors) = folded(&[], trace);
        assert_eq!((code, &*out), (Some(0), "0x1000 2\n"));
        let said = format!("kymo: shown is {shown}; --event shows others: {other} (1).");
        assert!(errors.lines().any(|line| line == said), "{errors}");
        let (code, out, _) = folded(&["--event", other], trace);
        assert_eq!((code, &*out), (Some(0), "0x2000 1\n"));
        let (code, out, errors) = folded(&["--event", other, "--event", shown], trace);
        assert_eq!((code, &*out), (Some(0), "0x1000 2\n0x2000 1\n"));
        assert!(!errors.contains("shown is"), "{errors}");
    }
}

#[test]
fn of_several_events_one_has_to_be_chosen() {
    let made = made("mixed", ["instructions", "page-faults"]);
    let (code, out, errors) = folded(&[], made.finish());
    assert_eq!((code, &*out), (Some(2), ""));
    let wanted = "which count different things: instructions (2), page-faults (1); choose one";
    assert!(errors.contains(wanted), "{errors}");
}

/// The checksum of debug links.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// The folded stack of a sample at 0x1110 of a program, loaded elsewhere than linked, and why it has
/// no name. Whether the trace says where it was loaded is `mapped`.
fn shown(mapped: bool, options: &[&str]) -> (String, Option<String>) {
    let ip = 0x5555_0000_1110;
    let mut made = Perf::new(&format!("loaded-{:?}", std::thread::current().id()));
    let clock = made.sampled("cpu-clock");
    made.comm(0, 42, 42, "pie");
    if mapped {
        made.mappings(&[(0x5555_0000_1000, "/usr/bin/pie")]);
    }
    let chain = &[USER, ip];
    let sampled = Sampled {
        tid: 42,
        pid: 42,
        ip,
        period: 5,
        chain,
    };
    made.sample(clock, 1, sampled);
    let (code, out, errors) = folded(options, made.finish());
    assert_eq!(code, Some(0), "{errors}");
    let mut lines = errors.lines();
    let why = lines.find_map(|line| line.split_once("has no name: "));
    let why = why.map(|(_, why)| why.split([';', '.']).next().unwrap().to_owned());
    (out, why)
}

/// A sample in a function of a program that was linked at 0x1000 and loaded elsewhere.
#[test]
fn a_program_is_named_where_it_was_loaded_or_it_is_said_why_not() {
    let folder = std::env::temp_dir().join(format!("kymo-perf-image-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let image = |name: &str, symbols: &[Symbol<'_>]| {
        let path = folder.join(name);
        let elf = Elf {
            symbols,
            ..Elf::program()
        };
        std::fs::write(&path, elf.bytes()).unwrap();
        path.display().to_string()
    };
    let work = [function("work", 0x1100, 0x100)];
    let (whole, stripped) = (image("whole", &work), image("stripped", &[]));
    // Symbols that were moved to another file, and one that has been built again since.
    let work_elf = Elf {
        symbols: &work,
        ..Elf::program()
    }
    .bytes();
    std::fs::write(folder.join("work.debug"), &work_elf).unwrap();
    let linked = |name: &str, checksum: u32| {
        let link = [&b"work.debug\0\0"[..], &checksum.to_le_bytes()].concat();
        let sections = [(".gnu_debuglink", link)];
        let path = folder.join(name);
        let elf = Elf {
            sections: &sections,
            ..Elf::program()
        };
        std::fs::write(&path, elf.bytes()).unwrap();
        path.display().to_string()
    };
    let (moved, again) = (linked("moved", crc32(&work_elf)), linked("again", 1));
    let other = image("other", &[function("other", 0x1800, 0x100)]);
    let said = |mapped: bool, image: &str| shown(mapped, &[&format!("--image={image}")]);
    let (out, why) = said(true, &whole);
    assert_eq!((&*out, why), ("work 1\n", None));
    let based = format!("{whole}@0x555500001000");
    assert_eq!(said(false, &based).0, "work 1\n");
    assert_eq!(said(true, &moved), ("work 1\n".to_owned(), None));
    for (mapped, image, why) in [
        (true, &again, "its file has no symbols"),
        (false, &whole, "they are outside of its file"),
        (true, &stripped, "its file has no symbols"),
        (true, &other, "its file has symbols for other code only"),
    ] {
        assert_eq!(said(mapped, image).1.as_deref(), Some(why));
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Symbols that were moved to the file that is called after the build: only those of the same build
/// are taken.
#[test]
fn symbols_are_found_by_the_build_id() {
    let folder = std::env::temp_dir().join(format!("kymo-build-id-{}", std::process::id()));
    let [id, other] = [[0xab, 0xcd, 0xef, 0x01], [0xab, 0xcd, 0xef, 0x02]];
    let elf = |id: &[u8], symbols: &[Symbol<'_>]| {
        let sections = [build_id(id)];
        let elf = Elf {
            symbols,
            sections: &sections,
            ..Elf::program()
        };
        elf.bytes()
    };
    let work = [function("work", 0x1100, 0x100)];
    std::fs::create_dir_all(&folder).unwrap();
    let stripped = folder.join("stripped");
    std::fs::write(&stripped, elf(&id, &[])).unwrap();
    let image = format!("--image={}", stripped.display());
    let (first, second) = (
        "usr/lib/debug/.build-id/ab/cdef01.debug",
        ".build-id/ab/cdef01.debug",
    );
    let (whole, bare) = (elf(&id, &work), elf(&id, &[]));
    for (files, is_found) in [
        (&[(first, &whole)][..], true),
        (&[(second, &whole)], true),
        (&[(first, &bare), (second, &whole)], true),
        (&[(second, &bare)], false),
        (&[(second, &elf(&other, &work))], false),
        (&[(second, &b"no program".to_vec())], false),
        (&[(".build-id/ab/cdef02.debug", &whole)], false),
    ] {
        let images = folder.join("images");
        for (place, file) in files {
            let path = images.join(place);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, file).unwrap();
        }
        let images_option = format!("--images={}", images.display());
        let (out, why) = shown(true, &[&image, &images_option]);
        std::fs::remove_dir_all(&images).unwrap();
        let wanted = match is_found {
            true => ("work 1\n", None),
            false => ("pie+0x110 1\n", Some("its file has no symbols")),
        };
        let places = files.iter().map(|(place, _)| *place);
        let places: Vec<&str> = places.collect();
        assert_eq!((&*out, why.as_deref()), wanted, "{places:?}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
