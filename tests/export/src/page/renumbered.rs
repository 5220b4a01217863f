//! A recording that ends: its index is made again, and tracks and rows have other numbers then.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::text;
use crate::browser::Browser;

/// Stands before the server: until `hasEnded` is set, the trace is still recorded, its tracks have
/// other numbers, and its rows are in the opposite order.
const OTHERS: &str = "
const real = fetch;
const other = (trace) => ({ ...trace, is_recorded: true, is_whole: false,
  tracks: trace.tracks.map((track) => ({ ...track, id: track.id + 1000,
    parent: track.parent === null ? null : track.parent + 1000 })),
  rows: trace.rows.map((row) => ({ ...row, track: row.track + 1000 })).reverse() });
window.hasEnded = false;
window.fetch = async (what, options) => {
  const answer = await real(what, options);
  if (!String(what).startsWith('api/trace') || window.hasEnded) return answer;
  return new Response(JSON.stringify(other(await answer.json())));
};";

/// A slice that was selected while the trace was recorded is selected afterwards, and a track that
/// was on top still is.
pub(super) fn rows_are_found_again(browser: &mut Browser, address: &str) -> Result<()> {
    browser.open(address)?;
    browser.wait_for("document.documentElement.dataset.whole === 'yes'")?;
    let found = browser.value(
        "(async () => {\
         const get = async (what) => (await fetch(`api/${what}`)).json();\
         const trace = await get('trace');\
         const { worst } = await get(`report?from=0&to=${trace.span_ns}`);\
         const { category, begin_ns, end_ns } = worst[0];\
         const slice = await get(`find?category=${category}&from=${begin_ns}&to=${end_ns}`);\
         return { ...slice, rows: trace.rows.length, track: trace.rows[slice.row].track }; })()",
    )?;
    let number = |name: &str| {
        found[name]
            .as_u64()
            .with_context(|| format!("no {name}: {found}"))
    };
    let (row, track) = (number("row")?, number("track")?);
    let (begin, end) = (number("begin_ns")?, number("end_ns")?);
    let before = number("rows")? - 1 - row;
    ensure!(before != row, "row {row} has the same number from behind");
    let hash = format!(
        "#{begin}-{end}&selected={begin}-{end}&row={before}&top={}",
        track + 1000
    );
    browser.open_after(&format!("{address}{hash}"), OTHERS)?;
    browser.wait_for("document.querySelector('#about').textContent.startsWith('recording')")?;
    let on_top = "document.querySelector('#on-top button')?.dataset.track";
    browser.wait_for(&format!("{on_top} === '{}'", track + 1000))?;
    browser.value("window.hasEnded = true")?;
    browser.wait_for("document.documentElement.dataset.whole === 'yes'")?;
    browser.wait_for("document.querySelector('#panel table') !== null")?;
    let wanted = format!("selected={begin}-{end}&row={row}&top={track}");
    browser.wait_for(&format!("location.hash.includes('{wanted}')"))?;
    browser.wait_for(&format!("{on_top} === '{track}'"))?;
    let (head, name) = (text(browser, "#panel h2")?, &found["name"]);
    let is_it = |name: &Value| name.as_str().is_some_and(|name| head.starts_with(name));
    ensure!(is_it(name), "the panel shows {head}, not {name}");
    println!("Row {before} is row {row} when the recording has ended: {head}.");
    Ok(())
}
