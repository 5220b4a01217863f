//! What `kymo --version` says.

use std::sync::LazyLock;

use kymo::ring::layout::LAYOUT_VERSION;

/// The program's version and those of the formats that it knows.
pub static TEXT: LazyLock<String> = LazyLock::new(|| {
    let dotted = |(major, minor): (u8, u8)| format!("{major}.{minor}");
    let read: Vec<String> = kymo_ctf::VERSIONS.iter().copied().map(dotted).collect();
    format!(
        "{}\nCommon Trace Format: reads {}, writes {}\nregion in memory: reads layout version {LAYOUT_VERSION}\nstandard events: vocabulary version {}",
        env!("CARGO_PKG_VERSION"),
        read.join(", "),
        dotted(kymo::ctf::VERSION),
        kymo::vocabulary::VERSION,
    )
});
