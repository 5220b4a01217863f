//! `cargo xtask overhead`: measures the cost of tracing for whole kernels; see tests/overhead.

use anyhow::Result;

use crate::bench::book;
use crate::process::{output, program};
use crate::setup::{AARCH64, RISCV64, X86_64};
use crate::{kernel, setup, test};

/// The page of the book with the table, and the lines that delimit it.
const PAGE: &str = "docs/src/overhead.md";
const BEGIN: &str = "<!-- Written by cargo xtask overhead --book: -->";
const END: &str = "<!-- to here. -->";

/// Measures and prints; writes the table into the book if `into_the_book`. Fails if a budget is
/// exceeded.
pub(crate) fn run(into_the_book: bool) -> Result<()> {
    let toolchain = setup::run()?;
    let mut overhead = program("kymo-overhead")?;
    overhead
        .arg("--kymo")
        .arg(test::cli()?)
        .args(["--kernel", "hello:riscv64"])
        .arg(kernel::hello(toolchain)?)
        .arg(kernel::hello_compiled_out(toolchain)?);
    for (arch, triple) in [
        ("riscv64", RISCV64),
        ("x86_64", X86_64),
        ("aarch64", AARCH64),
    ] {
        overhead
            .args(["--kernel", &format!("demo:{arch}")])
            .arg(kernel::demo(triple, toolchain)?)
            .arg(kernel::demo_without_trace(triple, toolchain)?);
    }
    let table = output(&mut overhead)?;
    println!("{table}");
    if into_the_book {
        book::write(PAGE, (BEGIN, END), &table)?;
    }
    Ok(())
}
