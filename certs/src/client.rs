//! TLS towards upstreams.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::{Error, provider};

/// What upstreams are checked by, and what is shown to them. Sessions are resumed within one.
pub struct ClientTls {
    config: ClientConfig,
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
    /// If a file cannot be read, holds none, or they do not belong together.
    pub fn new(ca: Option<PathBuf>, pair: Option<(PathBuf, PathBuf)>) -> Result<Arc<Self>, Error> {
        let mut roots = RootCertStore::empty();
        match ca {
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
            }
            Some(file) => {
                let all = CertificateDer::pem_file_iter(&file)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|error| Error::of(&file, error))?;
                for one in all {
                    roots.add(one).map_err(|error| Error::of(&file, error))?;
                }
            }
        }
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(Error::new)?
            .with_root_certificates(roots);
        let config = match pair {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let certificates = CertificateDer::pem_file_iter(&chain)
                    .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                    .map_err(|error| Error::of(&chain, error))?;
                let private = rustls::pki_types::PrivateKeyDer::from_pem_file(&key)
                    .map_err(|error| Error::of(&key, error))?;
                builder
                    .with_client_auth_cert(certificates, private)
                    .map_err(|error| Error::of(&key, error))?
            }
        };
        Ok(Arc::new(Self { config }))
    }

    /// The configuration for a protocol: to be made once an upstream and kept, so that sessions are resumed.
    pub fn config(&self, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}
