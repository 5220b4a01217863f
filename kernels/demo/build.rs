//! Passes the architecture's script to the linker and asks for a build id, by which a trace names
//! its kernel image. Builds the programs in the kernel's image.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let script = format!(
        "{}/src/arch/{architecture}/link.ld",
        env!("CARGO_MANIFEST_DIR")
    );
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rustc-link-arg-bins=--build-id=sha1");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
    programs();
}

/// Builds kernels/demo/user, and writes `programs.rs`, the table of its programs. The whole files,
/// from which samples get their names, go to the folder `demo.programs` beside the kernel.
fn programs() {
    let user = Path::new(env!("CARGO_MANIFEST_DIR")).join("user");
    for part in [
        "src",
        "Cargo.toml",
        "build.rs",
        "link.ld",
        "../../../crates/kymo/src",
    ] {
        println!("cargo::rerun-if-changed={}", user.join(part).display());
    }
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let (target, out) = (variable("TARGET"), PathBuf::from(variable("OUT_DIR")));
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .current_dir(&user)
        .args(["build", "--release", "--target", &target, "--target-dir"])
        .arg(out.join("user"));
    // When the kernel is linted, its programs are only built.
    let built = cargo.env_remove("RUSTC_WORKSPACE_WRAPPER").status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "the programs in {} cannot be built",
        user.display()
    );

    let sources = fs::read_dir(user.join("src/bin")).expect("the programs are there");
    let mut names: Vec<String> = sources
        .map(|entry| entry.expect("a folder can be read").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    // OUT_DIR is build/NAME/out in the folder of the kernel.
    let beside = out.ancestors().nth(3).expect("cargo's own layout");
    let whole = beside.join("demo.programs");
    fs::create_dir_all(&whole).expect("a folder can be made");
    let mut table = format!("static PROGRAMS: [Program; {}] = [\n", names.len());
    for name in names {
        let elf = out.join("user").join(&target).join("release").join(&name);
        let bytes = fs::read(&elf).expect("it was built just now");
        fs::write(whole.join(&name), &bytes).expect("a copy can be written");
        let loaded = out.join(format!("{name}.loaded"));
        fs::write(&loaded, &bytes[..loaded_len(&bytes)]).expect("a part can be written");
        let _ = writeln!(
            table,
            "    Program {{ name: {name:?}, elf: &Aligned(*include_bytes!({:?})) }},",
            loaded.display().to_string()
        );
    }
    fs::write(out.join("programs.rs"), table + "];\n").expect("the table can be written");
}

/// The length of an ELF file without what is behind its loadable segments: symbols and line tables
/// (System V ABI, "ELF header" and "program header" of 64-bit files).
fn loaded_len(elf: &[u8]) -> usize {
    let number = |at: usize, len: usize| {
        let bytes = elf[at..at + len].iter().rev();
        bytes.fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (headers, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    let ends = (0..count)
        .map(|index| headers + index * size)
        .filter(|&at| number(at, 4) == 1)
        .map(|at| number(at + 8, 8) + number(at + 32, 8));
    ends.fold(headers + count * size, usize::max)
}
