//! The Trace Stream Description Language of CTF 1.8: text in, [`crate::Metadata`] out.
//!
//! Four stages, each with its own types:
//!
//! 1. [`lexer`]: text to tokens;
//! 2. [`parser`], by its [`cursor`]: tokens to the syntax tree of [`ast`];
//! 3. [`types`]: type names looked up in their scopes, attributes checked, giving a tree that
//!    shares aliased types;
//! 4. [`instantiate`]: that tree at one place in the trace, where the fields to which lengths and
//!    tags refer are known.
//!
//! [`blocks`] drives the last two for the `trace`, `env`, `clock`, `stream` and `event` blocks.

pub(crate) mod ast;
pub(crate) mod attributes;
pub(crate) mod blocks;
mod cursor;
pub(crate) mod instantiate;
pub(crate) mod lexer;
mod names;
pub(crate) mod parser;
pub(crate) mod types;

pub(crate) use names::shown_name;
pub(crate) use parser::is_keyword;
