//! The table of counters: the values that a timeline draws over time, under the names of its
//! tracks; those of a thread with the thread's name before.

use std::collections::HashMap;
use std::io;

use datafusion::common::{DataFusionError, Result};
use kymo_rows::Cells as _;
use kymo_timeline::{Canvas, Label, Timeline, Track, TrackId, TrackKind};

use crate::column::Holds;
use crate::model::row;
use crate::scan::Rows;
use crate::traces::{Opened, Traces};

pub(crate) const COLUMNS: [(&str, Holds); 4] = [
    ("time", Holds::Time),
    ("ns", Holds::Signed),
    ("name", Holds::Text),
    ("value", Holds::Signed),
];

/// Gives the rows of a trace.
pub(crate) fn write(traces: &Traces, trace: &Opened, rows: &mut Rows) -> Result<()> {
    let mut reader = trace.map.read();
    let canvas = Values {
        rows,
        names: HashMap::new(),
        origin: 0,
        is_enough: false,
        failed: None,
    };
    let mut timeline = Timeline::new(reader.begin_nanos(), canvas);
    while let Some(item) = reader.next() {
        traces.look(trace, &item);
        let drawn = timeline.add(&item);
        let values = timeline.canvas_mut();
        if let Some(error) = values.failed.take() {
            return Err(error);
        }
        drawn.map_err(DataFusionError::IoError)?;
        if values.is_enough || !values.rows.is_wanted() {
            break;
        }
    }
    Ok(())
}

/// Makes a row of each value of a counter.
struct Values<'r> {
    rows: &'r mut Rows,
    /// Names of the tracks of counters, and of all that may contain one.
    names: HashMap<TrackId, String>,
    /// Of the timeline, in nanoseconds from the clock's.
    origin: i128,
    is_enough: bool,
    failed: Option<DataFusionError>,
}

impl Canvas for Values<'_> {
    const HAS_NOTES: bool = false;

    fn origin(&mut self, nanos: i128) {
        self.origin = nanos;
    }

    fn track(&mut self, track: &Track<'_>) -> io::Result<()> {
        let around = track.parent.and_then(|parent| self.names.get(&parent));
        let name = match (track.kind, around) {
            // All of the trace are in one group.
            (TrackKind::Group, _) => return Ok(()),
            (TrackKind::Counter, Some(around)) => format!("{around}: {}", track.name),
            _ => track.name.to_owned(),
        };
        self.names.insert(track.id, name);
        Ok(())
    }

    fn begin(&mut self, _: u64, _: TrackId, _: &Label<'_>) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: u64, _: TrackId, _: &Label<'_>) -> io::Result<()> {
        Ok(())
    }

    fn point(&mut self, _: u64, _: TrackId, _: &Label<'_>) -> io::Result<()> {
        Ok(())
    }

    fn counter(&mut self, at: u64, track: TrackId, value: i64) -> io::Result<()> {
        if self.is_enough || self.failed.is_some() {
            return Ok(());
        }
        let nanos = i64::try_from(self.origin + i128::from(at)).ok();
        let name = self.names.get(&track).map_or("", String::as_str);
        let more = row(self.rows, |to| {
            to.maybe_signed(nanos);
            to.maybe_signed(nanos);
            to.text(name);
            to.signed(value);
        });
        match more {
            Ok(more) => self.is_enough = !more,
            Err(error) => self.failed = Some(error),
        }
        Ok(())
    }
}
