#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Carry, Descriptor, End, Exchange, Plugin, Setup, Step};
use wire::Section;

use crate::shared::once;
use crate::shared::response::Kind;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "minimal", readme: include_str!("README.md"), setup };

/// Takes out of replies what nobody asked for.
#[derive(Debug)]
struct Minimal;

/// Reads nothing: there is nothing to set.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = once::first(setup);
    directive.no_block()?;
    directive.no_words()?;
    setup.install(Minimal);
    Ok(())
}

impl Plugin for Minimal {
    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        if x.end() == Some(End::Answered) {
            let (request, answer) = x.parts_mut();
            if Kind::of(request, answer) == Kind::NoError {
                answer.retain(|rr| rr.section == Section::Answer);
            }
        }
        Step::Next
    }
}

#[cfg(test)]
mod tests;
