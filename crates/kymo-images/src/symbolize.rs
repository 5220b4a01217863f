//! From the chains of a trace to its functions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_ctf::Trace;
use kymo_profile::{Chains, Loaded, LoadedFile, Profile, Wanted};
use kymo_symbols::{Image, SplitFile};

use crate::missing::missing;
use crate::note::{Noted, hex, noted};
use crate::read::{Files, Read, gone, key};
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
        // Processes share files, which are searched once.
        let mut places: HashMap<&Path, usize> = HashMap::new();
        let mut files: Vec<&Read> = Vec::new();
        for file in &read {
            places.entry(&file.path).or_insert_with(|| {
                files.push(file);
                files.len() - 1
            });
        }
        let split_files: Vec<_> = files
            .iter()
            .map(|file| |of: &SplitFile| self.split_file(&file.path, of))
            .collect();
        let mut images = Vec::new();
        for (file, split_files) in files.iter().zip(&split_files) {
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
            let meant = read.iter().filter(|file| file.of == wanted);
            let loaded = meant.filter_map(|file| {
                let (image, path) = images.get(*places.get(&*file.path)?)?;
                let of_code = file.code.map(|code| code.wrapping_sub(image.code_offset()));
                let base = file.base.or(of_code).unwrap_or(image.base());
                let bias = base.wrapping_sub(image.base());
                Some(LoadedFile {
                    loaded: Loaded { image, bias },
                    library: file.is_library.then_some(&**path),
                })
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
        noted.extend(mapped(chains, &noted));
        let (mut read, mut known, mut absent) = (Vec::new(), Files::default(), Vec::new());
        for wanted in chains.wanted() {
            match wanted {
                Wanted::Process {
                    name,
                    space: Some(space),
                } if noted.iter().any(|note| note.is_of(space)) => {
                    for file in self.loaded_by(Some(name), space, &noted, &mut known)? {
                        match file {
                            Ok(file) => read.push(file),
                            Err(note) if note.file.as_os_str().is_empty() => {}
                            Err(note) if absent.contains(&gone(note)) => {}
                            Err(note) => absent.push(gone(note)),
                        }
                    }
                }
                _ => read.extend(self.read(wanted, &noted, say)?),
            }
        }
        absent.into_iter().for_each(say);
        let mut debug: HashMap<PathBuf, Option<Arc<Vec<u8>>>> = HashMap::new();
        for file in &mut read {
            let found = debug.entry(file.path.clone());
            let found = found.or_insert_with(|| self.debug_file(file).map(Arc::new));
            if let Some(bytes) = found {
                file.bytes = Arc::clone(bytes);
            }
        }
        Ok(read)
    }
}

/// The files that processes have loaded by the trace's events, where the note says which they are.
fn mapped(chains: &Chains, noted: &[Noted]) -> Vec<Noted> {
    let files = noted.iter().filter(|note| note.process.is_none());
    let files: HashMap<&str, &Noted> = files.map(|note| (&*note.name, note)).collect();
    let mapped = chains.mappings().iter().flat_map(|(space, mappings)| {
        let files = &files;
        mappings.iter().map(move |mapping| {
            let file = files.get(&*mapping.path);
            Noted {
                name: mapping.path.to_string(),
                process: Some(space.pid),
                space: Some(*space),
                // Without a note, whether this machine's file is the traced one's is not known.
                file: file.map_or(PathBuf::new(), |note| note.file.clone()),
                base: mapping.is_base.then_some(mapping.begin),
                code: (!mapping.is_base).then_some(mapping.begin),
                build_id: file.and_then(|note| note.build_id.clone()),
            }
        })
    });
    mapped.collect()
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
