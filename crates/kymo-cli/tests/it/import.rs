//! `kymo import redox`, on the command itself.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const NM: &str = "ffffffff80001000 0000000000000020 T kernel::main
ffffffff80001020 0000000000000010 t kernel::work
";
const USER: &str = "0000000000001000 0000000000000100 T dd::main
";
/// 1.000005 s, 1.5 s and 2 s at 1 GHz.
const PROFILE: &str = "file:/bin/dd 1 3b9add88 ffffffff80001028 ffffffff80001020 1010
[kmain] 0 59682f00 ffffffff80001008
file:/bin/dd 1 77359400 1018
other 0 77359400 2018
";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kymo-import-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let folder = Folder(path);
        for (name, text) in [("nm.txt", NM), ("user.txt", USER), ("profile.txt", PROFILE)] {
            fs::write(folder.0.join(name), text).unwrap();
        }
        folder
    }

    /// Runs `kymo import redox` in the folder.
    fn import(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(["import", "redox"])
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap()
    }

    /// Its exit status, what it printed, and its messages.
    fn printed(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.import(arguments);
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const BASE: [&str; 3] = ["profile.txt", "--symbols", "nm.txt"];

#[test]
fn the_script_is_that_of_the_original_with_padded_fractions() {
    let folder = Folder::new("script");
    let arguments = [&BASE[..], &["--format", "perf-script", "--ghz", "1"]].concat();
    let (code, text, messages) = folder.printed(&arguments);
    let wanted = "kernel 1 1.000005:
\tffffffff80001028 [kernel::work] ([kernel])
\tffffffff80001020 [kernel::main] ([kernel])

kernel 0 1.500000:
\tffffffff80001008 [kernel::main] ([kernel])

";
    assert_eq!((code, text.as_str()), (Some(0), wanted));
    let wanted = "kymo: 2 samples of 2 CPUs.
kymo: 2 samples in user mode are left out; --user-part keeps them.
";
    assert_eq!(messages, wanted);
}

#[test]
fn user_parts_have_symbols_and_names_of_threads() {
    let folder = Folder::new("user");
    let user = [
        "--format",
        "perf-script",
        "--ghz",
        "1",
        "--user",
        "file:/bin/dd=user.txt",
    ];
    let (code, text, messages) = folder.printed(&[&BASE[..], &user].concat());
    assert_eq!(code, Some(0));
    assert!(text.starts_with("file:/bin/dd 1 1.000005:\n"), "{text}");
    assert!(
        text.contains("\t1010 [dd::main] (file:/bin/dd)\n\n[kmain] 0 "),
        "{text}"
    );
    assert!(text.contains("file:/bin/dd 1 2.000000:\n\t1018 [dd::main] (file:/bin/dd)\n"));
    assert!(messages.contains(
        "kymo: 1 sample in user mode of a thread without symbols is left out: other (1); give"
    ));
    let arguments = [&BASE[..], &user, &["--unknown-threads"]].concat();
    let (_, text, messages) = folder.printed(&arguments);
    assert!(
        text.ends_with("other 0 2.000000:\n\t2018 [unknown] (other)\n\n"),
        "{text}"
    );
    assert_eq!(messages, "kymo: 4 samples of 2 CPUs.\n");
}

#[test]
fn every_format_is_written() {
    let folder = Folder::new("formats");
    let (code, text, _) = folder.printed(&[&BASE[..], &["--format", "folded"]].concat());
    let wanted = "kernel;kernel::main 1\nkernel;kernel::main;kernel::work 1\n";
    assert_eq!((code, text.as_str()), (Some(0), wanted));
    let (_, text, _) =
        folder.printed(&[&BASE[..], &["--format", "folded", "--frames", "both"]].concat());
    let wanted = "kernel;kernel::main;kernel::main+0x20;kernel::work;kernel::work+0x8 1
kernel;kernel::main;kernel::main+0x8 1
";
    assert_eq!(text, wanted);
    for format in ["svg", "speedscope", "pprof", "firefox"] {
        let arguments = [&BASE[..], &["--format", format, "-o", format]].concat();
        let (code, text, messages) = folder.printed(&arguments);
        assert_eq!((code, text.as_str()), (Some(0), ""), "{messages}");
        let bytes = fs::read(folder.0.join(format)).unwrap();
        let begin: &[u8] = match format {
            "svg" => b"<?xml",
            "pprof" => b"\x1f\x8b",
            _ => b"{\"",
        };
        assert!(bytes.starts_with(begin), "{format}");
        let is_said = messages.contains("The times are ticks; --ghz GHZ");
        assert_eq!(
            is_said,
            matches!(format, "speedscope" | "firefox"),
            "{format}"
        );
    }
    let svg = fs::read_to_string(folder.0.join("svg")).unwrap();
    assert!(svg.contains("<title>all (2 samples, 100%)</title>"));
    let speedscope = fs::read_to_string(folder.0.join("speedscope")).unwrap();
    assert!(speedscope.contains("profile.txt (times are ticks)"));
}

#[test]
fn an_elf_file_has_the_symbols_too() {
    let folder = Folder::new("elf");
    let program = env!("CARGO_BIN_EXE_kymo");
    let nm = Command::new("nm").args(["-CS", program]).output().unwrap();
    let nm = String::from_utf8(nm.stdout).unwrap();
    let line = nm.lines().find(|line| line.contains(" T main")).unwrap();
    let address = u64::from_str_radix(&line[..16], 16).unwrap() + 1;
    // A user address, as the program is none of a kernel.
    fs::write(folder.0.join("user.txt"), format!("a 0 1 {address:x}\n")).unwrap();
    let user = format!("a={program}");
    let arguments = [
        "user.txt",
        "--symbols",
        program,
        "--user",
        &user,
        "--format",
        "folded",
    ];
    let (code, text, messages) = folder.printed(&arguments);
    assert_eq!((code, text.as_str()), (Some(0), "a;main 1\n"), "{messages}");
}

#[test]
fn without_a_frequency_times_are_ticks() {
    let folder = Folder::new("ticks");
    let (_, text, messages) = folder.printed(&[&BASE[..], &["--format", "perf-script"]].concat());
    assert!(text.starts_with("kernel 1 1000005000: ticks:\n"), "{text}");
    assert!(messages.ends_with("kymo: The times are ticks; --ghz GHZ makes them seconds.\n"));
}

#[test]
fn malformed_lines_are_reported_with_their_numbers_and_the_rest_counted() {
    let folder = Folder::new("malformed");
    let text = format!("{PROFILE}dd 0 0 xyz\n{}\n", "dd\n".repeat(20));
    fs::write(folder.0.join("profile.txt"), text).unwrap();
    fs::write(folder.0.join("nm.txt"), format!("{NM}nonsense\n")).unwrap();
    for format in ["perf-script", "folded"] {
        let (code, text, messages) = folder.printed(&[&BASE[..], &["--format", format]].concat());
        assert_eq!(code, Some(1), "{messages}");
        assert!(text.contains("kernel::work"));
        let lines: Vec<&str> = messages.lines().collect();
        assert!(lines[0].starts_with("kymo: nm.txt, line 3 is skipped: expected an address"));
        let wanted = "kymo: profile.txt, line 5 is skipped: the address \"xyz\" is not a \
                      hexadecimal number of at most 64 bits.";
        assert_eq!(lines[1], wanted);
        assert_eq!(
            lines[11],
            "kymo: profile.txt: 11 more malformed lines are skipped."
        );
        assert_eq!(lines[12], "kymo: 2 samples of 2 CPUs.");
    }
}

#[test]
fn unusable_files_and_arguments_are_refused() {
    let folder = Folder::new("refused");
    let refused = |code: i32, arguments: &[&str], says: &str| {
        let (status, text, messages) = folder.printed(arguments);
        assert_eq!(
            (status, text.as_str()),
            (Some(code), ""),
            "{arguments:?} {messages}"
        );
        let last = messages.lines().last().unwrap();
        assert!(
            messages.contains(says) && (code == 2 || last.starts_with("kymo: ")),
            "{messages}"
        );
    };
    for file in ["empty", "noise", "user"] {
        let bytes: &[u8] = match file {
            "empty" => b"",
            "noise" => &[0xa5; 9000],
            _ => b"a 0 1 1000\n",
        };
        fs::write(folder.0.join(file), bytes).unwrap();
    }
    for format in ["perf-script", "svg"] {
        let out = folder.0.join("out");
        let out = [
            "--symbols",
            "nm.txt",
            "--format",
            format,
            "-o",
            out.to_str().unwrap(),
        ];
        let with = |file| [&[file][..], &out].concat();
        refused(3, &with("empty"), "empty has no samples; give");
        refused(3, &with("noise"), "noise has no samples; give");
        refused(3, &with("nothing"), "cannot read nothing: ");
        refused(3, &with("."), "cannot read .: ");
        refused(
            3,
            &with("user"),
            "user has only samples of user mode; add --user-part",
        );
        let arguments = [&with("user")[..], &["--user-part"]].concat();
        refused(
            3,
            &arguments,
            "user has only samples of user mode without symbols; give --user",
        );
        assert!(!folder.0.join("out").exists() && !folder.0.join("out.part").exists());
    }
    refused(
        3,
        &["profile.txt", "--symbols", "empty"],
        "empty has no functions; give",
    );
    refused(
        3,
        &["profile.txt", "--symbols", "nothing"],
        "cannot read nothing: ",
    );
    fs::write(folder.0.join("elf"), b"\x7fELF and nothing more").unwrap();
    refused(
        3,
        &["profile.txt", "--symbols", "elf"],
        "elf: a damaged or truncated ELF file; copy",
    );
    for wrong in ["0", "-1", "nan", "2,4", "1e9", ""] {
        let ghz = format!("--ghz={wrong}");
        refused(
            2,
            &[&BASE[..], &[&ghz]].concat(),
            "expected gigahertz above 0",
        );
    }
    refused(
        2,
        &[&BASE[..], &["--user", "dd"]].concat(),
        "expected THREAD=FILE",
    );
    refused(
        4,
        &[&BASE[..], &["-o", "/proc/no/such/place"]].concat(),
        "cannot write",
    );
}
