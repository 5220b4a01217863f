//! Slices whose times are known: worst cases, arrows and addresses.

use serde_json::Value;

use crate::{Site, status};

fn json(site: &Site, query: &str) -> Value {
    let (head, body) = site.get(&format!("api/{query}"));
    assert_eq!(status(&head), 200, "{query}: {head}");
    serde_json::from_slice(&body).unwrap()
}

/// The longest case of each kind lasts as long as the report says, and its slice is found.
#[test]
fn worst_cases_are_the_reports_and_have_slices() {
    let site = Site::new();
    let span = json(&site, "trace")["span_ns"].as_u64().unwrap();
    let report = json(&site, &format!("report?from=0&to={span}"));
    let cases = report["worst"].as_array().unwrap();
    let longest = |kind: &str| {
        let case = cases.iter().find(|case| case["kind"] == kind).unwrap();
        let [begin, end] = ["begin_ns", "end_ns"].map(|name| case[name].as_u64().unwrap());
        (case, begin, end)
    };
    for (kind, most, name) in [
        (
            "interrupt",
            &report["interrupts"][0]["durations"]["max_ns"],
            "irq 7",
        ),
        (
            "wake-up latency",
            &report["wake_latency"]["worst"][0]["latency_ns"],
            "runnable",
        ),
    ] {
        let (case, begin, end) = longest(kind);
        assert_eq!(Some(end - begin), most.as_u64(), "{case}");
        let mut query = format!("find?from={begin}&to={end}");
        query += &format!("&category={}", case["category"].as_str().unwrap());
        if let Some(tid) = case["tid"].as_u64() {
            query += &format!("&tid={tid}");
        }
        let found = json(&site, &query);
        assert_eq!(
            (&found["begin_ns"], &found["end_ns"]),
            (&case["begin_ns"], &case["end_ns"])
        );
        assert_eq!(found["name"], name, "{case}");
        // By its row too, also with times that are a little off.
        let row = &found["row"];
        for (from, to) in [(begin, end), (begin + 1, end - 1)] {
            let again = json(&site, &format!("find?row={row}&from={from}&to={to}"));
            assert_eq!(again, found);
        }
        if kind == "wake-up latency" {
            let arrows = json(&site, &format!("arrows?row={row}&from={begin}&to={end}"));
            let to = arrows["arrows"][0]["to_ns"].as_u64();
            assert_eq!((to, &arrows["is_whole"]), (Some(begin), &Value::Bool(true)));
            assert_eq!(arrows["arrows"][0]["name"], "wakes worker", "{arrows}");
        }
        let none = format!("find?from={begin}&to={}&category=irq", end + 1);
        assert_eq!(json(&site, &none), Value::Null);
    }
}

/// Two stretches have the counts of their reports; one compared with itself has no difference.
#[test]
fn stretches_are_compared() {
    let site = Site::new();
    let [before, after] = ["from=0&to=3000000", "from=2000000&to=9000000"].map(|time| {
        let report = json(&site, &format!("report?{time}"));
        report["events"].as_u64().unwrap()
    });
    assert!(before < after);
    let time = "from=0&to=3000000&other_from=2000000&other_to=9000000";
    let diff = json(&site, &format!("diff?{time}"));
    let events = |name: &str| diff["events"][name].as_u64();
    assert_eq!(
        [events("before"), events("after")],
        [Some(before), Some(after)]
    );
    let time = "from=1000000&to=9000000&other_from=1000000&other_to=9000000";
    let diff = json(&site, &format!("diff?{time}"));
    assert_eq!(diff["events"]["before"], diff["events"]["after"]);
    let names = |name: &str| diff[name].as_array().unwrap().len();
    assert!(names("threads") > 0 && names("interrupts") == 1, "{diff}");
    for member in ["threads", "interrupts"] {
        for row in diff[member].as_array().unwrap() {
            let says = &row["counts_test"]["difference"];
            assert!(says == "noise" || says == "too_few", "{row}");
        }
    }
}

#[test]
fn what_lacks_something_is_refused() {
    let site = Site::new();
    for query in [
        "find?from=0&to=1",
        "find?from=0&to=1&row=99999999999",
        "find?from=2&to=1&row=0",
        "arrows?from=0&to=1",
        "arrows?from=0&to=1&row=4000000000",
        "diff?from=0&to=1",
        "diff?from=0&to=1&other_from=1&other_to=0",
    ] {
        let (head, body) = site.get(&format!("api/{query}"));
        assert_eq!(status(&head), 400, "{query}: {head}");
        let body = String::from_utf8(body).unwrap();
        assert_eq!(body.lines().count(), 1, "{query}: {body}");
    }
}

/// A thread sleeps until an interrupt wakes it, and then waits while another one runs.
#[test]
fn who_held_a_thread_up_is_said() {
    let site = Site::new();
    let trace = json(&site, "trace");
    let track = |name: &str| {
        let mut tracks = trace["tracks"].as_array().unwrap().iter();
        let is_it = |track: &&Value| {
            track["name"]
                .as_str()
                .is_some_and(|is| is.starts_with(name))
        };
        tracks.find(is_it).unwrap()["id"].clone()
    };
    let worker = track("worker");
    let row = |of: &Value| {
        let mut rows = trace["rows"].as_array().unwrap().iter();
        rows.position(|row| row["track"] == *of).unwrap()
    };
    let mut states = trace["tracks"].as_array().unwrap().iter();
    let state = states.find(|track| track["name"] == "state" && track["parent"] == worker);
    let state = row(&state.unwrap()["id"]);
    let path = json(&site, &format!("why?row={state}&from=1000000&to=1100000"));
    let segments = path["segments"].as_array().unwrap().iter();
    let told: Vec<String> = segments
        .map(|one| {
            assert_eq!(one["track"], worker, "{one}");
            let [from, to] = ["from_ns", "to_ns"].map(|name| one[name].as_u64().unwrap());
            let [who, says] = ["who", "says"].map(|name| one[name].as_str().unwrap());
            format!("{} {} {who} {says}", from / 1000, to / 1000)
        })
        .collect();
    assert_eq!(
        told,
        [
            "1000 1040 interrupt 7 worker (5) is blocked until it happens",
            "1040 1045 interrupt 7 wakes worker (5)",
            "1045 1050 interrupt 7 runs while worker (5) is runnable",
            "1050 1100 </script> (6) runs while worker (5) is runnable",
        ]
    );
    assert_eq!(
        path["by_who"],
        serde_json::json!([["interrupt 7", 50_000, 3], ["</script> (6)", 50_000, 1]])
    );
    assert_eq!(
        (&path["is_whole"], &path["losses"]),
        (&Value::Bool(true), &Value::from(0))
    );

    // A CPU is no thread, and there are no others.
    let cpu = row(&track("CPU 0"));
    for refused in [
        format!("why?row={cpu}&from=0&to=1"),
        "why?row=99999&from=0&to=1".to_owned(),
    ] {
        let (head, _) = site.get(&format!("api/{refused}"));
        assert_eq!(status(&head), 400, "{refused}: {head}");
    }
}
