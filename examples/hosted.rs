//! Kymo in a user-space program: `cargo run -p kymo-hosted --example hosted -- DIRECTORY`
//! writes a trace that any CTF reader opens.

use std::thread;

use kymo::{Tid, trace};
use kymo_hosted::{Hosted, Options, THREADS};

kymo::event! {
    /// A worker finished a piece of work.
    #[id(21)]
    pub struct PieceDone { pub worker: Tid, pub piece: u32, pub even: bool }
}

// `THREADS`: each thread records its number and its name.
static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![THREADS; PieceDone];
type Kymo = kymo::Tracer<Hosted>; // `trace!` finds it at the crate's root.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("name a directory for the trace")?;
    let session = kymo_hosted::start(&Options::default(), &VOCABULARY)?;
    thread::scope(|scope| {
        for worker in 0..4 {
            let work = move || {
                for piece in 0..10_000 {
                    trace!(PieceDone {
                        worker: Tid(worker),
                        piece,
                        even: piece % 2 == 0
                    });
                }
            };
            let thread = thread::Builder::new().name(format!("worker.{worker}"));
            thread.spawn_scoped(scope, work)?;
        }
        Ok::<(), std::io::Error>(())
    })?;
    let summary = session.save(directory.as_ref())?;
    println!(
        "{} events written, {} lost",
        summary.events(),
        summary.lost()
    );
    Ok(())
}
