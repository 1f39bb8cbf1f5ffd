//! What is asked of clients.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error as TlsError, RootCertStore, SignatureScheme,
};

use crate::watched::{Content, Watched};
use crate::{Error, file, provider};

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

impl ClientAuth {
    /// Its word in the Corefile.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "nocert",
            Self::Request => "request",
            Self::Require => "require",
            Self::VerifyIfGiven => "verify_if_given",
            Self::RequireAndVerify => "require_and_verify",
        }
    }

    /// Whether certificates are checked, for which a CA is needed.
    pub fn verifies(self) -> bool {
        matches!(self, Self::VerifyIfGiven | Self::RequireAndVerify)
    }
}

/// The CAs of clients, as a file holds them.
#[derive(Debug)]
pub(crate) struct Authority {
    verifier: Arc<dyn ClientCertVerifier>,
    count: usize,
}

impl Content for Authority {
    fn read(files: &[PathBuf], octets: &[Vec<u8>]) -> Result<Self, Error> {
        let ([path], [octets]) = (files, octets) else {
            return Err(Error::new("CAs have one file"));
        };
        let roots = roots(path, octets)?;
        let count = roots.len();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider())
            .build()
            .map_err(|error| Error::of(path, error.to_string()))?;
        Ok(Self { verifier, count })
    }

    fn told(&self) -> String {
        match self.count {
            1 => "one CA of clients".to_owned(),
            count => format!("{count} CAs of clients"),
        }
    }
}

/// The CAs of a PEM file.
pub(crate) fn roots(path: &std::path::Path, octets: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in file::certificates(path, octets)? {
        roots
            .add(certificate)
            .map_err(|_| Error::of(path, "holds a certificate that cannot be read"))?;
    }
    Ok(roots)
}

/// What is asked of clients, by CAs that may be replaced.
#[derive(Debug)]
pub(crate) struct Demand {
    pub(crate) mode: ClientAuth,
    pub(crate) authority: Option<Arc<Watched<Authority>>>,
}

impl ClientCertVerifier for Demand {
    fn offer_client_auth(&self) -> bool {
        self.mode != ClientAuth::None
    }

    fn client_auth_mandatory(&self) -> bool {
        matches!(self.mode, ClientAuth::Require | ClientAuth::RequireAndVerify)
    }

    /// None: they are optional (RFC 8446 §4.2.4), may be large, and would be those of the first CA file.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        match &self.authority {
            _ if !self.mode.verifies() => Ok(ClientCertVerified::assertion()),
            Some(authority) => {
                authority.now().verifier.verify_client_cert(end_entity, intermediates, now)
            }
            None => Err(TlsError::General("there is no CA to check a certificate by".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
