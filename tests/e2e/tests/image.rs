//! One machine's memory in every form that `kymo recover` supports: RAM file, raw dump, ELF core.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use kymo_capture::locate;
use kymo_capture::qemu::{Launch, Qemu};
use kymo_e2e::{babeltrace, hello, kymo, patience, run, scratch, wait_until};

/// Sends a command to QEMU's monitor; waits for its answer.
fn command(monitor: &mut BufReader<UnixStream>, text: &str) {
    monitor
        .get_mut()
        .write_all(format!("{text}\n").as_bytes())
        .unwrap();
    loop {
        let mut line = String::new();
        assert!(
            monitor.read_line(&mut line).unwrap() > 0,
            "QEMU hung up on {text}"
        );
        assert!(!line.contains("\"error\""), "{text}: {line}");
        if line.contains("\"return\"") {
            return;
        }
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_ram_file_a_raw_dump_and_an_elf_core_give_the_same_trace() {
    let folder = scratch("image");
    let (ram, socket) = (folder.join("ram"), folder.join("qmp"));
    let append = "kymo=rolling work=markers events=1000000000 packets=16";
    let qmp = format!("unix:{},server=on,wait=off", socket.display());
    let launch = Launch::kernel(&hello(), 4, Some(append), &ram)
        .unwrap()
        .with(["-qmp", &qmp]);
    let machine = Qemu::spawn(&launch, Stdio::null()).unwrap();
    wait_until(|| {
        let segments = locate::segments(&ram, None);
        segments.and_then(|all| locate::region(&ram, &all)).is_ok()
    });
    sleep(Duration::from_millis(500));
    let mut monitor = BufReader::new(UnixStream::connect(&socket).unwrap());
    command(&mut monitor, r#"{"execute":"qmp_capabilities"}"#);
    command(&mut monitor, r#"{"execute":"stop"}"#);
    let (core, raw) = (folder.join("core"), folder.join("raw"));
    let path = |path: &Path| path.display().to_string();
    command(
        &mut monitor,
        &format!(
            r#"{{"execute":"dump-guest-memory","arguments":{{"paging":false,"protocol":"file:{}"}}}}"#,
            path(&core)
        ),
    );
    // A part of the memory, from an unaligned address.
    let (base, size) = (0x8010_0000u64, 100u64 << 20);
    command(
        &mut monitor,
        &format!(
            r#"{{"execute":"pmemsave","arguments":{{"val":{base},"size":{size},"filename":"{}"}}}}"#,
            path(&raw)
        ),
    );
    drop(machine);

    let recover = |image: &Path, name: &str, more: &[&str], code: i32| {
        let out = folder.join(name);
        let mut words = vec![
            "recover".to_owned(),
            path(image),
            "--out".to_owned(),
            path(&out),
        ];
        words.extend(more.iter().map(|&word| word.to_owned()));
        let output = run(&mut kymo(words), code);
        (out, String::from_utf8(output.stderr).unwrap())
    };
    let (from_ram, said) = recover(&ram, "from-ram", &[], 0);
    assert!(said.contains("still running"), "{said}");
    let (events, losses) = babeltrace::compare(&from_ram);
    assert!(
        events > 1000 && !losses.is_empty(),
        "{events} events, {losses:?}"
    );
    let (from_core, _) = recover(&core, "from-core", &[], 0);
    let (from_raw, _) = recover(&raw, "from-raw", &["--base", "0x80100000"], 0);
    assert!(
        files(&from_ram) == files(&from_core),
        "the ELF core gives the same files"
    );
    assert!(
        files(&from_ram) == files(&from_raw),
        "the raw dump gives the same files"
    );
    // With a wrong base the region looks like a copy, and 0x80100000 is not a default base.
    assert!(
        recover(&raw, "wrong", &["--base", "0x80000000"], 3)
            .1
            .contains("--base")
    );
    assert!(recover(&raw, "unknown", &[], 3).1.contains("--base"));
}

#[test]
#[ignore = "end to end: cargo xtask test runs it"]
fn a_users_own_qemu_command_is_recorded() {
    let out = scratch("own-command").join("trace");
    let hello = hello().display().to_string();
    let words = [
        "--",
        "qemu-system-riscv64",
        "-machine",
        "virt",
        "-smp",
        "2",
        "-m",
        "size=256M",
        "-nographic",
        "-kernel",
        &hello,
    ];
    let mut command = kymo(["record", "--timeout", patience(), "--out"]);
    let output = run(
        command
            .arg(&out)
            .args(words)
            .args(["-append", "events=20000"]),
        0,
    );
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("recording on 2 harts")
    );
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("the machine ended; ")
    );
    assert!(babeltrace::compare(&out).0 >= 20_000);
}
