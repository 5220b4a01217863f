//! The unwind table of an image: `.eh_frame`, in the order of its addresses.

use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, Encoding, EndianSlice, Register,
    RegisterRule, RunTimeEndian, UnwindContext, UnwindSection,
};
use object::{Object, ObjectSection};

use crate::unwind::machine::Machine;

pub(crate) type Bytes<'d> = EndianSlice<'d, RunTimeEndian>;

/// How the registers of a caller are found from those of an instruction.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Number of the table, for the expressions in it.
    pub(crate) table: usize,
    /// The caller's stack pointer.
    pub(crate) cfa: CfaRule<usize>,
    pub(crate) registers: Vec<(Register, RegisterRule<usize>)>,
    /// Where the return address is found.
    pub(crate) return_address: Register,
    /// Whether the caller was interrupted, not calling.
    pub(crate) is_signal: bool,
    pub(crate) encoding: Encoding,
}

/// The part of the table for a function.
#[derive(Clone, Copy, Debug)]
struct Entry {
    begin: u64,
    end: u64,
    offset: usize,
}

/// An image's unwind table.
#[derive(Debug)]
pub(crate) struct Table<'d> {
    pub(crate) section: EhFrame<Bytes<'d>>,
    bases: BaseAddresses,
    /// By address.
    entries: Vec<Entry>,
}

impl<'d> Table<'d> {
    /// The table of a file, empty if it has none.
    pub(crate) fn of(file: &object::File<'d>, machine: &Machine) -> Table<'d> {
        let section = |name| file.section_by_name(name);
        let address = |name| section(name).map_or(0, |section| section.address());
        let bases = BaseAddresses::default()
            .set_eh_frame(address(".eh_frame"))
            .set_text(address(".text"))
            .set_got(address(".got"));
        let bytes = section(".eh_frame").and_then(|section| section.data().ok());
        let endian = match file.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let bytes = EndianSlice::new(bytes.unwrap_or_default(), endian);
        Table::read(bytes, bases, machine)
    }

    /// Reads where the entries are, up to the first that cannot be read. The table of
    /// `.eh_frame_hdr` would say the same, but may be missing or disagree.
    pub(crate) fn read(bytes: Bytes<'d>, bases: BaseAddresses, machine: &Machine) -> Table<'d> {
        let mut section = EhFrame::from(bytes);
        section.set_address_size(8);
        section.set_vendor(machine.vendor);
        let mut found = Vec::new();
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let Ok(function) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            let (begin, end) = (function.initial_address(), function.end_address());
            if begin < end {
                let offset = function.offset();
                found.push(Entry { begin, end, offset });
            }
        }
        found.sort_unstable_by_key(|entry| entry.begin);
        Table {
            section,
            bases,
            entries: found,
        }
    }

    /// The rules at an address, as linked: `None` if the table does not cover it.
    ///
    /// # Errors
    /// The table is damaged there.
    pub(crate) fn rules(
        &self,
        table: usize,
        address: u64,
        context: &mut UnwindContext<usize>,
    ) -> Result<Option<Rules>, gimli::Error> {
        let behind = self.entries.partition_point(|entry| entry.begin <= address);
        let entry = behind.checked_sub(1).and_then(|at| self.entries.get(at));
        let Some(entry) = entry.filter(|entry| address < entry.end) else {
            return Ok(None);
        };
        let function = self.section.fde_from_offset(
            &self.bases,
            EhFrameOffset(entry.offset),
            EhFrame::cie_from_offset,
        )?;
        let row = function.unwind_info_for_address(&self.section, &self.bases, context, address)?;
        Ok(Some(Rules {
            table,
            cfa: row.cfa().clone(),
            registers: row.registers().cloned().collect(),
            return_address: function.cie().return_address_register(),
            is_signal: function.is_signal_trampoline(),
            encoding: function.cie().encoding(),
        }))
    }
}
