//! Sets of integer ranges: `[[1, 5], [7, 7]]`.

use std::sync::Arc;

use super::Checked;
use super::object::{integer, list, map, wrong};
use super::syntax::Node;
use crate::class::{IntRange, Mapping};
use crate::error::{MetadataError, Position};
use crate::state::ABSENT;

/// One range or more. Bounds may be larger than any integer that is read.
pub(super) fn ranges(node: &Node, what: &str) -> Checked<Vec<IntRange>> {
    ranges_from(node, what, i128::MIN)
}

/// The same of integers that are not below `least`.
fn ranges_from(node: &Node, what: &str, least: i128) -> Checked<Vec<IntRange>> {
    let elements = list(node, what)?;
    if elements.is_empty() {
        return wrong(node, format!("{what} must have one range at least"));
    }
    elements.iter().map(|node| range(node, least)).collect()
}

fn range(node: &Node, least: i128) -> Checked<IntRange> {
    let [low, high] = list(node, "an integer range")? else {
        return wrong(node, "an integer range is an array of two integers: its lower and its upper bound");
    };
    let lower = integer(low, "the lower bound of a range", i128::MIN..=i128::MAX)?;
    if lower < least {
        return wrong(low, format!("the range's lower bound is {lower}; it cannot be below {least}"));
    }
    let upper = integer(high, "the upper bound of a range", i128::MIN..=i128::MAX)?;
    if lower > upper {
        return wrong(node, format!("the range's lower bound {lower} is greater than its upper bound {upper}"));
    }
    // The least of all numbers stands for fields that are not there.
    Ok(IntRange { low: lower.max(ABSENT + 1), high: upper.max(ABSENT + 1) })
}

/// Labels with their ranges of integers that are not below `least`, in the order of the text.
pub(super) fn labelled(node: &Node, what: &str, least: i128) -> Checked<Arc<[Mapping]>> {
    let mut mappings = Vec::new();
    for (name, node) in map(node, what)? {
        let label: Arc<str> = Arc::from(name.text.as_str());
        for IntRange { low, high } in ranges_from(node, &format!("the ranges of `{}`", name.text), least)? {
            mappings.push(Mapping { label: Arc::clone(&label), low, high });
        }
    }
    Ok(mappings.into())
}

/// Refuses ranges of different options that have an integer in common.
pub(super) fn refuse_common(options: &[Vec<IntRange>], places: &[Position]) -> Checked<()> {
    let mut all: Vec<(IntRange, usize)> =
        options.iter().enumerate().flat_map(|(option, ranges)| ranges.iter().map(move |range| (*range, option))).collect();
    all.sort_by_key(|(range, option)| (range.low, *option));
    // The upper bound reached so far, and whose it is. An option's own ranges may overlap each other.
    let mut reached: Option<(i128, usize)> = None;
    for (range, option) in all {
        reached = match reached {
            Some((high, before)) if before == option => Some((high.max(range.high), option)),
            Some((high, before)) if range.low <= high => {
                let at = places.get(before.max(option)).copied().unwrap_or_default();
                let message = format!("{} selects two options: their ranges must not have an integer in common", range.low);
                return Err(MetadataError::new(at, message));
            }
            _ => Some((range.high, option)),
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_integers_are_found() {
        let at = |column| Position { line: 1, column };
        let range = |low, high| IntRange { low, high };
        let places = [at(1), at(2), at(3)];
        let check = |options: [Vec<IntRange>; 3]| refuse_common(&options, &places).map_err(|error| error.position.column);
        assert_eq!(check([vec![range(1, 5), range(2, 3)], vec![range(6, 6)], vec![range(-3, 0)]]), Ok(()));
        assert_eq!(check([vec![range(1, 9)], vec![range(20, 20)], vec![range(9, 9)]]), Err(3));
        assert_eq!(check([vec![range(8, 8)], vec![range(1, 9)], vec![range(20, 30)]]), Err(2));
        assert_eq!(check([vec![range(0, 100), range(1, 2)], vec![range(200, 200)], vec![range(99, 101)]]), Err(3));
        assert_eq!(check([vec![range(0, 1)], vec![range(2, 50), range(3, 4)], vec![range(10, 11)]]), Err(3));
    }
}
