//! Flame graphs: folded stacks as an SVG that zooms and searches in a browser.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use kymo_profile::stack_order;

/// A flame graph to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlameGraph {
    /// Its heading.
    pub title: String,
    /// A line below the heading; may be empty.
    pub subtitle: String,
    /// What the counts are: `samples`.
    pub unit: String,
    /// What the frames are: `Function:`.
    pub frame: String,
    /// Whether the widest frame is the leftmost one above its caller, and a name that has no room
    /// keeps its beginning: for names of threads and reasons. Functions are in the order of their
    /// names, of which the end tells more.
    pub widest_first: bool,
}

impl FlameGraph {
    /// Draws folded stacks: lines of names with `;` between them, outermost first, and a count. The
    /// same stacks give the same bytes.
    ///
    /// # Errors
    /// If it cannot be written, or [`InvalidData`](io::ErrorKind::InvalidData) if no line has a
    /// count above 0.
    pub fn draw(&self, folded: &str, out: impl Write) -> io::Result<()> {
        let mut options = self.options();
        if folded.contains(KERNEL_MARK) {
            // Kernel functions in orange, others in green, yellow and red by their language.
            options.colors = Palette::Multi(MultiPalette::Java);
        }
        let folded = in_xml(folded);
        let lines = sorted(&folded);
        if lines.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no stacks"));
        }
        let mut lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
        if self.widest_first {
            widest_first(&mut lines);
        }
        let lines = lines.into_iter().rev();
        flamegraph::from_lines(&mut options, lines, out)
    }

    /// Draws the stacks of `after`, coloured by how much more (red) or less (blue) of them there is
    /// than in `before`, which is scaled to the same total.
    ///
    /// # Errors
    /// As [`draw`](Self::draw).
    pub fn draw_difference(&self, before: &str, after: &str, out: impl Write) -> io::Result<()> {
        let lines = difference(&in_xml(before), &in_xml(after), true);
        if lines.lines().all(|line| line.ends_with(" 0")) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no stacks"));
        }
        flamegraph::from_lines(&mut self.options(), lines.lines().rev(), out)
    }

    fn options(&self) -> Options<'static> {
        let mut options = Options::default();
        options.title = in_xml(&self.title).into_owned();
        options.subtitle = (!self.subtitle.is_empty()).then(|| in_xml(&self.subtitle).into_owned());
        options.count_name.clone_from(&self.unit);
        options.name_type.clone_from(&self.frame);
        if self.widest_first {
            options.text_truncate_direction = TextTruncateDirection::Right;
        }
        // Colors by name, not by chance.
        options.deterministic = true;
        // Draws the lines in an order of ours, from the last to the first: inferno's own parts
        // `a;b` from `a;b;c` if there is `a;b::d`.
        options.flame_chart = true;
        // Not as `notes`, a comment: in XML that must not contain `--`, as an option's name does.
        options
    }
}

/// Text without the characters that XML 1.0 forbids (section 2.2): a browser would not open the
/// file. They become escapes such as `\u{1b}`, and so do the other control characters but line ends.
fn in_xml(text: &str) -> Cow<'_, str> {
    let is_wrong = |letter: char| match letter {
        '\n' => false,
        '\u{fffe}' | '\u{ffff}' => true,
        letter => letter.is_control(),
    };
    if !text.contains(is_wrong) {
        return Cow::Borrowed(text);
    }
    let escape = |letter: char| match is_wrong(letter) {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// The end of a kernel function's name, which the graph does not show.
const KERNEL_MARK: &str = "_[k]";

/// Lines of the stacks of two profiles, in the order of their names, each with its count before and
/// after. With `scale`, the counts before are scaled to the same total.
pub fn difference(before: &str, after: &str, scale: bool) -> String {
    let counts = |folded: &str| -> Vec<(String, u64)> {
        let lines = sorted(folded).into_iter();
        let split = |line: Cow<'_, str>| {
            let (stack, count) = line.rsplit_once(' ')?;
            Some((stack.to_owned(), count.parse().ok()?))
        };
        lines.filter_map(split).collect()
    };
    let (before, after) = (counts(before), counts(after));
    let total = |lines: &[(String, u64)]| lines.iter().map(|(_, count)| u128::from(*count)).sum();
    let (of_before, of_after): (u128, u128) = (total(&before), total(&after));
    let scaled = |count: u64| match scale && of_before > 0 {
        // Rounded to the nearest.
        true => (u128::from(count) * of_after + of_before / 2) / of_before,
        false => u128::from(count),
    };
    let mut both: HashMap<&str, (u128, u64)> = HashMap::new();
    for (stack, count) in &before {
        both.entry(stack).or_default().0 += scaled(*count);
    }
    for (stack, count) in &after {
        both.entry(stack).or_default().1 += count;
    }
    let mut lines: Vec<_> = both.into_iter().collect();
    lines.sort_by(|(one, _), (other, _)| stack_order(one, other));
    let lines = lines.into_iter();
    lines
        .map(|(stack, (before, after))| format!("{stack} {before} {after}\n"))
        .collect()
}

/// The lines with a count, in the order of their stacks: those with the same callers are
/// neighbours, so that a function is drawn once above its caller.
fn sorted(folded: &str) -> Vec<Cow<'_, str>> {
    let split = |line: &'_ str| {
        line.trim_end()
            .rsplit_once(' ')
            .map(|(stack, _)| stack.len())
    };
    let counted = |line: &&str| split(line).is_some() && !line.trim_end().ends_with(" 0");
    let lines = folded.lines().filter(counted).map(str::trim_end);
    let mut lines: Vec<Cow<'_, str>> = lines.map(Cow::Borrowed).collect();
    let stack = |line: &Cow<'_, str>| -> usize { split(line).unwrap_or(0) };
    // An innermost name such as `CPU 1` would be taken for a name and one of two counts.
    let ambiguous: HashSet<String> = lines
        .iter()
        .filter_map(|line| line.get(..stack(line))?.rsplit(';').next())
        .filter(|name| ends_with_number(name))
        .map(str::to_owned)
        .collect();
    if !ambiguous.is_empty() {
        for line in &mut lines {
            let (stack, count) = line.split_at(stack(line));
            let names: Vec<String> = stack
                .split(';')
                .map(|name| match ambiguous.contains(name) {
                    true => name.replace(' ', "\u{a0}"),
                    false => name.to_owned(),
                })
                .collect();
            *line = Cow::Owned(names.join(";") + count);
        }
    }
    let before = |line: &'_ Cow<'_, str>, other: &Cow<'_, str>| {
        let (one, another) = (line.get(..stack(line)), other.get(..stack(other)));
        stack_order(one.unwrap_or_default(), another.unwrap_or_default())
    };
    if !lines.is_sorted_by(|line, other| before(line, other).is_le()) {
        lines.sort_by(before);
    }
    lines
}

/// Orders the lines by the widths of frames with the same callers. Equal ones keep their order.
fn widest_first(lines: &mut [&str]) {
    let split = |line: &'_ str| -> Option<(usize, u64)> {
        let (stack, count) = line.rsplit_once(' ')?;
        Some((stack.len(), count.parse().ok()?))
    };
    let mut widths: HashMap<&str, u64> = HashMap::new();
    for line in lines.iter() {
        let Some((len, count)) = split(line) else {
            continue;
        };
        for prefix in prefixes(line, len) {
            let width = widths.entry(prefix).or_default();
            *width = width.saturating_add(count);
        }
    }
    lines.sort_by(|one, other| {
        let of = |line| split(line).map_or(0, |(len, _)| len);
        let (ones, others) = (prefixes(one, of(one)), prefixes(other, of(other)));
        let differs = ones.zip(others).find(|(one, other)| one != other);
        let width = |prefix| widths.get(prefix);
        match differs {
            // A caller stands before what it calls.
            None => of(one).cmp(&of(other)),
            Some((one, other)) => width(other).cmp(&width(one)).then_with(|| one.cmp(other)),
        }
    });
}

/// The stack of each frame of a line whose stack has this length, the outermost first.
fn prefixes(line: &str, len: usize) -> impl Iterator<Item = &str> {
    let stack = line.get(..len).unwrap_or_default();
    let ends = stack.match_indices(';').map(|(place, _)| place);
    let ends = ends.chain([stack.len()]);
    ends.filter_map(move |end| stack.get(..end))
}

/// Whether the last word is a number.
fn ends_with_number(name: &str) -> bool {
    let is_of_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    name.rsplit_once(' ')
        .is_some_and(|(_, word)| word.bytes().all(is_of_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames from the left to the right, with the widest of each caller first.
    #[test]
    fn the_widest_frame_is_the_first_of_its_caller() {
        let mut lines = vec!["a 1", "a;c 20", "a;d 30", "b;c 5", "b;e 90", "b;e;f 2"];
        widest_first(&mut lines);
        let expected = ["b;e 90", "b;e;f 2", "b;c 5", "a 1", "a;d 30", "a;c 20"];
        assert_eq!(lines, expected);
        let graph = FlameGraph {
            unit: "ns".to_owned(),
            widest_first: true,
            ..FlameGraph::default()
        };
        let mut svg = Vec::new();
        graph
            .draw("one;asleep 10\nsecond;asleep 90\n", &mut svg)
            .unwrap();
        let svg = String::from_utf8(svg).unwrap();
        let place = |title: &str| {
            let (_, frame) = svg.split_once(&format!("<title>{title} (")).unwrap();
            let (_, x) = frame.split_once("<rect x=\"").unwrap();
            x.split_once('%').unwrap().0.parse::<f64>().unwrap()
        };
        assert!(place("second") < place("one"));
        assert!(svg.contains("truncate_text_right = true"));
    }

    fn drawn(folded: &str) -> String {
        let graph = FlameGraph {
            title: "Title <1>".to_owned(),
            subtitle: "below --with an option's name".to_owned(),
            unit: "bytes".to_owned(),
            frame: "Function:".to_owned(),
            widest_first: false,
        };
        let mut svg = Vec::new();
        graph.draw(folded, &mut svg).unwrap();
        String::from_utf8(svg).unwrap()
    }

    #[test]
    fn every_frame_is_in_the_graph_with_its_count_and_share() {
        let svg = drawn("a;b 30\na;c<T> 60\nd 10\n");
        assert!(svg.contains("Title &lt;1&gt;") && svg.contains("below --with"));
        // XML 1.0, 2.5: `--` must not occur within comments.
        let comments = svg.split("<!--").skip(1);
        for comment in comments.map(|rest| rest.split("-->").next().unwrap()) {
            assert!(!comment.contains("--"), "{comment}");
        }
        for frame in [
            "<title>all (100 bytes, 100%)</title>",
            "<title>a (90 bytes, 90.00%)</title>",
            "<title>c&lt;T&gt; (60 bytes, 60.00%)</title>",
            "<title>d (10 bytes, 10.00%)</title>",
        ] {
            assert!(svg.contains(frame), "{frame} is not in {svg}");
        }
        assert_eq!(svg, drawn("d 10\na;c<T> 60\na;b 30\n"));
    }

    /// XML 1.0, 2.2: neither control characters nor U+FFFE and U+FFFF may occur, however written.
    #[test]
    fn every_character_is_one_of_xml() {
        let every: String = ('\0'..='\u{9f}')
            .filter(|of| !"\n; ".contains(*of))
            .collect();
        let name = format!("a{every}\u{fffe}\u{ffff}\u{fffd}\u{1f600}");
        let graph = FlameGraph {
            title: name.clone(),
            subtitle: name.clone(),
            ..FlameGraph::default()
        };
        let (mut svg, mut of_change) = (Vec::new(), Vec::new());
        let folded = format!("{name} 1\n");
        graph.draw(&folded, &mut svg).unwrap();
        graph
            .draw_difference(&folded, &folded, &mut of_change)
            .unwrap();
        for svg in [svg, of_change] {
            let svg = String::from_utf8(svg).unwrap();
            let is_wrong = |of: char| matches!(of, '\0'..'\t' | '\u{b}' | '\u{c}' | '\u{e}'..' ' | '\u{fffe}' | '\u{ffff}');
            assert!(!svg.contains(is_wrong));
            assert!(svg.contains("\u{fffd}\u{1f600}") && svg.contains("\\u{1b}"));
            assert!(!svg.contains("&#"), "{svg}");
        }
    }

    /// Neither numbers at the end of names nor the order of `;` and ` ` confuse it.
    #[test]
    fn names_with_blanks_and_numbers_are_names() {
        let svg = drawn("x 10;y 3 1\nx 9 2\nx 9;z 3\nx 5\n");
        for frame in [
            "<title>all (11 bytes, 100%)</title>",
            "<title>x\u{a0}9 (5 bytes, 45.45%)</title>",
            "<title>y\u{a0}3 (1 bytes, 9.09%)</title>",
            "<title>x (5 bytes, 45.45%)</title>",
        ] {
            assert!(svg.contains(frame), "{frame} is not in {svg}");
        }
    }

    /// The width is what is after; what is gone has none. Before is scaled to as much as after.
    #[test]
    fn a_difference_has_the_counts_after_and_the_changes() {
        let (before, after) = ("a;b 5\na;gone 5\n", "a;b 50\na;new 50\n");
        assert_eq!(
            difference(before, after, true),
            "a;b 50 50\na;gone 50 0\na;new 0 50\n"
        );
        assert_eq!(
            difference(before, after, false),
            "a;b 5 50\na;gone 5 0\na;new 0 50\n"
        );
        let mut svg = Vec::new();
        let graph = FlameGraph {
            unit: "samples".to_owned(),
            ..FlameGraph::default()
        };
        graph.draw_difference(before, after, &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        for frame in [
            "<title>all (100 samples, 100%)</title>",
            "<title>b (50 samples, 50.00%; 0.00%)</title>",
            "<title>new (50 samples, 50.00%; +50.00%)</title>",
        ] {
            assert!(svg.contains(frame), "{frame} is not in {svg}");
        }
        assert!(!svg.contains("gone"));
    }

    /// `:` is before `;` in the alphabet of bytes, which would part `a;foo` from `a;foo;x`.
    #[test]
    fn a_function_is_drawn_once_above_its_caller() {
        for folded in [
            "a;foo 5\na;foo::bar;y 1\na;foo;x 3\n",
            "a;foo;x 3\na;foo::bar;y 1\na;foo 5\n",
        ] {
            let svg = drawn(folded);
            assert!(
                svg.contains("<title>foo (8 bytes, 88.89%)</title>"),
                "{svg}"
            );
        }
        let mut svg = Vec::new();
        let graph = FlameGraph {
            unit: "bytes".to_owned(),
            ..FlameGraph::default()
        };
        let folded = "a;foo 5\na;foo::bar;y 1\na;foo;x 3\n";
        graph.draw_difference(folded, folded, &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        assert!(
            svg.contains("<title>foo (8 bytes, 88.89%; 0.00%)</title>"),
            "{svg}"
        );
    }

    #[test]
    fn nothing_is_no_graph() {
        for folded in ["", "a 0\n", "\n"] {
            let error = FlameGraph::default().draw(folded, Vec::new());
            assert_eq!(
                error.unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{folded}"
            );
        }
    }
}
