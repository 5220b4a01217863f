//! The worst cases of the report, each with a way there, and the arrows of what is selected.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{LENGTH, text};
use crate::browser::Browser;

/// Clicks the longest interrupt, wake-up latency and lock wait in the panel: the page goes there
/// and selects what lasts as long as the report says. The latency has an arrow from its waker.
pub(super) fn are_one_click_away(
    browser: &mut Browser,
    address: &str,
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
    let arrows = text(browser, "#panel div + div")?;
    let waker = match wakes[0]["by_interrupt"].as_bool() {
        Some(true) => "interrupts",
        _ => wakes[0]["waker"]["name"].as_str().context("no waker")?,
    };
    ensure!(arrows.contains(waker), "{waker} woke {woken}, not {arrows}");
    println!("An arrow leads from {waker} to {woken}.");
    Ok(())
}
