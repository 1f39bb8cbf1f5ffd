#![doc = include_str!("../README.md")]

mod acme;
mod client;
mod clients;
mod date;
mod demand;
mod error;
mod file;
mod keylog;
mod pair;
mod self_signed;
mod server;
mod source;
mod store;
mod tickets;
mod watched;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use acme::{
    ACME_ALPN, Acme, Answers, Challenge, LETS_ENCRYPT, Proof, Resolve, Resolving, Showing,
};
pub use client::ClientTls;
pub use clients::{ClientCas, Holder, fingerprint};
pub use date::date;
pub use demand::ClientAuth;
pub use error::Error;
pub use self_signed::Subject;
pub use server::{Gate, Options, ServerTls, Status};
pub use source::Source;

/// The cryptography of all TLS: aws-lc-rs, with the suites and groups of RFC 9325 (TLS 1.3, and TLS 1.2 with ECDHE and AEAD).
pub(crate) fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    static PROVIDER: std::sync::LazyLock<std::sync::Arc<rustls::crypto::CryptoProvider>> =
        std::sync::LazyLock::new(|| rustls::crypto::aws_lc_rs::default_provider().into());
    std::sync::Arc::clone(&PROVIDER)
}

/// The time in seconds since 1970, by the system's clock: what certificates are valid by.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 makes every certificate not yet valid, which is what is said then.
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
