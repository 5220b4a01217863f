//! The text of `kymo --version`.

use std::sync::LazyLock;

use kymo::ring::layout::LAYOUT_VERSION;

/// The program's version and the versions of the formats it supports.
pub static TEXT: LazyLock<String> = LazyLock::new(|| {
    let dotted = |(major, minor): (u8, u8)| format!("{major}.{minor}");
    // `kymo convert` writes every version that is read.
    let read = kymo_ctf::VERSIONS.map(dotted).join(", ");
    format!(
        "{}\nCommon Trace Format: reads {read}, writes {} (convert: {read})\nregion in memory: \
         reads layout version {LAYOUT_VERSION}\nstandard events: vocabulary version {}",
        env!("CARGO_PKG_VERSION"),
        dotted(kymo::ctf::VERSION),
        kymo::vocabulary::VERSION,
    )
});
