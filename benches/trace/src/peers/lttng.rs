//! LTTng-UST. `cargo xtask bench trace` starts the session daemon and the session before this
//! program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::peer::{Peer, THREADS, babeltrace};

// SAFETY: as `c/lttng.c` defines them.
unsafe extern "C" {
    safe fn peer_lttng_record(a: u32, b: u32);
    safe fn peer_lttng_off(a: u32, b: u32);
    safe fn peer_lttng_is_on() -> i32;
}

/// The peer. An error if the session daemon has not enabled its event.
pub fn peer() -> Result<Peer> {
    if peer_lttng_is_on() == 0 {
        bail!("LTTng's session is not active: its event is off");
    }
    Ok(Peer {
        name: if std::env::var_os("LTTNG_UST_CLOCK_PLUGIN").is_some() {
            "LTTng-UST"
        } else {
            "LTTng-UST, its own clock"
        },
        version: std::env::var("KYMO_BENCH_LTTNG_VERSION").unwrap_or_default(),
        configuration: "snapshot session: overwrite mode, nobody reads; 4 sub-buffers of 64 KiB a CPU, no read timer; tracepoint provider linked in",
        bytes: 12,
        record: peer_lttng_record,
        off: Some(peer_lttng_off),
        enter: |_| Ok(()),
        read_back,
    })
}

fn read_back(_: &[u64; THREADS], folder: &Path) -> Result<Vec<[u32; 2]>> {
    if peer_lttng_is_on() == 0 {
        bail!("LTTng's event was switched off during the run");
    }
    let snapshot = folder.join("lttng");
    let output = Command::new("lttng")
        .args(["--no-sessiond", "snapshot", "record"])
        .arg(format!("file://{}", snapshot.display()))
        .output()
        .context("lttng cannot be started")?;
    if !output.status.success() {
        bail!(
            "LTTng takes no snapshot: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    babeltrace(&snapshot)
}
