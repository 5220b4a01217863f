//! A trace of which a part cannot be read.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::{Arguments, View, text};
use crate::browser::Browser;

/// `kymo view` says what `kymo report` says of a file that was cut off, when it makes the index and
/// when it has one, and so does the page.
pub(super) fn is_said(browser: &mut Browser, arguments: &Arguments, trace: &Path) -> Result<()> {
    let cut = arguments.folder.join("cut");
    fs::create_dir_all(&cut)?;
    for entry in fs::read_dir(trace)? {
        let entry = entry?;
        fs::copy(entry.path(), cut.join(entry.file_name()))?;
    }
    let stream = cut.join("events_0");
    let length = fs::metadata(&stream)?.len();
    fs::File::options()
        .write(true)
        .open(&stream)?
        .set_len(length - 1_000)?;
    let report = Command::new(&arguments.kymo)
        .arg("report")
        .arg(&cut)
        .output()?;
    let says = String::from_utf8_lossy(&report.stderr).trim().to_owned();
    let sentence = says.rsplit(": events_0").next().context("no sentence")?;
    ensure!(
        sentence.contains("the file ends inside this packet"),
        "kymo report says {says}"
    );
    for turn in ["makes the index", "has one"] {
        let said = arguments.folder.join("said");
        let mut command = Command::new(&arguments.kymo);
        command.args(["view", "--no-open", "--index"]);
        command.arg(arguments.folder.join("index")).arg(&cut);
        command.stderr(Stdio::from(fs::File::create(&said)?));
        let (_view, address) = View::start(&mut command)?;
        browser.open(&address)?;
        browser.wait_for("!document.querySelector('#damaged').hidden")?;
        let shown = text(browser, "#damaged")?;
        ensure!(shown.contains(sentence), "the page says {shown}");
        let is_there = |messages: &str| messages.lines().any(|line| line == says);
        let mut messages = String::new();
        for _ in 0..12_000 {
            messages = fs::read_to_string(&said)?;
            if is_there(&messages) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        ensure!(
            is_there(&messages),
            "where it {turn}, kymo view says {messages}, not {says}"
        );
    }
    println!("Of a trace that was cut off, the page says: {sentence}");
    Ok(())
}
