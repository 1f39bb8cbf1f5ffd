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

/// The key `key.test` with a secret in base64, for tests.
#[cfg(test)]
pub(crate) fn testing(secret: &str) -> Keys {
    use base64::Engine as _;
    let mut keys = Keys::default();
    let octets = base64::engine::general_purpose::STANDARD.decode(secret).unwrap();
    keys.0.insert(wire::Name::parse("key.test").unwrap(), octets);
    keys
}
