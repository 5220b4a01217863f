//! The page as one file.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Arguments, output, report, text};
use crate::browser::Browser;

/// What the file has, in nanoseconds from the trace's begin.
const FROM: u64 = 20_000_000;
const TO: u64 = 24_000_000;
/// Columns of the windows that are compared.
const COLUMNS: u64 = 500;

/// Opens a file with a stretch of time: it has the report of that, every window has the same slices
/// as the server's, a worst case is one click away, and what a file does not have is said.
pub(super) fn shows_the_same(
    browser: &mut Browser,
    arguments: &Arguments,
    address: &str,
    trace: &Path,
) -> Result<()> {
    let file = arguments.folder.join("page.html");
    let (from, to) = (format!("{FROM}ns"), format!("{TO}ns"));
    let mut command = Command::new(&arguments.kymo);
    command.args(["view", "--from", &from, "--to", &to, "--html"]);
    command.arg(&file).arg("--index");
    output(command.arg(arguments.folder.join("index")).arg(trace))?;
    let report = report(&arguments.kymo, trace, &["--from", &from, "--to", &to])?;

    let windows = |module: &str, begin: u64| {
        let length = TO - FROM;
        // All of it, and parts of it down to a column of 10 ns.
        let parts = [1, 4, 25, 800].map(|part| {
            let at = begin + length / part * (part / 2);
            format!("[{at}, {}]", at + length / part)
        });
        format!(
            "(async () => {{ const server = await import('{module}');\
             const {{ rows }} = await server.trace();\
             const all = Array.from(rows.keys());\
             const found = [];\
             for (const [from, to] of [{}]) {{\
             const window = await server.window(from, to, {COLUMNS}, all);\
             found.push([window.isExact, all.map(row => Array.from(window.rows.get(row)))]); }}\
             return found; }})()",
            parts.join(", ")
        )
    };
    browser.open(address)?;
    browser.wait_for("document.documentElement.dataset.whole === 'yes'")?;
    // The trace begins with its first event.
    let served = browser.value(&windows("./server.js", FROM))?;

    let file = file.canonicalize()?;
    browser.open(&format!("file://{}", file.display()))?;
    browser.wait_for("document.documentElement.dataset.whole === 'yes'")?;
    let about = text(browser, "#about")?;
    let events = report["events"].as_u64().context("no number of events")?;
    ensure!(
        about
            .replace(',', "")
            .starts_with(&format!("{events} events")),
        "the page has {about}, the report {events} events"
    );
    let stored = browser.value(&windows("kymo/server.js", 0))?;
    let mut compared = 0;
    for (stored, served) in stored
        .as_array()
        .into_iter()
        .flatten()
        .zip(served.as_array().into_iter().flatten())
    {
        ensure!(stored[0] == true, "the file has not each slice by itself");
        // Where the server's window is not exact, slices are merged at other places.
        if served[0] == true {
            ensure!(stored[1] == served[1], "a window of the file differs");
            compared += 1;
        }
    }
    ensure!(compared > 1, "{compared} windows of the server are exact");

    let longest = report["interrupts"].as_array().into_iter().flatten();
    let longest = longest.filter_map(|one| one["durations"]["max_ns"].as_u64());
    let longest = longest.max().context("no interrupts")?;
    let panel = "document.querySelector('#panel').textContent";
    browser.wait_for(&format!("{panel}.startsWith('All of it')"))?;
    browser.value("document.querySelector('#panel td button').click()")?;
    browser.wait_for(&format!("{panel}.includes('lasts{longest} ns')"))?;
    browser.press("r")?;
    browser.wait_for(&format!(
        "{panel}.includes('open the trace with kymo view')"
    ))?;
    println!("A file has the same in {compared} windows: {about}");
    Ok(())
}
