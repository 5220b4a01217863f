//! The end-to-end tests: tests/e2e.

use std::path::PathBuf;
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

use super::plugin;
use crate::failure::Usage;
use crate::linux_guest::Guest;
use crate::process::{self, WORKSPACE};
use crate::suite::Suite;
use crate::{kernel, linux_guest, setup};

/// Files of tests/e2e/tests with steps of their own.
pub(crate) const COST: &str = "cost";
pub(crate) const KILL: &str = "kill";
pub(crate) const STRESS: [&str; 2] = ["stress", "sample_stress"];

/// Files whose tests have the machine to themselves: they print figures, or check shares of time.
/// What the others check holds however busy the machine is: most of their guests' clocks count
/// instructions.
const ALONE: [&str; 3] = [COST, "sample", LINUX_GUEST];

/// Whether a file of tests has a step of its own.
pub(super) fn has_a_step(file: &str) -> bool {
    [COST, KILL].contains(&file) || STRESS.contains(&file)
}

/// The end-to-end tests. They build the kernels and programs that they take by
/// `xtask image NAME`, but for those whose names are variables of the environment already.
#[derive(Clone, Debug)]
pub(crate) struct EndToEnd(Suite);

/// The tests, with everything built.
pub(crate) fn all() -> Result<EndToEnd> {
    static ALL: OnceLock<EndToEnd> = OnceLock::new();
    if let Some(built) = ALL.get() {
        return Ok(built.clone());
    }
    let mut suite = build()?.0;
    for (name, image) in kernel::images(setup::toolchain()?)? {
        suite = suite.env(name, image);
    }
    suite = suite
        .env(KYMO, process::build("kymo")?)
        .env(PLUGIN, plugin()?);
    Ok(ALL.get_or_init(|| EndToEnd(suite)).clone())
}

/// The tests, of which those of Linux's counters have their guest.
fn build() -> Result<EndToEnd> {
    let suite = Suite::build(&[&WORKSPACE[..], &["--test", "e2e"]].concat())?;
    let xtask = std::env::current_exe().context("the path of this program")?;
    let suite = suite.env("KYMO_XTASK", xtask);
    Ok(EndToEnd(
        suite.alone(|_, test| format!("cargo xtask test e2e:{test}")),
    ))
}

const KYMO: &str = "KYMO_BIN";
const PLUGIN: &str = "KYMO_COST_PLUGIN";

/// Builds what the tests call by this name.
pub(crate) fn image(name: &str) -> Result<PathBuf> {
    match name {
        KYMO => {
            let kymo = process::build("kymo")?;
            plugin()?;
            Ok(kymo)
        }
        PLUGIN => plugin(),
        _ => match kernel::image(setup::toolchain()?, name)? {
            Some(image) => Ok(image),
            None => bail!(Usage(format!("No image is named {name}."))),
        },
    }
}

/// The file of a test.
fn file_of(test: &str) -> &str {
    test.split("::").next().unwrap_or(test)
}

impl EndToEnd {
    /// Sets a variable of the environment.
    pub(crate) fn env(self, name: &str, value: String) -> EndToEnd {
        EndToEnd(self.0.env(name, value))
    }

    /// Runs the tests of the files that fit.
    pub(crate) fn run(&self, fits: impl Fn(&str) -> bool) -> Result<()> {
        self.run_tests(|test| fits(file_of(test)), false)
    }

    /// [`run`](Self::run), and shows what the tests print.
    pub(crate) fn show(&self, fits: impl Fn(&str) -> bool) -> Result<()> {
        self.run_tests(|test| fits(file_of(test)), true)
    }

    fn run_tests(&self, fits: impl Fn(&str) -> bool, shows: bool) -> Result<()> {
        let mut suite = self.0.clone();
        if fits(LINUX_GUEST) {
            suite = match linux_guest::build()? {
                Guest::Ready { kernel, files } => suite
                    .env("KYMO_LINUX", kernel)
                    .env("KYMO_LINUX_FILES", files),
                Guest::Missing(what) => suite.env("KYMO_LINUX_MISSING", what),
            };
        }
        let beside = |test: &str| !ALONE.contains(&file_of(test));
        suite.run_each(fits, beside, shows)
    }
}

/// The file of the tests that need a guest with Linux.
const LINUX_GUEST: &str = "linux_guest";

/// Runs a file of the end-to-end tests, or with `FILE::TEST` one of its tests.
pub(super) fn one(name: &str) -> Result<()> {
    let is_meant = |test: &str| match name.split_once("::") {
        Some((file, function)) => {
            file_of(test) == file && (test == name || test.ends_with(&format!("::{function}")))
        }
        None => file_of(test) == name,
    };
    let tests = build()?;
    if !tests.0.has(is_meant)? {
        bail!(Usage(format!("There is no end-to-end test \"{name}\".")));
    }
    let fits = |test: &str| is_meant(test) || (test == LINUX_GUEST && file_of(name) == test);
    tests.run_tests(fits, false)
}
