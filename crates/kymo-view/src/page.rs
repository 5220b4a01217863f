//! The files of the page, which are part of the program.

/// Type and text of a file.
pub(crate) fn file(path: &str) -> Option<(&'static str, &'static str)> {
    const SCRIPT: &str = "text/javascript; charset=utf-8";
    Some(match path {
        "" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "style.css" => ("text/css; charset=utf-8", include_str!("page/style.css")),
        "main.js" => (SCRIPT, include_str!("page/main.js")),
        "growing.js" => (SCRIPT, include_str!("page/growing.js")),
        "server.js" => (SCRIPT, include_str!("page/server.js")),
        "tracks.js" => (SCRIPT, include_str!("page/tracks.js")),
        "draw.js" => (SCRIPT, include_str!("page/draw.js")),
        "time.js" => (SCRIPT, include_str!("page/time.js")),
        "panel.js" => (SCRIPT, include_str!("page/panel.js")),
        _ => return None,
    })
}
