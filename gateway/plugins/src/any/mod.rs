#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Descriptor, Exchange, Plugin, Setup, Step};
use wire::{Section, rtype};

use crate::shared::once;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "any", readme: include_str!("README.md"), setup };

/// The time to live of the answer, in seconds: the number of its RFC.
const TTL: u32 = 8482;

/// The answer's data: two strings with their lengths (RFC 1035 §3.3.2).
const DATA: &[u8] = b"\x0dANY obsoleted\x0cSee RFC 8482";

/// Answers ANY with one HINFO record (RFC 8482 §4.2).
#[derive(Debug)]
struct Any;

/// Reads nothing: there is nothing to set.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = once::first(setup);
    directive.no_block()?;
    directive.no_words()?;
    setup.install(Any);
    Ok(())
}

impl Plugin for Any {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        if request.rtype != rtype::ANY {
            return Step::Next;
        }
        answer.push(Section::Answer, request.name.wire(), rtype::HINFO, TTL, DATA);
        Step::Done
    }
}

#[cfg(test)]
mod tests;
