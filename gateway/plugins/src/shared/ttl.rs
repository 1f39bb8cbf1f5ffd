//! `ttl TTL`, a property of several plugins.

use config::{Diagnostic, Words};

/// The longest time to live, in seconds.
const MAX: i64 = 3600;

/// Reads a time to live, in seconds.
///
/// # Errors
/// That there is no word, and that it is no whole number from 0 to 3600.
pub(crate) fn read(words: &mut Words<'_>) -> Result<u32, Diagnostic> {
    words.read(|text| match config::value::integer(text) {
        Ok(ttl @ 0..=MAX) => Ok(ttl as u32),
        _ => Err("ttl must be in range [0, 3600], in whole seconds"),
    })
}
