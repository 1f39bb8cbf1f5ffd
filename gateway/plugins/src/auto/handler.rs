//! Answers from the zones of a folder, and their transfers.

use std::sync::Arc;

use engine::{Carry, Exchange, Fault, Plugin, Provider, Step, Stream, Transfer, Wanted};
use wire::{Name, class, opcode};

use super::folder::Folder;
use crate::shared::fall::Fall;
use crate::shared::zone::{NO_NOTICE, answer, asked, outcome, wildcard};
use crate::shared::zones::Zones;

/// The plugin.
#[derive(Clone, Debug)]
pub(super) struct Auto {
    /// The zones that it acts in.
    pub(super) gate: Zones,
    /// The folder with its zones.
    pub(super) folder: Arc<Folder>,
    /// No names: nothing goes on.
    pub(super) fall: Fall,
}

impl Plugin for Auto {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if request.class != class::IN || !self.gate.has(&request.name) {
            return Step::Next;
        }
        let now = self.folder.zones();
        let Some(served) = now.find(&request.name, request.rtype) else { return Step::WRAP };
        if request.flags.opcode() == opcode::NOTIFY {
            return Step::Fail(NO_NOTICE);
        }
        answer(served, &self.fall, x, Carry::NONE)
    }

    fn answer(&self, x: &mut Exchange, _carry: Carry) -> Step {
        outcome(x)
    }

    fn asked(&self, x: &mut Exchange, _carry: Carry) -> Step {
        let zones = self.folder.zones();
        let served = zones.find(&x.request().name, x.request().rtype);
        let now = served.and_then(|served| served.load());
        asked(now.as_ref().and_then(|now| now.as_ref()).map(|version| &version.zone), x)
    }
}

impl Transfer for Auto {
    fn transfer(&self, zone: &Name, wanted: Wanted) -> Option<Result<Box<dyn Stream>, Fault>> {
        let served = self.folder.zones().of(zone).filter(|_| self.gate.has(zone)).cloned();
        served.map(|served| served.transfer(wanted.serial()))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        for (zone, served) in self.folder.zones().iter().filter(|(zone, _)| self.gate.has(zone)) {
            if let Some(serial) = served.serial() {
                each(zone, serial);
            }
        }
    }
}

impl Provider for Auto {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let (request, zones) = (x.request(), self.folder.zones());
        let served = zones.find(&request.name, request.rtype)?;
        if label == "wildcard" { wildcard(served, x, out) } else { None }
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("wildcard");
    }
}
