//! Messages as queries leave them, and as they go to a sink: dnstap's protocol buffers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use engine::Transport;
use prost::Message as _;

/// `Dnstap.Type`: a message.
const MESSAGE: i32 = 1;

/// The kinds of messages, by dnstap's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A client asked.
    ClientQuery = 5,
    /// It got a reply.
    ClientResponse = 6,
    /// An upstream was asked.
    ForwarderQuery = 7,
    /// It replied.
    ForwarderResponse = 8,
}

impl Kind {
    /// Whether it is about a reply.
    fn is_response(self) -> bool {
        matches!(self, Self::ClientResponse | Self::ForwarderResponse)
    }
}

/// What is noted of one message.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) kind: Kind,
    pub(super) transport: Transport,
    /// Who asked, if that is known.
    pub(super) asker: Option<SocketAddr>,
    /// Who was asked, of upstreams.
    pub(super) asked: Option<SocketAddr>,
    /// When the query came or went, since 1970.
    pub(super) query_time: Duration,
    /// When the reply did.
    pub(super) response_time: Option<Duration>,
    /// The message itself, if it is wanted.
    pub(super) octets: Option<Box<[u8]>>,
    /// What the configuration adds.
    pub(super) extra: Option<Box<str>>,
}

impl Note {
    /// How much memory it holds beside itself, in octets.
    pub(super) fn size(&self) -> usize {
        self.octets.as_ref().map_or(0, |octets| octets.len())
            + self.extra.as_ref().map_or(0, |extra| extra.len())
    }
}

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) identity: String,
    pub(super) version: String,
}

impl Sender {
    /// Appends a note as a data frame: four octets of length, and the message.
    pub(super) fn frame(&self, note: Note, out: &mut Vec<u8>) {
        let text = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        let message = Dnstap {
            identity: text(&self.identity),
            version: text(&self.version),
            extra: note.extra.as_ref().map(|extra| extra.as_bytes().to_vec()),
            message: Some(Message::from(note)),
            kind: MESSAGE,
        };
        // A message of DNS has 65,535 octets at most, and the words of a configuration are few.
        let len = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
        out.reserve(4 + message.encoded_len());
        out.extend_from_slice(&len.to_be_bytes());
        message.encode_raw(out);
    }
}

/// dnstap's `Dnstap`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Dnstap {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) identity: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) version: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) extra: Option<Vec<u8>>,
    #[prost(message, optional, tag = "14")]
    pub(super) message: Option<Message>,
    #[prost(int32, required, tag = "15")]
    pub(super) kind: i32,
}

/// dnstap's `Message`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Message {
    #[prost(int32, required, tag = "1")]
    pub(super) kind: i32,
    #[prost(int32, optional, tag = "2")]
    pub(super) socket_family: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(super) socket_protocol: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) query_address: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(super) response_address: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) query_port: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(super) response_port: Option<u32>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) query_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "9")]
    pub(super) query_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "10")]
    pub(super) query_message: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "12")]
    pub(super) response_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "13")]
    pub(super) response_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "14")]
    pub(super) response_message: Option<Vec<u8>>,
}

impl From<Note> for Message {
    fn from(note: Note) -> Self {
        let is_response = note.kind.is_response();
        let octets = note.octets.map(Vec::from);
        let (query_message, response_message) =
            if is_response { (None, octets) } else { (octets, None) };
        let family = note.asker.or(note.asked).map(|addr| match addr.ip().to_canonical() {
            IpAddr::V4(_) => 1,
            IpAddr::V6(_) => 2,
        });
        Self {
            kind: note.kind as i32,
            socket_family: family,
            socket_protocol: Some(protocol(note.transport)),
            query_address: note.asker.map(octets_of),
            query_port: note.asker.map(|addr| addr.port().into()),
            response_address: note.asked.map(octets_of),
            response_port: note.asked.map(|addr| addr.port().into()),
            query_time_sec: Some(note.query_time.as_secs()),
            query_time_nsec: Some(note.query_time.subsec_nanos()),
            query_message,
            response_time_sec: note.response_time.map(|time| time.as_secs()),
            response_time_nsec: note.response_time.map(|time| time.subsec_nanos()),
            response_message,
        }
    }
}

/// An address as octets; one of IPv4 has four, however the socket shows it.
fn octets_of(addr: SocketAddr) -> Vec<u8> {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// dnstap's `SocketProtocol`; it has none for gRPC.
fn protocol(transport: Transport) -> i32 {
    match transport {
        Transport::Udp => 1,
        Transport::Tcp | Transport::Grpc => 2,
        Transport::Tls => 3,
        Transport::Https | Transport::Https3 => 4,
        Transport::Quic => 7,
    }
}
