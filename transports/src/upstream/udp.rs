//! UDP sockets to an upstream.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use engine::metrics::Counter;
use tokio::io::{Interest, Ready};
use tokio::time::{Instant, sleep_until};

use super::{
    Cause,
    conn::{Broken, Conn},
};

/// The largest datagram that is read; longer ones come cut, and count as truncated.
pub(super) const MAX_DATAGRAM: usize = 4096;

/// How many datagrams are read in a row.
const BURST: usize = 64;

/// Opens a socket with a random port, connected, so that only the upstream's datagrams reach it (RFC 5452 §9.2), and starts
/// the task that reads it. It takes no queries after `life`, and then stays for `linger` at most.
pub(super) fn open(
    addr: SocketAddr,
    source: Option<IpAddr>,
    life: Duration,
    linger: Duration,
    strays: Counter,
) -> io::Result<Arc<Conn>> {
    let socket = UdpSocket::bind(SocketAddr::new(source.unwrap_or_else(|| any(addr)), 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(addr)?;
    let conn = Conn::new(Some(tokio::net::UdpSocket::from_std(socket)?), strays);
    let retire = conn.made + life;
    tokio::spawn(read(Arc::clone(&conn), retire, retire + linger));
    Ok(conn)
}

/// The unspecified address of an address's family.
pub(super) fn any(addr: SocketAddr) -> IpAddr {
    match addr {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Breaks a connection off when its task ends, whatever ends it.
pub(super) struct Task(pub(super) Arc<Conn>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.break_off(Broken::Closed);
    }
}

/// Gives what comes to the queries, until the socket is over.
async fn read(conn: Arc<Conn>, retire: Instant, end: Instant) {
    let task = Task(conn);
    let conn = &task.0;
    let Some(socket) = &conn.socket else { return };
    let mut buffer = [0u8; MAX_DATAGRAM + 1];
    let time = sleep_until(retire);
    tokio::pin!(time);
    while !conn.is_over() {
        tokio::select! {
            ready = socket.ready(Interest::READABLE | Interest::ERROR) => {
                if let Err(error) = ready.and_then(|ready| drain(conn, socket, ready, &mut buffer)) {
                    return conn.break_off(Broken::Io(Cause::from(&error)));
                }
            }
            () = time.as_mut() => {
                if time.deadline() >= end {
                    return;
                }
                conn.retire();
                time.as_mut().reset(end);
            }
            () = conn.wake.notified() => {}
        }
    }
}

/// Reads what is there. An error, such as that nobody listens, comes without anything to read.
fn drain(
    conn: &Conn,
    socket: &tokio::net::UdpSocket,
    ready: Ready,
    buffer: &mut [u8],
) -> io::Result<()> {
    let or_later = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other,
    };
    if ready.is_error() {
        or_later(socket.try_io(Interest::ERROR, || {
            Err(socket.take_error()?.unwrap_or_else(|| io::ErrorKind::WouldBlock.into()))
        }))?;
    }
    for _ in 0..BURST {
        match socket.try_recv(buffer) {
            Ok(len) => conn.deliver(&buffer[..len]),
            Err(error) => return or_later(Err(error)),
        }
    }
    Ok(())
}
