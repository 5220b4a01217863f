//! What a row has, put together part by part.

use std::ops::Range;

use crate::code::Sink;
use crate::part::{Content, Part};
use crate::registry::RowId;
use crate::run::{Few, Run, Values};

/// A row, which takes what parts have of it, in their order.
#[derive(Debug)]
pub(crate) struct Drawn {
    runs: Few<Run>,
    values: Few<Values>,
    has_values: bool,
}

impl Drawn {
    /// What reaches into a stretch of time. What is shorter than `resolution` nanoseconds is merged.
    pub(crate) fn new(time: Range<u64>, resolution: u64) -> Drawn {
        Drawn {
            runs: Few::new(time.clone(), resolution),
            values: Few::new(time, resolution),
            has_values: false,
        }
    }

    /// The next part begins here.
    pub(crate) fn begin_part(&mut self) {
        self.runs.begin_part();
        self.values.begin_part();
    }

    /// What the row has.
    pub(crate) fn finish(self) -> Content {
        match self.has_values {
            true => Content::Values(self.values.finish()),
            false => Content::Runs(self.runs.finish()),
        }
    }
}

impl Sink for Drawn {
    fn run(&mut self, run: Run) {
        self.runs.add(run);
    }

    fn values(&mut self, values: Values) {
        self.has_values = true;
        self.values.add(values);
    }
}

/// Parts in succession as one, reduced to its resolution. `None` if there are none.
pub(crate) fn merged(parts: &[Part]) -> Option<Part> {
    let (begin, end) = (parts.first()?.begin, parts.last()?.end);
    let resolution = crate::part::resolution(begin, end);
    let mut rest: Vec<&[(RowId, Content)]> = parts.iter().map(|part| &*part.rows).collect();
    let mut rows = Vec::new();
    let next = |rest: &[&[(RowId, Content)]]| {
        let firsts = rest.iter().filter_map(|rows| rows.first());
        firsts.map(|(row, _)| *row).min()
    };
    while let Some(row) = next(&rest) {
        // Of what a part has, all is inside.
        let mut drawn = Drawn::new(0..u64::MAX, resolution);
        for rows in &mut rest {
            let Some(((of, content), others)) = rows.split_first() else {
                continue;
            };
            if *of != row {
                continue;
            }
            *rows = others;
            drawn.begin_part();
            match content {
                Content::Runs(runs) => runs.iter().for_each(|run| drawn.run(*run)),
                Content::Values(values) => values.iter().for_each(|one| drawn.values(*one)),
            }
        }
        rows.push((row, drawn.finish()));
    }
    Some(Part { begin, end, rows })
}
