//! Profiles as files: the formats that `kymo flame` and `kymo import` write.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kymo_export::{FlameGraph, ProfileFormat};
use kymo_profile::{By, Profile};

use crate::output;

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

    /// Name for a file that no terminal can show, and how to open it; `None` for text.
    fn file_name(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Format::Folded | Format::PerfScript => return None,
            Format::Svg => ("flame.svg", "open it in a browser"),
            Format::Speedscope => ("flame.speedscope.json", "open it at speedscope.app"),
            Format::Pprof => (
                "flame.pb.gz",
                "open it with: go tool pprof -http=: flame.pb.gz",
            ),
            Format::Firefox => ("flame.firefox.json", "open it at profiler.firefox.com"),
        })
    }

    /// The path to write to: that of the command line, or one in the working directory if the
    /// standard output is a terminal, which cannot show this format.
    pub fn path(self, given: Option<&Path>) -> Option<PathBuf> {
        output::file_at_terminal(given, self.file_name().map(|(name, _)| name))
    }

    /// Says where a file is that nobody named, and how to open it.
    pub fn print_path(self, given: Option<&Path>, written: Option<&Path>) {
        if let (None, Some(path), Some((_, how))) = (given, written, self.file_name()) {
            message!("kymo: wrote {}; {how}.", path.display());
        }
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
