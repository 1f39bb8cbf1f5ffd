//! Signed claims (RFC 7515, RFC 7519), by which a service proves who it is.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use crate::shared::fetch::Failure;

/// An RSA key that signs claims by RS256.
pub(crate) struct Signer(KeyPair);

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

impl Signer {
    /// Reads a key in PEM: PKCS #8 or PKCS #1.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn from_pem(pem: &[u8]) -> Result<Self, Failure> {
        let der = PrivateKeyDer::from_pem_slice(pem)
            .map_err(|_| Failure::refused("the private key is no key in PEM"))?;
        let key = match &der {
            PrivateKeyDer::Pkcs8(key) => KeyPair::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => KeyPair::from_der(key.secret_pkcs1_der()),
            _ => return Err(Failure::refused("the private key is no RSA key")),
        };
        key.map(Self).map_err(|_| Failure::refused("the private key is no RSA key"))
    }

    /// The claims with a header and the signature.
    ///
    /// # Errors
    /// If the key cannot sign.
    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> Result<String, Failure> {
        let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(header), part(claims));
        let mut signature = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|_| Failure::refused("the private key cannot sign"))?;
        Ok(format!("{text}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}
