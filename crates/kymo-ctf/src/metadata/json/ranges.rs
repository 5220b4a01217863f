//! Sets of integer ranges: `[[1, 5], [7, 7]]`.

use std::sync::Arc;

use super::Checked;
use super::object::{any_integer, list, map, wrong};
use super::syntax::Node;
use crate::class::{IntRange, Mapping};
use crate::error::{MetadataError, Position};

/// Reads one or more ranges. Bounds may exceed the integers that fields can hold.
pub(super) fn ranges(node: &Node, what: &str) -> Checked<Vec<IntRange>> {
    ranges_from(node, what, Sign::Any)
}

/// The integers that a range may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Any,
    NotNegative,
}

fn ranges_from(node: &Node, what: &str, sign: Sign) -> Checked<Vec<IntRange>> {
    let elements = list(node, what)?;
    if elements.is_empty() {
        return wrong(node, format!("{what} must have one range at least"));
    }
    elements.iter().map(|node| range(node, sign)).collect()
}

fn range(node: &Node, sign: Sign) -> Checked<IntRange> {
    let [low, high] = list(node, "an integer range")? else {
        return wrong(
            node,
            "an integer range is an array of two integers: its lower and its upper bound",
        );
    };
    let lower = any_integer(low, "the lower bound of a range")?;
    if sign == Sign::NotNegative && lower.is_negative() {
        return wrong(
            low,
            format!(
                "the range's lower bound is {}; it cannot be below 0",
                lower.brief()
            ),
        );
    }
    let upper = any_integer(high, "the upper bound of a range")?;
    if lower > upper {
        let (lower, upper) = (lower.brief(), upper.brief());
        return wrong(
            node,
            format!("the range's lower bound {lower} is greater than its upper bound {upper}"),
        );
    }
    Ok(IntRange::wide(lower, upper))
}

/// Reads labels and their ranges, in the order of the text.
pub(super) fn labelled(node: &Node, what: &str, sign: Sign) -> Checked<Arc<[Mapping]>> {
    let mut mappings = Vec::new();
    for (name, node) in map(node, what)? {
        let label: Arc<str> = Arc::from(name.text.as_str());
        for range in ranges_from(node, &format!("the ranges of `{}`", name.text), sign)? {
            mappings.push(Mapping {
                label: Arc::clone(&label),
                range,
            });
        }
    }
    Ok(mappings.into())
}

/// Refuses ranges of different options that overlap.
pub(super) fn refuse_common(options: &[Vec<IntRange>], places: &[Position]) -> Checked<()> {
    let all = || {
        options
            .iter()
            .zip(0..)
            .flat_map(|(ranges, option)| ranges.iter().map(move |range| (range, option)))
    };
    let common = if all().any(|(range, _)| range.is_wide()) {
        common(
            all()
                .map(|(range, option)| (range.low(), range.high(), option))
                .collect(),
        )
        .map(|(first, option)| (first.brief(), option))
    } else {
        common(
            all()
                .map(|(range, option)| (range.low, range.high, option))
                .collect(),
        )
        .map(|(first, option)| (first.to_string(), option))
    };
    let Some((first, option)) = common else {
        return Ok(());
    };
    let at = places.get(option).copied().unwrap_or_default();
    Err(MetadataError::new(
        at,
        format!("{first} selects two options: their ranges must not have an integer in common"),
    ))
}

/// The first integer in the ranges of two options, and the index of the later option.
fn common<T: Ord>(mut all: Vec<(T, T, usize)>) -> Option<(T, usize)> {
    all.sort_by(|(a, _, one), (b, _, other)| (a, one).cmp(&(b, other)));
    // The largest upper bound so far, and its option. Ranges of the same option may overlap.
    let mut reached: Option<(T, usize)> = None;
    for (low, high, option) in all {
        reached = match reached {
            Some((so_far, before)) if before == option => Some((so_far.max(high), option)),
            Some((so_far, before)) if low <= so_far => return Some((low, before.max(option))),
            _ => Some((high, option)),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::wide_int::WideInt;

    #[test]
    fn common_integers_are_found() {
        let at = |column| Position { line: 1, column };
        let range = |low, high| IntRange::new(low, high);
        let places = [at(1), at(2), at(3)];
        let check = |options: [Vec<IntRange>; 3]| {
            refuse_common(&options, &places).map_err(|error| error.position.column)
        };
        assert_eq!(
            check([
                vec![range(1, 5), range(2, 3)],
                vec![range(6, 6)],
                vec![range(-3, 0)]
            ]),
            Ok(())
        );
        assert_eq!(
            check([vec![range(1, 9)], vec![range(20, 20)], vec![range(9, 9)]]),
            Err(3)
        );
        assert_eq!(
            check([vec![range(8, 8)], vec![range(1, 9)], vec![range(20, 30)]]),
            Err(2)
        );
        assert_eq!(
            check([
                vec![range(0, 100), range(1, 2)],
                vec![range(200, 200)],
                vec![range(99, 101)]
            ]),
            Err(3)
        );
        assert_eq!(
            check([
                vec![range(0, 1)],
                vec![range(2, 50), range(3, 4)],
                vec![range(10, 11)]
            ]),
            Err(3)
        );
        let most = |more: u128| WideInt::from(u128::MAX - 9 + more);
        let wide = |low, high| IntRange::wide(most(low), most(high));
        assert_eq!(
            check([
                vec![wide(4, 5)],
                vec![IntRange::wide(1_u128.into(), most(3))],
                vec![wide(6, 9), range(0, 0)]
            ]),
            Ok(())
        );
        assert_eq!(
            check([
                vec![wide(4, 5)],
                vec![wide(6, 9)],
                vec![IntRange::wide(1_u128.into(), most(4))]
            ]),
            Err(3)
        );
    }
}
