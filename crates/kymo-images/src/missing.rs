//! Sentences about images without files, and files without names.

use kymo_profile::{Coverage, Profile, ProfileImage};
use kymo_text::{count, thousands};

/// Most programs that a message names.
const MOST_NAMES: usize = 3;

/// Says whose functions are shown as addresses, and which debug information is damaged.
pub(crate) fn missing(profile: &Profile, say: &mut dyn FnMut(String)) {
    let absent = || profile.images.iter().filter(|image| !image.has_file);
    if absent().any(|image| image.is_kernel) {
        say(
            "functions of the kernel are shown as addresses; give the kernel with --kernel ELF."
                .to_owned(),
        );
    }
    let programs = absent().filter(|image| !image.is_kernel);
    // Processes may have executed the same program.
    let mut programs: Vec<&str> = programs.map(|image| &*image.name).collect();
    programs.sort_unstable();
    programs.dedup();
    if !programs.is_empty() {
        let shown = programs.iter().take(MOST_NAMES).copied();
        let more = match programs.len() > MOST_NAMES {
            true => ", ...",
            false => "",
        };
        say(format!(
            "functions of {} ({}{more}) are shown as addresses; give their directory with \
             --images DIR.",
            count(programs.len() as u64, "program", "programs"),
            shown.collect::<Vec<_>>().join(", ")
        ));
    }
    for (image, coverage) in files(profile) {
        if let Some(why) = few_names(&coverage) {
            let Coverage {
                addresses, unnamed, ..
            } = coverage;
            say(format!(
                "{} of {} in {} {} no name: {why}.",
                thousands(unnamed),
                count(addresses, "address", "addresses"),
                image.name,
                if unnamed == 1 { "has" } else { "have" }
            ));
        }
        if let Some(damage) = &image.damage {
            say(format!(
                "the debug information of {} cannot be read to its end: {damage}; some \
                 lines and inlined functions are missing.",
                image.name
            ));
        }
    }
}

/// The files of all images, each once, with what is known of its addresses in all processes.
fn files(profile: &Profile) -> Vec<(&ProfileImage, Coverage)> {
    let mut files: Vec<(&ProfileImage, Coverage)> = Vec::new();
    for image in &profile.images {
        let known = files.iter_mut().find(|(of, _)| of.is_file_of(image));
        match known {
            Some((_, sum)) => {
                sum.addresses += image.coverage.addresses;
                sum.unnamed += image.coverage.unnamed;
                sum.outside += image.coverage.outside;
            }
            None => files.push((image, image.coverage)),
        }
    }
    files
}

/// Why more than half of the addresses of an image got no name, though its file is there.
fn few_names(coverage: &Coverage) -> Option<&'static str> {
    let is_most = |part: u64| part > coverage.addresses / 2;
    if !is_most(coverage.unnamed) {
        None
    } else if !coverage.has_names {
        Some("its file has no symbols; give the one that was not stripped")
    } else if is_most(coverage.outside) {
        Some(
            "they are outside of its file; if that was not loaded where it was linked, give \
             ELF@ADDRESS, and for libraries --images DIR",
        )
    } else {
        Some("its file has symbols for other code only")
    }
}
