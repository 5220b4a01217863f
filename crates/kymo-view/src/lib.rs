//! Shows a trace in the browser: a server on this machine, and its page.
//!
//! The server listens on 127.0.0.1 only, and answers only who knows the token in its
//! [address](Server::address). It reads, and changes nothing. Its page is part of the program: plain
//! modules of JavaScript, which ask this server and nobody else.
//!
//! - `api/trace`: tracks, rows and names; `api/window`: what rows have in a stretch of time, from
//!   the [index](kymo_index); `api/at`: a slice, and `api/find` one whose times are known;
//!   `api/arrows`: who woke its thread, and whom that woke.
//! - `api/why`: who held a thread up, as `kymo why` says.
//! - `api/report`: the report of a stretch of time and its worst cases; `api/diff`: two stretches
//!   compared; `api/flame`: its samples as a tree of functions; `api/events`: its first events. With
//!   `where=`, only of events that fit a condition.
//! - [`View::file`] is the page as one file, which needs no server.
//! - A request for anything else, with another host name, without the token or from another site is
//!   refused in one line.
//!
//! ```no_run
//! use kymo_index::{Key, Options};
//! use kymo_view::{Server, View};
//!
//! let trace = kymo_ctf::Trace::open("trace".as_ref())?;
//! let map = trace.map();
//! let path = Key::of(&trace, &map)?.path_in("cache".as_ref());
//! let view = View::new("trace");
//! view.open(trace, map);
//! let server = Server::new(view, 0)?;
//! println!("{}", server.address());
//! std::thread::scope(|scope| {
//!     scope.spawn(|| server.view().read(&path, Options::default()));
//!     server.run()
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod api;
mod error;
mod http;
mod page;
mod server;
mod view;

pub use api::{File, Symbols};
pub use error::Error;
pub use server::Server;
pub use view::{FindCode, View};
