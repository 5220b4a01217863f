//! What the timelines of files have besides tracks.

use std::io;

use kymo_profile::Profile;
use kymo_timeline::Canvas;

/// A canvas in a file.
pub(crate) trait FileCanvas: Canvas {
    /// Adds samples, behind everything else. `base` is the timeline's origin in nanoseconds from
    /// the clock's.
    fn samples(&mut self, profile: &Profile, base: i128) -> io::Result<()>;
    /// Ends the file.
    fn finish(&mut self) -> io::Result<()>;
}
