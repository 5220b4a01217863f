//! The platform's interrupt controller and the UART behind it.

/// The controller's registers.
pub const BASE: usize = 0x0c00_0000;
/// The serial port.
pub const UART: usize = 0x1000_0000;
