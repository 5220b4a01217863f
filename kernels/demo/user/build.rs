//! Passes the linker script to the linker, and the address of the programs, which is that of `USER`
//! in src/arch.

fn main() {
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let user: usize = match architecture.as_str() {
        "aarch64" => 0x8000_0000,
        _ => 0x4000_0000,
    };
    println!("cargo::rustc-link-arg-bins=--defsym=user={user}");
    println!(
        "cargo::rustc-link-arg-bins=-T{}/link.ld",
        env!("CARGO_MANIFEST_DIR")
    );
    println!("cargo::rerun-if-changed=link.ld");
    println!("cargo::rerun-if-changed=build.rs");
}
