//! What the workspace's `Cargo.toml` and `Cargo.lock` say of some packages: a new crate, or a
//! library that another crate needs, changes both files and nothing for the others.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// Lists of the workspace's packages: that of a package's own files is elsewhere.
const MEMBERS: [&str; 3] = ["members", "default-members", "exclude"];

/// What both files say of these packages and of all that they depend on. `None` if one of them
/// cannot be understood, or a package is missing.
pub(super) fn said(manifest: &str, lock: &str, packages: &[&str]) -> Option<(Table, Vec<Value>)> {
    let lock: Table = lock.parse().ok()?;
    let locked = locked(&lock, packages)?;
    let names: BTreeSet<&str> = locked.iter().filter_map(|package| name(package)).collect();
    let mut manifest: Table = manifest.parse().ok()?;
    let workspace = manifest.get_mut("workspace")?.as_table_mut()?;
    for list in MEMBERS {
        workspace.remove(list);
    }
    if let Some(dependencies) = workspace.get_mut("dependencies") {
        dependencies.as_table_mut()?.retain(|key, value| {
            let renamed = value.get("package").and_then(Value::as_str);
            names.contains(renamed.unwrap_or(key))
        });
    }
    Some((manifest, locked.into_iter().cloned().collect()))
}

/// The entries of these packages and of those that they need, in the file's order.
fn locked<'l>(lock: &'l Table, packages: &[&str]) -> Option<Vec<&'l Value>> {
    let all = lock.get("package")?.as_array()?;
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, package) in all.iter().enumerate() {
        by_name.entry(name(package)?).or_default().push(at);
    }
    let mut wanted: Vec<&str> = packages.to_vec();
    let mut seen = BTreeSet::new();
    while let Some(package) = wanted.pop() {
        // "name", or "name version" where the lock has several of that name.
        let (name, version) = match package.split_once(' ') {
            Some((name, rest)) => (name, rest.split(' ').next()),
            None => (package, None),
        };
        for &at in by_name.get(name)? {
            let entry = all.get(at)?;
            let is_this = version.is_none_or(|version| text(entry, "version") == Some(version));
            if is_this && seen.insert(at) {
                let needed = entry.get("dependencies").and_then(Value::as_array);
                wanted.extend(needed.into_iter().flatten().filter_map(Value::as_str));
            }
        }
    }
    Some(seen.into_iter().filter_map(|at| all.get(at)).collect())
}

fn name(package: &Value) -> Option<&str> {
    text(package, "name")
}

fn text<'v>(package: &'v Value, key: &str) -> Option<&'v str> {
    package.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MANIFEST: &str = "\
[workspace]
members = [\"a\", \"b\"]
[workspace.dependencies]
one = \"1\"
two = { package = \"zwei\", version = \"2\" }
three = \"3\"
[profile.dev]
opt-level = 1
";

    const LOCK: &str = "\
version = 4
[[package]]
name = \"a\"
version = \"0.1.0\"
dependencies = [\"one 1.0.0\", \"zwei\"]
[[package]]
name = \"b\"
version = \"0.1.0\"
dependencies = [\"one 1.1.0\", \"three\"]
[[package]]
name = \"one\"
version = \"1.0.0\"
[[package]]
name = \"one\"
version = \"1.1.0\"
[[package]]
name = \"three\"
version = \"3.0.0\"
[[package]]
name = \"zwei\"
version = \"2.0.0\"
";

    /// Whether one of the files, changed by this, says something else of the package `a`.
    fn is_other(from: &str, to: &str) -> bool {
        assert_eq!(MANIFEST.contains(from), !LOCK.contains(from), "{from}");
        let manifest = MANIFEST.replace(from, to);
        let lock = LOCK.replace(from, to);
        said(&manifest, &lock, &["a"]) != Some(said(MANIFEST, LOCK, &["a"]).unwrap())
    }

    #[test]
    fn what_other_packages_need_changes_nothing() {
        for (from, to) in [
            ("members = [\"a\", \"b\"]", "members = [\"a\", \"c\"]"),
            ("three = \"3\"", "three = \"4\""),
            ("version = \"1.1.0\"", "version = \"1.2.0\""),
            ("version = \"3.0.0\"", "version = \"3.0.1\""),
        ] {
            assert!(!is_other(from, to), "{from}");
        }
    }

    #[test]
    fn what_a_package_needs_changes_it() {
        for (from, to) in [
            ("one = \"1\"", "one = \"1.0\""),
            (
                "package = \"zwei\", version = \"2\"",
                "package = \"zwei\", version = \"2.0\"",
            ),
            ("opt-level = 1", "opt-level = 2"),
            ("version = \"1.0.0\"", "version = \"1.0.1\""),
            ("version = \"2.0.0\"", "version = \"2.0.1\""),
            (
                "dependencies = [\"one 1.0.0\", \"zwei\"]",
                "dependencies = [\"zwei\"]",
            ),
            // It cannot be understood.
            ("version = 4", "version ="),
            ("name = \"zwei\"", "name = \"drei\""),
        ] {
            assert!(is_other(from, to), "{from}");
        }
    }

    #[test]
    fn the_workspace_s_own_files_are_understood() {
        let file = |name| std::fs::read_to_string(crate::process::root().join(name)).unwrap();
        let (_, kymo) = said(&file("Cargo.toml"), &file("Cargo.lock"), &["kymo"]).unwrap();
        let (_, cli) = said(&file("Cargo.toml"), &file("Cargo.lock"), &["kymo-cli"]).unwrap();
        assert!(kymo.len() > 1 && kymo.len() < cli.len());
        assert!(said(&file("Cargo.toml"), &file("Cargo.lock"), &["kymo-nothing"]).is_none());
    }
}
