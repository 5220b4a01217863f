//! Room on the disk: a whole run of the steps takes gigabytes, and some machines have few.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::failure::NotRun;
use crate::process::{quiet, target};

/// Bytes of free room below which a run removes what no later step uses.
const LITTLE: u64 = 16_000_000_000;

/// Among the folders that a step leaves: the tests that cargo has linked, and nothing else there.
/// Who runs one of them later has it linked again.
pub(crate) const TESTS: &str = "debug/deps";

/// The free room that a run has seen after its steps, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    first: u64,
    least: u64,
}

impl Room {
    /// The room as it is now; `None` where `df` does not tell it.
    pub(crate) fn now() -> Option<Room> {
        let free = free(&target())?;
        Some(Room {
            first: free,
            least: free,
        })
    }

    /// Looks again after a step, and removes `folders` below the target folder if there is little.
    pub(crate) fn after(&mut self, folders: &[&str]) {
        let Some(free) = free(&target()) else {
            return;
        };
        self.least = self.least.min(free);
        if free < LITTLE {
            remove(&target(), folders, free);
        }
    }
}

impl std::fmt::Display for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, least) = (gigabytes(self.first), gigabytes(self.least));
        write!(f, "Disk: {first} GB free at first, {least} GB at the least")
    }
}

/// Checks that a step which needs this much has it.
///
/// # Errors
/// [`NotRun`] if there is less.
pub(crate) fn check(needed: u64) -> Result<()> {
    match free(&target()) {
        Some(free) if free < needed => bail!(NotRun(format!(
            "it takes {} GB of the disk, and {} GB are free",
            gigabytes(needed),
            gigabytes(free)
        ))),
        _ => Ok(()),
    }
}

fn remove(target: &Path, folders: &[&str], free: u64) {
    for folder in folders {
        let path = target.join(folder);
        if !path.exists() {
            continue;
        }
        let (what, removed) = match *folder {
            TESTS => ("the tests in ", remove_tests(&path)),
            _ => ("", fs::remove_dir_all(&path)),
        };
        let outcome = match removed {
            Ok(()) => "now removed".to_owned(),
            Err(error) => format!("not removed: {error}"),
        };
        let free = gigabytes(free);
        eprintln!("{free} GB of the disk are free: {what}target/{folder}, {outcome}");
    }
}

/// Programs that are no tests have a second name, one folder above.
fn remove_tests(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, about) = (entry.path(), entry.metadata()?);
        if about.is_file() && about.nlink() == 1 && path.extension().is_none() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Bytes that this process may still write where the folder is, or will be.
fn free(folder: &Path) -> Option<u64> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let mut df = Command::new("df");
    let told = quiet(df.args(["--output=avail", "--block-size=1"]).arg(there))?;
    told.lines().nth(1)?.trim().parse().ok()
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_the_named_folders_are_removed() {
        let target = std::env::temp_dir().join(format!("kymo-disk-{}", std::process::id()));
        for folder in ["loom/debug", "debug/deps"] {
            fs::create_dir_all(target.join(folder)).unwrap();
        }
        let deps = target.join("debug/deps");
        for file in ["it-01", "kymo-02", "libkymo-03.rlib"] {
            fs::write(deps.join(file), "").unwrap();
        }
        fs::hard_link(deps.join("kymo-02"), target.join("debug/kymo")).unwrap();
        remove(&target, &["loom", "absent", TESTS], 1);
        assert!(!target.join("loom").exists());
        let left = ["it-01", "kymo-02", "libkymo-03.rlib"].map(|file| deps.join(file).exists());
        assert_eq!(left, [false, true, true]);
        assert!(free(&target.join("not/yet")).is_none_or(|free| free > 0));
        fs::remove_dir_all(&target).unwrap();
    }

    #[test]
    fn a_step_without_room_is_not_run() {
        check(1).unwrap();
        let error = check(u64::MAX).unwrap_err();
        assert!(error.is::<NotRun>(), "{error:#}");
    }

    #[test]
    fn the_least_room_is_told() {
        let room = Room {
            first: 79_140_000_000,
            least: 450_000_000,
        };
        let text = "Disk: 79.1 GB free at first, 0.5 GB at the least";
        assert_eq!(room.to_string(), text);
    }
}
