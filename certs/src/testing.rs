//! PKIs, folders and handshakes of tests.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection,
};

use crate::pair::Facts;
use crate::{now, provider};

/// A folder of its own, gone afterwards.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// An empty one.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("causeway-certs-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a name in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file that its owner alone may read.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A certificate with its key, in PEM.
#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Issued {
    /// Writes both as `NAME.pem` and `NAME.key`.
    pub(crate) fn write(&self, folder: &Folder, name: &str) -> (PathBuf, PathBuf) {
        let chain = folder.write(&format!("{name}.pem"), &self.chain);
        (chain, folder.write(&format!("{name}.key"), &self.key))
    }
}

/// What a certificate is to be.
pub(crate) struct Wish<'a> {
    pub(crate) names: &'a [&'a str],
    /// For clients instead of servers.
    pub(crate) client: bool,
    /// From when to when it is valid, in seconds from now.
    pub(crate) valid: (i64, i64),
    /// Whether it demands stapling.
    pub(crate) must_staple: bool,
    pub(crate) algorithm: &'static rcgen::SignatureAlgorithm,
}

impl Default for Wish<'_> {
    fn default() -> Self {
        Self {
            names: &["example.org"],
            client: false,
            valid: (-3600, 90 * 86_400),
            must_staple: false,
            algorithm: &rcgen::PKCS_ECDSA_P256_SHA256,
        }
    }
}

/// A CA.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Ca {
    /// A new one.
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for servers with these names.
    pub(crate) fn server(&self, names: &[&str]) -> Issued {
        self.issue(&Wish { names, ..Wish::default() })
    }

    /// A certificate for a client.
    pub(crate) fn client(&self, name: &str) -> Issued {
        self.issue(&Wish { names: &[name], client: true, ..Wish::default() })
    }

    /// A certificate as wished.
    pub(crate) fn issue(&self, wish: &Wish<'_>) -> Issued {
        let names: Vec<String> = wish.names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        let usage = if wish.client {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        };
        params.extended_key_usages.push(usage);
        let at = |seconds: i64| {
            let seconds = u64::try_from(now() + seconds).unwrap();
            date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
        };
        (params.not_before, params.not_after) = (at(wish.valid.0), at(wish.valid.1));
        if wish.must_staple {
            let oid = [1, 3, 6, 1, 5, 5, 7, 1, 24];
            let extension = rcgen::CustomExtension::from_oid_content(&oid, vec![0x30, 3, 2, 1, 5]);
            params.custom_extensions.push(extension);
        }
        let key = KeyPair::generate_for(wish.algorithm).unwrap();
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        Issued { chain: leaf.pem() + &self.pem, key: key.serialize_pem() }
    }

    /// A client that checks by this CA, with a certificate if one is given.
    pub(crate) fn trusted_by(&self, shown: Option<&Issued>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(shown) => {
                let chain = CertificateDer::pem_slice_iter(shown.chain.as_bytes())
                    .collect::<Result<Vec<_>, _>>()
                    .unwrap();
                let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.resumption = Resumption::in_memory_sessions(8);
        config
    }
}

/// What a client saw of a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The first name of the server's certificate.
    pub(crate) name: String,
    pub(crate) version: ProtocolVersion,
    pub(crate) alpn: Option<String>,
    pub(crate) resumed: bool,
    /// How many octets the server sent until the client was done.
    pub(crate) octets: usize,
    /// How many certificates the client showed.
    pub(crate) shown: usize,
}

/// Shakes hands; what went wrong on either side as text.
pub(crate) fn shake(
    server: &Arc<ServerConfig>,
    client: &Arc<ClientConfig>,
    name: &str,
) -> Result<Seen, String> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    let mut octets = 0;
    loop {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut moved = !wire.is_empty();
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            let done = server.process_new_packets();
            done.map_err(|error| format!("server: {error}"))?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        moved |= !wire.is_empty();
        if client.is_handshaking() {
            octets += wire.len();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            let done = client.process_new_packets();
            done.map_err(|error| format!("client: {error}"))?;
        }
        if !moved {
            break;
        }
    }
    let leaf = client.peer_certificates().unwrap().first().unwrap();
    Ok(Seen {
        name: Facts::read(leaf).unwrap().name(),
        version: client.protocol_version().unwrap(),
        alpn: client.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        resumed: client.handshake_kind() == Some(HandshakeKind::Resumed),
        octets,
        shown: server.peer_certificates().map_or(0, <[_]>::len),
    })
}

/// The name of the certificate that a server shows for a TLS name; the client checks nothing else.
pub(crate) fn name_for(server: &Arc<ServerConfig>, ca: &Ca, name: &str) -> String {
    match shake(server, &Arc::new(ca.trusted_by(None)), name) {
        Ok(seen) => seen.name,
        Err(error) => error,
    }
}
