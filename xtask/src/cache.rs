//! Builds of dependencies that `cargo xtask gate` keeps: a folder like `target`, with what cargo
//! has built of packages of the registry and nothing else. `.ci/run` begins with a copy of it.
//!
//! Whether something in it is still right, cargo decides: it builds again what is missing, or was
//! built from another version, by another compiler or with other flags.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::packages;

/// The folder; empty for none.
pub(crate) const VARIABLE: &str = "KYMO_CI_CACHE";

/// Where the builds are, as `.ci/run` knows it too. `None` if there shall be none.
pub(crate) fn folder() -> Option<PathBuf> {
    match env::var_os(VARIABLE) {
        Some(folder) if folder.is_empty() => None,
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(PathBuf::from(env::var_os("HOME")?).join(".cache/kymo/ci")),
    }
}

/// Replaces the builds in `cache` by those in the target folder of `clone`.
pub(crate) fn keep(clone: &Path, cache: &Path) -> Result<()> {
    let own = packages(clone, "--no-deps")?.into_iter();
    let own: BTreeSet<String> = own.map(|package| package.name).collect();
    let new = cache.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&new).with_context(|| new.display().to_string())?;
    copy_builds(&clone.join("target"), &new, &own, DEPTH).context("a build cannot be kept")?;
    if cache.exists() {
        fs::remove_dir_all(cache).with_context(|| cache.display().to_string())?;
    }
    fs::rename(&new, cache).with_context(|| cache.display().to_string())
}

/// How deep below a target folder other target folders lie, with one for each target and profile.
const DEPTH: u32 = 5;

/// What cargo keeps of a profile, besides the units' own folders.
const FINGERPRINTS: &str = ".fingerprint";
const SCRIPTS: &str = "build";
const UNITS: &str = "deps";

/// Copies the builds of each profile below a target folder.
fn copy_builds(from: &Path, to: &Path, own: &BTreeSet<String>, depth: u32) -> Result<()> {
    if from.join(FINGERPRINTS).is_dir() {
        for folder in [FINGERPRINTS, SCRIPTS] {
            for (name, path) in entries(&from.join(folder))? {
                let package = name.rsplit_once('-').map_or(&*name, |(package, _)| package);
                if !own.contains(package) {
                    copy(&path, &to.join(folder).join(&name))?;
                }
            }
        }
        return copy_units(&from.join(UNITS), &to.join(UNITS));
    }
    if depth == 0 {
        return Ok(());
    }
    for (name, path) in entries(from)? {
        // Links lead elsewhere.
        if path.is_dir() && !path.is_symlink() {
            copy_builds(&path, &to.join(name), own, depth - 1)?;
        }
    }
    Ok(())
}

/// Copies what was compiled from sources of the registry: by the `.d` file of each unit, which
/// names its sources.
fn copy_units(from: &Path, to: &Path) -> Result<()> {
    let all = entries(from)?;
    let mut kept = BTreeSet::new();
    for (name, path) in &all {
        let Some(unit) = name.strip_suffix(".d") else {
            continue;
        };
        if fs::read_to_string(path).is_ok_and(|sources| is_of_registry(&sources)) {
            kept.insert(unit);
        }
    }
    for (name, path) in &all {
        let stem = name.split_once('.').map_or(&**name, |(stem, _)| stem);
        let unit = stem.strip_prefix("lib").unwrap_or(stem);
        if kept.contains(unit) || kept.contains(stem) {
            copy(path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Whether the first source is one of the registry's.
fn is_of_registry(sources: &str) -> bool {
    let first = sources.lines().find_map(|line| line.split_once(": "));
    first.is_some_and(|(_, sources)| sources.contains("/registry/src/"))
}

/// The names in a folder and their paths; none if there is no folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let named = entries.map(|entry| {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        Ok((name.to_string_lossy().into_owned(), path.clone()))
    });
    named.collect()
}

/// Copies a file, or a folder with all in it, with their times, which cargo compares.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for (name, path) in entries(from)? {
            copy(&path, &to.join(name))?;
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to)?;
    let time = fs::metadata(from)?.modified()?;
    fs::File::options()
        .write(true)
        .open(to)?
        .set_modified(time)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn only_builds_of_the_registrys_packages_are_kept() {
        let folder = env::temp_dir().join(format!("kymo-cache-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let write = |file: &str, text: &str| {
            let file = folder.join("target").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        for profile in ["debug", "kernels/riscv64/release"] {
            for file in [
                ".fingerprint/serde-json-01/lib",
                ".fingerprint/kymo-ctf-02/lib",
                "build/serde-json-03/out/a",
                "build/kymo-ctf-04/out/a",
                "deps/libserde_json-05.rlib",
                "deps/libkymo_ctf-06.rlib",
                "incremental/kymo_ctf-07/a",
                "kymo",
            ] {
                write(&format!("{profile}/{file}"), "");
            }
            let d = |unit: &str, source: &str| {
                let text = format!("/t/{unit}.d: {source}\n");
                write(&format!("{profile}/deps/{unit}.d"), &text);
            };
            d(
                "serde_json-05",
                "/c/registry/src/index/serde_json/src/lib.rs",
            );
            d("kymo_ctf-06", "crates/kymo-ctf/src/lib.rs");
        }
        write("tests-short", "");
        let (from, to) = (folder.join("target"), folder.join("kept"));
        copy_builds(&from, &to, &BTreeSet::from(["kymo-ctf".to_owned()]), DEPTH).unwrap();
        for profile in ["debug", "kernels/riscv64/release"] {
            let is_kept = |file: &str| to.join(profile).join(file).exists();
            for file in [
                ".fingerprint/serde-json-01/lib",
                "build/serde-json-03/out/a",
                "deps/libserde_json-05.rlib",
                "deps/serde_json-05.d",
            ] {
                assert!(is_kept(file), "{file}");
            }
            for file in [
                ".fingerprint/kymo-ctf-02",
                "build/kymo-ctf-04",
                "deps/libkymo_ctf-06.rlib",
                "deps/kymo_ctf-06.d",
                "incremental",
                "kymo",
            ] {
                assert!(!is_kept(file), "{file}");
            }
        }
        assert!(!to.join("tests-short").exists());
        let time = |folder: &Path| {
            let file = folder.join("debug/deps/libserde_json-05.rlib");
            fs::metadata(file).unwrap().modified().unwrap()
        };
        assert_eq!(time(&from), time(&to));
        fs::remove_dir_all(&folder).unwrap();
    }
}
