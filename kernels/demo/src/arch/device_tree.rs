//! The device tree, in which QEMU leaves the kernel's command line.

/// The property `bootargs` of a flattened device tree (Devicetree Specification 0.4, chapter 5),
/// which only `/chosen` has. This looks for the words of a property (token 3, length, offset of the
/// name, value) instead of walking the nodes.
pub fn bootargs(tree: &[u8]) -> Option<&str> {
    let word = |at: usize| Some(u32::from_be_bytes(*tree.get(at..)?.first_chunk()?) as usize);
    let (structure, strings, size) = (word(8)?, word(12)?, word(36)?);
    let is_ours = |at: usize| {
        Some(
            word(at)? == 3
                && tree
                    .get(strings + word(at + 8)?..)?
                    .starts_with(b"bootargs\0"),
        )
    };
    let at = (structure..structure + size)
        .step_by(4)
        .find(|&at| is_ours(at) == Some(true))?;
    let text = tree.get(at + 12..)?.get(..word(at + 4)?)?;
    core::str::from_utf8(text.strip_suffix(b"\0")?).ok()
}
