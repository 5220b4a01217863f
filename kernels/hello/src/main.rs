//! The smallest kernel with Kymo: riscv64 on QEMU `virt`, up to 8 harts with two threads each, and
//! a timer.
//!
//! To port Kymo, copy the marked part of this file, and see the `trace!` lines in sched.rs.

#![no_std]
#![no_main]

mod cmdline;
mod console;
mod ledger;
mod sbi;
mod sched;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use cmdline::Settings;
use kymo::Tid;
use kymo::platform::{Control, Masked, Platform};
use kymo::vocabulary::{IrqEnter, IrqExit, SchedSwitch, ThreadName};

// ---- Kymo: from here ----

kymo::event! {
    /// A thread reached a point of interest. `seq` grows by one with every marker of the thread.
    #[id(21)]
    pub struct Marker { pub tid: Tid, pub seq: u32 }
}

/// The events of this kernel: the standard ones, and its own.
static VOCABULARY: kymo::Vocabulary =
    kymo::vocabulary![SchedSwitch, IrqEnter, IrqExit, ThreadName, Marker];

/// The tracer. `trace!` finds it by this name at the crate's root.
type Kymo = kymo::Tracer<Virt>;

struct Virt;

// SAFETY: boot.s points `tp` to the hart's control block before anything can trace, and nothing
// changes it afterwards. Only `sstatus` masks interrupts, and no thread moves to another hart.
unsafe impl Platform for Virt {
    type Reserve = Masked<kymo::arch::riscv::Sstatus>;
    type Local = kymo::arch::riscv::AtTp;

    fn clock() -> u64 {
        kymo::arch::riscv::time()
    }

    /// Returns at once: this kernel stops recording when the threads of all harts have ended.
    fn synchronize() {}
}

/// The memory to record into.
static REGION: kymo::RegionMemory<{ 40 << 20 }, MAX_HARTS> = kymo::RegionMemory::new();

/// The recorded events, for the kernel's own readers: `dump=N`, and a panic.
static HISTORY: kymo::History = kymo::History::new(REGION.memory(), &VOCABULARY);

/// The current hart, by the block in `tp`.
fn this_hart() -> u32 {
    let block: usize;
    // SAFETY: this only reads a register.
    unsafe { core::arch::asm!("mv {}, tp", out(reg) block) };
    (0..MAX_HARTS as u32)
        .find(|&cpu| REGION.control(cpu) as usize == block)
        .unwrap_or(0)
}

/// The value of `tp` on hart `cpu`. boot.s asks for it first: the block exists before the session,
/// with all switches off.
extern "C" fn kymo_block(cpu: u32) -> *const Control {
    REGION.control(cpu)
}

fn start_kymo(settings: &Settings, command_line: &str) -> Result<kymo::Session<Virt>, kymo::Error> {
    unsafe extern "C" {
        /// In link.ld: the id that the linker gave this image, so that a trace names the image
        /// which wrote it.
        safe static __build_id: [u8; 20];
    }
    // FNV-1a: a repeated run gives the same session id, another command line a different one.
    let seed = command_line
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
        });
    let config = kymo::Config {
        cpus: settings.cpus as u32,
        packet_size: settings.packet_size,
        packets: settings.packets,
        names_packets: 4,
        clock: kymo::Clock {
            frequency_hz: 10_000_000,
            offset_seconds: settings.offset_s,
            offset_ticks: 0,
            absolute: false,
        },
        phys: &raw const REGION as u64, // there is no paging
        build_id: __build_id,
        seed,
        ..kymo::Config::DEFAULT
    };
    Kymo::start_with(
        REGION.memory(),
        &settings.kymo.apply(&config),
        &VOCABULARY,
        |event| settings.kymo.records(event.name),
    )
}

// ---- Kymo: to here ----

const MAX_HARTS: usize = 8;
const STACK_SHIFT: usize = 14;

core::arch::global_asm!(
    include_str!("boot.s"),
    boot_main = sym boot_main,
    hart_main = sym hart_main,
    kymo_block = sym kymo_block,
    trap = sym sched::trap,
    max_harts = const MAX_HARTS,
    stack_shift = const STACK_SHIFT,
);

/// Number of harts whose threads have ended.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// Time at which the last of them ended.
static END: AtomicU64 = AtomicU64::new(0);

/// Whether the boot hart has arrived.
static BOOTED: AtomicBool = AtomicBool::new(false);
/// The settings for the other harts.
static SETTINGS: AtomicPtr<Settings> = AtomicPtr::new(core::ptr::null_mut());

/// Entry of the boot hart, which need not be hart 0.
extern "C" fn boot_main(cpu: usize, device_tree: *const [u32; 2]) -> ! {
    unsafe extern "C" {
        /// Entry of the other harts, in boot.s.
        fn start_hart();
    }
    // OpenSBI 1.1 starts a hart that is not asleep yet at the boot hart's entry instead of the
    // requested one.
    if BOOTED.swap(true, Ordering::Relaxed) {
        loop {
            // SAFETY: the first hart has stored a permanent address.
            if let Some(settings) = unsafe { SETTINGS.load(Ordering::Acquire).as_ref() } {
                hart_main(cpu, settings);
            }
            core::hint::spin_loop();
        }
    }
    // SAFETY: the firmware passes a device tree, nobody changes it, and its second word is its size
    // (big-endian).
    let tree = unsafe {
        let size = u32::from_be((*device_tree)[1]) as usize;
        core::slice::from_raw_parts(device_tree.cast::<u8>(), size)
    };
    let refuse = |why: core::fmt::Arguments<'_>| -> ! {
        println!("hello: {why}");
        console::exit(2)
    };
    let cpus = (0..).take_while(|&id| sbi::hart_exists(id)).count();
    assert!(
        cpus <= MAX_HARTS,
        "{cpus} harts are too many: start QEMU with -smp {MAX_HARTS}"
    );
    let line = cmdline::bootargs(tree).unwrap_or("");
    let settings = cmdline::parse(line, cpus).unwrap_or_else(|word| {
        refuse(format_args!(
            "cannot use \"{word}\" on the command line, which takes {}.",
            cmdline::KEYS
        ))
    });
    let start = || {
        start_kymo(&settings, line)
            .unwrap_or_else(|error| refuse(format_args!("cannot record with \"{line}\": {error}.")))
    };
    let session = (settings.kymo.start != Some(false)).then(start);
    match &session {
        Some(session) if settings.stopped => session.stop().expect("it has just begun"),
        Some(_) => println!("hello: recording on {cpus} harts"),
        None => {}
    }
    let begin = <Virt as Platform>::clock();

    let settings = &raw const settings;
    // SAFETY: this function never returns.
    let settings: &'static Settings = unsafe { &*settings };
    SETTINGS.store(core::ptr::from_ref(settings).cast_mut(), Ordering::Release);
    for other in (0..cpus).filter(|&other| other != cpu) {
        sbi::start_hart(
            other,
            start_hart as *const () as usize,
            settings as *const Settings as usize,
        );
    }
    sched::run(cpu, settings);
    END.fetch_max(<Virt as Platform>::clock(), Ordering::Relaxed);
    while DONE.load(Ordering::Acquire) < cpus - 1 {
        sched::sleep_until(<Virt as Platform>::clock() + 10_000);
    }
    if let Some(session) = session.filter(|_| !settings.stopped) {
        session.stop().expect("nobody else has stopped it");
    }
    if settings.units != u32::MAX {
        let units = settings.units as usize * 2 * cpus;
        println!(
            "hello: {units} units of work in {} ticks",
            END.load(Ordering::Relaxed) - begin
        );
    }
    for (cpu, words) in ledger::LEDGER.harts[..cpus].iter().enumerate() {
        let [switch, enter, exit, name, marker, a, b, _] =
            words.each_ref().map(|word| word.load(Ordering::Relaxed));
        println!(
            "hart {cpu}: switch={switch} irq_enter={enter} irq_exit={exit} thread_name={name} \
             marker={marker} last={a},{b}"
        );
    }
    if kymo::COMPILED_IN && settings.dump > 0 {
        let _ = HISTORY.dump(&mut console::Serial, settings.dump);
    }
    console::exit(0)
}

/// Entry of every other hart.
extern "C" fn hart_main(cpu: usize, settings: &'static Settings) -> ! {
    sched::run(cpu, settings);
    END.fetch_max(<Virt as Platform>::clock(), Ordering::Relaxed);
    DONE.fetch_add(1, Ordering::Release);
    loop {
        sched::sleep_until(u64::MAX);
    }
}
