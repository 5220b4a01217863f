//! The call tree as text of at most 100 columns, or as JSON.

use anyhow::Context as _;
use kymo_profile::{Branch, Folded, Profile, Share};
use serde_json::{Value, json};

use super::{share, totals};
use crate::dump::escape_controls;
use crate::summary::{count, thousands};

/// Columns of the text.
const WIDTH: usize = 100;
/// Deepest indentation, in columns: names need the others.
const DEEPEST: usize = 48;
/// The least share that is shown, in percent, unless another is given.
const LEAST: f64 = 1.0;

/// The tree of a profile, without branches that have a smaller share than `least` percent.
pub fn print(profile: &Profile, least: Option<f64>, json: bool) -> anyhow::Result<String> {
    let least = least.unwrap_or(if json { 0.0 } else { LEAST }) / 100.0;
    let branches = profile.call_tree(least);
    Ok(match json {
        true => {
            let object = object(profile, &branches);
            serde_json::to_string(&object).context("cannot write JSON")? + "\n"
        }
        false => text(profile, &branches),
    })
}

fn object(profile: &Profile, branches: &[Branch]) -> Value {
    let branches = branches.iter().map(|branch| {
        let image = branch
            .image
            .and_then(|image| profile.images.get(image.index()));
        json!({
            "depth": branch.depth,
            "function": &*branch.function,
            "image": image.map(|image| &*image.name),
            "self": share(&branch.own),
            "total": share(&branch.total),
            "folded": branch.folded.map(|folded| json!({
                "branches": folded.count,
                "total": share(&folded.total),
            })),
        })
    });
    let mut object = totals(profile);
    object["tree"] = branches.collect();
    object
}

/// A function whose callees are not all written yet.
struct Open {
    /// The column of its callees.
    column: usize,
    folded: Option<Folded>,
}

/// A line for each function, and one for the branches that a function has folded. A function that
/// has all samples of its caller stands right below it, without a step to the right: only branches
/// take room.
fn text(profile: &Profile, branches: &[Branch]) -> String {
    let mut text = format!(
        "{:>6}  {:>6}  {:>9}  function\n",
        "total", "self", "samples"
    );
    let mut open: Vec<Open> = Vec::new();
    for (at, branch) in branches.iter().enumerate() {
        close(&mut open, branch.depth, &mut text);
        let column = open.last().map_or(0, |of| of.column);
        let callee = branches
            .get(at + 1)
            .filter(|next| next.depth > branch.depth);
        let is_all = callee.is_some_and(|callee| callee.total.weight == branch.total.weight);
        // The first branch stands for all samples.
        let is_first = branch.depth == 0;
        if !is_first {
            let own = format!("{:.1}%", branch.own.share * 100.0);
            text += &line(&branch.total, &own, column, &name(profile, branch));
        }
        let step = if is_all || is_first { 0 } else { 2 };
        open.push(Open {
            column: (column + step).min(DEEPEST),
            folded: branch.folded,
        });
    }
    close(&mut open, 0, &mut text);
    text
}

/// Ends the functions from a depth on, each with a line for what it has folded.
fn close(open: &mut Vec<Open>, depth: usize, text: &mut String) {
    while open.len() > depth {
        let Some(Open { column, folded }) = open.pop() else {
            return;
        };
        if let Some(folded) = folded {
            let more = count(folded.count as u64, "smaller branch", "smaller branches");
            *text += &line(&folded.total, "", column, &format!("... {more}"));
        }
    }
}

fn line(total: &Share, own: &str, column: usize, name: &str) -> String {
    let share = format!("{:.1}%", total.share * 100.0);
    let samples = thousands(total.weight);
    let head = format!("{share:>6}  {own:>6}  {samples:>9}  {:column$}", "");
    let room = WIDTH.saturating_sub(head.chars().count());
    let mut line = head + &shortened(name, room);
    line.push('\n');
    line
}

/// A function's name and program.
fn name(profile: &Profile, branch: &Branch) -> String {
    let mut name = match branch.function.is_empty() {
        true => "unknown".to_owned(),
        false => branch.function.to_string(),
    };
    let image = branch
        .image
        .and_then(|image| profile.images.get(image.index()));
    if let Some(image) = image.filter(|image| !image.is_kernel) {
        name += &format!("  ({})", image.name);
    }
    escape_controls(&mut name);
    name
}

/// A name with its middle left out if it has more letters than there is room for: modules at its
/// beginning and the function at its end say most.
fn shortened(name: &str, room: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= room {
        return name.to_owned();
    }
    let kept = room.saturating_sub(1);
    let first = kept / 3;
    let begin = letters.iter().take(first);
    let end = letters.iter().skip(letters.len() - (kept - first));
    begin.chain(&['…']).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("kernel::a::b::push", 10), "ker…::push");
        assert_eq!(shortened("äöüäöü", 4), "ä…öü");
        assert_eq!(shortened("abc", 0), "…");
    }
}
