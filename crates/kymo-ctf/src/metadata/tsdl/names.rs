//! Names: how declared ones are shown, which words name one C type, and which paths are absolute.

use std::collections::HashSet;

use super::ast::Path;
use super::parser::C_TYPE_WORDS;
use crate::class::Scope;

/// The names to show for the declared names of one structure or variant: each without one leading
/// underscore, unless that is the shown name of another one with fewer of them.
pub(crate) fn shown_names<'a>(declared: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = declared.collect();
    let underscores = |name: &str| name.len() - name.trim_start_matches('_').len();
    let mut by_underscores: Vec<&mut &str> = names.iter_mut().collect();
    by_underscores.sort_by_key(|name| underscores(name));
    let mut taken = HashSet::new();
    for name in by_underscores {
        if taken.insert(shown_name(name)) {
            *name = shown_name(name);
        } else {
            taken.insert(*name);
        }
    }
    names
}

/// The name to show for a declared name: without one leading underscore, by which TSDL avoids
/// keywords.
pub(crate) fn shown_name(name: &str) -> &str {
    match name.strip_prefix('_') {
        Some(rest) if !rest.is_empty() => rest,
        _ => name,
    }
}

/// Whether a path begins with a part of the packet, or with the environment.
pub(super) fn is_absolute(path: &Path) -> bool {
    let begins = |prefix: &[&str]| {
        path.len() > prefix.len() && path.iter().zip(prefix).all(|(have, want)| have == want)
    };
    Scope::ALL.iter().any(|scope| begins(scope.tsdl())) || begins(&["env"])
}

/// The canonical name of a C type: `unsigned`, `unsigned int` and `int unsigned` are the same type.
/// `None` for other names and for pointers.
pub(super) fn canonical(name: &str) -> Option<String> {
    let mut words: Vec<&str> = name.split(' ').collect();
    if !words.iter().all(|word| C_TYPE_WORDS.contains(word)) {
        return None;
    }
    let has = |wanted: &str| words.contains(&wanted);
    // `signed` matters only for `char`, and `int` is redundant beside other words; alone, either is
    // an `int`.
    let (is_char, is_long, is_double) = (
        has("char"),
        has("long") || has("short"),
        has("double") || has("float"),
    );
    let bare = !is_char && !is_double && !has("void") && !has("_Bool");
    words.retain(|word| *word != "int" && (is_char || *word != "signed"));
    if bare && !is_long {
        words.push("int");
    }
    words.sort_unstable();
    Some(words.join(" "))
}
