//! Callers by the compiler's unwind tables, for programs that keep no frame pointers.
//!
//! A sampler on the machine copies registers and the top of the stack; [`Unwinder`] finds the
//! return addresses on it later, with the `.eh_frame` sections of the images that were loaded
//! (System V ABI; DWARF 5, section 6.4). x86-64, AArch64 and 64-bit RISC-V are known.
//!
//! # Why not framehop
//! framehop does the same for samply, and does it well. It knows x86-64 and AArch64 only, brings a
//! second gimli beside the one that addr2line shares with this crate, and follows no registers but
//! the stack pointer and the frame pointer. What is left to do with gimli's own reader is to apply
//! the rules of a row, which is this module.
//!
//! # Bounds
//! A chain has at most the depth asked for. The rules of an address are read once and kept, so that
//! memory grows with the distinct addresses. An expression stops after [`OPERATIONS`] operations.
//! Nothing outside the copy of the stack is read.

mod machine;
mod stack;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

use gimli::{
    CfaRule, Encoding, EvaluationResult, Location, Piece, Register, RegisterRule, UnwindContext,
    UnwindExpression, Value,
};
use object::Object;

use crate::image::{Loaded, holds};
use machine::{Machine, REGISTERS};
pub use stack::StackCopy;
use table::{Rules, Table};

/// Most operations of an expression in a table. Compilers and linkers write up to a dozen.
const OPERATIONS: u32 = 256;

/// Registers of an interrupted thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// The instruction that would have been next.
    pub ip: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer: `rbp`, `x29`, or `s0`. A program without frame pointers uses it as any
    /// other register; tables may refer to it all the same.
    pub fp: u64,
    /// The link register, on machines with one: `x30`, or `ra`. Without it, callers of a function
    /// that keeps its return address there are not found.
    pub link: Option<u64>,
}

/// Why a chain of callers ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainEnd {
    /// The thread's first function was reached.
    Outermost,
    /// There are more callers than asked for.
    Depth,
    /// The next return address is not in the copy of the stack.
    StackCopy,
    /// No image with a table is at this address, and the frame pointer leads to no caller.
    NoTable(u64),
    /// The table at this address asks for a register that was not recorded.
    NoRegister(u64),
    /// The table at this address is damaged, or contradicts the stack.
    Damaged(u64),
}

/// The callers of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Return addresses, the innermost first. The instruction itself is not among them.
    pub callers: Vec<u64>,
    /// Why there are no more.
    pub end: ChainEnd,
}

/// An image with its unwind table.
#[derive(Debug)]
struct Tabled<'d> {
    /// Addresses of code as linked, sorted.
    code: Vec<Range<u64>>,
    /// How far above them it was loaded.
    bias: u64,
    table: Table<'d>,
}

/// Finds the callers of instructions in a set of loaded images.
#[derive(Debug)]
pub struct Unwinder<'d> {
    machine: Option<&'static Machine>,
    images: Vec<Tabled<'d>>,
    /// The rules by address; `None` where no table covers it, an error where one is damaged.
    rules: HashMap<u64, Result<Option<Rules>, gimli::Error>>,
    context: UnwindContext<usize>,
}

/// A function's frame: its registers as far as they are known.
#[derive(Clone, Debug)]
struct Frame {
    ip: u64,
    /// Whether `ip` is an interrupted instruction, not a return address.
    is_exact: bool,
    registers: [Option<u64>; REGISTERS],
}

impl Frame {
    fn get(&self, register: Register) -> Option<u64> {
        self.registers.get(usize::from(register.0)).copied()?
    }

    fn set(&mut self, register: Register, value: Option<u64>) {
        if let Some(known) = self.registers.get_mut(usize::from(register.0)) {
            *known = value;
        }
    }

    /// The address whose rules apply. A return address may already belong to another function, or
    /// to a row behind the call.
    fn lookup(&self) -> u64 {
        self.ip.wrapping_sub(u64::from(!self.is_exact))
    }
}

impl<'d> Unwinder<'d> {
    /// Reads the tables of all images. Those for another machine than the first are left out.
    pub fn new<'i>(images: impl IntoIterator<Item = Loaded<'i, 'd>>) -> Unwinder<'d>
    where
        'd: 'i,
    {
        let mut machine = None;
        let mut known = Vec::new();
        for Loaded { image, bias } in images {
            let Some(own) = Machine::of(image.file().architecture()) else {
                continue;
            };
            if own == *machine.get_or_insert(own) {
                let (code, table) = (image.code().to_vec(), Table::of(image.file(), own));
                known.push(Tabled { code, bias, table });
            }
        }
        Unwinder::with(machine, known)
    }

    fn with(machine: Option<&'static Machine>, images: Vec<Tabled<'d>>) -> Unwinder<'d> {
        Unwinder {
            machine,
            images,
            rules: HashMap::new(),
            context: UnwindContext::new(),
        }
    }

    /// The callers of the interrupted instruction, at most `depth`.
    pub fn callers(&mut self, registers: Registers, stack: StackCopy<'_>, depth: usize) -> Chain {
        let mut callers = Vec::new();
        let Some(machine) = self.machine else {
            let end = ChainEnd::NoTable(registers.ip);
            return Chain { callers, end };
        };
        let mut frame = Frame {
            ip: registers.ip,
            is_exact: true,
            registers: [None; REGISTERS],
        };
        frame.set(machine.sp, Some(registers.sp));
        frame.set(machine.fp, Some(registers.fp));
        if let Some(link) = machine.link {
            frame.set(link, registers.link);
        }
        let end = loop {
            match self.caller(machine, &frame, stack) {
                Err(end) => break end,
                Ok(_) if callers.len() == depth => break ChainEnd::Depth,
                Ok(caller) => {
                    callers.push(caller.ip);
                    frame = caller;
                }
            }
        };
        Chain { callers, end }
    }

    /// The caller's frame.
    fn caller(
        &mut self,
        machine: &Machine,
        frame: &Frame,
        stack: StackCopy<'_>,
    ) -> Result<Frame, ChainEnd> {
        let address = frame.lookup();
        let (images, context) = (&self.images, &mut self.context);
        let rules = self
            .rules
            .entry(address)
            .or_insert_with(|| rules_at(images, address, context));
        let rules = match rules {
            Err(_) => return Err(ChainEnd::Damaged(frame.ip)),
            Ok(None) => return self.by_frame_pointer(machine, frame, stack),
            Ok(Some(rules)) => rules,
        };
        let step = Step {
            machine,
            frame,
            stack,
            images,
            rules,
        };
        let mut caller = step.caller()?;
        caller.ip = self.return_address(machine, caller.ip);
        if caller.ip == 0 {
            return Err(ChainEnd::Outermost);
        }
        Ok(caller)
    }

    /// The caller's frame by the frame pointer, for code without a table. The record is believed
    /// only if it is above the stack pointer and leads to code.
    fn by_frame_pointer(
        &self,
        machine: &Machine,
        frame: &Frame,
        stack: StackCopy<'_>,
    ) -> Result<Frame, ChainEnd> {
        let none = ChainEnd::NoTable(frame.ip);
        let record = &machine.record;
        let fp = frame.get(machine.fp).ok_or(none)?;
        let lowest = frame.get(machine.sp).unwrap_or(stack.address);
        let at = |offset: i64| fp.wrapping_add_signed(offset);
        if !fp.is_multiple_of(8) || at(record.fp) < lowest {
            return Err(none);
        }
        let ip = stack.word(at(record.return_address)).ok_or(none)?;
        let ip = self.return_address(machine, ip);
        if !self.is_code(ip.wrapping_sub(1)) {
            return Err(none);
        }
        let mut caller = Frame {
            ip,
            is_exact: false,
            registers: [None; REGISTERS],
        };
        caller.set(machine.fp, stack.word(at(record.fp)));
        caller.set(machine.sp, record.sp.map(at));
        Ok(caller)
    }

    fn is_code(&self, address: u64) -> bool {
        let mut images = self.images.iter();
        images.any(|image| holds(&image.code, address.wrapping_sub(image.bias)))
    }

    fn return_address(&self, machine: &Machine, address: u64) -> u64 {
        match self.is_code(address.wrapping_sub(1)) {
            true => address,
            false => machine.without_signature(address),
        }
    }
}

/// The rules of the first image whose table covers the address.
fn rules_at(
    images: &[Tabled<'_>],
    address: u64,
    context: &mut UnwindContext<usize>,
) -> Result<Option<Rules>, gimli::Error> {
    for (number, image) in images.iter().enumerate() {
        let linked = address.wrapping_sub(image.bias);
        if let Some(rules) = image.table.rules(number, linked, context)? {
            return Ok(Some(rules));
        }
    }
    Ok(None)
}

/// The step from a function to its caller.
struct Step<'s, 'd> {
    machine: &'s Machine,
    frame: &'s Frame,
    stack: StackCopy<'s>,
    images: &'s [Tabled<'d>],
    rules: &'s Rules,
}

impl Step<'_, '_> {
    fn caller(&self) -> Result<Frame, ChainEnd> {
        let (machine, frame, rules) = (self.machine, self.frame, self.rules);
        if let Some(RegisterRule::Undefined) = self.rule(rules.return_address) {
            return Err(ChainEnd::Outermost);
        }
        let cfa = self.cfa()?;
        // Only a leaf function may leave the stack as it found it. A signal may come on a stack of
        // its own.
        let advances = match frame.get(machine.sp) {
            Some(sp) if frame.is_exact => cfa >= sp,
            Some(sp) => cfa > sp,
            None => true,
        };
        if !advances && !rules.is_signal {
            return Err(self.damaged());
        }
        let mut caller = Frame {
            ip: 0,
            is_exact: rules.is_signal,
            registers: frame.registers,
        };
        caller.set(machine.sp, Some(cfa));
        if let Some(overwritten) = machine.link {
            caller.set(overwritten, None);
        }
        for (register, rule) in &rules.registers {
            if *register != rules.return_address {
                caller.set(*register, self.value(*register, rule, cfa).unwrap_or(None));
            }
        }
        caller.ip = self.return_address(cfa)?;
        Ok(caller)
    }

    fn damaged(&self) -> ChainEnd {
        ChainEnd::Damaged(self.frame.ip)
    }

    fn rule(&self, register: Register) -> Option<&RegisterRule<usize>> {
        let mut rules = self.rules.registers.iter();
        rules.find_map(|(of, rule)| (*of == register).then_some(rule))
    }

    fn return_address(&self, cfa: u64) -> Result<u64, ChainEnd> {
        let column = self.rules.return_address;
        match self.rule(column) {
            // It is still where the call left it; behind a further call it would be lost.
            None | Some(RegisterRule::SameValue) => match self.frame.get(column) {
                Some(address) => Ok(address),
                None if self.frame.is_exact => Err(ChainEnd::NoRegister(self.frame.ip)),
                _ => Err(self.damaged()),
            },
            Some(rule) => {
                let value = self.value(column, rule, cfa)?;
                value.ok_or(ChainEnd::NoRegister(self.frame.ip))
            }
        }
    }

    /// The caller's stack pointer, from which the table counts.
    fn cfa(&self) -> Result<u64, ChainEnd> {
        match &self.rules.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                let base = self.known(*register)?;
                Ok(base.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(expression, None),
        }
    }

    fn known(&self, register: Register) -> Result<u64, ChainEnd> {
        let is_ip = self.machine.ip == Some(register);
        let value = match is_ip {
            true => Some(self.frame.ip),
            false => self.frame.get(register),
        };
        value.ok_or(ChainEnd::NoRegister(self.frame.ip))
    }

    /// The caller's value of a register, `None` if it is lost.
    fn value(
        &self,
        register: Register,
        rule: &RegisterRule<usize>,
        cfa: u64,
    ) -> Result<Option<u64>, ChainEnd> {
        let value = match rule {
            RegisterRule::Undefined => return Ok(None),
            RegisterRule::SameValue => return Ok(self.frame.get(register)),
            RegisterRule::Offset(offset) => self.word(cfa.wrapping_add_signed(*offset))?,
            RegisterRule::ValOffset(offset) => cfa.wrapping_add_signed(*offset),
            RegisterRule::Register(other) => return Ok(self.frame.get(*other)),
            RegisterRule::Expression(at) => self.word(self.evaluate(at, Some(cfa))?)?,
            RegisterRule::ValExpression(value) => self.evaluate(value, Some(cfa))?,
            RegisterRule::Constant(value) => *value,
            _ => return Err(self.damaged()),
        };
        Ok(Some(value))
    }

    fn word(&self, address: u64) -> Result<u64, ChainEnd> {
        self.stack.word(address).ok_or(ChainEnd::StackCopy)
    }

    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        initial: Option<u64>,
    ) -> Result<u64, ChainEnd> {
        let damaged = |_| self.damaged();
        let image = self.images.get(self.rules.table);
        let table = &image.ok_or(self.damaged())?.table;
        let encoding: Encoding = self.rules.encoding;
        let bytes = expression.get(&table.section).map_err(damaged)?;
        let mut evaluation = bytes.evaluation(encoding);
        evaluation.set_max_iterations(OPERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().map_err(damaged)?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.known(register)?))
                }
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = self.stack.part(address, size);
                    evaluation.resume_with_memory(Value::Generic(word.ok_or(ChainEnd::StackCopy)?))
                }
                _ => return Err(self.damaged()),
            }
            .map_err(damaged)?;
        }
        match evaluation.as_result() {
            [
                Piece {
                    location: Location::Address { address },
                    ..
                },
            ] => Ok(*address),
            [
                Piece {
                    location: Location::Value { value },
                    ..
                },
            ] => value.to_u64(u64::MAX).map_err(damaged),
            _ => Err(self.damaged()),
        }
    }
}
