//! Kymo in a user-space program: `cargo run -p kymo-hosted --example hosted -- DIRECTORY`
//! writes a trace that any CTF reader opens.

use kymo::{Text, Tid, trace, vocabulary::ThreadName};
use kymo_hosted::{Hosted, Options};

kymo::event! {
    /// A worker finished a piece of work.
    #[id(21)]
    pub struct PieceDone { pub worker: Tid, pub piece: u32, pub even: bool }
}

static VOCABULARY: kymo::Vocabulary = kymo::vocabulary![ThreadName, PieceDone];
type Kymo = kymo::Tracer<Hosted>; // `trace!` finds it at the crate's root.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os()
        .nth(1)
        .ok_or("name a directory for the trace")?;
    let session = kymo_hosted::start(&Options::default(), &VOCABULARY)?;
    std::thread::scope(|scope| {
        for worker in 0..4 {
            scope.spawn(move || {
                trace!(ThreadName {
                    tid: Tid(worker),
                    name: Text::new("worker")
                });
                for piece in 0..10_000 {
                    trace!(PieceDone {
                        worker: Tid(worker),
                        piece,
                        even: piece % 2 == 0
                    });
                }
            });
        }
    });
    let summary = session.save(directory.as_ref())?;
    println!(
        "{} events written, {} lost",
        summary.events(),
        summary.lost()
    );
    Ok(())
}
