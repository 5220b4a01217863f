//! How many events of the PMU a group may have.

use std::fs;
use std::path::Path;

use kymo::count::MAX_EVENTS;

use crate::error::Error;

/// The variable that states how many counters the PMU has.
pub const LIMIT_VARIABLE: &str = "KYMO_PERF_GROUP_MAX_EVENTS";

/// Number of counters if nothing says how many there are. Most PMUs have more for some events, and
/// the kernel does not tell; a larger group may open and then never run.
pub const DEFAULT_SLOTS: usize = 4;

/// Most counters that a group may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimit {
    /// The number.
    pub slots: usize,
    /// Who says so.
    pub source: LimitSource,
}

/// Who says how many counters there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// [`LIMIT_VARIABLE`].
    Variable,
    /// [`LIMIT_VARIABLE`], whose value was outside of 1 to 16.
    ClampedVariable(u64),
    /// The PMU's driver, in sysfs.
    Sysfs,
    /// Nobody: [`DEFAULT_SLOTS`].
    Default,
}

impl SlotLimit {
    /// The limit of this machine: [`LIMIT_VARIABLE`], else what the PMUs' drivers state
    /// (`/sys/bus/event_source/devices/*/caps/num_counters`), else [`DEFAULT_SLOTS`].
    ///
    /// # Errors
    /// [`Error::BadSetting`].
    pub fn of_machine() -> Result<SlotLimit, Error> {
        let variable = std::env::var_os(LIMIT_VARIABLE);
        let variable = variable.map(|value| value.to_string_lossy().into_owned());
        SlotLimit::of(
            variable.as_deref(),
            Path::new("/sys/bus/event_source/devices"),
        )
    }

    fn of(variable: Option<&str>, devices: &Path) -> Result<SlotLimit, Error> {
        let Some(value) = variable else {
            return Ok(match counters(devices) {
                Some(slots) => SlotLimit {
                    slots: slots.clamp(1, MAX_EVENTS),
                    source: LimitSource::Sysfs,
                },
                None => SlotLimit {
                    slots: DEFAULT_SLOTS,
                    source: LimitSource::Default,
                },
            });
        };
        let wanted: u64 = value.trim().parse().map_err(|_| Error::BadSetting {
            name: LIMIT_VARIABLE,
            value: value.to_owned(),
        })?;
        let most = MAX_EVENTS as u64;
        let slots = wanted.clamp(1, most);
        Ok(SlotLimit {
            slots: slots as usize,
            source: match slots == wanted {
                true => LimitSource::Variable,
                false => LimitSource::ClampedVariable(wanted),
            },
        })
    }

    /// A sentence if the limit is not what was asked for.
    pub fn message(&self) -> Option<String> {
        let LimitSource::ClampedVariable(wanted) = self.source else {
            return None;
        };
        Some(format!(
            "{LIMIT_VARIABLE} is {wanted}, and a group has 1 to {MAX_EVENTS} events; {} is used",
            self.slots
        ))
    }
}

/// The number of counters of the CPUs' PMUs, the smallest where they differ. PMUs that have a
/// `cpumask` are not of a CPU but of what several CPUs share.
fn counters(devices: &Path) -> Option<usize> {
    let devices = fs::read_dir(devices).ok()?;
    devices
        .filter_map(|device| {
            let device = device.ok()?.path();
            if device.join("cpumask").exists() {
                return None;
            }
            let number = fs::read_to_string(device.join("caps/num_counters")).ok()?;
            number.trim().parse().ok()
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// K-14, K-20: 32 is clamped to 16.
    #[test]
    fn the_variable_is_clamped_and_says_so() {
        let nowhere = Path::new("/nowhere");
        for (value, slots, says) in [
            ("1", 1, false),
            ("7", 7, false),
            (" 16\n", 16, false),
            ("32", 16, true),
            ("0", 1, true),
        ] {
            let limit = SlotLimit::of(Some(value), nowhere).expect(value);
            assert_eq!(limit.slots, slots, "{value}");
            let message = limit.message();
            assert_eq!(message.is_some(), says, "{value}");
            assert!(message.is_none_or(|text| text.contains(value) && text.contains("1 to 16")));
        }
        for value in ["", "four", "-1", "4.0"] {
            let error = SlotLimit::of(Some(value), nowhere).expect_err(value);
            assert!(error.to_string().contains(LIMIT_VARIABLE), "{error}");
        }
    }

    /// K-14.
    #[test]
    fn the_drivers_number_counts_before_the_default() {
        let devices = std::env::temp_dir().join(format!("kymo-limit-{}", std::process::id()));
        let limit = || SlotLimit::of(None, &devices).expect("a limit");
        let pmu = |name: &str, files: &[(&str, &str)]| {
            fs::create_dir_all(devices.join(name).join("caps")).expect("a folder");
            for (file, text) in files {
                fs::write(devices.join(name).join(file), text).expect("a file");
            }
        };
        let by = |slots, source| SlotLimit { slots, source };
        assert_eq!(limit(), by(4, LimitSource::Default));
        pmu("software", &[]);
        pmu(
            "uncore",
            &[("cpumask", "0\n"), ("caps/num_counters", "2\n")],
        );
        assert_eq!(limit(), by(4, LimitSource::Default));
        pmu("cpu_core", &[("caps/num_counters", "8\n")]);
        assert_eq!(limit(), by(8, LimitSource::Sysfs));
        pmu("cpu_atom", &[("caps/num_counters", "6\n")]);
        assert_eq!(limit(), by(6, LimitSource::Sysfs));
        fs::remove_dir_all(&devices).expect("removed");
    }
}
