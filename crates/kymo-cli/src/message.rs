//! Messages to the standard error.

/// Prints a line. If nobody takes it, nothing can be done about that; `eprintln!` would end the
/// program with a panic, and the exit code would no longer say how the work went.
macro_rules! message {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
