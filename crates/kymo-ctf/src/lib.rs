//! kymo-ctf
