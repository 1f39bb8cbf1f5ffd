//! A DNS client whose messages another library writes and reads: what the gateway encodes has to decode in hickory-proto.

use std::fmt;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, ResponseCode};
use hickory_proto::rr::rdata::opt::{EdnsCode, EdnsOption};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

/// How long a client waits for a reply unless it says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(4);

/// One query, and how it is sent.
///
/// ```
/// use tests::Query;
/// let plain = Query::from("www.example.org AAAA");
/// let more = Query::from("www.example.org").bufsize(1232).dnssec_ok().tcp();
/// assert_eq!(plain.message().queries[0].to_string(), "www.example.org. IN AAAA");
/// assert!(more.message().edns.is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    /// The message to send.
    message: Message,
    /// Whether it goes over TCP.
    tcp: bool,
    /// The address that it comes from.
    source: Option<IpAddr>,
    /// How long to wait for the reply.
    patience: Duration,
}

impl Query {
    /// Makes a query with the RD flag and without EDNS, over UDP.
    pub fn new(name: &str, rtype: RecordType) -> Self {
        // Not by `from_str`, which makes letters small.
        let name = Name::from_ascii(format!("{}.", name.trim_end_matches('.')))
            .unwrap_or_else(|e| panic!("{name:?}: {e}"));
        let mut message = Message::query();
        message.metadata.recursion_desired = true;
        let mut query = hickory_proto::op::Query::query(name, rtype);
        query.set_query_class(DNSClass::IN);
        message.add_query(query);
        Self { message, tcp: false, source: None, patience: PATIENCE }
    }

    /// Sends it over TCP.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Sends it from this address (any of 127.0.0.0/8 is there).
    pub fn from_address(mut self, source: IpAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// Waits for the reply so long.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Adds an OPT record that offers this payload size in octets (RFC 6891 6.2.3).
    pub fn bufsize(mut self, octets: u16) -> Self {
        self.edns().set_max_payload(octets);
        self
    }

    /// Sets the DO bit (RFC 3225).
    pub fn dnssec_ok(mut self) -> Self {
        self.edns().set_dnssec_ok(true);
        self
    }

    /// Adds an EDNS option of any code.
    pub fn option(mut self, code: u16, data: &[u8]) -> Self {
        self.edns().options_mut().insert(EdnsOption::Unknown(code, data.to_vec()));
        self
    }

    /// Asks in another class.
    pub fn class(mut self, class: DNSClass) -> Self {
        for q in &mut self.message.queries {
            q.set_query_class(class);
        }
        self
    }

    /// Clears the RD flag.
    pub fn no_recursion(mut self) -> Self {
        self.message.metadata.recursion_desired = false;
        self
    }

    /// Changes anything else of the message.
    pub fn with(mut self, change: impl FnOnce(&mut Message)) -> Self {
        change(&mut self.message);
        self
    }

    /// The message as it will be sent.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Sends it and waits for the reply; `None` if there is none in time, the port is closed, or the peer hangs up.
    pub fn ask(&self, server: SocketAddr) -> Option<Reply> {
        if self.tcp {
            let mut stream = Stream::open(server, self.source)?;
            stream.send(self);
            return stream.receive(self.patience);
        }
        let bytes = self.encode();
        let begin = Instant::now();
        let reply = exchange(server, self.source, &bytes, self.patience)?;
        Some(Reply::decode(reply, begin.elapsed()))
    }

    /// Sends it until a reply satisfies the condition; panics with the last reply after `limit`.
    pub fn ask_until(
        &self,
        server: SocketAddr,
        limit: Duration,
        good: impl Fn(&Reply) -> bool,
    ) -> Reply {
        let mut last = None;
        let found = crate::until(limit, || {
            last = self.ask(server);
            last.take_if(|r| good(r))
        });
        found.unwrap_or_else(|| {
            panic!(
                "{}: no such reply after {limit:?}; the last was {last:?}",
                self.message.queries[0]
            )
        })
    }

    /// The octets of the message.
    pub fn encode(&self) -> Vec<u8> {
        self.message.to_vec().expect("a query can be encoded")
    }

    /// The OPT record to change, made if there is none.
    fn edns(&mut self) -> &mut Edns {
        self.message.edns.get_or_insert_with(|| {
            let mut edns = Edns::new();
            edns.set_max_payload(1232);
            edns
        })
    }
}

impl From<&str> for Query {
    /// Reads `NAME [TYPE]`; the type is A if there is none.
    fn from(text: &str) -> Self {
        let (name, rtype) = text.split_once(' ').unwrap_or((text, "A"));
        let rtype = RecordType::from_str(rtype.trim()).unwrap_or_else(|e| panic!("{text:?}: {e}"));
        Self::new(name, rtype)
    }
}

/// A reply, decoded.
#[derive(Clone)]
pub struct Reply {
    /// The message.
    pub message: Message,
    /// The same as it came.
    pub bytes: Vec<u8>,
    /// How long it took.
    pub took: Duration,
}

impl Reply {
    /// Reads a message; panics with its octets if it is malformed.
    pub fn decode(bytes: Vec<u8>, took: Duration) -> Self {
        let message = Message::from_vec(&bytes)
            .unwrap_or_else(|e| panic!("malformed reply: {e}: {bytes:02x?}"));
        Self { message, bytes, took }
    }

    /// The response code, the extended part included.
    pub fn rcode(&self) -> ResponseCode {
        self.message.metadata.response_code
    }

    /// The header's flags that are set: `qr aa tc rd ra ad cd`, in this order.
    pub fn flags(&self) -> String {
        let m = &self.message.metadata;
        let all = [
            (m.message_type == hickory_proto::op::MessageType::Response, "qr"),
            (m.authoritative, "aa"),
            (m.truncation, "tc"),
            (m.recursion_desired, "rd"),
            (m.recursion_available, "ra"),
            (m.authentic_data, "ad"),
            (m.checking_disabled, "cd"),
        ];
        all.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
    }

    /// The answer section as text (`name ttl class type data`), sorted.
    pub fn answers(&self) -> Vec<String> {
        texts(&self.message.answers)
    }

    /// The authority section as text, sorted.
    pub fn authorities(&self) -> Vec<String> {
        texts(&self.message.authorities)
    }

    /// The additional section as text, sorted; without OPT.
    pub fn additionals(&self) -> Vec<String> {
        texts(&self.message.additionals)
    }

    /// The addresses in the answer section, sorted.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut found: Vec<IpAddr> =
            self.message.answers.iter().filter_map(|r| r.data.ip_addr()).collect();
        found.sort_unstable();
        found
    }

    /// The CNAME records of the answer section, `owner -> target`, in their order.
    pub fn aliases(&self) -> Vec<String> {
        let alias = |r: &Record| match &r.data {
            RData::CNAME(target) => Some(format!("{} -> {}", r.name, target.0)),
            _ => None,
        };
        self.message.answers.iter().filter_map(alias).collect()
    }

    /// The data of an EDNS option of the reply.
    pub fn option(&self, code: u16) -> Option<Vec<u8>> {
        let option = self.message.edns.as_ref()?.option(EdnsCode::from(code))?;
        Vec::<u8>::try_from(option).ok()
    }

    /// The first extended error of the reply: its code and its text (RFC 8914 section 2).
    pub fn extended(&self) -> Option<(u16, String)> {
        let data = self.option(15)?;
        let (code, text) = data.split_first_chunk::<2>()?;
        Some((u16::from_be_bytes(*code), String::from_utf8_lossy(text).into_owned()))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} [{}] {:?}", self.rcode(), self.flags(), self.took)?;
        for (section, records) in [
            ("answer", self.answers()),
            ("authority", self.authorities()),
            ("additional", self.additionals()),
        ] {
            for record in records {
                writeln!(f, "  {section:10} {record}")?;
            }
        }
        Ok(())
    }
}

/// A connection for several queries.
#[derive(Debug)]
pub struct Stream(TcpStream);

impl Stream {
    /// Connects; `None` if that is refused or takes longer than [`PATIENCE`].
    pub fn open(server: SocketAddr, source: Option<IpAddr>) -> Option<Self> {
        // The standard library cannot bind before it connects; a source is only needed on the loopback network.
        let stream = match source {
            None => TcpStream::connect_timeout(&server, PATIENCE).ok()?,
            Some(ip) => connect_from(ip, server)?,
        };
        stream.set_nodelay(true).ok()?;
        Some(Self(stream))
    }

    /// Sends a query with its length before it (RFC 1035 4.2.2).
    pub fn send(&mut self, query: &Query) {
        let bytes = query.encode();
        let length = u16::try_from(bytes.len()).expect("a message has at most 65,535 octets");
        self.send_raw(&[&length.to_be_bytes(), bytes.as_slice()].concat());
    }

    /// Sends octets as they are; a peer that hung up shows when receiving.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        drop(self.0.write_all(bytes));
    }

    /// Waits for the next reply; `None` at the end of the stream or of the time.
    pub fn receive(&mut self, patience: Duration) -> Option<Reply> {
        let begin = Instant::now();
        self.0.set_read_timeout(Some(patience)).ok()?;
        let mut length = [0; 2];
        self.0.read_exact(&mut length).ok()?;
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        self.0.read_exact(&mut bytes).ok()?;
        Some(Reply::decode(bytes, begin.elapsed()))
    }

    /// Says that no more queries come; replies can still be received.
    pub fn finish(&mut self) {
        drop(self.0.shutdown(Shutdown::Write));
    }

    /// Whether the peer closes within the time.
    pub fn closed_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let mut part = [0; 4096];
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            if self.0.set_read_timeout(Some(left)).is_err() {
                return true;
            }
            match self.0.read(&mut part) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(e) => {
                    return e.kind() != std::io::ErrorKind::WouldBlock
                        && e.kind() != std::io::ErrorKind::TimedOut;
                }
            }
        }
        false
    }
}

/// Asks over UDP; panics if there is no reply. The short way for tests that expect one.
pub fn ask(server: SocketAddr, query: impl Into<Query>) -> Reply {
    let query = query.into();
    query
        .ask(server)
        .unwrap_or_else(|| panic!("{server} did not answer {}", query.message.queries[0]))
}

/// Sends one datagram and waits for one; the reply's address is that of the server, as the socket is connected.
pub fn exchange(
    server: SocketAddr,
    source: Option<IpAddr>,
    bytes: &[u8],
    patience: Duration,
) -> Option<Vec<u8>> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((source.unwrap_or(any), 0)).expect("a socket can be bound");
    socket.connect(server).expect("a datagram socket can be connected");
    socket.set_read_timeout(Some(patience)).expect("the time is not zero");
    socket.send(bytes).ok()?;
    let mut buffer = vec![0; 65_535];
    let length = socket.recv(&mut buffer).ok()?;
    buffer.truncate(length);
    Some(buffer)
}

/// What `dig @SERVER -p PORT` prints for these words (`web.example.org AAAA +short`): another client, and its view of the reply.
pub fn dig(server: SocketAddr, words: &str) -> String {
    let mut command = Command::new("dig");
    command.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string()]);
    crate::process::run(command.args(["+tries=1", "+timeout=5"]).args(words.split_whitespace()))
}

/// Fetches `http://SERVER/PATH` and gives status and body.
pub fn http_get(server: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n").ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// Records as text, sorted.
fn texts(records: &[Record]) -> Vec<String> {
    let mut lines: Vec<String> = records.iter().map(ToString::to_string).collect();
    lines.sort_unstable();
    lines
}

/// Connects from a given address.
pub(crate) fn connect_from(source: IpAddr, server: SocketAddr) -> Option<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket(family, SocketType::STREAM, None).ok()?;
    bind(&fd, &SocketAddr::new(source, 0)).ok()?;
    connect(&fd, &server).ok()?;
    Some(TcpStream::from(fd))
}
