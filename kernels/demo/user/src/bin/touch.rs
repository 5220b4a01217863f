//! touch N: maps N pages, writes to each, and checks the content.
#![no_std]
#![no_main]

use demo_user::{Words, number, sys};

demo_user::program!(main);

const PAGE: usize = 4096;

fn main(mut words: Words) -> u8 {
    let pages = number(&mut words);
    let heap = sys::map(pages).expect("there is room").cast::<usize>();
    let place = |page: usize| heap.wrapping_byte_add(page * PAGE + 8);
    for page in 0..pages {
        // SAFETY: inside the mapped pages.
        unsafe { place(page).write_volatile(page) };
    }
    // SAFETY: as above.
    let right = (0..pages).all(|page| unsafe { place(page).read_volatile() } == page);
    u8::from(!right)
}
