//! callstest: makes every recording call in every state of the session, with every possible error,
//! and in cycles. Each answer is a cell; wrong ones are printed, and the program ends with 1 if
//! there is one.
//!
//! `callstest denied` runs without the right to record: each call is refused, in each state that
//! the first one sets up. `callstest asleep` sleeps for ever.
#![no_std]
#![no_main]

mod cells;
mod cycles;
mod memory;
mod refusals;
mod states;

use demo_user::{Words, println, sys};

use cells::Cells;

demo_user::program!(main);

fn main(mut words: Words) -> u8 {
    let mut cells = Cells::default();
    match words.next() {
        None => {
            states::every_call_in_every_state(&mut cells);
            refusals::every_refusal_before_the_later_ones(&mut cells);
            refusals::no_right(&mut cells);
            cycles::start_read_finish(&mut cells);
            cycles::start_stop_read_finish(&mut cells);
            memory::nothing_behind_what_was_read(&mut cells);
            memory::nothing_is_taken_for_nowhere(&mut cells);
            memory::the_longest_sleep(&mut cells);
        }
        Some("denied") => refusals::denied(&mut cells),
        Some("asleep") => sys::sleep(u64::MAX),
        Some(_) => {
            println!("callstest: takes no words, \"denied\" or \"asleep\"");
            return 2;
        }
    }
    let Cells { passed, failed, .. } = cells;
    println!("callstest: {passed} cells passed, {failed} failed");
    u8::from(failed > 0)
}
