//! `loop`.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use config::Diagnostic;
use engine::{BindAddr, Setup, Transport};
use wire::Name;

use super::handler::{Loop, Probe};

/// Makes the block's probe.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    directive.no_block()?;
    let zone = setup.zones().first().cloned().unwrap_or(Name::ROOT);
    let name = draw(&zone)
        .ok_or_else(|| directive.name.fault(format!("{zone} is too long for a probe below it")))?;
    let bind = setup.listener().bind.first().copied();
    let is_nowhere = setup.listener().nowhere;
    let plain = setup.keys().iter().find(|key| key.transport == Transport::Udp);
    let (to, listens) = match plain {
        Some(key) if !is_nowhere => (Some(target(bind, key.port)), shown(bind, key.port)),
        _ => (None, String::new()),
    };
    let probe = Arc::new(Probe {
        name,
        zone,
        listens,
        seen: AtomicU32::new(0),
        off: AtomicBool::new(to.is_none()),
        process: Arc::clone(setup.process()),
    });
    setup.install(Loop(Arc::clone(&probe)));
    match to {
        Some(to) => setup.task(move |stop| probe.run(to, stop)),
        None => setup.warn(
            directive.name.wrong("looks for nothing: the block has no listener of plain DNS"),
        ),
    }
    Ok(())
}

/// A name below `zone` that nobody can guess: two numbers from the system's randomness.
fn draw(zone: &Name) -> Option<Name> {
    let number = || RandomState::new().hash_one(0).to_string();
    zone.child(number().as_bytes())?.child(number().as_bytes())
}

/// Where a listener can be reached from here.
fn target(bind: Option<BindAddr>, port: u16) -> SocketAddr {
    match bind.map(|bind| (bind.ip, bind.scope)) {
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        Some((IpAddr::V4(ip), _)) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, port).into(),
        Some((IpAddr::V6(ip), _)) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, port).into(),
        Some((IpAddr::V4(ip), _)) => (ip, port).into(),
        Some((IpAddr::V6(ip), scope)) => SocketAddrV6::new(ip, port, 0, scope).into(),
    }
}

/// A listener as the configuration names it: `:53`, `198.51.100.1:53`.
fn shown(bind: Option<BindAddr>, port: u16) -> String {
    match bind {
        None => format!(":{port}"),
        Some(bind) => SocketAddr::new(bind.ip, port).to_string(),
    }
}
