//! A guest under QEMU whose RAM is a file that the host can map.
//!
//! Recording needs one thing from QEMU: the guest's main memory as a shared file (`-object
//! memory-backend-file,share=on`). It needs no help from the guest, and the file remains when QEMU
//! dies. [`Launch`] builds such a command line, from a kernel image or from the user's own command,
//! to which it adds nothing else. [`Qemu`] is the running child, which never outlives this process.

mod boot;
mod child;
mod machine;
mod options;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use machine::{RISCV_VIRT, architecture, serial_bus, standard_machine};
use options::{Options, double_commas};

use kymo::vocabulary::SamplingDriver;

use crate::source::to_write;

pub(crate) use machine::ram_base;

pub use boot::{Boot, BootError};
pub use child::Qemu;

/// Why a guest cannot be run. Each message is a sentence with advice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel image cannot be read.
    #[error("The kernel {path} cannot be read: {source}. Give the path of an ELF image.", path = path.display())]
    Kernel {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel image is not an ELF file.
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
        /// The architecture, as far as known.
        architecture: String,
    },
    /// The image has no entry point for QEMU.
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
        /// Its first word.
        program: String,
    },
    /// The base address of the machine's RAM is unknown.
    #[error(
        "Kymo does not know at which address the RAM of the machine \"{machine}\" of {program} begins. \
         Use `-M virt`, or on x86 any machine."
    )]
    Machine {
        /// The emulator.
        program: String,
        /// The machine type; empty if none is given.
        machine: String,
    },
    /// The value of `-m` is not a size.
    #[error(
        "\"-m {value}\" is not a memory size that Kymo understands. Write it as in -m 256M or -m \
         1G."
    )]
    Size {
        /// The option's value.
        value: String,
    },
    /// An option lacks its value.
    #[error("The QEMU option {option} needs a value, but is the last word. Give it one.")]
    NoValue {
        /// The option.
        option: String,
    },
    /// The command has its own memory backend, which the host cannot map.
    #[error(
        "The command's own memory backend \"{id}\" is not a shared file. Recording reads the guest's RAM from a file: use \
         -object memory-backend-file,id={id},size=..,mem-path=..,share=on, or leave memory-backend out."
    )]
    Backend {
        /// The backend's id.
        id: String,
    },
    /// The file for the guest's RAM cannot be created.
    #[error("The file for the guest's RAM, {path}, cannot be created: {source}.", path = path.display())]
    RamFile {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The machine's bus for a port is unknown.
    #[error(
        "Kymo does not know how to put a virtio serial port on the machine \"{machine}\" of {program}. \
         Use `-M virt`, or on x86 any machine; or record `--via memory`."
    )]
    NoPort {
        /// The emulator.
        program: String,
        /// The machine type; empty if none is given.
        machine: String,
    },
    /// The emulator's machine is not the host's.
    #[error(
        "KVM runs the host's own machine ({host}), and not that of {program}. Leave `--accel kvm` out."
    )]
    OtherMachine {
        /// The emulator.
        program: String,
        /// The host's architecture.
        host: &'static str,
    },
    /// The host offers no KVM.
    #[error("KVM cannot be used, because {path} cannot be opened: {source}.", path = device.display())]
    NoKvm {
        /// The device.
        device: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The options cannot be added to the kernel's command line.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// The emulator is not installed.
    #[error("{program} is not installed. On Debian: apt-get install {package}")]
    Missing {
        /// The emulator.
        program: String,
        /// Its Debian package.
        package: &'static str,
    },
    /// The emulator cannot be started, watched or ended.
    #[error("{program} cannot be {action}: {source}.")]
    Process {
        /// The emulator.
        program: String,
        /// The failed action, as a participle.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// The cause: [`InvalidInput`](io::ErrorKind::InvalidInput) for the request,
    /// [`InvalidData`](io::ErrorKind::InvalidData) for the input, anything else for the system.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Error::RamFile { .. }
            | Error::Missing { .. }
            | Error::NoKvm { .. }
            | Error::Process { .. } => io::ErrorKind::Other,
            Error::Kernel { .. }
            | Error::NotElf { .. }
            | Error::Architecture { .. }
            | Error::NoEntry { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::InvalidInput,
        }
    }

    /// Advice for the user, as a clause that begins with a verb; `None` if the message includes it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Error::RamFile { source, .. } => Some(to_write(source)),
            Error::Process { .. } => {
                Some("check that you may run it and that there is enough memory")
            }
            Error::Missing { .. } => Some("install it, or put it on the PATH"),
            Error::NoKvm { source, .. } => Some(match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    "join the group that may use it, or leave --accel kvm out"
                }
                _ => "leave --accel kvm out",
            }),
            _ => None,
        }
    }
}

/// A QEMU command line with everything that recording needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    program: OsString,
    arguments: Vec<OsString>,
    ram: Ram,
    makes_ram_file: bool,
    ends_in_order: bool,
    /// Whether it gets this program's standard input.
    takes_input: bool,
    /// The device that carries virtio serial ports, if known.
    serial_bus: Option<&'static str>,
    machine: String,
}

/// The guest's main memory, as seen by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ram {
    /// The file that holds it.
    pub file: PathBuf,
    /// Its size in bytes.
    pub size: u64,
    /// The guest-physical address of the file's first byte. (On x86 it is valid up to the hole
    /// below 4 GiB.)
    pub base: u64,
}

/// The kernel's file in a QEMU command, program first: the value of its last `-kernel`. `None` if it
/// has none.
///
/// # Errors
/// [`Error::NotQemu`].
pub fn kernel_of(command: &[OsString]) -> Result<Option<PathBuf>, Error> {
    let arguments = match command.split_first() {
        Some((program, arguments)) if architecture(program).is_some() => arguments,
        other => {
            let program = other.map_or_else(String::new, |(program, _)| {
                program.to_string_lossy().into_owned()
            });
            return Err(Error::NotQemu { program });
        }
    };
    let value = options::last_value(arguments, "kernel").and_then(|place| arguments.get(place));
    Ok(value.map(PathBuf::from))
}

const MIB: u64 = 1 << 20;
/// QEMU's default size of RAM, which Kymo uses, too.
const DEFAULT_RAM: u64 = 128 * MIB;
/// The name of the virtio serial port that Kymo adds.
pub const PORT_NAME: &str = "kymo";
/// The name of the memory backend that Kymo adds.
const BACKEND: &str = "kymo-ram";

impl Launch {
    /// The standard machine for a kernel image, according to its ELF header, with `cpus` CPUs, 128
    /// MiB and a serial port on the standard output: QEMU's `virt` for RISC-V (without firmware for
    /// 32 bits) and AArch64 (with GICv3 and semihosting), `q35` for x86-64. `append` is the
    /// kernel's command line.
    pub fn kernel(
        kernel: &Path,
        cpus: u32,
        append: Option<&str>,
        ram_file: &Path,
    ) -> Result<Launch, Error> {
        Launch::kernel_on(standard_machine(kernel)?, kernel, cpus, append, ram_file)
    }

    /// Whether it is a RISC-V machine on which nothing runs before the kernel.
    pub fn is_own_firmware(&self) -> bool {
        let program = self.program.to_string_lossy();
        let without = |pair: &[OsString]| pair[0] == "-bios" && pair[1] == "none";
        program.contains("riscv") && self.arguments.windows(2).any(without)
    }

    /// The machine with these options.
    fn kernel_on(
        machine: &[&str],
        kernel: &Path,
        cpus: u32,
        append: Option<&str>,
        ram_file: &Path,
    ) -> Result<Launch, Error> {
        let mut command: Vec<OsString> = machine.iter().map(OsString::from).collect();
        command.extend(["-m", "128M", "-no-reboot", "-smp"].map(OsString::from));
        command.extend([cpus.to_string().into(), "-kernel".into(), kernel.into()]);
        if let Some(append) = append {
            command.extend(["-append".into(), append.into()]);
        }
        Launch::command(&command, ram_file)
    }

    /// Like [`kernel`](Self::kernel), with the options `boot` in the kernel's command line. Where
    /// counters are to make samples, RISC-V's interrupt (Sscofpmf).
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
        let append = joined.as_deref().or(append);
        let machine = standard_machine(kernel)?;
        if boot.driver.and_then(SamplingDriver::counts).is_none() || machine != RISCV_VIRT {
            return Launch::kernel_on(machine, kernel, cpus, append, ram_file);
        }
        let machine = [machine, &["-cpu", "rv64,sscofpmf=on"]].concat();
        Launch::kernel_on(&machine, kernel, cpus, append, ram_file)
    }

    /// The user's own command, program first. Adds only the memory backend; the user's own backend
    /// is kept if it is a shared file, in which case `ram_file` is not used.
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
                takes_input: false,
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
            takes_input: false,
            serial_bus,
            machine,
        })
    }

    /// Appends options to the command.
    #[must_use]
    pub fn with<'a>(mut self, options: impl IntoIterator<Item = &'a str>) -> Launch {
        self.arguments
            .extend(options.into_iter().map(OsString::from));
        self
    }

    /// Adds the options `boot` to the kernel's command line, which the user's own command must
    /// have.
    pub fn with_boot(mut self, boot: &Boot) -> Result<Launch, Error> {
        if boot.says_nothing() {
            return Ok(self);
        }
        let place = options::last_value(&self.arguments, "append").ok_or(BootError::NoAppend)?;
        if let Some(line) = self.arguments.get_mut(place) {
            let text = line.to_str().ok_or(BootError::NotText)?;
            *line = boot.join(text)?.into();
        }
        Ok(self)
    }

    /// Gives it this program's standard input, for a console on `-nographic` or `-serial stdio`.
    /// Otherwise it has none.
    #[must_use]
    pub fn taking_input(self) -> Launch {
        Launch {
            takes_input: true,
            ..self
        }
    }

    /// Checks that a virtio serial port can be added to the machine.
    pub fn check_port(&self) -> Result<(), Error> {
        let program = || self.program.to_string_lossy().into_owned();
        self.serial_bus.map(|_| ()).ok_or_else(|| Error::NoPort {
            program: program(),
            machine: self.machine.clone(),
        })
    }

    /// Lets the machine's time advance with its instructions, so that every run leaves the same
    /// memory.
    #[must_use]
    pub fn deterministic(self) -> Launch {
        // Otherwise a PC's wall clock follows the host's.
        let is_pc = matches!(architecture(&self.program), Some("i386" | "x86_64"));
        let rtc: &[&str] = if is_pc {
            &["-rtc", "base=2020-01-01,clock=vm"]
        } else {
            &[]
        };
        self.with(["-icount", "shift=0,sleep=off"])
            .with(rtc.iter().copied())
    }

    /// Lets the host's processor execute the kernel, by KVM.
    ///
    /// # Errors
    /// [`Error::OtherMachine`] or [`Error::NoKvm`]. That the device can be opened does not prove
    /// that the machine runs, or runs fast.
    pub fn with_kvm(self) -> Result<Launch, Error> {
        self.with_kvm_of(std::env::consts::ARCH, Path::new("/dev/kvm"))
    }

    fn with_kvm_of(self, host: &'static str, device: &Path) -> Result<Launch, Error> {
        let machine = architecture(&self.program).unwrap_or_default();
        let is_own = machine == host || (machine, host) == ("i386", "x86_64");
        if !is_own {
            let program = self.program.to_string_lossy().into_owned();
            return Err(Error::OtherMachine { program, host });
        }
        let mut open = File::options();
        if let Err(source) = open.read(true).write(true).open(device) {
            let device = device.to_owned();
            return Err(Error::NoKvm { device, source });
        }
        // Only an x86 guest that cannot migrate may see that the clock is invariant.
        let cpu = match machine {
            "i386" | "x86_64" => "host,migratable=no",
            _ => "host",
        };
        Ok(self.with(["-accel", "kvm", "-cpu", cpu]))
    }

    /// Ends the machine, when it must be ended, by asking QEMU, so that its plugins report.
    #[must_use]
    pub fn ending_in_order(self) -> Launch {
        Launch {
            ends_in_order: true,
            ..self
        }
    }

    /// The guest's memory.
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

#[cfg(test)]
mod tests;
