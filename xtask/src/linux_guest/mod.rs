//! A Linux guest for QEMU: Debian's kernel for AArch64, and a first file system in memory with the
//! programs to be tested.

mod cpio;
mod packages;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::{cargo, exists, output, target};
use crate::setup;
use cpio::Archive;

/// Programs for this target need no library.
const TARGET: &str = "aarch64-unknown-linux-musl";

/// Programs and tests of the guest, which cargo builds all at once: so it builds each library once.
const CARGO: [&str; 23] = [
    "build",
    "--target",
    TARGET,
    "--package",
    "kymo-cli",
    "--package",
    "kymo-linux-guest",
    "--package",
    "kymo-perf",
    // The target has no compiler for C.
    "--no-default-features",
    "--features",
    "kymo-perf/aya",
    "--bin",
    "kymo",
    "--bin",
    "kymo-linux-guest",
    "--test=groups",
    "--test=linux",
    "--test=bpf",
    "--message-format=json",
    // Without debug information programs are small. A library of aya reads all the kernel's types.
    "--config=profile.dev.debug=false",
    "--config=profile.dev.strip=true",
    "--config=profile.dev.package.aya-obj.opt-level=3",
];

/// The source of each program, and its place in the guest. The first program is `/init`.
const PROGRAMS: [(&str, &str); 5] = [
    ("tests/linux-guest/src/main.rs", "init"),
    ("crates/kymo-cli/src/main.rs", "bin/kymo"),
    ("tests/linux-guest/tests/groups/main.rs", "bin/groups"),
    ("crates/kymo-perf/tests/linux.rs", "bin/linux"),
    ("crates/kymo-perf/tests/bpf.rs", "bin/bpf"),
];

/// Other names of the first program.
const NAMES: [&str; 2] = ["true", "spin"];

/// A guest, or why there is none.
pub(crate) enum Guest {
    /// The kernel, and its first file system.
    Ready { kernel: PathBuf, files: PathBuf },
    /// What this machine lacks.
    Missing(String),
}

/// Downloads the kernel unless it is there, and builds the programs.
pub(crate) fn build() -> Result<Guest> {
    let missing = |what: &str| Ok(Guest::Missing(format!("the Linux guest needs {what}")));
    if !is_debian() || !exists("apt-get") || !exists("dpkg-deb") {
        return missing("Debian's packages, and this is another system");
    }
    if !setup::add_targets(&[TARGET]) {
        return missing(&format!("rustup's target {TARGET}"));
    }
    let folder = target().join("linux-guest");
    let packages = packages::files(&folder)?;
    let mut archive = Archive::default();
    archive.folder("bin");
    archive.folder("lib");
    archive.program("bin/perf", &contents(&packages.perf)?);
    for library in fs::read_dir(&packages.libraries)? {
        let library = library?;
        let name = library.file_name().to_string_lossy().into_owned();
        archive.program(&format!("lib/{name}"), &contents(&library.path())?);
    }
    let linker = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER";
    let messages = output(cargo(&CARGO).env(linker, "rust-lld"))?;
    for (source, path) in PROGRAMS {
        let program = executable(&messages, source);
        let program =
            program.with_context(|| format!("cargo does not say where {source}'s program is"))?;
        archive.program(path, &contents(Path::new(program))?);
    }
    for name in NAMES {
        archive.link(&format!("bin/{name}"), "/init");
    }
    let files = folder.join("files.cpio");
    fs::write(&files, archive.finish())
        .with_context(|| format!("cannot write {}", files.display()))?;
    let kernel = packages.kernel;
    Ok(Guest::Ready { kernel, files })
}

fn is_debian() -> bool {
    let system = fs::read_to_string("/etc/os-release").unwrap_or_default();
    system.lines().any(|line| line == "ID=debian")
}

fn contents(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// The program of this source in cargo's messages, of which each is a line.
fn executable<'m>(messages: &'m str, source: &str) -> Option<&'m str> {
    let source = format!("/{source}\"");
    let mut lines = messages.lines().filter(|line| line.contains(&source));
    lines.find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(program, _)| program)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_cargos_messages() {
        let messages = r#"{"target":{"src_path":"/k/perf/src/lib.rs"},"executable":null}
{"target":{"name":"linux","src_path":"/k/cli/tests/linux.rs"},"executable":"/a/linux-1"}
{"target":{"name":"linux","src_path":"/k/perf/tests/linux.rs"},"executable":"/a/linux-2"}
{"reason":"build-finished","success":true}"#;
        let found = |source| executable(messages, source);
        assert_eq!(found("cli/tests/linux.rs"), Some("/a/linux-1"));
        assert_eq!(found("perf/tests/linux.rs"), Some("/a/linux-2"));
        assert_eq!(found("perf/src/lib.rs"), None);
    }
}
