//! Where an ordinary program spends its time. `cargo xtask flame` builds it with frame pointers,
//! runs it, and draws the picture; by hand:
//!
//! ```sh
//! export RUSTFLAGS="-C force-frame-pointers=yes -g"
//! cargo run --release -p kymo-hosted --example flame -- trace
//! kymo flame trace -o flame.svg
//! ```
//!
//! Without RUSTFLAGS there are no frame pointers. Then have 8 KiB of the stack copied with each
//! sample: `-- trace 8192`.

use std::collections::HashMap;
use std::thread;

use kymo_hosted::{Options, Sampling};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let directory = words.next().ok_or("name a directory for the trace")?;
    let stack_bytes = words.next().map_or(Ok(0), |word| word.parse())?;
    let options = Options {
        sampling: Some(Sampling {
            hz: 200,
            stack_bytes,
            packets: 2048, // 8 MiB for each thread: stacks are long.
            ..Sampling::default()
        }),
        ..Options::default()
    };
    let session = kymo_hosted::start(&options, &kymo_hosted::SAMPLES)?;
    let words = thread::Builder::new().name("words".into()).spawn(|| {
        kymo_hosted::sample_this_thread();
        count_words()
    })?;
    let picture = draw_picture(700);
    let words = words.join().map_err(|_| "the thread has panicked")?;
    let summary = session.save(directory.as_ref())?;
    println!("{words} words, {picture} points inside");
    println!("{} records, {} lost", summary.events(), summary.lost());
    Ok(())
}

/// The words of a long text, each once.
#[inline(never)]
fn count_words() -> usize {
    let mut counts = HashMap::new();
    for part in 0..60 {
        let text = write_text(part);
        for word in split(&text) {
            *counts.entry(word.to_owned()).or_insert(0_u32) += 1;
        }
    }
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
    sorted.len()
}

#[inline(never)]
fn write_text(part: u64) -> String {
    let mut state = part + 1;
    let mut text = String::new();
    for _ in 0..40_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        text.push_str(&format!("word{} ", state >> 48));
    }
    text
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(' ').filter(|word| !word.is_empty())
}

/// How many points of a square belong to the Mandelbrot set.
#[inline(never)]
fn draw_picture(size: u32) -> usize {
    (0..size).map(|y| draw_line(y, size)).sum()
}

#[inline(never)]
fn draw_line(y: u32, size: u32) -> usize {
    let scaled = |at: u32| f64::from(at) * 3.0 / f64::from(size);
    let is_inside = |x: &u32| escapes(scaled(*x) - 2.2, scaled(y) - 1.5).is_none();
    (0..size).filter(is_inside).count()
}

/// After how many steps a point leaves the circle, if it does.
#[inline]
fn escapes(re: f64, im: f64) -> Option<u32> {
    let (mut x, mut y) = (0.0, 0.0);
    (0..1000).find(|_| {
        (x, y) = square_and_add((x, y), (re, im));
        x * x + y * y > 4.0
    })
}

#[inline]
fn square_and_add((x, y): (f64, f64), (re, im): (f64, f64)) -> (f64, f64) {
    (x * x - y * y + re, 2.0 * x * y + im)
}
