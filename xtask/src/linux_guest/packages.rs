//! Debian's kernel and `perf` for the guest's processor, from the package sources of this machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::failure::Environment;
use crate::process::{output, run};

/// Packages that depend on the newest kernel, and on all that `perf` needs.
const PACKAGES: [&str; 2] = ["linux-image-arm64", "linux-perf"];

/// Where packages for the guest's processor have their libraries.
const LIBRARIES: [&str; 2] = ["lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu"];

/// A reader of ELF files of any processor, which is installed for the kernels.
const READELF: &str = "riscv64-unknown-elf-readelf";

/// The files of the packages that the guest needs.
pub(super) struct Files {
    /// Linux.
    pub(super) kernel: PathBuf,
    /// `perf`.
    pub(super) perf: PathBuf,
    /// A folder with the shared libraries of `perf`, and the loader.
    pub(super) libraries: PathBuf,
}

/// The files, in this folder; downloaded if they are not there.
pub(super) fn files(folder: &Path) -> Result<Files> {
    let files = Files {
        kernel: folder.join("kernel"),
        perf: folder.join("perf"),
        libraries: folder.join("lib"),
    };
    // The kernel is the last that is written.
    if files.kernel.is_file() {
        return Ok(files);
    }
    let scratch = folder.join("packages");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    let root = unpacked(&scratch)?;
    fs::create_dir_all(&files.libraries)?;
    let perf = root.join("usr/bin/perf");
    for library in libraries(&perf, &root)? {
        if let Some(name) = library.file_name() {
            fs::copy(&library, files.libraries.join(name))?;
        }
    }
    fs::copy(&perf, &files.perf)?;
    fs::copy(kernel(&root)?, &files.kernel)?;
    fs::remove_dir_all(&scratch)?;
    Ok(files)
}

/// Downloads the packages and all that they depend on, as for a machine without any package, and
/// unpacks them. This machine's own packages are not touched.
fn unpacked(scratch: &Path) -> Result<PathBuf> {
    let (lists, cache) = (scratch.join("lists"), scratch.join("cache"));
    for folder in [lists.join("partial"), cache.join("archives/partial")] {
        fs::create_dir_all(folder)?;
    }
    let installed = scratch.join("status");
    fs::write(&installed, "")?;
    let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
    let settings = [
        "APT::Architecture=arm64".to_owned(),
        "APT::Architectures=arm64".to_owned(),
        // No other process uses these folders, and this one may not be root.
        "Debug::NoLocking=true".to_owned(),
        setting("Dir::State::Lists", &lists),
        setting("Dir::State::Status", &installed),
        setting("Dir::Cache", &cache),
    ];
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.arg("--quiet=2");
        for setting in &settings {
            command.args(["-o", setting]);
        }
        run(command.args(arguments))
    };
    let install = [
        "install",
        "--yes",
        "--download-only",
        "--no-install-recommends",
    ];
    apt(&["update"])
        .and_then(|()| apt(&[&install[..], &PACKAGES].concat()))
        .map_err(|error| {
            let packages = PACKAGES.join(" and ");
            Environment(format!(
                "{packages} for arm64 cannot be downloaded ({error:#}). They are on Debian's \
                 servers; check the network and /etc/apt."
            ))
        })?;
    let root = scratch.join("root");
    for package in fs::read_dir(cache.join("archives"))? {
        let package = package?.path();
        if package
            .extension()
            .is_some_and(|extension| extension == "deb")
        {
            run(Command::new("dpkg-deb")
                .arg("--extract")
                .arg(package)
                .arg(&root))?;
        }
    }
    Ok(root)
}

/// The kernel.
fn kernel(root: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(root.join("boot")).context("the kernel's package has no /boot")?;
    for file in files {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("vmlinuz-") {
            return Ok(file.path());
        }
    }
    bail!("the kernel's package has no /boot/vmlinuz-*")
}

/// The shared libraries that a program needs, and those that they need.
fn libraries(program: &Path, root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open = vec![program.to_owned()];
    while let Some(file) = open.pop() {
        let text = output(Command::new(READELF).arg("-d").arg(&file))?;
        for name in needed(&text) {
            let mut places = LIBRARIES.iter().map(|folder| root.join(folder).join(name));
            let library = places.find(|place| place.is_file());
            let library = library.with_context(|| format!("no package has the library {name}"))?;
            if found.insert(library.clone()) {
                open.push(library);
            }
        }
    }
    Ok(found)
}

/// The libraries in the dynamic section of a file, as readelf prints it.
fn needed(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| {
        line.split_once('[')?
            .1
            .split_once(']')
            .map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_libraries_are_found_in_readelfs_text() {
        let text = "Dynamic section at offset 0x10 contains 3 entries:\n  \
                    Tag        Type         Name/Value\n \
                    0x0000000000000001 (NEEDED)  Shared library: [libm.so.6]\n \
                    0x000000000000000e (SONAME)  Library soname: [libself.so.1]\n \
                    0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n";
        assert_eq!(needed(text).collect::<Vec<_>>(), ["libm.so.6", "libc.so.6"]);
    }
}
