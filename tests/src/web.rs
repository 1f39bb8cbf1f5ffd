//! HTTP clients: curl for what is right, raw octets and raw frames for what is not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::{Query, Reply};

/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// A response.
#[derive(Clone, Debug)]
pub struct Page {
    /// The protocol, such as `HTTP/2`.
    pub version: String,
    /// The status.
    pub status: u16,
    /// The headers, names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Page {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }

    /// The body as a DNS message.
    pub fn reply(&self) -> Reply {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/dns-message"), "{self:?}");
        Reply::decode(self.body.clone(), Duration::ZERO)
    }

    /// Reads a response from the octets of HTTP/1.1, or of curl.
    pub fn parse(mut octets: &[u8]) -> Option<Self> {
        loop {
            let end = octets.windows(4).position(|four| four == b"\r\n\r\n")?;
            let head = String::from_utf8_lossy(&octets[..end]).into_owned();
            octets = &octets[end + 4..];
            let (first, rest) = head.split_once("\r\n").unwrap_or((&head, ""));
            let mut words = first.split(' ');
            let (version, status) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
            // What comes before the response itself.
            if status == 100 {
                continue;
            }
            let field = |line: &str| {
                let (name, value) = line.split_once(':')?;
                Some((name.to_ascii_lowercase(), value.trim().to_owned()))
            };
            let headers = rest.split("\r\n").filter_map(field).collect();
            return Some(Self { version, status, headers, body: octets.to_vec() });
        }
    }
}

/// Runs curl with these words and `body` as its input, trusting `ca`.
pub fn curl(ca: &Path, words: &[&str], body: &[u8]) -> Page {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "20", "--cacert"]);
    command.arg(ca).args(words);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("curl is installed");
    // A server that has seen enough closes; that shows in its response.
    drop(child.stdin.take().expect("it is piped").write_all(body));
    let output = child.wait_with_output().expect("curl ends");
    Page::parse(&output.stdout).unwrap_or_else(|| {
        panic!("curl {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    })
}

/// A message in base64url without padding.
pub fn base64url(message: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in message.chunks(3) {
        let bits = three.iter().fold(0, |bits, octet| bits << 8 | u32::from(*octet));
        let bits = bits << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            text.push(char::from(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]));
        }
    }
    text
}

/// `/dns-query?dns=` with a query.
pub fn target(query: &Query) -> String {
    format!("/dns-query?dns={}", base64url(&query.encode()))
}

/// A connection in clear text.
#[derive(Debug)]
pub struct Raw {
    /// The stream.
    stream: TcpStream,
    /// What came.
    inbox: Vec<u8>,
}

/// A frame of HTTP/2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream's number.
    pub stream: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

/// The kinds of frames.
pub mod kind {
    /// DATA.
    pub const DATA: u8 = 0;
    /// HEADERS.
    pub const HEADERS: u8 = 1;
    /// PRIORITY.
    pub const PRIORITY: u8 = 2;
    /// RST_STREAM.
    pub const RST_STREAM: u8 = 3;
    /// SETTINGS.
    pub const SETTINGS: u8 = 4;
    /// PING.
    pub const PING: u8 = 6;
    /// GOAWAY.
    pub const GOAWAY: u8 = 7;
    /// WINDOW_UPDATE.
    pub const WINDOW_UPDATE: u8 = 8;
    /// CONTINUATION.
    pub const CONTINUATION: u8 = 9;
}

/// The error code with which a client is told to calm down (RFC 9113 7).
pub const ENHANCE_YOUR_CALM: u32 = 11;

impl Raw {
    /// Connects.
    pub fn open(server: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&server, PATIENCE).expect("it listens");
        stream.set_nodelay(true).expect("a socket has the option");
        stream.set_write_timeout(Some(PATIENCE)).expect("the time is not zero");
        Self { stream, inbox: Vec::new() }
    }

    /// Connects and begins with HTTP/2, with these settings.
    pub fn http2(server: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut own = Self::open(server);
        own.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let pair = |(name, value): &(u16, u32)| {
            [name.to_be_bytes().as_slice(), &value.to_be_bytes()].concat()
        };
        own.frame(kind::SETTINGS, 0, 0, &settings.iter().flat_map(pair).collect::<Vec<_>>());
        own
    }

    /// Sends octets; false if the server has hung up.
    pub fn send(&mut self, octets: &[u8]) -> bool {
        self.stream.write_all(octets).is_ok()
    }

    /// Sends a frame; false if the server has hung up.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.send(&frame(kind, flags, stream, payload))
    }

    /// Says that nothing more comes.
    pub fn finish(&mut self) {
        drop(self.stream.shutdown(std::net::Shutdown::Write));
    }

    /// Reads more; false at the end of the stream or of the time.
    fn read(&mut self, limit: Duration) -> bool {
        let limit = limit.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(limit)).expect("the time is not zero");
        let mut part = [0; 65_536];
        match self.stream.read(&mut part) {
            Ok(count) => {
                self.inbox.extend_from_slice(&part[..count]);
                count > 0
            }
            Err(_) => false,
        }
    }

    /// The next frame; none at the end of the stream or of the time.
    pub fn next(&mut self, limit: Duration) -> Option<Frame> {
        let end = Instant::now() + limit;
        loop {
            if let Some(head) = self.inbox.first_chunk::<9>().copied() {
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if let Some(payload) = self.inbox.get(9..9 + length).map(<[u8]>::to_vec) {
                    self.inbox.drain(..9 + length);
                    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                    return Some(Frame { kind: head[3], flags: head[4], stream, payload });
                }
            }
            if !self.read(end.saturating_duration_since(Instant::now())) {
                return None;
            }
        }
    }

    /// The next frame that is wanted; those before it are passed over.
    pub fn wait(&mut self, limit: Duration, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
        let end = Instant::now() + limit;
        loop {
            let frame = self.next(end.saturating_duration_since(Instant::now()))?;
            if wanted(&frame) {
                return Some(frame);
            }
        }
    }

    /// The error code of the GOAWAY frame that ends the connection; none if there is none in time.
    pub fn goaway(&mut self, limit: Duration) -> Option<u32> {
        let frame = self.wait(limit, |frame| frame.kind == kind::GOAWAY)?;
        let code = frame.payload.get(4..8)?.try_into().ok()?;
        Some(u32::from_be_bytes(code))
    }

    /// Whether the server closes within the time; what it sends until then is passed over.
    pub fn closed_within(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            if !self.read(left) {
                return Instant::now() < end;
            }
        }
    }

    /// All that comes until the server closes or the time is over.
    pub fn rest(&mut self, limit: Duration) -> Vec<u8> {
        let end = Instant::now() + limit;
        while self.read(end.saturating_duration_since(Instant::now())) {}
        std::mem::take(&mut self.inbox)
    }
}

/// The octets of a frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame has at most 16 MB").to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [head.as_slice(), &stream.to_be_bytes(), payload].concat()
}

/// Header fields in HPACK's plainest form: literals that no table takes up.
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0x10);
        for text in [name, value] {
            let mut length = text.len();
            if length < 127 {
                out.push(u8::try_from(length).expect("it is below 127"));
            } else {
                out.push(127);
                length -= 127;
                while length >= 128 {
                    out.push(u8::try_from(length % 128).expect("it is below 128") | 128);
                    length /= 128;
                }
                out.push(u8::try_from(length).expect("it is below 128"));
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// The fields of a GET request for a path.
pub fn get(path: &str) -> Vec<u8> {
    let own = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "a.test")];
    fields(&own)
}

/// The fields of a POST request with a message.
pub fn post() -> Vec<u8> {
    fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/dns-query"),
        (":authority", "a.test"),
        ("content-type", "application/dns-message"),
    ])
}
