//! A guest under QEMU whose RAM is a file that the host can map.
//!
//! Recording needs one thing of QEMU: the guest's main memory as a shared file
//! (`-object memory-backend-file,share=on`). The guest does nothing for it, and the file stays when
//! QEMU dies. [`Launch`] builds such a command line, from a kernel image or from the user's own
//! command, to which it adds that and nothing else. [`Qemu`] is the running child, which never
//! outlives this process.

mod boot;
mod options;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use object::endian::LittleEndian;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use options::{Options, double_commas};

use crate::source::to_write;

pub use boot::{Boot, BootError};

/// Why a guest cannot be run. Each message is a sentence that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel image cannot be read.
    #[error("The kernel {path} cannot be read: {source}. Give the path of an ELF image.", path = path.display())]
    Kernel {
        /// Where it was looked for.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The kernel image is no ELF file.
    #[error("{path} is not an ELF file. Give the kernel as the linker made it, not as a flat binary.", path = path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
    },
    /// There is no standard command for this architecture yet.
    #[error(
        "{path} is built for {architecture}, and Kymo knows no standard machine for that. \
         Give your own QEMU command after `--`.", path = path.display()
    )]
    Architecture {
        /// The file.
        path: PathBuf,
        /// The architecture, as far as it is known.
        architecture: String,
    },
    /// QEMU would not know where to enter the kernel.
    #[error(
        "{path} has no PVH entry (an ELF note of Xen's, type 18), by which QEMU starts an x86-64 image. \
         Give the kernel one, or give your own QEMU command after `--`.", path = path.display()
    )]
    NoEntry {
        /// The file.
        path: PathBuf,
    },
    /// The user's command is empty or does not begin with a system emulator.
    #[error(
        "The command after `--` begins with \"{program}\". Give a command that begins with \
         qemu-system-ARCH."
    )]
    NotQemu {
        /// How it begins.
        program: String,
    },
    /// Nobody knows where this machine's RAM begins.
    #[error(
        "Kymo does not know at which address the RAM of the machine \"{machine}\" of {program} begins. \
         Use `-M virt`, or on x86 any machine."
    )]
    Machine {
        /// The emulator.
        program: String,
        /// The machine type, empty where none is given.
        machine: String,
    },
    /// `-m` does not say a size.
    #[error(
        "\"-m {value}\" is not a memory size that Kymo understands. Write it as in -m 256M or -m \
         1G."
    )]
    Size {
        /// The option's value.
        value: String,
    },
    /// An option lacks its value.
    #[error("The QEMU option {option} needs a value, and it stands last. Give it one.")]
    NoValue {
        /// The option.
        option: String,
    },
    /// The command has a memory backend of its own that the host cannot see into.
    #[error(
        "The command's own memory backend \"{id}\" is not a shared file. Recording reads the guest's RAM from a file: use \
         -object memory-backend-file,id={id},size=..,mem-path=..,share=on, or leave memory-backend out."
    )]
    Backend {
        /// The backend's id.
        id: String,
    },
    /// The file for the guest's RAM cannot be made.
    #[error("The file for the guest's RAM, {path}, cannot be made: {source}.", path = path.display())]
    RamFile {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is no place for a port on this machine.
    #[error(
        "Kymo does not know how to put a virtio serial port on the machine \"{machine}\" of {program}. \
         Use `-M virt`, or on x86 any machine; or record `--via memory`."
    )]
    NoPort {
        /// The emulator.
        program: String,
        /// The machine type, empty where none is given.
        machine: String,
    },
    /// The kernel's command line cannot say what it should.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The emulator is not installed.
    #[error("{program} is not installed. On Debian: apt-get install {package}")]
    Missing {
        /// The emulator.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The system refuses to start, watch or end the emulator.
    #[error("{program} cannot be {action}: {source}.")]
    Process {
        /// The emulator.
        program: String,
        /// What was tried, as a participle.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

impl Error {
    /// What is to blame: [`InvalidInput`](io::ErrorKind::InvalidInput), what was asked for;
    /// [`InvalidData`](io::ErrorKind::InvalidData), what was read; anything else, the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::RamFile { .. } | Error::Missing { .. } | Error::Process { .. } => {
                io::ErrorKind::Other
            }
            Error::Kernel { .. }
            | Error::NotElf { .. }
            | Error::Architecture { .. }
            | Error::NoEntry { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::InvalidInput,
        }
    }

    /// What can be done about it, as the rest of a sentence that begins with a verb; `None` where
    /// the message says it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::RamFile { source, .. } => Some(to_write(source)),
            Error::Process { .. } => {
                Some("see that you may run it, and that there is memory for it")
            }
            Error::Missing { .. } => Some("install it, or put it on the PATH"),
            _ => None,
        }
    }
}

/// A QEMU command line, complete with what recording needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    program: OsString,
    arguments: Vec<OsString>,
    ram: Ram,
    makes_ram_file: bool,
    ends_in_order: bool,
    /// The device that carries virtio serial ports, where that is known.
    serial_bus: Option<&'static str>,
    machine: String,
}

/// The guest's main memory, seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ram {
    /// The file that holds it.
    pub file: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// The guest-physical address of the file's first byte. (On x86 this holds up to the hole below
    /// 4 GiB.)
    pub base: u64,
}

const MIB: u64 = 1 << 20;
/// QEMU's own default, and what Kymo asks for.
const DEFAULT_RAM: u64 = 128 * MIB;
/// The name of the virtio serial port that Kymo adds.
pub const PORT_NAME: &str = "kymo";
/// The name of the memory backend that Kymo adds.
const BACKEND: &str = "kymo-ram";

impl Launch {
    /// The standard machine for a kernel image, found by its ELF header, with `cpus` CPUs, 128 MiB
    /// and a serial port on the standard output: QEMU's `virt` for RISC-V (with 32 bits, without a
    /// firmware), `q35` for x86-64. `append` is the kernel's command line.
    pub fn kernel(
        kernel: &Path,
        cpus: u32,
        append: Option<&str>,
        ram_file: &Path,
    ) -> Result<Launch, Error> {
        let machine = standard_machine(kernel)?;
        let mut command: Vec<OsString> = machine.iter().map(OsString::from).collect();
        command.extend(["-m", "128M", "-no-reboot", "-smp"].map(OsString::from));
        command.extend([cpus.to_string().into(), "-kernel".into(), kernel.into()]);
        if let Some(append) = append {
            command.extend(["-append".into(), append.into()]);
        }
        Launch::command(&command, ram_file)
    }

    /// As [`kernel`](Self::kernel), and the kernel's command line also says `boot`.
    pub fn kernel_with_boot(
        kernel: &Path,
        cpus: u32,
        append: Option<&str>,
        boot: &Boot,
        ram_file: &Path,
    ) -> Result<Launch, Error> {
        let joined = if boot.says_nothing() {
            None
        } else {
            Some(boot.join(append.unwrap_or_default())?)
        };
        Launch::kernel(kernel, cpus, joined.as_deref().or(append), ram_file)
    }

    /// The user's own command, program first. Only the memory backend is added; a backend of the
    /// user's own is kept if it is a shared file, and then `ram_file` is not used.
    pub fn command(command: &[OsString], ram_file: &Path) -> Result<Launch, Error> {
        let (program, arguments) = command.split_first().ok_or(Error::NotQemu {
            program: String::new(),
        })?;
        let architecture = architecture(program).ok_or_else(|| Error::NotQemu {
            program: program.to_string_lossy().into_owned(),
        })?;
        let options = Options::read(arguments)?;
        let base =
            ram_base(architecture, options.machine_type()).ok_or_else(|| Error::Machine {
                program: program.to_string_lossy().into_owned(),
                machine: options.machine_type().unwrap_or_default().to_owned(),
            })?;
        let size = options.memory()?.unwrap_or(DEFAULT_RAM);
        let machine = options.machine_type().unwrap_or_default().to_owned();
        let serial_bus = serial_bus(architecture, &machine);
        let mut arguments = arguments.to_vec();
        if let Some(id) = options.backend() {
            let (file, size) = options
                .shared_file(id)
                .ok_or_else(|| Error::Backend { id: id.to_owned() })?;
            let ram = Ram { file, size, base };
            let program = program.clone();
            return Ok(Launch {
                program,
                arguments,
                ram,
                makes_ram_file: false,
                ends_in_order: false,
                serial_bus,
                machine,
            });
        }
        match options
            .machines
            .first()
            .and_then(|machine| arguments.get_mut(machine.place))
        {
            Some(value) => value.push(format!(",memory-backend={BACKEND}")),
            None => arguments.extend([
                "-machine".into(),
                format!("memory-backend={BACKEND}").into(),
            ]),
        }
        let mut object = OsString::from(format!(
            "memory-backend-file,id={BACKEND},size={size},share=on,mem-path="
        ));
        object.push(double_commas(ram_file));
        arguments.extend(["-object".into(), object]);
        let ram = Ram {
            file: ram_file.to_owned(),
            size,
            base,
        };
        let program = program.clone();
        Ok(Launch {
            program,
            arguments,
            ram,
            makes_ram_file: true,
            ends_in_order: false,
            serial_bus,
            machine,
        })
    }

    /// More options at the end of the command.
    #[must_use]
    pub fn with<'a>(mut self, options: impl IntoIterator<Item = &'a str>) -> Launch {
        self.arguments
            .extend(options.into_iter().map(OsString::from));
        self
    }

    /// Has the kernel's command line, which a command of the user's own must have, say this too.
    pub fn with_boot(mut self, boot: &Boot) -> Result<Launch, Error> {
        if boot.says_nothing() {
            return Ok(self);
        }
        let place = options::last_append(&self.arguments).ok_or(BootError::NoAppend)?;
        if let Some(line) = self.arguments.get_mut(place) {
            let text = line.to_str().ok_or(BootError::NotText)?;
            *line = boot.join(text)?.into();
        }
        Ok(self)
    }

    /// Whether a virtio serial port can be put on the machine.
    pub fn check_port(&self) -> Result<(), Error> {
        let program = || self.program.to_string_lossy().into_owned();
        self.serial_bus.map(|_| ()).ok_or_else(|| Error::NoPort {
            program: program(),
            machine: self.machine.clone(),
        })
    }

    /// Counts instructions instead of running freely: the same run again leaves the same memory.
    #[must_use]
    pub fn deterministic(self) -> Launch {
        // A PC's clock of the day runs by the host's otherwise.
        let is_pc = matches!(architecture(&self.program), Some("i386" | "x86_64"));
        let rtc: &[&str] = if is_pc {
            &["-rtc", "base=2020-01-01,clock=vm"]
        } else {
            &[]
        };
        self.with(["-icount", "shift=0,sleep=off"])
            .with(rtc.iter().copied())
    }

    /// Where the machine has to be ended, QEMU is asked to end, and its plugins report.
    #[must_use]
    pub fn ending_in_order(self) -> Launch {
        Launch {
            ends_in_order: true,
            ..self
        }
    }

    /// Where the guest's memory is.
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// The whole command, program first.
    pub fn words(&self) -> impl Iterator<Item = &OsStr> {
        std::iter::once(&self.program)
            .chain(&self.arguments)
            .map(OsString::as_os_str)
    }
}

/// The part of the program's name after `qemu-system-`, wherever the program lies.
fn architecture(program: &OsStr) -> Option<&str> {
    Path::new(program)
        .file_name()?
        .to_str()?
        .strip_prefix("qemu-system-")
}

const RISCV_VIRT: &[&str] = &["qemu-system-riscv64", "-M", "virt", "-nographic"];
/// QEMU often comes without firmware for it: the kernel is entered in M-mode, at the beginning of
/// RAM.
const RISCV32_VIRT: &[&str] = &[
    "qemu-system-riscv32",
    "-M",
    "virt",
    "-nographic",
    "-bios",
    "none",
];
/// Not `-nographic`, which has the firmware write to the serial port. `isa-debug-exit` lets a
/// kernel end with an exit code.
const X86_64_Q35: &[&str] = &[
    "qemu-system-x86_64",
    "-M",
    "q35",
    "-display",
    "none",
    "-serial",
    "stdio",
    "-device",
    "isa-debug-exit,iobase=0xf4,iosize=4",
];

/// Which emulator runs this ELF file, with the machine's options.
fn standard_machine(kernel: &Path) -> Result<&'static [&'static str], Error> {
    const CLASS_32: u8 = 1;
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    const X86_64: u16 = 62;
    const RISCV: u16 = 243;
    let mut header = Vec::new();
    File::open(kernel)
        .and_then(|file| file.take(20).read_to_end(&mut header))
        .map_err(|source| Error::Kernel {
            path: kernel.to_owned(),
            source,
        })?;
    let &[0x7F, b'E', b'L', b'F', class, order, .., low, high] = header.as_slice() else {
        return Err(Error::NotElf {
            path: kernel.to_owned(),
        });
    };
    if header.len() < 20 {
        return Err(Error::NotElf {
            path: kernel.to_owned(),
        });
    }
    let machine = if order == LITTLE_ENDIAN {
        u16::from_le_bytes([low, high])
    } else {
        u16::from_be_bytes([low, high])
    };
    match (machine, class, order) {
        (RISCV, CLASS_64, LITTLE_ENDIAN) => Ok(RISCV_VIRT),
        (RISCV, CLASS_32, LITTLE_ENDIAN) => Ok(RISCV32_VIRT),
        (X86_64, CLASS_64, LITTLE_ENDIAN) if has_pvh_entry(kernel) => Ok(X86_64_Q35),
        (X86_64, CLASS_64, LITTLE_ENDIAN) => Err(Error::NoEntry {
            path: kernel.to_owned(),
        }),
        _ => {
            let bits = if class == CLASS_64 { 64 } else { 32 };
            let name = match machine {
                3 => "x86 (32 bits)".to_owned(),
                40 => "Arm (32 bits)".to_owned(),
                X86_64 => format!("x86-64 ({bits} bits)"),
                183 => "AArch64".to_owned(),
                RISCV => format!("RISC-V ({bits} bits)"),
                other => format!("ELF machine {other} ({bits} bits)"),
            };
            Err(Error::Architecture {
                path: kernel.to_owned(),
                architecture: name,
            })
        }
    }
}

/// Whether the image has the note by which QEMU's `-kernel` finds the 32-bit entry of an x86-64 ELF
/// file (Xen's public/elfnote.h).
fn has_pvh_entry(kernel: &Path) -> bool {
    const XEN_PHYS32_ENTRY: u32 = 18;
    let found = || {
        let cache = ReadCache::new(File::open(kernel).ok()?);
        let elf = object::elf::FileHeader64::<LittleEndian>::parse(&cache).ok()?;
        let endian = elf.endian().ok()?;
        for header in elf.program_headers(endian, &cache).ok()? {
            // Of another type or damaged: there is nothing to be found in it.
            let Ok(Some(mut notes)) = header.notes(endian, &cache) else {
                continue;
            };
            while let Ok(Some(note)) = notes.next() {
                if note.name() == b"Xen" && note.n_type(endian) == XEN_PHYS32_ENTRY {
                    return Some(());
                }
            }
        }
        None
    };
    found().is_some()
}

/// Where RAM begins on a machine, from QEMU's sources (`hw/riscv/virt.c`, `hw/arm/virt.c`; PC
/// memory begins at 0).
pub(crate) fn ram_base(architecture: &str, machine: Option<&str>) -> Option<u64> {
    match (architecture, machine) {
        // Without -M, RISC-V QEMU takes `spike`, whose RAM begins at the same address.
        ("riscv32" | "riscv64", None | Some("virt" | "spike" | "sifive_u")) => Some(0x8000_0000),
        ("arm" | "aarch64", Some(machine)) if machine == "virt" || machine.starts_with("virt-") => {
            Some(0x4000_0000)
        }
        ("i386" | "x86_64", _) => Some(0),
        _ => None,
    }
}

/// The device that carries virtio serial ports on a machine.
fn serial_bus(architecture: &str, machine: &str) -> Option<&'static str> {
    match (architecture, machine) {
        ("riscv32" | "riscv64", "virt") | ("i386" | "x86_64", "microvm") => {
            Some("virtio-serial-device")
        }
        ("arm" | "aarch64", machine) if machine == "virt" || machine.starts_with("virt-") => {
            Some("virtio-serial-device")
        }
        ("i386" | "x86_64", _) => Some("virtio-serial-pci"),
        _ => None,
    }
}

/// The Debian package with this emulator.
fn package(program: &OsStr) -> &'static str {
    match architecture(program).unwrap_or_default() {
        "arm" | "aarch64" => "qemu-system-arm",
        "i386" | "x86_64" => "qemu-system-x86",
        "mips" | "mipsel" | "mips64" | "mips64el" => "qemu-system-mips",
        "ppc" | "ppc64" => "qemu-system-ppc",
        "sparc" | "sparc64" => "qemu-system-sparc",
        _ => "qemu-system-misc",
    }
}

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

#[cfg(test)]
mod tests;
