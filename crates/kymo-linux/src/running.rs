//! Processes that run already: what their threads are called, and where their files are.

use std::fs;

use crate::entry::Entry;

/// What is known of a process and its threads; nothing of one that has ended.
pub(crate) fn describe(pid: u32) -> Vec<Entry> {
    let number = |number: u32| i32::try_from(number).unwrap_or(-1);
    let mut entries = Vec::new();
    for tid in kymo_perf::threads(pid).unwrap_or_default() {
        let Ok(name) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) else {
            continue;
        };
        let name = String::from_utf8_lossy(&name);
        entries.push(Entry::Name {
            pid: number(pid),
            tid: number(tid),
            name: name.trim_end_matches('\n').to_owned(),
            exec: false,
        });
    }
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let mappings = maps.lines().filter_map(mapping);
    entries.extend(mappings.map(|(start, path)| Entry::Mapping {
        pid: number(pid),
        tid: number(pid),
        start,
        path: path.to_owned(),
    }));
    entries
}

/// Address and path of code, in a line such as `7f00-7f10 r-xp 00001000 fe:00 12345   /lib/a`.
fn mapping(line: &str) -> Option<(u64, &str)> {
    let (range, rest) = line.split_once(' ')?;
    let (rights, rest) = rest.split_once(' ')?;
    let (start, _) = range.split_once('-')?;
    let path = rest.splitn(4, ' ').nth(3)?.trim_start();
    if !rights.contains('x') || !path.starts_with('/') {
        return None;
    }
    Some((u64::from_str_radix(start, 16).ok()?, path))
}

/// All processes, the kernel's own too.
pub(crate) fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let number =
        |entry: std::io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let mut pids: Vec<u32> = entries.filter_map(number).collect();
    pids.sort_unstable();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_files_is_found_in_maps() {
        let code = "7f1200-7f1300 r-xp 00001000 fe:00 12345                      /opt/a b/lib.so";
        assert_eq!(mapping(code), Some((0x7f_1200, "/opt/a b/lib.so")));
        for other in [
            "7f1200-7f1300 r--p 00001000 fe:00 12345                      /lib/data",
            "7ffe0000-7ffe1000 r-xp 00000000 00:00 0                          [vdso]",
            "7f1200-7f1300 r-xp 00000000 00:00 0 ",
            "",
        ] {
            assert_eq!(mapping(other), None, "{other}");
        }
    }
}
