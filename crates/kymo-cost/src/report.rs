//! The report, as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::arguments::Function;
use crate::call::Sum;

/// One function's counts.
pub struct Counted<'a> {
    /// The function.
    pub function: &'a Function,
    /// Counts of all CPUs together.
    pub all: Sum,
    /// Counts by CPU, of those that executed any of it.
    pub cpus: Vec<(u32, Sum)>,
}

const QUANTITIES: [&str; 3] = ["instructions", "loads", "stores"];

/// The smallest value that at least `part` of 100 of the calls do not exceed.
fn percentile(histogram: &BTreeMap<u64, u64>, part: u64) -> Option<u64> {
    let calls: u64 = histogram.values().sum();
    let rank = (u128::from(calls) * u128::from(part)).div_ceil(100);
    let mut below = 0;
    histogram.iter().find_map(|(&value, &count)| {
        below += u128::from(count);
        (below >= rank).then_some(value)
    })
}

/// Minimum, median, 90th and 99th percentile and maximum; `None` without a call.
fn spread(histogram: &BTreeMap<u64, u64>) -> Option<[u64; 5]> {
    let (&min, &max) = (histogram.keys().next()?, histogram.keys().next_back()?);
    Some([
        min,
        percentile(histogram, 50)?,
        percentile(histogram, 90)?,
        percentile(histogram, 99)?,
        max,
    ])
}

/// The report as text, a few lines per function.
pub fn text(counted: &[Counted<'_>]) -> String {
    let mut out = String::new();
    for Counted {
        function,
        all,
        cpus,
    } in counted
    {
        out.push_str("kymo-cost:");
        if let Some(name) = &function.name {
            let _ = write!(out, " {name}");
        }
        for range in &function.ranges {
            let _ = write!(out, " {:#x}..{:#x}", range.start, range.end);
        }
        let [instructions, loads, stores] = all.totals;
        let _ = writeln!(
            out,
            "\n  {instructions} instructions, {loads} loads, {stores} stores, {} calls, on {} \
             CPU{}",
            all.calls,
            cpus.len(),
            if cpus.len() == 1 { "" } else { "s" }
        );
        let unmarked = all.unmarked[0].values().sum::<u64>();
        if unmarked > 0 {
            let _ = writeln!(
                out,
                "  {unmarked} of the calls executed no mark and are not in these figures:"
            );
        }
        for (quantity, histogram) in QUANTITIES.iter().zip(&all.per_call) {
            if let Some([min, median, p90, p99, max]) = spread(histogram) {
                let _ = writeln!(
                    out,
                    "  {quantity:12} per call: minimum {min}, median {median}, p90 {p90}, p99 {p99}, \
                     maximum {max}"
                );
            }
        }
        if all.outside > 0 {
            let _ = writeln!(out, "  {} instructions belong to no call", all.outside);
        }
        if all.unfinished > 0 {
            let _ = writeln!(out, "  {} calls did not end", all.unfinished);
        }
    }
    out
}

/// The report as one JSON object. Addresses are strings, as JSON numbers may not hold them exactly.
pub fn json(target: &str, api: i32, counted: &[Counted<'_>]) -> String {
    let mut out = String::from("{\"kymo_cost\":1,\"target\":");
    quoted(&mut out, target);
    let _ = write!(out, ",\"api\":{api},\"functions\":[");
    for (
        index,
        Counted {
            function,
            all,
            cpus,
        },
    ) in counted.iter().enumerate()
    {
        out.push_str(if index > 0 {
            ",\n{\"name\":"
        } else {
            "\n{\"name\":"
        });
        match &function.name {
            Some(name) => quoted(&mut out, name),
            None => out.push_str("null"),
        }
        let ranges: Vec<String> = function
            .ranges
            .iter()
            .map(|range| format!("[\"{:#x}\",\"{:#x}\"]", range.start, range.end))
            .collect();
        let entries: Vec<String> = function
            .entries
            .iter()
            .map(|entry| format!("\"{entry:#x}\""))
            .collect();
        let _ = write!(
            out,
            ",\"ranges\":[{}],\"entries\":[{}],",
            ranges.join(","),
            entries.join(",")
        );
        totals(&mut out, all);
        per_call(&mut out, &all.per_call);
        if function.has_marks() {
            let _ = write!(
                out,
                ",\"unmarked\":{{\"calls\":{}",
                all.unmarked[0].values().sum::<u64>()
            );
            per_call(&mut out, &all.unmarked);
            out.push('}');
        }
        out.push_str(",\"cpus\":[");
        for (index, (cpu, sum)) in cpus.iter().enumerate() {
            let _ = write!(out, "{}{{\"cpu\":{cpu},", if index > 0 { "," } else { "" });
            totals(&mut out, sum);
            out.push('}');
        }
        out.push_str("]}");
    }
    out.push_str("\n]}\n");
    out
}

fn per_call(out: &mut String, histograms: &[BTreeMap<u64, u64>; 3]) {
    out.push_str(",\"per_call\":{");
    for (index, (quantity, histogram)) in QUANTITIES.iter().zip(histograms).enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let pairs: Vec<String> = histogram
            .iter()
            .map(|(value, count)| format!("[{value},{count}]"))
            .collect();
        let _ = write!(out, "{comma}\"{quantity}\":{{");
        if let Some([min, median, p90, p99, max]) = spread(histogram) {
            let _ = write!(
                out,
                "\"min\":{min},\"median\":{median},\"p90\":{p90},\"p99\":{p99},\
                 \"max\":{max},"
            );
        }
        let _ = write!(out, "\"histogram\":[{}]}}", pairs.join(","));
    }
    out.push('}');
}

fn totals(out: &mut String, sum: &Sum) {
    let [instructions, loads, stores] = sum.totals;
    let (calls, outside, unfinished) = (sum.calls, sum.outside, sum.unfinished);
    let _ = write!(
        out,
        "\"calls\":{calls},\"instructions\":{instructions},\"loads\":{loads},\"stores\":{stores},\
         \"outside_calls\":{outside},\"unfinished\":{unfinished}"
    );
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Range;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let histogram = BTreeMap::from([(21, 89), (23, 9), (25, 1), (300, 1)]);
        assert_eq!(spread(&histogram), Some([21, 21, 23, 25, 300]));
        assert_eq!(
            spread(&BTreeMap::from([(1, 1), (2, 1)])),
            Some([1, 1, 2, 2, 2])
        );
        assert_eq!(spread(&BTreeMap::from([(7, 1)])), Some([7; 5]));
        assert_eq!(spread(&BTreeMap::new()), None);
    }

    #[test]
    fn the_report_in_both_forms() {
        let function = Function {
            name: Some("a \"b\"\n".to_owned()),
            ranges: vec![Range {
                start: 0x10,
                end: u64::MAX,
            }],
            entries: vec![0x10],
            tests: Vec::new(),
            marks: Vec::new(),
            callees: Vec::new(),
        };
        let sum = Sum {
            totals: [46, 10, 8],
            calls: 2,
            per_call: [
                BTreeMap::from([(23, 2)]),
                BTreeMap::from([(5, 2)]),
                BTreeMap::from([(4, 2)]),
            ],
            ..Sum::default()
        };
        let counted = [Counted {
            function: &function,
            all: sum.clone(),
            cpus: vec![(3, sum)],
        }];
        assert_eq!(
            json("riscv64", 1, &counted),
            "{\"kymo_cost\":1,\"target\":\"riscv64\",\"api\":1,\"functions\":[\n\
             {\"name\":\"a \\\"b\\\"\\u000a\",\"ranges\":[[\"0x10\",\"0xffffffffffffffff\"]],\"entries\":[\"0x10\"],\
             \"calls\":2,\"instructions\":46,\"loads\":10,\"stores\":8,\"outside_calls\":0,\"unfinished\":0,\"per_call\":{\
             \"instructions\":{\"min\":23,\"median\":23,\"p90\":23,\"p99\":23,\"max\":23,\"histogram\":[[23,2]]},\
             \"loads\":{\"min\":5,\"median\":5,\"p90\":5,\"p99\":5,\"max\":5,\"histogram\":[[5,2]]},\
             \"stores\":{\"min\":4,\"median\":4,\"p90\":4,\"p99\":4,\"max\":4,\"histogram\":[[4,2]]}},\
             \"cpus\":[{\"cpu\":3,\"calls\":2,\"instructions\":46,\"loads\":10,\"stores\":8,\"outside_calls\":0,\"unfinished\":0}]}\n]}\n"
        );
        let text = text(&counted);
        assert!(
            text.contains("46 instructions, 10 loads, 8 stores, 2 calls, on 1 CPU\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "instructions per call: minimum 23, median 23, p90 23, p99 23, maximum 23"
            ),
            "{text}"
        );
    }
}
