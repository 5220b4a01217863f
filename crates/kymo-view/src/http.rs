//! As much of HTTP/1.1 as a page on the same machine needs: GET, one request after another.

use std::io::{self, Read, Write};

/// Most bytes of a request: what browsers send is a tenth of it.
const MOST: usize = 16 << 10;

/// A request for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Without the query.
    pub(crate) path: String,
    /// Names and values, decoded.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) host: String,
    /// Another site asks for it, or the user typed something that is no page.
    pub(crate) is_foreign: bool,
    /// Whether the connection stays open behind it.
    pub(crate) stays: bool,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRequest {
    /// The other side has ended the connection, or says nothing more.
    Ended,
    /// It is refused with this status and sentence.
    Refused(u16, &'static str),
}

use NoRequest::{Ended, Refused};

/// Reads the next request. `rest` has what was read behind the one before.
pub(crate) fn read(from: &mut impl Read, rest: &mut Vec<u8>) -> Result<Request, NoRequest> {
    let end = loop {
        if let Some(end) = find(rest, b"\r\n\r\n") {
            break end;
        }
        if rest.len() > MOST {
            return Err(Refused(431, "The request is too long."));
        }
        let mut bytes = [0; 4096];
        match from.read(&mut bytes) {
            Ok(0) | Err(_) => return Err(Ended),
            Ok(count) => rest.extend_from_slice(bytes.get(..count).unwrap_or_default()),
        }
    };
    let head: Vec<u8> = rest.drain(..end + 4).collect();
    let head = String::from_utf8(head);
    let head = head.map_err(|_| Refused(400, "The request is no text."))?;
    parse(&head)
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn parse(head: &str) -> Result<Request, NoRequest> {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refused(400, "The request is not one of HTTP."));
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Refused(505, "The request is not one of HTTP/1.1."));
    }
    if method != "GET" {
        return Err(Refused(
            405,
            "Nothing can be changed here: only GET is answered.",
        ));
    }
    let mut request = Request {
        path: String::new(),
        query: Vec::new(),
        host: String::new(),
        is_foreign: false,
        stays: version == "HTTP/1.1",
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    request.path = decoded(path).ok_or(Refused(400, "The path cannot be read."))?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let pair = decoded(name).zip(decoded(value));
        let pair = pair.ok_or(Refused(400, "The query cannot be read."))?;
        request.query.push(pair);
    }
    let mut hosts = 0;
    for line in lines.filter(|line| !line.is_empty()) {
        let Some((name, value)) = line.split_once(':') else {
            return Err(Refused(400, "A header has no name."));
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => {
                hosts += 1;
                request.host = value.to_owned();
            }
            "connection" => request.stays &= !value.eq_ignore_ascii_case("close"),
            // A body would be taken for the next request.
            "content-length" if value != "0" => {
                return Err(Refused(400, "A request has no body here."));
            }
            "transfer-encoding" => return Err(Refused(400, "A request has no body here.")),
            // What browsers say about who asks.
            "sec-fetch-site" => request.is_foreign |= !matches!(value, "same-origin" | "none"),
            _ => {}
        }
    }
    match hosts {
        1 => Ok(request),
        _ => Err(Refused(400, "A request names one host.")),
    }
}

/// A part of an address without `%` and `+`. `None` if that is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                (high * 16 + low) as u8
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer {
            status: 200,
            kind,
            body: body.into(),
        }
    }

    /// A sentence instead of what was asked for.
    pub(crate) fn refused(status: u16, sentence: &str) -> Answer {
        Answer {
            status,
            ..Answer::new("text/plain; charset=utf-8", format!("{sentence}\n"))
        }
    }
}

/// What the page may do: nothing but ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Writes an answer at once.
pub(crate) fn write(to: &mut impl Write, answer: &Answer, stays: bool) -> io::Result<()> {
    let reason = match answer.status {
        200 => "OK",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Bad Request",
    };
    let connection = if stays { "keep-alive" } else { "close" };
    let mut bytes = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: {connection}\r\n\
         Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cross-Origin-Opener-Policy: same-origin\r\nCache-Control: no-store\r\n\r\n",
        answer.status,
        answer.kind,
        answer.body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(&answer.body);
    to.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(text: &str) -> Result<Request, NoRequest> {
        read(&mut text.as_bytes(), &mut Vec::new())
    }

    #[test]
    fn a_request_has_a_path_and_a_query() {
        let request = of("GET /a%20b/c?x=1&y=%C3%A4+b&z HTTP/1.1\r\nHost: h:1\r\n\r\n").unwrap();
        assert_eq!(request.path, "/a b/c");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            request.query,
            [pair("x", "1"), pair("y", "ä b"), pair("z", "")]
        );
        assert_eq!((&*request.host, request.stays), ("h:1", true));
        let old = of("GET / HTTP/1.0\r\nhost: h\r\n\r\n").unwrap();
        assert!(!old.stays);
    }

    #[test]
    fn several_requests_follow_one_another() {
        let text = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";
        let (mut from, mut rest) = (text.as_bytes(), Vec::new());
        assert_eq!(read(&mut from, &mut rest).unwrap().path, "/1");
        assert_eq!(read(&mut from, &mut rest).unwrap().path, "/2");
        assert_eq!(read(&mut from, &mut rest), Err(Ended));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (text, status) in [
            ("\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("GET / HTTP/2\r\nHost: h\r\n\r\n", 505),
            ("POST / HTTP/1.1\r\nHost: h\r\n\r\n", 405),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd",
                400,
            ),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
                400,
            ),
            ("GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost\r\n\r\n", 400),
        ] {
            match of(text) {
                Err(Refused(is, sentence)) => {
                    assert_eq!(is, status, "{text:?}: {sentence}");
                    assert!(sentence.ends_with('.'));
                }
                other => assert_eq!(other, Err(Refused(status, "")), "{text:?}"),
            }
        }
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(MOST));
        assert_eq!(of(&long), Err(Refused(431, "The request is too long.")));
        let bytes = [&b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n"[..]].concat();
        let read = read(&mut &bytes[..], &mut Vec::new());
        assert_eq!(read, Err(Refused(400, "The request is no text.")));
    }

    #[test]
    fn other_sites_are_told_apart() {
        for (site, is_foreign) in [
            ("same-origin", false),
            ("none", false),
            ("cross-site", true),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: {site}\r\n\r\n");
            assert_eq!(of(&text).unwrap().is_foreign, is_foreign, "{site}");
        }
    }
}
