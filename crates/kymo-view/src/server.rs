//! The server: on this machine's own address, for those who know the token.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::http::{self, Answer, NoRequest};
use crate::page;
use crate::view::View;

/// Bytes of the token.
const TOKEN: usize = 16;
/// Connections at the same time: a browser opens six.
const MOST: usize = 64;
/// How long a connection may say nothing.
const QUIET: Duration = Duration::from_secs(60);

/// A server for one trace. It only reads, and answers only who knows its address.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    site: Arc<Site>,
}

#[derive(Debug)]
struct Site {
    view: View,
    port: u16,
    token: String,
    connections: AtomicUsize,
}

impl Server {
    /// A server on a port of 127.0.0.1; 0 stands for any that is free.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port cannot be had.
    pub fn new(view: View, port: u16) -> Result<Server, Error> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address);
        let bound = listener.and_then(|listener| {
            let port = listener.local_addr()?.port();
            Ok((listener, port))
        });
        let (listener, port) = bound.map_err(|error| Error::Listen { port, error })?;
        Ok(Server {
            listener,
            site: Arc::new(Site {
                view,
                port,
                token: token()?,
                connections: AtomicUsize::new(0),
            }),
        })
    }

    /// The address to open. Whoever knows it can read the trace.
    pub fn address(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.site.port, self.site.token)
    }

    /// The address of a view with a mark at a time, in nanoseconds from the clock's origin. `None`
    /// if the time is outside the trace.
    pub fn address_at(&self, nanos: i128) -> Option<String> {
        let fragment = self.site.view.fragment_at(nanos)?;
        Some(format!("{}{fragment}", self.address()))
    }

    /// What is shown.
    pub fn view(&self) -> &View {
        &self.site.view
    }

    /// Answers, until the process ends.
    ///
    /// # Errors
    /// [`Error::Listen`] if no connection can be taken any more.
    pub fn run(&self) -> Result<(), Error> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                // The other side gave up, or this process has too many files for a moment.
                Err(error) if is_passing(&error) => {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                Err(error) => {
                    let port = self.site.port;
                    return Err(Error::Listen { port, error });
                }
            };
            let connection = Connection::new(&self.site);
            if connection.number > MOST {
                continue;
            }
            // Where no thread can be had, the connection ends.
            let _ = std::thread::Builder::new().spawn(move || {
                // What goes wrong on a connection ends it.
                let _ = connection.site.talk(&stream);
            });
        }
    }
}

/// A connection, which counts until it is dropped.
struct Connection {
    site: Arc<Site>,
    /// How many there are with it.
    number: usize,
}

impl Connection {
    fn new(site: &Arc<Site>) -> Connection {
        Connection {
            site: Arc::clone(site),
            // It orders nothing: only the number counts.
            number: site.connections.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.site.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    let kind = matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | WouldBlock
    );
    // EMFILE, ENFILE, ENOBUFS and ENOMEM.
    kind || matches!(error.raw_os_error(), Some(24 | 23 | 105 | 12))
}

/// A text that nobody can guess.
fn token() -> Result<String, Error> {
    let mut bytes = [0; TOKEN];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Site {
    fn talk(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(QUIET))?;
        stream.set_write_timeout(Some(QUIET))?;
        let (mut from, mut to, mut rest) = (stream, stream, Vec::new());
        loop {
            let (answer, stays) = match http::read(&mut from, &mut rest) {
                Ok(request) => (self.answer(&request), request.stays),
                Err(NoRequest::Ended) => return Ok(()),
                Err(NoRequest::Refused(status, why)) => (Answer::refused(status, why), false),
            };
            http::write(&mut to, &answer, stays)?;
            if !stays {
                return Ok(());
            }
        }
    }

    fn answer(&self, request: &http::Request) -> Answer {
        // Another name may be one of a page elsewhere that resolves to this machine.
        let hosts = [
            format!("127.0.0.1:{}", self.port),
            format!("localhost:{}", self.port),
        ];
        if !hosts.contains(&request.host) {
            return Answer::refused(403, "This server has another name.");
        }
        let known = request.path.strip_prefix('/').and_then(|path| {
            let (token, path) = path.split_once('/')?;
            is_same(token, &self.token).then_some(path)
        });
        let Some(path) = known else {
            return Answer::refused(403, "The address lacks the token that kymo view printed.");
        };
        if request.is_foreign && !path.is_empty() {
            return Answer::refused(403, "Other sites get nothing from here.");
        }
        match path.strip_prefix("api/") {
            Some(what) => self.view.answer(what, &request.query),
            None => match page::file(path) {
                Some((kind, text)) => Answer::new(kind, text),
                None => Answer::refused(404, "There is nothing of this name."),
            },
        }
    }
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes());
    let differs = differs.fold(0, |differs, (one, other)| differs | (one ^ other));
    one.len() == other.len() && differs == 0
}
