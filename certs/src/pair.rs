//! A certificate chain with its key, and what it says.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{Error as TlsError, InconsistentKeys};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::watched::Content;
use crate::{Error, date, file, provider};

/// The extension by which a certificate demands stapling (RFC 7633 §6).
const TLS_FEATURE: &str = "1.3.6.1.5.5.7.1.24";

/// A certificate chain with its key. Its `Debug` form has nothing of the key.
#[derive(Debug)]
pub(crate) struct Pair {
    /// What handshakes are signed by.
    pub(crate) key: Arc<CertifiedKey>,
    /// What the certificate says.
    pub(crate) facts: Facts,
    /// What is odd about it, as it was read.
    pub(crate) oddities: Vec<String>,
}

/// What a certificate says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its domain names in lower case, wildcards included.
    pub(crate) names: Vec<String>,
    /// Its addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// From when it is valid, in seconds since 1970.
    pub(crate) not_before: i64,
    /// Until when.
    pub(crate) not_after: i64,
    /// Whether it demands stapling.
    must_staple: bool,
    /// The common name of its subject.
    common: String,
}

impl Facts {
    /// Reads them from a certificate.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let mut facts = Self {
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            ..Self::default()
        };
        if let Some(common) = certificate.subject().iter_common_name().next() {
            facts.common = common.as_str().unwrap_or_default().to_ascii_lowercase();
        }
        for extension in certificate.extensions() {
            if extension.oid.to_id_string() == TLS_FEATURE {
                // A sequence of small integers: 5 is status_request, 17 its successor.
                let value = extension.value;
                facts.must_staple =
                    value.windows(3).any(|part| matches!(part, [2, 1, 5] | [2, 1, 17]));
            }
            let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension()
            else {
                continue;
            };
            for name in &names.general_names {
                match name {
                    GeneralName::DNSName(name) => facts.names.push(name.to_ascii_lowercase()),
                    GeneralName::IPAddress(octets) => {
                        let four = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
                        let six = <[u8; 16]>::try_from(*octets).map(IpAddr::from);
                        facts.addresses.extend(four.or(six).ok());
                    }
                    _ => {}
                }
            }
        }
        Some(facts)
    }

    /// What it is called: its first name, address, or else its common name.
    pub(crate) fn name(&self) -> String {
        let first = self.names.first().cloned();
        first
            .or_else(|| self.addresses.first().map(ToString::to_string))
            .unwrap_or_else(|| self.common.clone())
    }

    /// Whether it has this very name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether one of its wildcards stands for the name: for one label, the first (RFC 9525 §6.3).
    pub(crate) fn has_wildcard(&self, name: &str) -> bool {
        let Some((_, parent)) = name.split_once('.') else { return false };
        self.names
            .iter()
            .filter_map(|own| own.strip_prefix("*."))
            .any(|own| own.eq_ignore_ascii_case(parent))
    }
}

impl Pair {
    /// Puts a chain and the key of its first certificate together. `files` are those of the chain and of the key.
    pub(crate) fn new(
        mut chain: Vec<CertificateDer<'static>>,
        key: rustls::pki_types::PrivateKeyDer<'static>,
        files: &[PathBuf; 2],
    ) -> Result<Self, Error> {
        let [chain_file, key_file] = files;
        let unreadable = || Error::of(chain_file, "holds a certificate that cannot be read");
        let facts = Facts::read(chain.first().ok_or_else(unreadable)?).ok_or_else(unreadable)?;
        if facts.must_staple {
            return Err(Error::of(
                chain_file,
                "the certificate demands a stapled OCSP response (must-staple, RFC 7633), which is not offered",
            )
            .help("ask the CA for a certificate without must-staple"));
        }
        // Clients have the root or they do not: sending it helps neither.
        while chain.len() > 1 && chain.last().is_some_and(|last| is_root(last)) {
            chain.pop();
        }
        let signing = provider().key_provider.load_private_key(key);
        // What the library says of a key it cannot use is a fixed text.
        let signing = signing.map_err(|_| {
            Error::of(key_file, "holds a private key that cannot be used")
                .help("use ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits and more")
        })?;
        let key = CertifiedKey::new(chain, signing);
        match key.keys_match() {
            Ok(()) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(TlsError::InconsistentKeys(_)) => {
                return Err(Error::of(
                    key_file,
                    format!("is not the key of the certificate in {}", chain_file.display()),
                )
                .help(
                    "the first certificate of the chain has to be the server's own, and the key its",
                ));
            }
            Err(_) => {
                return Err(Error::of(chain_file, "holds a certificate that cannot be used"));
            }
        }
        Ok(Self { key: Arc::new(key), facts, oddities: Vec::new() })
    }

    /// The SHA-256 fingerprint of its first certificate, as browsers show it.
    pub(crate) fn fingerprint(&self) -> String {
        let leaf = self.key.cert.first().map(AsRef::as_ref).unwrap_or_default();
        let octets: Vec<_> =
            digest(&SHA256, leaf).as_ref().iter().map(|octet| format!("{octet:02X}")).collect();
        octets.join(":")
    }

    /// What is odd about it at `now`.
    pub(crate) fn odd(&self, now: i64) -> Option<String> {
        let Facts { not_before, not_after, .. } = self.facts;
        if now > not_after {
            Some(format!("the certificate has expired on {}", date(not_after)))
        } else if now < not_before {
            Some(format!("the certificate is not valid before {}", date(not_before)))
        } else {
            None
        }
    }
}

impl Content for Pair {
    fn read(files: &[PathBuf], octets: &[Vec<u8>]) -> Result<Self, Error> {
        let ([chain, key], [chain_octets, key_octets]) = (files, octets) else {
            return Err(Error::new("a certificate has two files"));
        };
        let certificates = file::certificates(chain, chain_octets)?;
        let private = file::private_key(key, key_octets)?;
        let mut pair = Self::new(certificates, private, &[chain.clone(), key.clone()])?;
        pair.oddities.extend(file::rights(key));
        if pair.facts.names.is_empty() && pair.facts.addresses.is_empty() {
            pair.oddities.push(format!(
                "{}: the certificate has no subjectAltName, and clients look at nothing else (RFC 9525)",
                chain.display()
            ));
        }
        Ok(pair)
    }

    fn unfit(&self, now: i64) -> Option<String> {
        self.odd(now)
    }

    fn told(&self) -> String {
        format!("certificate of {}, valid until {}", self.facts.name(), date(self.facts.not_after))
    }
}

/// Whether a certificate is signed by itself.
fn is_root(der: &[u8]) -> bool {
    X509Certificate::from_der(der)
        .is_ok_and(|(_, certificate)| certificate.subject() == certificate.issuer())
}
