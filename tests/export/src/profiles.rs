//! Profiles: Speedscope's and pprof's published schemas, and flame graphs in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::browser::Browser;
use crate::{cargo, run_command};

/// The script that checks files with the published schemas.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/check_profiles.py");

/// Lets other tools read profiles.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The `kymo` command
    #[arg(long)]
    kymo: PathBuf,
    /// A Python with the packages of requirements.txt
    #[arg(long)]
    python: PathBuf,
    /// pprof's profile.proto
    #[arg(long)]
    pprof_schema: PathBuf,
    /// The unpacked npm package `speedscope`; without it, its files are not checked
    #[arg(long)]
    speedscope: Option<PathBuf>,
    /// A headless browser; without it, flame graphs are not opened
    #[arg(long)]
    browser: Option<String>,
    /// The original converter of Redox's profiles; without it, nothing is compared with it
    #[arg(long)]
    redox: Option<PathBuf>,
    /// A folder for the files, which is replaced
    #[arg(long)]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    if folder.exists() {
        fs::remove_dir_all(folder).context("what was written before cannot be removed")?;
    }
    fs::create_dir_all(folder)?;
    let mut tests = cargo(&["test", "-p", "kymo-export", "--test", "it", "profiles::"]);
    run_command(tests.env("KYMO_PROFILES", folder))?;
    schemas(arguments)?;
    let graph = size_graph(arguments)?;
    if let Some(program) = &arguments.browser {
        let mut browser = Browser::start(program, &folder.join("browser"))?;
        a_click_zooms(&mut browser, &graph)?;
        if let Some(speedscope) = &arguments.speedscope {
            speedscope_opens(&mut browser, speedscope, folder)?;
        }
    }
    if let Some(redox) = &arguments.redox {
        as_the_original(&arguments.kymo, redox, folder)?;
    }
    fs::remove_dir_all(folder).context("what was written cannot be removed")
}

/// Checks the files with the schemas.
fn schemas(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.folder;
    let descriptors = folder.join("pprof.descriptors");
    let include = arguments
        .pprof_schema
        .parent()
        .context("no folder of profile.proto")?;
    let mut compile = Command::new("protoc");
    compile
        .arg("--proto_path")
        .arg(include)
        .arg("--descriptor_set_out")
        .arg(&descriptors)
        .arg(&arguments.pprof_schema);
    run_command(&mut compile)?;
    let files = |end: &str| -> Result<Vec<PathBuf>> {
        let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
        let mut paths: Vec<PathBuf> = paths.collect::<Result<_>>()?;
        paths.retain(|path| path.to_string_lossy().ends_with(end));
        paths.sort();
        match paths.len() {
            0 | 1 => bail!("the tests of kymo-export left {} files *{end}", paths.len()),
            _ => Ok(paths),
        }
    };
    let mut check = Command::new(&arguments.python);
    check
        .arg(SCRIPT)
        .arg("--pprof")
        .arg(&descriptors)
        .args(files(".pb.gz")?);
    run_command(&mut check)?;
    if let Some(speedscope) = &arguments.speedscope {
        let schema = speedscope.join("dist/release/file-format-schema.json");
        let mut check = Command::new(&arguments.python);
        check
            .arg(SCRIPT)
            .arg("--speedscope")
            .arg(schema)
            .args(files("speedscope.json")?);
        run_command(&mut check)?;
    }
    Ok(())
}

/// A flame graph of this program's code.
fn size_graph(arguments: &Arguments) -> Result<PathBuf> {
    let graph = arguments.folder.join("size.svg");
    let mut size = Command::new(&arguments.kymo);
    run_command(size.arg("size").arg(&arguments.kymo).arg("-o").arg(&graph))?;
    Ok(graph)
}

/// Clicks a frame: it gets the whole width, its neighbour vanishes, and a click on `Reset Zoom`
/// undoes both.
fn a_click_zooms(browser: &mut Browser, graph: &Path) -> Result<()> {
    browser.open(&format!("file://{}", graph.display()))?;
    // Of several frames of a name, the widest.
    let frame = |name: &str| {
        format!(
            "Array.from(document.querySelectorAll('#frames > g'))\
             .filter(g => g.querySelector('title').textContent.startsWith('{name} ('))\
             .sort((a, b) => b.querySelector('rect').attributes['fg:w'].value \
                           - a.querySelector('rect').attributes['fg:w'].value)[0]"
        )
    };
    let (clicked, other) = (frame("kymo_ctf"), frame("kymo_analysis"));
    let width = format!("{clicked}.querySelector('rect').getBoundingClientRect().width");
    let is_hidden = format!("{other}.classList.contains('hide')");
    // The whole graph is drawn again when the page knows its width.
    let whole = format!(
        "{}.querySelector('rect').getBoundingClientRect().width",
        frame("all")
    );
    browser.wait_for(&format!("{whole} > 1000"))?;
    let whole = browser.value(&whole)?;
    let (whole, before) = (number(&whole)?, number(&browser.value(&width)?)?);
    if before > whole / 2.0 || browser.value(&is_hidden)? == Value::Bool(true) {
        bail!("kymo_ctf has {before} of {whole} pixels before the click");
    }
    for (target, zoomed) in [
        (&clicked, true),
        (&"document.querySelector('#unzoom')".to_owned(), false),
    ] {
        let middle = browser.value(&format!(
            "(() => {{ const r = {target}.getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ))?;
        browser.click(number(&middle[0])?, number(&middle[1])?)?;
        let now = number(&browser.value(&width)?)?;
        let hidden = browser.value(&is_hidden)? == Value::Bool(true);
        let is_right = match zoomed {
            true => now > whole * 0.99 && hidden,
            false => (now - before).abs() < 1.0 && !hidden,
        };
        if !is_right {
            bail!(
                "kymo_ctf has {now} of {whole} pixels after the click; its neighbour is hidden: {hidden}"
            );
        }
    }
    println!(
        "A click in the flame graph zooms from {before:.0} to {whole:.0} pixels, another back."
    );
    Ok(())
}

/// Speedscope's own page opens a profile and names its first thread.
fn speedscope_opens(browser: &mut Browser, package: &Path, folder: &Path) -> Result<()> {
    let page = package.join("dist/release/index.html");
    // With a path, the page waits for a file that a script passes on.
    browser.open(&format!(
        "file://{}#localProfilePath={}/none.js",
        page.display(),
        folder.display()
    ))?;
    browser.wait_for("typeof window.speedscope?.loadFileFromBase64 === 'function'")?;
    let profile = fs::read_to_string(folder.join("speedscope.json"))?;
    let profile = serde_json::to_string(&profile)?;
    browser.value(&format!(
        "speedscope.loadFileFromBase64('speedscope.json', btoa(unescape(encodeURIComponent({profile})))), 0"
    ))?;
    browser.wait_for("document.title.endsWith(' - speedscope')")?;
    browser.wait_for("document.body.textContent.includes('my worker 3 (5)')")?;
    println!("Speedscope shows: {}", browser.value("document.title")?);
    Ok(())
}

fn number(value: &Value) -> Result<f64> {
    value
        .as_f64()
        .with_context(|| format!("{value} is no number"))
}

/// Functions of a kernel and of a program, and samples of both, from a seed.
struct Made {
    state: u64,
}

impl Made {
    fn random(&mut self, below: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.state >> 33) % below
    }

    fn symbols(&mut self, mut address: u64) -> String {
        let mut text = String::from("                 U undefined\n");
        for number in 0..20 {
            address += 0x10 + self.random(3) * 0x10;
            let kind = if self.random(6) == 0 { 'D' } else { 't' };
            let size = 8 + self.random(2) * 8;
            text += &format!("{address:016x} {size:016x} {kind} module::f{number}<[u8; 4]>\n");
        }
        text
    }

    fn profile(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..60 {
            let thread = ["dd", "[kmain]", "other"][self.random(3) as usize];
            let (cpu, ticks) = (
                self.random(64),
                self.random(1 << 30) * (1 + self.random(1000)),
            );
            text += &format!("{thread} {cpu:x} {ticks:x}");
            let (kernel, user) = (self.random(4), self.random(3));
            let user = if kernel == 0 { user + 1 } else { user };
            for place in 0..kernel + user {
                let half = if place < kernel {
                    0xffff_ffff_8000_1000
                } else {
                    0x1000
                };
                // Callers never at a function's first byte: there the original names the wrong one.
                let address = (half + self.random(0x300)) | u64::from(place > 0);
                text += &format!(" {address:x}");
            }
            text.push('\n');
        }
        text
    }
}

/// Compares with the original converter of Redox's profiles, for all of its options.
fn as_the_original(kymo: &Path, original: &Path, folder: &Path) -> Result<()> {
    let path = |name: &str| folder.join(name);
    let mut samples = 0;
    for number in 0..48 {
        let mut made = Made { state: number };
        fs::write(path("kernel.txt"), made.symbols(0xffff_ffff_8000_1000))?;
        fs::write(path("dd.txt"), made.symbols(0x1000))?;
        fs::write(path("users"), format!("dd={}\n", path("dd.txt").display()))?;
        fs::write(path("profile"), made.profile())?;
        let has = |bit: u64| number & (1 << bit) > 0;
        let frames = ["", "o", "x"][(number / 16) as usize];
        let (user, users) = (has(2), has(2) && has(3));
        let mut letters = String::from(frames);
        let mut options: Vec<String> = Vec::new();
        for (letter, option, is_on) in [
            ("i", "--inside-only", has(0)),
            ("u", "--unknown-threads", has(1) && user),
            ("U", "--user-part", user),
        ] {
            if is_on {
                letters += letter;
                options.push(option.to_owned());
            }
        }
        let frames = match frames {
            "o" => "offset",
            "x" => "both",
            _ => "function",
        };
        let mut theirs = Command::new(original);
        theirs
            .arg(path("profile"))
            .arg(path("kernel.txt"))
            .args([&letters, "1"]);
        if users {
            theirs.arg(path("users"));
            options.push(format!("--user=dd={}", path("dd.txt").display()));
        }
        let mut ours = Command::new(kymo);
        ours.args([
            "import",
            "redox",
            "--ghz",
            "1",
            "--format",
            "perf-script",
            "--frames",
            frames,
        ]);
        ours.arg(path("profile"))
            .arg("--symbols")
            .arg(path("kernel.txt"))
            .args(&options);
        let (theirs, ours) = (text(&mut theirs)?, text(&mut ours)?);
        let (theirs, ours): (Vec<Line>, Vec<Line>) = (
            theirs.lines().map(Line::of).collect(),
            ours.lines().map(Line::of).collect(),
        );
        let differs = theirs
            .iter()
            .zip(&ours)
            .position(|(theirs, ours)| !theirs.is(ours));
        if theirs.len() != ours.len() || differs.is_some() {
            let at = differs.unwrap_or(theirs.len().min(ours.len()));
            bail!(
                "options {letters:?}: line {}: the original prints {:?}, kymo {:?}",
                at + 1,
                theirs.get(at),
                ours.get(at)
            );
        }
        samples += ours.iter().filter(|line| line.micros.is_some()).count();
    }
    println!("kymo import redox prints {samples} samples as redox-kprofiling does.");
    Ok(())
}

/// A line without its time, and the time in microseconds.
#[derive(Debug)]
struct Line<'a> {
    text: &'a str,
    micros: Option<u64>,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Line<'a> {
        let time = text.strip_suffix(':').and_then(|text| {
            let (before, time) = text.rsplit_once(' ')?;
            // The original does not pad them.
            let (seconds, micros) = time.split_once('.')?;
            let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok()?);
            Some((before, seconds * 1_000_000 + micros))
        });
        match time {
            Some((text, micros)) => Line {
                text,
                micros: Some(micros),
            },
            None => Line { text, micros: None },
        }
    }

    /// Whether both say the same. The original rounds times twice, which may take away one
    /// microsecond.
    fn is(&self, other: &Line<'_>) -> bool {
        let time = |line: &Line<'_>| line.micros.unwrap_or(0);
        self.text == other.text
            && self.micros.is_some() == other.micros.is_some()
            && time(self).abs_diff(time(other)) <= 1
    }
}

/// What a command prints.
fn text(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
