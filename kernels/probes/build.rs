//! Links the program that runs the probes at fixed addresses, so that a plugin can be given the
//! addresses of its functions.

fn main() {
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    match (target("ARCH").as_str(), target("OS").as_str()) {
        // RAM begins at 0x80000000. OpenSBI keeps the first 2 MiB on 64 bits; 32 bits has no
        // firmware.
        ("riscv64", "none") => at(0x8020_0000),
        ("riscv32", "none") => at(0x8000_0000),
        // Behind the device tree.
        ("aarch64", "none") => at(0x4020_0000),
        (_, "linux") => println!("cargo::rustc-link-arg-bins=-no-pie"),
        _ => {}
    }
    println!("cargo::rerun-if-changed=src/link.ld");
    println!("cargo::rerun-if-changed=build.rs");
}

fn at(base: u32) {
    println!(
        "cargo::rustc-link-arg-bins=-T{}/src/link.ld",
        env!("CARGO_MANIFEST_DIR")
    );
    println!("cargo::rustc-link-arg-bins=--defsym=base={base:#x}");
}
