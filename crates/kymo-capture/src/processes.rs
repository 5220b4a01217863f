//! Finds the processes that have a file mapped, to detect whether a machine runs in it.

use std::path::Path;

/// Result of searching for the processes that have a file mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MappedBy {
    /// These processes.
    These(Vec<u32>),
    /// No process on this machine.
    Nobody,
    /// Unknown, because of another user's processes or another system.
    Unknown,
}

/// A file as identified in a process's list of mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: (u32, u32),
    inode: u64,
}

#[cfg(target_os = "linux")]
impl FileId {
    pub(crate) fn of(file: &Path) -> Option<FileId> {
        let stat = rustix::fs::stat(file).ok()?;
        let device = (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        );
        Some(FileId {
            device,
            inode: stat.st_ino,
        })
    }

    /// The processes that have the file mapped, except other `kymo` processes, which only read it.
    pub(crate) fn mapped_by(self) -> MappedBy {
        let own = std::process::id();
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return MappedBy::Unknown;
        };
        let mut found = Vec::new();
        let mut hidden = false;
        for process in processes.flatten() {
            let Some(id) = process
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok())
                .filter(|&id| id != own)
            else {
                continue;
            };
            let name = std::fs::read(format!("/proc/{id}/comm")).unwrap_or_default();
            match std::fs::read(format!("/proc/{id}/maps")) {
                Ok(maps) if name != b"kymo\n" && self.is_in(&maps) => found.push(id),
                Ok(_) => {}
                // The process has ended, or belongs to another user; the latter may be a machine.
                Err(error) => {
                    hidden |= error.kind() == std::io::ErrorKind::PermissionDenied
                        && name.starts_with(b"qemu")
                }
            }
        }
        match (found.is_empty(), hidden) {
            (false, _) => MappedBy::These(found),
            (true, false) => MappedBy::Nobody,
            (true, true) => MappedBy::Unknown,
        }
    }

    /// Whether one of these processes still has the file mapped. A process that has ended has no
    /// mappings, even before it is waited for.
    pub(crate) fn is_mapped_by(self, processes: &[u32]) -> bool {
        processes
            .iter()
            .any(|id| std::fs::read(format!("/proc/{id}/maps")).is_ok_and(|maps| self.is_in(&maps)))
    }

    /// Whether the file is in a list of mappings (proc(5)): address, permissions, offset, device,
    /// inode, path.
    fn is_in(self, maps: &[u8]) -> bool {
        let (major, minor) = self.device;
        let device = format!("{major:02x}:{minor:02x}");
        let inode = self.inode.to_string();
        maps.split(|&byte| byte == b'\n').any(|line| {
            let mut words = line
                .split(|&byte| byte == b' ')
                .filter(|word| !word.is_empty())
                .skip(3);
            words.next() == Some(device.as_bytes()) && words.next() == Some(inode.as_bytes())
        })
    }
}

#[cfg(not(target_os = "linux"))]
impl FileId {
    pub(crate) fn of(_file: &Path) -> Option<FileId> {
        None
    }
    pub(crate) fn mapped_by(self) -> MappedBy {
        MappedBy::Unknown
    }
    pub(crate) fn is_mapped_by(self, _processes: &[u32]) -> bool {
        true
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_found_by_device_and_inode() {
        let maps = b"7f0000000000-7f0000001000 rw-s 00000000 00:1f 123 /dev/shm/ram\n5500-6600 r-xp 00000000 08:01 45 /bin/x\n7ff-800 rw-p 0 00:00 0 \n";
        let file = |major, minor, inode| FileId {
            device: (major, minor),
            inode,
        };
        assert!(file(0, 0x1f, 123).is_in(maps) && file(8, 1, 45).is_in(maps));
        assert!(
            !file(0, 0x1f, 12).is_in(maps)
                && !file(8, 2, 45).is_in(maps)
                && !file(0, 0x1f, 45).is_in(maps)
        );
    }

    #[test]
    fn a_process_that_ends_no_longer_has_it() {
        // The shell has its own program file mapped.
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read x; read y"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let id = child.id();
        let program = FileId::of(&std::fs::canonicalize("/bin/sh").unwrap()).unwrap();
        while !program.is_mapped_by(&[id]) {
            std::thread::yield_now();
        }
        assert!(
            matches!(program.mapped_by(), MappedBy::These(processes) if processes.contains(&id))
        );
        child.kill().unwrap();
        // The process has not been waited for, so the system still lists it.
        while program.is_mapped_by(&[id]) {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
