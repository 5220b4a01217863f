//! The first process of the guest.

use std::fmt::Display;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot};

/// File systems, and where they belong, in the order in which they can be mounted.
const MOUNTS: [(&str, &str); 4] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("tracefs", "/sys/kernel/tracing"),
];

/// Begin and end of the commands on the kernel's command line.
const BEGIN: &str = "guest.run=\"";
const END: char = '"';

/// Runs the commands, then switches the machine off, whatever happened.
pub fn run() -> Result<()> {
    if let Err(error) = prepared().and_then(|()| run_all()) {
        println!("guest: {error:#}");
    }
    reboot(RebootCommand::PowerOff).context("cannot switch the machine off")
}

fn prepared() -> Result<()> {
    for folder in ["/proc", "/sys", "/dev", "/tmp"] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {folder}"))?;
    }
    MOUNTS.iter().try_for_each(|(kind, folder)| {
        mount(*kind, *folder, *kind, MountFlags::empty(), None)
            .with_context(|| format!("cannot mount {folder}"))
    })
}

fn run_all() -> Result<()> {
    let line = fs::read_to_string("/proc/cmdline").context("cannot read /proc/cmdline")?;
    let commands = line
        .split_once(BEGIN)
        .and_then(|(_, rest)| rest.split_once(END));
    let (commands, _) = commands.context("the kernel's command line has no guest.run=\"...\"")?;
    for (number, command) in commands.split(';').enumerate() {
        let status = run_one(number, command);
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        println!("guest: end {number} {status}");
    }
    Ok(())
}

/// Runs a command to its end, and prints its output. Returns its exit status.
fn run_one(number: usize, line: &str) -> std::io::Result<i32> {
    let mut words = line.split_whitespace().peekable();
    let mut variables = vec![("PATH", "/bin")];
    while let Some(variable) = words.peek().and_then(|word| word.split_once('=')) {
        variables.push(variable);
        words.next();
    }
    let mut command = Command::new(words.next().unwrap_or_default());
    command.env_clear().envs(variables);
    let output = command.args(words).stdin(Stdio::null()).output()?;
    print("out", number, &output.stdout);
    print("err", number, &output.stderr);
    let signal = output.status.signal().map(|signal| 128 + signal);
    Ok(output.status.code().or(signal).unwrap_or(-1))
}

fn print(stream: impl Display, number: usize, bytes: &[u8]) {
    for line in String::from_utf8_lossy(bytes).lines() {
        println!("guest: {stream} {number} {line}");
    }
}
