//! Answers from the zones, and their transfers.

use std::sync::Arc;

use engine::{Carry, Exchange, Fault, Plugin, Provider, Step, Stream, Transfer, Wanted};
use wire::{Name, class, opcode};

use crate::shared::fall::Fall;
use crate::shared::zone::{NO_NOTICE, Served, Table, answer, asked, outcome, wildcard};

/// The plugin: the zones of a server block, each with the names that go on where it has nothing.
#[derive(Clone, Debug)]
pub(super) struct FilePlugin(pub(super) Arc<Table<(Arc<Served>, Fall)>>);

impl Plugin for FilePlugin {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        if request.class != class::IN {
            return Step::Next;
        }
        let Some(number) = self.0.number(&request.name, request.rtype) else { return Step::WRAP };
        let Some((served, fall)) = self.0.get(number) else { return Step::Next };
        if request.flags.opcode() == opcode::NOTIFY {
            return Step::Fail(NO_NOTICE);
        }
        answer(served, fall, x, Carry(number as u64))
    }

    fn answer(&self, x: &mut Exchange, _carry: Carry) -> Step {
        outcome(x)
    }

    fn asked(&self, x: &mut Exchange, Carry(number): Carry) -> Step {
        let served = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        let now = served.and_then(|(served, _)| served.load());
        asked(now.as_ref().and_then(|now| now.as_ref()).map(|version| &version.zone), x)
    }
}

impl Transfer for FilePlugin {
    fn transfer(&self, zone: &Name, wanted: Wanted) -> Option<Result<Box<dyn Stream>, Fault>> {
        self.0.of(zone).map(|(served, _)| served.transfer(wanted.serial()))
    }

    fn serials(&self, each: &mut dyn FnMut(&Name, u32)) {
        for (zone, (served, _)) in self.0.iter() {
            if let Some(serial) = served.serial() {
                each(zone, serial);
            }
        }
    }
}

impl Provider for FilePlugin {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let request = x.request();
        let (served, _) = self.0.find(&request.name, request.rtype)?;
        if label == "wildcard" { wildcard(served, x, out) } else { None }
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        each("wildcard");
    }
}
