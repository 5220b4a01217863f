//! The links and headings of a page, by the parser that mdBook uses.

use std::collections::{BTreeSet, HashMap};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A link or a picture.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) to: String,
    /// From 1.
    pub(crate) line: usize,
}

/// What a page refers to, and what others can refer to.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) links: Vec<Link>,
    /// The ids of headings, and of elements in HTML.
    pub(crate) headings: BTreeSet<String>,
}

impl Page {
    pub(crate) fn new(text: &str) -> Page {
        let mut page = Page {
            links: Vec::new(),
            headings: BTreeSet::new(),
        };
        let mut ids = HashMap::new();
        let mut heading: Option<String> = None;
        let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let before = text.get(..range.start).unwrap_or(text);
                    page.links.push(Link {
                        to: dest_url.to_string(),
                        line: before.matches('\n').count() + 1,
                    });
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let id = id_of(&heading.take().unwrap_or_default());
                    let count: &mut usize = ids.entry(id.clone()).or_default();
                    page.headings.insert(match *count {
                        0 => id,
                        count => format!("{id}-{count}"),
                    });
                    *count += 1;
                }
                Event::Html(html) | Event::InlineHtml(html) => page.headings.extend(id_in(&html)),
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// The id of an element that the page writes itself: `<a id="name">`.
fn id_in(html: &str) -> Option<String> {
    let (_, rest) = html.split_once(" id=\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

/// The id that mdBook gives a heading: its letters, digits, `_` and `-` in lower case, with `-` for
/// each blank.
fn id_of(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c.to_ascii_lowercase()),
        c if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mdbooks() {
        for (heading, id) in [
            ("Two words", "two-words"),
            ("From `trace!` to the report", "from-trace-to-the-report"),
            ("Who? (and why)", "who-and-why"),
            ("a_b - c", "a_b---c"),
        ] {
            let page = Page::new(&format!("## {heading}"));
            assert!(page.headings.contains(id), "{heading}: {:?}", page.headings);
        }
        let own = Page::new("<a id=\"own-one\"></a>**Words**");
        assert!(own.headings.contains("own-one"));
        let same = Page::new("# A\n# A\n# A");
        assert!(
            ["a", "a-1", "a-2"]
                .iter()
                .all(|id| same.headings.contains(*id))
        );
    }

    #[test]
    fn code_has_no_links() {
        let page = Page::new("`[a](b)` and\n\n    [c](d)\n\n[e](f)");
        let links: Vec<(&str, usize)> = page
            .links
            .iter()
            .map(|link| (&*link.to, link.line))
            .collect();
        assert_eq!(links, [("f", 5)]);
    }
}
