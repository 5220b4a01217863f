//! bench OPERATION N: marks N + 1 times, with one operation between two marks: `nothing` (so that
//! only the call is measured), `page_fault` or `ipc` (a message to the program `server`, and its
//! answer).
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

const PAGE: usize = 4096;

fn main(mut words: Words) -> u8 {
    let operation = words.next();
    let rounds = number(&mut words);
    match operation {
        Some("nothing") => (0..=rounds).for_each(mark),
        Some("page_fault") => {
            let heap = sys::map(rounds).expect("there is room").cast::<usize>();
            mark(0);
            for page in 0..rounds {
                // SAFETY: inside the mapped pages.
                unsafe { heap.wrapping_byte_add(page * PAGE).write_volatile(page) };
                mark(page + 1);
            }
        }
        Some("ipc") => {
            mark(0);
            for round in 1..=rounds {
                sys::send(0, round).expect("the port takes it");
                assert_eq!(sys::receive(1), Ok(round));
                mark(round);
            }
        }
        _ => return 1,
    }
    0
}

fn mark(round: usize) {
    sys::mark(0, round as u64);
}
