//! The running emulator.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::machine::package;
use super::{Error, Launch, PORT_NAME};

/// Makes the file `size` zero bytes long and takes the space for them: a signal would end QEMU
/// when the guest writes to memory for which the disk has no room.
pub(super) fn reserve(file: &File, size: u64) -> io::Result<()> {
    file.set_len(size)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
        use rustix::io::Errno;
        // Without this, fallocate would fill the disk before it fails.
        let disk = fstatvfs(file)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < size {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match fallocate(file, FallocateFlags::empty(), 0, size) {
            // The file system cannot reserve.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            done => done?,
        }
    }
    Ok(())
}

/// A running QEMU. It ends when this value is dropped or the process that started it is killed.
#[derive(Debug)]
pub struct Qemu {
    program: String,
    child: Child,
    ends_in_order: bool,
}

impl Qemu {
    /// Starts QEMU. The guest's RAM file is recreated, all zero, before this returns. The serial
    /// port's output goes to `stdout`, QEMU's own messages to this process's standard error; there
    /// is no input.
    ///
    /// QEMU is killed when the calling *thread* ends (as defined by Linux): call this from one that
    /// lives as long as the recording.
    pub fn spawn(launch: &Launch, stdout: Stdio) -> Result<Qemu, Error> {
        Qemu::start(launch, stdout, |_| {})
    }

    /// Like [`spawn`](Self::spawn), with an additional virtio serial port: number 1, named
    /// [`PORT_NAME`]. Returns the host's end, which is closed when QEMU ends.
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
                // By default, such devices use virtio 0.9.
                command.args(["-global", "virtio-mmio.force-legacy=false"]);
            }
            // An inherited socket needs no file name, whose length would be limited, and leaves
            // nothing behind.
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
            let failed = |source| Error::RamFile {
                path: launch.ram.file.clone(),
                source,
            };
            // What could not be created is not this call's to remove.
            let file = File::create(&launch.ram.file).map_err(failed)?;
            reserve(&file, launch.ram.size)
                .inspect_err(|_| drop(std::fs::remove_file(&launch.ram.file)))
                .map_err(failed)?;
        }
        let mut command = Command::new(&launch.program);
        command
            .args(&launch.arguments)
            .stdin(match launch.takes_input {
                true => Stdio::piped(),
                false => Stdio::null(),
            })
            .stdout(stdout);
        // Ctrl-C must not reach QEMU: this process ends the machine when the recording is complete.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        die_with_this_process(&mut command);
        more(&mut command);
        match command.spawn() {
            Ok(mut child) => {
                if let Some(input) = child.stdin.take() {
                    pass_input(input);
                }
                Ok(Qemu {
                    program,
                    child,
                    ends_in_order: launch.ends_in_order,
                })
            }
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

    /// Takes the serial port's output, if `spawn` was given `Stdio::piped()`.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// QEMU's exit status; `None` while it runs.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child
            .try_wait()
            .map_err(|source| self.failed("watched", source))
    }

    /// Waits for QEMU to end by itself.
    pub fn wait(&mut self) -> Result<ExitStatus, Error> {
        self.child
            .wait()
            .map_err(|source| self.failed("watched", source))
    }

    /// Kills QEMU, as if the machine lost power, and returns its exit status (it may have ended
    /// earlier).
    pub fn kill(&mut self) -> Result<ExitStatus, Error> {
        self.child
            .kill()
            .map_err(|source| self.failed("ended", source))?;
        self.wait()
    }

    /// Ends QEMU and returns its exit status. With [`Launch::ending_in_order`], asks QEMU to end
    /// and kills it only after ten seconds; otherwise kills it.
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
        // An error cannot be handled here; if QEMU has already ended, there is none.
        let _ = self.kill();
    }
}

/// Sends SIGTERM.
/// Copies this program's standard input to QEMU until either ends. QEMU cannot read a terminal
/// itself, as it is in a process group of its own. The thread may wait for input as long as this
/// program runs.
fn pass_input(mut machine: ChildStdin) {
    std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        let mut input = io::stdin().lock();
        while let Ok(count @ 1..) = input.read(&mut bytes) {
            let read = bytes.get(..count).unwrap_or_default();
            if machine.write_all(read).is_err() {
                return;
            }
        }
    });
}

#[cfg(target_os = "linux")]
fn ask_to_end(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process};
    if let Ok(Some(id)) = i32::try_from(child.id()).map(Pid::from_raw) {
        // This fails if QEMU has already ended.
        let _ = kill_process(id, Signal::TERM);
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_to_end(_child: &Child) {}

/// Lets the kernel kill the child when this process dies, even by SIGKILL, after which no code of
/// ours runs.
#[cfg(target_os = "linux")]
fn die_with_this_process(command: &mut Command) {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
    use std::os::unix::process::CommandExt;

    let parent = getpid();
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If this process died before the call above, that signal will never be sent.
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

/// Keeps this file open in the child.
#[cfg(unix)]
fn inherit(command: &mut Command, file: std::os::fd::RawFd) {
    use std::os::unix::process::CommandExt;

    let in_child = move || {
        // SAFETY: the caller keeps it open until the child runs.
        let file = unsafe { std::os::fd::BorrowedFd::borrow_raw(file) };
        Ok(rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty())?)
    };
    // SAFETY: between fork and exec the closure makes one system call; it allocates nothing and
    // takes no lock.
    unsafe { command.pre_exec(in_child) };
}

/// On other systems, only [`Drop`] ends the child.
#[cfg(not(target_os = "linux"))]
fn die_with_this_process(_command: &mut Command) {}
