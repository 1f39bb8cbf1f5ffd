//! Certificates of the tests' servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use certs::ClientTls;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority, whose certificate lies in a file.
pub(crate) struct Pki {
    issuer: CertifiedIssuer<'static, KeyPair>,
    file: PathBuf,
}

impl Drop for Pki {
    fn drop(&mut self) {
        // Whatever keeps it does no harm.
        drop(std::fs::remove_file(&self.file));
    }
}

impl Pki {
    /// Makes one.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let file = format!("causeway-upstream-{}-{number}.pem", std::process::id());
        let file = std::env::temp_dir().join(file);
        std::fs::write(&file, issuer.pem()).unwrap();
        Self { issuer, file }
    }

    /// What trusts it.
    pub(crate) fn client(&self) -> Arc<ClientTls> {
        ClientTls::new(Some(self.file.clone()), None).unwrap()
    }

    /// A server for names and addresses.
    pub(crate) fn server(&self, names: &[&str], alpn: &[&[u8]]) -> ServerConfig {
        self.issue(names, alpn, |_| {})
    }

    /// The same, its certificate having ended long ago.
    pub(crate) fn expired(&self, names: &[&str], alpn: &[&[u8]]) -> ServerConfig {
        self.issue(names, alpn, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    /// Issues a certificate.
    fn issue(
        &self,
        names: &[&str],
        alpn: &[&[u8]],
        change: impl FnOnce(&mut CertificateParams),
    ) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let leaf: CertificateDer<'static> = params.signed_by(&key, &self.issuer).unwrap().into();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut config =
            builder.with_no_client_auth().with_single_cert(vec![leaf], private).unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        config
    }
}
