//! `/health`, and asking it oneself.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use engine::admin::{Ask, Handler, Told};
use engine::metrics::{self, Counter, Histogram, SLIM_TIME_BUCKETS};
use engine::{Stage, Stop};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::shared::span::Span;

/// How long the process takes to answer itself.
const DURATION: &str = "coredns_health_request_duration_seconds";

/// How often it did not.
const FAILURES: &str = "coredns_health_request_failures_total";

/// How often the process asks itself, and what takes too long.
const EVERY: Duration = Duration::from_secs(1);

/// When it gives up.
const LIMIT: Duration = Duration::from_secs(3);

/// Says that the process is alive, also while it is a lame duck: a restart then would cut queries off.
#[derive(Debug)]
pub(super) struct Page;

impl Handler for Page {
    fn handle(&self, _: Ask<'_>) -> Told {
        Told::text(200, "OK")
    }
}

/// Asks a page of this process.
#[derive(Debug)]
pub(super) struct Probe {
    /// Where it is reached.
    addr: SocketAddr,
    path: &'static str,
    duration: Arc<Histogram>,
    failures: Counter,
}

impl Probe {
    /// A probe of `path` at a listener for `addr`.
    pub(super) fn new(addr: SocketAddr, path: &'static str) -> Self {
        metrics::describe(DURATION, "How long the process took to answer its own health request.");
        metrics::describe(FAILURES, "Own health requests that failed.");
        let local = match addr {
            SocketAddr::V4(addr) if addr.ip().is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(addr) if addr.ip().is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            addr => addr.ip(),
        };
        Self {
            addr: SocketAddr::new(local, addr.port()),
            path,
            duration: metrics::histogram(DURATION, &[], &SLIM_TIME_BUCKETS),
            failures: metrics::counter(FAILURES, &[]),
        }
    }

    /// Asks once.
    async fn ask(&self) -> io::Result<()> {
        let stream = match TcpStream::connect(self.addr).await {
            // Where the machine has no IPv6, all addresses are those of IPv4.
            Err(error) if self.addr.ip() == Ipv6Addr::LOCALHOST => {
                let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, self.addr.port()));
                TcpStream::connect(addr).await.map_err(|_| error)
            }
            other => other,
        };
        let mut stream = stream?;
        let (path, host) = (self.path, self.addr);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        if head.ends_with(b" 200") {
            return Ok(());
        }
        let status = String::from_utf8_lossy(&head).into_owned();
        Err(io::Error::other(format!("the reply begins with {status:?}")))
    }

    /// Asks once, counts, and says what is wrong.
    async fn check(&self) {
        let begin = Instant::now();
        let asked = timeout(LIMIT, self.ask()).await;
        let took = begin.elapsed();
        self.duration.record(took.as_secs_f64());
        let url = format!("http://{}{}", self.addr, self.path);
        let failed = match asked {
            Ok(Ok(())) if took > EVERY => {
                let took = Span(took);
                log::warn!(target: "plugin/health", "Local health request to {url:?} took more than 1s: {took}");
                return;
            }
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no reply within {}", Span(LIMIT)),
        };
        self.failures.increment(1);
        log::warn!(target: "plugin/health", "Local health request to {url:?} failed: {failed}");
    }
}

/// Asks again and again until the configuration is replaced or the process ends.
pub(super) async fn watch(probe: Probe, mut stop: Stop) {
    let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let asking = async {
        loop {
            ticks.tick().await;
            probe.check().await;
        }
    };
    tokio::select! {
        () = asking => {}
        () = stop.reached(Stage::Draining) => {}
    }
}
