//! Certificates of clients: whose they are, by the authorities that are asked.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::demand::roots;
use crate::{Error, file, provider};

/// The authorities whose certificates of clients are believed.
pub struct ClientCas {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for ClientCas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCas").finish_non_exhaustive()
    }
}

/// Whom a certificate names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The first mail address, domain name or URI of the subject alternative names, in that order of kinds, else the common
    /// name; as the certificate has it.
    pub name: String,
    /// The organizational units, as the certificate has them.
    pub units: Vec<String>,
    /// For how long the certificate is valid yet.
    pub left: Duration,
}

impl ClientCas {
    /// The authorities in these PEM files.
    ///
    /// # Errors
    /// If a file cannot be read, holds none, or one that is of no use.
    pub fn read(files: &[PathBuf]) -> Result<Self, Error> {
        let mut all = RootCertStore::empty();
        for path in files {
            all.roots.extend(roots(path, &file::read(path)?)?.roots);
        }
        let builder = WebPkiClientVerifier::builder_with_provider(all.into(), provider());
        let verifier = builder.build().map_err(|error| Error::new(error.to_string()))?;
        Ok(Self { verifier })
    }

    /// Whom the first of these certificates in DER names, if they lead to one of the authorities, all are valid now, and it is
    /// one for clients (RFC 5280 §4.2.1.12). That the client has its key is for the handshake to find out.
    pub fn holder(&self, chain: &[impl AsRef<[u8]>]) -> Option<Holder> {
        let now = UnixTime::now();
        let mut chain = chain.iter().map(|one| CertificateDer::from(one.as_ref()));
        let own = chain.next()?;
        let others: Vec<_> = chain.collect();
        self.verifier.verify_client_cert(&own, &others, now).ok()?;
        let (_, certificate) = X509Certificate::from_der(&own).ok()?;
        let end = u64::try_from(certificate.validity().not_after.timestamp()).ok()?;
        let subject = certificate.subject();
        let common = || subject.iter_common_name().find_map(|own| own.as_str().ok());
        let units = subject.iter_organizational_unit().filter_map(|unit| unit.as_str().ok());
        Some(Holder {
            name: alternative(&certificate).or_else(common)?.to_owned(),
            units: units.map(str::to_owned).collect(),
            left: Duration::from_secs(end.saturating_sub(now.as_secs())),
        })
    }
}

/// The SHA-256 of a certificate in DER.
pub fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    // The two are of one length.
    hash.copy_from_slice(digest(&SHA256, certificate).as_ref());
    hash
}

/// The subject alternative name that a client goes by.
fn alternative<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    let names = &certificate.subject_alternative_name().ok()??.value.general_names;
    let first = |wanted: fn(&GeneralName<'a>) -> Option<&'a str>| names.iter().find_map(wanted);
    let mail = first(|name| match name {
        GeneralName::RFC822Name(mail) => Some(mail),
        _ => None,
    });
    let domain = || {
        first(|name| match name {
            GeneralName::DNSName(domain) => Some(domain),
            _ => None,
        })
    };
    let uri = || {
        first(|name| match name {
            GeneralName::URI(uri) => Some(uri),
            _ => None,
        })
    };
    mail.or_else(domain).or_else(uri)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose,
        IsCa, KeyPair, SanType,
    };

    use super::*;

    /// An authority, its name told apart by `name`.
    fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A client's certificate in DER, with changes.
    fn client(
        by: &CertifiedIssuer<'_, KeyPair>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "common");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "staff");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        params.signed_by(&KeyPair::generate().unwrap(), by).unwrap().der().to_vec()
    }

    /// A name of each kind.
    fn names(all: &[&str]) -> Vec<SanType> {
        let name = |text: &&str| match text.split_once(':').unwrap() {
            ("mail", rest) => SanType::Rfc822Name(rest.try_into().unwrap()),
            ("dns", rest) => SanType::DnsName(rest.try_into().unwrap()),
            ("uri", rest) => SanType::URI(rest.try_into().unwrap()),
            (_, rest) => SanType::IpAddress(rest.parse().unwrap()),
        };
        all.iter().map(name).collect()
    }

    /// Those of one authority, whose file is gone afterwards.
    fn cas(of: &CertifiedIssuer<'_, KeyPair>, file: &str) -> ClientCas {
        let path = std::env::temp_dir().join(format!("causeway-{file}-{}", std::process::id()));
        std::fs::write(&path, of.pem()).unwrap();
        let cas = ClientCas::read(std::slice::from_ref(&path)).unwrap();
        std::fs::remove_file(&path).unwrap();
        cas
    }

    #[test]
    fn tls_07_the_holder_is_the_first_alternative_name_of_the_best_kind() {
        let ours = authority("ours");
        let cas = cas(&ours, "names");
        for (alternatives, want) in [
            (
                &[
                    "ip:198.51.100.1",
                    "uri:spiffe://example.org/a",
                    "dns:a.example.org",
                    "mail:a@example.org",
                    "mail:b@example.org",
                ][..],
                "a@example.org",
            ),
            (
                &["uri:spiffe://example.org/a", "dns:a.example.org", "dns:b.example.org"],
                "a.example.org",
            ),
            (&["ip:198.51.100.1", "uri:spiffe://example.org/a"], "spiffe://example.org/a"),
            (&["ip:198.51.100.1"], "common"),
            (&[], "common"),
        ] {
            let chain = [client(&ours, |params| params.subject_alt_names = names(alternatives))];
            let holder = cas.holder(&chain).unwrap();
            assert_eq!((&*holder.name, &*holder.units), (want, &["staff".to_owned()][..]));
        }
    }

    #[test]
    fn tls_07_only_valid_certificates_for_clients_are_believed() {
        let (ours, theirs) = (authority("ours"), authority("theirs"));
        let cas = cas(&ours, "valid");
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        let soon = client(&ours, |params| params.not_after = (now + day).into());
        let left = cas.holder(&[soon]).unwrap().left;
        assert!(left <= day && left + Duration::from_secs(60) > day, "{left:?}");
        let late = client(&ours, |params| params.not_after = (now - day).into());
        let early = client(&ours, |params| params.not_before = (now + day).into());
        let server = client(&ours, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        let nameless = client(&ours, |params| params.distinguished_name = Default::default());
        for (what, chain) in [
            ("of another authority", vec![client(&theirs, |_| {})]),
            ("expired", vec![late]),
            ("not valid yet", vec![early]),
            ("a server's", vec![server]),
            ("without a name", vec![nameless]),
            ("none", vec![]),
            ("no certificate", vec![b"junk".to_vec()]),
        ] {
            assert_eq!(cas.holder(&chain), None, "{what}");
        }
    }

    #[test]
    fn a_chain_leads_through_intermediate_authorities() {
        let root = authority("root");
        let cas = cas(&root, "chain");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "between");
        let between =
            CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
        let own = client(&between, |_| {});
        assert_eq!(cas.holder(std::slice::from_ref(&own)), None);
        assert_eq!(cas.holder(&[own, between.der().to_vec()]).unwrap().name, "common");
    }

    #[test]
    fn files_without_authorities_are_refused() {
        let path = std::env::temp_dir().join(format!("causeway-none-{}", std::process::id()));
        std::fs::write(&path, "nothing\n").unwrap();
        let wrong = ClientCas::read(std::slice::from_ref(&path)).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(wrong.contains("certificate"), "{wrong}");
        let wrong = ClientCas::read(&[path]).unwrap_err();
        assert!(wrong.file.is_some());
    }
}
