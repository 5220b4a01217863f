//! A trace that is still recorded: the page has what there is of it, and moves on with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Arguments, output, report, text, the_longest_interrupt_is_there, view};
use crate::browser::Browser;

/// The trace as it is recorded.
struct Recorded<'a> {
    arguments: &'a Arguments,
    whole: &'a Path,
    folder: PathBuf,
}

impl Recorded<'_> {
    /// Records up to so many milliseconds from the trace's beginning. The report of that.
    fn up_to(&self, ms: u32) -> Result<Value> {
        let part = self.arguments.folder.join(format!("part-{ms}"));
        let mut convert = Command::new(&self.arguments.kymo);
        convert.arg("convert").arg(self.whole).arg(&part);
        output(convert.args(["--to", &format!("{ms}ms")]))?;
        // Streams first, and each at once: what is there of one is a trace at any moment.
        let mut files: Vec<_> = fs::read_dir(&part)?.collect::<Result<_, _>>()?;
        // Its index of packets is of no use here.
        files.retain(|file| file.path().is_file());
        files.sort_by_key(|file| file.file_name() == "metadata");
        for file in files {
            fs::rename(file.path(), self.folder.join(file.file_name()))?;
        }
        report(&self.arguments.kymo, &self.folder, &[])
    }
}

/// Waits until the page has this part of the trace.
fn wait_for_all(browser: &mut Browser, report: &Value) -> Result<()> {
    let events = report["events"].as_u64().context("no number of events")?;
    browser.wait_for(&format!(
        "(() => {{ const about = document.querySelector('#about').textContent;\
         const digits = about.replace(/,/g, '');\
         return digits.startsWith('recording: {events} events'); }})()"
    ))
}

/// Waits until this is so of the begin and the end of what is in view, in nanoseconds.
fn in_view(browser: &mut Browser, is: &str) -> Result<()> {
    browser.wait_for(&format!(
        "(() => {{ const [from, to] = location.hash.slice(1).split('&')[0].split('-').map(Number);\
         return {is}; }})()"
    ))
}

/// Opens a trace of which the first part has been recorded, and records more while the page shows
/// all of it, a stretch in the middle, and the newest.
pub(super) fn moves_on(browser: &mut Browser, arguments: &Arguments, whole: &Path) -> Result<()> {
    let folder = arguments.folder.join("recorded");
    fs::create_dir_all(&folder)?;
    let recorded = Recorded {
        arguments,
        whole,
        folder,
    };
    let (server, address) = view(arguments, &recorded.folder, &["--follow"])?;
    let first = recorded.up_to(20)?;
    browser.open(&address)?;
    browser.wait_for("document.documentElement.dataset.ready === 'yes'")?;
    wait_for_all(browser, &first)?;
    println!("The page says: {}", text(browser, "#about")?);

    let length = |report: &Value| {
        let at = |name: &str| report[name].as_u64().context("no time");
        Ok::<u64, anyhow::Error>(at("end_ns")? - at("begin_ns")?)
    };
    let more = recorded.up_to(40)?;
    wait_for_all(browser, &more)?;
    browser.wait_for("document.querySelector('#where').textContent.endsWith(' + 40.00 ms')")?;
    the_longest_interrupt_is_there(browser, &address, &more)?;

    browser.value("location.hash = '#10000000-15000000'")?;
    in_view(browser, "from === 10000000 && to === 15000000")?;
    let more = recorded.up_to(60)?;
    wait_for_all(browser, &more)?;
    in_view(browser, "from === 10000000 && to === 15000000")?;

    let end = length(&more)?;
    browser.value(&format!(
        "location.hash = '#{}-{}'",
        end - 5_000_000,
        end + 5_000_000
    ))?;
    in_view(browser, &format!("Math.abs(to - {end}) < 1e6"))?;
    let more = recorded.up_to(80)?;
    wait_for_all(browser, &more)?;
    let end = length(&more)?;
    in_view(
        browser,
        &format!("Math.abs(to - {end}) < 1e6 && Math.abs(to - from - 1e7) < 10"),
    )?;
    println!(
        "It moves on with a trace that is recorded: {}",
        text(browser, "#about")?
    );

    drop(server);
    browser.wait_for("/Nobody answers/.test(document.querySelector('#panel').textContent)")?;
    let about = text(browser, "#about")?;
    ensure!(
        about.starts_with("recording: "),
        "what was there is gone: {about}"
    );
    Ok(())
}
