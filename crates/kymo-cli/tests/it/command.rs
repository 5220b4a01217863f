//! Versions, completions, manual pages and the progress bar.

use std::process::{Command, Output};

fn kymo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(arguments)
        .output()
        .unwrap()
}

fn says(arguments: &[&str]) -> String {
    let output = kymo(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The exit code is right even if the messages cannot be written.
#[test]
fn messages_that_cannot_be_written_change_nothing() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(["dump", "/nowhere"])
        .stderr(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
}

const VERBS: [&str; 12] = [
    "record",
    "recover",
    "cost",
    "dump",
    "report",
    "check",
    "diff",
    "why",
    "doctor",
    "export",
    "completions",
    "man",
];

#[test]
fn the_version_names_the_formats() {
    let text = says(&["--version"]);
    assert_eq!(text.lines().next(), says(&["-V"]).lines().next());
    let layout = format!("layout version {}", kymo::ring::layout::LAYOUT_VERSION);
    let vocabulary = format!("vocabulary version {}", kymo::vocabulary::VERSION);
    for part in [
        "reads 1.8",
        "writes 1.8",
        "convert: 1.8, 2.0",
        &layout,
        &vocabulary,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The written metadata has the same version.
    let clock = kymo::Clock::at(1);
    let mut metadata = String::new();
    let session = kymo::ctf::tsdl::Session {
        uuid: [0; 16],
        clock,
        hosted: true,
        samples: false,
        counters: kymo::counter::Counters::NONE,
    };
    kymo::ctf::tsdl::write(&mut metadata, &session, &kymo::vocabulary::ALL).unwrap();
    let (major, minor) = kymo::ctf::VERSION;
    assert!(
        metadata.starts_with(&format!("/* CTF {major}.{minor} */"))
            && metadata.contains(&format!("\tminor = {minor};"))
    );
    assert!(kymo_ctf::VERSIONS.contains(&kymo::ctf::VERSION));
}

#[test]
fn every_shell_has_completions_of_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = says(&["completions", shell]);
        for word in VERBS.into_iter().chain(["keep-ram", "thread"]) {
            assert!(script.contains(word), "{shell} {word}");
        }
    }
    assert_eq!(kymo(&["completions", "cmd"]).status.code(), Some(2));
    // bash, which is always installed, accepts the script.
    let script = says(&["completions", "bash"]);
    let folder = std::env::temp_dir().join(format!("kymo-completions-{}", std::process::id()));
    std::fs::write(&folder, script).unwrap();
    let complete = "source \"$0\"; COMP_WORDS=(kymo du); COMP_CWORD=1; _kymo kymo du kymo; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash")
        .args(["-c", complete])
        .arg(&folder)
        .output()
        .unwrap();
    std::fs::remove_file(&folder).unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap().trim(),
        "dump",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn every_verb_has_a_page_with_its_options() {
    let folder = std::env::temp_dir().join(format!("kymo-man-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let pages = folder.join("man1");
    says(&["man", pages.to_str().unwrap()]);
    says(&["man", pages.to_str().unwrap()]);
    let page = |name: &str| {
        std::fs::read_to_string(pages.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(
        page("kymo.1").starts_with(".ie") || page("kymo.1").contains(".TH kymo 1"),
        "{}",
        page("kymo.1")
    );
    for verb in VERBS {
        let page = page(&format!("kymo-{verb}.1"));
        assert!(
            page.contains("SYNOPSIS") && page.contains("Example"),
            "{verb}: {page}"
        );
    }
    assert!(page("kymo-dump.1").contains("\\-\\-thread"));
    std::fs::write(folder.join("file"), "").unwrap();
    let refused = kymo(&["man", folder.join("file").to_str().unwrap()]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(refused.status.code(), Some(4));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(
        text.contains("writable directory") && text.lines().count() == 1,
        "{text}"
    );
}

/// The bar appears only on a terminal, which `script` provides.
#[test]
#[cfg(target_os = "linux")]
fn a_bar_shows_how_far_the_reading_is() {
    let mut made = kymo_made::Made::new("bar");
    for time in 0..100_000 {
        made.event(0, time, kymo::vocabulary::SchedEnter {});
    }
    let trace = made.finish().to_str().unwrap();
    for arguments in [
        &["report"][..],
        &["check"],
        &["doctor"],
        &["dump", "--count"],
        &["dump", "--count", "--from", "-1ms"],
    ] {
        let line = format!(
            "'{}' {} '{trace}' > /dev/null",
            env!("CARGO_BIN_EXE_kymo"),
            arguments.join(" ")
        );
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            // A bar is not drawn on a terminal of no kind.
            .env("TERM", "xterm")
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(shown.contains("% of "), "{arguments:?} {shown}");
        let output = kymo(&[arguments, &[trace]].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!told.contains('%'), "{told}");
    }
}

/// A terminal gets no picture: it is written to a file of the working directory, which is named.
#[test]
#[cfg(target_os = "linux")]
fn a_picture_is_not_written_to_a_terminal() {
    let program = env!("CARGO_BIN_EXE_kymo");
    let folder = std::env::temp_dir().join(format!("kymo-terminal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let shown = |line: String| {
        let output = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm")
            .current_dir(&folder)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = shown(format!("'{program}' size '{program}'"));
    assert!(text.contains("kymo: wrote size.svg; open it"), "{text}");
    assert!(!text.contains("<svg"));
    let picture = std::fs::read_to_string(folder.join("size.svg")).unwrap();
    assert!(picture.contains("<svg"));
    let text = shown(format!("'{program}' size '{program}' -o -"));
    assert!(text.contains("<svg") && !text.contains("wrote"));

    let mut made = kymo_made::Made::new("picture");
    let event = |tid| kymo::vocabulary::SchedSwitch {
        prev_tid: kymo::vocabulary::Tid(tid),
        next_tid: kymo::vocabulary::Tid(11 - tid),
        next_prio: 0,
        prev_state: kymo::vocabulary::ThreadState::Blocked,
        reason: kymo::vocabulary::SwitchReason::Waits,
    };
    for time in 1..10 {
        made.event(0, time * 1_000, event(5 + (time % 2) as u32));
    }
    let trace = made.finish().to_str().unwrap();
    let text = shown(format!("'{program}' flame '{trace}' --off-cpu"));
    assert!(text.contains("kymo: wrote flame.svg; open it"), "{text}");
    assert!(folder.join("flame.svg").exists());
    let text = shown(format!(
        "'{program}' flame '{trace}' --off-cpu --format folded"
    ));
    assert!(text.contains("blocked"), "{text}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Help is wrapped between words, at most 100 columns wide.
#[test]
fn help_fits_the_terminal() {
    for verb in VERBS {
        let help = says(&[verb, "--help"]);
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{verb}: {line}");
        }
    }
}
