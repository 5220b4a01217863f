//! Which tracks are shown, and which stay on top.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::picture;
use crate::browser::Browser;

/// Titles of tracks, in their order.
fn titles(browser: &mut Browser, of: &str) -> Result<Vec<String>> {
    let list = format!(
        "Array.from(document.querySelectorAll('{of} button'), \
         b => b.textContent.replace(/^\\W+ /, ''))"
    );
    let list = browser.value(&list)?;
    let list = list.as_array().context("no titles")?.iter();
    Ok(list.filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Shows only some tracks, lets two of these stay on top and moves one, by keys; the address has
/// all of it.
pub(super) fn select(browser: &mut Browser, address: &str) -> Result<()> {
    browser.open(&format!("{address}#10000000-20000000"))?;
    browser.wait_for("document.documentElement.dataset.ready === 'yes'")?;
    let all = titles(browser, "#labels")?;
    browser.press("l")?;
    browser.insert("cpu 1, CPU 0")?;
    browser.wait_for("location.hash.includes('only=')")?;
    let few = titles(browser, "#labels")?;
    let is_wanted = |title: &String| {
        let title = title.to_lowercase();
        title.contains("cpu 1") || title.contains("cpu 0") || ["cpus", "kernel"].contains(&&*title)
    };
    let wanted: Vec<_> = all.iter().filter(|title| is_wanted(title)).collect();
    ensure!(
        few.iter().collect::<Vec<_>>() == wanted && few.len() > 4,
        "shown are {few:?}, not {wanted:?}"
    );
    browser.press("Escape")?;
    let [x, y, ..] = picture(browser)?;
    for line in [4.0, 2.0] {
        // What goes to the top moves the others down.
        browser.point(x + 50.0, y + 20.0 * line + 10.0)?;
        browser.press("p")?;
    }
    let first = titles(browser, "#on-top")?;
    browser.press("Escape")?;
    browser.value("document.querySelector('#on-top button:last-child').focus()")?;
    browser.press("[")?;
    browser.wait_for(
        "location.hash.includes('top=' + Array.from(document.querySelectorAll('#on-top button'), \
         b => b.dataset.track).join(','))",
    )?;
    let moved = titles(browser, "#on-top")?;
    ensure!(
        moved.len() == 2 && moved.iter().rev().eq(&first),
        "on top are {moved:?}, not {first:?} the other way round"
    );
    let left = titles(browser, "#labels")?;
    ensure!(
        left.iter().all(|title| !moved.contains(title)),
        "tracks on top are at their places too: {left:?}"
    );
    let hash = browser.value("location.hash")?;
    browser.open(&format!("{address}{}", hash.as_str().unwrap_or_default()))?;
    browser.wait_for("document.documentElement.dataset.ready === 'yes'")?;
    let again = (titles(browser, "#on-top")?, titles(browser, "#labels")?);
    let has = format!(
        "the address {hash} shows {} tracks, and on top {:?}",
        again.1.len(),
        again.0
    );
    ensure!(again == (moved, left), "{has}");
    println!(
        "Of {} tracks, {} are shown, with {first:?} on top.",
        all.len(),
        few.len()
    );
    Ok(())
}
