//! Links for QEMU's mps2 machines.

fn main() {
    println!(
        "cargo::rustc-link-arg-bins=-T{}/link.ld",
        env!("CARGO_MANIFEST_DIR")
    );
    println!("cargo::rustc-link-arg-bins=--nmagic");
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rerun-if-changed=build.rs");
}
