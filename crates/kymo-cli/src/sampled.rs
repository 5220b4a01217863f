//! New traces of samples, of `kymo record` and `kymo import`: the file beside them, and what is
//! said.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_images::HadBuildId;
use kymo_linux::{KernelSymbols, Summary, write_kernel};

use crate::profile::{self, What};
use crate::summary::count;
use crate::{flame, hot, next};

/// So many functions are shown at the end.
const SHOWN: usize = 5;
/// The file beside the trace with the functions of the kernel that were sampled.
const KERNEL: &str = ".kymo-kernel";

/// Notes which files functions are in, with the build ids that they had: by their paths those that
/// are known of a recording of before; `None` if it ended just now. And the functions of the
/// kernel. The trace is complete without it.
pub fn note(
    out: &Path,
    summary: &Summary,
    build_ids: Option<&BTreeMap<String, Vec<u8>>>,
    kernel: Option<KernelSymbols>,
) {
    let has_kernel = kernel.is_some_and(|symbols| {
        write_kernel(&out.join(KERNEL), &symbols, &summary.kernel).unwrap_or(false)
    });
    let files = summary.files.iter().map(String::as_str);
    let had = |path: &str| match build_ids {
        Some(known) => HadBuildId::Was(known.get(path).map(Vec::as_slice)),
        None => HadBuildId::Same,
    };
    let files = files.map(|path| (path, had(path)));
    let noted = kymo_images::note_files(out, has_kernel.then_some(KERNEL), files);
    if let Err(error) = noted {
        message!("kymo: cannot note beside the trace which files were loaded: {error}.");
    }
}

/// Says what is in the trace; `events` are those that were sampled.
pub fn say(out: &Path, summary: &Summary, events: &str) {
    let lost = match summary.lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost", count(lost, "record", "records")),
    };
    message!(
        "kymo: {} has {} ({events}) of {} in {}, {lost}.",
        out.display(),
        count(summary.samples, "sample", "samples"),
        count(summary.threads, "thread", "threads"),
        count(summary.processes, "process", "processes"),
    );
    if summary.throttled > 0 {
        message!(
            "kymo: the kernel took no samples for a while, {}, as there were too many; ask for \
             fewer with --hz.",
            count(summary.throttled, "time", "times")
        );
    }
    if summary.late > 0 {
        message!(
            "kymo: {} so late that the time in the trace is that of the one before.",
            count(summary.late, "record came", "records came")
        );
    }
}

/// Shows the functions with the most samples, draws the picture that is asked for, and says how to
/// see more.
///
/// # Errors
/// If the picture cannot be drawn.
pub fn show(out: &Path, summary: &Summary, flame: Option<&Path>) -> anyhow::Result<()> {
    if summary.samples == 0 {
        return Ok(());
    }
    let what = What::Samples(kymo_profile::Options::default());
    let read = profile::read(out, what, &Default::default(), &Default::default());
    let outcome = match (read, flame) {
        (Ok(outcome), _) => outcome,
        (Err(error), Some(_)) => return Err(error),
        // All CPUs may have been idle.
        (Err(_), None) => return Ok(()),
    };
    message!("{}", hot::top(&outcome.profile, SHOWN).trim_end());
    if let Some(svg) = flame {
        flame::draw(&outcome, what, out, svg)?;
    }
    next::suggest("flame", out);
    Ok(())
}
