//! Events as `perf_event_open(2)` takes them.

use kymo::count::{BreakOn, EventKind, EventSpec, Software};
use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_CONTEXT_SWITCHES, PERF_COUNT_SW_CPU_CLOCK, PERF_COUNT_SW_CPU_MIGRATIONS,
    PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MAJ, PERF_COUNT_SW_PAGE_FAULTS_MIN,
    PERF_COUNT_SW_TASK_CLOCK, PERF_FORMAT_GROUP, PERF_FORMAT_ID, PERF_FORMAT_TOTAL_TIME_ENABLED,
    PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE,
    PERF_TYPE_RAW, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, perf_event_attr,
};

use crate::error::Error;
use crate::pmu::PmuEvent;

/// After how many events an eBPF program runs if the event names no period.
pub const DEFAULT_PERIOD: u64 = 1_000_000;

/// How the events of a group are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads and processes that the target creates from now on are counted too. Linux needs
    /// version 4.13 for this in a group.
    pub inherit: bool,
    /// The group starts when the target becomes another program by `execve(2)`.
    pub on_exec: bool,
    /// After how many samples of an event with a period the readers of its descriptor are woken; 0
    /// stands for 1. It has an effect where the caller maps a buffer for them, by
    /// [`Group::descriptor`](crate::Group::descriptor).
    pub wakeup: u32,
}

/// The attributes of an event that is disabled, and whose read gives its whole group. The PMU's
/// numbers, if there are any, stand for the event's kind.
pub(crate) fn of(
    event: &EventSpec,
    pmu: Option<&PmuEvent>,
    options: Options,
    runs_program: bool,
) -> Result<perf_event_attr, Error> {
    let mut attributes = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        read_format: u64::from(
            PERF_FORMAT_GROUP
                | PERF_FORMAT_ID
                | PERF_FORMAT_TOTAL_TIME_ENABLED
                | PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..Default::default()
    };
    (attributes.type_, attributes.config) = match event.kind {
        EventKind::Hardware(event) => (PERF_TYPE_HARDWARE, event as u64),
        EventKind::Cache(cache) => {
            let (level, access) = (cache.level as u64, cache.access as u64);
            let config = level | access << 8 | u64::from(cache.misses) << 16;
            (PERF_TYPE_HW_CACHE, config)
        }
        EventKind::Raw(number) => (PERF_TYPE_RAW, number),
        EventKind::Software(event) => (PERF_TYPE_SOFTWARE, software(event)?),
        EventKind::Tracepoint(number) => (PERF_TYPE_TRACEPOINT, number),
        EventKind::Breakpoint(breakpoint) => {
            attributes.bp_type = breakpoint.on as u32;
            attributes.bp_addr = breakpoint.address;
            // Linux takes one length for an instruction, whatever its length is.
            attributes.bp_len = match breakpoint.on {
                BreakOn::Execute => size_of::<usize>() as u64,
                _ => breakpoint.len.into(),
            };
            (PERF_TYPE_BREAKPOINT, 0)
        }
    };
    if let Some(pmu) = pmu {
        attributes.type_ = pmu.number;
        let [config, config1, config2, config3] = pmu.config;
        attributes.config = config;
        attributes.config1 = config1;
        attributes.config2 = config2;
        attributes.config3 = config3;
    }
    let is_tracepoint = matches!(event.kind, EventKind::Tracepoint(_));
    let period = match event.period {
        // A program on a tracepoint runs at each event, without a period.
        0 if runs_program && !is_tracepoint => DEFAULT_PERIOD,
        period => period,
    };
    if period > 0 {
        attributes.sample_period = period;
        attributes.wakeup_events = options.wakeup.max(1);
    }
    attributes.set_disabled(1);
    attributes.set_enable_on_exec(options.on_exec.into());
    attributes.set_inherit(options.inherit.into());
    attributes.set_exclude_kernel(event.exclude.kernel.into());
    attributes.set_exclude_hv(event.exclude.kernel.into());
    attributes.set_exclude_user(event.exclude.user.into());
    Ok(attributes)
}

/// Linux's number of a software event.
fn software(event: Software) -> Result<u64, Error> {
    let instead = match event {
        Software::CpuClock => return Ok(PERF_COUNT_SW_CPU_CLOCK.into()),
        Software::TaskClock => return Ok(PERF_COUNT_SW_TASK_CLOCK.into()),
        Software::PageFaults => return Ok(PERF_COUNT_SW_PAGE_FAULTS.into()),
        Software::ContextSwitches => return Ok(PERF_COUNT_SW_CONTEXT_SWITCHES.into()),
        Software::CpuMigrations => return Ok(PERF_COUNT_SW_CPU_MIGRATIONS.into()),
        Software::MinorFaults => return Ok(PERF_COUNT_SW_PAGE_FAULTS_MIN.into()),
        Software::MajorFaults => return Ok(PERF_COUNT_SW_PAGE_FAULTS_MAJ.into()),
        Software::SystemCalls => "raw_syscalls:sys_enter",
        Software::Interrupts => "irq:irq_handler_entry",
    };
    Err(Error::NotOnLinux { event, instead })
}

#[cfg(test)]
mod tests {
    use kymo::count::Exclude;

    use super::*;

    fn attributes(name: &str) -> perf_event_attr {
        let event = EventSpec::from_name(name).expect(name);
        of(&event, None, Options::default(), false).expect(name)
    }

    /// K-02, K-03: the numbers of `linux/perf_event.h`.
    #[test]
    fn every_kind_of_event_has_linux_numbers() {
        for (name, kind, config) in [
            ("cycles", 0, 0),
            ("instructions", 0, 1),
            ("cache-references", 0, 2),
            ("cache-misses", 0, 3),
            ("branches", 0, 4),
            ("branch-misses", 0, 5),
            ("ref-cycles", 0, 9),
            ("cpu-clock", 1, 0),
            ("task-clock", 1, 1),
            ("page-faults", 1, 2),
            ("minor-faults", 1, 5),
            ("major-faults", 1, 6),
            ("context-switches", 1, 3),
            ("cpu-migrations", 1, 4),
            ("tracepoint:321", 2, 321),
            ("L1-dcache-loads", 3, 0),
            ("L1-icache-load-misses", 3, 0x1_00_01),
            ("LLC-stores", 3, 0x0_01_02),
            ("dTLB-prefetch-misses", 3, 0x1_02_03),
            ("node-loads", 3, 6),
            ("r1c2", 4, 0x1c2),
            ("mem:0x1000/8:w", 5, 0),
        ] {
            let attributes = attributes(name);
            assert_eq!(
                (attributes.type_, attributes.config),
                (kind, config),
                "{name}"
            );
        }
        let breakpoint = attributes("mem:0x1000/8:w");
        let place = (breakpoint.bp_type, breakpoint.bp_addr, breakpoint.bp_len);
        assert_eq!(place, (2, 0x1000, 8));
        let instruction = attributes("mem:0x1000/1:x");
        let place = (instruction.bp_type, instruction.bp_len);
        assert_eq!(place, (4, size_of::<usize>() as u64));
    }

    /// K-07, K-12.
    #[test]
    fn every_event_is_opened_disabled_and_reads_its_group() {
        for name in ["cycles", "page-faults", "tracepoint:1", "mem:0x1000"] {
            let attributes = attributes(name);
            assert_eq!(attributes.disabled(), 1, "{name}");
            assert_eq!(attributes.read_format, 0b1111, "{name}");
            assert_eq!(attributes.size as usize, size_of::<perf_event_attr>());
        }
    }

    /// K-01.
    #[test]
    fn options_become_attributes() {
        let mut event = EventSpec::from_name("page-faults").expect("an event");
        let plain = of(&event, None, Options::default(), false).expect("attributes");
        assert_eq!((plain.inherit(), plain.enable_on_exec()), (0, 0));
        assert_eq!((plain.exclude_kernel(), plain.exclude_user()), (0, 0));
        assert_eq!((plain.sample_period, plain.wakeup_events), (0, 0));
        let (inherit, on_exec) = (true, true);
        let options = Options {
            inherit,
            on_exec,
            wakeup: 5,
        };
        let inherited = of(&event, None, options, false).expect("attributes");
        assert_eq!((inherited.inherit(), inherited.enable_on_exec()), (1, 1));
        let (kernel, user) = (true, false);
        event.exclude = Exclude { kernel, user };
        event.period = 77;
        let only_user = of(&event, None, Options::default(), true).expect("attributes");
        assert_eq!(
            (only_user.exclude_kernel(), only_user.exclude_user()),
            (1, 0)
        );
        assert_eq!(only_user.exclude_hv(), 1);
        assert_eq!((only_user.sample_period, only_user.wakeup_events), (77, 1));
        let seldom = of(&event, None, options, true).expect("attributes");
        assert_eq!((seldom.sample_period, seldom.wakeup_events), (77, 5));
    }

    /// K-14.
    #[test]
    fn an_event_of_a_pmu_has_its_numbers() {
        let event = EventSpec::from_name("r1:u").expect("an event");
        let pmu = PmuEvent {
            pmu: "uncore".to_owned(),
            number: 17,
            config: [1, 2, 3, 4],
            cpus: None,
            is_shared: true,
            scale: 1.0,
            unit: None,
        };
        let attributes = of(&event, Some(&pmu), Options::default(), false).expect("attributes");
        assert_eq!((attributes.type_, attributes.exclude_kernel()), (17, 1));
        let config = [attributes.config, attributes.config1, attributes.config2];
        assert_eq!((config, attributes.config3), ([1, 2, 3], 4));
    }

    /// K-01, K-20: 0 stands for the default where there is something to run.
    #[test]
    fn a_program_without_a_period_runs_after_the_default() {
        for (name, period) in [("page-faults", DEFAULT_PERIOD), ("tracepoint:7", 0)] {
            let event = EventSpec::from_name(name).expect(name);
            let attributes = of(&event, None, Options::default(), true).expect(name);
            assert_eq!(attributes.sample_period, period, "{name}");
        }
    }

    #[test]
    fn what_linux_does_not_count_names_what_it_counts_instead() {
        for (name, instead) in [
            ("system-calls", "raw_syscalls:sys_enter"),
            ("interrupts", "irq:irq_handler_entry"),
        ] {
            let event = EventSpec::from_name(name).expect(name);
            let error = of(&event, None, Options::default(), false).expect_err(name);
            let sentence = error.to_string();
            assert!(
                sentence.contains(name) && sentence.contains(instead),
                "{sentence}"
            );
        }
    }
}
