//! What queries are sent by: datagrams, or messages on a stream, in clear text or in TLS.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::http2::{ACKNOWLEDGED, Asker, Seen, look};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use socket2::{Domain, Protocol, Socket, Type};

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS, by GET requests of HTTP/2.
    Https,
    /// DNS over QUIC; see [`crate::quic`].
    Quic,
    /// DNS over HTTP/3; as above.
    Https3,
}

/// A server: `ADDRESS:PORT` for UDP, else with `tcp://`, `tls://`, `https://`, `quic://` or `https3://` before it.
pub fn server(text: &str) -> Result<(Transport, SocketAddr), String> {
    let (transport, addr) = match text.split_once("://") {
        None => (Transport::Udp, text),
        Some(("tcp", addr)) => (Transport::Tcp, addr),
        Some(("tls", addr)) => (Transport::Tls, addr),
        Some(("https", addr)) => (Transport::Https, addr),
        Some(("quic", addr)) => (Transport::Quic, addr),
        Some(("https3", addr)) => (Transport::Https3, addr),
        Some((other, _)) => return Err(format!("{text:?}: {other} is not known")),
    };
    Ok((transport, addr.parse().map_err(|e| format!("{text:?}: {e}"))?))
}

/// A way to one server.
pub enum Link {
    /// By datagrams.
    Udp(UdpSocket),
    /// By a stream.
    Stream(Box<Stream>),
}

/// Messages on a stream.
pub struct Stream {
    /// The connection.
    tcp: TcpStream,
    /// TLS on it.
    tls: Option<ClientConnection>,
    /// HTTP/2 on that.
    asker: Option<Asker>,
    /// What was read and is not a whole message yet.
    inbox: Vec<u8>,
    /// How much of that has been taken.
    at: usize,
    /// What is to be written.
    out: Vec<u8>,
}

impl Link {
    /// Goes to a server, from `source` if one is given; waits for a handshake.
    pub fn open(
        transport: Transport,
        server: SocketAddr,
        source: Option<IpAddr>,
    ) -> io::Result<Self> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let source = SocketAddr::new(source.unwrap_or(any), 0);
        if transport == Transport::Udp {
            let socket = crate::socket(source)?;
            socket.connect(server)?;
            socket.set_nonblocking(true)?;
            return Ok(Self::Udp(socket));
        }
        let socket = Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&source.into())?;
        socket.connect(&server.into())?;
        let mut tcp: TcpStream = socket.into();
        tcp.set_nodelay(true)?;
        let mut tls = None;
        if transport != Transport::Tcp {
            let alpn: &[u8] = if transport == Transport::Https { b"h2" } else { b"dot" };
            let mut session = client(server.ip(), alpn).map_err(io::Error::other)?;
            while session.is_handshaking() {
                session.complete_io(&mut tcp)?;
            }
            tls = Some(session);
        }
        tcp.set_nonblocking(true)?;
        let (inbox, mut out) = (Vec::new(), Vec::new());
        let asker = (transport == Transport::Https).then(|| Asker::begin(&mut out));
        Ok(Self::Stream(Box::new(Stream { tcp, tls, asker, inbox, at: 0, out })))
    }

    /// Sends a message; on streams it goes with the next [`Link::flush`].
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket) => socket.send(message).map(drop),
            Self::Stream(stream) => {
                if let Some(asker) = &mut stream.asker {
                    asker.ask(message, &mut stream.out);
                    return Ok(());
                }
                let length = u16::try_from(message.len()).map_err(io::Error::other)?;
                stream.out.extend_from_slice(&length.to_be_bytes());
                stream.out.extend_from_slice(message);
                Ok(())
            }
        }
    }

    /// Writes what is to be sent.
    pub fn flush(&mut self) -> io::Result<()> {
        let Self::Stream(stream) = self else { return Ok(()) };
        if stream.out.is_empty() {
            return Ok(());
        }
        stream.tcp.set_nonblocking(false)?;
        match &mut stream.tls {
            None => stream.tcp.write_all(&stream.out)?,
            Some(tls) => {
                tls.writer().write_all(&stream.out)?;
                while tls.wants_write() {
                    tls.write_tls(&mut stream.tcp)?;
                }
            }
        }
        stream.out.clear();
        stream.tcp.set_nonblocking(true)
    }

    /// The next message that is there, copied to `buffer`; an error of the kind `WouldBlock` if there is none.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.recv(buffer),
            Self::Stream(stream) => stream.receive(buffer),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Stream(stream) => stream.tcp.as_fd(),
        }
    }
}

impl Stream {
    /// The next message that is there.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self.inbox.get(self.at..).unwrap_or_default();
            if self.asker.is_some() {
                match look(rest) {
                    Seen::Message(length) => {
                        buffer[..length].copy_from_slice(&rest[9..9 + length]);
                        self.at += 9 + length;
                        return Ok(length);
                    }
                    Seen::Other(length) => {
                        self.at += length;
                        continue;
                    }
                    Seen::Settings(length) => {
                        self.at += length;
                        self.out.extend_from_slice(ACKNOWLEDGED);
                        continue;
                    }
                    Seen::End => return Err(io::Error::other("the server ends a request")),
                    Seen::Part => {}
                }
            } else if let Some((length, rest)) = rest.split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if let Some(message) = rest.get(..length) {
                    buffer[..length].copy_from_slice(message);
                    self.at += 2 + length;
                    return Ok(length);
                }
            }
            self.inbox.drain(..self.at);
            self.at = 0;
            self.read()?;
        }
    }

    /// Reads what is there.
    fn read(&mut self) -> io::Result<()> {
        let mut chunk = [0; 16 << 10];
        let read = match &mut self.tls {
            None => self.tcp.read(&mut chunk)?,
            Some(tls) => loop {
                match tls.reader().read(&mut chunk) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        if tls.read_tls(&mut self.tcp)? == 0 {
                            break 0;
                        }
                        tls.process_new_packets().map_err(io::Error::other)?;
                    }
                    read => break read?,
                }
            },
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.inbox.extend_from_slice(&chunk[..read]);
        Ok(())
    }
}

/// A client that takes any certificate: what is measured is the server, which is our own.
fn client(server: IpAddr, alpn: &[u8]) -> Result<ClientConnection, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    ClientConnection::new(Arc::new(config), ServerName::IpAddress(server.into()))
}

/// Takes any certificate.
#[derive(Debug)]
pub(crate) struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}
