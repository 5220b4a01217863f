//! Converts ordered choices of a selector into disjoint ranges.

use std::collections::BTreeMap;

use crate::class::{Choice, IntRange};

/// The values that select each option. The first choice that holds applies, so the ranges of
/// earlier choices are removed from later ones.
pub(super) fn disjoint(choices: &[Choice], options: usize) -> Vec<Vec<IntRange>> {
    let mut of = vec![Vec::new(); options];
    // Lower and upper bounds of the values covered so far, with adjacent ranges merged.
    let mut covered: BTreeMap<i128, i128> = BTreeMap::new();
    // Ranges beyond the values of a slot concern wide numbers, which are written in another way.
    for choice in choices
        .iter()
        .filter(|choice| choice.range.low <= choice.range.high)
    {
        let left = uncovered(&covered, &choice.range);
        if let Some(ranges) = of.get_mut(choice.option as usize) {
            ranges.extend(left);
        }
        cover(&mut covered, &choice.range);
    }
    of
}

fn uncovered(covered: &BTreeMap<i128, i128>, range: &IntRange) -> Vec<IntRange> {
    let mut left = Vec::new();
    let high = range.high;
    let mut low = Some(range.low);
    while let Some(from) = low.filter(|from| *from <= high) {
        if let Some((_, end)) = covered.range(..=from).next_back()
            && *end >= from
        {
            low = end.checked_add(1);
            continue;
        }
        let next = covered.range(from..).next().map(|(next, _)| *next);
        let end = next.map_or(high, |next| high.min(next.saturating_sub(1)));
        left.push(IntRange::new(from, end));
        low = end.checked_add(1);
    }
    left
}

fn cover(covered: &mut BTreeMap<i128, i128>, range: &IntRange) {
    let (mut low, mut high) = (range.low, range.high);
    if let Some((start, end)) = covered.range(..=low).next_back()
        && *end >= low
    {
        (low, high) = (*start, high.max(*end));
    }
    let inside: Vec<i128> = covered.range(low..=high).map(|(start, _)| *start).collect();
    for start in inside {
        high = high.max(covered.remove(&start).unwrap_or(high));
    }
    covered.insert(low, high);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::LEAST;

    #[test]
    fn the_first_choice_is_made() {
        let choices = [
            (5, 9, 0),
            (0, 20, 1),
            (3, 6, 2),
            (20, 30, 0),
            (LEAST, i128::MAX, 2),
        ];
        let choices = choices.map(|(low, high, option)| Choice {
            range: IntRange::new(low, high),
            option,
        });
        let of = disjoint(&choices, 3);
        for value in [LEAST, -1, 0, 3, 4, 5, 9, 10, 20, 21, 30, 31, i128::MAX] {
            let first = choices
                .iter()
                .find(|choice| choice.range.holds(value))
                .map(|choice| choice.option as usize);
            let found: Vec<usize> = (0..3)
                .filter(|option| of[*option].iter().any(|range| range.holds(value)))
                .collect();
            assert_eq!(found, [first.unwrap()], "{value}");
        }
    }
}
