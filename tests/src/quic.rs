//! A QUIC client that keeps to the protocol no better than a test wants, and datagrams of no client at all.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, ReadError, RecvStream, SendStream,
    TransportConfig, VarInt,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::quic::{Keys, Suite, Version};

use crate::client::{Query, Reply};
use crate::pki::Pair;

/// How long a step may take.
pub const LIMIT: Duration = Duration::from_secs(10);

/// A client: what it trusts and how it behaves.
#[derive(Clone, Debug)]
pub struct Client {
    /// The socket.
    endpoint: Endpoint,
    /// TLS, transport parameters, and the tokens that servers gave.
    config: ClientConfig,
}

impl Client {
    /// A client that trusts `ca` and offers these protocols; call it in a tokio runtime.
    pub fn new(ca: &Path, alpn: &[&str]) -> Self {
        Self::build(ca, alpn, None, Ipv4Addr::LOCALHOST.into())
    }

    /// The same with a certificate of its own.
    pub fn with_certificate(ca: &Path, alpn: &[&str], own: &Pair) -> Self {
        Self::build(ca, alpn, Some(own), Ipv4Addr::LOCALHOST.into())
    }

    /// The same from an address.
    pub fn from_address(ca: &Path, alpn: &[&str], source: IpAddr) -> Self {
        Self::build(ca, alpn, None, source)
    }

    /// Puts a client together.
    fn build(ca: &Path, alpn: &[&str], own: Option<&Pair>, source: IpAddr) -> Self {
        let mut tls = tls(ca, own);
        tls.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        tls.enable_early_data = true;
        let endpoint = Endpoint::client(SocketAddr::new(source, 0)).expect("a UDP socket");
        let crypto = QuicClientConfig::try_from(tls).expect("TLS 1.3 is there");
        Self { endpoint, config: ClientConfig::new(Arc::new(crypto)) }
    }

    /// Changes its transport parameters.
    pub fn transport(mut self, change: impl FnOnce(&mut TransportConfig)) -> Self {
        let mut transport = TransportConfig::default();
        change(&mut transport);
        self.config.transport_config(Arc::new(transport));
        self
    }

    /// Its endpoint, for anything else.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Begins a connection.
    pub fn begin(&self, server: SocketAddr) -> quinn::Connecting {
        let config = self.config.clone();
        self.endpoint.connect_with(config, server, "dns.example.org").expect("a connection")
    }

    /// Connects.
    ///
    /// # Errors
    /// Why the server did not want it.
    pub async fn connect(&self, server: SocketAddr) -> Result<Connection, ConnectionError> {
        soon(self.begin(server)).await
    }
}

/// TLS that trusts `ca`.
fn tls(ca: &Path, own: Option<&Pair>) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(ca).expect("the CA's file") {
        roots.add(root.expect("a certificate")).expect("a good certificate");
    }
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::aws_lc_rs::default_provider(),
    ))
    .with_protocol_versions(&[&rustls::version::TLS13])
    .expect("TLS 1.3")
    .with_root_certificates(roots);
    let Some(own) = own else { return builder.with_no_client_auth() };
    let chain = CertificateDer::pem_file_iter(&own.chain).expect("the client's certificate");
    let chain = chain.collect::<Result<_, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(&own.key).expect("the client's key");
    builder.with_client_auth_cert(chain, key).expect("a pair")
}

/// Waits for a step, which must not take long.
pub async fn soon<T>(step: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(LIMIT, step.into_future()).await.expect("this step takes too long")
}

/// A message with its length in front.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("a message of 65,535 octets at most");
    [&length.to_be_bytes(), message].concat()
}

/// A query as RFC 9250 wants it: framed, with ID 0.
pub fn query(query: impl Into<Query>) -> Vec<u8> {
    let mut message = query.into().encode();
    message[..2].fill(0);
    framed(&message)
}

/// What a stream brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// These octets, then its end.
    Fin(Vec<u8>),
    /// A reset with this code.
    Reset(u64),
    /// The end of the connection by the application, with this code.
    Closed(u64),
    /// The end of the connection for another reason.
    Lost(String),
}

impl End {
    /// The messages that it holds; panics if it is none.
    pub fn messages(&self) -> Vec<Reply> {
        let Self::Fin(octets) = self else { panic!("{self:?} is no answer") };
        let mut rest = &octets[..];
        let mut all = Vec::new();
        while let Some((length, more)) = rest.split_first_chunk::<2>() {
            let (message, more) = more.split_at(usize::from(u16::from_be_bytes(*length)));
            all.push(Reply::decode(message.to_vec(), Duration::ZERO));
            rest = more;
        }
        assert!(rest.is_empty(), "octets behind the last message");
        all
    }

    /// The one message that it holds.
    pub fn reply(&self) -> Reply {
        let mut all = self.messages();
        assert_eq!(all.len(), 1, "{self:?}");
        all.remove(0)
    }

    /// How a connection ended.
    pub fn of(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => Self::Closed(close.error_code.into()),
            other => Self::Lost(other.to_string()),
        }
    }
}

/// Reads a stream to its end.
pub async fn end(recv: &mut RecvStream) -> End {
    let mut octets = Vec::new();
    loop {
        match soon(recv.read_chunk(usize::MAX, true)).await {
            Ok(Some(chunk)) => octets.extend_from_slice(&chunk.bytes),
            Ok(None) => return End::Fin(octets),
            Err(ReadError::Reset(code)) => return End::Reset(code.into()),
            Err(ReadError::ConnectionLost(error)) => return End::of(&error),
            Err(error) => return End::Lost(error.to_string()),
        }
    }
}

/// Opens a stream and sends octets, with the end of the stream behind them or not.
pub async fn send(connection: &Connection, octets: &[u8], fin: bool) -> (SendStream, RecvStream) {
    let (mut send, recv) = soon(connection.open_bi()).await.expect("a stream");
    soon(send.write_all(octets)).await.expect("octets on a stream");
    if fin {
        send.finish().expect("the end of a stream");
    }
    (send, recv)
}

/// Sends octets on a stream of their own, and gives what comes back.
pub async fn exchange(connection: &Connection, octets: &[u8]) -> End {
    let (_send, mut recv) = send(connection, octets, true).await;
    end(&mut recv).await
}

/// Waits until a connection ends, and says how.
pub async fn closed(connection: &Connection) -> End {
    End::of(&soon(connection.closed()).await)
}

/// The number of an error.
pub fn code(number: u32) -> VarInt {
    VarInt::from_u32(number)
}

/// The connection IDs of [`initial`]: the server's, which the client makes up, and the client's.
const IDS: ([u8; 8], [u8; 8]) = ([7; 8], [9; 8]);

/// The first message of a handshake, in a frame of its own (RFC 9000 §19.6), as a client with these ALPN protocols sends it.
pub fn hello(alpn: &[&str]) -> Vec<u8> {
    // Without the post-quantum key share the message leaves room in a small datagram.
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups.retain(|group| group.name() == rustls::NamedGroup::X25519);
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    // initial_source_connection_id (RFC 9000 §18.2).
    let parameters = [&[0x0f, 8], &IDS.1[..]].concat();
    let name = ServerName::try_from("dns.example.org").expect("a name");
    let session = rustls::quic::ClientConnection::new(Arc::new(tls), Version::V1, name, parameters);
    let mut message = Vec::new();
    assert!(session.expect("a session").write_hs(&mut message).is_none());
    let length = (0x4000 | message.len() as u16).to_be_bytes();
    [&[0x06, 0], &length[..], &message].concat()
}

/// A datagram of `size` octets with a first packet (RFC 9000 §17.2.2), which holds these frames and padding, encrypted as it
/// should be.
pub fn initial(frames: &[u8], size: usize) -> Vec<u8> {
    initial_to(IDS.0, frames, size)
}

/// The same with another connection ID of the server's, which makes it another connection.
pub fn initial_to(id: [u8; 8], frames: &[u8], size: usize) -> Vec<u8> {
    let mut packet = [&[0xc3, 0, 0, 0, 1, 8][..], &id, &[8], &IDS.1, &[0]].concat();
    // Two octets of length, four of packet number, and at the end the tag of the cipher.
    let rest = size.checked_sub(packet.len() + 2).expect("room for a header");
    packet.extend_from_slice(&(0x4000 | rest as u16).to_be_bytes());
    let number_at = packet.len();
    packet.extend_from_slice(&[0; 4]);
    let mut payload = frames.to_vec();
    payload.resize(rest.checked_sub(4 + 16).expect("room for the frames"), 0);
    let Keys { local, .. } = suite().keys(&id, rustls::Side::Client, Version::V1);
    let tag = local.packet.encrypt_in_place(0, &packet, &mut payload).expect("encryption");
    packet.extend_from_slice(&payload);
    packet.extend_from_slice(tag.as_ref());
    let sample = packet[number_at + 4..number_at + 4 + local.header.sample_len()].to_vec();
    let (first, rest) = packet.split_at_mut(1);
    let number = &mut rest[number_at - 1..number_at + 3];
    local.header.encrypt_in_place(&sample, &mut first[0], number).expect("header protection");
    assert_eq!(packet.len(), size);
    packet
}

/// The suite that protects first packets (RFC 9001 §5.2).
fn suite() -> Suite {
    match rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256 {
        rustls::SupportedCipherSuite::Tls13(suite) => suite.quic_suite().expect("QUIC is there"),
        _ => unreachable!("its name says TLS 1.3"),
    }
}
