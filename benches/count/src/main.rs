//! How long the reading of a group takes, by kymo-perf and by perf-event2, side by side: the same
//! events, in turns, so that what else the machine does hits both.
//!
//! A reading is one system call for both; what differs is what is done with the answer. Kymo looks
//! for each event's count by its id, and scales it.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use kymo::count::{EventSpec, GroupSpec, Software};
use kymo_perf::{Group, Options, SlotLimit, Target};
use perf_event::{Builder, Counter, ReadFormat, events};

/// Readings of a round, and rounds, of which the fastest half counts.
const READINGS: u32 = 20_000;
const ROUNDS: usize = 30;

fn main() -> Result<()> {
    println!("events  kymo-perf  perf-event2  ratio    (ns a reading, mean of the faster rounds)");
    for events in [1, 4, 16] {
        let mut kymo = kymo_group(events)?;
        let (mut other, counters) = other_group(events)?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            ours.push(time(|| read_kymo(&mut kymo))?);
            theirs.push(time(|| read_other(&mut other, &counters))?);
        }
        let (ours, theirs) = (faster_half(ours), faster_half(theirs));
        let ratio = ours / theirs;
        println!("{events:>6}  {ours:>9.0}  {theirs:>11.0}  {ratio:>5.2}");
    }
    Ok(())
}

fn kymo_group(events: usize) -> Result<Group> {
    let events = vec![EventSpec::software(Software::PageFaults); events];
    let limit = SlotLimit::of_machine()?;
    let mut group = Group::open(
        Target::SELF,
        &GroupSpec::new(&events)?,
        Options::default(),
        limit,
    )?;
    group.start()?;
    Ok(group)
}

/// All counts, scaled.
fn read_kymo(group: &mut Group) -> Result<u64> {
    let counts = group.read_all()?;
    Ok(counts
        .members()
        .iter()
        .filter_map(|member| member.scaled)
        .sum())
}

fn other_group(events: usize) -> Result<(perf_event::Group, Vec<Counter>)> {
    let mut builder = Builder::new(events::Software::PAGE_FAULTS);
    builder.exclude_kernel(false).read_format(
        ReadFormat::GROUP
            | ReadFormat::ID
            | ReadFormat::TOTAL_TIME_ENABLED
            | ReadFormat::TOTAL_TIME_RUNNING,
    );
    let mut group = builder
        .build_group()
        .context("perf-event2 cannot open a group")?;
    let members = (1..events).map(|_| group.add(&builder));
    let members = members.collect::<std::io::Result<Vec<Counter>>>()?;
    group.enable()?;
    Ok((group, members))
}

/// All counts, and the times that it takes to scale them.
fn read_other(group: &mut perf_event::Group, members: &[Counter]) -> Result<u64> {
    let counts = group.read()?;
    let times = (counts.time_enabled(), counts.time_running());
    let leader = counts[group.as_counter()];
    let sum: u64 = members.iter().map(|member| counts[member]).sum();
    black_box(times);
    Ok(leader + sum)
}

/// Nanoseconds of a reading.
fn time(mut read: impl FnMut() -> Result<u64>) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..READINGS {
        black_box(read()?);
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(READINGS))
}

fn faster_half(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    let faster = rounds.get(..rounds.len() / 2).unwrap_or_default();
    faster.iter().sum::<f64>() / faster.len().max(1) as f64
}
