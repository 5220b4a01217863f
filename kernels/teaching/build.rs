//! Passes the linker script to the linker.

fn main() {
    let script = format!("{}/link.ld", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
}
