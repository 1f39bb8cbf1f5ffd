//! Tells the servers that copy a zone that it has changed (RFC 1996).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use engine::{Role, Roles, Stage, Stop};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wire::{Flags, Name, Request, opcode, rcode, rtype};

use super::{Stanza, longest};
use crate::shared::tsig::Checker;

/// How often the zones' serials are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// The least time between two notices of one zone: clusters change all the time.
const PAUSE: Duration = Duration::from_secs(10);
/// How often a server is told that does not answer.
const TRIES: u32 = 3;
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was told of a zone.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its serial.
    serial: u32,
    /// When.
    at: Instant,
}

/// Watches the zones' serials and tells of changes until the process stops.
pub(super) async fn run(stanzas: Vec<Stanza>, roles: Roles, mut stop: Stop) {
    let told = tell_all(&stanzas, &roles);
    tokio::select! {
        () = told => {}
        () = stop.reached(Stage::Draining) => {}
    }
}

/// Tells of every zone once it can be copied, and of every change.
async fn tell_all(stanzas: &[Stanza], roles: &Roles) {
    let mut known: HashMap<Name, Known> = HashMap::new();
    let mut under_way = JoinSet::new();
    loop {
        let now = Instant::now();
        for (zone, serial) in changed(&known, roles, now) {
            known.insert(zone.clone(), Known { serial, at: now });
            if let Some(stanza) = longest(stanzas, &zone).filter(|one| !one.to.is_empty()) {
                under_way.spawn(tell(zone, stanza.clone()));
            }
        }
        while under_way.try_join_next().is_some() {}
        sleep(LOOK).await;
    }
}

/// The zones whose serial is another one than what was told, unless that was just now.
fn changed(known: &HashMap<Name, Known>, roles: &Roles, now: Instant) -> Vec<(Name, u32)> {
    let mut changed = Vec::new();
    for (_, role) in roles.iter() {
        let Role::Transfer(source) = role else { continue };
        source.serials(&mut |zone, serial| {
            let new = known.get(zone).is_none_or(|old| {
                old.serial != serial && now.saturating_duration_since(old.at) >= PAUSE
            });
            if new {
                changed.push((zone.clone(), serial));
            }
        });
    }
    changed
}

/// Tells the servers of a stanza that a zone has changed.
async fn tell(zone: Name, stanza: Stanza) {
    let targets = stanza.to.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    log::debug!(target: "plugin/transfer", "Sent notifies for zone \"{zone}\" to {targets}");
    let mut under_way = JoinSet::new();
    for server in stanza.to {
        let (zone, key) = (zone.clone(), stanza.key.clone());
        under_way.spawn(async move {
            let mut trouble = String::new();
            for _ in 0..TRIES {
                let mut message = notice(&zone);
                let checker = key.as_ref().map(|key| key.sign(&mut message));
                match ask(server, stanza.source, &message, checker).await {
                    Ok(()) => return None,
                    Err(error) => trouble = error.to_string(),
                }
            }
            Some(format!("{server}: {trouble}"))
        });
    }
    let failures: Vec<String> = under_way.join_all().await.into_iter().flatten().collect();
    if !failures.is_empty() {
        log::warn!(
            target: "plugin/transfer",
            "failed to notify for zone \"{zone}\": {}", failures.join(", ")
        );
    }
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
