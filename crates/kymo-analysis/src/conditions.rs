//! Conditions of which one must hold, as `--where` gives them.

use kymo_ctf::{ItemRef, Metadata, TraceMap};
use kymo_machine::Machine;

use crate::expect::{Condition, ExpectError};

/// Selects the events of a trace for which one of several [`Condition`]s holds.
#[derive(Debug)]
pub struct Conditions {
    list: Vec<Condition>,
    /// The state before the next item, if a condition depends on it.
    machine: Machine,
    /// The state at the end of the trace, for names that come after their events.
    later: Option<Machine>,
}

impl Conditions {
    /// Parses conditions and resolves them in a trace; `None` if there are none. If one depends on
    /// the machine's state, the trace is read once; `look` gets the items meanwhile.
    ///
    /// # Errors
    /// A sentence, if one is malformed, or no event of the trace can fit it.
    pub fn of(
        texts: &[String],
        metadata: &Metadata,
        map: &TraceMap,
        look: impl FnMut(&ItemRef<'_>),
    ) -> Result<Option<Conditions>, String> {
        if texts.is_empty() {
            return Ok(None);
        }
        let resolved = |text: &String| {
            let mut condition = Condition::parse(text)?;
            condition.resolve(metadata)?;
            Ok(condition)
        };
        let list: Result<Vec<Condition>, ExpectError> = texts.iter().map(resolved).collect();
        let list = list.map_err(|error| format!("--where: {}", error.message))?;
        let wants_state = list.iter().any(Condition::wants_state);
        Ok(Some(Conditions {
            list,
            machine: Machine::new(),
            later: wants_state.then(|| at_end(map, look)),
        }))
    }

    /// Why conditions cannot be resolved in several traces at once.
    pub const OF_SEVERAL: &str = "--where needs a single trace, and there are several traces with \
                                  different metadata; give the directory of one";

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

/// The machine at the end of the trace. Damage is reported by whoever shows the trace.
fn at_end(map: &TraceMap, mut look: impl FnMut(&ItemRef<'_>)) -> Machine {
    let (mut reader, mut machine) = (map.read(), Machine::new());
    while let Some(item) = reader.next() {
        look(&item);
        machine.add(&item);
    }
    machine
}
