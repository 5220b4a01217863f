//! One CPU: nested writers at every step of a writer.
use super::*;
