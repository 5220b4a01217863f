//! Counts the events of a trace: `cargo run --release -p kymo-ctf --example count TRACE [JOBS]`.

use std::path::Path;

use kymo_ctf::{Tally, Trace};

fn main() -> Result<(), kymo_ctf::Error> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".to_owned());
    let jobs = arguments
        .next()
        .and_then(|jobs| jobs.parse().ok())
        .unwrap_or(1);
    let trace = Trace::open(Path::new(&directory))?.map();
    let tally = Tally::of(&trace, jobs, false);
    for stream in &tally.streams {
        println!(
            "{}: {} events, {} lost",
            stream.name, stream.events, stream.lost_events
        );
    }
    for problem in &tally.problems {
        println!("{problem}");
    }
    Ok(())
}
