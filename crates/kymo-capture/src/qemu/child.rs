//! The running emulator.

use std::fs::File;
use std::io;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::machine::package;
use super::{Error, Launch, PORT_NAME};

/// A running QEMU. It ends when this value is dropped, and also when the process that started it is
/// killed.
#[derive(Debug)]
pub struct Qemu {
    program: String,
    child: Child,
    ends_in_order: bool,
}

impl Qemu {
    /// Starts QEMU; the guest's RAM file is made anew, all zero, and is there when this returns.
    /// The serial port's text goes to `stdout`, QEMU's own messages to this process's standard
    /// error; there is no input.
    ///
    /// QEMU is killed when the calling *thread* ends (so Linux defines it): call this from one that
    /// lives as long as the recording.
    pub fn spawn(launch: &Launch, stdout: Stdio) -> Result<Qemu, Error> {
        Qemu::start(launch, stdout, |_| {})
    }

    /// As [`spawn`](Self::spawn), on a machine with a virtio serial port more: number 1, named
    /// [`PORT_NAME`]. Gives its other end, which ends with QEMU.
    #[cfg(unix)]
    pub fn spawn_with_port(
        launch: &Launch,
        stdout: Stdio,
    ) -> Result<(Qemu, std::os::unix::net::UnixStream), Error> {
        use std::os::fd::AsRawFd;
        launch.check_port()?;
        let failed = |source| Error::Process {
            program: launch.program.to_string_lossy().into_owned(),
            action: "connected",
            source,
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        let bus = launch.serial_bus.unwrap_or_default();
        let qemu = Qemu::start(launch, stdout, |command| {
            if !bus.ends_with("pci") {
                // Such devices speak virtio 0.9 otherwise.
                command.args(["-global", "virtio-mmio.force-legacy=false"]);
            }
            // A socket that is inherited needs no name in a file system, whose length would be
            // limited, and leaves nothing behind.
            command.args([
                "-chardev".to_owned(),
                format!("socket,id=kymo-port,fd={}", theirs.as_raw_fd()),
            ]);
            command.args(["-device".to_owned(), format!("{bus},id=kymo-serial")]);
            command.args([
                "-device".to_owned(),
                format!("virtserialport,bus=kymo-serial.0,nr=1,chardev=kymo-port,name={PORT_NAME}"),
            ]);
            inherit(command, theirs.as_raw_fd());
        })?;
        Ok((qemu, ours))
    }

    fn start(
        launch: &Launch,
        stdout: Stdio,
        more: impl FnOnce(&mut Command),
    ) -> Result<Qemu, Error> {
        let program = launch.program.to_string_lossy().into_owned();
        if launch.makes_ram_file {
            File::create(&launch.ram.file)
                .and_then(|file| file.set_len(launch.ram.size))
                .map_err(|source| Error::RamFile {
                    path: launch.ram.file.clone(),
                    source,
                })?;
        }
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.arguments)
            .stdin(Stdio::null())
            .stdout(stdout);
        // A terminal's Ctrl-C is for this process, which ends the machine when it has what it
        // wants.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        die_with_this_process(&mut command);
        more(&mut command);
        match command.spawn() {
            Ok(child) => Ok(Qemu {
                program,
                child,
                ends_in_order: launch.ends_in_order,
            }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Err(Error::Missing {
                package: package(&launch.program),
                program,
            }),
            Err(source) => Err(Error::Process {
                program,
                action: "started",
                source,
            }),
        }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The serial port's text, once, if `spawn` was given `Stdio::piped()`.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How QEMU ended, or `None` while it runs.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child
            .try_wait()
            .map_err(|source| self.failed("watched", source))
    }

    /// Waits until QEMU ends by itself.
    pub fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.child
            .wait()
            .map_err(|source| self.failed("watched", source))
    }

    /// Ends QEMU at once, as if the machine had lost its power, and says how it ended (which may
    /// have been before).
    pub fn kill(&mut self) -> Result<ExitStatus, Error> {
        self.child
            .kill()
            .map_err(|source| self.failed("ended", source))?;
        self.wait()
    }

    /// Ends QEMU, and says how it ended: at once, or as [`Launch::ending_in_order`] has it. If it
    /// does not within ten seconds, at once too.
    pub fn end(&mut self) -> Result<ExitStatus, Error> {
        if self.ends_in_order {
            ask_to_end(&self.child);
            let patience = Instant::now() + Duration::from_secs(10);
            while Instant::now() < patience {
                if let Some(status) = self.try_wait()? {
                    return Ok(status);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.kill()
    }

    fn failed(&self, action: &'static str, source: io::Error) -> Error {
        Error::Process {
            program: self.program.clone(),
            action,
            source,
        }
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // Nothing can be done about an error here, and there is none if it has ended already.
        let _ = self.kill();
    }
}

/// By SIGTERM.
#[cfg(target_os = "linux")]
fn ask_to_end(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Ok(Some(id)) = i32::try_from(child.id()).map(Pid::from_raw) {
        // It may have ended, which is what was asked for.
        let _ = kill_process(id, Signal::TERM);
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_to_end(_child: &Child) {}

/// Has the kernel kill the child when this process dies, even by SIGKILL, where nothing of ours
/// runs any more.
#[cfg(target_os = "linux")]
fn die_with_this_process(command: &mut Command) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt;

    let parent = getpid();
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If this process died before the line above, nobody will send that signal.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::ErrorKind::Interrupted.into())
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls; it allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(in_child) };
}

/// Leaves this file open in the child.
#[cfg(unix)]
fn inherit(command: &mut Command, file: std::os::fd::RawFd) {
    use std::os::unix::process::CommandExt;

    let in_child = move || {
        // SAFETY: the caller has it open until the child runs.
        let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
        Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?)
    };
    // SAFETY: between fork and exec the closure makes one system call; it allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(in_child) };
}

/// Elsewhere the child is ended by [`Drop`] alone.
#[cfg(not(target_os = "linux"))]
fn die_with_this_process(_command: &mut Command) {}
