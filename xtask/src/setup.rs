//! Finds and installs the tools.
//!
//! Kernels are built for targets that rustup adds. If rustup is missing or cannot reach its server,
//! Debian's compiler builds them, with `core` from source instead of compiled targets.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::failure::{Environment, Usage};
use crate::process::{exists, quiet, run as run_command};

/// The target of kernels/hello.
pub(crate) const RISCV64: &str = "riscv64imac-unknown-none-elf";
/// The 32-bit target of kernels/probes and kernels/stress.
pub(crate) const RISCV32: &str = "riscv32imac-unknown-none-elf";
/// x86-64 without an operating system.
pub(crate) const X86_64: &str = "x86_64-unknown-none";
/// AArch64 without an operating system; the compiler uses no floating-point registers.
pub(crate) const AARCH64: &str = "aarch64-unknown-none-softfloat";
/// Cortex-M3: kernels/cortex-m and ports/embassy/example.
pub(crate) const THUMB7M: &str = "thumbv7m-none-eabi";
/// Cortex-M0, which has no compare-and-swap: kernels/cortex-m.
pub(crate) const THUMB6M: &str = "thumbv6m-none-eabi";
/// A 32-bit target whose programs run on x86-64 Linux without any library.
pub(crate) const I686: &str = "i686-unknown-linux-musl";

/// The targets of the kernels.
const KERNELS: [&str; 6] = [RISCV64, RISCV32, X86_64, AARCH64, THUMB7M, THUMB6M];

/// The tool chain that builds the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toolchain {
    /// The current tool chain, with targets that rustup added.
    Rustup,
    /// Debian's tool chain, which also builds `core`.
    Debian,
}

/// A Debian package, and a file or a program on the PATH that shows that it is installed.
struct Package {
    name: &'static str,
    sign: &'static str,
}

/// Packages to run kernels and to check their traces.
const RUN: [Package; 8] = [
    Package {
        name: "qemu-system-misc",
        sign: "qemu-system-riscv64",
    },
    Package {
        name: "qemu-system-x86",
        sign: "qemu-system-x86_64",
    },
    Package {
        name: "qemu-system-arm",
        sign: "qemu-system-aarch64",
    },
    Package {
        name: "qemu-user",
        sign: "qemu-x86_64",
    },
    Package {
        name: "babeltrace2",
        sign: "babeltrace2",
    },
    Package {
        name: "binutils-riscv64-unknown-elf",
        sign: "riscv64-unknown-elf-objdump",
    },
    // Kernels in C, and programs that include the header of the library for them.
    Package {
        name: "gcc-riscv64-unknown-elf",
        sign: "riscv64-unknown-elf-gcc",
    },
    Package {
        name: "g++",
        sign: "c++",
    },
];

/// Packages to build kernels with Debian's compiler. Its `cargo` is checked by full path, as the
/// first one on the PATH may be rustup's.
const BUILD: [Package; 4] = [
    Package {
        name: "rustc-web",
        sign: "/usr/bin/rustc",
    },
    Package {
        name: "cargo-web",
        sign: "/usr/bin/cargo",
    },
    Package {
        name: "rust-web-src",
        sign: "/usr/lib/rustlib/src/rust/library/core/src/lib.rs",
    },
    Package {
        name: "lld-22",
        sign: "ld.lld-22",
    },
];

/// Packages for benchmarks and the step `tracers`: LTTng and its reader.
const LTTNG: [Package; 3] = [
    Package {
        name: "lttng-tools",
        sign: "lttng-sessiond",
    },
    Package {
        name: "liblttng-ust-dev",
        sign: "/usr/include/x86_64-linux-gnu/lttng/tracepoint.h",
    },
    Package {
        name: "babeltrace2",
        sign: "babeltrace2",
    },
];

/// Linux's profiler, which Debian builds with libbabeltrace.
const PERF: [Package; 1] = [Package {
    name: "linux-perf",
    sign: "perf",
}];

/// The reader of barectf's traces.
const BABELTRACE2: [Package; 1] = [Package {
    name: "babeltrace2",
    sign: "babeltrace2",
}];

/// clang and its linker, for kernels in C for AArch64 and Cortex-M.
const CLANG: [Package; 2] = [
    Package {
        name: "clang",
        sign: "clang",
    },
    Package {
        name: "lld",
        sign: "ld.lld",
    },
];

/// The package for Python's virtual environments, which Debian's `python3` lacks.
const PYTHON: [Package; 1] = [Package {
    name: "python3-venv",
    sign: "/var/lib/dpkg/info/python3-venv.list",
}];

/// pprof's schema, and the compiler that reads it.
const PPROF: [Package; 2] = [
    Package {
        name: "golang-github-google-pprof-dev",
        sign: PPROF_SCHEMA,
    },
    Package {
        name: "protobuf-compiler",
        sign: "protoc",
    },
];

/// Where Debian has pprof's schema.
const PPROF_SCHEMA: &str = "/usr/share/gocode/src/github.com/google/pprof/proto/profile.proto";

/// Browsers without a screen, the smallest last: it is installed if there is none.
const BROWSERS: [&str; 3] = ["chromium", "google-chrome", "chromium-headless-shell"];

/// Installs pprof's schema; returns its path.
pub(crate) fn pprof_schema() -> Result<PathBuf> {
    install(&PPROF)?;
    Ok(PathBuf::from(PPROF_SCHEMA))
}

/// Installs clang and lld.
pub(crate) fn clang() -> Result<()> {
    install(&CLANG)
}

/// The name of a browser, which is installed if there is none.
pub(crate) fn browser() -> Result<&'static str> {
    let [.., smallest] = BROWSERS;
    if let Some(browser) = BROWSERS.into_iter().find(|browser| exists(browser)) {
        return Ok(browser);
    }
    install(&[Package {
        name: smallest,
        sign: smallest,
    }])?;
    Ok(smallest)
}

/// Installs the package for Python's virtual environments.
pub(crate) fn python() -> Result<()> {
    match quiet(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        Some(_) => Ok(()),
        None => install(&PYTHON),
    }
}

/// Installs LTTng.
pub(crate) fn lttng() -> Result<()> {
    install(&LTTNG)
}

/// Installs Linux's perf.
pub(crate) fn perf() -> Result<()> {
    install(&PERF)
}

/// Installs what barectf needs.
pub(crate) fn barectf() -> Result<()> {
    python()?;
    install(&BABELTRACE2)
}

/// Installs everything that `demo` and `test` need. Returns the tool chain for the kernels.
pub(crate) fn run() -> Result<Toolchain> {
    let toolchain = toolchain()?;
    install(&RUN)?;
    let kind = match toolchain {
        Toolchain::Rustup => "rustup's",
        Toolchain::Debian => "Debian's",
    };
    eprintln!("All tools are installed; kernels are built by {kind} tool chain.");
    Ok(toolchain)
}

/// Installs and returns the tool chain for the kernels.
pub(crate) fn toolchain() -> Result<Toolchain> {
    let forced = std::env::var("KYMO_TOOLCHAIN").unwrap_or_default();
    match forced.as_str() {
        "rustup" if add_targets(&KERNELS) => Ok(Toolchain::Rustup),
        "rustup" => bail!(Environment(format!(
            "rustup cannot add the targets. Type: rustup target add {}",
            KERNELS.join(" ")
        ))),
        "" if add_targets(&KERNELS) => Ok(Toolchain::Rustup),
        "" | "debian" => {
            install(&BUILD)?;
            Ok(Toolchain::Debian)
        }
        other => bail!(Usage(format!(
            "KYMO_TOOLCHAIN is rustup or debian, not \"{other}\"."
        ))),
    }
}

/// Installs Debian's tool chain.
pub(crate) fn debian() -> Result<()> {
    install(&BUILD)
}

/// Adds the targets to the current tool chain; returns whether it has them.
pub(crate) fn add_targets(targets: &[&str]) -> bool {
    let installed = quiet(Command::new("rustup").args(["target", "list", "--installed"]));
    let Some(installed) = installed else {
        return false;
    };
    targets
        .iter()
        .all(|target| installed.lines().any(|line| line == *target))
        || run_command(Command::new("rustup").args(["target", "add"]).args(targets)).is_ok()
}

/// The host target of the current compiler.
pub(crate) fn host() -> Option<String> {
    let version = quiet(Command::new("rustc").arg("-vV"))?;
    version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
}

/// The folder of the current compiler's LLVM tools, which rustup installs if they are missing.
pub(crate) fn llvm_tools() -> Option<PathBuf> {
    let sysroot = quiet(Command::new("rustc").args(["--print", "sysroot"]))?;
    let folder = PathBuf::from(sysroot.trim()).join(format!("lib/rustlib/{}/bin", host()?));
    let is_there = || folder.join("llvm-cov").is_file();
    if !is_there() {
        run_command(Command::new("rustup").args(["component", "add", "llvm-tools"])).ok()?;
    }
    is_there().then_some(folder)
}

/// Installs the missing packages.
fn install(packages: &[Package]) -> Result<()> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|package| !exists(package.sign))
        .map(|package| package.name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    let is_root = quiet(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    let installed = is_root && exists("apt-get") && {
        // The package lists may be old or missing, as in a fresh container, so retry after an
        // update.
        apt_install(&missing).is_ok()
            || (apt_get(&["update"]).is_ok() && apt_install(&missing).is_ok())
    };
    if !installed {
        bail!(Environment(format!(
            "These Debian packages are needed and cannot be installed from here: {names}. \
             Type: sudo apt-get update && sudo apt-get install --no-install-recommends {names}"
        )));
    }
    Ok(())
}

fn apt_install(packages: &[&str]) -> Result<()> {
    apt_get(&[&["install", "--yes", "--no-install-recommends"], packages].concat())
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    run_command(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .arg("--quiet=2")
            .args(arguments),
    )
}
