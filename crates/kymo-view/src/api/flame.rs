//! Where the time of a stretch goes, by its samples, as `kymo flame` draws it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use kymo_ctf::{ItemRef, Trace};
use kymo_profile::{
    Branch, Chains, Chosen as OfKinds, Collector, Kind, Options, Profile, Row, Unwind,
};
use serde::Serialize;

use super::chosen::Chosen;
use super::{Refused, Seen, json, refused, time};
use crate::view::Code;

/// Most functions of a tree.
const MOST: usize = 2_000;
/// The share below which a function is folded first, if there are too many.
const LEAST: f64 = 0.0002;
/// Most threads that are listed.
const MOST_THREADS: usize = 200;
/// What a request may say.
const WORDS: [&str; 5] = ["from", "to", "where", "cpu", "thread"];
/// The status if a file of code cannot be used.
pub(super) const NO_CODE: u16 = 500;
/// Category of the samples in the timeline.
const CATEGORY: &str = "sample";

/// Knows the code of the traced machine: names for what its samples have as addresses.
pub trait Symbols: fmt::Debug + Send + Sync {
    /// Finds the callers of samples whose stacks were copied; `None` if there are no files for it.
    fn unwind(&self) -> Option<Box<Unwind<'_>>>;

    /// Looks up the functions of all chains. The sentences say what has no names, or may have wrong
    /// ones.
    ///
    /// # Errors
    /// A sentence, if a file cannot be used that the user has named.
    fn symbolize(&self, trace: &Trace, chains: Chains) -> Result<(Profile, Vec<String>), String>;

    /// What is in a profile and what is not, as a sentence.
    fn account(&self, profile: &Profile) -> String;
}

/// How many callers a function has, its name, the image that it is in, and the weight of itself and
/// with what it calls.
type Function = (usize, Arc<str>, Arc<str>, u64, u64);

/// A tree of functions, and what is not in it.
#[derive(Serialize)]
pub(super) struct Flame {
    /// Samples in the tree, or how much of the unit.
    total: u64,
    unit: &'static str,
    /// What is and is not among them: sentences.
    pub(super) account: Vec<String>,
    /// Each function before those that it calls. The first one stands for everything.
    tree: Vec<Function>,
    /// Functions that are left out of the tree, with all that they call, and their weight: they are
    /// too many.
    left_out: (usize, u64),
    /// CPUs and threads with their weights: what `cpu` and `thread` can choose.
    cpus: Vec<(u32, u64)>,
    /// Number, name and weight; the number is a text, because it may be beyond 2^53.
    threads: Vec<(String, String, u64)>,
    more_threads: usize,
}

impl Seen {
    /// The tree of the functions in a stretch of time, of one CPU or thread or of all.
    pub(super) fn flame(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        if let Some(word) = query.keys().find(|word| !WORDS.contains(word)) {
            let sentence = format!("{word} chooses no samples; cpu and thread do");
            return Err(refused(&sentence));
        }
        let time = time(&self.index, query)?;
        let number = |name: &str| {
            let value = query.get(name).map(|value| value.parse::<u64>());
            value
                .transpose()
                .map_err(|_| refused(&format!("{name} is a number from 0 on")))
        };
        let (cpu, thread) = (number("cpu")?, number("thread")?);
        json(&self.flame_of(|| self.chosen(&time, query), cpu, thread)?)
    }

    /// The tree of the functions in what `chosen` chooses, which may be read twice.
    pub(super) fn flame_of(
        &self,
        chosen: impl Fn() -> Result<Chosen, Refused>,
        cpu: Option<u64>,
        thread: Option<u64>,
    ) -> Result<Flame, Refused> {
        let code = self.source.code().map_err(|sentence| (NO_CODE, sentence))?;
        let (mut profile, said) = self.profile(&code, chosen)?;
        let (cpus, threads) = weights(&profile);
        let rows = std::mem::take(&mut profile.rows);
        let is_wanted = |row: &Row| {
            let of_thread = || profile.thread(row).map(|thread| thread.tid);
            cpu.is_none_or(|cpu| row.cpu.map(u64::from) == Some(cpu))
                && thread.is_none_or(|tid| of_thread() == Some(tid))
        };
        profile.rows = rows.into_iter().filter(is_wanted).collect();
        let mut account = vec![code.symbols().account(&profile)];
        account.extend(said);
        let names = self.index.registry().names();
        let has_samples = names.iter().any(|name| name.category == CATEGORY);
        if profile.totals.kept == 0 && !has_samples {
            let sentence =
                "The trace has no samples so far: kymo record --mode sample records them.";
            account = vec![sentence.to_owned()];
        }
        let branches = tree(&profile);
        let left_out = branches.iter().filter_map(|branch| branch.folded);
        let left_out = left_out.fold((0, 0), |(count, total), folded| {
            (count + folded.count, total + folded.total.weight)
        });
        Ok(Flame {
            total: profile.weight(),
            unit: profile.unit.label(),
            account,
            tree: branches
                .into_iter()
                .map(|branch| shown(&profile, branch))
                .collect(),
            left_out,
            cpus,
            more_threads: threads.len().saturating_sub(MOST_THREADS),
            threads: threads.into_iter().take(MOST_THREADS).collect(),
        })
    }

    /// The samples of what `chosen` chooses, of one kind, and what is to be said of their names.
    fn profile(
        &self,
        code: &Code<'_>,
        chosen: impl Fn() -> Result<Chosen, Refused>,
    ) -> Result<(Profile, Vec<String>), Refused> {
        let mut collector = self.collected(code, chosen()?, |_| true);
        let mut others = None;
        match Kind::choose(collector.kinds()) {
            OfKinds::All => {}
            OfKinds::Only(kind) => {
                let name = Arc::clone(&kind.name);
                others = Some(format!(
                    "Shown is {name}; samples of other events are left out: {}.",
                    Kind::others(collector.kinds(), &name)
                ));
                let is_meant = |item: &ItemRef<'_>| match item {
                    ItemRef::Event(event) => event.name() == &*name,
                    _ => true,
                };
                collector = self.collected(code, chosen()?, is_meant);
            }
            OfKinds::Unclear => {
                let names = collector.kinds().iter().map(|kind| kind.name.to_string());
                let names: Vec<String> = names.collect();
                let sentence = format!(
                    "The samples are of several events, which count different things: {}. Choose \
                     one by the filter, such as is = \"{}\".",
                    names.join(", "),
                    names.first().map_or("", String::as_str)
                );
                return Err((400, sentence));
            }
        }
        let found = code.symbols().symbolize(code.trace(), collector.finish());
        let (profile, said) = found.map_err(|sentence| (NO_CODE, sentence))?;
        Ok((profile, others.into_iter().chain(said).collect()))
    }

    fn collected<'c>(
        &self,
        code: &'c Code<'_>,
        mut chosen: Chosen,
        is_meant: impl Fn(&ItemRef<'_>) -> bool,
    ) -> Collector<'c> {
        let collector = Collector::new(Options::default());
        let mut collector = collector.unwinding(code.symbols().unwind());
        chosen.read(self.map(), |item, is_chosen| {
            collector.add(item, is_chosen && is_meant(item));
        });
        collector
    }
}

/// The tree, with as few functions folded as it must.
fn tree(profile: &Profile) -> Vec<Branch> {
    let mut least = 0.0;
    loop {
        let branches = profile.call_tree(least);
        // Nothing has a larger share than all.
        if branches.len() <= MOST || least > 1.0 {
            return branches;
        }
        least = (2.0 * least).max(LEAST);
    }
}

fn shown(profile: &Profile, branch: Branch) -> Function {
    let image = branch.image.and_then(|id| profile.images.get(id.index()));
    let image = image.map_or_else(|| Arc::from(""), |image| Arc::clone(&image.name));
    let (own, total) = (branch.own.weight, branch.total.weight);
    (branch.depth, branch.function, image, own, total)
}

type Weights = (Vec<(u32, u64)>, Vec<(String, String, u64)>);

/// The weights of CPUs, by number, and of threads, the greatest first.
fn weights(profile: &Profile) -> Weights {
    let mut cpus: BTreeMap<u32, u64> = BTreeMap::new();
    let mut threads: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    for row in &profile.rows {
        if let Some(cpu) = row.cpu {
            *cpus.entry(cpu).or_default() += row.weight;
        }
        if let Some(thread) = profile.thread(row) {
            let entry = threads.entry(thread.tid);
            entry.or_insert_with(|| (thread.label(), 0)).1 += row.weight;
        }
    }
    let mut threads: Vec<_> = threads
        .into_iter()
        .map(|(tid, (label, weight))| (tid.to_string(), label, weight))
        .collect();
    threads.sort_by_key(|(_, _, weight)| std::cmp::Reverse(*weight));
    (cpus.into_iter().collect(), threads)
}

/// Knows no code: functions are shown as addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoSymbols;

impl Symbols for NoSymbols {
    fn unwind(&self) -> Option<Box<Unwind<'_>>> {
        None
    }

    fn symbolize(&self, _: &Trace, chains: Chains) -> Result<(Profile, Vec<String>), String> {
        let profile = chains.symbolize(|_| None::<kymo_profile::LoadedFile<'_, '_>>);
        Ok((profile, Vec::new()))
    }

    fn account(&self, profile: &Profile) -> String {
        format!("{} samples.", profile.totals.kept)
    }
}
