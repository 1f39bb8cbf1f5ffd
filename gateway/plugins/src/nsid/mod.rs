#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Carry, Descriptor, Exchange, Plugin, Setup, Step};
use wire::option;

use crate::shared::host::hostname;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "nsid", readme: include_str!("README.md"), setup };

/// Puts this server's identifier into replies to those who ask for it.
#[derive(Debug)]
struct Nsid {
    /// The identifier, as it goes out.
    data: Box<[u8]>,
}

/// Reads the identifier: the words joined by spaces, or the machine's name.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_block()?;
    let words: Vec<&str> = directive.args.iter().map(|word| &*word.text).collect();
    let data = if words.is_empty() { hostname() } else { words.join(" ") };
    setup.install(Nsid { data: data.into_bytes().into() });
    Ok(())
}

impl Plugin for Nsid {
    fn query(&self, x: &mut Exchange) -> Step {
        // Whoever wants to know sends the option empty (RFC 5001 §2.1).
        match x.request().edns.options.get(option::NSID) {
            Some(_) => Step::WRAP,
            None => Step::Next,
        }
    }

    fn answer(&self, x: &mut Exchange, _: Carry) -> Step {
        // One that came from an upstream server names that one, not the server the client asked (RFC 5001 §2.2).
        let options = &mut x.answer_mut().options;
        options.remove(option::NSID);
        options.push(option::NSID, &self.data);
        Step::Next
    }
}

#[cfg(test)]
mod tests;
