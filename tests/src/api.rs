//! A client of the API server over HTTP/1.1, blocking and without limits: for changes at a known moment, and for watches
//! beside those of the gateway.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

use crate::Cluster;

/// The media type of a patch that names what is to be.
pub const MERGE: &str = "application/merge-patch+json";

/// A connection as it is written to and read from.
pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// An API server and a user of it.
///
/// ```no_run
/// use tests::{Api, Cluster, api};
/// let cluster = Cluster::start();
/// let mut session = Api::new(&cluster, "admin").session();
/// let patch = r#"{"spec": {"externalName": "www.example.org"}}"#;
/// let (status, object) = session.send("PATCH", "/api/v1/namespaces/shop/services/outside", api::MERGE, patch);
/// assert_eq!(status, 200, "{object}");
/// ```
#[derive(Clone, Debug)]
pub struct Api {
    /// Certificates and keys.
    tls: Arc<ClientConfig>,
    /// The server.
    address: SocketAddr,
}

impl Api {
    /// The API server of a cluster, as one of its users.
    pub fn new(cluster: &Cluster, user: &str) -> Self {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_file_iter(cluster.ca()).expect("it is there") {
            roots.add(authority.expect("it is PEM")).expect("it is a certificate");
        }
        let chain = CertificateDer::pem_file_iter(cluster.certificate(user)).expect("it is there");
        let chain = chain.map(|c| c.expect("it is PEM")).collect();
        let key = PrivateKeyDer::from_pem_file(cluster.key(user)).expect("it is a key");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .expect("key and certificate are of one pair");
        Self { tls: Arc::new(tls), address: cluster.address() }
    }

    /// Connects; `None` if the server is away.
    pub fn connect(&self) -> Option<Tls> {
        let tcp = TcpStream::connect(self.address).ok()?;
        tcp.set_nodelay(true).ok()?;
        let name = ServerName::from(self.address.ip());
        let client = ClientConnection::new(Arc::clone(&self.tls), name).ok()?;
        Some(StreamOwned::new(client, tcp))
    }

    /// Connects for several requests.
    pub fn session(&self) -> Session {
        Session(BufReader::new(self.connect().expect("the API server is there")))
    }

    /// Fetches an object; panics unless it is there.
    pub fn get(&self, path: &str) -> Value {
        let (status, value) = self.session().send("GET", path, "", "");
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    /// Follows what a path with `watch=true` tells, event by event.
    pub fn watch(&self, path: &str) -> impl Iterator<Item = Value> + use<> {
        let mut session = self.session();
        session.write("GET", path, "", "");
        let (status, head) = head(&mut session.0).expect("the API server answers");
        assert_eq!(status, 200, "{path}: {head}");
        let lines = BufReader::new(Body { from: session.0, left: Left::Chunks }).lines();
        lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok())
    }
}

/// A connection for several requests, one after another.
#[derive(Debug)]
pub struct Session(BufReader<Tls>);

impl Session {
    /// Sends a request and gives status and object; panics if the connection breaks.
    pub fn send(&mut self, method: &str, path: &str, kind: &str, body: &str) -> (u16, Value) {
        self.write(method, path, kind, body);
        let (status, head) = head(&mut self.0).expect("the API server answers");
        let length = field(&head, "content-length").and_then(|l| l.parse().ok());
        let left = length.map_or(Left::Chunks, Left::Octets);
        let mut text = String::new();
        Body { from: &mut self.0, left }.read_to_string(&mut text).expect("a body follows");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Writes a request.
    fn write(&mut self, method: &str, path: &str, kind: &str, body: &str) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: api\r\nAccept: application/json\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let stream = self.0.get_mut();
        stream.write_all(request.as_bytes()).expect("the API server listens");
        stream.flush().expect("the API server listens");
    }
}

/// Reads the head of a request or response, up to its empty line: the status if it is a response, and the text.
pub fn head(from: &mut impl BufRead) -> Option<(u16, String)> {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        if from.read_line(&mut text).ok()? == 0 {
            return None;
        }
    }
    let status = text.strip_prefix("HTTP/1.1 ").and_then(|s| s.get(..3)?.parse().ok());
    Some((status.unwrap_or(0), text))
}

/// A field of a head, by its name in small letters.
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let pairs = head.lines().filter_map(|l| l.split_once(':'));
    pairs.into_iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim())
}

/// The body that follows a head.
pub(crate) fn body<R: BufRead>(head: &str, from: R) -> Body<R> {
    let length = field(head, "content-length").and_then(|l| l.parse().ok());
    Body { from, left: length.map_or(Left::Chunks, Left::Octets) }
}

/// How a body's end is known.
#[derive(Debug)]
enum Left {
    /// So many octets follow.
    Octets(usize),
    /// A chunk's size follows.
    Chunks,
    /// So many octets of a chunk follow.
    Chunk(usize),
}

/// A body.
#[derive(Debug)]
pub(crate) struct Body<R> {
    /// The connection.
    from: R,
    /// What is left of it.
    left: Left,
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if matches!(self.left, Left::Chunks) {
            let mut line = String::new();
            self.from.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or_default();
            self.left = Left::Chunk(size);
            if size == 0 {
                self.from.read_line(&mut line)?;
                self.left = Left::Octets(0);
            }
        }
        let (Left::Octets(left) | Left::Chunk(left)) = &mut self.left else { return Ok(0) };
        let most = into.len().min(*left);
        // A reader that is asked for nothing would wait for more all the same.
        if most == 0 {
            return Ok(0);
        }
        let got = self.from.read(&mut into[..most])?;
        *left -= got;
        if matches!(self.left, Left::Chunk(0)) {
            let mut end = String::new();
            self.from.read_line(&mut end)?;
            self.left = Left::Chunks;
        }
        Ok(got)
    }
}
