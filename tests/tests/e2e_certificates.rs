//! Certificates that are replaced again and again under load: no query fails, and no old certificate is shown a second after.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tests::quic::{self, Client};
use tests::{Gateway, Pki, Query, Reply, stated};

/// How long a certificate may be shown that has been replaced.
const OLD: Duration = Duration::from_secs(1);

/// How long a step of a client may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

/// How often certificates are replaced, and how many times a second.
fn rotations() -> (usize, f64) {
    (stated("ROTATIONS", 12.0) as usize, stated("ROTATIONS_A_SECOND", 2.0))
}

/// All certificates so far, with the time at which each was there.
#[derive(Default)]
struct Shown(Mutex<Vec<(CertificateDer<'static>, Instant)>>);

impl Shown {
    /// Adds the one that the file holds.
    fn add(&self, file: &Path) {
        let leaf = CertificateDer::from_pem_file(file).unwrap();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((leaf, Instant::now()));
    }

    /// Checks a certificate that a handshake showed which was begun at `begun`: it is one of these, and the next one had not been
    /// there for longer than is allowed.
    fn check(&self, who: &str, leaf: &[u8], begun: Instant) -> usize {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().rposition(|(own, _)| own.as_ref() == leaf);
        let at = at.unwrap_or_else(|| panic!("{who}: a certificate that nobody issued"));
        if let Some((_, next)) = all.get(at + 1) {
            let late = begun.saturating_duration_since(*next);
            assert!(
                late < OLD,
                "{who}: certificate {at} of {} was shown {late:?} after it was replaced",
                all.len()
            );
        }
        at
    }
}

/// What all clients share.
struct Load {
    shown: Shown,
    over: AtomicBool,
    queries: AtomicUsize,
    handshakes: AtomicUsize,
}

/// A connection in TLS.
type Secure = StreamOwned<ClientConnection, TcpStream>;

/// Makes a handshake, and checks what it shows.
fn connect(load: &Load, who: &str, config: &Arc<ClientConfig>, server: SocketAddr) -> Secure {
    let begun = Instant::now();
    let stream = TcpStream::connect_timeout(&server, LIMIT).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    let name = ServerName::try_from("dns.example.org").unwrap();
    let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut secure = StreamOwned::new(tls, stream);
    while secure.conn.is_handshaking() {
        secure.conn.complete_io(&mut secure.sock).unwrap_or_else(|error| panic!("{who}: {error}"));
    }
    load.shown.check(who, &secure.conn.peer_certificates().unwrap()[0], begun);
    load.handshakes.fetch_add(1, Ordering::Relaxed);
    secure
}

/// Checks a reply.
fn right(load: &Load, who: &str, message: Vec<u8>) {
    let reply = Reply::decode(message, Duration::ZERO);
    assert_eq!(reply.answers(), ["www.test. 60 IN A 203.0.113.1"], "{who}");
    load.queries.fetch_add(1, Ordering::Relaxed);
}

/// The query that everybody asks.
fn query() -> Vec<u8> {
    Query::from("www.test A").encode()
}

/// Asks by DoT.
fn dot(load: &Load, who: &str, secure: &mut Secure) {
    secure.write_all(&quic::framed(&query())).unwrap();
    let mut length = [0; 2];
    secure.read_exact(&mut length).unwrap_or_else(|error| panic!("{who}: {error}"));
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    secure.read_exact(&mut message).unwrap_or_else(|error| panic!("{who}: {error}"));
    right(load, who, message);
}

/// Asks by DoH, HTTP/1.1.
fn doh(load: &Load, who: &str, secure: &mut Secure) {
    let query = query();
    let head = format!(
        "POST /dns-query HTTP/1.1\r\nhost: dns.example.org\r\ncontent-type: application/dns-message\r\ncontent-length: {}\r\n\r\n",
        query.len()
    );
    secure.write_all(&[head.as_bytes(), &query].concat()).unwrap();
    let mut octets = Vec::new();
    let (head, length) = loop {
        let mut some = [0; 4096];
        let count = secure.read(&mut some).unwrap_or_else(|error| panic!("{who}: {error}"));
        assert!(count > 0, "{who}: the connection was closed");
        octets.extend_from_slice(&some[..count]);
        let Some(end) = octets.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&octets[..end]).to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{who}: {head}");
        let length: usize = head
            .split("content-length: ")
            .nth(1)
            .and_then(|rest| rest.split("\r\n").next()?.parse().ok())
            .unwrap();
        if octets.len() >= end + 4 + length {
            break (end + 4, length);
        }
    };
    right(load, who, octets[head..head + length].to_vec());
}

/// Asks on connections of its own, one query each, and on one that is kept, until it is over.
fn over_tcp(
    load: &Load,
    who: &str,
    ca: &Path,
    alpn: Option<&[u8]>,
    server: SocketAddr,
    ask: Option<fn(&Load, &str, &mut Secure)>,
) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    // A resumed session shows the certificate that it began with.
    config.resumption = rustls::client::Resumption::disabled();
    config.alpn_protocols.extend(alpn.map(<[u8]>::to_vec));
    let config = Arc::new(config);
    let mut kept = connect(load, who, &config, server);
    while !load.over.load(Ordering::Relaxed) {
        let mut fresh = connect(load, who, &config, server);
        if let Some(ask) = ask {
            ask(load, who, &mut fresh);
            ask(load, who, &mut kept);
        }
        sleep(Duration::from_millis(20));
    }
}

/// The same by QUIC; over HTTP/3 handshakes alone.
async fn over_quic(load: &Load, who: &str, ca: &Path, alpn: &str, server: SocketAddr) {
    // Each client is a new one, so that no session is resumed.
    let kept = Client::new(ca, &[alpn]);
    let kept = kept.connect(server).await.unwrap();
    while !load.over.load(Ordering::Relaxed) {
        let (client, begun) = (Client::new(ca, &[alpn]), Instant::now());
        let fresh = client.connect(server).await.unwrap_or_else(|error| panic!("{who}: {error}"));
        let shown =
            fresh.peer_identity().unwrap().downcast::<Vec<CertificateDer<'static>>>().unwrap();
        load.shown.check(who, &shown[0], begun);
        load.handshakes.fetch_add(1, Ordering::Relaxed);
        if alpn == "doq" {
            for connection in [&fresh, &kept] {
                let end = quic::exchange(connection, &quic::query("www.test A")).await;
                assert_eq!(end.reply().answers(), ["www.test. 60 IN A 203.0.113.1"], "{who}");
                load.queries.fetch_add(1, Ordering::Relaxed);
            }
        }
        fresh.close(0u8.into(), b"");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn tls_06_certificates_are_replaced_under_load_on_all_transports() {
    let pki = Pki::new();
    let names = ["dns.example.org"];
    let pair = pki.server("server", &names);
    let gateway = Gateway::new(&format!(
        "tls://.:@PORT:tls@ https://.:@PORT:https@ grpc://.:@PORT:grpc@ quic://.:@PORT:quic@ https3://.:@PORT:https3@ {{\n \
         bind 127.0.0.1\n tls {pair}\n template IN A test {{\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.1\"\n }}\n}}\n"
    ))
    .start();
    let load = Load {
        shown: Shown::default(),
        over: AtomicBool::new(false),
        queries: AtomicUsize::new(0),
        handshakes: AtomicUsize::new(0),
    };
    load.shown.add(&pair.chain);
    let (count, a_second) = rotations();
    std::thread::scope(|scope| {
        // A client that panics must not leave the others going on for ever.
        let guarded = |work: &dyn Fn()| {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            done.unwrap_or_else(|panic| {
                load.over.store(true, Ordering::Relaxed);
                std::panic::resume_unwind(panic)
            });
        };
        for (who, alpn, ask) in [
            ("tls", None, Some(dot as fn(&Load, &str, &mut Secure))),
            ("https", Some(&b"http/1.1"[..]), Some(doh as fn(&Load, &str, &mut Secure))),
            ("grpc", Some(&b"h2"[..]), None),
        ] {
            let (load, ca, server) = (&load, pki.ca(), gateway.address_of(who));
            scope.spawn(move || guarded(&|| over_tcp(load, who, ca, alpn, server, ask)));
        }
        for (who, alpn) in [("quic", "doq"), ("https3", "h3")] {
            let (load, ca, server) = (&load, pki.ca(), gateway.address_of(who));
            scope.spawn(move || {
                guarded(&|| {
                    let runtime =
                        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    runtime.block_on(over_quic(load, who, ca, alpn, server));
                });
            });
        }
        for _ in 0..count {
            sleep(Duration::from_secs_f64(1.0 / a_second));
            if load.over.load(Ordering::Relaxed) {
                break;
            }
            // The two files are replaced one after the other: between them they do not belong together.
            pki.server("server", &names);
            load.shown.add(&pair.chain);
        }
        sleep(OLD + OLD / 2);
        load.over.store(true, Ordering::Relaxed);
    });
    let (queries, handshakes) = (load.queries.into_inner(), load.handshakes.into_inner());
    let shown = load.shown.0.into_inner().unwrap();
    println!("{count} replacements: {queries} queries and {handshakes} handshakes, all right");
    assert_eq!(shown.len(), count + 1);
    assert!(queries > 10 * count && handshakes > 10 * count, "{queries} {handshakes}");
}
