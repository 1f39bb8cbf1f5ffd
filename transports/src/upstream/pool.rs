//! The sockets and connections to an upstream that one worker has.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use rustix::process::{Resource, getrlimit};
use tokio::time::Instant;

use super::conn::{Conn, Ticket, random_id};
use super::{Protocol, Upstream, tcp, udp};

/// How many UDP sockets to one upstream a worker has. Each has a random port, and each query a random one of them. Where the
/// process may have few files open they are fewer, so that clients and other upstreams have some too.
static SOCKETS: LazyLock<usize> = LazyLock::new(|| {
    let soft = getrlimit(Resource::Nofile).current;
    sockets_within(soft.map_or(usize::MAX, |soft| usize::try_from(soft).unwrap_or(usize::MAX)))
});

/// How many connections of TCP or TLS to one upstream a worker has before it sends several queries by one (RFC 7766 §6.2.1.1).
const CONNECTIONS: usize = 8;

/// How many UDP sockets those are for a limit of open files.
fn sockets_within(soft: usize) -> usize {
    (soft / 64).clamp(4, 32)
}

/// The sockets and connections of one worker.
#[derive(Debug, Default)]
pub(super) struct Pool {
    udp: Vec<Arc<Conn>>,
    /// Streams of TCP, or of TLS if the upstream speaks that.
    tcp: Vec<Arc<Conn>>,
}

impl Drop for Pool {
    /// Their tasks end once the queries under way have.
    fn drop(&mut self) {
        self.udp.iter().chain(&self.tcp).for_each(|conn| conn.retire());
    }
}

/// The number of the thread that runs this, from 0 in the order in which threads first ask.
pub(super) fn worker() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        let number = own.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed));
        own.set(Some(number));
        number
    })
}

impl Pool {
    /// Begins a query on a connection, on one made after `since` if that is given; tells whether it was made for this query.
    /// None if all are full.
    pub(super) fn begin(
        &mut self,
        upstream: &Upstream,
        protocol: Protocol,
        since: Option<Instant>,
        write: &(dyn Fn(u16, &mut Vec<u8>) + Sync),
    ) -> io::Result<Option<(Ticket, bool)>> {
        let settings = &upstream.settings;
        let (conns, most) = match protocol {
            Protocol::Udp => (&mut self.udp, *SOCKETS),
            _ => (&mut self.tcp, CONNECTIONS),
        };
        conns.retain(|conn| !conn.is_spent());
        let known = choose(conns, protocol, since);
        if let Some(ticket) = known.and_then(|conn| conn.begin(write)) {
            return Ok(Some((ticket, false)));
        }
        if conns.len() >= most * 2 {
            return Ok(None);
        }
        let strays = upstream.figures.strays();
        let conn = match protocol {
            Protocol::Udp => {
                let life =
                    settings.max_age.map_or(settings.expire, |most| settings.expire.min(most));
                let (source, linger) = (settings.source, settings.read_timeout);
                match udp::open(upstream.addr, source, life, linger, strays) {
                    Ok(conn) => conn,
                    // Mostly for want of descriptors: one that is there does as well.
                    Err(error) => {
                        let known = least_loaded(conns, since).and_then(|conn| conn.begin(write));
                        return known.map(|ticket| Some((ticket, false))).ok_or(error);
                    }
                }
            }
            _ => tcp::open(upstream.road(), Arc::clone(&upstream.dial), settings.life(), strays),
        };
        conns.push(Arc::clone(&conn));
        let ticket = conn.begin(write);
        if settings.max_idle > 0 {
            trim(conns, settings.max_idle);
        }
        Ok(ticket.map(|ticket| (ticket, true)))
    }

    /// Has no more than `most` connections of a protocol idle.
    pub(super) fn trim(&mut self, protocol: Protocol, most: usize) {
        match protocol {
            Protocol::Udp => trim(&mut self.udp, most),
            _ => trim(&mut self.tcp, most),
        }
    }
}

/// The connection to use again. Of sockets any one, once there are enough of them, so that nobody knows which. A stream
/// without a query under way, or once there are enough of them the one with the fewest. What was made before `since` has lost
/// the query already, or may be about to.
fn choose(conns: &[Arc<Conn>], protocol: Protocol, since: Option<Instant>) -> Option<&Arc<Conn>> {
    match protocol {
        Protocol::Udp if conns.len() < *SOCKETS => None,
        Protocol::Udp => {
            let drawn = conns.get(usize::from(random_id()) % conns.len())?;
            let room = drawn.load().filter(|_| since.is_none()).map(|_| drawn);
            room.or_else(|| least_loaded(conns, since))
        }
        _ => {
            let conn = least_loaded(conns, since)?;
            (conn.load() == Some(0) || conns.len() >= CONNECTIONS).then_some(conn)
        }
    }
}

/// Has no more than `most` connections idle; the oldest go.
fn trim(conns: &mut Vec<Arc<Conn>>, most: usize) {
    let idle = conns.iter().filter(|conn| conn.is_idle()).count();
    let mut surplus = idle.saturating_sub(most);
    conns.retain(|conn| {
        let goes = surplus > 0 && conn.is_idle();
        if goes {
            surplus -= 1;
            conn.retire();
        }
        !goes
    });
}

/// The connection with the fewest queries under way, of those made after `since`, if any may take one more.
fn least_loaded(conns: &[Arc<Conn>], since: Option<Instant>) -> Option<&Arc<Conn>> {
    let new = conns.iter().filter(|conn| since.is_none_or(|since| conn.made >= since));
    let open = new.filter_map(|conn| Some((conn.load()?, conn)));
    open.min_by_key(|(load, _)| *load).map(|(_, conn)| conn)
}

#[cfg(test)]
mod tests {
    use super::sockets_within;

    #[test]
    fn few_open_files_mean_few_sockets() {
        let table = [(160, 4), (1024, 16), (4096, 32), (usize::MAX, 32)];
        for (soft, sockets) in table {
            assert_eq!(sockets_within(soft), sockets, "{soft}");
        }
    }
}
