//! Architecture code: one folder each, with the same functions; RISC-V's two widths share most of
//! them.

#[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
mod device_tree;
#[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
mod riscv;
#[cfg(target_arch = "riscv32")]
mod riscv32;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(any(target_arch = "riscv64", target_arch = "riscv32"))]
pub use riscv::*;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
