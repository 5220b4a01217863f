//! `@regressions`, beside a comparison of all pairs of boots.

use std::collections::BTreeMap;
use std::path::Path;

use kymo::vocabulary::{Syscall, SyscallEnter, SyscallExit};
use kymo_made::Made;
use kymo_sql::{Labels, Limits, Session, Store, Traces, Which};
use serde_json::Value;

use crate::made::Random;
use crate::ready::ask;

/// How often a boot makes each call.
const TIMES: u64 = 99;

/// A store of boots, in which each system call lasts as `lasts` says.
struct Boots(std::path::PathBuf);

impl Drop for Boots {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Boots {
    fn new(name: &str) -> Boots {
        let name = format!("kymo-sql-regressions-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Boots(path)
    }

    /// Adds a boot of a build; gives the median of each call, of those up to `calls`.
    fn add(
        &self,
        boot: &str,
        build: &str,
        calls: u32,
        lasts: &mut dyn FnMut(u32) -> u64,
    ) -> Vec<u64> {
        let (mut made, mut now) = (Made::new(&format!("regressions-{boot}")), 1);
        let mut durations = vec![Vec::new(); calls as usize];
        for _ in 0..TIMES {
            for (call, durations) in (0..calls).zip(&mut durations) {
                let (id, lasted) = (Syscall(call), lasts(call));
                made.event(0, now, SyscallEnter { id, arg0: 0 });
                made.event(0, now + lasted, SyscallExit { id, ret: 0 });
                durations.push(lasted);
                now += lasted + 10;
            }
        }
        let labels = Labels {
            host: Some("host".to_owned()),
            build: Some(build.to_owned()),
            boot: Some(boot.to_owned()),
            date: None,
        };
        let traces = Traces::open([made.finish()]).unwrap();
        let tables = ["syscalls", "interrupts", "lock_waits", "wakeups"].map(str::to_owned);
        let which = Which {
            tables: tables.to_vec(),
            replace: false,
        };
        Store::add(&self.0, &traces, &labels, &which, Limits::default()).unwrap();
        let median = |mut of: Vec<u64>| {
            of.sort_unstable();
            of[of.len() / 2]
        };
        durations.into_iter().map(median).collect()
    }

    fn compared(&self) -> Vec<Value> {
        let store = Store::open(&self.0).unwrap();
        let session = Session::of_store(&store, Limits::default()).unwrap();
        ask(
            &session,
            "regressions",
            &[("before", "old"), ("after", "new")],
        )
    }
}

/// The share of pairs in which the second is greater, and the normal approximation's p, with ties
/// and the correction for steps.
fn ranked(before: &[u64], after: &[u64]) -> (f64, f64) {
    let (n, m) = (before.len() as f64, after.len() as f64);
    let mut u = 0.0;
    for one in before {
        for other in after {
            u += match other.cmp(one) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
        }
    }
    let mut tied: BTreeMap<u64, f64> = BTreeMap::new();
    for value in before.iter().chain(after) {
        *tied.entry(*value).or_default() += 1.0;
    }
    let ties: f64 = tied.values().map(|t| t * t * t - t).sum();
    let variance = n * m / 12.0 * (n + m + 1.0 - ties / ((n + m) * (n + m - 1.0)));
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    let p = if variance > 0.0 {
        erfc(z / 2.0_f64.sqrt())
    } else {
        1.0
    };
    (u / (n * m), p)
}

/// The complementary error function, by its integral.
fn erfc(x: f64) -> f64 {
    let (steps, end) = (20_000, x + 8.0);
    let width = (end - x) / f64::from(steps);
    let middle = |step: i32| x + (f64::from(step) + 0.5) * width;
    let area: f64 = (0..steps)
        .map(|step| (-middle(step).powi(2)).exp() * width)
        .sum();
    2.0 / std::f64::consts::PI.sqrt() * area
}

#[test]
fn what_is_slower_is_found_and_noise_is_not() {
    const CALLS: u32 = 6;
    let (boots, mut random) = (Boots::new("found"), Random(17));
    let mut medians: [Vec<Vec<u64>>; 2] = [Vec::new(), Vec::new()];
    for (which, build, count) in [(0, "old", 7), (1, "new", 6)] {
        for boot in 0..count {
            // Boots differ from each other more than calls of a boot do.
            let mut own = Random(random.below(u64::MAX));
            let of_boot: Vec<u64> = (0..CALLS).map(|_| 1_000 + own.below(400)).collect();
            let mut lasts = |call: u32| {
                let slower = match (call, which) {
                    (2, 1) => 700,
                    (4, 0) => 900,
                    _ => 0,
                };
                // Call 5 has many equal medians.
                let level = if call == 5 {
                    1_000 + 100 * (boot % 2)
                } else {
                    of_boot[call as usize]
                };
                level + slower + own.below(5)
            };
            let of = boots.add(&format!("{build}-{boot}"), build, CALLS, &mut lasts);
            medians[which].push(of);
        }
    }
    let found = boots.compared();
    assert_eq!(found.len(), 2 * CALLS as usize, "{found:?}");
    let of = |name: u32, measure: &str| {
        let name = name.to_string();
        let mut rows = found.iter();
        rows.find(|row| row["name"] == *name && row["measure"] == measure)
            .unwrap()
    };
    for call in 0..CALLS {
        let row = of(call, "p50");
        let of_build = |which: usize| {
            let boots = medians[which].iter();
            boots.map(|of| of[call as usize]).collect::<Vec<u64>>()
        };
        let (greater, p) = ranked(&of_build(0), &of_build(1));
        assert_eq!(
            (&row["before_boots"], &row["after_boots"]),
            (&7.into(), &6.into())
        );
        assert!(
            (row["greater"].as_f64().unwrap() - greater).abs() < 1e-4,
            "{row}"
        );
        assert!((row["p"].as_f64().unwrap() - p).abs() < 1e-5, "{row}: {p}");
    }
    assert_eq!(of(2, "p50")["verdict"], "slower", "{found:?}");
    assert_eq!(of(4, "p50")["verdict"], "faster", "{found:?}");
    for noise in [0, 1, 3, 5] {
        assert_eq!(of(noise, "p50")["verdict"], "within noise", "{found:?}");
    }
    // By evidence, and those of the most evidence first.
    let q: Vec<f64> = found.iter().map(|row| row["q"].as_f64().unwrap()).collect();
    assert!(q.is_sorted(), "{q:?}");
    let mut p: Vec<f64> = found.iter().map(|row| row["p"].as_f64().unwrap()).collect();
    p.sort_by(f64::total_cmp);
    let mut least = 1.0_f64;
    let adjusted = p.iter().enumerate().rev().map(|(place, p)| {
        least = least.min(p * p_count(&q) / (place as f64 + 1.0));
        least
    });
    let mut adjusted: Vec<f64> = adjusted.collect();
    adjusted.reverse();
    let differ = |(one, other): (&f64, &f64)| (one - other).abs() > 1e-4;
    assert!(!q.iter().zip(&adjusted).any(differ), "{q:?} {adjusted:?}");
}

fn p_count(all: &[f64]) -> f64 {
    all.len() as f64
}

/// Three boots tell nothing, however much they differ.
#[test]
fn few_boots_are_no_evidence() {
    let boots = Boots::new("few");
    for boot in 0..3 {
        boots.add(&format!("old-{boot}"), "old", 1, &mut |_| 100);
        boots.add(&format!("new-{boot}"), "new", 1, &mut |_| 100_000);
    }
    let found = boots.compared();
    assert_eq!(found.len(), 2, "{found:?}");
    for row in &found {
        assert_eq!(row["verdict"], "too few boots");
        assert_eq!(row["before_ns"], 100.0);
        assert_eq!(row["after_ns"], 100_000.0);
        assert!(row["p"].is_null() && row["q"].is_null(), "{row}");
    }
}

/// Also at the prompt, where nobody is asked for what must be given.
#[test]
fn builds_must_be_those_of_the_store() {
    let boots = Boots::new("builds");
    boots.add("one", "old", 1, &mut |_| 100);
    let store = Store::open(&boots.0).unwrap();
    let session = Session::of_store(&store, Limits::default()).unwrap();
    let all = kymo_sql::questions();
    let question = all.iter().find(|of| of.name == "regressions").unwrap();
    let check = |before: &str, after: &str| {
        let values = [("before", before), ("after", after)];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
        session.check(question, &values)
    };
    check("old", "old").unwrap();
    let refused = check("old", "BUILD").unwrap_err().to_string();
    assert_eq!(refused, "after must be a build of the store, which has old");
}

/// It asks for labels that traces do not have.
#[test]
fn it_asks_a_store() {
    let mut made = Made::new("regressions-trace");
    let path = made.finish().to_owned();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kymo-query"));
    let output = command
        .arg(Path::new(&path))
        .arg("@regressions")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("asks a store"), "{said}");
}
