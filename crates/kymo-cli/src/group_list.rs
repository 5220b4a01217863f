//! Lists of what a kernel of one's own is to count: `cycles,instructions` is one group, and
//! `{cycles,instructions},{branches,branch-misses}` are two.

use kymo::count::{GroupSpec, MAX_GROUPS};
use kymo_perf::split_groups;

/// The names of each group, as [`split_groups`] finds them; but without braces, all are one group.
///
/// # Errors
/// As there.
pub fn split(list: &str) -> Result<Vec<Vec<&str>>, &'static str> {
    let groups = split_groups(list)?;
    match list.contains('{') {
        true => Ok(groups),
        false => Ok(vec![groups.concat()]),
    }
}

/// What to tell who asks for more groups than a kernel counts.
pub fn too_many(groups: &[GroupSpec]) -> Option<String> {
    let len = groups.len();
    let is_too_many = len > MAX_GROUPS;
    is_too_many.then(|| format!("a kernel counts at most {MAX_GROUPS} groups, and these are {len}"))
}

/// The list as a user writes it: in braces where there are several groups.
pub fn join<'n>(groups: impl ExactSizeIterator<Item = Vec<&'n str>>) -> String {
    let is_one = groups.len() == 1;
    let group = |names: Vec<&str>| match is_one {
        true => names.join(","),
        false => format!("{{{}}}", names.join(",")),
    };
    groups.map(group).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn braces_make_groups() {
        for (list, groups, joined) in [
            ("cycles", "cycles", "cycles"),
            (" cycles , cs", "cycles+cs", "cycles,cs"),
            ("{cycles,cs}", "cycles+cs", "cycles,cs"),
            ("{a, b} , { c,d }", "a+b c+d", "{a,b},{c,d}"),
            ("a,{b,c},d", "a b+c d", "{a},{b,c},{d}"),
            ("{mem:0x10/8:rw}", "mem:0x10/8:rw", "mem:0x10/8:rw"),
        ] {
            let found = split(list).unwrap();
            let words: Vec<_> = found.iter().map(|names| names.join("+")).collect();
            assert_eq!(words.join(" "), groups, "{list}");
            assert_eq!(join(found.into_iter()), joined, "{list}");
        }
        for (list, what) in [
            ("{a", "not closed"),
            ("a}", "closes"),
            ("{a,{b}}", "inside"),
            ("{a}b", "behind"),
            ("{a}}", "behind"),
            ("a{b}", "before"),
            ("", "missing"),
            ("a,", "missing"),
            ("{a},", "missing"),
            ("{},{a}", "missing"),
        ] {
            assert!(split(list).unwrap_err().contains(what), "{list}");
        }
    }
}
