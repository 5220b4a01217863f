//! eBPF programs from object files.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use aya::programs::{PerfEvent, Program, TracePoint};

use crate::error::Error;

/// The programs and maps of an object file, as a compiler for eBPF writes it.
///
/// Its programs end when the file and the events that run them are dropped.
pub struct ProgramFile {
    path: PathBuf,
    ebpf: aya::Ebpf,
}

impl std::fmt::Debug for ProgramFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl ProgramFile {
    /// Reads the file, and makes its maps.
    ///
    /// # Errors
    /// [`Error::ProgramFile`], for all its programs.
    pub fn open(path: &Path) -> Result<ProgramFile, Error> {
        let ebpf = aya::Ebpf::load_file(path).map_err(|error| Error::ProgramFile {
            program: "*".to_owned(),
            path: path.to_owned(),
            reason: reason(&error),
        })?;
        let path = path.to_owned();
        Ok(ProgramFile { path, ebpf })
    }

    /// Loads a program of the type perf_event or tracepoint, by its name, for
    /// [`Group::add_with_program`](crate::Group::add_with_program).
    ///
    /// # Errors
    /// [`Error::ProgramFile`].
    pub fn program(&mut self, name: &str) -> Result<BorrowedFd<'_>, Error> {
        let path = self.path.clone();
        let failed = |reason: String| Error::ProgramFile {
            program: name.to_owned(),
            path,
            reason,
        };
        let names: Vec<&str> = self.ebpf.programs().map(|(name, _)| name).collect();
        let names = names.join(", ");
        let loaded = match self.ebpf.program_mut(name) {
            Some(Program::PerfEvent(program)) => load_perf_event(program),
            Some(Program::TracePoint(program)) => load_tracepoint(program),
            Some(_) => {
                let types = "it is of another type than perf_event or tracepoint";
                return Err(failed(types.to_owned()));
            }
            None => return Err(failed(format!("it has only {names}"))),
        };
        match loaded {
            Ok(fd) => Ok(fd.as_fd()),
            Err(error) => Err(failed(reason(&error))),
        }
    }

    /// The descriptor of a program that is loaded.
    ///
    /// # Errors
    /// [`Error::ProgramFile`].
    pub fn descriptor(&self, name: &str) -> Result<BorrowedFd<'_>, Error> {
        let fd = match self.ebpf.program(name) {
            Some(Program::PerfEvent(program)) => program.fd(),
            Some(Program::TracePoint(program)) => program.fd(),
            _ => Err(aya::programs::ProgramError::NotLoaded),
        };
        let fd = fd.map_err(|error| Error::ProgramFile {
            program: name.to_owned(),
            path: self.path.clone(),
            reason: reason(&error),
        })?;
        Ok(fd.as_fd())
    }

    /// The file's maps, in which programs leave what they count.
    pub fn ebpf(&mut self) -> &mut aya::Ebpf {
        &mut self.ebpf
    }
}

type Loaded<'p> = Result<&'p aya::programs::ProgramFd, aya::programs::ProgramError>;

fn load_perf_event(program: &mut PerfEvent) -> Loaded<'_> {
    program.load()?;
    program.fd()
}

fn load_tracepoint(program: &mut TracePoint) -> Loaded<'_> {
    program.load()?;
    program.fd()
}

/// An error with its causes, of which the last is the kernel's, and the way out if it forbids.
fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        let kernels = error.downcast_ref::<std::io::Error>();
        if kernels.is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
            text += "; run as root, or with CAP_BPF and CAP_PERFMON";
        }
        cause = error.source();
    }
    text
}
