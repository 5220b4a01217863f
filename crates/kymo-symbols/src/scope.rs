//! Scopes: the code of a function, or of a place where it was inlined.

use std::ops::Range;

/// Code that DWARF attributes to a function: the function itself, or one place where it was
/// inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The namespaces of the function: `kymo::tracer::Tracer`. Empty with `debug =
    /// "line-tables-only"`, which omits them.
    pub path: String,
    /// Its name with generic arguments: `record<hello::Virt, hello::Marker>`.
    pub leaf: String,
    /// Its address ranges, sorted; at least one.
    pub ranges: Vec<Range<u64>>,
    /// Its entry according to DWARF, else its lowest address.
    pub entry: u64,
    /// Index of the scope into which it was inlined; `None` for a function.
    pub parent: Option<usize>,
}

impl Scope {
    /// Path and name: `kymo::tracer::Tracer::record<hello::Virt, hello::Marker>`.
    pub fn name(&self) -> String {
        if self.path.is_empty() {
            self.leaf.clone()
        } else {
            format!("{}::{}", self.path, self.leaf)
        }
    }

    /// The name without generic arguments: `record`.
    pub fn base(&self) -> &str {
        self.leaf.split('<').next().unwrap_or_default()
    }

    /// The generic arguments: `hello::Virt` and `hello::Marker`.
    pub fn arguments(&self) -> Vec<&str> {
        let Some((_, arguments)) = self
            .leaf
            .strip_suffix('>')
            .and_then(|leaf| leaf.split_once('<'))
        else {
            return Vec::new();
        };
        let mut depth = 0;
        let is_comma = |letter: char| {
            match letter {
                '<' | '(' | '[' | '{' => depth += 1,
                '>' | ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            letter == ',' && depth == 0
        };
        arguments.split(is_comma).map(str::trim).collect()
    }
}

/// Sorts the ranges, and joins those that touch or overlap.
pub fn join_ranges(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    ranges.dedup_by(|next, range| {
        let joins = next.start <= range.end;
        if joins {
            range.end = range.end.max(next.end);
        }
        joins
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_arguments_are_split_at_the_commas_between_them() {
        let of = |leaf: &str| {
            let scope = Scope {
                path: String::new(),
                leaf: leaf.to_owned(),
                ranges: Vec::new(),
                entry: 0,
                parent: None,
            };
            (
                scope.base().to_owned(),
                scope
                    .arguments()
                    .into_iter()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            )
        };
        let is = |leaf: &str, base: &str, arguments: &[&str]| {
            assert_eq!(
                of(leaf),
                (
                    base.to_owned(),
                    arguments
                        .iter()
                        .map(|argument| (*argument).to_owned())
                        .collect()
                )
            );
        };
        is(
            "is_on<hello::Virt, hello::Marker>",
            "is_on",
            &["hello::Virt", "hello::Marker"],
        );
        is("record<a::B<c::D, e::F>>", "record", &["a::B<c::D, e::F>"]);
        is("f<(A, B), [C; 2]>", "f", &["(A, B)", "[C; 2]"]);
        is("plain", "plain", &[]);
    }

    #[test]
    fn ranges_are_joined() {
        assert_eq!(join_ranges(vec![8..12, 0..4, 4..6, 10..11]), [0..6, 8..12]);
    }
}
