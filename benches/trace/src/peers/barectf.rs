//! barectf: a C tracer generated from a description of the events; `c/barectf.c` has its platform.

use std::fs;

use anyhow::{Context, bail};

use crate::peer::{Peer, THREADS, babeltrace};

const PACKET_SIZE: usize = 65536;
const PACKETS: u64 = 4;

// SAFETY: as `c/barectf.c` defines them.
unsafe extern "C" {
    safe fn peer_barectf_enter(thread: i32) -> i32;
    safe fn peer_barectf_record(a: u32, b: u32);
    safe fn peer_barectf_off(a: u32, b: u32);
    safe fn peer_barectf_close(thread: i32) -> u64;
    safe fn peer_barectf_packet(thread: i32, number: u64) -> *const u8;
}

/// The peer.
pub fn peer() -> Peer {
    Peer {
        name: "barectf",
        version: option_env!("KYMO_BENCH_BARECTF_VERSION")
            .unwrap_or("3.1.2")
            .to_owned(),
        configuration: "generated C, inlined; 64-bit times, no event id, naturally aligned fields; 4 packets of 64 KiB, the oldest is overwritten",
        bytes: 16,
        record: peer_barectf_record,
        off: Some(peer_barectf_off),
        enter: |thread| match peer_barectf_enter(thread as i32) {
            0 => Ok(()),
            _ => bail!("no memory for barectf's packets"),
        },
        read_back: |_, folder| {
            let trace = folder.join("barectf");
            fs::create_dir_all(&trace)?;
            let metadata =
                option_env!("KYMO_BENCH_BARECTF").context("built without barectf's metadata")?;
            fs::copy(format!("{metadata}/metadata"), trace.join("metadata"))?;
            for thread in 0..THREADS as i32 {
                let closed = peer_barectf_close(thread);
                let mut stream = Vec::new();
                for number in closed.saturating_sub(PACKETS)..closed {
                    // SAFETY: the ring contains this packet, and its thread has ended.
                    stream.extend_from_slice(unsafe {
                        std::slice::from_raw_parts(peer_barectf_packet(thread, number), PACKET_SIZE)
                    });
                }
                fs::write(trace.join(format!("ring_{thread}")), stream)?;
            }
            babeltrace(&trace)
        },
    }
}
