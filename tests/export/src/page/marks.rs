//! Marks, and what the address keeps.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::{Arguments, picture, text, view};
use crate::browser::Browser;

/// Marks two times with the mouse and the keyboard: the page says how far they are apart, and its
/// address has them, and the selection, on another page too.
pub(super) fn measure(browser: &mut Browser, address: &str) -> Result<()> {
    browser.value("location.hash = '#10000000-20000000'")?;
    browser.wait_for("document.querySelector('#where').textContent.includes('+ 10.00 ms')")?;
    let [x, y, width, _] = picture(browser)?;
    for part in [0.25, 0.5] {
        browser.point(x + part * width, y + 30.0)?;
        browser.press("m")?;
    }
    let between = "document.querySelector('#marks').textContent.includes('+ 2.500 ms')";
    browser.wait_for(between)?;
    browser.drag((x + width / 4.0, y + 30.0), (x + width / 2.0, y + 30.0))?;
    browser.wait_for("/ events, /.test(document.querySelector('#panel').textContent)")?;
    browser.wait_for("/marks=.*selected=/.test(location.hash)")?;
    let head = text(browser, "#panel h2")?;
    let hash = browser.value("location.hash")?;
    let hash = hash.as_str().context("no address")?;
    browser.open(&format!("{address}{hash}"))?;
    browser.wait_for("/ events, /.test(document.querySelector('#panel').textContent)")?;
    browser.wait_for(between)?;
    let again = text(browser, "#panel h2")?;
    ensure!(again == head, "{hash} shows {again}, not {head}");
    // The second mark again: it is removed.
    let [x, y, width, _] = picture(browser)?;
    browser.point(x + width / 2.0, y + 30.0)?;
    browser.press("m")?;
    browser.wait_for("!location.hash.includes(',')")?;
    browser.wait_for(&format!("!{between}"))?;
    println!("Marks measure, and the address {hash} shows them and the selection again.");
    Ok(())
}

/// `kymo view --at` prints an address that has the time in view and marked.
pub(super) fn open_at_a_time(
    browser: &mut Browser,
    arguments: &Arguments,
    trace: &Path,
) -> Result<()> {
    let (_view, address) = view(arguments, trace, &["--at", "15ms"])?;
    browser.open(&address)?;
    browser.wait_for(
        "/ 0\\.015000000 s/.test(' ' + document.querySelector('#marks td + td').textContent)",
    )?;
    let shown = text(browser, "#where")?;
    ensure!(
        shown == "0.014500000 s + 1.000 ms",
        "--at 15ms shows {shown}"
    );
    println!("--at 15ms opens {shown}.");
    Ok(())
}
