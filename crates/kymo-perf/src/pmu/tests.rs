//! PMUs in a folder as sysfs has it.

use super::*;

/// A folder that is removed at the end.
struct Fake(PathBuf);

impl Fake {
    fn new(test: &str, files: &[(&str, &str)]) -> (Fake, Pmus) {
        let path = std::env::temp_dir().join(format!("kymo-pmu-{test}-{}", std::process::id()));
        for (file, text) in files {
            let file = path.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, format!("{text}\n")).expect("a file");
        }
        let pmus = Pmus::of(&path);
        (Fake(path), pmus)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const FILES: &[(&str, &str)] = &[
    ("cpu/type", "4"),
    ("cpu/format/event", "config:0-7,32-35"),
    ("cpu/format/umask", "config:8-15"),
    ("cpu/format/inv", "config:23"),
    ("cpu/format/ldlat", "config1:0-15"),
    ("cpu/format/odd", "config9:0-15"),
    ("cpu/events/cache-misses", "event=0x2e,umask=0x41"),
    ("cpu/events/of-core", "event=0x1,umask=?"),
    ("cpu_atom/type", "10"),
    ("cpu_atom/cpus", "4-7"),
    ("power/type", "11"),
    ("power/cpumask", "0,8"),
    ("power/format/event", "config:0-7"),
    ("power/events/energy-pkg", "event=0x02"),
    (
        "power/events/energy-pkg.scale",
        "2.3283064365386962890625e-10",
    ),
    ("power/events/energy-pkg.unit", "Joules"),
    ("uncore_imc_0/type", "20"),
    ("uncore_imc_0/cpumask", "0"),
    ("uncore_imc_0/events/reads", "config=0xff01"),
    ("uncore_imc_0/events/reads.scale", "6.103515625e-5"),
    ("uncore_imc_0/events/reads.unit", "MiB"),
    ("uncore_imc_1/type", "21"),
    ("uncore_imc_1/cpumask", "0"),
    ("uncore_imc_1/events/reads", "config=0xff01"),
    ("uncore_imc_10/type", "30"),
    ("uncore_imc_10/cpumask", "1"),
    ("uncore_imc_10/events/reads", "config=0xff01"),
    ("broken/type", "x"),
];

/// K-14: parameters are put where the PMU's format says, names stand for the parameters of their
/// file, and what is behind a name changes it.
#[test]
fn an_event_is_configured_as_its_pmu_says() {
    let (_folder, pmus) = Fake::new("config", FILES);
    for (name, config, modes) in [
        ("cpu/event=0x3c/", [0x3c, 0, 0, 0], ""),
        (
            "cpu/event=0x13c,umask=0x1/u",
            [0x1_0000_013c, 0, 0, 0],
            ":u",
        ),
        ("cpu/event=60,inv,ldlat=3/:k", [0x80_003c, 3, 0, 0], ":k"),
        ("cpu/cache-misses/", [0x412e, 0, 0, 0], ""),
        ("cpu/cache-misses,umask=0x4f/uk", [0x4f2e, 0, 0, 0], ""),
        ("cpu/of-core,umask=2/", [0x201, 0, 0, 0], ""),
        ("cpu/r1c2/", [0x1c2, 0, 0, 0], ""),
        ("cpu/config=0x10,config2=7/", [0x10, 0, 7, 0], ""),
    ] {
        let found = pmus.event(name).expect(name);
        let [event] = &found.pmus[..] else {
            panic!("{found:?}");
        };
        assert_eq!((&*event.pmu, event.number), ("cpu", 4), "{name}");
        assert_eq!(event.config, config, "{name}");
        assert_eq!((event.is_shared, &event.cpus), (false, &None));
        assert_eq!((event.scale, &event.unit), (1.0, &None));
        let spec = found.event.to_string();
        assert_eq!(spec, format!("r{:x}{modes}", config[0]), "{name}");
        assert_eq!((&*found.name, found.event.kind.slots()), (name, 1));
    }
}

/// K-14: what several CPUs share is counted by some of them.
#[test]
fn a_pmu_says_on_which_cpus_it_counts_and_in_which_unit() {
    let (_folder, pmus) = Fake::new("cpus", FILES);
    let energy = pmus.event("power/energy-pkg/").expect("an event").pmus;
    assert_eq!(energy[0].cpus, Some(vec![0, 8]));
    assert!(energy[0].is_shared);
    assert_eq!(energy[0].scale, 2.0_f64.powi(-32));
    assert_eq!(energy[0].unit.as_deref(), Some("Joules"));
    let atom = pmus.event("cpu_atom/config=1/").expect("an event").pmus;
    assert_eq!(atom[0].cpus, Some(vec![4, 5, 6, 7]));
    assert!(!atom[0].is_shared);
}

#[test]
fn pmus_that_differ_by_a_number_count_together() {
    let (_folder, pmus) = Fake::new("kinds", FILES);
    let numbers = |name: &str| -> Vec<u32> {
        let event = pmus.event(name).expect(name);
        event.pmus.iter().map(|pmu| pmu.number).collect()
    };
    assert_eq!(numbers("uncore_imc/reads/"), [20, 21, 30]);
    assert_eq!(numbers("uncore_imc_1/reads/"), [21]);
    assert_eq!(
        pmus.names(),
        [
            "cpu/cache-misses/",
            "cpu/of-core/",
            "power/energy-pkg/",
            "uncore_imc/reads/"
        ]
    );
    assert!(Pmus::of(Path::new("/nowhere")).names().is_empty());
}

#[test]
fn what_is_no_event_of_a_pmu_says_why() {
    let (_folder, pmus) = Fake::new("wrong", FILES);
    for (name, words) in [
        ("gpu/busy/", "this kernel has no PMU \"gpu\""),
        ("../cpu/event=1/", "this kernel has no PMU \"..\""),
        ("uncore/reads/", "this kernel has no PMU \"uncore\""),
        ("cpu/event=1", "a slash stands at both ends"),
        (
            "cpu//",
            "no event is named; it has event, inv, ldlat, odd, umask",
        ),
        (
            "cpu/evnt=1/",
            "cpu has no event or parameter evnt; it has event, ",
        ),
        ("cpu/rx/", "cpu has no event or parameter rx"),
        ("cpu/config/", "cpu has no event or parameter config;"),
        ("cpu/../type/", "\"../type\" is no parameter"),
        ("cpu/event=0x1000/", "event=0x1000 has more than 12 bits"),
        ("cpu/event=abc/", "\"abc\" is no number for event"),
        ("cpu/event=/", "\"\" is no number for event"),
        (
            "cpu/odd=1/",
            "the bits of odd, \"config9:0-15\", cannot be read",
        ),
        (
            "cpu/of-core/",
            "it needs a value of umask; add umask=NUMBER",
        ),
        (
            "power/energy-pkg.scale/",
            "no event or parameter energy-pkg.scale",
        ),
        ("broken/config=1/", "broken has no number"),
        ("cpu/event=1/pp", "the modifier p"),
    ] {
        let error = pmus.event(name).expect_err(name).to_string();
        assert!(error.contains(words), "{name}: {error}");
    }
}
