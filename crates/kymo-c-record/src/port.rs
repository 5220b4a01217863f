//! What the kernel defines: five functions, the memory, and functions in the configuration.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, compiler_fence};

use kymo::Refused;
use kymo::count::GroupSpec;
#[cfg(not(feature = "nmi"))]
use kymo::platform::Masked;
#[cfg(feature = "nmi")]
use kymo::platform::MaskedCas;
use kymo::platform::{ByPointer, Call, Control, ControlPointer, Interrupts, Platform};
use kymo::ring::layout::CONTROL_OFFSET;
use kymo::sample::{Places, SamplerOver};
use kymo::vocabulary::Sampling;

unsafe extern "C" {
    /// The clock, in ticks.
    safe fn kymo_port_clock() -> u64;
    /// Ticks a second; 0 where it is not known yet.
    pub safe fn kymo_port_frequency() -> u64;
    /// The number of this CPU, from 0.
    #[cfg(not(feature = "one-cpu"))]
    safe fn kymo_port_cpu() -> u32;
    /// Masks the interrupts of this CPU; returns what `kymo_port_unmask` needs.
    safe fn kymo_port_mask() -> usize;
    /// Puts back what `kymo_port_mask` found.
    safe fn kymo_port_unmask(saved: usize);

    /// The first byte of the memory, which the macro `KYMO_MEMORY` defines.
    static mut kymo_memory: u8;
    /// Its size in bytes.
    pub safe static kymo_memory_size: usize;
    /// The number of CPUs that it has control blocks for.
    pub safe static kymo_memory_cpus: u32;
    /// Words of counters of each CPU, behind its control blocks.
    pub safe static kymo_memory_counters: u32;
    /// Bytes from a CPU's control blocks to the next one's: those of the blocks and the counters.
    #[cfg(not(feature = "one-cpu"))]
    safe static kymo_memory_stride: u32;
}

/// The first byte of the memory.
pub fn memory() -> *mut u8 {
    &raw mut kymo_memory
}

/// What the kernel's configuration may have besides: addresses of functions, 0 for none.
pub static DUMP_STATE: AtomicUsize = AtomicUsize::new(0);
/// See [`DUMP_STATE`].
pub static SYNCHRONIZE: AtomicUsize = AtomicUsize::new(0);
/// See [`DUMP_STATE`].
pub static SAMPLING: AtomicUsize = AtomicUsize::new(0);
/// What the session's samples are taken with; null for nothing.
pub static SAMPLER: AtomicPtr<CSampler> = AtomicPtr::new(core::ptr::null_mut());

/// The kernel's function that has all CPUs call `kymo_counting_tick`; see [`DUMP_STATE`].
pub static NOTICE: AtomicUsize = AtomicUsize::new(0);

/// Whether the caller may make a call; 0 where all may.
pub static PERMITS: AtomicUsize = AtomicUsize::new(0);

/// `struct kymo_sampler`: what `KYMO_SAMPLER` defines.
#[derive(Debug)]
#[repr(C)]
pub struct CSampler {
    /// A [`SamplerOver`] of places for as many CPUs, zero at first.
    memory: *const Places,
    cpus: u32,
    /// What records the contexts of events, of the crate `kymo-c`; null for nothing.
    pub contexts: *const u8,
    /// Fills in a `struct kymo_sample`: what runs, and where its callers are.
    pub here: Option<extern "C" fn(*mut u8)>,
}

/// The macro `KYMO_SAMPLER` has these numbers.
const _: () = assert!(
    size_of::<Places>() == 256 * size_of::<usize>()
        && size_of::<SamplerOver<[Places; 1]>>() == 128 + size_of::<Places>()
);

/// What the session's samples are taken with.
pub fn sampler() -> Option<&'static SamplerOver<[Places]>> {
    // SAFETY: null, or one that lives for ever.
    let sampler = unsafe { SAMPLER.load(Relaxed).as_ref() }?;
    let places = core::ptr::slice_from_raw_parts(sampler.memory, sampler.cpus as usize);
    // SAFETY: the macro has made it for so many CPUs, aligned and of zeros, which is a good one.
    unsafe { (places as *const SamplerOver<[Places]>).as_ref() }
}

fn call(function: &AtomicUsize) -> bool {
    let address = function.load(Relaxed);
    if address != 0 {
        // SAFETY: `opens` stored a function of this type, as C's type checker has seen.
        let function: extern "C" fn() = unsafe { core::mem::transmute(address) };
        function();
    }
    address != 0
}

/// Has all CPUs call `kymo_counting_tick`, if the kernel has a function for that.
pub fn notice() -> bool {
    call(&NOTICE)
}

/// The number of this CPU.
pub fn cpu() -> usize {
    #[cfg(feature = "one-cpu")]
    return 0;
    #[cfg(not(feature = "one-cpu"))]
    return kymo_port_cpu() as usize;
}

/// The kernel.
#[derive(Debug)]
pub struct Port;

/// The kernel's masking.
#[derive(Debug)]
pub struct PortInterrupts;

// SAFETY: the header asks for functions that keep everything which records off this CPU.
unsafe impl Interrupts for PortInterrupts {
    #[inline(always)]
    fn mask() -> usize {
        kymo_port_mask()
    }
    #[inline(always)]
    fn restore(saved: usize) {
        kymo_port_unmask(saved);
    }
}

// SAFETY: the blocks of each CPU are its own, in memory that is the kernel's for ever. The macro
// that defines it makes room for the blocks of all CPUs that it tells.
unsafe impl ControlPointer for Port {
    const NEVER_NULL: bool = cfg!(feature = "one-cpu");

    #[inline(always)]
    fn get() -> *const Control {
        let first = memory().wrapping_add(CONTROL_OFFSET);
        #[cfg(not(feature = "one-cpu"))]
        let first = {
            let cpu = kymo_port_cpu();
            if cpu >= kymo_memory_cpus {
                return core::ptr::null();
            }
            first.wrapping_add(cpu as usize * kymo_memory_stride as usize)
        };
        first.cast_const().cast()
    }
}

#[cfg(all(feature = "nmi", not(target_pointer_width = "64")))]
compile_error!("NMIs can record on 64-bit processors only");

// SAFETY: see `ControlPointer` above. Whoever records has interrupts masked, or the strategy masks
// them, which pins. The header asks that what a record calls records nothing, and that no NMI does
// unless the library was built for it.
unsafe impl Platform for Port {
    #[cfg(not(feature = "nmi"))]
    type Reserve = Masked<PortInterrupts>;
    #[cfg(feature = "nmi")]
    type Reserve = MaskedCas<PortInterrupts>;
    type Local = ByPointer<Port>;

    #[inline(always)]
    fn clock() -> u64 {
        kymo_port_clock()
    }

    /// With one CPU nobody is inside a record while other code runs.
    fn synchronize() {
        compiler_fence(core::sync::atomic::Ordering::SeqCst);
        call(&SYNCHRONIZE);
    }

    fn dump_state() {
        call(&DUMP_STATE);
    }

    fn permits(call: Call) -> bool {
        let address = PERMITS.load(Relaxed);
        if address == 0 {
            return true;
        }
        // `enum kymo_call`.
        let number = match call {
            Call::Start => 0,
            Call::Read => 1,
            Call::Stop => 2,
            Call::Finish => 3,
            Call::Switch => 4,
            Call::Snapshot => 5,
            _ => return false,
        };
        // SAFETY: `kymo_set_permits` stored a function of this type, as C's type checker has seen.
        let permits: extern "C" fn(u32) -> bool = unsafe { core::mem::transmute(address) };
        permits(number)
    }

    /// The library looks at groups before the start, and tells the CPUs.
    fn counting(_: Option<&GroupSpec>) -> Result<(), Refused> {
        Ok(())
    }

    fn sampling(sampling: &Sampling) {
        let Some(sampler) = sampler() else { return };
        // Without samples, events' callers go as deep as before.
        let depth = match sampling.period {
            0 => sampler.depth(),
            _ => sampling.depth,
        };
        sampler.set(&Sampling { depth, ..*sampling });
        let address = SAMPLING.load(Relaxed);
        if address != 0 {
            // SAFETY: `start` stored a function of this type, as C's type checker has seen.
            let tell: extern "C" fn(u64) = unsafe { core::mem::transmute(address) };
            tell(sampling.period);
        }
    }
}
