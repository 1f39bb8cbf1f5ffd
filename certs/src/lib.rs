#![doc = include_str!("../README.md")]

mod client;
mod server;

pub use client::ClientTls;
pub use server::{ClientAuth, Gate, ServerTls};

use std::path::PathBuf;

/// Why certificates cannot be used: the file, if it is one's fault, what is wrong with it, and what helps.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}{what}", file.as_ref().map(|file| format!("{}: ", file.display())).unwrap_or_default())]
pub struct Error {
    /// The file.
    pub file: Option<PathBuf>,
    /// What is wrong; never any of a key's octets.
    pub what: String,
}

impl Error {
    /// What is wrong with a file.
    pub(crate) fn of(file: impl Into<PathBuf>, what: impl ToString) -> Self {
        Self { file: Some(file.into()), what: what.to_string() }
    }

    /// What is wrong in general.
    pub(crate) fn new(what: impl ToString) -> Self {
        Self { file: None, what: what.to_string() }
    }
}

/// The cryptography of all TLS: aws-lc-rs, with the suites and groups of RFC 9325 (TLS 1.3, and TLS 1.2 with ECDHE and AEAD).
pub(crate) fn provider() -> std::sync::Arc<rustls::crypto::CryptoProvider> {
    static PROVIDER: std::sync::LazyLock<std::sync::Arc<rustls::crypto::CryptoProvider>> =
        std::sync::LazyLock::new(|| rustls::crypto::aws_lc_rs::default_provider().into());
    std::sync::Arc::clone(&PROVIDER)
}
