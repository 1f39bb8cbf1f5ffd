//! A certificate that is signed by itself: for a first try, and for clients that know it by its fingerprint.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::pair::Pair;
use crate::{Error, date, file, now, store};

/// One day, in seconds.
const DAY: i64 = 86_400;

/// For how long it is valid: what clients take that know it.
const VALID: i64 = 397 * DAY;

/// How long before its end there is a new one.
const RENEW: i64 = 30 * DAY;

/// What a certificate that is signed by itself is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Names: its first is its common name.
    pub names: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Addresses that it gets when it is made, and for whose sake no other one is made: they come and go.
    pub passing: Vec<IpAddr>,
}

/// A certificate that is signed by itself, with its files.
pub(crate) struct SelfSigned {
    subject: Subject,
    chain: PathBuf,
    key: PathBuf,
    target: &'static str,
    now: ArcSwap<Pair>,
    /// What is to be written: chain and key in PEM.
    unwritten: Mutex<Option<(String, String)>>,
    /// Whether it is kept in files at all.
    keeps: AtomicBool,
    made: AtomicU64,
    /// Whether the next one could not be made.
    broken: AtomicBool,
}

impl std::fmt::Debug for SelfSigned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SelfSigned").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl SelfSigned {
    /// The one in `folder` under `name`, if it is good for the subject, else a new one. Nothing is written yet.
    pub(crate) fn new(
        folder: &Path,
        name: &str,
        subject: Subject,
        target: &'static str,
    ) -> Result<Self, Error> {
        let chain = folder.join(format!("{name}.pem"));
        let key = folder.join(format!("{name}.key"));
        let (pair, unwritten) = match load(&chain, &key, &subject) {
            Some(pair) => (pair, None),
            None => {
                let (pair, texts) = make(&subject, &known_key(&key, target)?, &chain, &key)?;
                (pair, Some(texts))
            }
        };
        Ok(Self {
            subject,
            chain,
            key,
            target,
            now: ArcSwap::from_pointee(pair),
            unwritten: Mutex::new(unwritten),
            keeps: AtomicBool::new(false),
            made: AtomicU64::new(0),
            broken: AtomicBool::new(false),
        })
    }

    /// The one in use.
    pub(crate) fn now(&self) -> std::sync::Arc<Pair> {
        self.now.load_full()
    }

    /// Its file.
    pub(crate) fn chain(&self) -> &Path {
        &self.chain
    }

    /// How often another one was made.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Whether another one could not be made.
    pub(crate) fn broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Writes it, if that was not done, and goes on to do so; says which one it is, the first time.
    pub(crate) fn keep(&self) {
        let first = !self.keeps.swap(true, Ordering::AcqRel);
        self.write();
        if first {
            self.tell();
        }
    }

    /// Says which one it is.
    fn tell(&self) {
        let pair = self.now();
        let all: Vec<String> = pair
            .facts
            .names
            .iter()
            .cloned()
            .chain(pair.facts.addresses.iter().map(ToString::to_string))
            .collect();
        log::info!(
            target: self.target,
            "self-signed certificate {} for {}, valid until {}, SHA-256 fingerprint {}",
            self.chain.display(), all.join(", "), date(pair.facts.not_after), pair.fingerprint()
        );
    }

    /// Writes what is to be written. If that cannot be, it is served all the same.
    fn write(&self) {
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((chain, key)) = unwritten.take() else { return };
        let folder = self.chain.parent().unwrap_or_else(|| Path::new("."));
        let written = store::folder(folder)
            // The key first: a certificate without it is of no use.
            .and_then(|()| store::write(&self.key, key.as_bytes()))
            .and_then(|()| store::write(&self.chain, chain.as_bytes()));
        if let Err(error) = written {
            log::error!(
                target: self.target,
                "{error}; the self-signed certificate is served, and the next start makes another one"
            );
        }
    }

    /// Makes another one if this one ends soon. Its key stays, for those who know it by that.
    pub(crate) fn look(&self) {
        if self.now.load().facts.not_after - now() > RENEW || !self.keeps.load(Ordering::Acquire) {
            return;
        }
        let made = known_key(&self.key, self.target)
            .and_then(|key| make(&self.subject, &key, &self.chain, &self.key));
        match made {
            Ok((pair, texts)) => {
                self.broken.store(false, Ordering::Relaxed);
                self.now.store(pair.into());
                self.made.fetch_add(1, Ordering::Relaxed);
                *self.unwritten.lock().unwrap_or_else(PoisonError::into_inner) = Some(texts);
                self.write();
                self.tell();
            }
            // It is tried at every look, and said once.
            Err(error) if !self.broken.swap(true, Ordering::Relaxed) => {
                log::error!(target: self.target, "{error}");
            }
            Err(_) => {}
        }
    }
}

/// The certificate of these files, if it is good for the subject for some time.
fn load(chain: &Path, key: &Path, subject: &Subject) -> Option<Pair> {
    let certificates = file::certificates(chain, &file::read(chain).ok()?).ok()?;
    let private = file::private_key(key, &file::read(key).ok()?).ok()?;
    let pair = Pair::new(certificates, private, &[chain.to_owned(), key.to_owned()]).ok()?;
    let facts = &pair.facts;
    let is_good = facts.not_after - now() > RENEW
        && facts.not_before <= now()
        && subject.names.iter().all(|name| facts.has(name))
        && subject.addresses.iter().all(|address| facts.addresses.contains(address));
    is_good.then_some(pair)
}

/// The key of a file, or a new one if there is none. One that cannot be read is not written over.
fn known_key(path: &Path, target: &'static str) -> Result<KeyPair, Error> {
    let new = || {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
            .map_err(|_| Error::new("there are no random numbers for a key"))
    };
    if !path.exists() {
        return new();
    }
    let octets = file::read(path)?;
    let text = std::str::from_utf8(&octets).unwrap_or_default();
    match KeyPair::from_pem(text) {
        Ok(key) => Ok(key),
        Err(_) => {
            log::warn!(target: target, "{}: holds no key that can be used; there is a new one", path.display());
            new()
        }
    }
}

/// Makes a certificate; with its chain and key in PEM.
fn make(
    subject: &Subject,
    key: &KeyPair,
    chain_file: &Path,
    key_file: &Path,
) -> Result<(Pair, (String, String)), Error> {
    let wrong = |error: rcgen::Error| Error::new(format!("no certificate can be made: {error}"));
    let mut texts = subject.names.clone();
    for address in subject.addresses.iter().chain(&subject.passing) {
        let address = address.to_string();
        if !texts.contains(&address) {
            texts.push(address);
        }
    }
    let common = texts.first().cloned().unwrap_or_default();
    let mut params = CertificateParams::new(texts).map_err(wrong)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let at = |seconds: i64| {
        let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        date_time_ymd(1970, 1, 1) + since
    };
    // Clocks of clients may be behind.
    (params.not_before, params.not_after) = (at(now() - DAY), at(now() + VALID));
    let made = params.self_signed(key).map_err(wrong)?;
    let texts = (made.pem(), key.serialize_pem());
    let unreadable = |_| Error::new("the certificate that was made cannot be read");
    let chain = vec![CertificateDer::from_pem_slice(texts.0.as_bytes()).map_err(unreadable)?];
    let private = PrivateKeyDer::from_pem_slice(texts.1.as_bytes()).map_err(unreadable)?;
    let pair = Pair::new(chain, private, &[chain_file.to_owned(), key_file.to_owned()])?;
    Ok((pair, texts))
}
