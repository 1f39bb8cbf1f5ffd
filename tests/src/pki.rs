//! Certificates for tests: an authority of their own, and what it issues, good and bad.

use std::fmt;
use std::fs::Permissions;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

use crate::process::Folder;

/// The length of a day.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// An authority whose files lie in a temporary folder, gone with this value. What it issues is signed by an intermediate
/// authority, so that a server has to send its whole chain. Another authority is another value.
///
/// ```
/// use tests::pki::{Leaf, Pki};
/// let pki = Pki::new();
/// let server = pki.server("server", &["dns.example.org", "127.0.0.1", "::1"]);
/// let corefile = format!("tls://.:@PORT@ {{\n tls {server} {}\n}}", pki.ca().display());
/// let late = pki.issue("late", Leaf::server(&["dns.example.org"]).expired());
/// let client = pki.issue("client", Leaf::client("laptop", &["laptop.example.org"]).unit("staff"));
/// assert!(late.chain.exists() && client.key.exists());
/// ```
#[derive(Debug)]
pub struct Pki {
    /// Where the files are.
    folder: Folder,
    /// The certificate that clients and servers trust.
    ca: PathBuf,
    /// What signs.
    intermediate: CertifiedIssuer<'static, KeyPair>,
}

impl Pki {
    /// Makes an authority. Its certificate is `ca.pem`, that of the intermediate one `intermediate.pem`.
    pub fn new() -> Self {
        let folder = Folder::new("pki");
        let root = CertifiedIssuer::self_signed(authority("Test authority"), key())
            .expect("an authority can sign itself");
        let intermediate = CertifiedIssuer::signed_by(authority("Test issuer"), key(), &root)
            .expect("an authority can sign another");
        let ca = folder.write("ca.pem", root.pem());
        folder.write("intermediate.pem", intermediate.pem());
        Self { folder, ca, intermediate }
    }

    /// The file of the authority's certificate.
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// The folder of all the files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Issues a server's certificate for these names and addresses, as `FILE.pem` and `FILE.key`.
    pub fn server(&self, file: &str, names: &[&str]) -> Pair {
        self.issue(file, Leaf::server(names))
    }

    /// Issues any certificate, as `FILE.pem` and `FILE.key`; one that was there is replaced, each file by a rename.
    pub fn issue(&self, file: &str, leaf: Leaf) -> Pair {
        let (Leaf { params }, key) = (leaf, key());
        let certificate =
            params.signed_by(&key, &self.intermediate).unwrap_or_else(|e| panic!("{file}: {e}"));
        let chain = format!("{}{}", certificate.pem(), self.intermediate.pem());
        let chain = self.folder.write(&format!("{file}.pem"), chain);
        let key = self.folder.write(&format!("{file}.key"), key.serialize_pem());
        std::fs::set_permissions(&key, Permissions::from_mode(0o600))
            .unwrap_or_else(|e| panic!("{}: {e}", key.display()));
        Pair { chain, key }
    }
}

impl Default for Pki {
    fn default() -> Self {
        Self::new()
    }
}

/// The files of one certificate. Its text is `CHAIN KEY`, as `tls` takes them.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate and the intermediate authority's, in PEM.
    pub chain: PathBuf,
    /// The private key, in PEM (PKCS #8).
    pub key: PathBuf,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.chain.display(), self.key.display())
    }
}

/// What a certificate is to say; valid from yesterday for 90 days unless it is changed.
#[derive(Clone, Debug)]
pub struct Leaf {
    /// What goes into it.
    params: CertificateParams,
}

impl Leaf {
    /// A server's, for names (`*.example.org` among them), IP addresses, URIs and mail addresses.
    pub fn server(names: &[&str]) -> Self {
        Self::with(
            names.first().copied().unwrap_or_default(),
            names,
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// A client's, with a common name and subject alternative names of any kind.
    pub fn client(common_name: &str, names: &[&str]) -> Self {
        Self::with(common_name, names, ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// Adds an organizational unit; a certificate has at most one.
    pub fn unit(mut self, unit: &str) -> Self {
        self.params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
        self
    }

    /// Makes it end in some time from now.
    pub fn ends_in(mut self, time: Duration) -> Self {
        self.params.not_after = (SystemTime::now() + time).into();
        self
    }

    /// Makes it one that ended yesterday.
    pub fn expired(mut self) -> Self {
        self.params.not_before = (SystemTime::now() - 30 * DAY).into();
        self.params.not_after = (SystemTime::now() - DAY).into();
        self
    }

    /// Makes it one that begins tomorrow.
    pub fn early(mut self) -> Self {
        self.params.not_before = (SystemTime::now() + DAY).into();
        self
    }

    /// Changes anything else of it.
    pub fn change(mut self, change: impl FnOnce(&mut CertificateParams)) -> Self {
        change(&mut self.params);
        self
    }

    /// One for a purpose.
    fn with(common_name: &str, names: &[&str], purpose: ExtendedKeyUsagePurpose) -> Self {
        let mut params = params(common_name);
        params.subject_alt_names = names.iter().map(|name| alternative(name)).collect();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        Self { params }
    }
}

/// A name as the kind of subject alternative name that it looks like.
fn alternative(name: &str) -> SanType {
    if let Ok(address) = name.parse::<IpAddr>() {
        return SanType::IpAddress(address);
    }
    let text = name.try_into().unwrap_or_else(|e| panic!("{name:?}: {e}"));
    if name.contains("://") {
        SanType::URI(text)
    } else if name.contains('@') {
        SanType::Rfc822Name(text)
    } else {
        SanType::DnsName(text)
    }
}

/// What an authority's certificate says.
fn authority(common_name: &str) -> CertificateParams {
    let mut params = params(common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// What all certificates say.
fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = (SystemTime::now() - DAY).into();
    params.not_after = (SystemTime::now() + 90 * DAY).into();
    params.use_authority_key_identifier_extension = true;
    params
}

/// A new key, on the curve P-256.
fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}
