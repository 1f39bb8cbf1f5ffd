#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Descriptor, Exchange, Plugin, Setup, Step};
use wire::{Section, class, rtype};

use crate::shared::once;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "whoami", readme: include_str!("README.md"), setup };

/// Tells clients their own address, port and transport.
#[derive(Debug)]
struct Whoami;

/// Reads nothing: there is nothing to set.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = once::first(setup);
    directive.no_block()?;
    directive.no_words()?;
    setup.install(Whoami);
    Ok(())
}

impl Plugin for Whoami {
    fn query(&self, x: &mut Exchange) -> Step {
        let (peer, protocol) = (x.query.peer, x.query.transport.protocol());
        let (request, answer) = x.parts_mut();
        answer.set_authoritative(true);
        // Addresses have another form in class CH (RFC 1035 §3.4.1), and SRV is of class IN alone (RFC 2782).
        if request.class != class::IN {
            return Step::Done;
        }
        let name = &request.name;
        answer.address(Section::Additional, name.wire(), 0, peer.ip().to_canonical());
        let label: &[u8] = if protocol == "udp" { b"_udp" } else { b"_tcp" };
        // Priority and weight are 0, and the target is the root. A name without room for the label goes without.
        if let Some(owner) = name.child(label) {
            let data: [&[u8]; 3] = [&[0; 4], &peer.port().to_be_bytes(), &[0]];
            answer.push_parts(Section::Additional, owner.wire(), rtype::SRV, 0, &data);
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests;
