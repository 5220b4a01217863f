//! The flattened device tree (Devicetree Specification 0.4, chapter 5), in which QEMU leaves the
//! kernel's command line and the place of its memory.
//!
//! This looks for the words of a node (token 1, name) or of a property (token 3, length, offset of
//! the name, value) instead of walking the nodes.

#[cfg(target_arch = "aarch64")]
const NODE: usize = 1;
const PROPERTY: usize = 3;

fn word(tree: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_be_bytes(*tree.get(at..)?.first_chunk()?) as usize)
}

/// The first word from `from` on, among those of the nodes, that `is_it`.
fn find(tree: &[u8], from: usize, is_it: impl Fn(usize) -> Option<bool>) -> Option<usize> {
    let (structure, size) = (word(tree, 8)?, word(tree, 36)?);
    (structure.max(from)..structure + size)
        .step_by(4)
        .find(|&at| is_it(at) == Some(true))
}

/// The value of the first property of this name behind `from`.
fn property<'a>(tree: &'a [u8], from: usize, name: &[u8]) -> Option<&'a [u8]> {
    let strings = word(tree, 12)?;
    let at = find(tree, from, |at| {
        let has_name = |at| Some(tree.get(strings + word(tree, at)?..)?.starts_with(name));
        Some(word(tree, at)? == PROPERTY && has_name(at + 8)?)
    })?;
    tree.get(at + 12..)?.get(..word(tree, at + 4)?)
}

/// The property `bootargs`, which only `/chosen` has.
pub fn bootargs(tree: &[u8]) -> Option<&str> {
    let text = property(tree, 0, b"bootargs\0")?;
    core::str::from_utf8(text.strip_suffix(b"\0")?).ok()
}

/// The first range of memory, whose address and size have two words each.
#[cfg(target_arch = "aarch64")]
pub fn memory(tree: &[u8]) -> Option<core::ops::Range<usize>> {
    let node = find(tree, 0, |at| {
        Some(word(tree, at)? == NODE && tree.get(at + 4..)?.starts_with(b"memory@"))
    })?;
    let range = property(tree, node, b"reg\0")?;
    let number = |at: usize| Some(usize::from_be_bytes(*range.get(at..)?.first_chunk()?));
    let begin = number(0)?;
    Some(begin..begin.checked_add(number(8)?)?)
}
