//! The used part of QEMU's plugin API, declared from its documentation (docs/devel/tcg-plugins).
//! The symbols are in the QEMU program that loads the plugin.

use std::ffi::{c_char, c_int, c_uint, c_void};
#[cfg(not(feature = "api-4"))]
use std::slice;

/// The API version of the plugin, which QEMU reads first.
#[unsafe(no_mangle)]
#[used]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = if cfg!(feature = "api-4") { 4 } else { 1 };

#[cfg(not(any(feature = "api-1", feature = "api-4")))]
compile_error!(
    "choose the plugin API of your QEMU: feature `api-1` (QEMU 6.0 to 8.1) or `api-4` (9.2 and \
     later)"
);

/// QEMU's id of this plugin.
pub type Id = u64;
/// `QEMU_PLUGIN_CB_NO_REGS`: the callbacks read no registers.
pub const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`. QEMU 7.2 confuses loads and stores if only one of them is requested.
pub const LOADS_AND_STORES: c_int = 3;

/// `qemu_info_t`, of which only the first member is read.
#[repr(C)]
pub struct Info {
    /// The architecture: `riscv64`.
    pub target_name: *const c_char,
    _rest: [u8; 0],
}

/// A block of instructions that QEMU is translating.
#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}

/// An instruction of a block that QEMU is translating.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// Called for a block.
pub type OnBlock = extern "C" fn(Id, *mut Block);
/// Called before an instruction is executed: CPU, user data.
pub type OnInstruction = extern "C" fn(c_uint, *mut c_void);
/// Called for a load or store: CPU, kind, address, user data.
pub type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// Called at exit.
pub type OnExit = extern "C" fn(Id, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, call: OnBlock);
    pub fn qemu_plugin_register_atexit_cb(id: Id, call: OnExit, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    #[cfg(not(feature = "api-4"))]
    fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
    #[cfg(feature = "api-4")]
    fn qemu_plugin_insn_data(instruction: *const Instruction, to: *mut u8, size: usize) -> usize;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        call: OnInstruction,
        registers: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        call: OnAccess,
        registers: c_int,
        accesses: c_int,
        data: *mut c_void,
    );
}

/// Whether the access loads, and whether it stores. An atomic operation does both; QEMU has a
/// function only for the store, but both bits are in the upper half of the word.
pub fn access(info: u32) -> (bool, bool) {
    // SAFETY: the function only inspects the word.
    let stores = unsafe { qemu_plugin_mem_is_store(info) };
    (!stores || info >> 16 == LOADS_AND_STORES as u32, stores)
}

/// The instruction's bytes.
///
/// # Safety
/// `instruction` must be in a block that QEMU is translating.
pub unsafe fn bytes(instruction: *const Instruction) -> Vec<u8> {
    // SAFETY: the caller's promise; QEMU gives the size of the bytes that it has.
    unsafe {
        let size = qemu_plugin_insn_size(instruction);
        #[cfg(not(feature = "api-4"))]
        return slice::from_raw_parts(qemu_plugin_insn_data(instruction), size).to_vec();
        #[cfg(feature = "api-4")]
        {
            let mut bytes = vec![0; size];
            let copied = qemu_plugin_insn_data(instruction, bytes.as_mut_ptr(), size);
            bytes.truncate(copied);
            bytes
        }
    }
}
