//! Finds and replaces tracepoints in Rust sources.

use std::ops::Range;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{TokenStream, TokenTree};

/// The tracepoints of every kernel.
const MACROS: [&str; 2] = ["trace", "trace_masked"];
/// Settings in a kernel's manifest, under `[package.metadata.kymo]`.
pub(crate) struct Own {
    /// Names of the tracepoint macros: [`MACROS`], and those of `tracepoints`.
    pub(crate) macros: Vec<String>,
    /// `late-inlining`: leaves all inlining to LLVM. rustc decides by a function's length before
    /// unreachable code is removed, so in a large kernel a tracepoint may affect inlining, although
    /// it leaves no code.
    pub(crate) late_inlining: bool,
}

impl Own {
    pub(crate) fn read(manifest: &str) -> Result<Own> {
        let manifest: toml::Table = manifest.parse().context("the kernel's Cargo.toml")?;
        let said = manifest
            .get("package")
            .and_then(|package| package.get("metadata")?.get("kymo"));
        let late_inlining = said
            .and_then(|said| said.get("late-inlining")?.as_bool())
            .unwrap_or(false);
        let mut macros: Vec<String> = MACROS.map(str::to_owned).to_vec();
        for name in said
            .and_then(|said| said.get("tracepoints")?.as_array())
            .into_iter()
            .flatten()
        {
            macros.push(
                name.as_str()
                    .context("Cargo.toml: the name of a tracepoint is a text")?
                    .to_owned(),
            );
        }
        Ok(Own {
            macros,
            late_inlining,
        })
    }
}

/// Byte ranges of the tracepoints in a Rust file.
pub(crate) fn tracepoints(text: &str, macros: &[String]) -> Result<Vec<Range<usize>>> {
    let tokens: TokenStream = text
        .parse()
        .map_err(|error| anyhow!("this is no Rust: {error}"))?;
    let mut found = Vec::new();
    find(tokens, macros, &mut found);
    Ok(found)
}

fn find(tokens: TokenStream, macros: &[String], found: &mut Vec<Range<usize>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(colon)) if colon.as_char() == ':');
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match (token, tokens.get(at + 1), tokens.get(at + 2)) {
            (
                TokenTree::Ident(name),
                Some(TokenTree::Punct(bang)),
                Some(TokenTree::Group(group)),
            ) if bang.as_char() == '!' && macros.iter().any(|tracepoint| name == tracepoint) => {
                // Include a path: `kymo::trace!` and `::kymo::trace!`.
                let mut first = at;
                while first >= 2 && is_colon(first - 1) && is_colon(first - 2) {
                    let has_name =
                        first >= 3 && matches!(tokens.get(first - 3), Some(TokenTree::Ident(_)));
                    first -= if has_name { 3 } else { 2 };
                }
                // Inside a macro: `$crate::trace!`.
                let dollar = first >= 1
                    && matches!(tokens.get(first - 1), Some(TokenTree::Punct(sign)) if sign.as_char() == '$');
                first -= usize::from(dollar);
                let begin = tokens
                    .get(first)
                    .map_or(0, |token| token.span().byte_range().start);
                found.push(begin..group.span().byte_range().end);
                at += 3;
            }
            (TokenTree::Group(group), ..) => {
                find(group.stream(), macros, found);
                at += 1;
            }
            _ => at += 1,
        }
    }
}

/// Replaces the tracepoints by `with(index)` and blanks: the same number of lines and, if possible,
/// columns. `index` continues to count.
pub(crate) fn replace(
    text: &str,
    macros: &[String],
    index: &mut usize,
    with: impl Fn(usize) -> Option<&'static str>,
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for range in tracepoints(text, macros)? {
        let old = text
            .get(range.clone())
            .context("a token stands in the middle of a character")?;
        out.push_str(text.get(done..range.start).unwrap_or_default());
        match with(*index) {
            None => out.push_str(old),
            Some(new) => {
                out.push_str(new);
                let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
                let (first, rest) = old.split_at(old.find('\n').unwrap_or(old.len()));
                out.extend(first.chars().skip(new.chars().count()).map(blank));
                out.extend(rest.chars().map(blank));
            }
        }
        *index += 1;
        done = range.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{NOTHING, ONE_INSTRUCTION};

    const SOURCE: &str = r##"
        use kymo::{trace, trace_masked}; // trace!(Not { this: 1 });
        /// `trace!(Nor { this: 2 })`
        macro_rules! trace { () => { text!() } }
        fn f(x: u32) -> u32 {
            trace!(One { a: x, b: ")" }); let after = "trace!(Nor { that: 3 });";
            kymo::trace_masked!(Two {
                a: f(x), // a bracket in a comment: )
                b: r#"ä " )"#, c: ')',
            });
            match x { 1 => trace![Three {}], _ => without(|| { ::kymo::trace!{Four { ä: (1, [2]) }} }) }
            retrace!(Five {}); trace(6); trace_masked !(Six {}); x
        }
    "##;

    /// The macros of a kernel without its own.
    fn every() -> Vec<String> {
        Own::read("[package]\nname = \"x\"").unwrap().macros
    }

    #[test]
    fn a_kernel_names_its_own_tracepoints() {
        let own = Own::read("[package.metadata.kymo]\ntracepoints = [\"op\"]")
            .unwrap()
            .macros;
        let text = "macro_rules! op { ($e:ident) => { $crate::trace!($e {}) } } op!(A); kernel::op!(B); trace!(C {});";
        let found: Vec<&str> = tracepoints(text, &own)
            .unwrap()
            .into_iter()
            .map(|range| &text[range])
            .collect();
        assert_eq!(
            found,
            [
                "$crate::trace!($e {})",
                "op!(A)",
                "kernel::op!(B)",
                "trace!(C {})"
            ]
        );
        assert_eq!(tracepoints(text, &every()).unwrap().len(), 2);
        assert!(Own::read("[package.metadata.kymo]\ntracepoints = [1]").is_err());
    }

    #[test]
    fn tracepoints_are_found_and_nothing_else() {
        let found: Vec<&str> = tracepoints(SOURCE, &every())
            .unwrap()
            .into_iter()
            .map(|range| &SOURCE[range])
            .collect();
        let heads: Vec<&str> = found
            .iter()
            .map(|text| text.split(['(', '[', '{']).next().unwrap())
            .collect();
        assert_eq!(
            heads,
            [
                "trace!",
                "kymo::trace_masked!",
                "trace!",
                "::kymo::trace!",
                "trace_masked !"
            ]
        );
        assert!(found[0].ends_with("\")\" })"));
        assert!(found[1].ends_with("')',\n            })"));
        assert_eq!(found[3], "::kymo::trace!{Four { ä: (1, [2]) }}");
    }

    #[test]
    fn what_stands_around_keeps_its_line_and_column() {
        let mut index = 0;
        let blanked = replace(SOURCE, &every(), &mut index, |_| Some(NOTHING)).unwrap();
        assert_eq!(index, 5);
        assert!(tracepoints(&blanked, &every()).unwrap().is_empty());
        assert_eq!(blanked.lines().count(), SOURCE.lines().count());
        for (before, after) in SOURCE.lines().zip(blanked.lines()) {
            assert_eq!(before.chars().count(), after.chars().count(), "{before}");
            let kept = before
                .chars()
                .zip(after.chars())
                .all(|(old, new)| old == new || new == ' ' || "()".contains(new));
            assert!(kept, "{before}\n{after}");
        }
        let last = blanked.lines().rev().nth(2).unwrap();
        assert_eq!(
            last.trim_start(),
            "retrace!(Five {}); trace(6); ()                    ; x"
        );
        assert!(blanked.contains("; let after = \"trace!(Nor { that: 3 });\";"));
    }

    #[test]
    fn one_of_them_is_replaced() {
        let replaced = replace("trace!(A {}); trace!(B {});", &every(), &mut 0, |index| {
            (index == 1).then_some(ONE_INSTRUCTION)
        })
        .unwrap();
        assert_eq!(replaced, format!("trace!(A {{}}); {ONE_INSTRUCTION};"));
        assert_eq!(replace(SOURCE, &every(), &mut 0, |_| None).unwrap(), SOURCE);
        assert!(replace("fn f( {", &every(), &mut 0, |_| None).is_err());
    }
}
