//! Answers from the zones, and their transfers.

use std::sync::Arc;

use engine::{Carry, End, Exchange, Fault, Plugin, Provider, Step, Stream, Transfer};
use wire::{Answer, Name, class, opcode, rcode, rtype};

use crate::shared::fall::Fall;
use crate::shared::zone::{Served, answer, asked};
use crate::shared::zones::Zones;

/// Zones of files are changed by their files.
const NO_NOTICE: Fault =
    Fault { rcode: rcode::REFUSED, ede: None, why: "this server is the zone's primary" };

/// The zones of a server block.
#[derive(Debug)]
pub(super) struct Files {
    /// Their names.
    pub(super) names: Zones,
    /// The zones, in the order of the names, with the names that go on where they have nothing.
    pub(super) zones: Box<[(Arc<Served>, Fall)]>,
}

/// The plugin.
#[derive(Clone, Debug)]
pub(super) struct FilePlugin(pub(super) Arc<Files>);

impl Files {
    /// The number of the zone that knows a name; of DS records of a zone's own name that is the zone above (RFC 4035 §3.1.4.1).
    fn number(&self, name: &Name, kind: u16) -> Option<usize> {
        let number = self.names.number(name)?;
        let (served, _) = self.zones.get(number)?;
        if kind == rtype::DS && served.name() == name && !name.is_root() {
            return self.names.number(&name.parent()).or(Some(number));
        }
        Some(number)
    }
}

impl Plugin for FilePlugin {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if request.class != class::IN {
            return Step::Next;
        }
        let Some(number) = self.0.number(&request.name, request.rtype) else { return Step::WRAP };
        let Some((served, fall)) = self.0.zones.get(number) else { return Step::Next };
        if request.flags.opcode() == opcode::NOTIFY {
            return Step::Fail(NO_NOTICE);
        }
        answer(served, fall, x, Carry(number as u64))
    }

    fn answer(&self, x: &mut Exchange, _carry: Carry) -> Step {
        // A name outside of the zones that nobody behind knows is none of this server.
        match x.end() {
            Some(End::Failed(Fault::UNANSWERED)) => Step::Fail(Fault::NO_ZONE),
            _ => Step::Next,
        }
    }

    fn asked(&self, x: &mut Exchange, Carry(number): Carry) -> Step {
        let served = usize::try_from(number).ok().and_then(|number| self.0.zones.get(number));
        let now = served.and_then(|(served, _)| served.load());
        asked(now.as_ref().and_then(|now| now.as_ref()).map(|version| &version.zone), x)
    }
}

impl Transfer for FilePlugin {
    fn transfer(&self, zone: &Name, serial: Option<u32>) -> Option<Result<Box<dyn Stream>, Fault>> {
        let number = self.0.names.number(zone)?;
        let (served, _) = self.0.zones.get(number)?;
        (served.name() == zone).then(|| served.transfer(serial))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        for (served, _) in &self.0.zones {
            if let Some(serial) = served.serial() {
                each(served.name(), serial);
            }
        }
    }
}

impl Provider for FilePlugin {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        if label != "wildcard" {
            return None;
        }
        let request = x.request();
        let (served, _) = self.0.zones.get(self.0.number(&request.name, request.rtype)?)?;
        let now = served.load()?;
        let zone = &now.as_ref()?.zone;
        let mut scratch = Answer::default();
        let finding = zone.look_up(&request.name, request.rtype, false, &mut scratch);
        out.push_str(&zone.wildcard(&finding)?.to_string());
        Some(())
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("wildcard");
    }
}
