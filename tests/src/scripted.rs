//! An upstream whose answers a test makes up: late ones, wrong ones, none.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::spawn;
use std::time::Duration;

use certs::ServerTls;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

use crate::pki::Pair;
use crate::process::free_port;

/// What answers: by the query, and by how many there were of the same name before; `None` is silence.
type Script = dyn Fn(&Message, usize) -> Option<Message> + Send + Sync;

/// A server over UDP and TCP that answers each query on a thread of its own, so that a script may wait.
///
/// ```no_run
/// use tests::{Gateway, Scripted, scripted::reply};
/// let upstream = Scripted::start(|query, before| Some(reply(query, &[&format!("www.example.org. 60 A 203.0.113.{before}")])));
/// let gateway = Gateway::new(&format!(".:@PORT@ {{\n forward . {}\n}}", upstream.address())).start();
/// assert_eq!(gateway.ask("www.example.org A").addresses().len(), 1);
/// assert_eq!(upstream.count("www.example.org"), 1);
/// ```
#[derive(Debug)]
pub struct Scripted {
    /// Where it listens.
    address: SocketAddr,
    /// Queries by name in small letters without the last dot.
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Scripted {
    /// Starts one; it stays as long as the test program.
    pub fn start(
        script: impl Fn(&Message, usize) -> Option<Message> + Send + Sync + 'static,
    ) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let udp = UdpSocket::bind(address).expect("the port is free");
        let tcp = TcpListener::bind(address).expect("the port is free");
        let counts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let desk = Arc::new(Desk { counts: Arc::clone(&counts), script });
        let shared = Arc::clone(&desk);
        spawn(move || datagrams(&udp, &shared));
        spawn(move || {
            for stream in tcp.incoming().flatten() {
                let desk = Arc::clone(&desk);
                spawn(move || connection(stream, &desk));
            }
        });
        Self { address, counts }
    }

    /// Starts one that is slow for `slow.test` (a second), silent for `never.test`, has so many TXT records of 272 octets for
    /// every name, and else 203.0.113.7.
    pub fn moody(texts: usize) -> Self {
        Self::start(move |query, _| {
            match &*asked(query) {
                "slow.test" => std::thread::sleep(Duration::from_secs(1)),
                "never.test" => return None,
                _ => {}
            }
            let text = "0123456789".repeat(25);
            let name = query.queries[0].name().to_string();
            let records = match query.queries[0].query_type() {
                RecordType::TXT => {
                    (0..texts).map(|n| format!("{name} 60 TXT \"{n:05}{text}\"")).collect()
                }
                _ => vec![format!("{name} 60 A 203.0.113.7")],
            };
            Some(reply(query, &records.iter().map(String::as_str).collect::<Vec<_>>()))
        })
    }

    /// Starts one of DNS over TLS, that closes each connection after so many replies; 0 is never. It shows the certificate of
    /// these files.
    pub fn secure(
        pair: &Pair,
        replies: usize,
        script: impl Fn(&Message, usize) -> Option<Message> + Send + Sync + 'static,
    ) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let tcp = TcpListener::bind(address).expect("the port is free");
        let counts: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let desk = Arc::new(Desk { counts: Arc::clone(&counts), script });
        let tls = ServerTls::files(pair.chain.clone(), pair.key.clone()).expect("they are good");
        let acceptor = TlsAcceptor::from(tls.stream(&[b"dot"], None));
        spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("there is room").block_on(accept(tcp, acceptor, desk, replies));
        });
        Self { address, counts }
    }

    /// Its address, for `forward`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many queries there were for a name.
    pub fn count(&self, name: &str) -> usize {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&key(name)).copied().unwrap_or_default()
    }
}

/// A reply to a query with these records in its answer section: `NAME TTL TYPE DATA`, names with their last dot.
pub fn reply(query: &Message, records: &[&str]) -> Message {
    let mut message = Message::response(query.metadata.id, query.metadata.op_code);
    message.metadata.recursion_desired = query.metadata.recursion_desired;
    message.metadata.recursion_available = true;
    message.add_queries(query.queries.clone());
    message.edns.clone_from(&query.edns);
    message.add_answers(records.iter().map(|r| record(r)));
    message
}

/// A reply with a response code and an authority section.
pub fn denial(query: &Message, code: ResponseCode, authority: &[&str]) -> Message {
    let mut message = reply(query, &[]);
    message.metadata.response_code = code;
    message.add_authorities(authority.iter().map(|r| record(r)));
    message
}

/// The name that a query asks for, in small letters without its last dot.
pub fn asked(query: &Message) -> String {
    query.queries.first().map(|q| key(&q.name().to_string())).unwrap_or_default()
}

/// A record from its text, `NAME TTL TYPE DATA`.
pub fn record(text: &str) -> Record {
    let mut words = text.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("{text:?} is no record"));
    let name = Name::from_ascii(word()).unwrap_or_else(|e| panic!("{text:?}: {e}"));
    let ttl = word().parse().unwrap_or_else(|e| panic!("{text:?}: {e}"));
    let rtype = RecordType::from_str(word()).unwrap_or_else(|e| panic!("{text:?}: {e}"));
    let data = RData::try_from_str(rtype, word()).unwrap_or_else(|e| panic!("{text:?}: {e}"));
    Record::from_rdata(name, ttl, data)
}

/// What the threads of a server share.
struct Desk {
    /// Queries by name.
    counts: Arc<Mutex<BTreeMap<String, usize>>>,
    /// What answers.
    script: Arc<Script>,
}

impl Desk {
    /// Answers a message.
    fn answer(&self, bytes: &[u8]) -> Option<(Message, Message)> {
        let query = Message::from_vec(bytes).ok()?;
        let before = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(asked(&query)).or_default();
            *count += 1;
            *count - 1
        };
        let reply = (self.script)(&query, before)?;
        Some((query, reply))
    }
}

/// Answers datagrams; what is too long for the client goes out cut.
fn datagrams(socket: &UdpSocket, desk: &Arc<Desk>) {
    let mut buffer = [0; 65_535];
    while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
        let bytes = buffer[..length].to_vec();
        let (desk, socket) = (Arc::clone(desk), socket.try_clone().expect("a socket is shared"));
        spawn(move || {
            let Some((query, reply)) = desk.answer(&bytes) else { return };
            let mut bytes = reply.to_vec().expect("a reply can be encoded");
            if bytes.len() > usize::from(query.max_payload()) {
                bytes = reply.truncate().to_vec().expect("a reply can be encoded");
            }
            // A client that is gone is no matter of the server's.
            drop(socket.send_to(&bytes, peer));
        });
    }
}

/// Answers what comes on a connection, each query as soon as it can be.
fn connection(mut stream: TcpStream, desk: &Arc<Desk>) {
    let out = Arc::new(Mutex::new(stream.try_clone().expect("a socket is shared")));
    loop {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            return;
        }
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut bytes).is_err() {
            return;
        }
        let (desk, out) = (Arc::clone(desk), Arc::clone(&out));
        spawn(move || {
            let Some((_, reply)) = desk.answer(&bytes) else { return };
            let bytes = reply.to_vec().expect("a reply can be encoded");
            let length = u16::try_from(bytes.len()).expect("a message has at most 65,535 octets");
            let frame = [length.to_be_bytes().as_slice(), &bytes].concat();
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            drop(out.write_all(&frame));
        });
    }
}

/// Accepts connections of TLS.
async fn accept(tcp: TcpListener, acceptor: TlsAcceptor, desk: Arc<Desk>, replies: usize) {
    tcp.set_nonblocking(true).expect("a socket can be");
    let tcp = tokio::net::TcpListener::from_std(tcp).expect("a socket can be used");
    while let Ok((stream, _)) = tcp.accept().await {
        let (acceptor, desk) = (acceptor.clone(), Arc::clone(&desk));
        tokio::spawn(async move {
            // A client that does not like us goes.
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let (mut input, mut output) = tokio::io::split(stream);
            let (tell, mut told) = tokio::sync::mpsc::channel::<Vec<u8>>(1024);
            let writer = async move {
                let mut sent = 0;
                while let Some(bytes) = told.recv().await {
                    output.write_all(&bytes).await.ok()?;
                    output.flush().await.ok()?;
                    sent += 1;
                    if sent == replies {
                        output.shutdown().await.ok()?;
                        return Some(());
                    }
                }
                None
            };
            let reader = async move {
                while let Ok(length) = input.read_u16().await {
                    let mut bytes = vec![0; usize::from(length)];
                    input.read_exact(&mut bytes).await.ok()?;
                    let (desk, tell) = (Arc::clone(&desk), tell.clone());
                    tokio::task::spawn_blocking(move || {
                        let (_, reply) = desk.answer(&bytes)?;
                        let bytes = reply.to_vec().expect("a reply can be encoded");
                        let length = u16::try_from(bytes.len()).expect("a message has a length");
                        tell.blocking_send([&length.to_be_bytes()[..], &bytes].concat()).ok()
                    });
                }
                Some(())
            };
            tokio::select! {
                _ = writer => {}
                _ = reader => {}
            }
        });
    }
}

/// A name as it is counted.
fn key(name: &str) -> String {
    name.trim_end_matches('.').to_lowercase()
}
