//! Certificates by ACME, from a real CA.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tests::pebble::{Pebble, Wish};
use tests::{Folder, Gateway, free_port, until};

/// How long an order may take on a slow machine.
const ORDER: Duration = Duration::from_secs(60);

/// The port of the gateway's listeners, chosen before the CA starts that asks there.
#[derive(Clone, Copy, Debug)]
struct Ports {
    dns: u16,
    tls: u16,
    http: u16,
    metrics: u16,
}

impl Ports {
    /// Free ones.
    fn new() -> Self {
        Self { dns: free_port(), tls: free_port(), http: free_port(), metrics: free_port() }
    }

    /// A CA that asks at them; its certificates are valid for so many seconds.
    fn ca(self, valid: u32) -> Pebble {
        let dns = SocketAddr::from(([127, 0, 0, 1], self.dns));
        Pebble::start(Wish { dns, http: self.http, tls: self.tls, valid })
    }

    /// A Corefile with these lines in `tls`.
    fn corefile(self, acme: &str) -> String {
        let Self { dns, tls, metrics, .. } = self;
        format!(
            ".:{dns} {{\n bind 127.0.0.1\n errors\n prometheus 127.0.0.1:{metrics}\n hosts {{\n  127.0.0.1 dns.example.org two.example.org acme.test\n }}\n}}\n\
             tls://.:{tls} {{\n bind 127.0.0.1\n tls {{\n{acme}\n }}\n errors\n whoami\n}}\n"
        )
    }
}

/// Asks a gateway over TLS, and checks its certificate by a root; the octets of the certificate.
fn ask(port: u16, root: &str, name: &str) -> Result<Vec<u8>, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"dot".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let query = tests::Query::from("www.example.org").encode();
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    let both = [&length[..], &query].concat();
    stream.write_all(&both).map_err(|error| error.to_string())?;
    let mut head = [0; 14];
    stream.read_exact(&mut head).map_err(|error| error.to_string())?;
    Ok(stream.conn.peer_certificates().unwrap()[0].to_vec())
}

/// Waits until a gateway serves a certificate that is good for a name, and gives its octets.
fn served(gateway: &Gateway, port: u16, ca: &Pebble, name: &str) -> Vec<u8> {
    let mut last = String::new();
    let found = until(ORDER, || match ask(port, &ca.root(), name) {
        Ok(certificate) => Some(certificate),
        Err(error) => {
            last = error;
            std::thread::sleep(Duration::from_millis(200));
            None
        }
    });
    found.unwrap_or_else(|| {
        panic!("{name}: {last}\n{}\n--- the CA:\n{}", gateway.output(), ca.output())
    })
}

/// The value of a metric whose labels have a text.
fn metric(ports: Ports, name: &str, label: &str) -> Option<f64> {
    let addr = SocketAddr::from(([127, 0, 0, 1], ports.metrics));
    let (_, text) = tests::client::http_get(addr, "/metrics")?;
    let line = text.lines().find(|line| line.starts_with(name) && line.contains(label))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// All files below a folder, with their rights.
fn files(folder: &Path) -> Vec<(String, u32)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        if entry.path().is_dir() {
            assert_eq!(mode, 0o700, "{:?}", entry.path());
            all.extend(files(&entry.path()));
        } else {
            all.push((entry.file_name().to_string_lossy().into_owned(), mode));
        }
    }
    all.sort();
    all
}

#[test]
fn dns_01_obtains_certificates_and_keeps_them() {
    // tls.acme, tls.acme.dns01, tls.acme.async, tls.acme.sni
    let ports = Ports::new();
    let mut ca = ports.ca(3600);
    let storage = Folder::new("storage");
    let corefile = ports.corefile(&format!(
        "  acme dns.example.org *.dns.example.org\n  email hostmaster@example.org\n  ca {}\n  ca_root {}\n  storage {}",
        ca.directory(), ca.ca_root(), storage.path().display()
    ));
    let mut gateway = Gateway::new(&corefile).start();
    let first = served(&gateway, ports.tls, &ca, "dns.example.org");
    served(&gateway, ports.tls, &ca, "phone.dns.example.org");
    gateway.line("certificate of dns.example.org obtained by ACME, valid until ");
    gateway.line("certificate of *.dns.example.org obtained by ACME, valid until ");
    // Names that it has not, and none, get the first.
    let other = ask(ports.tls, &ca.root(), "other.example.org").unwrap_err();
    assert!(other.contains("dns.example.org"), "{other}");
    let label = "acme/dns.example.org";
    let until = metric(ports, "causeway_tls_certificate_expiry_timestamp_seconds", label).unwrap();
    assert!(until > 1.7e9, "{until}");
    assert_eq!(metric(ports, "causeway_tls_swaps_total", label), Some(1.0));
    assert_eq!(metric(ports, "causeway_tls_broken", label), Some(0.0));
    let kept = files(storage.path());
    let names: Vec<_> = kept.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["_.dns.example.org.pem", "account.json", "dns.example.org.pem", "lock"]);
    assert!(kept.iter().all(|(_, mode)| *mode == 0o600), "{kept:?}");
    assert!(!gateway.output().contains("PRIVATE KEY"));
    // Nothing is left of the challenge.
    let address = SocketAddr::from(([127, 0, 0, 1], ports.dns));
    let reply = tests::Query::from("_acme-challenge.dns.example.org TXT").ask(address).unwrap();
    assert!(reply.answers().is_empty(), "{reply:?}");
    // A start takes what is kept, also while the CA is away.
    gateway.stop();
    let root = ca.root();
    ca.pause();
    let gateway = Gateway::new(&corefile).start();
    assert_eq!(ask(ports.tls, &root, "dns.example.org"), Ok(first));
    assert!(!gateway.output().contains("by ACME"), "{}", gateway.output());
}

#[test]
fn http_01_shows_a_page() {
    let ports = Ports::new();
    let ca = ports.ca(3600);
    let gateway = Gateway::new(&ports.corefile(&format!(
        "  acme dns.example.org two.example.org\n  ca {}\n  ca_root {}\n  storage acme\n  challenge http-01 127.0.0.1:{}",
        ca.directory(), ca.ca_root(), ports.http
    )))
    .start();
    served(&gateway, ports.tls, &ca, "dns.example.org");
    served(&gateway, ports.tls, &ca, "two.example.org");
    let addr = SocketAddr::from(([127, 0, 0, 1], ports.http));
    let (status, _) = tests::client::http_get(addr, "/.well-known/acme-challenge/none").unwrap();
    assert_eq!(status, 404);
}

#[test]
fn tls_alpn_01_shows_a_certificate() {
    let ports = Ports::new();
    let ca = ports.ca(3600);
    let gateway = Gateway::new(&ports.corefile(&format!(
        "  acme dns.example.org\n  ca {}\n  ca_root {}\n  storage acme\n  challenge tls-alpn-01",
        ca.directory(),
        ca.ca_root()
    )))
    .start();
    served(&gateway, ports.tls, &ca, "dns.example.org");
}

#[test]
fn tls_06_certificates_are_renewed_and_old_ones_serve_while_the_ca_is_away() {
    let ports = Ports::new();
    // Two thirds of this are ten seconds.
    let mut ca = ports.ca(15);
    let gateway = Gateway::new(&ports.corefile(&format!(
        "  acme dns.example.org\n  ca {}\n  ca_root {}\n  storage acme\n  resolver 127.0.0.1:{}",
        ca.named_directory(),
        ca.ca_root(),
        ports.dns
    )))
    .start();
    let first = served(&gateway, ports.tls, &ca, "dns.example.org");
    let renewed = until(ORDER, || {
        let now = served(&gateway, ports.tls, &ca, "dns.example.org");
        (now != first).then_some(now)
    });
    assert!(renewed.is_some(), "{}", gateway.output());
    gateway.line("certificate of dns.example.org renewed by ACME, valid until ");
    let root = ca.root();
    let before = served(&gateway, ports.tls, &ca, "dns.example.org");
    ca.pause();
    gateway.line(
        "no certificate of dns.example.org by ACME: the CA's server acme.test cannot be asked: ",
    );
    let line = gateway.line("; the one that expires on ");
    assert!(line.contains("; next attempt in "), "{line}");
    assert_eq!(ask(ports.tls, &root, "dns.example.org"), Ok(before), "{}", gateway.output());
    assert_eq!(metric(ports, "causeway_tls_broken", "acme/dns.example.org"), Some(1.0));
    // Another root: what is served then is new.
    ca.resume();
    served(&gateway, ports.tls, &ca, "dns.example.org");
    let whole = until(ORDER, || {
        (metric(ports, "causeway_tls_broken", "acme/dns.example.org") == Some(0.0)).then_some(())
    });
    assert!(whole.is_some(), "{}", gateway.output());
}

#[test]
fn replicas_that_share_a_storage_obtain_a_certificate_once() {
    let ports = Ports::new();
    let ca = ports.ca(3600);
    let storage = Folder::new("storage");
    let acme = format!(
        "  acme dns.example.org\n  ca {}\n  ca_root {}\n  storage {}",
        ca.directory(),
        ca.ca_root(),
        storage.path().display()
    );
    let other = Ports::new();
    let one = Gateway::new(&ports.corefile(&acme)).start();
    let two = Gateway::new(&other.corefile(&acme)).start();
    let first = served(&one, ports.tls, &ca, "dns.example.org");
    assert_eq!(first, served(&two, other.tls, &ca, "dns.example.org"));
    let both = format!("{}{}", one.output(), two.output());
    assert_eq!(both.matches("obtained by ACME").count(), 1, "{both}");
}

#[test]
fn replicas_answer_for_one_another() {
    // The CA asks the one that cannot reach it.
    let (one, two) = (Ports::new(), Ports::new());
    let ca = two.ca(3600);
    let storage = Folder::new("storage");
    let acme = |resolver: u16| {
        format!(
            "  acme dns.example.org\n  ca {}\n  ca_root {}\n  storage {}\n  resolver 127.0.0.1:{resolver}",
            ca.named_directory(),
            ca.ca_root(),
            storage.path().display()
        )
    };
    let nobody = Gateway::new(&two.corefile(&acme(free_port()))).start();
    nobody.line(
        "no certificate of dns.example.org by ACME: the CA's server acme.test cannot be asked: ",
    );
    let somebody = Gateway::new(&one.corefile(&acme(one.dns))).start();
    let first = served(&somebody, one.tls, &ca, "dns.example.org");
    assert_eq!(served(&nobody, two.tls, &ca, "dns.example.org"), first);
    assert!(!nobody.output().contains("obtained by ACME"), "{}", nobody.output());
    let is_left =
        |name: &str| name.starts_with("dns.example.org.") && name != "dns.example.org.pem";
    assert!(files(storage.path()).iter().all(|(name, _)| !is_left(name)));
}

#[test]
fn what_cannot_be_kept_is_served_and_not_ordered_again() {
    let ports = Ports::new();
    let mut ca = ports.ca(3600);
    ca.pause();
    let storage = Folder::new("storage");
    let gateway = Gateway::new(&ports.corefile(&format!(
        "  acme dns.example.org\n  ca {}\n  ca_root {}\n  storage {}",
        ca.directory(),
        ca.ca_root(),
        storage.path().display()
    )))
    .start();
    gateway.line("cannot be asked: ");
    // A folder is where the file is to be.
    let folder = std::fs::read_dir(storage.path()).unwrap().flatten().next().unwrap().path();
    let place = folder.join("dns.example.org.pem");
    std::fs::create_dir(&place).unwrap();
    ca.resume();
    let first = served(&gateway, ports.tls, &ca, "dns.example.org");
    gateway.line("dns.example.org.pem: cannot be written: ");
    std::fs::remove_dir(&place).unwrap();
    gateway.line("certificate of dns.example.org obtained and kept by ACME, valid until ");
    assert_eq!(ask(ports.tls, &ca.root(), "dns.example.org"), Ok(first));
    assert!(place.is_file());
    assert_eq!(ca.output().matches("Issued certificate serial").count(), 1, "{}", ca.output());
}

#[test]
fn a_refusal_says_what_the_ca_says() {
    // Nothing of ours is where the CA looks.
    let ports = Ports::new();
    let ca = ports.ca(3600);
    let elsewhere = free_port();
    let gateway = Gateway::new(&ports.corefile(&format!(
        "  acme dns.example.org\n  ca {}\n  ca_root {}\n  storage acme\n  challenge http-01 127.0.0.1:{elsewhere}",
        ca.directory(), ca.ca_root()
    )))
    .start();
    let line = gateway.line("no certificate of dns.example.org by ACME: ");
    assert!(line.contains("/.well-known/acme-challenge/"), "{line}");
    assert!(
        line.contains("; there is none, and handshakes for it fail; next attempt in "),
        "{line}"
    );
}
