//! How records are packed into bytes: short, self-delimiting, and read without copying.
//!
//! Whatever is read here was written here; a reader that runs short gives empty strings instead of a panic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::object::{Endpoint, Place, Pod, Port, Protocol, Service};

/// The endpoint is ready.
pub(crate) const READY: u8 = 1;
/// The endpoint's address is an IPv6 one.
pub(crate) const V6: u8 = 2;
/// The endpoint is at a name.
pub(crate) const NAME: u8 = 4;
/// A hostname follows the address.
pub(crate) const HOSTNAME: u8 = 8;
/// A Pod's name follows.
pub(crate) const POD: u8 = 16;
/// The number of a zone in the slice's table follows.
pub(crate) const ZONE: u8 = 32;

/// Appends a number in seven-bit groups, the lowest first.
fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a string with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_number(out, text.len());
    out.extend_from_slice(text);
}

/// Appends addresses, the IPv4 ones first.
pub(crate) fn put_ips(out: &mut Vec<u8>, ips: &[IpAddr]) {
    put_number(out, ips.iter().filter(|ip| ip.is_ipv4()).count());
    put_number(out, ips.iter().filter(|ip| ip.is_ipv6()).count());
    for ip in ips {
        if let IpAddr::V4(ip) = ip {
            out.extend_from_slice(&ip.octets());
        }
    }
    for ip in ips {
        if let IpAddr::V6(ip) = ip {
            out.extend_from_slice(&ip.octets());
        }
    }
}

/// Packs a port set. Equal sets have equal bytes, so that they can be shared.
pub(crate) fn put_ports(out: &mut Vec<u8>, ports: &[Port<'_>]) {
    for port in ports {
        out.push(port.protocol as u8);
        out.extend_from_slice(&port.number.to_be_bytes());
        put_text(out, port.name.as_bytes());
    }
}

/// Packs a service but for its ports; says whether it has more than a name and cluster IPs.
pub(crate) fn put_service(out: &mut Vec<u8>, service: &Service<'_>) -> bool {
    put_text(out, service.meta.name.as_bytes());
    put_ips(out, &service.cluster_ips);
    let more = !(service.external_name.is_empty()
        && service.external_ips.is_empty()
        && service.balancer_ips.is_empty()
        && service.balancer_names.is_empty());
    if more {
        put_text(out, service.external_name.as_bytes());
        put_ips(out, &service.external_ips);
        put_ips(out, &service.balancer_ips);
        for name in &service.balancer_names {
            put_text(out, name.as_bytes());
        }
    }
    more
}

/// Packs a slice: what its name has after its service's, its table of zones, and its endpoints.
pub(crate) fn put_slice(
    out: &mut Vec<u8>,
    name: &[u8],
    endpoints: &[Endpoint<'_>],
    zones: bool,
    pods: bool,
) {
    put_text(out, name);
    let mut table: Vec<&str> = Vec::new();
    if zones {
        for endpoint in endpoints {
            let zone = &*endpoint.zone;
            if !zone.is_empty() && !table.contains(&zone) && table.len() <= usize::from(u8::MAX) {
                table.push(zone);
            }
        }
    }
    put_number(out, table.len());
    for zone in &table {
        put_number(out, zone.len());
        // Names compare without regard to case (RFC 4343), zones of Kubernetes may have capitals.
        out.extend(zone.bytes().map(|byte| byte.to_ascii_lowercase()));
    }
    for endpoint in endpoints {
        let zone = table.iter().position(|zone| *zone == endpoint.zone);
        let flags = match endpoint.place {
            Place::Ip(IpAddr::V4(_)) => 0,
            Place::Ip(IpAddr::V6(_)) => V6,
            Place::Name(_) => NAME,
        } | if endpoint.ready { READY } else { 0 }
            | if endpoint.hostname.is_empty() { 0 } else { HOSTNAME }
            | if endpoint.pod.is_empty() || !pods { 0 } else { POD }
            | if zone.is_none() { 0 } else { ZONE };
        out.push(flags);
        match &endpoint.place {
            Place::Ip(IpAddr::V4(ip)) => out.extend_from_slice(&ip.octets()),
            Place::Ip(IpAddr::V6(ip)) => out.extend_from_slice(&ip.octets()),
            Place::Name(name) => put_text(out, name.as_bytes()),
        }
        if flags & HOSTNAME != 0 {
            put_text(out, endpoint.hostname.as_bytes());
        }
        if flags & POD != 0 {
            put_text(out, endpoint.pod.as_bytes());
        }
        if let Some(zone) = zone {
            out.push(zone as u8);
        }
    }
}

/// Packs a pod.
pub(crate) fn put_pod(out: &mut Vec<u8>, pod: &Pod<'_>, labels: bool) {
    put_text(out, pod.meta.name.as_bytes());
    put_ips(out, &pod.ips);
    if labels {
        for (key, value) in &pod.labels {
            put_text(out, key.as_bytes());
            put_text(out, value.as_bytes());
        }
    }
}

/// Reads packed bytes from front to back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    /// Takes so many bytes, or none if there are fewer.
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at_checked(len).unwrap_or_default();
        self.0 = rest;
        taken
    }

    /// Takes one byte.
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// Takes a number.
    fn number(&mut self) -> usize {
        let mut number = 0;
        for shift in (0..usize::BITS).step_by(7) {
            let byte = self.byte();
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    /// Takes a string.
    pub(crate) fn text(&mut self) -> &'a [u8] {
        let len = self.number();
        self.take(len)
    }

    /// Takes addresses.
    pub(crate) fn ips(&mut self) -> Ips<'a> {
        let (v4, v6) = (self.number(), self.number());
        Ips { v4: self.take(v4.saturating_mul(4)), v6: self.take(v6.saturating_mul(16)) }
    }

    /// Takes a slice's table of zones.
    pub(crate) fn zones(&mut self) -> Zones<'a> {
        let count = self.number();
        let zones = Zones(self.0);
        for _ in 0..count {
            self.text();
        }
        zones
    }
}

/// Addresses, IPv4 before IPv6.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ips<'a> {
    /// Octets of the IPv4 addresses.
    v4: &'a [u8],
    /// Octets of the IPv6 addresses.
    v6: &'a [u8],
}

impl Ips<'_> {
    /// Says whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Says whether this address is among them.
    pub fn contains(self, ip: IpAddr) -> bool {
        self.into_iter().any(|other| other == ip)
    }
}

impl Iterator for Ips<'_> {
    type Item = IpAddr;

    fn next(&mut self) -> Option<IpAddr> {
        if let Some((ip, rest)) = self.v4.split_first_chunk::<4>() {
            self.v4 = rest;
            return Some(Ipv4Addr::from(*ip).into());
        }
        let (ip, rest) = self.v6.split_first_chunk::<16>()?;
        self.v6 = rest;
        Some(Ipv6Addr::from(*ip).into())
    }
}

/// A slice's table of zones.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Zones<'a>(&'a [u8]);

impl<'a> Zones<'a> {
    /// Gives the zone of a number.
    fn get(self, number: u8) -> &'a [u8] {
        let mut cursor = Cursor(self.0);
        for _ in 0..number {
            cursor.text();
        }
        cursor.text()
    }
}

/// A port of a service or slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRef<'a> {
    /// The name's bytes, lower-case; empty if it has none.
    pub name: &'a [u8],
    /// The transport protocol.
    pub protocol: Protocol,
    /// The number.
    pub number: u16,
}

/// The ports of a service or slice.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ports<'a>(pub(crate) Cursor<'a>);

impl Ports<'_> {
    /// Says whether there is none. A slice may say nothing about ports; its addresses count nevertheless.
    pub const fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }
}

impl<'a> Iterator for Ports<'a> {
    type Item = PortRef<'a>;

    fn next(&mut self) -> Option<PortRef<'a>> {
        if self.is_empty() {
            return None;
        }
        let protocol = match self.0.byte() {
            0 => Protocol::Tcp,
            1 => Protocol::Udp,
            _ => Protocol::Sctp,
        };
        let number = u16::from_be_bytes([self.0.byte(), self.0.byte()]);
        Some(PortRef { name: self.0.text(), protocol, number })
    }
}

/// Where an endpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Address<'a> {
    /// An address.
    Ip(IpAddr),
    /// A name's text as the slice has it.
    Name(&'a [u8]),
}

impl Address<'_> {
    /// Gives the address if it is one.
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(ip) => Some(*ip),
            Self::Name(_) => None,
        }
    }
}

/// An endpoint as a slice packs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packed<'a> {
    /// Where it is.
    pub(crate) address: Address<'a>,
    /// Whether it is ready.
    pub(crate) ready: bool,
    /// Its hostname; empty if it has none.
    pub(crate) hostname: &'a [u8],
    /// Its Pod's name; empty if it has none or the store keeps none.
    pub(crate) pod: &'a [u8],
    /// Its zone; empty if it has none or the store keeps none.
    pub(crate) zone: &'a [u8],
}

/// Takes a slice's endpoints one by one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Endpoints<'a> {
    /// The zones that they name by number.
    zones: Zones<'a>,
    /// What is left of them.
    rest: Cursor<'a>,
}

impl<'a> Endpoints<'a> {
    /// Begins at a slice's first endpoint.
    pub(crate) fn new(slice: &'a [u8]) -> Self {
        let mut rest = Cursor(slice);
        rest.text();
        let zones = rest.zones();
        Self { zones, rest }
    }
}

impl<'a> Iterator for Endpoints<'a> {
    type Item = Packed<'a>;

    fn next(&mut self) -> Option<Packed<'a>> {
        if self.rest.0.is_empty() {
            return None;
        }
        let flags = self.rest.byte();
        let address = if flags & NAME != 0 {
            Address::Name(self.rest.text())
        } else if flags & V6 != 0 {
            Address::Ip(Ipv6Addr::from(self.rest.take(16).try_into().unwrap_or([0; 16])).into())
        } else {
            Address::Ip(Ipv4Addr::from(self.rest.take(4).try_into().unwrap_or([0; 4])).into())
        };
        let hostname = if flags & HOSTNAME == 0 { b"" } else { self.rest.text() };
        let pod = if flags & POD == 0 { b"" } else { self.rest.text() };
        let zone = if flags & ZONE == 0 { b"" } else { self.zones.get(self.rest.byte()) };
        Some(Packed { address, ready: flags & READY != 0, hostname, pod, zone })
    }
}
