//! Samples: the flame graph of a stretch, and what a filter leaves of it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kymo::Sequence;
use kymo::vocabulary::{Address, ChainEnd, CpuMode, Sample, Tid};
use kymo_made::{Made, US};

use super::{Arguments, output, picture, report, text, view};
use crate::browser::Browser;

const CODE: u64 = 0x8000_0000;
/// The text of the panel.
const PANEL: &str = "document.querySelector('#panel').textContent";

/// A CPU in one of three functions, each called by the one before, and one that is mostly in the
/// first.
fn sampled() -> Made {
    let mut made = Made::with_samples("page-samples");
    for round in 0..3_000_u64 {
        for cpu in 0..2 {
            let depth = if cpu == 0 { round % 3 } else { (round % 7) / 5 };
            // A return address lies behind its call.
            let functions = (0..=depth).map(|of| {
                let behind = u64::from(of < depth);
                Address(CODE + 0x1000 * of + behind)
            });
            let mut functions: Vec<Address> = functions.collect();
            functions.reverse();
            let sample = Sample {
                ip: functions[0],
                tid: Tid(5 + cpu),
                period: 1_000,
                missed: 0,
                mode: CpuMode::Kernel,
                kernel_callers: functions.len() as u8 - 1,
                kernel_end: ChainEnd::Complete,
                user_end: ChainEnd::Absent,
                callchain: Sequence::new(&functions[1..]),
            };
            made.event(cpu, 1_000 * US + round * 10 * US, sample);
        }
    }
    made
}

/// The samples that `kymo flame` has of this.
fn samples(arguments: &Arguments, trace: &Path, more: &[&str]) -> Result<u64> {
    let mut flame = Command::new(&arguments.kymo);
    flame.args(["flame", "--format", "folded"]).args(more);
    let folded = output(flame.arg(trace))?;
    let counts = folded.lines().filter_map(|line| line.rsplit(' ').next());
    let counts: Result<Vec<u64>, _> = counts.map(str::parse).collect();
    Ok(counts?.iter().sum())
}

/// Waits until the panel's flame graph has so many samples.
fn has(browser: &mut Browser, samples: u64) -> Result<()> {
    browser.wait_for(&format!(
        "(document.querySelector('#panel h2')?.textContent ?? '').replace(/,/g, '')\
         .endsWith(': {samples} samples')"
    ))
}

/// Types into the filter.
fn filter(browser: &mut Browser, condition: &str) -> Result<()> {
    browser.value("document.activeElement.blur()")?;
    browser.press("f")?;
    browser.wait_for("document.activeElement.id === 'filter'")?;
    browser.value("document.querySelector('#filter').select()")?;
    browser.insert(condition)?;
    browser.value("document.querySelector('#search').requestSubmit()")?;
    Ok(())
}

/// Selects a stretch and shows its flame graph by keys: it has the samples of `kymo flame`, of all,
/// of a CPU, and of those that fit a condition; a click zooms.
pub(super) fn is_that_of_the_command(browser: &mut Browser, arguments: &Arguments) -> Result<()> {
    let mut made = sampled();
    let trace = made.finish().to_owned();
    let (_view, address) = view(arguments, &trace, &[])?;
    browser.open(&address)?;
    browser.wait_for("document.documentElement.dataset.whole === 'yes'")?;
    browser.press("g")?;
    has(browser, 6_000)?;
    let [x, y, width, _] = picture(browser)?;
    browser.drag((x + width / 4.0, y + 30.0), (x + width / 2.0, y + 30.0))?;
    browser.wait_for("/selected=.*flame=/.test(location.hash)")?;
    let times = browser.value("/selected=([0-9]+-[0-9]+)/.exec(location.hash)[1]")?;
    let (from, to) = times
        .as_str()
        .and_then(|times| times.split_once('-'))
        .context("nothing is selected")?;
    // The trace's first event is a millisecond behind its clock's origin.
    let since =
        |at: &str| -> Result<String> { Ok(format!("@{}", at.parse::<u64>()? + 1_000 * US)) };
    let (from, to) = (since(from)?, since(to)?);
    let part = ["--from", &*from, "--to", &*to];
    let all = samples(arguments, &trace, &part)?;
    ensure!((1_000..3_000).contains(&all), "{all} samples are selected");
    has(browser, all)?;
    it_can_be_walked_and_zoomed(browser)?;
    let of_cpu = samples(arguments, &trace, &[&part[..], &["--cpu", "1"]].concat())?;
    browser.value(
        "(() => { const select = document.querySelector('#panel select'); select.value = 'cpu=1';\
         select.dispatchEvent(new Event('change')); })()",
    )?;
    has(browser, of_cpu)?;
    filter(browser, "kernel_callers = 1")?;
    let only = ["--where", "kernel_callers = 1"];
    let fits = samples(
        arguments,
        &trace,
        &[&part[..], &["--cpu", "1"], &only].concat(),
    )?;
    ensure!(fits < of_cpu, "{fits} of {of_cpu} samples fit");
    has(browser, fits)?;
    browser.wait_for(&format!(
        "{PANEL}.includes('Only events that fit kernel_callers = 1')"
    ))?;
    // The address has it all.
    browser.wait_for("/where=.*flame=cpu/.test(location.hash)")?;
    let hash = browser.value("location.hash")?;
    browser.open(&format!("{address}{}", hash.as_str().unwrap_or_default()))?;
    has(browser, fits)?;
    let shown = browser.value("document.querySelector('#filter').value")?;
    ensure!(shown == "kernel_callers = 1", "the filter shows {shown}");
    browser.value("document.activeElement.blur()")?;
    browser.press("g")?;
    let of_report = report(&arguments.kymo, &trace, &[&part[..], &only].concat())?;
    let events = of_report["events"].as_u64().context("no events")?;
    browser.wait_for(&format!(
        "{PANEL}.replace(/,/g, '').includes(' {events} events')"
    ))?;
    let title = format!("The first 50 of {events} events that fit");
    browser.wait_for(&format!("{PANEL}.replace(/,/g, '').includes('{title}')"))?;
    wrong_conditions_are_explained(browser, arguments, &trace)?;
    a_file_has_its_own(browser, arguments, &trace)?;
    println!("The flame graph has {all} samples of a stretch, {of_cpu} of a CPU, {fits} that fit.");
    Ok(())
}

/// The outermost function, and what it calls: by arrows, by a click, and in the table.
fn it_can_be_walked_and_zoomed(browser: &mut Browser) -> Result<()> {
    let chosen = "#panel .chosen";
    browser.value("document.querySelector('#panel canvas').focus()")?;
    ensure!(
        text(browser, chosen)?.starts_with("all"),
        "nothing is chosen at first"
    );
    browser.press("ArrowDown")?;
    let outermost = text(browser, chosen)?;
    browser.press("ArrowDown")?;
    let inner = text(browser, chosen)?;
    ensure!(
        inner != outermost && !inner.starts_with("all"),
        "{inner} in {outermost}"
    );
    let place = browser.value(
        "(() => { const canvas = document.querySelector('#panel canvas');\
         canvas.scrollIntoView();\
         const r = canvas.getBoundingClientRect(); return [r.x, r.y, r.width]; })()",
    )?;
    let at = |index: usize| place[index].as_f64().context("no place");
    let (left, right, depth) = (at(0)? + 3.0, at(0)? + at(2)? - 3.0, at(1)? + 2.5 * 18.0);
    // Before it is zoomed to, the inner function ends before the right border.
    browser.point(right, depth)?;
    let beside = text(browser, chosen)?;
    browser.click(left, depth)?;
    browser.point(right, depth)?;
    let zoomed = text(browser, chosen)?;
    ensure!(
        zoomed == inner,
        "{zoomed} has all of the width, not {inner}; before {beside}"
    );
    let rows = "document.querySelectorAll('#panel table tr').length";
    let rows = browser.value(rows)?.as_u64().context("no table")?;
    ensure!(rows == 4, "{rows} rows of functions and their heading");
    // The panel is another one now, and so is its place.
    browser.value("document.querySelector('#texts').scrollTop = 0")?;
    Ok(())
}

/// The page says of a wrong condition what the command says.
fn wrong_conditions_are_explained(
    browser: &mut Browser,
    arguments: &Arguments,
    trace: &Path,
) -> Result<()> {
    for wrong in ["kernel_callers", "kernel_caller = 1"] {
        let mut report = Command::new(&arguments.kymo);
        let output = report
            .args(["report", "--where", wrong])
            .arg(trace)
            .output()?;
        let said = String::from_utf8(output.stderr)?;
        let said = said.trim().trim_start_matches("kymo: ");
        filter(browser, wrong)?;
        browser.wait_for(&format!("{PANEL} === {}", serde_json::to_string(said)?))?;
    }
    Ok(())
}

/// The page as a file has the flame graph of its stretch.
fn a_file_has_its_own(browser: &mut Browser, arguments: &Arguments, trace: &Path) -> Result<()> {
    let file = arguments.folder.join("samples.html");
    let part = ["--from", "2ms", "--to", "12ms"];
    let wanted = samples(arguments, trace, &part)?;
    let mut command = Command::new(&arguments.kymo);
    command.arg("view").args(part).arg("--html").arg(&file);
    command.arg("--index").arg(arguments.folder.join("index"));
    output(command.arg(trace))?;
    let file = file.canonicalize()?;
    browser.open(&format!("file://{}#&flame=", file.display()))?;
    has(browser, wanted)
}
