//! Keys for signatures (RFC 8945): those that queries are checked by, and those that messages of our own are signed with.

mod client;
mod keyfile;
mod keys;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use client::{Checker, Key};
pub(crate) use keys::Keys;
pub(crate) use words::{own, secret, secrets};
