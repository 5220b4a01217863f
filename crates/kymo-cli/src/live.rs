//! The page of a trace that is recorded meanwhile: `--view` of `kymo record` and `kymo attach`, and
//! `kymo view --follow`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kymo_images::Symbols;
use kymo_index::{Key, Options};
use kymo_view::{FindCode, Server, View};

use crate::record::was_interrupted;
use crate::view::code::{self, CodeFiles};
use crate::{input, view};

/// Whether and how what is recorded is shown.
#[derive(clap::Args)]
pub struct Shown {
    /// Show the machine in the browser as it runs, less than a second behind, and stay until
    /// Ctrl-C; at any free port of 127.0.0.1, or this one.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "0")]
    view: Option<u16>,
    /// With --view, only print the address, and open no browser.
    #[arg(long, requires = "view")]
    no_open: bool,
}

impl Shown {
    /// Whether it is asked for.
    pub fn is_given(&self) -> bool {
        self.view.is_some()
    }

    /// The page of the trace that will be in this directory, if it is asked for. The functions of
    /// its samples have names from these files.
    pub fn page(&self, directory: &Path, symbols: Symbols) -> anyhow::Result<Option<Page>> {
        let page = |port| {
            let page = Page::start(directory, &view::cache()?, port, symbols)?;
            message!("kymo: see it at {}", page.server.address());
            page.open(self.no_open);
            Ok(page)
        };
        self.view.map(page).transpose()
    }
}

/// A page that shows what has been recorded.
pub struct Page {
    server: Arc<Server>,
    directory: PathBuf,
    /// Where indexes are kept.
    folder: PathBuf,
    is_over: Arc<AtomicBool>,
    follows: JoinHandle<Result<(), kymo_view::Error>>,
    serves: JoinHandle<Result<(), kymo_view::Error>>,
}

impl Page {
    /// Begins to show the trace in this directory, as soon as it has one.
    pub fn start(
        directory: &Path,
        folder: &Path,
        port: u16,
        symbols: Symbols,
    ) -> anyhow::Result<Page> {
        let made = fs::create_dir_all(folder);
        made.with_context(|| format!("cannot create {}", folder.display()))?;
        let view = View::new(&view::title(directory));
        let server = Arc::new(Server::new(view, port)?);
        let is_over = Arc::new(AtomicBool::new(false));
        let serves = {
            let server = Arc::clone(&server);
            thread::spawn(move || server.run())
        };
        let follows = {
            let (server, is_over) = (Arc::clone(&server), Arc::clone(&is_over));
            let (directory, folder) = (directory.to_owned(), folder.to_owned());
            let code: Arc<FindCode> = {
                let directory = directory.clone();
                Arc::new(
                    move |trace| match CodeFiles::of(&symbols, &directory, trace) {
                        Ok(code) => Ok(Box::new(code)),
                        Err(error) => Err(code::sentence(&format!("{error:#}"))),
                    },
                )
            };
            // It orders nothing: only whether it is set counts.
            let is_over = move || is_over.load(Relaxed);
            thread::spawn(move || server.view().follow(&directory, &folder, &code, is_over))
        };
        Ok(Page {
            server,
            directory: directory.to_owned(),
            folder: folder.to_owned(),
            is_over,
            follows,
            serves,
        })
    }

    /// The address.
    pub fn address(&self) -> String {
        self.server.address()
    }

    /// Opens it in the browser, unless that is not wanted.
    pub fn open(&self, is_unwanted: bool) {
        if !is_unwanted && !view::open(&self.server.address()) {
            message!("kymo: no browser could be opened; open the address yourself");
        }
    }

    /// Follows the trace until the process ends.
    pub fn run(self) -> anyhow::Result<()> {
        let followed = self.follows.join();
        followed.map_err(|_| anyhow!("following the trace failed"))??;
        let served = self.serves.join();
        served.map_err(|_| anyhow!("the server failed"))??;
        Ok(())
    }

    /// The recording has ended: shows all of it until the user interrupts.
    pub fn stay(self) -> anyhow::Result<()> {
        self.is_over.store(true, Relaxed);
        let followed = self.follows.join();
        if let Err(error) = followed.map_err(|_| anyhow!("following the trace failed"))? {
            message!("kymo: the page could not follow the trace: {error}");
        }
        let trace = input::of_one_clock(&self.directory)?;
        let map = trace.map();
        let index = Key::of(&trace, &map)?.path_in(&self.folder);
        let view = self.server.view();
        let code = CodeFiles::of(&Symbols::default(), &self.directory, &trace)?;
        view.open_with(trace, map, Box::new(code));
        view.read(&index, Options::default())?;
        message!(
            "kymo: the whole trace is at {} until Ctrl-C",
            self.server.address()
        );
        while !was_interrupted() && !self.serves.is_finished() {
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}
