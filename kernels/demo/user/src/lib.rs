//! The runtime of kernels/demo's programs: start, end and system calls.
//!
//! ```ignore
//! demo_user::program!(main);
//!
//! fn main(mut words: Words) -> u8 {
//!     println!("{} was asked for", words.next().unwrap_or("nothing"));
//!     0
//! }
//! ```

#![no_std]

pub mod abi;
pub mod arch;
pub mod console;
pub mod sys;

use core::panic::PanicInfo;

/// The words of the command line, behind the program's name.
#[derive(Clone, Copy, Debug)]
pub struct Words(&'static str);

impl Words {
    /// The rest of the line.
    pub fn rest(self) -> &'static str {
        self.0.trim_ascii()
    }
}

impl Iterator for Words {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        let text = self.0.trim_ascii_start();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Declares a program's main function, which returns the program's status.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        /// The kernel enters the program here.
        #[unsafe(no_mangle)]
        extern "C" fn _start(line: *const u8, len: usize) -> ! {
            // SAFETY: passed by the kernel.
            unsafe { $crate::run(line, len, $main) }
        }
    };
}

/// Runs a program's `main` and ends the process.
///
/// # Safety
/// `line` and `len` must be those passed by the kernel: the text stays at the end of the stack.
pub unsafe fn run(line: *const u8, len: usize, main: fn(Words) -> u8) -> ! {
    // SAFETY: as promised; the kernel accepts only UTF-8.
    let line: &'static str =
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(line, len)) };
    let mut words = Words(line);
    words.next();
    sys::exit(main(words))
}

/// The next word as a number.
pub fn number(words: &mut Words) -> usize {
    words
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a number is on the command line")
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    println!("{info}");
    // An exception, which the trace shows.
    sys::give_up()
}
