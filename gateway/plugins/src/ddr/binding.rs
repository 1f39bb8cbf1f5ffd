//! The data of SVCB records (RFC 9460 §2.2) for DNS servers (RFC 9461).

use std::net::IpAddr;

use smallvec::SmallVec;
use wire::Name;

/// A record's data.
pub(super) type Data = SmallVec<[u8; 256]>;

/// One way to reach a server.
#[derive(Clone, Debug)]
pub(super) struct Binding<'a> {
    /// Its place among the ways, from 1; lower is tried first. Never 0, which would be an alias (RFC 9460 §2.4.1).
    pub(super) priority: u16,
    /// The server's name, which its certificate has.
    pub(super) target: &'a Name,
    /// The protocol's identifier in TLS (RFC 7301).
    pub(super) alpn: &'static [u8],
    /// The port, if it is not the protocol's own.
    pub(super) port: Option<u16>,
    /// Its addresses.
    pub(super) addresses: &'a [IpAddr],
    /// The path of DoH.
    pub(super) path: Option<&'a str>,
}

impl Binding<'_> {
    /// The data: the priority, the target uncompressed, and the parameters in rising order of their keys, each once.
    pub(super) fn data(&self) -> Data {
        let mut data = Data::new();
        data.extend_from_slice(&self.priority.to_be_bytes());
        data.extend_from_slice(self.target.wire());
        let mut alpn = SmallVec::<[u8; 16]>::new();
        // The identifiers have one to five octets.
        alpn.push(u8::try_from(self.alpn.len()).unwrap_or(0));
        alpn.extend_from_slice(self.alpn);
        put(&mut data, 1, &[&alpn]);
        if let Some(port) = self.port {
            put(&mut data, 3, &[&port.to_be_bytes()]);
        }
        let (mut four, mut six) = (SmallVec::<[u8; 32]>::new(), SmallVec::<[u8; 64]>::new());
        for addr in self.addresses {
            match addr {
                IpAddr::V4(addr) => four.extend_from_slice(&addr.octets()),
                IpAddr::V6(addr) => six.extend_from_slice(&addr.octets()),
            }
        }
        for (key, hints) in [(4, &four[..]), (6, &six[..])] {
            if !hints.is_empty() {
                put(&mut data, key, &[hints]);
            }
        }
        if let Some(path) = self.path {
            // A template with the variable that RFC 8484 §6 names (RFC 9461 §5).
            put(&mut data, 7, &[path.as_bytes(), b"{?dns}"]);
        }
        data
    }
}

/// Appends a parameter.
fn put(data: &mut Data, key: u16, value: &[&[u8]]) {
    let len: usize = value.iter().map(|part| part.len()).sum();
    // What is put has far less than 65,536 octets: paths are bounded where they are read.
    let Ok(len) = u16::try_from(len) else { return };
    data.extend_from_slice(&key.to_be_bytes());
    data.extend_from_slice(&len.to_be_bytes());
    value.iter().for_each(|part| data.extend_from_slice(part));
}
