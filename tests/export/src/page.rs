//! The page of `kymo view`, in a browser: what it shows is what the reports say.

mod compare;
mod damaged;
mod file;
mod flame;
mod listed;
mod live;
mod marks;
mod renumbered;
mod tracks;
mod worst;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::browser::Browser;

/// Size of the trace, in megabytes: several parts of the index.
const MEGABYTES: u64 = 24;
/// Height of a line of the picture, in pixels.
const LINE: f64 = 20.0;

/// Opens `kymo view`'s page in a browser.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The `kymo` command
    #[arg(long)]
    kymo: PathBuf,
    /// The program that writes traces of known counts
    #[arg(long)]
    big_trace: PathBuf,
    /// A headless browser
    #[arg(long)]
    browser: String,
    /// A folder for the files, which is replaced
    #[arg(long)]
    folder: PathBuf,
}

/// `kymo view`, until it is dropped.
struct View(Child);

impl View {
    /// Starts the command; its address.
    fn start(command: &mut Command) -> Result<(View, String)> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("no output of kymo view")?;
        let view = View(child);
        let mut address = String::new();
        BufReader::new(out).read_line(&mut address)?;
        Ok((view, address.trim().to_owned()))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    if folder.exists() {
        fs::remove_dir_all(folder).context("what was written before cannot be removed")?;
    }
    fs::create_dir_all(folder)?;
    let trace = folder.join("trace");
    let mut write = Command::new(&arguments.big_trace);
    write.arg("write").arg(&trace).arg("--megabytes");
    output(write.arg(MEGABYTES.to_string()))?;
    let report = report(&arguments.kymo, &trace, &[])?;
    let (_view, address) = view(arguments, &trace, &[])?;
    let mut browser = Browser::start(&arguments.browser, &folder.join("browser"))?;
    browser.open(&address)?;
    browser.wait_for("document.documentElement.dataset.ready === 'yes'")?;
    println!("The page begins with: {}", text(&mut browser, "#about")?);
    browser.wait_for("document.documentElement.dataset.whole === 'yes'")?;
    it_says_how_long_the_trace_is(&mut browser, &report)?;
    the_longest_interrupt_is_there(&mut browser, &address, &report)?;
    a_stretch_has_the_report_of_it(&mut browser, arguments, &trace)?;
    keys_move(&mut browser)?;
    marks::measure(&mut browser, &address)?;
    tracks::select(&mut browser, &address)?;
    worst::are_one_click_away(&mut browser, arguments, &address, &trace, &report)?;
    compare::stretches(&mut browser, arguments, &address, &trace)?;
    renumbered::rows_are_found_again(&mut browser, &address)?;
    listed::by_keys_alone(&mut browser, &address)?;
    file::shows_the_same(&mut browser, arguments, &address, &trace)?;
    flame::is_that_of_the_command(&mut browser, arguments)?;
    damaged::is_said(&mut browser, arguments, &trace)?;
    marks::open_at_a_time(&mut browser, arguments, &trace)?;
    live::moves_on(&mut browser, arguments, &trace)?;
    drop(browser);
    fs::remove_dir_all(folder).context("what was written cannot be removed")
}

/// Starts `kymo view`; its address.
fn view(arguments: &Arguments, trace: &Path, more: &[&str]) -> Result<(View, String)> {
    let mut command = Command::new(&arguments.kymo);
    command.args(["view", "--no-open", "--index"]);
    command.arg(arguments.folder.join("index")).arg(trace);
    command.args(more);
    View::start(&mut command)
}

/// What a program prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// What `kymo report --json` prints.
fn report(kymo: &Path, trace: &Path, more: &[&str]) -> Result<Value> {
    let mut command = Command::new(kymo);
    let text = output(command.args(["report", "--json"]).args(more).arg(trace))?;
    Ok(serde_json::from_str(&text)?)
}

fn it_says_how_long_the_trace_is(browser: &mut Browser, report: &Value) -> Result<()> {
    let about = text(browser, "#about")?;
    let events = report["events"].as_u64().context("no number of events")?;
    let digits: String = about
        .split(" events")
        .next()
        .unwrap_or_default()
        .replace(',', "");
    ensure!(
        digits == events.to_string(),
        "the page has {about}, the report {events} events"
    );
    println!("The page says: {about}");
    Ok(())
}

/// The text of an element.
fn text(browser: &mut Browser, selector: &str) -> Result<String> {
    let text = browser.value(&format!("document.querySelector('{selector}').textContent"))?;
    Ok(text.as_str().unwrap_or_default().to_owned())
}

/// Goes to the interrupt that the report calls the longest, clicks it, and finds its duration.
fn the_longest_interrupt_is_there(
    browser: &mut Browser,
    address: &str,
    report: &Value,
) -> Result<()> {
    let interrupts = report["interrupts"].as_array().context("no interrupts")?;
    for interrupt in interrupts {
        let number = |value: &Value| value.as_u64().context("no number");
        let longest = number(&interrupt["durations"]["max_ns"])?;
        let begin = number(&interrupt["longest_at_ns"])? - number(&report["begin_ns"])?;
        let cpu = number(&interrupt["longest_cpu"])?;
        // The interrupt has a fifth of the width.
        let (from, to) = (begin - 2 * longest, begin + 3 * longest);
        browser.value(&format!("location.hash = '#{from}-{to}'"))?;
        let shown = "document.querySelector('#where').textContent.includes('+ ')";
        browser.wait_for(shown)?;
        let place = browser.value(&format!(
            "(() => {{ const line = Array.from(document.querySelectorAll('#labels button'))\
             .find(b => b.textContent === 'CPU {cpu} interrupts');\
             const r = document.querySelector('#picture').getBoundingClientRect();\
             return [r.x + r.width / 2, r.y + parseFloat(line.style.top)]; }})()"
        ))?;
        let at = |index: usize| place[index].as_f64().context("no place");
        let (x, y) = (at(0)?, at(1)? + LINE / 2.0);
        let panel = "document.querySelector('#panel').textContent";
        browser.value("document.querySelector('#panel').replaceChildren()")?;
        // Until what is in view has come, there is nothing to click.
        let wanted = format!("lasts{longest} ns");
        let mut found = String::new();
        for _ in 0..6_000 {
            browser.click(x, y)?;
            std::thread::sleep(std::time::Duration::from_millis(100));
            found = browser
                .value(panel)?
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if found.contains(&wanted) {
                break;
            }
        }
        let name = interrupt["name"].as_str().unwrap_or_default();
        ensure!(
            found.contains(&wanted) && found.starts_with(name),
            "the panel at {address} has {found}, not {name} and {wanted}"
        );
        println!("A click shows {name}'s longest handler: {longest} ns on CPU {cpu}.");
    }
    Ok(())
}

/// Selects a stretch of time with the mouse; the panel has the numbers of `kymo report` of it.
fn a_stretch_has_the_report_of_it(
    browser: &mut Browser,
    arguments: &Arguments,
    trace: &Path,
) -> Result<()> {
    browser.value("location.hash = '#10000000-20000000'")?;
    browser.value("document.querySelector('#panel').replaceChildren()")?;
    let [x, y, width, _] = picture(browser)?;
    let y = y + 30.0;
    browser.drag((x + width / 4.0, y), (x + width / 2.0, y))?;
    browser.wait_for("/ events, none lost/.test(document.querySelector('#panel').textContent)")?;
    let head = text(browser, "#panel h2")?;
    // `0.012500000 s to 0.015000000 s: 2.500 ms, 26,000 events, none lost`
    let (from, rest) = head.split_once(" s to ").context("no begin")?;
    let (to, rest) = rest.split_once(" s: ").context("no end")?;
    let events = rest
        .split(", ")
        .nth(1)
        .and_then(|part| part.strip_suffix(" events"))
        .map(|number| number.replace(',', ""));
    let report = report(&arguments.kymo, trace, &["--from", from, "--to", to])?;
    let wanted = report["events"].to_string();
    if events.as_deref() != Some(&*wanted) || report["events"].as_u64() < Some(1_000) {
        bail!("the panel has {head}, the report of {from} to {to} {wanted} events");
    }
    // Times on a CPU, as the report has them.
    let threads = report["threads"].as_array().context("no threads")?;
    let busy = threads.iter().filter(|thread| thread["idle"] == false);
    let most = busy.max_by_key(|thread| thread["cpu_ns"].as_u64());
    let name = most
        .and_then(|thread| thread["name"].as_str())
        .context("no thread")?;
    let first = text(browser, "#panel table tr:nth-child(2) td")?;
    ensure!(
        first.starts_with(name),
        "the panel's first thread is {first}, not {name}"
    );
    println!("A stretch shows its report: {head}");
    Ok(())
}

/// The length of what is in view, in nanoseconds, as the address has it.
const LENGTH: &str = "(() => { const [a, b] = location.hash.slice(1).split('&')[0].split('-')\
                      .map(Number); return b - a; })()";

fn keys_move(browser: &mut Browser) -> Result<()> {
    let before = browser.value(LENGTH)?.as_f64().context("no address")?;
    browser.value("document.activeElement.blur()")?;
    for (key, wanted) in [
        ("w", format!("< {before}")),
        ("0", format!("> {before}")),
        // A decade.
        ("5", "=== 1000000".to_owned()),
    ] {
        browser.press(key)?;
        browser.wait_for(&format!("{LENGTH} {wanted}"))?;
    }
    println!("Keys zoom in, to the whole trace and to a decade.");
    Ok(())
}

/// Where the picture is in the page: left, top, width and height.
fn picture(browser: &mut Browser) -> Result<[f64; 4]> {
    let place = browser.value(
        "(() => { const r = document.querySelector('#picture').getBoundingClientRect();\
         return [r.x, r.y, r.width, r.height]; })()",
    )?;
    let at = |index: usize| place[index].as_f64().context("no place");
    Ok([at(0)?, at(1)?, at(2)?, at(3)?])
}
