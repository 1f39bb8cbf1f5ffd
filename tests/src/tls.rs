//! A client of DNS over TLS that sees every record, and can do wrong where a test wants it to.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion, version};

use crate::client::{Query, Reply};
use crate::pki::Pair;

/// How a client goes to its server.
///
/// ```no_run
/// use tests::tls::Client;
/// use tests::{Gateway, Pki, Query};
/// let pki = Pki::new();
/// let pair = pki.server("server", &["127.0.0.1"]);
/// let gateway = Gateway::new(&format!("tls://.:@PORT@ {{\n tls {pair}\n whoami\n}}")).start();
/// let mut connection = Client::new(pki.ca()).connect(gateway.address()).unwrap();
/// connection.send(&Query::from("www.example.org"));
/// assert!(connection.receive().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
    source: Option<IpAddr>,
    before: Vec<u8>,
}

impl Client {
    /// One that believes an authority, and offers `dot` in the handshake.
    pub fn new(ca: &Path) -> Self {
        Self::with(ca, None, &[&version::TLS13], &[])
    }

    /// The same by TLS 1.2.
    pub fn old(ca: &Path) -> Self {
        Self::with(ca, None, &[&version::TLS12], &[])
    }

    /// One that shows a certificate.
    pub fn known(ca: &Path, pair: &Pair) -> Self {
        Self::with(ca, Some(pair), &[&version::TLS13], &[])
    }

    /// One whose hello has a post-quantum key, and so no place in one segment.
    pub fn post_quantum(ca: &Path) -> Self {
        Self::with(ca, None, &[&version::TLS13], &[aws_lc_rs::kx_group::X25519MLKEM768])
    }

    /// Offers these protocols (RFC 7301).
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        let config = Arc::make_mut(&mut self.config);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }

    /// Asks for a server by this name instead of its address, which goes into no hello.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(ServerName::try_from(name.to_owned()).expect("it is a name"));
        self
    }

    /// Comes from this address.
    pub fn from_address(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Sends this before the handshake.
    pub fn behind(mut self, before: &[u8]) -> Self {
        self.before = before.to_vec();
        self
    }

    /// Has early data be sent where the server takes it.
    pub fn early(mut self) -> Self {
        Arc::make_mut(&mut self.config).enable_early_data = true;
        self
    }

    /// Connects and makes the handshake.
    ///
    /// # Errors
    /// If that fails: the alert that came, for one.
    pub fn connect(&self, server: SocketAddr) -> io::Result<Connection> {
        let mut connection = self.begin(server)?;
        connection.shake()?;
        Ok(connection)
    }

    /// Connects, and leaves the handshake to be done.
    ///
    /// # Errors
    /// If that fails.
    pub fn begin(&self, server: SocketAddr) -> io::Result<Connection> {
        let mut tcp = match self.source {
            None => TcpStream::connect(server)?,
            Some(source) => crate::client::connect_from(source, server)
                .ok_or_else(|| io::Error::other("cannot connect from there"))?,
        };
        tcp.set_nodelay(true)?;
        let name = self.name.clone().unwrap_or_else(|| ServerName::IpAddress(server.ip().into()));
        let session =
            ClientConnection::new(Arc::clone(&self.config), name).map_err(io::Error::other)?;
        tcp.write_all(&self.before)?;
        Ok(Connection {
            tcp,
            session,
            raw: Vec::new(),
            inbox: Vec::new(),
            records: 0,
            ended: false,
        })
    }

    /// One with its own way of speaking TLS.
    fn with(
        ca: &Path,
        pair: Option<&Pair>,
        versions: &[&'static SupportedProtocolVersion],
        groups: &[&'static dyn rustls::crypto::SupportedKxGroup],
    ) -> Self {
        let mut provider = aws_lc_rs::default_provider();
        if !groups.is_empty() {
            provider = CryptoProvider { kx_groups: groups.to_vec(), ..provider };
        }
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca).expect("the file of the authority") {
            roots.add(certificate.expect("a certificate")).expect("an authority");
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .expect("versions that there are")
            .with_root_certificates(roots);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = CertificateDer::pem_file_iter(&pair.chain).expect("the chain");
                let chain = chain.map(|one| one.expect("a certificate")).collect();
                let key = PrivateKeyDer::from_pem_file(&pair.key).expect("the key");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        config.alpn_protocols = vec![b"dot".to_vec()];
        Self { config: Arc::new(config), name: None, source: None, before: Vec::new() }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// TLS said that nothing follows (RFC 8446 6.1).
    Notified,
    /// TCP ended, and TLS had not said so.
    Cut,
    /// An alert or a reset.
    Broken,
    /// It has not.
    Open,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// The stream, for doing wrong on it.
    pub tcp: TcpStream,
    /// TLS.
    pub session: ClientConnection,
    /// What was read and is no whole record.
    raw: Vec<u8>,
    /// What was decrypted and is no whole message.
    inbox: Vec<u8>,
    /// How many records with data came.
    pub records: usize,
    /// Whether TLS has said that nothing follows.
    ended: bool,
}

impl Connection {
    /// Makes the handshake.
    ///
    /// # Errors
    /// If it fails.
    pub fn shake(&mut self) -> io::Result<()> {
        self.tcp.set_read_timeout(Some(Duration::from_secs(10)))?;
        while self.session.is_handshaking() {
            self.push()?;
            if self.session.is_handshaking() {
                self.pull()?;
            }
        }
        self.push()
    }

    /// Sends a query.
    pub fn send(&mut self, query: &Query) {
        self.send_all(std::slice::from_ref(query));
    }

    /// Sends queries, as many as a record takes in each.
    pub fn send_all(&mut self, queries: &[Query]) {
        let mut octets = Vec::new();
        for query in queries {
            let message = query.encode();
            let length = u16::try_from(message.len()).expect("a message has at most 65,535 octets");
            octets.extend_from_slice(&length.to_be_bytes());
            octets.extend_from_slice(&message);
        }
        self.send_raw(&octets);
    }

    /// Sends octets inside TLS; a peer that hung up shows when receiving.
    pub fn send_raw(&mut self, octets: &[u8]) {
        drop(self.session.writer().write_all(octets));
        drop(self.push());
    }

    /// Waits ten seconds for the next reply; `None` at the end of the stream or of the time.
    pub fn receive(&mut self) -> Option<Reply> {
        self.receive_within(Duration::from_secs(10))
    }

    /// Waits for the next reply; `None` at the end of the stream or of the time.
    pub fn receive_within(&mut self, patience: Duration) -> Option<Reply> {
        let begin = Instant::now();
        loop {
            if let Some((length, rest)) = self.inbox.split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if rest.len() >= length {
                    let message = rest[..length].to_vec();
                    self.inbox.drain(..2 + length);
                    return Some(Reply::decode(message, begin.elapsed()));
                }
            }
            if self.ended {
                return None;
            }
            let left = patience.checked_sub(begin.elapsed())?.max(Duration::from_millis(1));
            self.tcp.set_read_timeout(Some(left)).ok()?;
            self.pull().ok()?;
        }
    }

    /// Says that no more queries come; replies can still be received.
    pub fn finish(&mut self) {
        self.session.send_close_notify();
        drop(self.push());
        drop(self.tcp.shutdown(Shutdown::Write));
    }

    /// How the connection ends within the time; what still comes is passed over.
    pub fn end_within(&mut self, limit: Duration) -> End {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if self.ended {
                return End::Notified;
            }
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            if self.tcp.set_read_timeout(Some(left)).is_err() {
                return End::Broken;
            }
            match self.pull() {
                Ok(()) => self.inbox.clear(),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return End::Cut,
                Err(e)
                    if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                Err(_) => return End::Broken,
            }
        }
        End::Open
    }

    /// Writes what TLS has to say.
    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.tcp)?;
        }
        Ok(())
    }

    /// Reads once, and decrypts the records that are whole.
    fn pull(&mut self) -> io::Result<()> {
        let mut part = [0; 16 << 10];
        let read = self.tcp.read(&mut part)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.raw.extend_from_slice(&part[..read]);
        while let Some([kind, _, _, high, low]) = self.raw.first_chunk::<5>().copied() {
            let length = 5 + usize::from(u16::from_be_bytes([high, low]));
            let Some(record) = self.raw.get(..length) else { break };
            let mut record = record.to_vec();
            self.raw.drain(..length);
            let mut rest = &*record;
            while !rest.is_empty() {
                self.session.read_tls(&mut rest)?;
            }
            let state = self.session.process_new_packets();
            let state = state.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            if kind == 23 && state.plaintext_bytes_to_read() > 0 {
                self.records += 1;
            }
            record.resize(state.plaintext_bytes_to_read(), 0);
            self.session.reader().read_exact(&mut record)?;
            self.inbox.extend_from_slice(&record);
            self.ended |= state.peer_has_closed();
        }
        Ok(())
    }
}
