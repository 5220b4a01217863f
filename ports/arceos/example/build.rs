//! Passes the linker script, which `axhal` writes beside the build's results, to the linker.

use std::env;

fn main() {
    let out = env::var("OUT_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bins=-T{out}/../../../linker_riscv64-qemu-virt.lds");
    println!("cargo::rustc-link-arg-bins=-no-pie");
    // port: begin
    for function in [
        "riscv_trap_handler",
        "__KernelGuardIf_enable_preempt",
        "__KernelGuardIf_disable_preempt",
    ] {
        println!("cargo::rustc-link-arg-bins=--wrap={function}");
    }
    // port: end
}
