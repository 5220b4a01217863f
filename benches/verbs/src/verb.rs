//! The verbs, how each is called, and its goal.

use std::path::Path;

use crate::call::Call;

/// A way to run babeltrace2, with which a verb is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Baseline {
    /// Every event is decoded and dropped.
    Count,
    /// Every event becomes a line.
    Text,
}

impl Baseline {
    pub(crate) fn call(self, trace: &Path) -> Call {
        let call = Call::new("babeltrace2").word(trace);
        match self {
            Baseline::Count => call.words(&["--component=sink.utils.dummy"]),
            Baseline::Text => call,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Baseline::Count => "count",
            Baseline::Text => "text",
        }
    }
}

/// The output of a verb.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Lines on standard output.
    Lines,
    /// A file or a folder, named after the trace on the command line.
    Written,
}

/// A verb with its options.
pub(crate) struct Verb {
    /// The command line, without the trace.
    pub(crate) name: &'static str,
    output: Output,
    pub(crate) beside: Baseline,
    /// Least ratio of babeltrace2's time to its own.
    pub(crate) goal: Option<f64>,
}

impl Verb {
    const fn lines(name: &'static str, beside: Baseline, goal: Option<f64>) -> Verb {
        Verb {
            name,
            output: Output::Lines,
            beside,
            goal,
        }
    }

    const fn written(name: &'static str, goal: Option<f64>) -> Verb {
        Verb {
            name,
            output: Output::Written,
            beside: Baseline::Text,
            goal,
        }
    }

    /// The command line for a trace; files are written into `scratch`.
    pub(crate) fn call(&self, kymo: &Path, trace: &Path, scratch: &Path) -> Call {
        let words: Vec<&str> = self.name.split(' ').collect();
        let call = Call::new(kymo).words(&words).word(trace);
        match self.output {
            Output::Lines => call,
            Output::Written => {
                let out = scratch.join("out");
                call.word(&out).writes(out)
            }
        }
    }
}

/// All verbs, with the goals of issue 11.
pub(crate) const VERBS: [Verb; 13] = [
    Verb::lines(COUNT, Baseline::Count, Some(30.0)),
    Verb::lines(DUMP, Baseline::Text, Some(10.0)),
    Verb::lines("dump --json", Baseline::Text, Some(10.0)),
    Verb::lines("dump --format babeltrace", Baseline::Text, Some(8.0)),
    Verb::lines("report", Baseline::Count, Some(6.0)),
    Verb::lines("report --json", Baseline::Count, Some(6.0)),
    Verb::lines("check", Baseline::Count, Some(6.0)),
    Verb::written("export --to perfetto", Some(5.0)),
    Verb::written("export --to csv", Some(5.0)),
    Verb::written("export --to parquet", Some(5.0)),
    Verb::written("export --to chrome", Some(5.0)),
    Verb::written("convert", None),
    Verb::written("convert --ctf2", None),
];

/// The verbs that are timed on a part of a trace.
pub(crate) const DUMP: &str = "dump";
pub(crate) const COUNT: &str = "dump --count";
