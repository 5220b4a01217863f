//! A temporary LTTng session daemon with its own home.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::failure::Environment;
use crate::process::{quiet, run};

/// A session daemon that ends, with its sessions, when this value is dropped.
pub(crate) struct Daemon {
    child: Child,
    home: PathBuf,
    clock: Option<PathBuf>,
}

impl Daemon {
    /// Starts the daemon and waits until it answers. Its files are in `home`; `clock` is a plugin
    /// that gives the time.
    ///
    /// # Errors
    /// [`Environment`] if another daemon is running: there can be only one per user.
    pub(crate) fn start(home: &Path, clock: Option<&Path>) -> Result<Daemon> {
        fs::create_dir_all(home)?;
        let mut daemon = Command::new("lttng-sessiond");
        daemon
            .args(["--no-kernel", "--quiet"])
            .stdout(Stdio::null());
        set_environment(&mut daemon, home, clock);
        let mut client = Command::new("lttng");
        set_environment(client.args(["--no-sessiond", "list"]), home, clock);
        if quiet(&mut client).is_some() {
            bail!(Environment(
                "A session daemon of LTTng is running already. Stop it, then start this again."
                    .into()
            ));
        }
        let child = daemon.spawn().context("lttng-sessiond cannot be started")?;
        let mut daemon = Daemon {
            child,
            home: home.to_owned(),
            clock: clock.map(Path::to_owned),
        };
        while quiet(&mut client).is_none() {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("lttng-sessiond has ended ({status})");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(daemon)
    }

    /// Runs a command of `lttng`.
    pub(crate) fn lttng(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("lttng");
        self.environment(command.arg("--no-sessiond").args(arguments));
        run(command.stdout(Stdio::null()))
    }

    /// Sets the environment by which a program finds the daemon.
    pub(crate) fn environment(&self, command: &mut Command) {
        set_environment(command, &self.home, self.clock.as_deref());
    }
}

fn set_environment(command: &mut Command, home: &Path, clock: Option<&Path>) {
    command
        .env("HOME", home)
        .env("LTTNG_HOME", home)
        .env_remove("LTTNG_UST_CLOCK_PLUGIN");
    if let Some(clock) = clock {
        command.env("LTTNG_UST_CLOCK_PLUGIN", clock);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Ask the daemon to end instead of killing it, so that it ends its consumers, too. A
        // failure cannot be handled here.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}

/// Records `count` events of benches/ctf/record.c into `trace`, in a separate session that loses
/// none.
///
/// Buffers are per user, so there is one stream per CPU; a full buffer blocks the program.
pub(crate) fn record(folder: &Path, kind: &str, count: u64, trace: &Path) -> Result<()> {
    let source = crate::process::root().join("benches/ctf");
    let program = folder.join("record");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(&source)
        .arg("-o")
        .arg(&program);
    run(cc
        .arg(source.join("record.c"))
        .args(["-llttng-ust", "-ldl", "-lpthread"]))?;

    let daemon = Daemon::start(&folder.join("lttng-home"), None)?;
    daemon.lttng(&[
        "create",
        "kymo-ctf",
        &format!("--output={}", trace.display()),
    ])?;
    let size = [
        "--subbuf-size=1M",
        "--num-subbuf=8",
        "--discard",
        "--blocking-timeout=inf",
    ];
    daemon.lttng(
        &[
            &["enable-channel", "--userspace", "--buffers-uid"],
            &size[..],
            &["events"],
        ]
        .concat(),
    )?;
    daemon.lttng(&[
        "enable-event",
        "--userspace",
        "--channel=events",
        "kymo_ctf:*",
    ])?;
    daemon.lttng(&["start"])?;
    let mut command = Command::new(&program);
    daemon.environment(command.args([kind, &count.to_string()]));
    // The program waits until it is registered, and for room in its buffers.
    run(command
        .env("LTTNG_UST_REGISTER_TIMEOUT", "-1")
        .env("LTTNG_UST_ALLOW_BLOCKING", "1"))?;
    daemon.lttng(&["stop"])?;
    daemon.lttng(&["destroy"])
}

/// The folder with the metadata, which LTTng puts some levels below `root`.
pub(crate) fn trace_folder(root: &Path) -> Result<PathBuf> {
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join("metadata").is_file() {
            return Ok(folder);
        }
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    bail!("there is no metadata below {}", root.display())
}
