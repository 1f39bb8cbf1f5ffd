//! What plugins know of the machine: its name, and the addresses of its interfaces.

use std::io;
use std::net::IpAddr;

use engine::{BindAddr, Setup};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The interface's name.
    pub name: String,
    /// Its number, 0 if it has none.
    pub index: u32,
    /// The address.
    pub ip: IpAddr,
}

impl Interface {
    /// What to bind for this address: with the interface's number if it is link-local (RFC 4007 §6).
    pub fn bind_addr(&self) -> BindAddr {
        let scope = if is_link_local(self.ip) { self.index } else { 0 };
        BindAddr { ip: self.ip, scope }
    }
}

/// The addresses of all interfaces, in the system's order.
///
/// # Errors
/// The system's.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let found = if_addrs::get_if_addrs()?.into_iter().map(|one| Interface {
        ip: one.ip(),
        index: one.index.unwrap_or(0),
        name: one.name,
    });
    Ok(found.collect())
}

/// The machine's name; `localhost` if it has none.
pub fn hostname() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// Whether an address means something on one link only: `fe80::/10` (RFC 4291 §2.5.6).
pub fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The addresses by which others reach this process: those that are bound, or those of all interfaces, without what means
/// something on this machine or one link only.
pub fn own_addresses(setup: &mut Setup<'_>) -> Box<[IpAddr]> {
    let bound = setup.listener().bind.iter().map(|addr| addr.ip).collect::<Vec<_>>();
    let all = if bound.is_empty() {
        interfaces().unwrap_or_default().into_iter().map(|one| one.ip).collect()
    } else {
        bound
    };
    let mut own: Vec<_> = all
        .into_iter()
        .filter(|ip| !ip.is_loopback() && !ip.is_unspecified() && !is_link_local(*ip))
        .collect();
    own.sort_unstable();
    own.dedup();
    own.into()
}
