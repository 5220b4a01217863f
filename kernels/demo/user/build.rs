//! Passes the linker script with the programs' addresses to the linker.

fn main() {
    println!(
        "cargo::rustc-link-arg-bins=-T{}/link.ld",
        env!("CARGO_MANIFEST_DIR")
    );
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rerun-if-changed=build.rs");
}
