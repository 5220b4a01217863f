//! `kymo view`: the flame graph of a stretch, and what a condition leaves of it, are those of
//! `kymo flame` and `kymo report`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kymo::Text;
use kymo::vocabulary::{Irq, IrqEnter, IrqExit, SwitchReason, ThreadName, ThreadState, Tid};
use kymo_made::{MS, Made, US};
use serde_json::Value;

use crate::flame::{BASE, function, kernel, sample};
use crate::run::{kymo, printed};
use crate::view::{Random, View};

/// 900 samples of three threads on two CPUs, in two functions that call each other, beside switches
/// and interrupts.
fn made(name: &str) -> Made {
    let mut made = Made::with_samples(name);
    for (tid, name) in [(5, "reader"), (6, "writer"), (7, "other")] {
        let (tid, name) = (Tid(tid), Text::from(name));
        made.event(0, 0, ThreadName { tid, name });
    }
    let (outermost, _) = function("::outermost_function");
    let (innermost, _) = function("::innermost_function");
    let mut random = Random(3);
    let mut running = [0; 2];
    for round in 0..900 {
        let at = MS + round * 100 * US;
        let cpu = random.below(2) as u32;
        let addresses: Vec<u64> = (0..1 + random.below(4))
            .map(|_| BASE + [outermost, innermost][random.below(2) as usize] + 1)
            .collect();
        let tid = 5 + random.below(3) as u32;
        let last = std::mem::replace(&mut running[cpu as usize], tid);
        let how = (last, ThreadState::Runnable, SwitchReason::Expired);
        made.switch(cpu, at, how, (tid, 0));
        made.event(cpu, at + 1, sample(tid, &addresses[1..], addresses[0]));
        let irq = Irq(random.below(3) as u32);
        made.event(cpu, at + 10 * US, IrqEnter { irq });
        made.event(cpu, at + (11 + random.below(9)) * US, IrqExit { irq });
    }
    made
}

/// The lines of folded stacks that a tree of the page stands for.
fn folded(flame: &Value) -> BTreeMap<String, u64> {
    let mut lines = BTreeMap::new();
    let mut callers: Vec<String> = Vec::new();
    let mut sum = 0;
    for node in flame["tree"].as_array().unwrap() {
        let depth = node[0].as_u64().unwrap() as usize;
        callers.truncate(depth.saturating_sub(1));
        if depth > 0 {
            callers.push(node[1].as_str().unwrap().to_owned());
        }
        let own = node[3].as_u64().unwrap();
        sum += own;
        if own > 0 {
            *lines.entry(callers.join(";")).or_default() += own;
        }
    }
    assert_eq!(flame["total"], sum, "{flame}");
    assert_eq!(flame["tree"][0][4], sum);
    assert_eq!(flame["left_out"], serde_json::json!([0, 0]));
    lines
}

/// What `kymo flame` prints; nothing if it says that there is nothing.
fn of_command(more: &[&str], trace: &std::path::Path) -> BTreeMap<String, u64> {
    let kernel = kernel();
    let all = ["flame", "--format=folded", &kernel];
    let (_, text) = printed(&[&all, more].concat(), trace);
    let lines = text.lines().map(|line| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        (stack.to_owned(), count.parse().unwrap())
    });
    lines.collect()
}

type Dumped = (i64, Value, Value, Option<String>);

/// Time, name, CPU and interrupt of each event that `kymo dump` prints.
fn dumped(arguments: &[&str], trace: &std::path::Path) -> Vec<Dumped> {
    let (_, text) = printed(arguments, trace);
    let lines = text
        .lines()
        .map(|line| -> Value { serde_json::from_str(line).unwrap() });
    let events = lines.filter(|line| line["type"] == "event");
    let events = events.map(|line| {
        let irq = line["fields"].get("irq").map(Value::to_string);
        let at = line["time_ns"].as_i64().unwrap();
        (at, line["name"].clone(), line["cpu"].clone(), irq)
    });
    events.collect()
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kymo-view-{name}-{}", std::process::id()))
}

#[test]
fn the_flame_graph_of_a_stretch_is_that_of_the_command() {
    let mut made = made("view-flame");
    let trace = made.finish().to_owned();
    let index = folder("flame");
    let view = View::with(&[&kernel()], &trace, &index);
    let span = view.whole()["span_ns"].as_u64().unwrap();
    let mut random = Random(5);
    let mut samples = 0;
    for turn in 0..12 {
        let from = random.below(span);
        let to = from + random.below(span / 2);
        let (first, last) = (format!("@{from}"), format!("@{to}"));
        let (cpu, tid) = (
            random.below(2).to_string(),
            (5 + random.below(3)).to_string(),
        );
        let (query, more) = match turn % 4 {
            0 => (String::new(), vec![]),
            1 => (format!("&cpu={cpu}"), vec!["--cpu", &*cpu]),
            2 => (format!("&thread={tid}"), vec!["--tid", &*tid]),
            _ => {
                let where_ = vec!["--where", "on_cpu = 1, tid = 5"];
                ("&where=on_cpu+%3D+1,tid+%3D+5".to_owned(), where_)
            }
        };
        let shown = view.get(&format!("api/flame?from={from}&to={to}{query}"));
        let wanted = of_command(
            &[&["--from", &first, "--to", &last], &more[..]].concat(),
            &trace,
        );
        let found = folded(&shown);
        assert_eq!(found, wanted, "{from} to {to}{query}");
        samples += found.values().sum::<u64>();
    }
    assert!(samples > 500, "{samples}");
    let all = view.get(&format!("api/flame?from=0&to={span}"));
    assert_eq!(
        all["account"][0],
        "900 samples kept; none missed; none lost."
    );
    let sum = |of: &str, place: usize| -> u64 {
        let list = all[of].as_array().unwrap().iter();
        list.map(|one| one[place].as_u64().unwrap()).sum()
    };
    assert_eq!([sum("cpus", 1), sum("threads", 2)], [900, 900]);
    drop(view);
    std::fs::remove_dir_all(&index).unwrap();
}

#[test]
fn a_condition_leaves_what_the_command_leaves() {
    let mut made = made("view-where");
    let trace = made.finish().to_owned();
    let index = folder("where");
    let view = View::new(&trace, &index);
    let about = view.whole();
    let span = about["span_ns"].as_u64().unwrap();
    let encoded =
        |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02x}")).collect() };
    let mut random = Random(8);
    for condition in ["irq = [0, 2]", "on_cpu = 1", "in_thread = \"writer\""] {
        let from = random.below(span / 2);
        let to = from + random.below(span / 2);
        let (first, last) = (format!("@{from}"), format!("@{to}"));
        let arguments = ["report", "--json", "--from", &first, "--to", &last];
        let output = kymo(&[&arguments[..], &["--where", condition]].concat(), &trace);
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(printed["events"].as_u64() > Some(20), "{printed}");
        let query = format!("from={from}&to={to}&where={}", encoded(condition));
        let mut shown = view.get(&format!("api/report?{query}"));
        shown.as_object_mut().unwrap().remove("worst").unwrap();
        assert_eq!(shown, printed, "{condition}");
        let diff = view.get(&format!("api/diff?{query}&other_from=0&other_to={span}"));
        assert_eq!(diff["events"]["before"], printed["events"]);
        let listed = view.get(&format!("api/events?{query}"));
        assert_eq!(listed["count"], printed["events"]);
        let arguments = ["dump", "--json", "--from", &first, "--to", &last];
        let dumped = dumped(&[&arguments[..], &["--where", condition]].concat(), &trace);
        let begin: i64 = about["begin_ns"].as_str().unwrap().parse().unwrap();
        let shown = listed["events"].as_array().unwrap().iter().map(|event| {
            let irq = event["fields"].as_array().unwrap().iter();
            let irq = irq.clone().find(|field| field[0] == "irq");
            let at = event["at_ns"].as_i64().unwrap() + begin;
            let irq = irq.map(|field| field[1].as_str().unwrap().to_owned());
            (at, event["name"].clone(), event["cpu"].clone(), irq)
        });
        let shown: Vec<_> = shown.collect();
        let count = dumped.len().min(50);
        assert_eq!(shown, dumped[..count], "{condition}");
    }
    for wrong in ["irq", "irqs = 5", "irq = 5 6", "is = \"nothing\""] {
        let output = kymo(&["report", "--where", wrong], &trace);
        let said = String::from_utf8(output.stderr).unwrap();
        for what in ["report", "flame"] {
            let query = format!("api/{what}?from=0&to={span}&where={}", encoded(wrong));
            let (head, body) = view.ask(&query);
            assert!(head.starts_with("HTTP/1.1 400"), "{wrong}: {head}");
            assert_eq!(format!("kymo: {}", body.trim()), said.trim(), "{wrong}");
        }
    }
    drop(view);
    std::fs::remove_dir_all(&index).unwrap();
}
