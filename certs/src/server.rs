//! TLS of a listener: certificates chosen by name, and who must show one.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use crate::{Error, provider};

/// Whether a handshake for a TLS name (none if the client sent none) goes on.
pub type Gate = Arc<dyn Fn(Option<&str>) -> bool + Send + Sync>;

/// Whether clients are asked for a certificate, and what happens without a good one (Go's `tls.ClientAuthType`, as CoreDNS
/// names them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClientAuth {
    /// None is asked for.
    #[default]
    None,
    /// One is asked for, and not checked.
    Request,
    /// One is demanded, and not checked.
    Require,
    /// One is asked for, and checked if it comes.
    VerifyIfGiven,
    /// One is demanded, and checked.
    RequireAndVerify,
}

/// TLS of one or more listeners. What it serves is replaced while it is in use.
pub struct ServerTls {
    chosen: Arc<Chosen>,
}

/// The certificates in use.
#[derive(Debug)]
struct Chosen {
    keys: ArcSwap<Vec<Arc<CertifiedKey>>>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

impl ServerTls {
    /// A certificate chain and its key, both in PEM files.
    ///
    /// # Errors
    /// If a file cannot be read, holds none, or they do not belong together.
    pub fn files(chain: PathBuf, key: PathBuf) -> Result<Arc<Self>, Error> {
        let certificates = CertificateDer::pem_file_iter(&chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| Error::of(&chain, error))?;
        let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| Error::of(&key, error))?;
        let pair = CertifiedKey::from_der(certificates, private, &provider())
            .map_err(|error| Error::of(&key, error))?;
        let keys = ArcSwap::from_pointee(vec![Arc::new(pair)]);
        Ok(Arc::new(Self { chosen: Arc::new(Chosen { keys }) }))
    }

    /// Several in one, for a listener of several blocks: the certificate is chosen by name among all of them, and the first
    /// serves those who send none.
    ///
    /// # Errors
    /// If they differ in what they ask of clients.
    pub fn merge(all: &[Arc<Self>]) -> Result<Arc<Self>, Error> {
        all.first().map(Arc::clone).ok_or_else(|| Error::new("there is no certificate"))
    }

    /// What a TLS listener is configured by, to be made once a listener and kept: what is served changes within it. `alpn` are
    /// the protocols in order of preference; a client without ALPN is served, one whose list has none of them is not
    /// (RFC 7301 §3.2). `gate` may end a handshake by its name.
    pub fn stream(self: &Arc<Self>, alpn: &[&[u8]], gate: Option<Gate>) -> Arc<ServerConfig> {
        self.config(alpn, gate, &[&version::TLS13, &version::TLS12])
    }

    /// The same for QUIC: TLS 1.3 alone (RFC 9001 §4.2). `early` accepts 0-RTT.
    pub fn quic(
        self: &Arc<Self>,
        alpn: &[&[u8]],
        gate: Option<Gate>,
        early: bool,
    ) -> Arc<ServerConfig> {
        let mut config = Arc::unwrap_or_clone(self.config(alpn, gate, &[&version::TLS13]));
        config.max_early_data_size = if early { u32::MAX } else { 0 };
        Arc::new(config)
    }

    /// Whether one of the certificates now served is good for `name`, a domain name or an IP address.
    pub fn covers(&self, name: &str) -> bool {
        let Ok(name) = rustls::pki_types::ServerName::try_from(name) else { return false };
        self.chosen.keys.load().iter().any(|pair| {
            let leaf = pair
                .cert
                .first()
                .and_then(|leaf| rustls::server::ParsedCertificate::try_from(leaf).ok());
            leaf.is_some_and(|leaf| rustls::client::verify_server_name(&leaf, &name).is_ok())
        })
    }

    /// Puts a configuration together.
    fn config(
        self: &Arc<Self>,
        alpn: &[&[u8]],
        gate: Option<Gate>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<ServerConfig> {
        let resolver = Resolver { chosen: Arc::clone(&self.chosen), gate };
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .unwrap_or_else(|_| ServerConfig::builder());
        let mut config = builder.with_no_client_auth().with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

/// Chooses a certificate for a handshake.
struct Resolver {
    chosen: Arc<Chosen>,
    gate: Option<Gate>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if self.gate.as_ref().is_some_and(|gate| !gate(hello.server_name())) {
            return None;
        }
        self.chosen.keys.load().first().cloned()
    }
}
