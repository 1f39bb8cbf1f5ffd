//! A proxy before an API server that misbehaves on demand: it ends TLS itself, so that it can do wrong at every layer.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::api::{Body, body, head};
use crate::pki::{Leaf, Pair, Pki};
use crate::process::free_port;
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
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<(JoinHandle<()>, Arc<AtomicBool>)>,
}

/// What its threads share.
struct Shared {
    api: Api,
    fault: Mutex<Fault>,
    token: Mutex<String>,
    streams: Mutex<Vec<TcpStream>>,
    /// The paths that were watched.
    watched: Mutex<BTreeSet<String>>,
    good: Mutex<Arc<ServerConfig>>,
    expired: Arc<ServerConfig>,
    stranger: Arc<ServerConfig>,
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
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        // Several may have the same authority.
        let file = |name: &str| format!("meddler-{}-{name}", address.port());
        let here = ["127.0.0.1"];
        let late = Leaf::server(&here).expired();
        let shared = Shared {
            api: Api::new(cluster, "reader"),
            fault: Mutex::new(Fault::None),
            token: Mutex::default(),
            streams: Mutex::default(),
            watched: Mutex::default(),
            good: Mutex::new(config(&pki.server(&file("good"), &here))),
            expired: config(&pki.issue(&file("late"), late)),
            stranger: config(&Pki::new().server("stranger", &here)),
            misnamed: config(&pki.server(&file("other"), &["api.example.org"])),
        };
        let mut meddler = Self { address, shared: Arc::new(shared), listener: None };
        meddler.open();
        meddler
    }

    /// A kubeconfig that leads to it, with the lines of a user such as `token: secret`.
    pub fn kubeconfig(&self, pki: &Pki, user: &str) -> String {
        kubeconfig(self.address, pki.ca(), user)
    }

    /// Lets only requests in that bring this token; all if it is empty.
    pub fn demand(&self, token: &str) {
        token.clone_into(&mut self.shared.token.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows another certificate from now on; connections go on.
    pub fn show(&self, pair: &Pair) {
        *self.shared.good.lock().unwrap_or_else(PoisonError::into_inner) = config(pair);
    }

    /// The paths that were watched since [`Meddler::forget`].
    pub fn watched(&self) -> BTreeSet<String> {
        self.shared.watched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets which paths were watched.
    pub fn forget(&self) {
        self.shared.watched.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Does something wrong from now on, or nothing; connections end, so that the next ones meet it.
    pub fn set(&mut self, fault: Fault) {
        *self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        if fault == Fault::Refuse {
            self.close();
        } else {
            self.cut();
            self.open();
        }
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for stream in self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may have ended on its own.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Listens, if it does not.
    fn open(&mut self) {
        if self.listener.is_some() {
            return;
        }
        let listener = TcpListener::bind(self.address).expect("the port is its own");
        let over = Arc::new(AtomicBool::new(false));
        let (ended, shared) = (Arc::clone(&over), Arc::clone(&self.shared));
        let thread = spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                if shared.fault() == Fault::Reset {
                    // Without a time to linger the end of it is a reset.
                    let none = Some(Duration::ZERO);
                    rustix::net::sockopt::set_socket_linger(&client, none).expect("it is a socket");
                    continue;
                }
                let shared = Arc::clone(&shared);
                spawn(move || {
                    let copy = shared.keep(&client);
                    shared.connection(client);
                    drop(copy.shutdown(Shutdown::Both));
                });
            }
        });
        self.listener = Some((thread, over));
    }

    /// Ends all connections and refuses new ones.
    fn close(&mut self) {
        if let Some((thread, over)) = self.listener.take() {
            over.store(true, Ordering::SeqCst);
            // It looks up only when somebody comes.
            drop(TcpStream::connect(self.address));
            thread.join().expect("the listener ends");
        }
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
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a connection, to end it when that is asked for; gives another handle of it.
    fn keep(&self, stream: &TcpStream) -> TcpStream {
        drop(stream.set_nodelay(true));
        let copy = || stream.try_clone().expect("a socket can be shared");
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(copy());
        copy()
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
            _ => Arc::clone(&self.good.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let session = ServerConnection::new(config).ok()?;
        let mut client = BufReader::new(StreamOwned::new(session, client));
        let (_, request) = head(&mut client)?;
        let mut client = client.into_inner();
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !token.is_empty() && !request.contains(&format!("Bearer {token}\r\n")) {
            return refuse(&mut client, 401, 0, "Unauthorized");
        }
        let path = request.split(' ').nth(1)?.to_owned();
        let watch = path.contains("watch=true");
        let goes_on = watch && !path.contains("sendInitialEvents");
        if watch && let Some((resource, _)) = path.split_once('?') {
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            watched.insert(resource.to_owned());
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
        drop(self.keep(&server.sock));
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
