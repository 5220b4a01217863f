//! What can be counted, and its names.

use core::fmt::{self, Write};

use crate::text::{rsplit_once, split_once, write_hex, write_number};

/// An event of the machine or the kernel that a counter counts.
///
/// The kinds, and the numbers of [`Hardware`] and [`Cache`], are those of `perf_event_open(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// An event that most processors can count.
    Hardware(Hardware),
    /// An access to a cache.
    Cache(Cache),
    /// An event by the number that the processor's manual gives it.
    Raw(u64),
    /// An event that the kernel counts.
    Software(Software),
    /// A tracepoint, by its number.
    Tracepoint(u64),
    /// An access to an address.
    Breakpoint(Breakpoint),
}

/// Names of an enum's variants: the first is printed, all are read.
macro_rules! named {
    (
        $(#[$of_enum:meta])*
        pub enum $Enum:ident {
            $($(#[$of_variant:meta])* $Variant:ident = $number:literal, $($name:literal)|+;)*
        }
    ) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $Enum {
            $($(#[$of_variant])* $Variant = $number,)*
        }

        impl $Enum {
            /// Every variant, by number.
            pub const ALL: &'static [$Enum] = &[$($Enum::$Variant),*];

            /// All its names; the first is the usual one.
            pub const fn names(self) -> &'static [&'static str] {
                match self {
                    $($Enum::$Variant => &[$($name),+],)*
                }
            }

            /// The variant with one of these names.
            pub fn from_name(name: &str) -> Option<$Enum> {
                let mut all = Self::ALL.iter().copied();
                all.find(|variant| variant.names().contains(&name))
            }
        }

        impl $Enum {
            fn name(self) -> &'static str {
                self.names().first().copied().unwrap_or_default()
            }
        }

        impl fmt::Display for $Enum {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

named! {
    /// An event that most processors can count.
    pub enum Hardware {
        /// Cycles of the processor's clock.
        Cycles = 0, "cycles" | "cpu-cycles" | "cpu_cycles";
        /// Instructions that were retired.
        Instructions = 1, "instructions";
        /// Accesses to the last level of cache.
        CacheReferences = 2, "cache-references" | "cache_references";
        /// Accesses that the last level of cache did not have.
        CacheMisses = 3, "cache-misses" | "cache_misses";
        /// Branches that were retired.
        Branches = 4, "branches" | "branch-instructions" | "branch_instructions";
        /// Branches that were predicted wrongly.
        BranchMisses = 5, "branch-misses" | "branch_misses";
        /// Cycles of the bus.
        BusCycles = 6, "bus-cycles";
        /// Cycles in which no instruction was issued.
        StalledCyclesFrontend = 7, "stalled-cycles-frontend";
        /// Cycles in which no instruction was retired.
        StalledCyclesBackend = 8, "stalled-cycles-backend";
        /// Cycles of a clock that does not change its frequency.
        ReferenceCycles = 9, "ref-cycles";
    }
}

named! {
    /// An event that the kernel counts. It takes no slot of the PMU.
    pub enum Software {
        /// Nanoseconds that passed on the CPU.
        CpuClock = 0, "cpu-clock";
        /// Nanoseconds during which the thread ran.
        TaskClock = 1, "task-clock";
        /// Page faults.
        PageFaults = 2, "page-faults" | "page_faults" | "faults";
        /// Switches from one thread to another.
        ContextSwitches = 3, "context-switches" | "context_switches" | "cs";
        /// Moves of a thread to another CPU.
        CpuMigrations = 4, "cpu-migrations" | "cpu_migrations" | "migrations";
        /// System calls.
        SystemCalls = 5, "system-calls" | "syscalls";
        /// Interrupts.
        Interrupts = 6, "interrupts";
        /// Page faults that needed no reading from a disk.
        MinorFaults = 7, "minor-faults" | "minor_faults";
        /// Page faults that had to wait for a disk.
        MajorFaults = 8, "major-faults" | "major_faults";
    }
}

named! {
    /// A cache of the processor.
    pub enum CacheLevel {
        /// The first level, for data.
        L1Data = 0, "L1-dcache";
        /// The first level, for instructions.
        L1Instructions = 1, "L1-icache";
        /// The last level.
        LastLevel = 2, "LLC";
        /// The translations of data addresses.
        DataTlb = 3, "dTLB";
        /// The translations of instruction addresses.
        InstructionTlb = 4, "iTLB";
        /// The branch predictor.
        Branch = 5, "branch";
        /// The memory of this node.
        Node = 6, "node";
    }
}

named! {
    /// How a cache is accessed.
    pub enum CacheAccess {
        /// To read.
        Load = 0, "load";
        /// To write.
        Store = 1, "store";
        /// Ahead of its use.
        Prefetch = 2, "prefetch";
    }
}

/// Accesses to a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cache {
    /// Which cache.
    pub level: CacheLevel,
    /// Which accesses.
    pub access: CacheAccess,
    /// Only those that the cache did not have.
    pub misses: bool,
}

/// Accesses to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Breakpoint {
    /// The address.
    pub address: u64,
    /// Length in bytes: 1, 2, 4 or 8.
    pub len: u8,
    /// Which accesses.
    pub on: BreakOn,
}

named! {
    /// An access that a breakpoint counts.
    pub enum BreakOn {
        /// A read.
        Read = 1, "r";
        /// A write.
        Write = 2, "w";
        /// A read or a write.
        ReadOrWrite = 3, "rw";
        /// An instruction's execution.
        Execute = 4, "x";
    }
}

impl EventKind {
    /// How many slots of the PMU it takes: the kernel counts software events and tracepoints
    /// itself.
    pub const fn slots(self) -> usize {
        match self {
            EventKind::Software(_) | EventKind::Tracepoint(_) => 0,
            EventKind::Hardware(_)
            | EventKind::Cache(_)
            | EventKind::Raw(_)
            | EventKind::Breakpoint(_) => 1,
        }
    }

    /// The event by which this one is usually divided: instructions by cycles, and misses by what
    /// they are a part of.
    pub const fn divisor(self) -> Option<EventKind> {
        let divisor = match self {
            EventKind::Cache(Cache {
                level,
                access,
                misses: true,
            }) => {
                return Some(EventKind::Cache(Cache {
                    level,
                    access,
                    misses: false,
                }));
            }
            EventKind::Hardware(Hardware::Instructions) => Hardware::Cycles,
            EventKind::Hardware(Hardware::CacheMisses) => Hardware::CacheReferences,
            EventKind::Hardware(Hardware::BranchMisses) => Hardware::Branches,
            _ => return None,
        };
        Some(EventKind::Hardware(divisor))
    }

    /// The event with a name: one of those in the tables of this module, `L1-dcache-load-misses`
    /// and the like, `r` with a hexadecimal number, `tracepoint:` with a number, or
    /// `mem:ADDRESS[/LEN][:ACCESS]` with a hexadecimal address.
    pub fn from_name(name: &str) -> Option<EventKind> {
        let hardware = Hardware::from_name(name).map(EventKind::Hardware);
        let software = || Software::from_name(name).map(EventKind::Software);
        let cache = || Cache::from_name(name).map(EventKind::Cache);
        let raw = || hexadecimal(name.strip_prefix('r')?).map(EventKind::Raw);
        let tracepoint = || {
            let number = name.strip_prefix("tracepoint:")?.parse();
            number.ok().map(EventKind::Tracepoint)
        };
        let breakpoint = || Breakpoint::from_name(name).map(EventKind::Breakpoint);
        hardware
            .or_else(software)
            .or_else(cache)
            .or_else(raw)
            .or_else(tracepoint)
            .or_else(breakpoint)
    }
}

impl Cache {
    /// The event with a name like `dTLB-load-misses` or `LLC-stores`.
    fn from_name(name: &str) -> Option<Cache> {
        let mut levels = CacheLevel::ALL.iter().copied();
        levels.find_map(|level| {
            let access = name.strip_prefix(*level.names().first()?)?;
            let access = access.strip_prefix('-')?;
            let (access, misses) = match access.strip_suffix("-misses") {
                Some(access) => (access, true),
                None => (access, false),
            };
            let access = match access {
                _ if misses => access,
                "prefetches" => "prefetch",
                "loads" => "load",
                "stores" => "store",
                _ => return None,
            };
            let access = CacheAccess::from_name(access)?;
            Some(Cache {
                level,
                access,
                misses,
            })
        })
    }
}

impl Breakpoint {
    /// The event with a name like `mem:0xffff0000/8:rw`. By default the length is 4 and reads and
    /// writes count.
    fn from_name(name: &str) -> Option<Breakpoint> {
        let place = name.strip_prefix("mem:")?;
        let (place, on) = match split_once(place, b':') {
            Some((place, on)) => (place, BreakOn::from_name(on)?),
            None => (place, BreakOn::ReadOrWrite),
        };
        let (address, len) = match split_once(place, b'/') {
            Some((address, len)) => (address, len.parse().ok()?),
            None => (place, 4),
        };
        let address = hexadecimal(address.strip_prefix("0x")?)?;
        matches!(len, 1 | 2 | 4 | 8).then_some(Breakpoint { address, len, on })
    }
}

/// A number of hexadecimal digits and nothing else.
fn hexadecimal(digits: &str) -> Option<u64> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    match are_digits {
        true => u64::from_str_radix(digits, 16).ok(),
        false => None,
    }
}

impl EventKind {
    /// Writes the name by which [`EventKind::from_name`] finds it.
    fn write_name(self, out: &mut impl Write) -> fmt::Result {
        match self {
            EventKind::Hardware(event) => out.write_str(event.name()),
            EventKind::Software(event) => out.write_str(event.name()),
            EventKind::Cache(event) => event.write_name(out),
            EventKind::Raw(number) => {
                out.write_str("r")?;
                write_hex(out, number, 1)
            }
            EventKind::Tracepoint(number) => {
                out.write_str("tracepoint:")?;
                write_number(out, number)
            }
            EventKind::Breakpoint(Breakpoint { address, len, on }) => {
                out.write_str("mem:0x")?;
                write_hex(out, address, 1)?;
                out.write_str("/")?;
                write_number(out, len.into())?;
                out.write_str(":")?;
                out.write_str(on.name())
            }
        }
    }
}

impl fmt::Display for EventKind {
    /// The name by which [`EventKind::from_name`] finds it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_name(f)
    }
}

impl Cache {
    fn write_name(self, out: &mut impl Write) -> fmt::Result {
        let plural = match (self.misses, self.access) {
            (true, _) => "-misses",
            (false, CacheAccess::Prefetch) => "es",
            (false, _) => "s",
        };
        out.write_str(self.level.name())?;
        out.write_str("-")?;
        out.write_str(self.access.name())?;
        out.write_str(plural)
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_name(f)
    }
}

/// The modes of the processor in which an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Exclude {
    /// What happens in the kernel does not count.
    pub kernel: bool,
    /// What happens in programs does not count.
    pub user: bool,
}

impl Exclude {
    /// Everything counts.
    pub const NOTHING: Exclude = Exclude {
        kernel: false,
        user: false,
    };

    /// Whether it leaves anything out.
    pub const fn is_something(self) -> bool {
        self.kernel || self.user
    }
}

/// An event as a group counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventSpec {
    /// What is counted.
    pub kind: EventKind,
    /// Where it does not count.
    pub exclude: Exclude,
    /// After how many events the counter interrupts, for a sample; 0 for never.
    pub period: u64,
}

impl EventSpec {
    /// Counts an event wherever it happens.
    pub const fn of(kind: EventKind) -> EventSpec {
        EventSpec {
            kind,
            exclude: Exclude::NOTHING,
            period: 0,
        }
    }

    /// Counts an event of the processor wherever it happens.
    pub const fn hardware(event: Hardware) -> EventSpec {
        EventSpec::of(EventKind::Hardware(event))
    }

    /// Counts an event of the kernel wherever it happens.
    pub const fn software(event: Software) -> EventSpec {
        EventSpec::of(EventKind::Software(event))
    }

    /// The event by which this one is usually divided, counted in the same modes.
    pub fn divisor(self) -> Option<EventSpec> {
        let kind = self.kind.divisor()?;
        Some(EventSpec {
            kind,
            exclude: self.exclude,
            period: 0,
        })
    }

    /// The event with a name as [`EventKind::from_name`] knows it, and behind a colon `u` for only
    /// in programs or `k` for only in the kernel.
    pub fn from_name(name: &str) -> Option<EventSpec> {
        let spec = |name, exclude| {
            let kind = EventKind::from_name(name)?;
            let period = 0;
            Some(EventSpec {
                kind,
                exclude,
                period,
            })
        };
        let (kernel, user) = (true, true);
        let nothing = Exclude::NOTHING;
        spec(name, nothing).or_else(|| match rsplit_once(name, b':')? {
            (name, "u") => spec(name, Exclude { kernel, ..nothing }),
            (name, "k") => spec(name, Exclude { user, ..nothing }),
            (name, "uk" | "ku") => spec(name, nothing),
            _ => None,
        })
    }
}

impl EventSpec {
    /// Writes the name by which [`EventSpec::from_name`] finds it.
    pub(super) fn write_name(self, out: &mut impl Write) -> fmt::Result {
        self.kind.write_name(out)?;
        out.write_str(match (self.exclude.kernel, self.exclude.user) {
            (false, false) => "",
            (true, _) => ":u",
            (false, true) => ":k",
        })
    }
}

impl fmt::Display for EventSpec {
    /// The name by which [`EventSpec::from_name`] finds it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_name(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every event that a name can stand for, but for numbers and addresses.
    fn all() -> Vec<EventKind> {
        let hardware = Hardware::ALL.iter().copied().map(EventKind::Hardware);
        let software = Software::ALL.iter().copied().map(EventKind::Software);
        let mut all: Vec<EventKind> = hardware.chain(software).collect();
        for &level in CacheLevel::ALL {
            for &access in CacheAccess::ALL {
                for misses in [false, true] {
                    all.push(EventKind::Cache(Cache {
                        level,
                        access,
                        misses,
                    }));
                }
            }
        }
        let on = BreakOn::ReadOrWrite;
        let (address, len) = (0xffff_0000, 8);
        let breakpoint = Breakpoint { address, len, on };
        all.extend([
            EventKind::Raw(0x1c),
            EventKind::Tracepoint(321),
            EventKind::Breakpoint(breakpoint),
        ]);
        all
    }

    /// K-02, K-03.
    #[test]
    fn every_event_is_found_by_the_name_that_is_printed() {
        for kind in all() {
            let name = kind.to_string();
            assert_eq!(EventKind::from_name(&name), Some(kind), "{name}");
            for (suffix, kernel, user) in
                [("", false, false), (":u", true, false), (":k", false, true)]
            {
                let exclude = Exclude { kernel, user };
                let spec = EventSpec {
                    kind,
                    exclude,
                    period: 0,
                };
                assert_eq!(spec.to_string(), format!("{name}{suffix}"));
                assert_eq!(EventSpec::from_name(&spec.to_string()), Some(spec));
            }
        }
    }

    /// K-03.
    #[test]
    fn other_spellings_are_found() {
        for (name, usual) in [
            ("cpu_cycles", "cycles"),
            ("branch-instructions", "branches"),
            ("page_faults", "page-faults"),
            ("cs", "context-switches"),
            ("L1-dcache-prefetches", "L1-dcache-prefetches"),
            ("mem:0x10", "mem:0x10/4:rw"),
            ("mem:0x10:x", "mem:0x10/4:x"),
        ] {
            let kind = EventKind::from_name(name);
            assert_eq!(kind.map(|kind| kind.to_string()).as_deref(), Some(usual));
        }
    }

    #[test]
    fn other_words_are_no_event() {
        for name in [
            "",
            ":",
            "cycle",
            "cycles ",
            "Cycles",
            "r",
            "rx",
            "r+1",
            "r1_0",
            "L1-dcache",
            "L1-dcache-",
            "L1-dcache-load",
            "L1-dcache-loads-misses",
            "LLC-prefetchs",
            "mem:",
            "mem:10",
            "mem:0x",
            "mem:0x10/3",
            "mem:0x10/",
            "mem:0x10:",
            "mem:0x10:z",
            "mem:0x1g",
            "tracepoint:",
            "tracepoint:-1",
            "r10000000000000000",
        ] {
            assert_eq!(EventKind::from_name(name), None, "{name}");
        }
        for name in ["cycles:", "cycles:q", "cycles:u:k", ":u"] {
            assert_eq!(EventSpec::from_name(name), None, "{name}");
        }
    }

    /// K-22.
    #[test]
    fn misses_are_divided_by_accesses_and_instructions_by_cycles() {
        for (name, divisor) in [
            ("instructions", Some("cycles")),
            ("cache-misses", Some("cache-references")),
            ("branch-misses", Some("branches")),
            ("dTLB-load-misses", Some("dTLB-loads")),
            ("LLC-store-misses", Some("LLC-stores")),
            ("LLC-stores", None),
            ("cycles", None),
            ("page-faults", None),
            ("r1", None),
        ] {
            let kind = EventKind::from_name(name).map(EventKind::divisor);
            let divisor = divisor.map(EventKind::from_name);
            assert_eq!(kind, Some(divisor.flatten()), "{name}");
        }
    }

    /// K-14: software events and tracepoints take none.
    #[test]
    fn the_hardware_counts_all_but_software_events_and_tracepoints() {
        for kind in all() {
            let is_of_kernel = matches!(kind, EventKind::Software(_) | EventKind::Tracepoint(_));
            assert_eq!(kind.slots(), usize::from(!is_of_kernel), "{kind}");
        }
    }
}
