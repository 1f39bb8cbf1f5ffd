//! TLS towards upstreams.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Resumption,
    Tls12ClientSessionValue, Tls13ClientSessionValue, WebPkiServerVerifier,
};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, NamedGroup, RootCertStore,
    SignatureScheme,
};

use crate::demand::roots;
use crate::pair::Pair;
use crate::watched::{Content, Watched, watch};
use crate::{Error, provider};

/// The target of log lines.
const TARGET: &str = "certs";

/// How many servers' sessions are kept.
const SESSIONS: usize = 256;

/// What upstreams are checked by, and what is shown to them. Sessions are resumed within one. Its files are looked at, four
/// times a second, as long as it is there, if it is made within a runtime of tokio: new connections go by what they hold then.
pub struct ClientTls {
    trust: Arc<Trust>,
    shown: Option<Arc<Shown>>,
    /// Grows when one of them changes.
    generation: Arc<AtomicU64>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Checks servers by the CAs of the PEM file `ca`, or by the system's without one; shows the certificate of the PEM files
    /// `pair` (chain, key) to those who ask.
    ///
    /// # Errors
    /// If a file cannot be read, holds none, or they do not belong together; if the system has no CAs.
    pub fn new(ca: Option<PathBuf>, pair: Option<(PathBuf, PathBuf)>) -> Result<Arc<Self>, Error> {
        let trust = match ca {
            Some(file) => Trust::File(Watched::new([file], TARGET)?),
            None => Trust::System(system()?),
        };
        let shown = match pair {
            Some((chain, key)) => Some(Arc::new(Shown(Watched::new([chain, key], TARGET)?))),
            None => None,
        };
        let generation = Arc::default();
        let made = Arc::new(Self { trust: Arc::new(trust), shown, generation });
        watch(&made, Self::look);
        Ok(made)
    }

    /// Checks nothing and shows nothing: encryption against those who only listen.
    pub fn unchecked() -> Arc<Self> {
        Arc::new(Self { trust: Arc::new(Trust::Anybody), shown: None, generation: Arc::default() })
    }

    /// The configuration for a protocol: to be made once an upstream and kept, so that sessions are resumed. What it checks by
    /// and shows changes within it; sessions of before are not resumed then.
    pub fn config(&self, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            // The provider has suites of both versions.
            .unwrap_or_else(|_| ClientConfig::builder());
        let builder =
            builder.dangerous().with_custom_certificate_verifier(Arc::clone(&self.trust) as _);
        let mut config = match &self.shown {
            Some(shown) => builder.with_client_cert_resolver(Arc::clone(shown) as _),
            None => builder.with_no_client_auth(),
        };
        config.resumption = Resumption::store(Arc::new(Sessions {
            wanted: Arc::clone(&self.generation),
            generation: AtomicU64::new(self.generation.load(Ordering::Acquire)),
            kept: ArcSwap::from_pointee(ClientSessionMemoryCache::new(SESSIONS)),
        }));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// What is odd about the certificate that is shown: that it has expired or is not yet valid, that everybody may read its
    /// key.
    pub fn oddities(&self) -> Vec<String> {
        let Some(shown) = &self.shown else { return Vec::new() };
        let pair = shown.0.now();
        pair.oddities.iter().cloned().chain(pair.odd(crate::now())).collect()
    }

    /// Looks whether anything has changed.
    pub(crate) fn look(&self) {
        let trust = match &*self.trust {
            Trust::System(_) | Trust::Anybody => false,
            Trust::File(file) => file.look(),
        };
        if self.shown.as_ref().is_some_and(|shown| shown.0.look()) || trust {
            self.generation.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The CAs of the system.
fn system() -> Result<Arc<WebPkiServerVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(Error::new("this system has no CA certificates")
            .help("install the package ca-certificates, or name a file of CAs"));
    }
    verifier(roots).map_err(|error| Error::new(error.to_string()))
}

/// Checks by CAs.
fn verifier(
    roots: RootCertStore,
) -> Result<Arc<WebPkiServerVerifier>, rustls::client::VerifierBuilderError> {
    WebPkiServerVerifier::builder_with_provider(roots.into(), provider()).build()
}

/// CAs of servers, as a file holds them.
struct Roots {
    verifier: Arc<WebPkiServerVerifier>,
    count: usize,
}

impl Content for Roots {
    fn read(files: &[PathBuf], octets: &[Vec<u8>]) -> Result<Self, Error> {
        let ([path], [octets]) = (files, octets) else {
            return Err(Error::new("CAs have one file"));
        };
        let path: &Path = path;
        let roots = roots(path, octets)?;
        let count = roots.len();
        let verifier = verifier(roots).map_err(|error| Error::of(path, error.to_string()))?;
        Ok(Self { verifier, count })
    }

    fn told(&self) -> String {
        match self.count {
            1 => "one CA of servers".to_owned(),
            count => format!("{count} CAs of servers"),
        }
    }
}

/// What servers are checked by.
#[derive(Debug)]
enum Trust {
    /// The CAs that the system had at the start.
    System(Arc<WebPkiServerVerifier>),
    /// Those of a file.
    File(Arc<Watched<Roots>>),
    /// None: any certificate will do.
    Anybody,
}

impl Trust {
    /// Who checks now; nobody if any certificate will do.
    fn now(&self) -> Option<Arc<WebPkiServerVerifier>> {
        match self {
            Self::System(verifier) => Some(Arc::clone(verifier)),
            Self::File(file) => Some(Arc::clone(&file.now().verifier)),
            Self::Anybody => None,
        }
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        match self.now() {
            Some(verifier) => verifier.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            ),
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        match self.now() {
            Some(verifier) => verifier.verify_tls12_signature(message, cert, dss),
            // That the other side has the certificate's key still has to be shown.
            None => verify_tls12_signature(message, cert, dss, &algorithms()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        match self.now() {
            Some(verifier) => verifier.verify_tls13_signature(message, cert, dss),
            // That the other side has the certificate's key still has to be shown.
            None => verify_tls13_signature(message, cert, dss, &algorithms()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match self.now() {
            Some(verifier) => verifier.supported_verify_schemes(),
            None => algorithms().supported_schemes(),
        }
    }
}

/// The signatures that can be checked.
fn algorithms() -> WebPkiSupportedAlgorithms {
    provider().signature_verification_algorithms
}

/// The certificate that is shown to servers that ask.
#[derive(Debug)]
struct Shown(Arc<Watched<Pair>>);

impl ResolvesClientCert for Shown {
    fn resolve(
        &self,
        _root_hint_subjects: &[&[u8]],
        _sigschemes: &[SignatureScheme],
    ) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.now().key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Sessions that go when what they were made by has changed: a server is checked when a session begins, and not again.
struct Sessions {
    wanted: Arc<AtomicU64>,
    generation: AtomicU64,
    kept: ArcSwap<ClientSessionMemoryCache>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

impl Sessions {
    /// Those of now.
    fn now(&self) -> arc_swap::Guard<Arc<ClientSessionMemoryCache>> {
        let wanted = self.wanted.load(Ordering::Acquire);
        if self.generation.load(Ordering::Acquire) != wanted {
            self.kept.store(Arc::new(ClientSessionMemoryCache::new(SESSIONS)));
            // Behind it: whoever sees the number finds no session of before.
            self.generation.store(wanted, Ordering::Release);
        }
        self.kept.load()
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.now().set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.now().kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.now().set_tls12_session(server_name, value);
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.now().tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        self.now().remove_tls12_session(server_name);
    }

    fn insert_tls13_ticket(
        &self,
        server_name: ServerName<'static>,
        value: Tls13ClientSessionValue,
    ) {
        self.now().insert_tls13_ticket(server_name, value);
    }

    fn take_tls13_ticket(
        &self,
        server_name: &ServerName<'static>,
    ) -> Option<Tls13ClientSessionValue> {
        self.now().take_tls13_ticket(server_name)
    }
}
