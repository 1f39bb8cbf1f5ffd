//! Accepting connections: limits, PROXY headers and TLS handshakes, the same for all transports on TCP.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Session, Stage, Stop, Stopper, Transport};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use crate::desk::{Desk, Plan};
use crate::inlet::Inlet;
use crate::limits::{Count, Room, Taken, Way};
use crate::outlet::Outlet;
use crate::seats::{Leave, Seat};
use crate::{grpc, handshake, https, proxy, tcp};

/// How long the log is spared after it was told that connections cannot be accepted.
const TOLD: Duration = Duration::from_secs(10);

/// A connection ready to be served.
pub(crate) struct Accepted<S> {
    pub(crate) stream: S,
    /// The client, as a trusted proxy names it; else the other end.
    pub(crate) peer: SocketAddr,
    /// The address that the client asked, as a trusted proxy names it; else this end.
    pub(crate) local: SocketAddr,
    /// What TLS has shown; none in clear text.
    pub(crate) session: Option<Arc<Session>>,
    /// The protocol agreed on in the handshake (RFC 7301), if any was.
    pub(crate) alpn: Option<Vec<u8>>,
    /// What the listener was configured by when the connection began.
    pub(crate) plan: Arc<Plan>,
    /// The connection as others see it. Who serves it notes there when it is idle, and ends it when [`Seat::told`] resolves.
    pub(crate) seat: Arc<Seat>,
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
                let peer = canonical(peer);
                let taken = tokio::select! {
                    () = stop.reached(Stage::Draining) => break,
                    taken = async {
                        desk.limits.settle().await;
                        turn(&desk).await
                    } => taken,
                };
                let plan = desk.plan();
                let vouched = plan
                    .spec
                    .proxy
                    .as_ref()
                    .is_some_and(|spec| proxy::is_believed(spec, peer.ip()));
                let way = if vouched { Way::Proxied } else { Way::Direct };
                let here = (desk.id, taken);
                let limits = &plan.spec.limits;
                // Beyond the limits a connection is closed at once; the client may try again elsewhere.
                let Some(room) = desk.limits.enter(here, peer.ip(), limits, way) else {
                    continue;
                };
                let (desk, stop) = (Arc::clone(&desk), stop.clone());
                connections.spawn(async move {
                    if let Err(error) =
                        connection(&desk, stream, (peer, room, vouched), plan, stop).await
                    {
                        log::debug!("connection of {peer}: {error}");
                    }
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

/// Waits until a connection may be served. Those behind it wait in the kernel's queue, as CoreDNS has it.
async fn turn(desk: &Desk) -> Taken {
    Count::one_of(&desk.here, || desk.peek().served(desk.key.transport)).await
}

/// Sees one connection through.
async fn connection(
    desk: &Desk,
    stream: TcpStream,
    (peer, mut room, vouched): (SocketAddr, Room, bool),
    plan: Arc<Plan>,
    mut stop: Stop,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let ends = Ends { peer, local: canonical(stream.local_addr()?) };
    let seat = Arc::clone(room.seat());
    let met = tokio::select! {
        () = stop.reached(Stage::Draining) => return Ok(()),
        why = seat.told() => {
            desk.limits.closed.count(why);
            return Ok(());
        }
        // In a box, which is gone when the connection is idle.
        met = Box::pin(meet(desk, &plan, stream, ends, (&mut room, vouched))) => met?,
    };
    let Some(met) = met else { return Ok(()) };
    room.greeted();
    let Met { line, ends: Ends { peer, local }, session } = met;
    match line {
        Line::Clear(stream) => {
            let (session, alpn) = (None, None);
            serve(desk, Accepted { stream, peer, local, session, alpn, plan, seat }, stop).await
        }
        Line::Tls(stream) => {
            let alpn = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            let stream = *stream;
            serve(desk, Accepted { stream, peer, local, session, alpn, plan, seat }, stop).await
        }
    }
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
}

/// What a connection is read from and written to.
enum Line {
    Clear(Inlet),
    Tls(Box<TlsStream<Inlet>>),
}

/// A connection that has begun.
struct Met {
    line: Line,
    ends: Ends,
    session: Option<Arc<Session>>,
}

/// Reads the PROXY header and makes the handshake, where there is to be one; none if the client may not stay, or wants no more.
async fn meet(
    desk: &Desk,
    plan: &Plan,
    mut stream: TcpStream,
    mut ends: Ends,
    (room, vouched): (&mut Room, bool),
) -> io::Result<Option<Met>> {
    let mut ahead = Box::default();
    if let Some(spec) = &plan.spec.proxy {
        let header = proxy::stream(spec, &mut stream, ends).await;
        let header = header.inspect_err(|_| desk.limits.closed.proxy.increment(1))?;
        (ends, ahead) = (header.ends, header.ahead);
        if vouched && !room.claim(ends.peer.ip(), &plan.spec.limits) {
            return Ok(None);
        }
    }
    let mut inlet = Inlet::new(stream, ahead);
    let Some(config) = plan.tls.clone() else {
        inlet.open();
        return Ok(Some(Met { line: Line::Clear(inlet), ends, session: None }));
    };
    let limit = plan.spec.limits.handshake();
    let mut stream = handshake::shake(config, inlet, limit, &desk.limits.closed).await?;
    // A certificate authority only wanted to see the certificate (RFC 8737 §3), and is nobody that can be known.
    if stream.get_ref().1.alpn_protocol() == Some(certs::ACME_ALPN) {
        return Ok(None);
    }
    let session = Arc::new(handshake::facts(stream.get_ref().1));
    if !desk.admit(room.seat(), &session) {
        desk.limits.closed.revoked.increment(1);
        timeout(plan.timeouts.write, stream.shutdown()).await??;
        return Ok(None);
    }
    Ok(Some(Met { line: Line::Tls(Box::new(stream)), ends, session: Some(session) }))
}

/// Serves a connection by its listener's transport. What that takes is in a box of its own size.
fn serve<'a, S>(
    desk: &'a Desk,
    accepted: Accepted<S>,
    stop: Stop,
) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>
where
    S: Outlet + 'static,
{
    let seat = Arc::clone(&accepted.seat);
    match desk.key.transport {
        Transport::Https => {
            Box::pin(until_told(desk, seat, stop, |stop| https::serve(desk, accepted, stop)))
        }
        Transport::Grpc => {
            Box::pin(until_told(desk, seat, stop, |stop| grpc::serve(desk, accepted, stop)))
        }
        _ => Box::pin(tcp::serve(desk, accepted, stop)),
    }
}

/// Serves a connection whose transport has no other end than a drained one: it drains when its listener does, and when it
/// alone is told to end; one that may stay no longer ends at once.
async fn until_told<F>(
    desk: &Desk,
    seat: Arc<Seat>,
    mut stop: Stop,
    serve: impl FnOnce(Stop) -> F,
) -> io::Result<()>
where
    F: Future<Output = io::Result<()>>,
{
    let own = Stopper::new(stop.grace);
    let mut served = pin!(serve(own.stop()));
    tokio::select! {
        served = &mut served => return served,
        () = stop.reached(Stage::Draining) => {}
        why = seat.told() => {
            desk.limits.closed.count(why);
            if why == Leave::Revoked {
                return Ok(());
            }
        }
    }
    own.reach(Stage::Draining);
    served.await
}

/// The address without the IPv6 form of an IPv4 one.
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
