//! A slice whose times are known.

use std::collections::HashMap;

use kymo_index::{Content, RowId, Run};

use super::{COLUMNS, Refused, View, number, refused};

impl View {
    /// The slice or point of a row that begins and ends at these times, or the one that is next to
    /// them.
    pub(super) fn find(&self, query: &HashMap<&str, &str>) -> Result<String, Refused> {
        let time = self.time(query)?;
        let row = RowId::try_from(number(query, "row")?);
        let row = row.map_err(|_| refused("there is no such row"))?;
        let at = time.start..time.end.max(time.start.saturating_add(1));
        let window = self.index.window(&self.map, &[row], at, COLUMNS);
        let window = window.map_err(|error| (500, error.to_string()))?;
        let Some(Content::Runs(runs)) = window.rows.first() else {
            return Ok("null".to_owned());
        };
        let distance = |run: &&Run| {
            let begin = run.begin.abs_diff(time.start);
            begin.saturating_add(run.end.abs_diff(time.end))
        };
        match runs.iter().min_by_key(distance) {
            Some(run) => self.found(row, run),
            None => Ok("null".to_owned()),
        }
    }
}
