//! Random conditions and groups, beside loops over the same events.

use std::collections::BTreeMap;

use kymo_ctf::{ItemRef, Trace};
use kymo_machine::Machine;
use serde_json::Value;

use crate::made::{Random, busy, rows, session};

pub struct Row {
    pub ns: i64,
    pub cpu: i64,
    pub name: String,
    pub stream: String,
    pub tid: Option<u64>,
}

pub fn all(path: &std::path::Path) -> Vec<Row> {
    let trace = Trace::open(path).unwrap();
    let (map, mut machine, mut all) = (trace.map(), Machine::new(), Vec::new());
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        let ran = match &item {
            ItemRef::Event(event) => machine.running(event.cpu().unwrap()),
            _ => None,
        };
        let tid = ran.map(|ran| machine.thread(ran).unwrap().tid);
        machine.add(&item);
        if let ItemRef::Event(event) = &item {
            all.push(Row {
                ns: event.nanos().unwrap() as i64,
                cpu: event.cpu().unwrap() as i64,
                name: event.name().to_owned(),
                stream: event.stream().to_string(),
                tid,
            });
        }
    }
    all
}

type Holds = Box<dyn Fn(&Row) -> bool>;

/// A condition as SQL and as a function.
fn condition(random: &mut Random, rows: &[Row], depth: u32) -> (String, Holds) {
    let of = random.pick(rows);
    let (ns, cpu, tid) = (of.ns, of.cpu, of.tid.unwrap_or(1));
    let (name, stream) = (of.name.clone(), of.stream.clone());
    match random.below(if depth > 0 { 13 } else { 10 }) {
        0 => (format!("ns >= {ns}"), Box::new(move |row| row.ns >= ns)),
        1 => (format!("ns < {ns}"), Box::new(move |row| row.ns < ns)),
        2 => (format!("{ns} < ns"), Box::new(move |row| ns < row.ns)),
        3 => {
            let (from, to) = (
                ns.min(rows[rows.len() / 2].ns),
                ns.max(rows[rows.len() / 2].ns),
            );
            let sql = format!("ns between {from} and {to}");
            (sql, Box::new(move |row| row.ns >= from && row.ns <= to))
        }
        4 => (format!("cpu = {cpu}"), Box::new(move |row| row.cpu == cpu)),
        5 => {
            let sql = format!("cpu in ({cpu}, 7)");
            (sql, Box::new(move |row| row.cpu == cpu || row.cpu == 7))
        }
        6 => (
            format!("name = '{name}'"),
            Box::new(move |row| row.name == name),
        ),
        7 => {
            let start = name[..3].to_owned();
            let sql = format!("name not like '{start}%'");
            (sql, Box::new(move |row| !row.name.starts_with(&start)))
        }
        8 => (
            format!("stream = '{stream}'"),
            Box::new(move |row| row.stream == stream),
        ),
        // Of what is null, no comparison holds.
        9 => (
            format!("tid = {tid}"),
            Box::new(move |row| row.tid == Some(tid)),
        ),
        10 => {
            let (one, other) = (
                condition(random, rows, depth - 1),
                condition(random, rows, 0),
            );
            let sql = format!("({} or {})", one.0, other.0);
            (sql, Box::new(move |row| one.1(row) || other.1(row)))
        }
        11 => {
            let (one, other) = (
                condition(random, rows, depth - 1),
                condition(random, rows, 0),
            );
            let sql = format!("({} and {})", one.0, other.0);
            (sql, Box::new(move |row| one.1(row) && other.1(row)))
        }
        _ => {
            let sql = format!("(ns % 3 = 0 and name <> '{name}')");
            (
                sql,
                Box::new(move |row| row.ns % 3 == 0 && row.name != name),
            )
        }
    }
}

#[test]
fn random_conditions_and_groups_are_those_of_a_loop() {
    let mut made = busy("random", 1, 400);
    let path = made.finish().to_owned();
    let (all, session) = (all(&path), session(&[&path]));
    assert!(all.len() > 1_000);
    let mut random = Random(18);
    for _ in 0..1_000 {
        let conditions = 1 + random.below(3);
        let conditions: Vec<_> = (0..conditions)
            .map(|_| condition(&mut random, &all, 2))
            .collect();
        let wheres: Vec<&str> = conditions.iter().map(|(sql, _)| sql.as_str()).collect();
        let column = *random.pick(&["name", "cpu", "stream", "tid"]);
        let sql = format!(
            "select {column} as key, count(*) as n, min(ns) as low, sum(ns) as total from events \
             where {} group by {column}",
            wheres.join(" and ")
        );
        let mut wanted: BTreeMap<String, (i64, i64, i64)> = BTreeMap::new();
        for row in all
            .iter()
            .filter(|row| conditions.iter().all(|(_, holds)| holds(row)))
        {
            let key = match column {
                "name" => Value::from(row.name.as_str()),
                "cpu" => Value::from(row.cpu),
                "stream" => Value::from(row.stream.as_str()),
                _ => Value::from(row.tid),
            };
            let group = wanted.entry(key.to_string()).or_insert((0, i64::MAX, 0));
            *group = (group.0 + 1, group.1.min(row.ns), group.2 + row.ns);
        }
        let found = rows(&session, &sql).unwrap().into_iter().map(|row| {
            let number = |name: &str| row[name].as_i64().unwrap();
            (
                row["key"].to_string(),
                (number("n"), number("low"), number("total")),
            )
        });
        let found: BTreeMap<_, _> = found.collect();
        assert_eq!(found, wanted, "{sql}");
    }
}

#[test]
fn fields_are_those_of_the_event() {
    let mut made = busy("fields", 2, 300);
    let path = made.finish().to_owned();
    let session = session(&[&path]);
    let trace = Trace::open(&path).unwrap();
    let (map, mut wanted) = (trace.map(), Vec::new());
    let mut reader = map.read();
    while let Some(item) = reader.next() {
        if let ItemRef::Event(event) = &item
            && event.name() == "sched_switch"
        {
            let number = |name| event.field(name).unwrap().as_u64().unwrap();
            let ns = event.nanos().unwrap() as u64;
            wanted.push([
                ns,
                event.cpu().unwrap(),
                number("prev_tid"),
                number("next_tid"),
            ]);
        }
    }
    wanted.sort_unstable();
    let sql = "select next_tid, ns, cpu, prev_tid from sched_switch order by ns, cpu";
    let found = rows(&session, sql)
        .unwrap()
        .into_iter()
        .map(|row| ["ns", "cpu", "prev_tid", "next_tid"].map(|name| row[name].as_u64().unwrap()));
    assert_eq!(found.collect::<Vec<_>>(), wanted);
    // A difference may be negative.
    let sql = "select min(prev_tid - next_tid) as least from sched_switch";
    let least = wanted.iter().map(|row| row[2] as i64 - row[3] as i64).min();
    assert_eq!(rows(&session, sql).unwrap()[0]["least"].as_i64(), least);
    // The column `fields` has them as JSON, with an enumeration's value by its label.
    let sql = "select fields from events where name = 'lock_wait' limit 1";
    let fields = rows(&session, sql).unwrap()[0]["fields"]
        .as_str()
        .unwrap()
        .to_owned();
    let fields: Value = serde_json::from_str(&fields).unwrap();
    assert_eq!(fields["kind"], "Mutex");
}

#[test]
fn several_traces_are_told_apart() {
    let (mut one, mut other) = (busy("one", 3, 50), busy("other", 4, 100));
    let (one, other) = (one.finish().to_owned(), other.finish().to_owned());
    let session = session(&[&one, &other]);
    let sql = "select trace, count(*) as n from events group by trace";
    let found = rows(&session, sql).unwrap().into_iter();
    let found: BTreeMap<String, u64> = found
        .map(|row| {
            (
                row["trace"].as_str().unwrap().to_owned(),
                row["n"].as_u64().unwrap(),
            )
        })
        .collect();
    for path in [&one, &other] {
        assert_eq!(found[&path.display().to_string()], all(path).len() as u64);
    }
    let sql = format!(
        "select count(*) as n from slices where trace = '{}'",
        one.display()
    );
    let alone = "select count(*) as n from slices";
    let of_one = crate::made::session(&[&one]);
    assert_eq!(rows(&session, &sql).unwrap(), rows(&of_one, alone).unwrap());
}

/// Percentiles lie between the two values beside their place, in proportion.
#[test]
fn percentiles_are_those_of_sorted_values() {
    let mut made = busy("percentiles", 5, 300);
    let path = made.finish().to_owned();
    let session = session(&[&path]);
    let sql = "select number, duration_ns from syscalls order by number, duration_ns";
    let mut lasted: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for row in rows(&session, sql).unwrap() {
        let [number, ns] = ["number", "duration_ns"].map(|name| row[name].as_u64().unwrap());
        lasted.entry(number).or_default().push(ns);
    }
    assert!(lasted.len() > 1);
    for share in [0.0, 0.1, 0.5, 0.99, 1.0] {
        let sql = format!(
            "select number, percentile(duration_ns, {share}) as at from syscalls group by number"
        );
        let found: BTreeMap<u64, f64> = rows(&session, &sql)
            .unwrap()
            .iter()
            .map(|row| (row["number"].as_u64().unwrap(), row["at"].as_f64().unwrap()))
            .collect();
        assert_eq!(found.len(), lasted.len());
        for (number, values) in &lasted {
            let place = share * (values.len() - 1) as f64;
            let (below, above) = (
                values[place.floor() as usize],
                values[place.ceil() as usize],
            );
            let wanted = below as f64 + place.fract() * (above - below) as f64;
            // The type of the column may be that of the values: then the fraction is cut.
            assert!(
                (found[number] - wanted).abs() < 1.0,
                "{share} of {number}: {}, not {wanted}",
                found[number]
            );
        }
    }
}
