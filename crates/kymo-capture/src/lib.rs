//! kymo-capture
