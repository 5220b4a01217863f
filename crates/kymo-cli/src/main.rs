//! kymo
fn main() {}
