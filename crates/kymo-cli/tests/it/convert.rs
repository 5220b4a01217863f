//! Tests `kymo convert` as a user runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("kymo-converted-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A trace of events `tick` and `tock`, one per millisecond, in packets of ten, on two CPUs.
    fn trace(&self, name: &str, packets: u64) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(&path).unwrap();
        let metadata = "/* CTF 1.8 */
            typealias integer { size = 16; align = 8; } := u16; typealias integer { size = 64; align = 8; } := u64;
            typealias integer { size = 64; align = 8; map = clock.c.value; } := time;
            trace { major = 1; minor = 8; byte_order = le; packet.header := struct { integer { size = 32; align = 8; } magic; }; };
            clock { name = c; freq = 1000; };
            stream { packet.context := struct { time timestamp_begin; time timestamp_end; u16 packet_size; u16 cpu_id; };
              event.header := struct { u16 id; time t; }; };
            event { name = tick; id = 1; fields := struct { u64 n; }; }; event { name = tock; id = 2; fields := struct { u64 n; }; };";
        fs::write(path.join("metadata"), metadata).unwrap();
        for cpu in 0..2u16 {
            fs::write(path.join(format!("cpu_{cpu}")), stream(packets, cpu)).unwrap();
        }
        path.to_str().unwrap().to_owned()
    }
}

fn stream(packets: u64, cpu: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for packet in 0..packets {
        let begin = packet * 10;
        bytes.extend(0xc1fc_1fc1_u32.to_le_bytes());
        [begin, begin + 9]
            .into_iter()
            .for_each(|time| bytes.extend(time.to_le_bytes()));
        [(24 + 180) * 8, cpu]
            .into_iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        for event in 0..10 {
            bytes.extend((1 + (event % 2) as u16).to_le_bytes());
            [begin + event, event]
                .into_iter()
                .for_each(|word| bytes.extend(word.to_le_bytes()));
        }
    }
    bytes
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kymo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs the command; returns its messages.
fn says(code: i32, arguments: &[&str]) -> String {
    let output = kymo(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.starts_with("kymo: "), "{text}");
    text
}

fn dump(arguments: &[&str]) -> String {
    String::from_utf8(kymo(&[&["dump", "--json"], arguments].concat()).stdout).unwrap()
}

#[test]
fn a_whole_trace_dumps_alike() {
    let folder = Folder::new("whole");
    let (trace, out, new) = (
        folder.trace("in", 3),
        folder.path("out"),
        folder.path("new"),
    );
    assert_eq!(
        says(0, &["convert", &trace, &out]),
        format!("kymo: {out} has 60 events.\n")
    );
    says(0, &["convert", &trace, &new, "--ctf2"]);
    let expected = dump(&[&trace]);
    assert_eq!(expected.lines().count(), 60);
    assert_eq!(dump(&[&out]), expected);
    assert_eq!(dump(&[&new]), expected);
    assert!(
        fs::read(Path::new(&new).join("metadata"))
            .unwrap()
            .starts_with(b"\x1e{\"type\":\"preamble\",\"version\":2")
    );
    assert_eq!(
        kymo(&["lint", &out]).status.code(),
        Some(0),
        "nothing is wrong with it"
    );
}

/// Integers of more than 64 bits become text in CTF 1.8 if their size is fixed; variable-length
/// ones exist only in CTF 2.
#[test]
fn what_ctf_1_8_has_no_integers_for_is_text_or_refused() {
    let folder = Folder::new("wide");
    let made = |name: &str, class: &str, bytes: &[u8]| {
        let path = folder.path(name);
        fs::create_dir_all(&path).unwrap();
        let metadata = format!(
            "\u{1e}{{\"type\": \"preamble\", \"version\": 2}}\u{1e}{{\"type\": \"data-stream-class\"}}\
             \u{1e}{{\"type\": \"event-record-class\", \"name\": \"e\", \"payload-field-class\": {{\"type\": \"structure\", \
             \"member-classes\": [{{\"name\": \"n\", \"field-class\": {{{class}}}}}]}}}}"
        );
        fs::write(Path::new(&path).join("metadata"), metadata).unwrap();
        fs::write(Path::new(&path).join("s"), bytes).unwrap();
        path
    };
    let fixed =
        r#""type": "fixed-length-unsigned-integer", "length": 72, "byte-order": "big-endian""#;
    let fixed = made("fixed", fixed, &[1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (old, new) = (folder.path("fixed-old"), folder.path("fixed-new"));
    says(0, &["convert", &fixed, &old]);
    says(0, &["convert", &fixed, &new, "--ctf2"]);
    // JSON also has such numbers as text.
    assert!(
        dump(&[&old]).contains(r#""n":"18446744073709551616""#),
        "{}",
        dump(&[&old])
    );
    assert_eq!(dump(&[&new]), dump(&[&fixed]));
    let leb = r#""type": "variable-length-unsigned-integer""#;
    let leb = made(
        "leb",
        leb,
        &[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2],
    );
    let (old, new) = (folder.path("leb-old"), folder.path("leb-new"));
    let text = says(3, &["convert", &leb, &old]);
    assert!(
        text.contains("CTF 1.8")
            && text.contains("18446744073709551616")
            && text.contains("--ctf2"),
        "{text}"
    );
    assert!(!Path::new(&old).exists(), "nothing is left of it");
    says(0, &["convert", &leb, &new, "--ctf2"]);
    assert_eq!(dump(&[&new]), dump(&[&leb]));
}

#[test]
fn a_selection_is_what_dump_selects() {
    let folder = Folder::new("selection");
    let trace = folder.trace("in", 5);
    let selections: [&[&str]; 5] = [
        &["--from", "0.012", "--to", "+20ms"],
        &["--cpu", "1"],
        &["--event", "tock"],
        &["--from", "-5ms", "--event", "ti*", "--cpu", "0"],
        &["--to", "@7000000"],
    ];
    for (number, selection) in selections.into_iter().enumerate() {
        let out = folder.path(&format!("out-{number}"));
        says(0, &[&["convert", &trace, &out], selection].concat());
        let expected = dump(&[&[&*trace], selection].concat());
        assert!(expected.lines().count() > 1 && expected.lines().count() < 100);
        assert_eq!(dump(&[&out]), expected, "{selection:?}");
    }
    let out = folder.path("nothing");
    assert_eq!(
        says(0, &["convert", &trace, &out, "--from", "9"]),
        "kymo: the selection matches no event of the trace.\n"
    );
    for (selection, words) in [
        (["--cpu", "7"], "no event from CPU 7"),
        (["--event", "x"], "no event class \"x\""),
        (["--tid", "5"], "thread 5"),
    ] {
        let out = folder.path("refused");
        let text = says(2, &[&["convert", &trace, &out], &selection[..]].concat());
        assert!(text.contains(words) && !Path::new(&out).exists(), "{text}");
    }
}

#[test]
fn several_traces_go_side_by_side() {
    let folder = Folder::new("several");
    let (a, b, out) = (
        folder.trace("x/a", 1),
        folder.trace("y/a", 2),
        folder.path("out"),
    );
    assert_eq!(
        says(0, &["convert", &a, &b, &out]),
        format!("kymo: {out} has 60 events.\n")
    );
    let names = |of: &str| dump(&[of]).lines().count();
    assert_eq!(
        (
            names(&folder.path("out/a")),
            names(&folder.path("out/a-2")),
            names(&out)
        ),
        (20, 40, 60)
    );
}

#[test]
fn a_damaged_trace_is_written_as_far_as_it_goes() {
    let folder = Folder::new("damaged");
    let (trace, out) = (folder.trace("in", 3), folder.path("out"));
    let bytes = stream(3, 1);
    fs::write(Path::new(&trace).join("cpu_1"), &bytes[..bytes.len() - 10]).unwrap();
    let output = kymo(&["convert", &trace, &out]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(
        text.starts_with(&format!(
            "kymo: {out} has 59 events.\nkymo: cpu_1, packet 2"
        )),
        "{text}"
    );
    let expected: Vec<String> = dump(&[&trace])
        .lines()
        .filter(|line| line.contains("\"event\""))
        .map(str::to_owned)
        .collect();
    assert_eq!(dump(&[&out]).lines().collect::<Vec<_>>(), expected);
    // Steps back and an open packet are repaired and reported.
    let mut bytes = stream(3, 1);
    bytes[24 + 20 + 2..24 + 20 + 10].copy_from_slice(&5u64.to_le_bytes());
    bytes[2 * 204 + 20..2 * 204 + 22].fill(0);
    fs::write(Path::new(&trace).join("cpu_1"), &bytes).unwrap();
    let (out, again) = (folder.path("mended"), folder.path("again"));
    let text = says(0, &["convert", &trace, &out]);
    assert!(
        text.contains("; repaired: ")
            && text.contains("evened out, 1 packet was never closed and is now"),
        "{text}"
    );
    assert_eq!(
        says(0, &["convert", &out, &again]),
        format!("kymo: {again} has 60 events.\n")
    );
}

#[test]
fn what_cannot_be_done_leaves_nothing() {
    let folder = Folder::new("refused");
    let trace = folder.trace("in", 2);
    let out = folder.path("out");
    let inside = format!("{trace}/out");
    let around = format!("{}/no/such/../../in/out", folder.path("."));
    let full = folder.trace("full", 1);
    let file = format!("{trace}/cpu_0");
    for (code, arguments, words) in [
        (2, [&*trace, &*inside], "lies inside the input trace"),
        (2, [&trace, &around], "lies inside the input trace"),
        (2, [&trace, &full], "is not empty; give a new directory"),
        (2, [&trace, &file], "lies inside the input trace"),
        (2, [&file, &out], "give the trace directory"),
        (3, [&folder.path("nowhere"), &out], "cannot read"),
    ] {
        let text = says(code, &["convert", arguments[0], arguments[1]]);
        assert!(text.contains(words) && text.lines().count() == 1, "{text}");
    }
    let garbage = folder.path("garbage");
    fs::create_dir(&garbage).unwrap();
    fs::write(Path::new(&garbage).join("metadata"), [7; 1000]).unwrap();
    let message = says(3, &["convert", &garbage, &out]);
    assert!(
        message.starts_with(&format!("kymo: {garbage}: metadata, line 1")),
        "{message}"
    );
    assert!(!Path::new(&out).exists() && !Path::new(&inside).exists());
    // Only at the end is it known that the CPU does not exist; the created parent directories are
    // removed, too.
    assert!(
        says(
            2,
            &["convert", &trace, &folder.path("out/of/here"), "--cpu", "5"]
        )
        .contains("5")
    );
    assert!(!Path::new(&out).exists());
    let help = String::from_utf8(kymo(&["convert", "--help"]).stdout).unwrap();
    assert!(
        help.contains("kymo convert trace part --from 0.25") && help.contains("--ctf2"),
        "{help}"
    );
}

/// On a full disk, the output consists of whole packets and can be opened.
#[test]
#[cfg(unix)]
fn a_disk_that_fills_up() {
    let folder = Folder::new("full");
    let (trace, out) = (folder.trace("in", 100), folder.path("out"));
    // The limit is in blocks of 512 bytes; the streams are longer.
    let script = "trap '' XFSZ; ulimit -f 20; exec \"$0\" convert \"$1\" \"$2\"";
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", script, env!("CARGO_BIN_EXE_kymo"), &trace, &out])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(
        text.starts_with("kymo: cannot write the trace to") && text.lines().count() == 1,
        "{text}"
    );
    let there = dump(&[&out]);
    assert!(
        there.lines().count() >= 20 && !there.contains("\"error\""),
        "{there}"
    );
    let whole = dump(&[&trace]);
    let whole: std::collections::HashSet<&str> = whole.lines().collect();
    assert!(there.lines().all(|line| whole.contains(line)));
    // Without room for the metadata nothing is left.
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" convert \"$1\" \"$2\"";
    let other = folder.path("other");
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", script, env!("CARGO_BIN_EXE_kymo"), &trace, &other])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(!Path::new(&other).join("metadata").exists());
}
