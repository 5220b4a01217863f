//! Passes the architecture's script to the linker and asks for a build id, by which a trace names
//! its kernel image.

fn main() {
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let script = format!(
        "{}/src/arch/{architecture}/link.ld",
        env!("CARGO_MANIFEST_DIR")
    );
    println!("cargo::rustc-link-arg-bins=-T{script}");
    println!("cargo::rustc-link-arg-bins=--build-id=sha1");
    println!("cargo::rerun-if-changed={script}");
    println!("cargo::rerun-if-changed=build.rs");
}
