//! A proxy before an API server that misbehaves on demand: it ends TLS itself, so that it can do wrong at every layer.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::api::{Body, body, head};
use crate::gate::{Gate, Streams};
use crate::pki::{Leaf, Pair, Pki};
use crate::process::lock;
use crate::{Api, Cluster};

/// A client's connection.
type Tls = StreamOwned<ServerConnection, TcpStream>;

/// What the proxy does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// Refuses connections.
    Refuse,
    /// Accepts connections and resets them.
    Reset,
    /// Accepts connections and says nothing.
    Hang,
    /// Takes requests and does not answer.
    Swallow,
    /// Begins each response and sends the rest of it never.
    HalfOpen,
    /// Sends each response in small pieces.
    Drip,
    /// Ends each response within its body.
    Truncate,
    /// Answers with what is not HTTP.
    NotHttp,
    /// Shows a certificate that has expired.
    Expired,
    /// Shows a certificate of another authority.
    Stranger,
    /// Shows a certificate for another name.
    Misnamed,
    /// Answers with this status, and asks to be left alone for so many seconds if that is not 0.
    Status(u16, u8),
    /// Answers requests whose path has this text with 403.
    Forbid(&'static str),
    /// Refuses watches that go on from a version with 410.
    Gone,
    /// Ends each watch at once.
    EndAtOnce,
    /// Begins each watch with what is no event.
    Garbage,
    /// Begins each watch with the length of an event of two GiB.
    Oversized,
    /// Answers with a page for people.
    Page,
    /// Says that each body is compressed and sends what is not.
    Gzip,
    /// Sends each event twice.
    Twice,
    /// Sends each event once more after the next one.
    Late,
    /// Takes each watch that goes on from a version and tells nothing.
    Mute,
}

/// The proxy.
///
/// ```no_run
/// use tests::meddler::{Fault, Meddler};
/// use tests::{Cluster, Folder, Pki};
/// let (cluster, pki, folder) = (Cluster::start(), Pki::new(), Folder::new("kubeconfig"));
/// let mut meddler = Meddler::start(&cluster, &pki);
/// let kubeconfig = folder.write("kubeconfig", meddler.kubeconfig(&pki, "token: secret"));
/// meddler.set(Fault::Truncate);
/// ```
#[derive(Debug)]
pub struct Meddler {
    /// The listener.
    gate: Gate,
    /// What its threads share.
    shared: Arc<Shared>,
}

/// What its threads share.
struct Shared {
    /// The API server, and who it is there.
    api: Api,
    /// What it does wrong.
    fault: Mutex<Fault>,
    /// The token that requests have to bring; any if it is empty.
    token: Mutex<String>,
    /// The connections of both sides.
    streams: Streams,
    /// The paths that were watched.
    watched: Mutex<BTreeSet<String>>,
    /// What it shows as a rule.
    good: Mutex<Arc<ServerConfig>>,
    /// A certificate that has expired.
    expired: Arc<ServerConfig>,
    /// One of another authority.
    stranger: Arc<ServerConfig>,
    /// One for another name.
    misnamed: Arc<ServerConfig>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.fault)
    }
}

impl Meddler {
    /// Starts one before a cluster, whose user `reader` it is there, with certificates of an authority.
    pub fn start(cluster: &Cluster, pki: &Pki) -> Self {
        let gate = Gate::new();
        // Several may have the same authority.
        let file = |name: &str| format!("meddler-{}-{name}", gate.address().port());
        let here = ["127.0.0.1"];
        let late = Leaf::server(&here).expired();
        let shared = Shared {
            api: Api::new(cluster, "reader"),
            fault: Mutex::new(Fault::None),
            token: Mutex::default(),
            streams: Streams::default(),
            watched: Mutex::default(),
            good: Mutex::new(config(&pki.server(&file("good"), &here))),
            expired: config(&pki.issue(&file("late"), late)),
            stranger: config(&Pki::new().server("stranger", &here)),
            misnamed: config(&pki.server(&file("other"), &["api.example.org"])),
        };
        let mut meddler = Self { gate, shared: Arc::new(shared) };
        meddler.open();
        meddler
    }

    /// A kubeconfig that leads to it, with the lines of a user such as `token: secret`.
    pub fn kubeconfig(&self, pki: &Pki, user: &str) -> String {
        kubeconfig(self.address(), pki.ca(), user)
    }

    /// Lets only requests in that bring this token; all if it is empty.
    pub fn demand(&self, token: &str) {
        token.clone_into(&mut lock(&self.shared.token));
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.gate.address()
    }

    /// Shows another certificate from now on; connections go on.
    pub fn show(&self, pair: &Pair) {
        *lock(&self.shared.good) = config(pair);
    }

    /// The paths that were watched since [`Meddler::forget`].
    pub fn watched(&self) -> BTreeSet<String> {
        lock(&self.shared.watched).clone()
    }

    /// Forgets which paths were watched.
    pub fn forget(&self) {
        lock(&self.shared.watched).clear();
    }

    /// Does something wrong from now on, or nothing; connections end, so that the next ones meet it.
    pub fn set(&mut self, fault: Fault) {
        *lock(&self.shared.fault) = fault;
        if fault == Fault::Refuse {
            self.close();
        } else {
            self.cut();
            self.open();
        }
    }

    /// Ends all connections.
    pub fn cut(&self) {
        self.shared.streams.cut();
    }

    /// Listens, if it does not.
    fn open(&mut self) {
        let shared = Arc::clone(&self.shared);
        self.gate.open(move |client| {
            if shared.fault() == Fault::Reset {
                // Without a time to linger the end of it is a reset.
                let none = Some(Duration::ZERO);
                rustix::net::sockopt::set_socket_linger(&client, none).expect("it is a socket");
                return;
            }
            let shared = Arc::clone(&shared);
            spawn(move || {
                let copy = shared.streams.keep(&client);
                shared.connection(client);
                drop(copy.shutdown(Shutdown::Both));
            });
        });
    }

    /// Ends all connections and refuses new ones.
    fn close(&mut self) {
        self.gate.close();
        self.cut();
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// What it does wrong.
    fn fault(&self) -> Fault {
        *lock(&self.fault)
    }

    /// Serves one connection, which has one request; nothing if it breaks.
    fn connection(&self, client: TcpStream) -> Option<()> {
        let fault = self.fault();
        if fault == Fault::Hang {
            return hold(client);
        }
        let config = match fault {
            Fault::Expired => Arc::clone(&self.expired),
            Fault::Stranger => Arc::clone(&self.stranger),
            Fault::Misnamed => Arc::clone(&self.misnamed),
            _ => Arc::clone(&lock(&self.good)),
        };
        let session = ServerConnection::new(config).ok()?;
        let mut client = BufReader::new(StreamOwned::new(session, client));
        let (_, request) = head(&mut client)?;
        let mut client = client.into_inner();
        let token = lock(&self.token).clone();
        if !token.is_empty() && !request.contains(&format!("Bearer {token}\r\n")) {
            return refuse(&mut client, 401, 0, "Unauthorized");
        }
        let path = request.split(' ').nth(1)?.to_owned();
        let watch = path.contains("watch=true");
        let goes_on = watch && !path.contains("sendInitialEvents");
        if watch && let Some((resource, _)) = path.split_once('?') {
            lock(&self.watched).insert(resource.to_owned());
        }
        match fault {
            Fault::Swallow => return hold(client),
            Fault::NotHttp => return send(&mut client, b"220 mail.example.org ESMTP\r\n"),
            Fault::Status(code, after) => return refuse(&mut client, code, after, "no"),
            Fault::Forbid(part) if path.contains(part) => {
                return refuse(&mut client, 403, 0, "Forbidden");
            }
            Fault::Gone if goes_on => return refuse(&mut client, 410, 0, "Expired"),
            Fault::Page => {
                let page = "<html>It works!</html>";
                let length = page.len();
                let text = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{page}"
                );
                return send(&mut client, text.as_bytes());
            }
            Fault::Gzip => {
                begin(&mut client, "Content-Encoding: gzip\r\n")?;
                return chunk(&mut client, b"this is not compressed at all");
            }
            Fault::EndAtOnce if watch => {
                begin(&mut client, "")?;
                return send(&mut client, b"0\r\n\r\n");
            }
            Fault::Garbage if watch => {
                begin(&mut client, "")?;
                chunk(&mut client, b"\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xff")?;
                return hold(client);
            }
            Fault::Oversized if watch => {
                begin(&mut client, "")?;
                chunk(&mut client, b"\x7f\xff\xff\xffk8s\0")?;
                return hold(client);
            }
            Fault::Mute if goes_on => {
                begin(&mut client, "")?;
                return hold(client);
            }
            _ => {}
        }
        let mut server = self.api.connect()?;
        drop(self.streams.keep(&server.sock));
        let kept = request.lines().filter(|line| {
            let name = line.split(':').next().unwrap_or_default();
            let dropped = ["host", "authorization", "accept-encoding", "connection", ""];
            !dropped.iter().any(|other| name.eq_ignore_ascii_case(other))
        });
        let mut request: String = kept.map(|line| format!("{line}\r\n")).collect();
        request.push_str("Host: api\r\nConnection: close\r\n\r\n");
        send(&mut server, request.as_bytes())?;
        let mut server = BufReader::new(server);
        let (_, answer) = head(&mut server)?;
        send(&mut client, answer.as_bytes())?;
        match fault {
            Fault::HalfOpen => {
                pass(&mut server, &mut client, 40)?;
                hold(client)
            }
            Fault::Truncate => pass(&mut server, &mut client, 60),
            Fault::Drip => drip(&mut server, &mut client),
            Fault::Twice | Fault::Late if watch => {
                events(&mut body(&answer, server), &mut client, fault)
            }
            _ => std::io::copy(&mut server, &mut client).ok().map(drop),
        }
    }
}

/// Sends octets.
fn send(to: &mut impl Write, bytes: &[u8]) -> Option<()> {
    to.write_all(bytes).ok()?;
    to.flush().ok()
}

/// Sends the head of a response of events.
fn begin(client: &mut Tls, more: &str) -> Option<()> {
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.kubernetes.protobuf;stream=watch\r\n{more}Transfer-Encoding: chunked\r\n\r\n"
    );
    send(client, text.as_bytes())
}

/// Sends a chunk.
fn chunk(client: &mut Tls, bytes: &[u8]) -> Option<()> {
    send(client, &[format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat())
}

/// Sends a refusal as an API server does.
fn refuse(client: &mut Tls, code: u16, after: u8, reason: &str) -> Option<()> {
    let status = serde_json::json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": "said by the proxy" })
    .to_string();
    let after = if after == 0 { String::new() } else { format!("Retry-After: {after}\r\n") };
    let length = status.len();
    let text = format!(
        "HTTP/1.1 {code} No\r\nContent-Type: application/json\r\n{after}Content-Length: {length}\r\nConnection: close\r\n\r\n{status}"
    );
    send(client, text.as_bytes())
}

/// Leaves a connection open until the other side ends it.
fn hold(mut client: impl Read) -> Option<()> {
    let mut rest = [0; 256];
    while client.read(&mut rest).ok()? > 0 {}
    None
}

/// Passes on so many octets.
fn pass(server: &mut impl Read, client: &mut Tls, octets: u64) -> Option<()> {
    std::io::copy(&mut server.take(octets), client).ok()?;
    client.flush().ok()
}

/// Passes on a little at a time: some 25 kB/s.
fn drip(server: &mut impl Read, client: &mut Tls) -> Option<()> {
    let mut piece = [0; 256];
    loop {
        let got = server.read(&mut piece).ok().filter(|got| *got > 0)?;
        send(client, piece.get(..got)?)?;
        sleep(Duration::from_millis(10));
    }
}

/// Passes on the events of a watch, each several times.
fn events(from: &mut Body<impl BufRead>, client: &mut Tls, fault: Fault) -> Option<()> {
    let mut last = Vec::new();
    loop {
        let mut length = [0; 4];
        if from.read_exact(&mut length).is_err() {
            return send(client, b"0\r\n\r\n");
        }
        let mut frame = length.to_vec();
        let octets = u32::from_be_bytes(length).into();
        from.by_ref().take(octets).read_to_end(&mut frame).ok()?;
        chunk(client, &frame)?;
        let again = if fault == Fault::Twice { &frame } else { &last };
        if !again.is_empty() {
            chunk(client, again)?;
        }
        last = frame;
    }
}

/// A kubeconfig for an address, with a CA and the lines of a user.
pub fn kubeconfig(address: SocketAddr, ca: &Path, user: &str) -> String {
    let ca = ca.display();
    let user = user.lines().map(|line| format!("    {line}\n")).collect::<String>();
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: https://{address}\n    certificate-authority: {ca}\nusers:\n- name: u\n  user:\n{user}contexts:\n- name: faulty\n  context: {{cluster: c, user: u}}\ncurrent-context: faulty\n"
    )
}

/// A server's side of TLS with a certificate.
fn config(pair: &Pair) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(&pair.chain).expect("it is there");
    let chain = chain.map(|c| c.expect("it is PEM")).collect();
    let key = PrivateKeyDer::from_pem_file(&pair.key).expect("it is a key");
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("key and certificate are of one pair");
    Arc::new(config)
}
