//! The programs of user.s.

use super::paging::{PAGE, USER};

core::arch::global_asm!(include_str!("user.s"));

unsafe extern "C" {
    /// In link.ld: where the section begins and ends.
    safe static __user: u8;
    safe static __user_end: u8;
    /// In user.s.
    safe static user_calls: u8;
    safe static user_touch: u8;
    safe static user_parent: u8;
    safe static user_loop: u8;
    safe static user_wild: u8;
    safe static user_illegal: u8;
    safe static user_sleeper: u8;
    safe static user_client: u8;
    safe static user_server: u8;
    safe static user_puts: u8;
    safe static user_gets: u8;
    safe static user_sends: u8;
}

/// The frames that all processes have their code in, in order.
pub fn code() -> impl Iterator<Item = usize> {
    (&raw const __user as usize..&raw const __user_end as usize).step_by(PAGE)
}

/// Name of a program, and where a process enters it.
pub fn program(number: usize) -> Option<(&'static str, usize)> {
    let (name, at) = *[
        ("calls", &raw const user_calls),
        ("touch", &raw const user_touch),
        ("parent", &raw const user_parent),
        ("loop", &raw const user_loop),
        ("wild", &raw const user_wild),
        ("illegal", &raw const user_illegal),
        ("sleeper", &raw const user_sleeper),
        ("client", &raw const user_client),
        ("server", &raw const user_server),
        ("puts", &raw const user_puts),
        ("gets", &raw const user_gets),
        ("sends", &raw const user_sends),
    ]
    .get(number)?;
    Some((name, USER.start + (at as usize - &raw const __user as usize)))
}
