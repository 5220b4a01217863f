//! Profiles of the Redox kernel, with the text of `nm` before them.

use kymo_profile::By;
use kymo_profile::redox::{
    Builder, Frames, Functions, Importer, Options, PerfScript, Problems, Sample,
};

/// Words of both texts.
pub(crate) const WORDS: [&str; 12] = [
    " ",
    "\n",
    "[kmain]",
    "dd",
    "0",
    "ffffffff80001004",
    "ffffffff80001010",
    "1004",
    "ffffffffffffffff",
    " T ",
    " t ",
    "<a::B as c::D>::e::{closure#0}",
];

const NM: &str = "ffffffff80001000 0000000000000010 T kernel::main
ffffffff80001010 0000000000000008 t <a::B<[u8; 4]> as c::D>::e
                 U undefined
ffffffff80002000 T without_size
";
const PROFILE: &str = "dd 1 3b9aca05 ffffffff80001014 ffffffff80001010 1010
[kmain] a 0 ffffffff80001004
dd 0 1 1000 1004
malformed
";

pub(crate) fn seeds(separator: &[u8]) -> Vec<Vec<u8>> {
    let both = |nm: &str, profile: &str| [nm.as_bytes(), separator, profile.as_bytes()].concat();
    vec![both(NM, PROFILE), both("", PROFILE), both(NM, "")]
}

/// Imports the profile with every option. All lines must be accounted for, and what is written from
/// the samples has all of them.
pub(crate) fn execute(nm: &[u8], profile: &[u8]) {
    let lines = profile.split(|&byte| byte == b'\n');
    let filled = lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64;
    for round in 0..12 {
        let is = |bit: u32| round >> bit & 1 == 1;
        let options = Options {
            user: is(0),
            unknown_threads: is(1),
            inside_only: is(0),
            frames: [Frames::Function, Frames::Offset, Frames::Both][round as usize / 4],
        };
        let functions = || Functions::from_nm(nm, &mut Problems::default()).unwrap();
        let users = [("dd".to_owned(), functions())];
        let mut importer = Importer::new(functions(), users, options);
        let frequency = "0.000000001".parse().ok().filter(|_| is(0));
        let mut script = PerfScript::new(Vec::new(), frequency);
        let mut builder = Builder::new(frequency);
        let add = |sample: &Sample<'_>| {
            builder.add(sample);
            script.add(sample)
        };
        importer.run(profile, add).unwrap();
        script.finish().unwrap();
        let outcome = &importer.outcome;
        let unknown: u64 = outcome.of_unknown_threads.values().sum();
        let accounted = outcome.samples + outcome.in_user_mode + unknown + outcome.problems.count;
        assert_eq!(accounted, filled, "every line is accounted for");
        let profile = builder.finish();
        assert_eq!(profile.weight(), outcome.samples);
        let folded: u64 = profile
            .fold(By::Thread, false)
            .iter()
            .map(|(_, count)| count)
            .sum();
        assert_eq!(folded, outcome.samples, "every sample is in a stack");
        for function in &profile.functions {
            assert!(!kymo_symbols::path(&function.name).is_empty());
        }
    }
}
