//! Two stretches of time side by side.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Arguments, picture, report};
use crate::browser::Browser;

/// Selects two stretches of time: the panel has the events of both, as `kymo report` counts them.
pub(super) fn stretches(
    browser: &mut Browser,
    arguments: &Arguments,
    address: &str,
    trace: &Path,
) -> Result<()> {
    browser.open(&format!("{address}#10000000-20000000"))?;
    browser.wait_for("document.documentElement.dataset.ready === 'yes'")?;
    let [x, y, width, _] = picture(browser)?;
    let at = |part: f64| (x + part * width, y + 30.0);
    browser.drag(at(0.25), at(0.5))?;
    let panel = "document.querySelector('#panel').textContent";
    browser.wait_for(&format!("/^0.* events, none lost/.test({panel})"))?;
    browser.press("c")?;
    browser.wait_for(&format!("{panel}.startsWith('Select a second')"))?;
    browser.drag(at(0.5), at(0.9))?;
    browser.wait_for(&format!("{panel}.startsWith('First: ')"))?;
    browser.wait_for("/selected=.*first=/.test(location.hash)")?;
    let times = "['first', 'selected'].flatMap(name => new RegExp(`${name}=(\\\\d+)-(\\\\d+)`)\
                 .exec(location.hash).slice(1))";
    let times = browser.value(times)?;
    let cells = browser.value(
        "Array.from(document.querySelectorAll('#panel .part tr:nth-child(2) td.number'), \
         c => c.textContent.replaceAll(',', ''))",
    )?;
    for side in 0..2 {
        let time = |place: usize| -> Result<String> {
            let time = times[place].as_str().context("no time")?;
            // From the clock's origin, which is where the trace begins.
            Ok(format!("@{time}"))
        };
        let (from, to) = (time(2 * side)?, time(2 * side + 1)?);
        let report: Value = report(&arguments.kymo, trace, &["--from", &from, "--to", &to])?;
        ensure!(
            cells[side].as_str() == Some(&*report["events"].to_string()),
            "{from} to {to} have {}, the panel {cells}",
            report["events"]
        );
    }
    // The other page shows the comparison too.
    let hash = browser.value("location.hash")?;
    browser.open(&format!("{address}{}", hash.as_str().unwrap_or_default()))?;
    browser.wait_for(&format!("{panel}.startsWith('First: ')"))?;
    browser.press("c")?;
    browser.wait_for(&format!("/^0.* events, none lost/.test({panel})"))?;
    println!("Two stretches are compared: {cells} events.");
    Ok(())
}
