//! Archives that Linux unpacks into its first file system.

/// Type and permissions of a folder, a program, and a symbolic link.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive in the format "newc" of cpio, whose files belong to root: see
/// `Documentation/driver-api/early-userspace/buffer-format.rst` of Linux.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a folder, whose parent was added before.
    pub(super) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, &[]);
    }

    /// Adds a file that can be executed.
    pub(super) fn program(&mut self, path: &str, contents: &[u8]) {
        self.entry(path, PROGRAM, contents);
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: &str, to: &str) {
        self.entry(path, LINK, to.as_bytes());
    }

    /// The archive's bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    /// A header of hexadecimal numbers, the name with a zero behind it, and the contents; both end
    /// at a multiple of four bytes.
    fn entry(&mut self, path: &str, mode: u32, contents: &[u8]) {
        self.entries += 1;
        let (user, group, links, time, device) = (0, 0, 1, 0, 0);
        let (size, name) = (contents.len() as u32, path.len() as u32 + 1);
        let numbers = [
            self.entries,
            mode,
            user,
            group,
            links,
            time,
            size,
            device,
            device,
            device,
            device,
            name,
            0,
        ];
        self.bytes.extend(b"070701");
        for number in numbers {
            self.bytes.extend(format!("{number:08x}").bytes());
        }
        self.bytes.extend(path.bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(contents);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Name, mode and contents of each entry, by the lengths in its header.
    fn entries(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let header = std::str::from_utf8(&bytes[..110]).unwrap();
            assert!(header.starts_with("070701"), "{header}");
            let number = |at: usize| {
                let digits = &header[6 + 8 * at..][..8];
                u32::from_str_radix(digits, 16).unwrap()
            };
            let (size, name) = (number(6) as usize, number(11) as usize);
            let contents_at = (110 + name).next_multiple_of(4);
            let path = &bytes[110..110 + name];
            assert_eq!(path.last(), Some(&0));
            let path = String::from_utf8(path[..name - 1].to_vec()).unwrap();
            let contents = bytes[contents_at..contents_at + size].to_vec();
            entries.push((path, number(1), contents));
            bytes = &bytes[(contents_at + size).next_multiple_of(4)..];
        }
        entries
    }

    #[test]
    fn an_archive_has_what_was_added() {
        let mut archive = Archive::default();
        archive.folder("bin");
        archive.program("bin/seven", b"1234567");
        archive.link("init", "/bin/seven");
        let expected = [
            ("bin", FOLDER, &b""[..]),
            ("bin/seven", PROGRAM, b"1234567"),
            ("init", LINK, b"/bin/seven"),
            ("TRAILER!!!", 0, b""),
        ];
        let expected =
            expected.map(|(path, mode, contents)| (path.to_owned(), mode, contents.to_vec()));
        assert_eq!(entries(&archive.finish()), expected);
    }
}
