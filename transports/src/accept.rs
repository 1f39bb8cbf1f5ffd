//! Accepting connections: limits, PROXY headers and TLS handshakes, the same for all transports on TCP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Session, Stage, Stop, Transport};
use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::desk::{Desk, Plan};
use crate::{grpc, https, tcp};

/// How long the log is spared after it was told that connections cannot be accepted.
const TOLD: Duration = Duration::from_secs(10);

/// A connection ready to be served.
pub(crate) struct Accepted<S> {
    pub(crate) stream: S,
    /// The client, as a trusted proxy names it; else the other end.
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    /// What TLS has shown; none in clear text.
    pub(crate) session: Option<Arc<Session>>,
    /// The protocol agreed on in the handshake (RFC 7301), if any was.
    pub(crate) alpn: Option<Vec<u8>>,
    /// What the listener was configured by when the connection began.
    pub(crate) plan: Arc<Plan>,
}

/// Accepts until `stop` says to drain, then waits for the connections for as long as it allows.
pub(crate) async fn run(desk: Arc<Desk>, listener: TcpListener, mut stop: Stop) {
    let mut connections = tokio::task::JoinSet::new();
    // When the log was last told that accepting fails.
    let mut told: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            () = stop.reached(Stage::Draining) => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Beyond the limits a connection is closed at once; the client may try again elsewhere.
                let Some(room) = desk.limits.connection(peer.ip()) else { continue };
                let (desk, stop) = (Arc::clone(&desk), stop.clone());
                connections.spawn(async move {
                    connection(&desk, stream, peer, stop).await;
                    drop(room);
                });
            }
            Err(error) => {
                // Mostly out of file descriptors; a pause lets connections end.
                if told.is_none_or(|told| told.elapsed() >= TOLD) {
                    told = Some(Instant::now());
                    log::warn!("accepting a connection: {error}");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(stop.grace, all).await.is_err() {
        log::debug!("connections were still open after the grace period");
    }
}

/// Sees one connection through.
async fn connection(desk: &Desk, stream: TcpStream, peer: SocketAddr, stop: Stop) {
    if let Err(error) = begin(desk, stream, peer, stop).await {
        log::debug!("connection of {peer}: {error}");
    }
}

/// Makes the handshake, if there is to be one, and serves.
async fn begin(desk: &Desk, stream: TcpStream, peer: SocketAddr, stop: Stop) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let local = canonical(stream.local_addr()?);
    let (peer, plan) = (canonical(peer), desk.plan());
    let tls = plan.tls.clone().filter(|_| desk.key.transport != Transport::Udp);
    let Some(config) = tls else {
        let accepted = Accepted { stream, peer, local, session: None, alpn: None, plan };
        return serve(desk, accepted, stop).await;
    };
    let handshake = TlsAcceptor::from(config).accept(stream);
    let stream = timeout(plan.spec.limits.handshake(), handshake).await??;
    let session = Arc::new(facts(stream.get_ref().1));
    if desk.door().is_some_and(|door| !door.connection(&session)) {
        return Ok(());
    }
    let alpn = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    let accepted = Accepted { stream, peer, local, session: Some(session), alpn, plan };
    serve(desk, accepted, stop).await
}

/// Serves a connection by its listener's transport.
async fn serve<S>(desk: &Desk, accepted: Accepted<S>, stop: Stop) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // A certificate authority only wanted to see the certificate (RFC 8737 §3).
    if accepted.alpn.as_deref() == Some(b"acme-tls/1") {
        return Ok(());
    }
    match desk.key.transport {
        Transport::Https => https::serve(desk, accepted, stop).await,
        Transport::Grpc => grpc::serve(desk, accepted, stop).await,
        _ => tcp::serve(desk, accepted, stop).await,
    }
}

/// What the handshake has shown.
pub(crate) fn facts(tls: &rustls::ServerConnection) -> Session {
    Session {
        name: tls.server_name().map(|name| name.trim_end_matches('.').to_ascii_lowercase().into()),
        certificates: tls
            .peer_certificates()
            .unwrap_or_default()
            .iter()
            .map(|one| one.as_ref().into())
            .collect(),
        version: match tls.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "",
        },
        cipher: tls
            .negotiated_cipher_suite()
            .and_then(|suite| suite.suite().as_str())
            .unwrap_or_default(),
        ..Session::default()
    }
}

/// The address without the IPv6 form of an IPv4 one.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
