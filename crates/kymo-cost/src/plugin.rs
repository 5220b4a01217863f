//! The callbacks for QEMU: at installation, for every translated block, for every executed
//! instruction that is counted, and at exit.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::arguments::{self, Arguments, Function, Range};
use crate::call::{Calls, Insn, Quantity, Sum};
use crate::cpus::Cpus;
use crate::decode::{Accesses, Isa};
use crate::qemu;
use crate::report::{self, Counted};

/// The plugin's state, set at installation.
struct Plugin {
    target: String,
    isa: Isa,
    functions: Vec<Function>,
    /// The ranges of all functions, joined and sorted, as most blocks lie in none.
    counted: Vec<Range>,
    out: Option<PathBuf>,
    /// Id of the process that loaded the plugin: a forked child has its parent's counts and must
    /// not report.
    process: u32,
    /// Every instruction so far, never removed: code that is translated again reuses its entries.
    /// The bytes are part of the key, as another program or version of the code may be at the same
    /// address.
    instructions: Mutex<HashMap<Key, &'static Insn>>,
}

/// Function, address, bytes.
type Key = (usize, u64, Vec<u8>);

/// The counts of a CPU, by function.
type Cpu = Vec<Calls>;

static PLUGIN: OnceLock<Plugin> = OnceLock::new();
/// The counts of all CPUs.
static CPUS: Cpus<Cpu> = Cpus::new();

/// Called by QEMU when it loads the plugin. A nonzero result makes QEMU exit.
///
/// # Safety
/// As QEMU guarantees, `info` points to its description and `argv` to `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu::Id,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let text = |pointer: *const c_char| {
        // SAFETY: QEMU's promise.
        unsafe { CStr::from_ptr(pointer) }
            .to_string_lossy()
            .into_owned()
    };
    // SAFETY: as above.
    let target = text(unsafe { (*info).target_name });
    // SAFETY: as above.
    let words: Vec<String> = (0..argc.max(0) as usize)
        .map(|index| text(unsafe { *argv.add(index) }))
        .collect();
    let plugin = match install(&words, target) {
        Ok(plugin) => plugin,
        Err(sentence) => return refuse(&sentence),
    };
    if PLUGIN.set(plugin).is_err() {
        return refuse("it is given twice: one -plugin takes any number of ranges.");
    }
    // SAFETY: the id is ours, and the functions have the types that QEMU calls.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu::qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut());
    }
    0
}

fn refuse(sentence: &str) -> c_int {
    say(&format!("kymo-cost: {sentence}\n"));
    1
}

/// Prints to the standard error, and ignores failures: the program shares it and may have closed
/// it.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The arguments, with those in a file in place of `from=`: a command line has no room for many.
fn with_files(words: &[String]) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for word in words {
        match word.strip_prefix("from=") {
            Some(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| format!("the file {path} cannot be read: {error}."))?;
                all.extend(text.lines().map(str::to_owned));
            }
            None => all.push(word.clone()),
        }
    }
    Ok(all)
}

fn install(words: &[String], target: String) -> Result<Plugin, String> {
    let words = with_files(words)?;
    let Arguments { functions, out } = arguments::parse(words.iter().map(String::as_str))
        .map_err(|arguments::Error(sentence)| sentence)?;
    let out = out.map(|path| {
        // Create the file now, to report an error early, and use its full path, as a program may
        // change its directory.
        let made =
            std::path::absolute(&path).and_then(|path| fs::File::create(&path).map(|_| path));
        made.map_err(|error| format!("the file {} cannot be made: {error}.", path.display()))
    });
    let out = out.transpose()?;
    let mut counted: Vec<Range> = functions
        .iter()
        .flat_map(|function| function.ranges.iter().copied())
        .collect();
    counted.sort_by_key(|range| range.start);
    counted.dedup_by(|next, range| {
        let joins = next.start <= range.end;
        if joins {
            range.end = range.end.max(next.end);
        }
        joins
    });
    let isa = Isa::named(&target);
    Ok(Plugin {
        target,
        isa,
        functions,
        counted,
        out,
        process: std::process::id(),
        instructions: Mutex::default(),
    })
}

extern "C" fn translated(_: qemu::Id, block: *mut qemu::Block) {
    let Some(plugin) = PLUGIN.get() else { return };
    // SAFETY: QEMU is translating this block, which has this many instructions.
    let count = unsafe { qemu::qemu_plugin_tb_n_insns(block) };
    for index in 0..count {
        // SAFETY: as above.
        let (instruction, pc) = unsafe {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            (instruction, qemu::qemu_plugin_insn_vaddr(instruction))
        };
        let place = plugin.counted.partition_point(|range| range.end <= pc);
        if plugin
            .counted
            .get(place)
            .is_some_and(|range| range.contains(pc))
        {
            // SAFETY: as above.
            unsafe { instrument(plugin, instruction, pc) };
        }
    }
}

/// Registers callbacks for an instruction, once for each function that contains it.
///
/// # Safety
/// `instruction` must be in a block that QEMU is translating.
unsafe fn instrument(plugin: &Plugin, instruction: *mut qemu::Instruction, pc: u64) {
    // SAFETY: the caller's promise.
    let bytes = unsafe { qemu::bytes(instruction) };
    let (flow, accesses) = (plugin.isa.flow(pc, &bytes), plugin.isa.accesses(&bytes));
    let loads_byte = plugin.isa.loads_byte(&bytes);
    for (number, function) in plugin
        .functions
        .iter()
        .enumerate()
        .filter(|(_, function)| function.contains(pc))
    {
        let mut known = plugin
            .instructions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let insn: &'static Insn = known.entry((number, pc, bytes.clone())).or_insert_with(|| {
            // Translated code refers to it until QEMU exits.
            Box::leak(Box::new(Insn::new(
                number,
                function,
                pc,
                bytes.len() as u64,
                flow,
                accesses,
                loads_byte,
            )))
        });
        let data = std::ptr::from_ref::<Insn>(insn).cast_mut().cast::<c_void>();
        // SAFETY: the caller's promise; `data` lives forever.
        unsafe {
            qemu::qemu_plugin_register_vcpu_insn_exec_cb(
                instruction,
                executed,
                qemu::NO_REGISTERS,
                data,
            );
            if accesses == Accesses::Reported {
                qemu::qemu_plugin_register_vcpu_mem_cb(
                    instruction,
                    accessed,
                    qemu::NO_REGISTERS,
                    qemu::LOADS_AND_STORES,
                    data,
                );
            }
        }
    }
}

/// The counters of this instruction's function on this CPU.
#[inline(always)]
fn calls(cpu: c_uint, insn: &Insn) -> Option<&'static Calls> {
    CPUS.get(cpu).or_else(|| new_cpu(cpu))?.get(insn.function)
}

#[cold]
fn new_cpu(cpu: c_uint) -> Option<&'static Cpu> {
    let functions = PLUGIN.get()?.functions.len();
    CPUS.get_or_make(cpu, || (0..functions).map(|_| Calls::default()).collect())
}

extern "C" fn executed(cpu: c_uint, data: *mut c_void) {
    // SAFETY: `instrument` passed a `&'static Insn`.
    let insn: &'static Insn = unsafe { &*data.cast::<Insn>() };
    if let Some(calls) = calls(cpu, insn) {
        calls.executed(insn);
    }
}

extern "C" fn accessed(cpu: c_uint, info: u32, _: u64, data: *mut c_void) {
    // SAFETY: `instrument` passed a `&'static Insn`.
    let insn: &'static Insn = unsafe { &*data.cast::<Insn>() };
    if let Some(calls) = calls(cpu, insn) {
        let (loads, stores) = qemu::access(info);
        if loads {
            calls.accessed(Quantity::Loads);
        }
        if stores {
            calls.accessed(Quantity::Stores);
        }
    }
}

extern "C" fn ended(_: qemu::Id, _: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return };
    if plugin.process != std::process::id() {
        return;
    }
    let counted: Vec<Counted<'_>> = plugin
        .functions
        .iter()
        .enumerate()
        .map(|(number, function)| count(number, function))
        .collect();
    match &plugin.out {
        None => say(&report::text(&counted)),
        Some(path) => {
            let json = report::json(&plugin.target, qemu::qemu_plugin_version, &counted);
            if let Err(error) = fs::write(path, json) {
                say(&format!(
                    "kymo-cost: the report {} cannot be written: {error}.\n",
                    path.display()
                ));
            }
        }
    }
}

fn count(number: usize, function: &Function) -> Counted<'_> {
    let (mut all, mut cpus) = (Sum::default(), Vec::new());
    for (cpu, calls) in CPUS.iter() {
        let Some(calls) = calls.get(number) else {
            continue;
        };
        let mut sum = Sum::default();
        calls.add_to(&mut sum);
        calls.add_to(&mut all);
        if sum.totals != [0; 3] {
            cpus.push((cpu, sum));
        }
    }
    Counted {
        function,
        all,
        cpus,
    }
}
