//! What is shown to a CA that asks whether a domain is ours.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rcgen::{CertificateParams, CustomExtension, KeyPair, SanType};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;

use crate::{Error, provider};

/// How it is shown that a domain is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Challenge {
    /// By a TXT record (RFC 8555 §8.4).
    #[default]
    Dns,
    /// By a page over plain HTTP (RFC 8555 §8.3).
    Http,
    /// By a certificate in a handshake for [`ACME_ALPN`](crate::ACME_ALPN) (RFC 8737).
    TlsAlpn,
}

impl Challenge {
    /// Its name in ACME and in the Corefile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dns => "dns-01",
            Self::Http => "http-01",
            Self::TlsAlpn => "tls-alpn-01",
        }
    }
}

/// What is shown to CAs now, read by those who are asked: without a lock, and mostly nothing.
#[derive(Default)]
pub struct Answers {
    now: ArcSwap<Shown>,
    /// How many names have records.
    names: AtomicUsize,
    /// Held while it is changed.
    change: Mutex<u64>,
}

/// What is shown, each with a number that tells it from equal ones.
#[derive(Clone, Default)]
struct Shown {
    /// TXT records by name, in lower case without the last dot.
    records: HashMap<String, Vec<(u64, String)>>,
    /// Pages by their token.
    pages: HashMap<String, (u64, String)>,
    /// Certificates by name, in lower case.
    certificates: HashMap<String, (u64, Arc<CertifiedKey>)>,
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

impl Answers {
    /// Whether there is nothing to be shown as a record.
    pub fn has_no_records(&self) -> bool {
        self.names.load(Ordering::Acquire) == 0
    }

    /// Calls `each` with the texts of the TXT records of a name, in lower case without the last dot; false if the name has none.
    pub fn records(&self, name: &str, mut each: impl FnMut(&str)) -> bool {
        let shown = self.now.load();
        let Some(texts) = shown.records.get(name) else { return false };
        for (at, (_, text)) in texts.iter().enumerate() {
            // What a replica has written down may be shown twice, but a set has no duplicates (RFC 2181 §5).
            if texts.iter().take(at).all(|(_, earlier)| earlier != text) {
                each(text);
            }
        }
        true
    }

    /// The page of a token.
    pub fn page(&self, token: &str) -> Option<String> {
        self.now.load().pages.get(token).map(|(_, text)| text.clone())
    }

    /// The certificate for a name.
    pub(crate) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        self.now.load().certificates.get(&name).map(|(_, pair)| Arc::clone(pair))
    }

    /// Shows what a challenge asks for, as long as the result is there.
    ///
    /// # Errors
    /// If the domain is none, or there are no random numbers.
    pub fn show(self: &Arc<Self>, proof: &Proof<'_>) -> Result<Showing, Error> {
        let mut number = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let mut shown = Shown::clone(&self.now.load());
        let domain = proof.domain.to_ascii_lowercase();
        match proof.challenge {
            Challenge::Dns => {
                let name = format!("_acme-challenge.{domain}");
                shown.records.entry(name).or_default().push((*number, proof.encoded.to_owned()));
            }
            Challenge::Http => {
                shown.pages.insert(proof.token.to_owned(), (*number, proof.text.to_owned()));
            }
            Challenge::TlsAlpn => {
                let pair = validation(&domain, proof.digest)?;
                shown.certificates.insert(domain, (*number, pair));
            }
        }
        self.store(shown);
        Ok(Showing { answers: Arc::clone(self), number: *number })
    }

    /// Shows no longer what has this number.
    fn hide(&self, number: u64) {
        let _change = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shown = Shown::clone(&self.now.load());
        shown.records.retain(|_, texts| {
            texts.retain(|(own, _)| *own != number);
            !texts.is_empty()
        });
        shown.pages.retain(|_, (own, _)| *own != number);
        shown.certificates.retain(|_, (own, _)| *own != number);
        self.store(shown);
    }

    /// Shows this from now on.
    fn store(&self, shown: Shown) {
        self.names.store(shown.records.len(), Ordering::Release);
        self.now.store(Arc::new(shown));
    }
}

/// What a challenge asks for.
#[derive(Clone, Copy, Debug)]
pub struct Proof<'a> {
    /// Which one it is.
    pub challenge: Challenge,
    /// The domain, without `*.`.
    pub domain: &'a str,
    /// The CA's token.
    pub token: &'a str,
    /// The key authorization (RFC 8555 §8.1).
    pub text: &'a str,
    /// Its SHA-256 hash.
    pub digest: &'a [u8],
    /// That in base64url.
    pub encoded: &'a str,
}

/// Something is shown as long as this is there.
#[derive(Debug)]
pub struct Showing {
    answers: Arc<Answers>,
    number: u64,
}

impl Drop for Showing {
    fn drop(&mut self) {
        self.answers.hide(self.number);
    }
}

/// The certificate that shows a domain to be ours: signed by itself, for the domain alone, with the hash in a critical extension
/// (RFC 8737 §3).
fn validation(domain: &str, hash: &[u8]) -> Result<Arc<CertifiedKey>, Error> {
    let wrong = |_| Error::new("no certificate for validation can be made");
    let mut params = CertificateParams::default();
    params.subject_alt_names.push(SanType::DnsName(domain.try_into().map_err(wrong)?));
    params.custom_extensions.push(CustomExtension::new_acme_identifier(hash));
    let key = KeyPair::generate().map_err(wrong)?;
    let made = params.self_signed(&key).map_err(wrong)?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let signing = provider().key_provider.load_private_key(private);
    let signing = signing.map_err(|_| Error::new("the key for validation cannot be used"))?;
    // Nothing compares them: no reader of certificates here takes one with a critical extension that it does not know.
    Ok(Arc::new(CertifiedKey::new(vec![made.der().clone()], signing)))
}
