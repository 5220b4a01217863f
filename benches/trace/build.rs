//! Compiles the peers written in C, with the optimisation and target processor of the Rust ones.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rerun-if-env-changed=KYMO_BENCH_BARECTF");
    if std::env::var_os("CARGO_FEATURE_BARECTF").is_some() {
        let generated = PathBuf::from(std::env::var_os("KYMO_BENCH_BARECTF").unwrap_or_default());
        println!("cargo::rerun-if-changed={}", generated.display());
        println!(
            "cargo::rustc-env=KYMO_BENCH_BARECTF={}",
            generated.display()
        );
        let mut build = cc::Build::new();
        // The generated code has unused functions.
        build
            .file("c/barectf.c")
            .include(generated)
            .flag("-Wno-unused-parameter")
            .flag("-Wno-unused-function");
        build
            .define("PACKET_SIZE", "65536")
            .define("PACKETS", "4")
            .compile("peer_barectf");
    }
    if std::env::var_os("CARGO_FEATURE_LTTNG").is_some() {
        cc::Build::new()
            .file("c/lttng.c")
            .include("c")
            .warnings(false)
            .compile("peer_lttng");
        println!("cargo::rustc-link-lib=lttng-ust");
        println!("cargo::rustc-link-lib=dl");
        // LTTng finds its tracepoints by the bounds of a section that no code refers to: the linker
        // must keep it.
        println!("cargo::rustc-link-arg=-Wl,-z,nostart-stop-gc");
    }
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let version = lock
        .split("name = \"tracing\"\nversion = \"")
        .nth(1)
        .and_then(|rest| rest.split('"').next());
    println!(
        "cargo::rustc-env=TRACING_VERSION={}",
        version.unwrap_or("unknown")
    );
    println!("cargo::rustc-env=COMPILERS={}", compilers());
}

/// The versions of the compilers of both languages.
fn compilers() -> String {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    [(rustc.as_str(), "--version"), ("cc", "--version")]
        .into_iter()
        .filter_map(|(program, argument)| {
            std::process::Command::new(program)
                .arg(argument)
                .output()
                .ok()
        })
        .filter_map(|output| {
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .next()
                .map(str::to_owned)
        })
        .collect::<Vec<_>>()
        .join(", ")
}
