//! Sending the probe, and seeing it come back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use engine::{Exchange, Plugin, Process, Stage, Step, Stop};
use tokio::time::{Instant, sleep};
use transports::upstream::{Protocol, ask};
use wire::{Flags, Name, Request, rtype};

/// How long the probe is sent, at most.
const SENDING: Duration = Duration::from_secs(30);

/// How long a reply to the probe is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause after a probe that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// How long the probe is watched for after it went through.
const WATCHING: Duration = Duration::from_secs(2);

/// How often the probe is seen if there is no loop: once.
const ONCE: u32 = 1;

/// A probe.
#[derive(Debug)]
pub(super) struct Probe {
    /// The name that it asks for.
    pub(super) name: Name,
    /// The zone that it is in.
    pub(super) zone: Name,
    /// The address that it is sent to, as the configuration has it.
    pub(super) listens: String,
    /// How often it has come.
    pub(super) seen: AtomicU32,
    /// Whether nobody looks any more.
    pub(super) off: AtomicBool,
    pub(super) process: Arc<Process>,
}

/// Watches for the probe.
#[derive(Debug)]
pub(super) struct Loop(pub(super) Arc<Probe>);

impl Plugin for Loop {
    fn query(&self, x: &mut Exchange) -> Step {
        let probe = &self.0;
        let request = x.request();
        if request.rtype != rtype::HINFO
            || probe.off.load(Ordering::Acquire)
            || request.name != probe.name
        {
            return Step::Next;
        }
        if probe.seen.fetch_add(1, Ordering::AcqRel) < ONCE {
            return Step::Next;
        }
        let Probe { name, zone, listens, .. } = &**probe;
        probe.process.end(format!(
            "[FATAL] plugin/loop: Loop ({} -> {listens}) detected for zone \"{zone}\", see \
             https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO {name}\"",
            x.query.peer
        ));
        Step::Drop
    }
}

impl Probe {
    /// Sends the probe until it gets a reply, and watches for a while.
    pub(super) async fn run(self: Arc<Self>, to: SocketAddr, mut stop: Stop) {
        tokio::select! {
            () = self.send(to) => {}
            () = stop.reached(Stage::Draining) => {}
        }
        self.off.store(true, Ordering::Release);
    }

    /// Sends the probe again and again until a reply comes, for a while.
    async fn send(&self, to: SocketAddr) {
        let request = Request {
            name: self.name.clone(),
            rtype: rtype::HINFO,
            flags: Flags::RD,
            ..Request::default()
        };
        let end = Instant::now() + SENDING;
        while Instant::now() < end {
            if ask(to, None, Protocol::Udp, &request, PATIENCE).await.is_ok() {
                return sleep(WATCHING).await;
            }
            // Nothing is known of a probe that was lost; the next one counts from the beginning.
            self.seen.store(0, Ordering::Release);
            sleep(PAUSE).await;
        }
    }
}
