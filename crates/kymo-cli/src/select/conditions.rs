//! `--where`: conditions on events.

use kymo_analysis::Condition;
use kymo_ctf::{ItemRef, Trace};
use kymo_machine::Machine;

use crate::exit::Usage;
use crate::progress::Progress;

/// Conditions of which one must hold.
#[derive(Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    /// The state before the next item, if a condition depends on it.
    machine: Machine,
    /// The state at the end of the trace, for names that come after their events.
    later: Option<Machine>,
}

impl Conditions {
    /// Resolves conditions in a trace; `None` if there are none.
    ///
    /// # Errors
    /// If one is malformed, or no event of the trace can fit it.
    pub fn of(texts: &[String], trace: &Trace) -> Result<Option<Conditions>, Usage> {
        if texts.is_empty() {
            return Ok(None);
        }
        if !trace.is_one() {
            let sentence = "--where needs a single trace, and there are several traces with \
                            different metadata; give the directory of one";
            return Err(Usage(sentence.to_owned()));
        }
        let resolved = |text: &String| {
            let mut condition = Condition::parse(text)?;
            condition.resolve(trace.metadata())?;
            Ok(condition)
        };
        let list: Result<Vec<Condition>, kymo_analysis::ExpectError> =
            texts.iter().map(resolved).collect();
        let list = list.map_err(|error| Usage(format!("--where: {}", error.message)))?;
        let wants_state = list.iter().any(Condition::wants_state);
        Ok(Some(Conditions {
            list,
            machine: Machine::new(),
            later: wants_state.then(|| at_end(trace)),
        }))
    }

    /// Whether every item before the selection must be read.
    pub fn wants_state(&self) -> bool {
        self.later.is_some()
    }

    /// Whether an event fits a condition. Other items always do.
    pub fn take(&mut self, item: &ItemRef<'_>) -> bool {
        let later = self.later.as_ref();
        let fits = match item {
            ItemRef::Event(event) => self
                .list
                .iter()
                .any(|condition| condition.holds(event, &self.machine, later)),
            _ => true,
        };
        if later.is_some() {
            self.machine.add(item);
        }
        fits
    }
}

/// The machine at the end of the trace. Damage is reported when the trace is printed.
fn at_end(trace: &Trace) -> Machine {
    let mut progress = Progress::new(trace);
    let map = trace.map();
    let (mut reader, mut machine) = (map.read(), Machine::new());
    while let Some(item) = reader.next() {
        progress.pass(&item);
        machine.add(&item);
    }
    progress.done();
    machine
}
