//! What signing needs (RFC 4034): keys and their files, record sets in canonical form, signatures.

mod bind;
mod canonical;
mod files;
mod key;
#[cfg(test)]
pub(crate) mod samples;
mod secret;
#[cfg(test)]
mod tests;

pub use canonical::{Body, body, labels};
pub use files::KeyFiles;
pub use key::{BadKey, Digest, Key, Times};
