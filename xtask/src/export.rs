//! The steps `export`, `profiles` and `view`: see tests/export.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::failure::NotRun;
use crate::process::{
    build, cargo, exists, output, program, root, run as run_command, run_program, target,
};
use crate::{python, setup};

pub(crate) fn run() -> Result<()> {
    setup::python()?;
    let requirements = root().join("tests/export/requirements.txt");
    let python = python::environment("export", &requirements)?.join("python");
    let kymo = build("kymo")?;
    let mut readers = program("kymo-export-readers")?;
    readers
        .arg("traces")
        .arg("--kymo")
        .arg(kymo)
        .arg("--big-trace")
        .arg(build("kymo-big-trace")?)
        .arg("--python")
        .arg(python);
    run_program(readers.arg("--folder").arg(target().join("export/files")))
}

/// The npm package whose schema and page read Speedscope's files.
const SPEEDSCOPE: &str = "speedscope@1.25.0";
/// The original converter of Redox's profiles.
const REDOX: &str = "redox-kprofiling@0.2.2";

/// Profiles, read by other tools. What lacks its tool is not passed over in silence: the others are
/// checked, and the step is then not run.
pub(crate) fn profiles() -> Result<()> {
    setup::python()?;
    let schema = setup::pprof_schema()?;
    let requirements = root().join("tests/export/requirements.txt");
    let python = python::environment("export", &requirements)?.join("python");
    let kymo = build("kymo")?;
    let mut readers = program("kymo-export-readers")?;
    readers
        .arg("profiles")
        .arg("--kymo")
        .arg(kymo)
        .arg("--python")
        .arg(python)
        .arg("--pprof-schema")
        .arg(schema)
        .arg("--redox")
        .arg(redox()?)
        .arg("--folder")
        .arg(target().join("profiles/files"));
    let mut missing = Vec::new();
    match speedscope()? {
        Some(package) => drop(readers.arg("--speedscope").arg(package)),
        None => missing.push("npm for Speedscope's schema"),
    }
    match setup::browser() {
        Ok(browser) => drop(readers.args(["--browser", browser])),
        Err(error) => {
            eprintln!("{error:#}");
            missing.push("a browser for flame graphs: install chromium-headless-shell");
        }
    }
    run_program(&mut readers)?;
    match missing.as_slice() {
        [] => Ok(()),
        missing => bail!(NotRun(format!(
            "in part: there is no {}",
            missing.join(", no ")
        ))),
    }
}

/// Checks the types of the page's scripts, which are written beside the code.
const TYPESCRIPT: &str = "typescript@7.0.2";

/// The page of `kymo view`: its scripts have the types that they say, and in a browser it shows what
/// the reports say.
pub(crate) fn view() -> Result<()> {
    let mut missing = Vec::new();
    match typescript() {
        Some(tsc) => {
            let mut check = Command::new(tsc);
            run_command(check.arg("--project").arg(root().join("crates/kymo-view")))?;
        }
        None => missing.push("npm, or way to its registry, for the types of the page's scripts"),
    }
    match setup::browser() {
        Ok(browser) => {
            let mut page = program("kymo-export-readers")?;
            page.arg("page").arg("--kymo").arg(build("kymo")?);
            page.arg("--big-trace").arg(build("kymo-big-trace")?);
            page.args(["--browser", browser]);
            run_program(page.arg("--folder").arg(target().join("view")))?;
        }
        Err(error) => {
            eprintln!("{error:#}");
            missing.push("a browser for the page: install chromium-headless-shell");
        }
    }
    match missing.as_slice() {
        [] => Ok(()),
        missing => bail!(NotRun(format!(
            "in part: there is no {}",
            missing.join(", no ")
        ))),
    }
}

/// TypeScript's compiler; `None` without npm, or where npm gets nothing. It would try for minutes.
fn typescript() -> Option<PathBuf> {
    let folder = target().join("page").join(TYPESCRIPT);
    let program = folder.join("node_modules/.bin/tsc");
    if !program.exists() {
        if !exists("npm") {
            return None;
        }
        fs::create_dir_all(&folder).ok()?;
        let mut install = Command::new("npm");
        install.args([
            "install",
            "--no-save",
            "--no-audit",
            "--no-fund",
            "--prefix",
        ]);
        install.arg(&folder).arg(TYPESCRIPT);
        install.args(["--fetch-retries=1", "--fetch-retry-mintimeout=1000"]);
        if let Err(error) = run_command(install.arg("--fetch-timeout=60000")) {
            eprintln!("{error:#}");
            return None;
        }
    }
    Some(program)
}

/// The unpacked package of Speedscope; `None` without npm.
fn speedscope() -> Result<Option<PathBuf>> {
    let folder = target().join("profiles").join(SPEEDSCOPE);
    let package = folder.join("package");
    if package.join("dist").is_dir() {
        return Ok(Some(package));
    }
    if !exists("npm") {
        return Ok(None);
    }
    fs::create_dir_all(&folder)?;
    let mut pack = Command::new("npm");
    let packed = output(
        pack.args(["pack", "--silent", "--pack-destination"])
            .arg(&folder)
            .arg(SPEEDSCOPE),
    )?;
    let mut unpack = Command::new("tar");
    run_command(
        unpack
            .arg("-xzf")
            .arg(folder.join(packed.trim()))
            .arg("-C")
            .arg(&folder),
    )?;
    Ok(Some(package))
}

/// The original converter of Redox's profiles.
fn redox() -> Result<PathBuf> {
    let folder = target().join("profiles").join(REDOX);
    let program = folder.join("bin/redox-kprofiling");
    if !program.is_file() {
        let mut install = cargo(&[
            "install",
            "--quiet",
            "--locked",
            "--bin",
            "redox-kprofiling",
        ]);
        run_command(install.arg("--root").arg(&folder).arg(REDOX))?;
    }
    Ok(program)
}
