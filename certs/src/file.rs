//! Files of certificates and keys: reading them, and what makes them look changed.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::{self, PemObject as _, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;

/// The largest file that is read, in octets: enough for every CA there is.
const LARGEST: u64 = 8 << 20;

/// How long after a file was changed its time does not yet tell the next change.
const FRESH: Duration = Duration::from_secs(2);

/// What tells a changed file from the one that was read: that of the file at the end of all links, so that a link which
/// leads elsewhere is a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// That of a file now; none if there is none.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = std::fs::metadata(path).ok()?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }

    /// Whether the file was changed so lately that one more change may leave the stamp as it is.
    pub(crate) fn is_fresh(&self) -> bool {
        let Ok(seconds) = u64::try_from(self.changed.0) else { return false };
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        changed.elapsed().map_or(true, |elapsed| elapsed < FRESH)
    }
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let found = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if !found.is_file() {
        let what = if found.is_dir() { "is a folder" } else { "is no regular file" };
        return Err(Error::of(path, what));
    }
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut octets = Vec::new();
    let read = file.take(LARGEST + 1).read_to_end(&mut octets);
    read.map_err(|error| unreadable(path, &error))?;
    if octets.len() as u64 > LARGEST {
        return Err(Error::of(path, "is larger than 8 MiB"));
    }
    Ok(octets)
}

/// Why a file cannot be read.
fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    let what = match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "may not be read by this process".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    let wrong = Error::of(path, what);
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            wrong.help("give the user that the gateway runs as the right to read it")
        }
        _ => wrong,
    }
}

/// What the sections of a PEM file are.
#[derive(Default)]
struct Sections {
    certificates: Vec<CertificateDer<'static>>,
    keys: usize,
    others: usize,
}

/// Reads the sections of a PEM file.
fn sections(path: &Path, octets: &[u8]) -> Result<Sections, Error> {
    let mut found = Sections::default();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(octets) {
        match section {
            Ok((SectionKind::Certificate, der)) => found.certificates.push(der.into()),
            Ok((
                SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey,
                _,
            )) => found.keys += 1,
            Ok(_) => found.others += 1,
            Err(error) => return Err(Error::of(path, broken(&error))),
        }
    }
    Ok(found)
}

/// What is wrong with PEM, without any of it.
fn broken(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "is PEM that breaks off before its END line",
        pem::Error::IllegalSectionStart { .. } => "is PEM with a broken BEGIN line",
        pem::Error::Base64Decode(_) => "is PEM with broken base64",
        _ => "is broken PEM",
    }
}

/// The certificates of a PEM file, at least one.
pub(crate) fn certificates(
    path: &Path,
    octets: &[u8],
) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = sections(path, octets)?;
    if !found.certificates.is_empty() {
        return Ok(found.certificates);
    }
    Err(if octets.is_empty() {
        Error::of(path, "is empty")
    } else if is_der(octets) {
        let help = "convert it: openssl x509 -inform der -in FILE -out NEW";
        Error::of(path, "holds no PEM; it looks like DER").help(help)
    } else if found.keys > 0 {
        Error::of(path, "holds a private key and no certificate")
            .help("the certificate comes first, then its key")
    } else if found.others > 0 {
        Error::of(path, "holds PEM, and no certificate in it")
            .help("a certificate begins with -----BEGIN CERTIFICATE-----")
    } else {
        Error::of(path, "holds no certificate")
            .help("a certificate begins with -----BEGIN CERTIFICATE-----")
    })
}

/// The private key of a PEM file.
pub(crate) fn private_key(path: &Path, octets: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    let encrypted = [&b"BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"];
    if encrypted.iter().any(|mark| octets.windows(mark.len()).any(|window| window == *mark)) {
        return Err(Error::of(path, "holds an encrypted key, and there is nobody to ask")
            .help("take the password off: openssl pkey -in FILE -out NEW"));
    }
    let found = sections(path, octets)?;
    if found.keys > 0 {
        return PrivateKeyDer::from_pem_slice(octets)
            .map_err(|error| Error::of(path, broken(&error)));
    }
    Err(if octets.is_empty() {
        Error::of(path, "is empty")
    } else if is_der(octets) {
        let help = "convert it: openssl pkey -inform der -in FILE -out NEW";
        Error::of(path, "holds no PEM; it looks like DER").help(help)
    } else if !found.certificates.is_empty() {
        Error::of(path, "holds a certificate and no private key")
            .help("the certificate comes first, then its key")
    } else {
        Error::of(path, "holds no private key")
            .help("a key begins with -----BEGIN PRIVATE KEY-----")
    })
}

/// Whether octets look like DER: a sequence with a long length.
fn is_der(octets: &[u8]) -> bool {
    matches!(octets, [0x30, 0x81..=0x83, ..])
}

/// What is odd about the rights of a key file, if anything is.
pub(crate) fn rights(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.mode();
    (mode & 0o004 != 0).then(|| {
        format!(
            "{}: the key may be read by everybody on this machine (mode {:03o}): chmod 600 or 640",
            path.display(),
            mode & 0o777
        )
    })
}
