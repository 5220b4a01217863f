//! The files on which callers are found of samples whose stacks were copied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use kymo::event::Event;
use kymo::vocabulary::{MAX_CALLERS, StackCopy};
use kymo_ctf::Trace;
use kymo_profile::{AddressSpace, Loaded, Unwind};
use kymo_symbols::{Image, Unwinder};

use crate::note::{hex, noted};
use crate::read::Files;
use crate::{Error, Symbols};

/// The files of programs that have sampled themselves, for the callers of samples whose stacks were
/// copied.
#[derive(Debug, Default)]
pub struct StackFiles {
    /// The process, and the file's bytes and lowest address.
    files: Vec<(u64, Arc<Vec<u8>>, Option<u64>)>,
}

impl StackFiles {
    /// The files that are noted beside the trace, if their build ids are those of the note.
    ///
    /// # Errors
    /// If a file that the command line names cannot be used.
    pub fn of(symbols: &Symbols, directory: &Path, trace: &Trace) -> Result<StackFiles, Error> {
        let has_stacks = trace.parts().iter().any(|part| {
            let mut classes = part
                .metadata
                .streams()
                .flat_map(|stream| stream.events.values());
            classes.any(|class| &*class.name == StackCopy::SCHEMA.name)
        });
        let noted = match has_stacks {
            true => noted(directory, trace),
            false => Vec::new(),
        };
        let pids: BTreeSet<u64> = noted.iter().filter_map(|note| note.process).collect();
        let mut files = Vec::new();
        let mut known = Files::default();
        for pid in pids {
            let space = AddressSpace { pid, execs: 0 };
            let loaded = symbols.loaded_by(None, space, &noted, &mut known)?;
            for read in loaded.into_iter().flatten() {
                let found = Image::parse(&read.bytes)
                    .ok()
                    .map(|image| image.build_id().map(hex));
                if found == Some(read.build_id) {
                    files.push((pid, read.bytes, read.base));
                }
            }
        }
        Ok(StackFiles { files })
    }

    /// Finds callers; `None` if there are no files.
    pub fn unwind(&self) -> Option<Box<Unwind<'_>>> {
        let mut unwinders: BTreeMap<u64, Unwinder<'_>> = BTreeMap::new();
        let pids: BTreeSet<u64> = self.files.iter().map(|(pid, _, _)| *pid).collect();
        for pid in pids {
            let own = self.files.iter().filter(|(of, _, _)| *of == pid);
            let images: Vec<_> = own
                .filter_map(|(_, bytes, base)| Some((Image::parse(bytes).ok()?, *base)))
                .collect();
            let loaded = images.iter().map(|(image, base)| Loaded {
                image,
                bias: base.unwrap_or(image.base()).wrapping_sub(image.base()),
            });
            unwinders.insert(pid, Unwinder::new(loaded));
        }
        if unwinders.is_empty() {
            return None;
        }
        Some(Box::new(move |pid, registers, stack| {
            let unwinder = unwinders.get_mut(&pid)?;
            Some(unwinder.callers(registers, stack, MAX_CALLERS))
        }))
    }
}
