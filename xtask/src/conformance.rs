//! The conformance set of crates/kymo-ctf. Its cases run in the step `unit`, and those with
//! babeltrace2 in the step of that name.

use anyhow::Result;

use crate::test;

/// Prints the sections of the specifications that no case names.
pub(crate) fn sections() -> Result<()> {
    let suite = test::host()?.only(|program| program.package == "kymo-ctf");
    suite.run(&["--nocapture", "sections::"])
}
