//! The model by itself: a few events in, their changes out. [`scene`] has the notation.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod calls;
mod counted;
mod interrupts;
mod locks;
mod losses;
mod processes;
mod scene;
mod shown;
mod switches;
mod threads;
mod users;
mod wakes;
