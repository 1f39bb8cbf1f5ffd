#![doc = include_str!("README.md")]

use config::Diagnostic;
use engine::{Descriptor, Exchange, Plugin, Setup, Step};

use crate::shared::once;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "bufsize", readme: include_str!("README.md"), setup };

/// The size without a word, in octets: what fits into one packet nearly everywhere (RFC 9715).
const DEFAULT: u16 = 1232;

/// Lowers the datagram size that queries state.
#[derive(Debug)]
struct BufSize {
    /// The most octets.
    most: u16,
}

/// Reads the size.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = once::first(setup);
    directive.no_block()?;
    let mut words = directive.words();
    let most = match words.maybe() {
        None => DEFAULT,
        Some(word) => {
            let size = word.text.parse().ok().filter(|size| (512..=4096).contains(size));
            size.ok_or_else(|| {
                word.wrong("is no size of a datagram").help("write 512 to 4096 octets")
            })?
        }
    };
    words.end()?;
    setup.install(BufSize { most });
    Ok(())
}

impl Plugin for BufSize {
    fn query(&self, x: &mut Exchange) -> Step {
        // Not put back on the way up: the reply is bound by it too.
        let edns = &mut x.request_mut().edns;
        edns.size = edns.size.min(self.most);
        Step::Next
    }
}

#[cfg(test)]
mod tests;
