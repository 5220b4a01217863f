//! Demangled names as paths: the crate, its modules, the type, the function.

/// The segments of a demangled name, from the crate inwards; at least one.
///
/// `<a::B<T> as c::D>::f` becomes `a`, `B<T>`, `impl c::D`, `f`: methods of traits are found under
/// the type that has them. A name that is no path, such as C's `memcpy`, is one segment.
///
/// ```
/// let path = kymo_symbols::path("<kernel::sched::Queue as core::fmt::Debug>::fmt");
/// assert_eq!(path, ["kernel", "sched", "Queue", "impl core::fmt::Debug", "fmt"]);
/// ```
pub fn path(name: &str) -> Vec<String> {
    let mut segments = Vec::new();
    for (place, segment) in split(name).enumerate() {
        let inside = segment
            .strip_prefix('<')
            .and_then(|inside| inside.strip_suffix('>'));
        match inside {
            // Only the first segment is a type in brackets; later ones are generic arguments.
            Some(inside) if place == 0 => {
                let (of, behind) = implementation(inside);
                // `&mut a::B` and `fn() -> a::B` are in no module.
                match is_path(of) {
                    true => segments.extend(split(of).map(str::to_owned)),
                    false => segments.push(of.to_owned()),
                }
                segments.extend(behind.map(|behind| format!("impl {behind}")));
            }
            // Methods that are defined outside of their type's module.
            Some(inside) if inside.starts_with("impl ") => segments.push(inside.to_owned()),
            // `name::<T>`: the arguments belong to the name.
            Some(_) => match segments.last_mut() {
                Some(last) => last.push_str(segment),
                None => segments.push(segment.to_owned()),
            },
            None => segments.push(segment.to_owned()),
        }
    }
    if segments.is_empty() {
        segments.push(name.to_owned());
    }
    segments
}

/// The type and the trait of `Type as Trait`.
fn implementation(inside: &str) -> (&str, Option<&str>) {
    let marks = outside_of_brackets(inside).filter(|&at| tail(inside, at).starts_with(" as "));
    match marks.last() {
        Some(at) => (
            inside.get(..at).unwrap_or(inside),
            Some(tail(inside, at + 4)),
        ),
        None => (inside, None),
    }
}

/// Whether a type is named by its path: it has no sign or blank outside of brackets.
fn is_path(of: &str) -> bool {
    let is_sign = |at| tail(of, at).starts_with([' ', '&', '*']);
    of.starts_with(|first: char| first.is_alphanumeric() || first == '_' || first == '<')
        && !outside_of_brackets(of).any(is_sign)
}

/// The parts between the `::` that are outside of all brackets.
fn split(name: &str) -> impl Iterator<Item = &str> {
    let mut begin = 0;
    let mut ends: Vec<usize> = outside_of_brackets(name)
        .filter(|&at| tail(name, at).starts_with("::"))
        .collect();
    ends.push(name.len());
    ends.into_iter().filter_map(move |end| {
        let part = name.get(begin..end);
        begin = end + 2;
        part.filter(|part| !part.is_empty())
    })
}

/// The positions of the characters outside of all brackets. The `>` of `->` and `=>` is no bracket.
fn outside_of_brackets(text: &str) -> impl Iterator<Item = usize> {
    let mut depth = 0_u32;
    let mut previous = ' ';
    text.char_indices().filter_map(move |(at, letter)| {
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if matches!(previous, '-' | '=') => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        previous = letter;
        (depth == 0).then_some(at)
    })
}

fn tail(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn names_are_split_at_their_modules() {
        for (name, wanted) in [
            ("memcpy", "memcpy"),
            ("kernel::main", "kernel|main"),
            (
                "core::ptr::drop_in_place::<a::B>",
                "core|ptr|drop_in_place<a::B>",
            ),
            (
                "core::ptr::drop_in_place<a::B>",
                "core|ptr|drop_in_place<a::B>",
            ),
            ("<alloc::vec::Vec<a::T>>::push", "alloc|vec|Vec<a::T>|push"),
            (
                "<a::B<<c::D as e::F>::G> as h::I<j::K>>::l",
                "a|B<<c::D as e::F>::G>|impl h::I<j::K>|l",
            ),
            ("<&mut a::B as c::D>::e", "&mut a::B|impl c::D|e"),
            ("<[T] as a::B>::c", "[T]|impl a::B|c"),
            (
                "<fn(a::B) -> c::D as e::F>::g",
                "fn(a::B) -> c::D|impl e::F|g",
            ),
            (
                "a::b::{closure#0}::{shim:vtable#0}",
                "a|b|{closure#0}|{shim:vtable#0}",
            ),
            ("a::b::{{closure}}", "a|b|{{closure}}"),
            (
                "ns::Class::method(ns::Other, int)",
                "ns|Class|method(ns::Other, int)",
            ),
            ("std::operator<<(int)", "std|operator<<(int)"),
            ("a::b::<impl c::D>::e", "a|b|impl c::D|e"),
            ("::", "::"),
            ("", ""),
            ("<", "<"),
            ("a::<", "a|<"),
            (">::b", ">|b"),
            ("ä::ö", "ä|ö"),
        ] {
            assert_eq!(path(name).join("|"), wanted, "{name}");
        }
    }
}
