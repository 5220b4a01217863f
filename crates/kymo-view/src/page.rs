//! The files of the page, which are part of the program.

/// Type and text of a file.
pub(crate) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    Some(match path {
        "" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "style.css" => ("text/css; charset=utf-8", include_str!("page/style.css")),
        "address.js" => (SCRIPT, include_str!("page/address.js")),
        "arrows.js" => (SCRIPT, include_str!("page/arrows.js")),
        "compare.js" => (SCRIPT, include_str!("page/compare.js")),
        "element.js" => (SCRIPT, include_str!("page/element.js")),
        "keys.js" => (SCRIPT, include_str!("page/keys.js")),
        "marks.js" => (SCRIPT, include_str!("page/marks.js")),
        "listed.js" => (SCRIPT, include_str!("page/listed.js")),
        "main.js" => (SCRIPT, include_str!("page/main.js")),
        "growing.js" => (SCRIPT, include_str!("page/growing.js")),
        "server.js" => (SCRIPT, include_str!("page/server.js")),
        "tracks.js" => (SCRIPT, include_str!("page/tracks.js")),
        "draw.js" => (SCRIPT, include_str!("page/draw.js")),
        "time.js" => (SCRIPT, include_str!("page/time.js")),
        "panel.js" => (SCRIPT, include_str!("page/panel.js")),
        "report.js" => (SCRIPT, include_str!("page/report.js")),
        _ => return None,
    })
}
