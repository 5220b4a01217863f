//! Passes the linker script to the linker and asks for a build id, by which a trace names its
//! kernel image.

fn main() {
    let script = format!("{}/link.ld", env!("CARGO_MANIFEST_DIR"));
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rustc-link-arg-bins=--build-id=sha1");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
}
