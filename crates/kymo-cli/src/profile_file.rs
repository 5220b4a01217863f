//! Profiles as files: the formats that `kymo flame` and `kymo import` write.

use std::io::{self, Write};

use clap::ValueEnum;
use kymo_export::{FlameGraph, ProfileFormat};
use kymo_profile::{By, Profile};

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A flame graph for a browser.
    Svg,
    /// Lines of `outer;inner count`, for inferno and scripts.
    Folded,
    /// The text of `perf script`, a paragraph for each sample.
    PerfScript,
    /// JSON for speedscope.
    Speedscope,
    /// A protocol buffer for pprof.
    Pprof,
    /// JSON for the Firefox Profiler.
    Firefox,
}

impl Format {
    /// Whether the file has single samples, so that their times must be kept.
    pub fn has_samples(self) -> bool {
        self.other().is_some_and(ProfileFormat::has_samples)
    }

    /// The format of another viewer.
    fn other(self) -> Option<ProfileFormat> {
        Some(match self {
            Format::Svg | Format::Folded => return None,
            Format::PerfScript => ProfileFormat::PerfScript,
            Format::Speedscope => ProfileFormat::Speedscope,
            Format::Pprof => ProfileFormat::Pprof,
            Format::Firefox => ProfileFormat::Firefox,
        })
    }

    /// Writes the profile. `graph` has the flame graph's heading, `by` what is outermost in it and
    /// in folded stacks.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(
        self,
        profile: &Profile,
        graph: &FlameGraph,
        by: By,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match self.other() {
            Some(format) => format.write(profile, &graph.title, out),
            None if self == Format::Folded => {
                profile.try_fold(by, false, |stack, weight| writeln!(out, "{stack} {weight}"))
            }
            // With marks by which the frames are coloured.
            None => {
                let mut lines = String::new();
                // Writing to a string cannot fail.
                let _ = profile.try_fold(by, true, |stack, weight| {
                    use std::fmt::Write as _;
                    writeln!(lines, "{stack} {weight}")
                });
                graph.draw(&lines, out)
            }
        }
    }
}
