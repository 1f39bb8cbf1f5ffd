//! Whether an upstream is there, found out by asking it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};
use wire::{Edns, Flags, Name, Request, class, rtype};

use super::{Protocol, Turn, Upstream, tcp, udp};

/// How long a check waits for a reply.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// How an upstream is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// How long to wait between two checks.
    pub interval: Duration,
    /// Whether recursion is asked for.
    pub recursion: bool,
    /// The name that is asked for its NS records.
    pub domain: Name,
    /// How it is asked if it is not encrypted.
    pub protocol: Protocol,
}

impl Default for Check {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            recursion: true,
            domain: Name::ROOT,
            protocol: Protocol::Udp,
        }
    }
}

impl Check {
    /// The query that is sent.
    fn request(&self) -> Request {
        Request {
            name: self.domain.clone(),
            class: class::IN,
            rtype: rtype::NS,
            flags: if self.recursion { Flags::RD } else { Flags::default() },
            edns: Edns::default(),
        }
    }
}

impl Upstream {
    /// Has the upstream checked until it replies, unless that is under way or checks are off. To be called in a runtime.
    pub fn suspect(self: &Arc<Self>) {
        if self.settings.max_fails == 0 || self.checking.swap(true, Ordering::AcqRel) {
            return;
        }
        let weak = Arc::downgrade(self);
        tokio::spawn(async move {
            // Connections of before may be what is wrong; those that checks have made are for all of them.
            let since = Instant::now();
            loop {
                // The upstream may be gone with its configuration.
                let Some(upstream) = weak.upgrade() else { return };
                if upstream.replies(since).await {
                    upstream.fails.store(0, Ordering::Release);
                    upstream.checking.store(false, Ordering::Release);
                    return;
                }
                upstream.fails.fetch_add(1, Ordering::AcqRel);
                upstream.figures.check_failed();
                let interval = upstream.settings.check.interval;
                drop(upstream);
                tokio::time::sleep(interval).await;
            }
        });
    }

    /// Sends a check; whether there is a reply. An encrypted upstream is checked by a connection made after `since`, which is
    /// kept.
    async fn replies(&self, since: Instant) -> bool {
        let check = &self.settings.check;
        let request = check.request();
        match self.secure() {
            None => {
                let source = self.settings.source;
                ask(self.addr, source, check.protocol, &request, PATIENCE).await.is_ok()
            }
            Some(protocol) => {
                let write = |id: u16, out: &mut Vec<u8>| wire::encode_query(&request, id, out);
                self.once(protocol, Turn::Check(since), &write).await.is_ok()
            }
        }
    }

    /// Whether so many checks have failed in a row that it is not to be asked.
    pub fn is_down(&self) -> bool {
        let most = self.settings.max_fails;
        most > 0 && self.fails.load(Ordering::Acquire) > most
    }
}

/// Sends one query by a socket of its own, in clear, and waits for a response of any kind with its id.
///
/// # Errors
/// Those of the socket; [`io::ErrorKind::TimedOut`] if nothing came in time.
pub async fn ask(
    addr: SocketAddr,
    source: Option<IpAddr>,
    protocol: Protocol,
    request: &Request,
    patience: Duration,
) -> io::Result<()> {
    let mut query = Vec::with_capacity(64);
    wire::encode_query(request, super::conn::random_id(), &mut query);
    let exchange = async {
        match protocol {
            Protocol::Udp => ask_udp(addr, source, &query).await,
            _ => ask_tcp(addr, source, &query).await,
        }
    };
    timeout(patience, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Whether a message is a response with the query's id.
fn fits(query: &[u8], message: &[u8]) -> bool {
    message.len() >= 12 && message[..2] == query[..2] && message[2] & 0x80 != 0
}

/// Asks by UDP; what does not fit is passed over.
async fn ask_udp(addr: SocketAddr, source: Option<IpAddr>, query: &[u8]) -> io::Result<()> {
    let own = SocketAddr::new(source.unwrap_or_else(|| udp::any(addr)), 0);
    let socket = tokio::net::UdpSocket::bind(own).await?;
    socket.connect(addr).await?;
    socket.send(query).await?;
    let mut buffer = [0u8; 512];
    loop {
        let len = socket.recv(&mut buffer).await?;
        if fits(query, &buffer[..len]) {
            return Ok(());
        }
    }
}

/// Asks by TCP.
async fn ask_tcp(addr: SocketAddr, source: Option<IpAddr>, query: &[u8]) -> io::Result<()> {
    let mut stream = tcp::connect(addr, source).await?;
    let len = u16::try_from(query.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let framed = [&len.to_be_bytes()[..], query].concat();
    stream.write_all(&framed).await?;
    let len = stream.read_u16().await?;
    let mut message = vec![0; usize::from(len)];
    stream.read_exact(&mut message).await?;
    if fits(query, &message) { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
