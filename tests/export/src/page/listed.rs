//! The page without a mouse.

use anyhow::{Context as _, Result, ensure};

use super::text;
use crate::browser::Browser;

/// The list of what is in view has the interrupts in view, and its buttons select them; titles can
/// be reached and folded by keys.
pub(super) fn by_keys_alone(browser: &mut Browser, address: &str) -> Result<()> {
    browser.open(&format!(
        "{address}#10000000-10100000&only=cpu+0+interrupts"
    ))?;
    browser.wait_for("document.documentElement.dataset.ready === 'yes'")?;
    browser.press("t")?;
    let listed = "document.querySelector('#listed').textContent.includes('CPU 0 interrupts')";
    browser.wait_for(listed)?;
    browser.wait_for("document.querySelector('#listed').contains(document.activeElement)")?;
    browser.value("document.querySelector('#listed button').click()")?;
    browser.wait_for("/selected=.*row=/.test(location.hash)")?;
    let name = text(browser, "#listed button")?;
    let head = text(browser, "#panel h2")?;
    ensure!(
        !name.is_empty() && head.contains(&name),
        "the list has {name}, the panel {head}"
    );
    let said = text(browser, "#said")?;
    ensure!(said == head, "said is {said}, not {head}");
    browser.press("t")?;
    browser.wait_for("document.querySelector('#listed').hidden")?;
    // One title is reached by the tabulator, and the others by arrows.
    let reached = "document.querySelectorAll('#labels [tabindex=\"0\"]').length === 1";
    browser.wait_for(reached)?;
    browser.value("document.querySelector('#labels [tabindex=\"0\"]').focus()")?;
    let before = text(browser, ":focus")?;
    browser.press("ArrowDown")?;
    let below = text(browser, ":focus")?;
    ensure!(below != before, "the focus stays at {before}");
    browser.press("ArrowUp")?;
    ensure!(
        text(browser, ":focus")? == before,
        "the focus does not go back"
    );
    browser.press("?")?;
    let help = text(browser, "#bindings")?;
    let all = browser.value("document.querySelectorAll('#bindings tr').length")?;
    ensure!(
        all.as_u64().context("no keys")? > 15 && help.contains("mark the time"),
        "the help has {help}"
    );
    println!("Without a mouse: {head}");
    Ok(())
}
