//! Measures all peers in turn in every round, so that disturbances affect all of them. Every ratio
//! is taken within one round.

use anyhow::{Context, Result};

use crate::peer::{Peer, Record, THREADS};
use crate::workers::Workers;

/// The peer that is an empty function.
pub const EMPTY: &str = "call alone";
/// The peer to which the others are compared.
pub const FLOOR: &str = "clock + 16 bytes";

/// The figures of a peer.
pub struct Figures {
    /// Nanoseconds per event in the shortest round.
    pub minimum: f64,
    /// Nanoseconds per event, median of the rounds.
    pub median: f64,
    /// Ratio of its time to the floor's in the same round, median of the rounds.
    pub over_floor: f64,
    /// Instructions of the function, `ret` included.
    pub instructions: u64,
    /// The cost of a disabled event, if it has a switch.
    pub off: Option<Off>,
    /// Ratio of the throughput of two threads to the sum of each alone, median of the rounds.
    pub scaling: f64,
    /// Ratio of `scaling` to the floor's in the same round, median of the rounds.
    pub scaling_over_floor: f64,
}

/// The cost of a disabled event.
pub struct Off {
    /// Instructions of the function, `ret` included.
    pub instructions: u64,
    /// Nanoseconds in addition to an empty function.
    pub nanoseconds: f64,
}

/// A round of a peer, in nanoseconds per event.
struct Round {
    alone: [f64; THREADS],
    together: [f64; THREADS],
    off: Option<f64>,
}

impl Round {
    /// Ratio of the throughput of two threads to the sum of each alone.
    fn scaling(&self) -> f64 {
        let rate = |times: &[f64; THREADS]| times.iter().map(|time| 1.0 / time).sum::<f64>();
        rate(&self.together) / rate(&self.alone)
    }

    fn time(&self) -> f64 {
        self.alone.iter().sum::<f64>() / THREADS as f64
    }
}

/// Measures all peers.
pub fn all(
    peers: &[Peer],
    workers: &mut Workers,
    rounds: usize,
    milliseconds: f64,
    counted: usize,
) -> Result<Vec<Figures>> {
    let index = |name| {
        peers
            .iter()
            .position(|peer| peer.name == name)
            .with_context(|| format!("there is no peer \"{name}\""))
    };
    let (empty, floor) = (index(EMPTY)?, index(FLOOR)?);
    let mut counts = Vec::new();
    for peer in peers {
        let mut count = |record| calls_in(workers, record, milliseconds);
        counts.push((count(peer.record)?, peer.off.map(count).transpose()?));
    }
    let mut all: Vec<Vec<Round>> = Vec::new();
    for round in 0..rounds {
        let one_round = peers
            .iter()
            .zip(&counts)
            .map(|(peer, &(count, off_count))| {
                let per_event = |times: Vec<f64>, count: u32| {
                    times
                        .into_iter()
                        .map(|time| time / f64::from(count))
                        .collect::<Vec<_>>()
                };
                let mut times = |record, threads: &[usize], count| {
                    Ok::<_, anyhow::Error>(per_event(workers.time(record, threads, count)?, count))
                };
                let alone = [
                    times(peer.record, &[0], count)?[0],
                    times(peer.record, &[1], count)?[0],
                ];
                let together = times(peer.record, &[0, 1], count)?;
                let off = match (peer.off, off_count) {
                    (Some(off), Some(count)) => Some(times(off, &[0], count)?[0]),
                    _ => None,
                };
                Ok(Round {
                    alone,
                    together: [together[0], together[1]],
                    off,
                })
            });
        all.push(one_round.collect::<Result<_>>()?);
        if round % 20 == 19 {
            eprintln!("{} rounds of {rounds}", round + 1);
        }
    }
    let loop_alone = instructions(workers, peers[empty].record, counted)? - 1;
    let of = |what: &dyn Fn(&[Round]) -> Option<f64>| {
        all.iter()
            .filter_map(|round| what(round))
            .collect::<Vec<_>>()
    };
    let mut figures = Vec::new();
    for (at, peer) in peers.iter().enumerate() {
        let mut count =
            |record| Ok::<_, anyhow::Error>(instructions(workers, record, counted)? - loop_alone);
        let instructions = count(peer.record)?;
        let off = peer.off.map(count).transpose()?;
        let times = of(&|round| Some(round[at].time()));
        figures.push(Figures {
            minimum: times.iter().copied().fold(f64::INFINITY, f64::min),
            median: median(times),
            over_floor: median(of(&|round| Some(round[at].time() / round[floor].time()))),
            instructions,
            off: off.map(|instructions| Off {
                instructions,
                nanoseconds: median(of(&|round| Some(round[at].off? - round[empty].alone[0]))),
            }),
            scaling: median(of(&|round| Some(round[at].scaling()))),
            scaling_over_floor: median(of(&|round| {
                Some(round[at].scaling() / round[floor].scaling())
            })),
        });
    }
    Ok(figures)
}

/// Number of calls that take this long. Also makes both threads touch all of their rings.
fn calls_in(workers: &mut Workers, record: Record, milliseconds: f64) -> Result<u32> {
    let mut count = 1000;
    workers.time(record, &[1], 100_000)?;
    loop {
        let time = workers.time(record, &[0], count)?[0].max(1.0);
        if time >= milliseconds * 0.5e6 {
            let scaled = f64::from(count) * milliseconds * 1e6 / time;
            return Ok((scaled as u32).clamp(1000, 10_000_000));
        }
        count *= 2;
    }
}

/// Median number of instructions of a call and its iteration of the loop.
fn instructions(workers: &mut Workers, record: Record, counted: usize) -> Result<u64> {
    workers.time(record, &[0], counted as u32)?;
    Ok(workers.count(record, counted)?.median())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
