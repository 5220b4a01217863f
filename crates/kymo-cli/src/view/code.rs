//! The code of the traced machine, for the page's flame graph.

use std::path::{Path, PathBuf};

use kymo_ctf::Trace;
use kymo_images::{StackFiles, Symbols};
use kymo_profile::{Chains, Options, Profile, Unwind};

use crate::missed::Sampler;
use crate::profile::{What, short_account};

/// Files of code, and who took the samples.
pub struct CodeFiles {
    symbols: Symbols,
    directory: PathBuf,
    stacks: StackFiles,
    sampler: Sampler,
}

impl CodeFiles {
    /// That of the trace in this directory.
    ///
    /// # Errors
    /// If a file that the command line names cannot be read, or is no ELF file.
    pub fn of(symbols: &Symbols, directory: &Path, trace: &Trace) -> anyhow::Result<CodeFiles> {
        symbols.check_images()?;
        Ok(CodeFiles {
            symbols: symbols.clone(),
            directory: directory.to_owned(),
            stacks: StackFiles::of(symbols, directory, trace)?,
            sampler: Sampler::of(trace.metadata()),
        })
    }
}

impl std::fmt::Debug for CodeFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("CodeFiles");
        out.field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl kymo_view::Symbols for CodeFiles {
    fn unwind(&self) -> Option<Box<Unwind<'_>>> {
        self.stacks.unwind()
    }

    fn symbolize(&self, trace: &Trace, chains: Chains) -> Result<(Profile, Vec<String>), String> {
        let mut said = Vec::new();
        let mut say = |text: String| said.push(sentence(&text));
        let found = self
            .symbols
            .symbolize(chains, &self.directory, trace, &mut say);
        let profile = found.map_err(|error| sentence(&error.to_string()))?;
        Ok((profile, said))
    }

    fn account(&self, profile: &Profile) -> String {
        let what = What::Samples(Options::default());
        sentence(&short_account(profile, what, self.sampler))
    }
}

/// A text as a sentence.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let stop = if text.ends_with('.') { "" } else { "." };
    first.collect::<String>() + letters.as_str() + stop
}
