//! The files of the page, which are part of the program.

/// Type and text of a file of the page that a server shows.
pub(crate) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    match path {
        "" => Some(("text/html; charset=utf-8", HTML)),
        "style.css" => Some(("text/css; charset=utf-8", STYLE)),
        _ => {
            let mut scripts = SCRIPTS.iter();
            let (_, text) = scripts.find(|(name, _)| *name == path)?;
            Some(("text/javascript; charset=utf-8", text))
        }
    }
}

pub(crate) const HTML: &str = include_str!("page/index.html");
pub(crate) const STYLE: &str = include_str!("page/style.css");
/// Takes the place of `server.js` in a page that is a file.
pub(crate) const FILE: &str = include_str!("page/file.js");

/// The modules, of which `main.js` uses the others.
pub(crate) const SCRIPTS: [(&str, &str); 27] = [
    ("address.js", include_str!("page/address.js")),
    ("arrows.js", include_str!("page/arrows.js")),
    ("compare.js", include_str!("page/compare.js")),
    ("draw.js", include_str!("page/draw.js")),
    ("element.js", include_str!("page/element.js")),
    ("flame.js", include_str!("page/flame.js")),
    ("growing.js", include_str!("page/growing.js")),
    ("keys.js", include_str!("page/keys.js")),
    ("layout.js", include_str!("page/layout.js")),
    ("listed.js", include_str!("page/listed.js")),
    ("listing.js", include_str!("page/listing.js")),
    ("main.js", include_str!("page/main.js")),
    ("marks.js", include_str!("page/marks.js")),
    ("mouse.js", include_str!("page/mouse.js")),
    ("page.js", include_str!("page/page.js")),
    ("panel.js", include_str!("page/panel.js")),
    ("path.js", include_str!("page/path.js")),
    ("picture.js", include_str!("page/picture.js")),
    ("report.js", include_str!("page/report.js")),
    ("server.js", include_str!("page/server.js")),
    ("slice.js", include_str!("page/slice.js")),
    ("state.js", include_str!("page/state.js")),
    ("stretch.js", include_str!("page/stretch.js")),
    ("time.js", include_str!("page/time.js")),
    ("titles.js", include_str!("page/titles.js")),
    ("tracks.js", include_str!("page/tracks.js")),
    ("view.js", include_str!("page/view.js")),
];
