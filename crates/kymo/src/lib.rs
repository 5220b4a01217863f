//! kymo
