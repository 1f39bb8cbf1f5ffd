//! The ports of a service that several clusters export: their union (KEP-1645, Service Port).

use k8s::{Ports, Protocol};

/// A port of a service of the set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// Its name; empty if it has none.
    pub(super) name: Box<[u8]>,
    /// Its protocol.
    pub(super) protocol: Protocol,
    /// Its number.
    pub(super) number: u16,
}

/// The ports of the exports of a service.
#[derive(Clone, Debug, Default)]
pub(super) struct Union {
    /// The ports of each export, with its age.
    exports: Vec<(u64, Vec<Port>)>,
}

impl Union {
    /// Adds those of an export that is so old, in Unix seconds. Of two of one age the first that was added is the elder.
    pub(super) fn add(&mut self, since: u64, ports: Ports<'_>) {
        let ports = ports
            .map(|port| Port {
                name: port.name.into(),
                protocol: port.protocol,
                number: port.number,
            })
            .collect();
        self.exports.push((since, ports));
    }

    /// Unites them: a name, and a number of a protocol, is that of the eldest export that has it.
    pub(super) fn unite(mut self) -> Vec<Port> {
        self.exports.sort_by_key(|(since, _)| *since);
        let mut all: Vec<Port> = Vec::new();
        for port in self.exports.into_iter().flat_map(|(_, ports)| ports) {
            let taken = |other: &Port| {
                other.name == port.name
                    || (other.protocol, other.number) == (port.protocol, port.number)
            };
            if !all.iter().any(taken) {
                all.push(port);
            }
        }
        all
    }

    /// Whether the exports differ.
    pub(super) fn differs(&self) -> bool {
        let mut exports = self.exports.iter().map(|(_, ports)| ports);
        let Some(first) = exports.next() else { return false };
        exports.any(|ports| {
            ports.len() != first.len() || ports.iter().any(|port| !first.contains(port))
        })
    }
}
