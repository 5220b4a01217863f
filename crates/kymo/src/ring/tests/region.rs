//! Memory and configurations: what a region is laid out in, and what is refused.

use super::*;
use crate::ring::config::Error;

#[test]
fn control_blocks_beyond_the_memorys_cpus_do_not_exist() {
    let memory = memory();
    assert!(!memory.control(1).is_null());
    assert!(memory.control(2).is_null());
    // SAFETY: as `memory`; too small for its CPUs.
    let small = unsafe { Memory::new(std::ptr::without_provenance_mut(4096), 4096 + 512, 2) };
    assert!(small.control(0).is_null());
    // SAFETY: never touched, because it is refused.
    let odd = unsafe { Memory::new(std::ptr::without_provenance_mut(4096 + 64), 1 << 20, 2) };
    let config = config(Overflow::Discard, Consumer::None, 256, 4);
    let refused = odd.form::<Cpu<LocalCas>>(&config, LocalCas::KIND, &RECORDS);
    assert_eq!(refused, Err(Error::Alignment));
}

#[test]
fn a_configuration_that_cannot_work_is_refused_in_words() {
    let good = config(Overflow::Overwrite, Consumer::None, 256, 4);
    let small = memory();
    for bad in [
        Config { cpus: 0, ..good },
        Config { cpus: 3, ..good },
        Config {
            packet_size: 300,
            ..good
        },
        Config {
            packet_size: 128,
            ..good
        },
        Config { packets: 3, ..good },
        #[cfg(target_pointer_width = "64")]
        Config { packets: 5, ..good },
        Config {
            clock: Clock {
                frequency_hz: 0,
                ..good.clock
            },
            ..good
        },
        Config {
            packets: 1 << 20,
            ..good
        },
    ] {
        let error = small
            .form::<Cpu<LocalCas>>(&bad, LocalCas::KIND, &RECORDS)
            .unwrap_err();
        assert!(error.to_string().len() > 20, "{error}");
    }
    // The error says how many bytes would do.
    let large = Config {
        packets: 1 << 14,
        ..good
    };
    let form = |memory: &Memory| memory.form::<Cpu<LocalCas>>(&large, LocalCas::KIND, &RECORDS);
    let Err(Error::Memory(needed)) = form(&small) else {
        panic!("two megabytes hold eight")
    };
    assert!((8 << 20..9 << 20).contains(&needed), "{needed}");
    assert!(form(&leaked(needed, 2)).is_ok());
    for too_little in [needed - 8, 64] {
        assert_eq!(form(&leaked(too_little, 2)), Err(Error::Memory(needed)));
    }
    // However many CPUs the memory is for.
    for (cpus, can_be) in [(4096, true), (4097, false)] {
        let checked = Config { cpus, ..good }.check(u32::MAX, 4, LocalCas::KIND);
        assert_eq!(checked.is_ok(), can_be, "{cpus}");
    }
    type Writer = Masked<NoInterrupts>;
    let five = Config { packets: 5, ..good };
    let formed = small.form::<Cpu<Writer>>(&five, Writer::KIND, &RECORDS);
    assert!(formed.is_ok());
}
