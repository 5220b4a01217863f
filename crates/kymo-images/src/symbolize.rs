//! From the chains of a trace to its functions.

use std::path::{Path, PathBuf};

use kymo_ctf::Trace;
use kymo_profile::{Chains, Loaded, LoadedFile, Profile, Wanted};
use kymo_symbols::{Image, SplitFile};

use crate::missing::missing;
use crate::note::{Noted, hex, noted};
use crate::read::{Read, gone, key};
use crate::symbols::Inlined;
use crate::{Error, Symbols};

impl Symbols {
    /// Looks up the functions of all chains. `say` takes a sentence for each image that is missing
    /// or wrong.
    ///
    /// # Errors
    /// If a file that the command line names cannot be used.
    pub fn symbolize(
        &self,
        chains: Chains,
        directory: &Path,
        trace: &Trace,
        say: &mut dyn FnMut(String),
    ) -> Result<Profile, Error> {
        let read = self.files(&chains, noted(directory, trace), say)?;
        let split_files: Vec<_> = read
            .iter()
            .map(|file| |of: &SplitFile| self.split_file(&file.path, of))
            .collect();
        let mut images = Vec::new();
        for (file, split_files) in read.iter().zip(&split_files) {
            let parsed = Image::parse(&file.bytes).map_err(|source| Error::Image {
                path: file.path.clone(),
                source,
            });
            let image = parsed?.with_split_files(split_files);
            compare(file, &image, say);
            images.push((image, file.path.display().to_string()));
        }
        let profile = chains.symbolize(|wanted| {
            let wanted = key(wanted);
            let files = read.iter().zip(&images);
            let meant = files.filter(|(file, _)| file.of == wanted);
            let loaded = meant.map(|(file, (image, path))| {
                let of_code = file.code.map(|code| code.wrapping_sub(image.code_offset()));
                let base = file.base.or(of_code).unwrap_or(image.base());
                let bias = base.wrapping_sub(image.base());
                LoadedFile {
                    loaded: Loaded { image, bias },
                    library: file.is_library.then_some(&**path),
                }
            });
            loaded.collect::<Vec<_>>()
        });
        missing(&profile, say);
        Ok(match self.inlined {
            Some(Inlined::All) => profile,
            Some(Inlined::Own) | None => profile.without_inlined_libraries(),
        })
    }

    /// Reads the files of all images for which there is one.
    fn files(
        &self,
        chains: &Chains,
        mut noted: Vec<Noted>,
        say: &mut dyn FnMut(String),
    ) -> Result<Vec<Read>, Error> {
        for (pid, mappings) in chains.mappings() {
            noted.extend(mappings.iter().map(|mapping| Noted {
                name: mapping.path.to_string(),
                process: Some(*pid),
                // Whether this machine's file is the traced one's is not known.
                file: PathBuf::new(),
                base: mapping.is_base.then_some(mapping.begin),
                code: (!mapping.is_base).then_some(mapping.begin),
                build_id: None,
            }));
        }
        let mut read = Vec::new();
        for wanted in chains.wanted() {
            match wanted {
                Wanted::Process {
                    name,
                    pid: Some(pid),
                } if noted.iter().any(|note| note.process == Some(pid)) => {
                    for file in self.loaded_by(Some(name), pid, &noted)? {
                        match file {
                            Ok(file) => read.push(file),
                            Err(note) if note.file.as_os_str().is_empty() => {}
                            Err(note) => say(gone(note)),
                        }
                    }
                }
                _ => read.extend(self.read(wanted, &noted, say)?),
            }
        }
        for file in &mut read {
            if let Some(bytes) = self.debug_file(file) {
                file.bytes = bytes;
            }
        }
        Ok(read)
    }
}

/// Says that a file is not the one that was recorded.
fn compare(file: &Read, image: &Image<'_>, say: &mut dyn FnMut(String)) {
    let found = image.build_id().map(hex);
    if let (Some(recorded), Some(found)) = (&file.build_id, &found)
        && recorded != found
    {
        say(format!(
            "{} is not what was recorded: its build id is {found}, and that of the trace \
             {recorded}; names may be wrong. Give the right file with --kernel or --image.",
            file.path.display()
        ));
    }
}
