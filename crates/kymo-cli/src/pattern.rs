//! Name patterns, and the closest match for a misspelt name.

/// Whether `pattern` matches all of `text`: `*` stands for any characters, `?` for one.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from) = (0, 0);
    // The last star, and the end of the text that it matches so far.
    let mut star = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(&letter) if letter == '?' || text.get(from) == Some(&letter) => {
                (at, from) = (at + 1, from + 1)
            }
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (at, from) = (place + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|&letter| letter == '*'))
}

/// The name with the smallest edit distance from `text`, if that is at most a third of the letters
/// of `text`.
pub fn nearest<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = names.into_iter().map(|name| (distance(text, name), name));
    let (distance, name) = distances.min()?;
    (distance <= text.chars().count().div_ceil(3)).then_some(name)
}

/// Levenshtein distance: letters to insert, delete or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut above_left = index;
        let mut left = index + 1;
        for (above, &wanted) in row.iter_mut().skip(1).zip(&to) {
            let best = (above_left + usize::from(letter != wanted))
                .min(left + 1)
                .min(*above + 1);
            above_left = std::mem::replace(above, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_describe_the_whole_name() {
        for (pattern, text, expected) in [
            ("hello::sched::switch", "hello::sched::switch", true),
            ("*switch", "hello::sched::switch", true),
            ("hello::*", "hello::sched::switch", true),
            ("*::s*::s*", "hello::sched::switch", true),
            ("switch", "hello::sched::switch", false),
            ("*switc", "hello::sched::switch", false),
            ("hello::sched::swi?ch", "hello::sched::switch", true),
            ("?", "", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*a*b*", "xxbxaxx", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn distances_are_letters_changed() {
        for (from, to, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
        assert_eq!(
            nearest("sched_swich", ["sched_switch", "sched_wakeup"]),
            Some("sched_switch")
        );
        assert_eq!(nearest("page", ["sched_switch", "sched_wakeup"]), None);
    }
}
