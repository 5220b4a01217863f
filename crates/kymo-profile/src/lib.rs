//! Profiles: samples of a trace in, distinct call stacks out.
//!
//! [`Collector`] takes the items of a trace and counts each distinct call chain, by thread and CPU.
//! [`Chains::symbolize`] then looks up each distinct address once, and yields a [`Profile`]: stacks
//! of functions as a tree, and rows that say how often each was seen. Flame graphs, tables and the
//! formats of other tools are made from it.
//!
//! The samples may also come from the profiler of the [Redox kernel](redox).
//!
//! - What an event's call chain is, and who the thread is, [`kymo_machine`] says; what code is at
//!   an address, [`kymo_symbols`].
//! - Memory grows with the number of distinct chains. A [`Collector`] that keeps
//!   [times](Options::keep_times) needs 16 bytes for each sample besides.
//! - Nothing is dropped silently: what is not in the rows is in [`Totals`].
//!
//! ```no_run
//! use kymo_profile::{Collector, Options};
//!
//! let trace = kymo_ctf::Trace::open("trace".as_ref())?;
//! let (map, mut collector) = (trace.map(), Collector::new(Options::default()));
//! let mut reader = map.read();
//! while let Some(item) = reader.next() {
//!     collector.add(&item, true);
//! }
//! let kernel = std::fs::read("kernel.elf").unwrap_or_default();
//! let kernel = kymo_symbols::Image::parse(&kernel).ok();
//! let profile = collector.finish().symbolize(|wanted| match wanted {
//!     kymo_profile::Wanted::Kernel => kernel.as_ref().map(|image| kymo_profile::LoadedFile {
//!         loaded: kymo_profile::Loaded { image, bias: 0 },
//!         library: None,
//!     }),
//!     _ => None,
//! });
//! print!("{}", profile.folded(kymo_profile::By::Nothing));
//! # Ok::<(), kymo_ctf::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod chains;
mod collect;
mod counts;
mod folded;
mod hot;
mod inlined;
mod profile;
pub mod redox;
mod single;
mod stacks;
mod symbolize;
mod tally;
mod tree;
mod waits;

pub use collect::{Chosen, Collector, Kind, Only, Options};
pub use folded::{By, StackNames, stack_order};
pub use hot::{Hot, Place, Share};
pub use kymo_machine::{AddressSpace, Mapping, Period};
pub use kymo_symbols::Loaded;
pub use profile::{
    Coverage, Frame, FrameId, FunctionId, ImageId, Mode, PeriodUnit, Profile, ProfileFunction,
    ProfileImage, Row, Sample, Stack, StackId, Thread, Totals, Unit,
};
pub use single::{Samples, SingleSample};
pub use stacks::Unwind;
pub use symbolize::{Chains, LoadedFile, Wanted};
pub use tree::{Branch, Folded};
pub use waits::{WaitKind, Waits};
