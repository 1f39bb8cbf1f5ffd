//! Tells the servers that copy a zone that it has changed (RFC 1996).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use engine::metrics::{counter, describe};
use engine::{Role, Roles, Stage, Stop};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use wire::{Flags, Name, Request, opcode, rcode, rtype};

use super::{Stanza, longest};
use crate::shared::tsig::{Checker, Key};

/// How often the zones' serials are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// The least time between two notices of a zone to one server.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a server that did not answer is left alone; twice as long each time before it is told the same again.
const REST: Duration = Duration::from_secs(10);
/// How often it is told the same again (RFC 1996 §3.6 has 5).
const REPEATS: u32 = 5;
/// How often a server is told that does not answer, each time.
const TRIES: u32 = 3;
/// How long an answer is waited for, and how long a try takes at least that fails.
const PATIENCE: Duration = Duration::from_secs(2);
/// Notices, by what became of them.
const NOTICES: &str = "causeway_transfer_notices_total";

/// What one server knows of one zone.
#[derive(Debug)]
struct Known {
    /// The serial that it was told of last.
    serial: u32,
    /// When it may be told of another serial.
    next: Instant,
    /// When it is told of this one again, since it did not answer.
    again: Option<Instant>,
    /// How often it has been told of this one again.
    repeats: u32,
    /// Whether it is being told.
    is_busy: bool,
    /// Whether it did not answer last time.
    fails: bool,
}

/// What is known of the servers, each by zone.
type Servers = HashMap<(Name, SocketAddr), Known>;

/// What became of a notice: of which zone, to whom, and what was wrong.
type Outcome = (Name, SocketAddr, Result<(), String>);

/// Watches the zones' serials and tells of changes until the process stops.
pub(super) async fn run(stanzas: Vec<Stanza>, roles: Roles, mut stop: Stop) {
    describe(NOTICES, "Notices of changed zones to servers, by whether they were answered.");
    let told = tell_all(&stanzas, &roles);
    tokio::select! {
        () = told => {}
        () = stop.reached(Stage::Draining) => {}
    }
}

/// Tells of every zone once it can be copied, and of every change.
async fn tell_all(stanzas: &[Stanza], roles: &Roles) {
    let mut servers = Servers::new();
    let mut under_way: JoinSet<Outcome> = JoinSet::new();
    loop {
        while let Some(ended) = under_way.try_join_next() {
            match ended {
                Ok(outcome) => note(&mut servers, outcome),
                Err(error) => {
                    log::error!(target: "plugin/transfer", "a notice ended early: {error}")
                }
            }
        }
        for (zone, serial) in serials(roles) {
            let Some(stanza) = longest(stanzas, &zone) else { continue };
            let now = Instant::now();
            let due: Vec<SocketAddr> = stanza
                .to
                .iter()
                .copied()
                .filter(|server| is_due(&mut servers, (&zone, *server), serial, now))
                .collect();
            if !due.is_empty() {
                let targets = due.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                log::debug!(target: "plugin/transfer", "Sent notifies for zone \"{zone}\" to {targets}");
            }
            for server in due {
                let (zone, source, key) = (zone.clone(), stanza.source, stanza.key.clone());
                under_way.spawn(async move {
                    let told = tell(&zone, server, source, key.as_ref()).await;
                    (zone, server, told)
                });
            }
        }
        sleep(LOOK).await;
    }
}

/// The zones that can be copied, and their serials.
fn serials(roles: &Roles) -> Vec<(Name, u32)> {
    let mut all = Vec::new();
    for (_, role) in roles.iter() {
        let Role::Transfer(source) = role else { continue };
        source.serials(&mut |zone, serial| all.push((zone.clone(), serial)));
    }
    all
}

/// Whether a server has to be told that a zone has a serial; notes that it is.
fn is_due(
    servers: &mut Servers,
    (zone, server): (&Name, SocketAddr),
    serial: u32,
    now: Instant,
) -> bool {
    let next = now + PAUSE;
    let fresh = Known { serial, next, again: None, repeats: 0, is_busy: true, fails: false };
    let Some(known) = servers.get_mut(&(zone.clone(), server)) else {
        servers.insert((zone.clone(), server), fresh);
        return true;
    };
    if known.is_busy {
        return false;
    }
    if known.serial != serial && known.next <= now {
        *known = Known { fails: known.fails, ..fresh };
        return true;
    }
    let is_repeat = known.serial == serial && known.again.is_some_and(|again| again <= now);
    if is_repeat {
        *known = Known { repeats: known.repeats + 1, fails: known.fails, ..fresh };
    }
    is_repeat
}

/// Notes what became of a notice. That a server does not answer is told once, and that it does again.
fn note(servers: &mut Servers, (zone, server, outcome): Outcome) {
    counter(NOTICES, &[("result", if outcome.is_ok() { "answered" } else { "failed" })])
        .increment(1);
    let Some(known) = servers.get_mut(&(zone.clone(), server)) else { return };
    known.is_busy = false;
    let failed_before = std::mem::replace(&mut known.fails, outcome.is_err());
    match outcome {
        Ok(()) if failed_before => {
            log::info!(target: "plugin/transfer", "{server} answers to notifies for zone \"{zone}\" again");
        }
        Ok(()) => {}
        Err(trouble) => {
            let now = Instant::now();
            known.next = now + REST;
            known.again = (known.repeats < REPEATS).then(|| now + REST * (1 << known.repeats));
            let level = if failed_before { log::Level::Debug } else { log::Level::Warn };
            log::log!(
                target: "plugin/transfer", level,
                "failed to notify for zone \"{zone}\": {server}: {trouble}"
            );
        }
    }
}

/// Tells a server that a zone has changed.
async fn tell(
    zone: &Name,
    server: SocketAddr,
    source: Option<IpAddr>,
    key: Option<&Key>,
) -> Result<(), String> {
    let mut trouble = String::new();
    let mut begun = Instant::now();
    for attempt in 0..TRIES {
        if attempt > 0 {
            // A server that is being restarted refuses at once.
            sleep_until(begun + PATIENCE).await;
            begun = Instant::now();
        }
        let mut message = notice(zone);
        let checker = key.map(|key| key.sign(&mut message));
        match ask(server, source, &message, checker).await {
            Ok(()) => return Ok(()),
            Err(error) => trouble = error.to_string(),
        }
    }
    Err(trouble)
}

/// The message that a zone has changed (RFC 1996 §3.7).
fn notice(zone: &Name) -> Vec<u8> {
    let flags = Flags(u16::from(opcode::NOTIFY) << 11);
    let request = Request { name: zone.clone(), rtype: rtype::SOA, flags, ..Request::default() };
    let mut message = Vec::new();
    // A hasher with a fresh key is as good as a random number here.
    let id = RandomState::new().hash_one(zone) as u16;
    wire::encode_query(&request, id, &mut message);
    // AA says that this is the zone's own server.
    if let Some(flags) = message.get_mut(2) {
        *flags |= 0x04;
    }
    message
}

/// Sends a notice and waits for the answer.
async fn ask(
    server: SocketAddr,
    source: Option<IpAddr>,
    message: &[u8],
    mut checker: Option<Checker>,
) -> io::Result<()> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((source.unwrap_or(any), 0)).await?;
    socket.connect(server).await?;
    socket.send(message).await?;
    let mut reply = [0u8; 4096];
    let answered = async {
        loop {
            let len = socket.recv(&mut reply).await?;
            let reply = reply.get(..len).unwrap_or_default();
            match reply {
                [high, low, bits, code, ..]
                    if message.starts_with(&[*high, *low]) && bits & 0x80 != 0 =>
                {
                    if let Some(checker) = &mut checker {
                        checker.check(reply).map_err(io::Error::other)?;
                    }
                    return io::Result::Ok(u16::from(code & 0xf));
                }
                // Somebody else's, or a late one.
                _ => {}
            }
        }
    };
    match timeout(PATIENCE, answered).await {
        Ok(Ok(rcode::NOERROR)) => Ok(()),
        Ok(Ok(code)) => {
            Err(io::Error::other(format!("rcode was {}", wire::text::rcode_name(code))))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("no answer")),
    }
}
