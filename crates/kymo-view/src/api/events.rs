//! The events of a stretch of time that fit a condition.

use std::collections::HashMap;

use kymo_ctf::ItemRef;
use kymo_machine::Machine;
use kymo_timeline::Fields;
use serde::Serialize;

use super::{Refused, Seen, first, json, time};

/// Most events that are listed.
const MOST: usize = 50;

#[derive(Serialize)]
struct Listed {
    /// The first of them.
    events: Vec<Event>,
    /// How many there are.
    count: u64,
}

#[derive(Serialize)]
struct Event {
    /// Its time in nanoseconds since the first event; `None` if it has none.
    at_ns: Option<i64>,
    name: String,
    cpu: Option<u64>,
    /// What ran on that CPU.
    thread: Option<String>,
    /// Names and values.
    fields: Vec<(String, String)>,
}

impl Seen {
    /// The first events, and the number of all.
    pub(super) fn events(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let begin = first(&self.index);
        let mut chosen = self.chosen(&time(&self.index, query)?, query)?;
        let (mut machine, mut fields) = (Machine::new(), Fields::default());
        let mut listed = Listed {
            events: Vec::new(),
            count: 0,
        };
        chosen.read(self.map(), |item, is_chosen| {
            if let (ItemRef::Event(event), true) = (item, is_chosen) {
                listed.count += 1;
                if listed.events.len() < MOST {
                    let since = event.nanos().map(|at| i64::try_from(at - begin));
                    let running = event.cpu().and_then(|cpu| machine.running(cpu));
                    let thread = running.and_then(|id| machine.thread(id));
                    listed.events.push(Event {
                        at_ns: since.and_then(Result::ok),
                        name: event.name().to_owned(),
                        cpu: event.cpu(),
                        thread: thread.map(|thread| match &thread.name {
                            Some(name) => format!("{name} {}", thread.tid),
                            None => thread.tid.to_string(),
                        }),
                        fields: fields.of(event),
                    });
                }
            }
            // A switch is the last event of the thread that leaves the CPU.
            if listed.events.len() < MOST {
                machine.add(item);
            }
        });
        json(&listed)
    }
}
