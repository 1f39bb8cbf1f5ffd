//! DNS over QUIC (RFC 9250), and connections of QUIC for HTTP/3.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectionError, Endpoint, ReadError, ReadExactError, TransportConfig, VarInt};
use tokio::time::timeout;

use super::conn::Broken;
use super::https::{bad, too_long};
use super::session::{Link, Made, Maker};
use super::tls::{Tls, alerted, bounded};
use super::udp;

/// DOQ_PROTOCOL_ERROR (RFC 9250 §8.4).
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(2);

/// DOQ_REQUEST_CANCELLED.
const REQUEST_CANCELLED: VarInt = VarInt::from_u32(3);

/// After how long without a packet a connection is over.
const IDLE: Duration = Duration::from_secs(30);

/// How much of a stream may wait to be read: a message with its length.
const STREAM_WINDOW: u32 = 65_537;

/// How much of all streams.
const WINDOW: u32 = 1 << 20;

/// How long the end of a stream is waited for behind its message.
const TAIL: Duration = Duration::from_secs(2);

/// The way to an upstream by QUIC.
pub(super) struct Road {
    addr: SocketAddr,
    source: Option<IpAddr>,
    host: String,
    config: Option<quinn::ClientConfig>,
}

impl Road {
    /// The way with TLS as it is. The other side may open so many streams in one direction.
    pub(super) fn new(addr: SocketAddr, source: Option<IpAddr>, tls: &Tls, streams: u32) -> Self {
        let mut transport = TransportConfig::default();
        transport
            .max_idle_timeout(IDLE.try_into().ok())
            .max_concurrent_bidi_streams(0_u32.into())
            .max_concurrent_uni_streams(streams.into())
            .stream_receive_window(STREAM_WINDOW.into())
            .receive_window(WINDOW.into())
            .datagram_receive_buffer_size(None)
            // RFC 9250 §5.4: nobody is to see how long a query is, not even one that has no EDNS to pad it with.
            .pad_to_mtu(streams == 0);
        // The provider has the suite that QUIC begins with.
        let config = QuicClientConfig::try_from(tls.config()).ok().map(|crypto| {
            let mut config = quinn::ClientConfig::new(Arc::new(crypto));
            config.transport_config(Arc::new(transport));
            config
        });
        Self { addr, source, host: tls.host(), config }
    }

    /// Makes a connection from a socket of its own, whose port is random.
    pub(super) async fn connect(&self) -> Result<(quinn::Connection, Option<SocketAddr>), Broken> {
        let config = self.config.clone().ok_or(Broken::Closed)?;
        let own = SocketAddr::new(self.source.unwrap_or_else(|| udp::any(self.addr)), 0);
        let endpoint = Endpoint::client(own).map_err(|error| Broken::Io((&error).into()))?;
        let connecting = endpoint.connect_with(config, self.addr, &self.host);
        let connecting = connecting.map_err(|error| bad(error.to_string()))?;
        let connection = connecting.await.map_err(|error| over(&error))?;
        Ok((connection, endpoint.local_addr().ok()))
    }
}

/// Makes connections of DNS over QUIC.
pub(super) struct Quic(pub(super) Road);

impl Maker for Quic {
    fn make(&self) -> BoxFuture<'_, Result<Made, Broken>> {
        async {
            let (connection, local) = self.0.connect().await?;
            let watched = connection.clone();
            let driver = async move { over(&watched.closed().await) };
            Ok(Made { link: Link::Quic(connection), local, driver: driver.boxed() })
        }
        .boxed()
    }
}

/// What the end of a connection means.
pub(super) fn over(error: &ConnectionError) -> Broken {
    match error {
        // RFC 9001 §4.8: an alert of TLS.
        ConnectionError::TransportError(error) if is_alert(error.code) => {
            let words = error.reason.trim_start_matches("invalid peer certificate: ");
            Broken::Tls(bounded(words).into())
        }
        ConnectionError::ConnectionClosed(close) if is_alert(close.error_code) => {
            let alert = (u64::from(close.error_code) & 0xff) as u8;
            Broken::Tls(alerted(alert.into()).into())
        }
        ConnectionError::TransportError(error) => {
            bad(format!("the server breaks the rules of QUIC: {}", bounded(&error.to_string())))
        }
        ConnectionError::VersionMismatch => bad("the server speaks no version of QUIC that we do"),
        // DOQ_NO_ERROR and H3_NO_ERROR.
        ConnectionError::ApplicationClosed(close)
            if ![0, 0x100].contains(&close.error_code.into_inner()) =>
        {
            bad(format!("the server closed the connection: {}", name(close.error_code)))
        }
        _ => Broken::Closed,
    }
}

/// Whether a code of QUIC is an alert of TLS.
fn is_alert(code: quinn::TransportErrorCode) -> bool {
    (0x100..0x200).contains(&u64::from(code))
}

/// An error code of DNS over QUIC (RFC 9250 §8.4), or a number.
fn name(code: VarInt) -> String {
    let names = [
        "DOQ_NO_ERROR",
        "DOQ_INTERNAL_ERROR",
        "DOQ_PROTOCOL_ERROR",
        "DOQ_REQUEST_CANCELLED",
        "DOQ_EXCESSIVE_LOAD",
        "DOQ_UNSPECIFIED_ERROR",
    ];
    let known = usize::try_from(code.into_inner()).ok().and_then(|code| names.get(code));
    known.map_or_else(|| format!("error 0x{:x}", code.into_inner()), |name| (*name).to_owned())
}

/// A stream, which is cancelled when it is dropped before its end (RFC 9250 §4.3.1).
struct Stream {
    send: quinn::SendStream,
    recv: quinn::RecvStream,
    done: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.done {
            // Both fail only if there is nothing left to cancel.
            drop(self.send.reset(REQUEST_CANCELLED));
            drop(self.recv.stop(REQUEST_CANCELLED));
        }
    }
}

/// Sends a query by a stream of its own, and reads the reply.
pub(super) async fn ask(connection: &quinn::Connection, query: &[u8]) -> Result<Vec<u8>, Broken> {
    let (send, recv) = connection.open_bi().await.map_err(|error| over(&error))?;
    let mut stream = Stream { send, recv, done: false };
    // RFC 9250 §4.2: two octets of length, and the end of the stream right behind the query.
    let len = u16::try_from(query.len()).map_err(|_| too_long())?;
    let framed = [&len.to_be_bytes()[..], query].concat();
    let sent = stream.send.write_all(&framed).await.and_then(|()| Ok(stream.send.finish()?));
    let written = sent.map_err(|error| match error {
        quinn::WriteError::ConnectionLost(error) => over(&error),
        quinn::WriteError::Stopped(code) => bad(format!("the server stopped: {}", name(code))),
        other => bad(other.to_string()),
    });
    written?;
    let mut len = [0; 2];
    read(connection, &mut stream, &mut len).await?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    read(connection, &mut stream, &mut message).await?;
    // RFC 9250 §4.2.1: the id is 0 on both ways.
    if message.get(..2).is_some_and(|id| id != [0, 0]) {
        connection.close(PROTOCOL_ERROR, b"");
        return Err(bad("the reply has an id that is not 0"));
    }
    stream.done = true;
    end(connection.clone(), stream);
    Ok(message)
}

/// Reads so many octets; a stream that ends before is a breach of the protocol (RFC 9250 §4.3.3).
async fn read(
    connection: &quinn::Connection,
    stream: &mut Stream,
    into: &mut [u8],
) -> Result<(), Broken> {
    match stream.recv.read_exact(into).await {
        Ok(()) => Ok(()),
        Err(ReadExactError::FinishedEarly(_)) => {
            connection.close(PROTOCOL_ERROR, b"");
            Err(bad("the stream ended before the reply"))
        }
        Err(ReadExactError::ReadError(error)) => {
            stream.done = true;
            Err(match error {
                ReadError::ConnectionLost(error) => over(&error),
                ReadError::Reset(code) => {
                    bad(format!("the server reset the stream: {}", name(code)))
                }
                other => bad(other.to_string()),
            })
        }
    }
}

/// Sees to it that a stream ends behind its reply. That mostly has come with the reply; else it is waited for, for a server
/// would take a stream that is stopped for a query that is cancelled.
fn end(connection: quinn::Connection, mut stream: Stream) {
    let judge = |connection: &quinn::Connection, more: Result<Option<usize>, ReadError>| {
        if let Ok(Some(_)) = more {
            connection.close(PROTOCOL_ERROR, b"");
        }
    };
    let mut octet = [0; 1];
    match stream.recv.read(&mut octet).now_or_never() {
        Some(more) => judge(&connection, more),
        None => {
            tokio::spawn(async move {
                let mut octet = [0; 1];
                if let Ok(more) = timeout(TAIL, stream.recv.read(&mut octet)).await {
                    judge(&connection, more);
                }
            });
        }
    }
}
