//! The step `export`: see tests/export.

use anyhow::Result;

use crate::process::{build, cargo, program, root, run as run_command, run_program, target};
use crate::{python, setup};

pub(crate) fn run() -> Result<()> {
    setup::python()?;
    let requirements = root().join("tests/export/requirements.txt");
    let python = python::environment("export", &requirements)?.join("python");
    run_command(&mut cargo(&[
        "build",
        "-p",
        "kymo-cli",
        "--features",
        "parquet",
    ]))?;
    let mut readers = program("kymo-export-readers")?;
    readers
        .arg("--kymo")
        .arg(target().join("debug/kymo"))
        .arg("--big-trace")
        .arg(build("kymo-big-trace")?)
        .arg("--python")
        .arg(python);
    run_program(readers.arg("--folder").arg(target().join("export/files")))
}
