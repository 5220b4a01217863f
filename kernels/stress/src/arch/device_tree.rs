//! A minimal reader of flattened device trees (Devicetree Specification 0.4, chapter 5).

/// The tree.
#[derive(Clone, Copy)]
pub struct DeviceTree(&'static [u8]);

impl DeviceTree {
    /// The tree at this address.
    ///
    /// # Safety
    /// There must be a tree at this address that nobody changes.
    pub unsafe fn at(address: *const [u32; 2]) -> DeviceTree {
        // SAFETY: the second word is the tree's size (big-endian).
        DeviceTree(unsafe {
            core::slice::from_raw_parts(address.cast(), u32::from_be((*address)[1]) as usize)
        })
    }

    /// The property `bootargs`, which only `/chosen` has; empty if missing.
    pub fn command_line(self) -> &'static str {
        let text = self
            .properties("bootargs")
            .next()
            .and_then(|value| value.strip_suffix(b"\0"));
        text.and_then(|text| core::str::from_utf8(text).ok())
            .unwrap_or("")
    }

    /// Number of CPUs.
    #[cfg(target_arch = "riscv32")]
    pub fn cpus(self) -> usize {
        self.properties("device_type")
            .filter(|value| *value == b"cpu\0")
            .count()
    }

    /// The values of all properties of this name. Looks for the words of a property (token 3,
    /// length, offset of the name, value) instead of walking the nodes.
    fn properties(self, name: &'static str) -> impl Iterator<Item = &'static [u8]> {
        let tree = self.0;
        let word =
            move |at: usize| Some(u32::from_be_bytes(*tree.get(at..)?.first_chunk()?) as usize);
        let [structure, strings, size] = [8, 12, 36].map(|at| word(at).unwrap_or(0));
        (structure..structure + size)
            .step_by(4)
            .filter_map(move |at| {
                let found = tree
                    .get(strings + word(at + 8)?..)?
                    .strip_prefix(name.as_bytes())?;
                let value = tree.get(at + 12..)?.get(..word(at + 4)?)?;
                (word(at)? == 3 && found.starts_with(b"\0")).then_some(value)
            })
    }
}
