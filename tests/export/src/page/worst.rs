//! The worst cases of the report, each with a way there, the arrows of what is selected, and who
//! held its thread up.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Arguments, LENGTH, output, text};
use crate::browser::Browser;

/// Clicks the longest interrupt, wake-up latency and lock wait in the panel: the page goes there
/// and selects what lasts as long as the report says. The latency has an arrow from its waker.
pub(super) fn are_one_click_away(
    browser: &mut Browser,
    arguments: &Arguments,
    address: &str,
    trace: &Path,
    report: &Value,
) -> Result<()> {
    let most = |rows: &Value, of: &[&str]| {
        let rows = rows.as_array().into_iter().flatten();
        let value = |row| of.iter().fold(row, |value: &Value, member| &value[*member]);
        rows.filter_map(|row| value(row).as_u64()).max()
    };
    let wakes = &report["wake_latency"]["worst"];
    for (kind, longest) in [
        (
            "interrupt",
            most(&report["interrupts"], &["durations", "max_ns"]),
        ),
        (
            "system call",
            most(&report["system_calls"], &["durations", "max_ns"]),
        ),
        ("lock wait", most(&report["locks"], &["longest_wait", "ns"])),
        ("wake-up latency", most(wakes, &["latency_ns"])),
    ] {
        let longest = longest.with_context(|| format!("the report has no {kind}"))?;
        browser.open(address)?;
        let button = format!(
            "Array.from(document.querySelectorAll('#panel button'))\
             .find(b => b.textContent.startsWith('{kind}'))"
        );
        browser.wait_for(&format!("{button} !== undefined"))?;
        browser.value(&format!("{button}.click()"))?;
        browser.wait_for("/selected=.*row=/.test(location.hash)")?;
        let lasts = "(() => { const [a, b] = /selected=(\\d+)-(\\d+)/.exec(location.hash)\
                     .slice(1).map(Number); return b - a; })()";
        let lasts = browser.value(lasts)?.as_u64();
        ensure!(
            lasts == Some(longest),
            "the {kind} lasts {lasts:?}, not {longest}"
        );
        let length = browser.value(LENGTH)?.as_f64().context("no length")?;
        // A fifth of the width, unless the trace ends there.
        ensure!(length <= 5.0 * longest as f64 + 1.0, "{length} are in view");
        println!("One click shows the longest {kind}: {longest} ns.");
    }
    let woken = wakes[0]["thread"]["name"].as_str().context("no thread")?;
    let wakes_it = format!("wakes {woken}");
    browser.wait_for(&format!(
        "document.querySelector('#panel').textContent.includes('{wakes_it}')"
    ))?;
    let arrows = text(browser, "#panel div ~ div")?;
    let waker = match wakes[0]["by_interrupt"].as_bool() {
        Some(true) => "interrupts",
        _ => wakes[0]["waker"]["name"].as_str().context("no waker")?,
    };
    ensure!(arrows.contains(waker), "{waker} woke {woken}, not {arrows}");
    println!("An arrow leads from {waker} to {woken}.");
    let path = path_of(browser, arguments, trace, &wakes[0]["thread"])?;
    browser.value(
        "Array.from(document.querySelectorAll('#panel button'))\
         .find(b => b.textContent === 'Why?').click()",
    )?;
    who_held_it_up_is_said(browser, &path)
}

/// What `kymo why` says of a thread in the time that is selected.
fn path_of(
    browser: &mut Browser,
    arguments: &Arguments,
    trace: &Path,
    thread: &Value,
) -> Result<Value> {
    let tid = thread["tid"].as_u64().context("no number of a thread")?;
    let times = browser.value("/selected=([0-9]+-[0-9]+)/.exec(location.hash)[1]")?;
    let (from, to) = times
        .as_str()
        .and_then(|times| times.split_once('-'))
        .context("nothing is selected")?;
    let mut why = Command::new(&arguments.kymo);
    why.args(["why", "--json", "--tid", &tid.to_string()]);
    why.args(["--from", &format!("{from}ns"), "--to", &format!("{to}ns")]);
    Ok(serde_json::from_str(&output(why.arg(trace))?)?)
}

/// The panel has the critical path that `kymo why` prints: its longest parts, and those who were
/// responsible for most.
fn who_held_it_up_is_said(browser: &mut Browser, path: &Value) -> Result<()> {
    const PARTS: usize = 40;
    const PEOPLE: usize = 10;
    let title =
        "Array.from(document.querySelectorAll('#panel h2')).map(title => title.textContent)";
    browser.wait_for(&format!("{title}.includes('Critical path')"))?;
    let rows = |of: usize| {
        format!(
            "Array.from(document.querySelectorAll('#panel table')[{of}].querySelectorAll('tr'))\
             .map(row => row.querySelector('td')).filter(cell => cell !== null)\
             .map(cell => cell.textContent)"
        )
    };
    let who = browser.value(&rows(0))?;
    let responsible = path["by_who"].as_array().context("nobody")?;
    let names = responsible
        .iter()
        .take(PEOPLE)
        .map(|of| of["who"]["name"].as_str().unwrap_or_default());
    let shown: Vec<_> = who.as_array().into_iter().flatten().collect();
    ensure!(
        shown.len() == responsible.len().min(PEOPLE),
        "{who}, not {responsible:?}"
    );
    for (shown, name) in shown.iter().zip(names) {
        ensure!(
            shown.as_str().is_some_and(|shown| shown.contains(name)),
            "{shown}, not {name}"
        );
    }
    let parts = path["segments"].as_array().map_or(0, Vec::len);
    let shown = browser.value(&rows(1))?.as_array().map_or(0, Vec::len);
    ensure!(
        shown == parts.min(PARTS),
        "{shown} parts of a critical path of {parts}"
    );
    println!(
        "The critical path names the {} that kymo why does.",
        who.as_array().map_or(0, Vec::len)
    );
    Ok(())
}
