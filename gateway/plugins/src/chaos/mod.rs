#![doc = include_str!("README.md")]

use std::collections::BTreeSet;

use config::Diagnostic;
use engine::{Descriptor, Exchange, Plugin, Setup, Step};
use wire::{Section, class, rtype};

use crate::shared::host::hostname;
use crate::shared::once;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "chaos", readme: include_str!("README.md"), setup };

/// Who is named where the Corefile names nobody.
const AUTHORS: &str = "The Causeway Authors";

/// Tells version, authors and host name to those who ask in class CH.
#[derive(Debug)]
struct Chaos {
    /// The version, as a TXT record's data.
    version: Box<[u8]>,
    /// The machine's name, likewise.
    host: Box<[u8]>,
    /// Each author, likewise, in alphabetical order.
    authors: Box<[Box<[u8]>]>,
}

/// Reads version and authors.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = once::first(setup);
    directive.no_block()?;
    let mut words = directive.words();
    let own = setup.process().program();
    let version = text(words.maybe().map_or(&own, |word| &word.text));
    let named: BTreeSet<&str> = words.rest().iter().map(|word| &*word.text).collect();
    let authors = if named.is_empty() {
        Box::from([text(AUTHORS)])
    } else {
        named.into_iter().map(text).collect()
    };
    setup.install(Chaos { version, host: text(&hostname()), authors });
    setup.allow_chaos();
    Ok(())
}

/// The data of a TXT record with one string, cut at the 255 octets that one can have (RFC 1035 §3.3).
fn text(text: &str) -> Box<[u8]> {
    let text = &text[..text.floor_char_boundary(255)];
    let length = u8::try_from(text.len()).unwrap_or(u8::MAX);
    [&[length], text.as_bytes()].concat().into()
}

impl Plugin for Chaos {
    fn query(&self, x: &mut Exchange) -> Step {
        let (request, answer) = x.parts_mut();
        if request.class != class::CH || request.rtype != rtype::TXT {
            return Step::Next;
        }
        let owner = request.name.wire();
        let texts = match owner {
            b"\x07version\x04bind\0" | b"\x07version\x06server\0" => {
                std::slice::from_ref(&self.version)
            }
            b"\x07authors\x04bind\0" => &self.authors,
            b"\x08hostname\x04bind\0" | b"\x02id\x06server\0" => std::slice::from_ref(&self.host),
            _ => return Step::Next,
        };
        for data in texts {
            answer.push_class(Section::Answer, owner, class::CH, rtype::TXT, 0, &[data]);
        }
        Step::Done
    }
}

#[cfg(test)]
mod tests;
