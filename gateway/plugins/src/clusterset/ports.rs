//! The ports of a service that several clusters export: their union (KEP-1645, Service Port).

use k8s::{Ports, Protocol};
use smallvec::SmallVec;

use crate::shared::cluster::address::Label;

/// So many different ports take no memory of their own.
pub(super) const FEW: usize = 16;

/// A port of a service of the set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    /// Its name; empty if it has none, or none that could be a label.
    name: Label,
    /// Its protocol.
    pub(super) protocol: Protocol,
    /// Its number.
    pub(super) number: u16,
    /// The age of the eldest export that has it.
    since: u64,
    /// How many exports have it.
    exports: usize,
    /// The last of them, by its number.
    last: usize,
}

/// The ports of the exports of a service.
#[derive(Clone, Debug, Default)]
pub(super) struct Union {
    /// The ports, those of elder exports first.
    ports: SmallVec<[Port; FEW]>,
    /// How many exports there are.
    exports: usize,
}

impl Port {
    /// Its name; empty if it has none.
    pub(super) fn name(&self) -> &[u8] {
        self.name.bytes()
    }

    /// Whether it is the same as another one.
    fn is(&self, other: &Self) -> bool {
        self.name() == other.name() && self.has_number_of(other)
    }

    /// Whether another one has its protocol and number.
    fn has_number_of(&self, other: &Self) -> bool {
        (self.protocol, self.number) == (other.protocol, other.number)
    }
}

impl Union {
    /// Adds those of an export that is so old, in Unix seconds. Of two of one age the first that was added is the elder.
    pub(super) fn add(&mut self, since: u64, ports: Ports<'_>) {
        self.exports += 1;
        for port in ports {
            let name = Label::of(port.name).unwrap_or_else(Label::new);
            let (protocol, number) = (port.protocol, port.number);
            let mut port = Port { name, protocol, number, since, exports: 1, last: self.exports };
            let mut others = self.ports.iter_mut().enumerate();
            if let Some((at, other)) = others.find(|(_, other)| other.is(&port)) {
                // It may stand twice in one export.
                if other.last == port.last {
                    continue;
                }
                port.exports += other.exports;
                if other.since <= since {
                    (other.exports, other.last) = (port.exports, port.last);
                    continue;
                }
                self.ports.remove(at);
            }
            let at = self.ports.partition_point(|other| other.since <= port.since);
            self.ports.insert(at, port);
        }
    }

    /// Unites them: a name, and a number of a protocol, is that of the eldest export that has it.
    pub(super) fn unite(self) -> SmallVec<[Port; FEW]> {
        let mut all: SmallVec<[Port; FEW]> = SmallVec::new();
        for port in self.ports {
            let taken = |other: &Port| other.name() == port.name() || other.has_number_of(&port);
            if !all.iter().any(taken) {
                all.push(port);
            }
        }
        all
    }

    /// Whether the exports differ.
    pub(super) fn differs(&self) -> bool {
        self.ports.iter().any(|port| port.exports != self.exports)
    }
}
