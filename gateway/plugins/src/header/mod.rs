#![doc = include_str!("README.md")]

use config::{Diagnostic, Directive};
use engine::{Carry, Descriptor, End, Exchange, Plugin, Setup, Step};
use wire::Flags;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "header", readme: include_str!("README.md"), setup };

/// The bits that may be changed, by their names.
const FLAGS: [(&str, Flags); 3] = [("aa", Flags::AA), ("ra", Flags::RA), ("rd", Flags::RD)];

/// Bits to set and bits to clear; none is in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change {
    set: Flags,
    clear: Flags,
}

/// Changes bits of queries and replies.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    query: Change,
    response: Change,
}

impl Change {
    /// Adds a line to those before it: the last one about a bit counts.
    fn add(&mut self, flags: Flags, on: bool) {
        self.set.set(flags, on);
        self.clear.set(flags, !on);
    }

    /// Changes `flags`.
    fn apply(self, flags: &mut Flags) {
        flags.set(self.set, true);
        flags.set(self.clear, false);
    }
}

/// Takes the first directive that has lines; the others are named in warnings.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut header = None;
    for directive in setup.directives() {
        directive.no_words()?;
        let read = read(directive)?;
        if directive.lines().is_empty() {
            continue;
        }
        match header {
            None => header = Some(read),
            Some(_) => setup.warn(
                directive.name.wrong("is passed over: only the first one in a server block counts"),
            ),
        }
    }
    let Some(header) = header else {
        let wrong = setup.directive().name.wrong("has no rules");
        return Err(wrong.help("write: header { response set ra }, on lines of their own"));
    };
    setup.install(header);
    Ok(())
}

/// Reads the lines of a block: `query|response set|clear FLAGS…`, all words in any case.
fn read(directive: &Directive) -> Result<Header, Diagnostic> {
    let mut header = Header::default();
    for line in directive.lines() {
        line.no_block()?;
        let change = match line.name.text.to_ascii_lowercase().as_str() {
            "query" => &mut header.query,
            "response" => &mut header.response,
            _ => {
                let wrong = line.name.wrong("is no selector");
                return Err(wrong.help("write query or response"));
            }
        };
        let mut words = line.words();
        let action = words.one()?;
        let on = match action.text.to_ascii_lowercase().as_str() {
            "set" => true,
            "clear" => false,
            _ => return Err(action.wrong("is no action").help("write set or clear")),
        };
        let mut word = words.one().map_err(|wrong| wrong.help("write flags: aa, ra or rd"))?;
        loop {
            let name = word.text.to_ascii_lowercase();
            let found = FLAGS.into_iter().find(|(own, _)| *own == name);
            let (_, flags) =
                found.ok_or_else(|| word.wrong("is no flag").help("write aa, ra or rd"))?;
            change.add(flags, on);
            match words.maybe() {
                Some(next) => word = next,
                None => break,
            }
        }
    }
    Ok(header)
}

impl Plugin for Header {
    fn query(&self, x: &mut Exchange) -> Step {
        let before = x.request().flags;
        self.query.apply(&mut x.request_mut().flags);
        let rd = x.request().flags.has(Flags::RD);
        x.answer_mut().flags.set(Flags::RD, rd);
        Step::Wrap(Carry(u64::from(before.0)))
    }

    fn answer(&self, x: &mut Exchange, carry: Carry) -> Step {
        // What was carried are the 16 bits of the query's flags.
        x.request_mut().flags = Flags(u16::try_from(carry.0).unwrap_or_default());
        if x.end() == Some(End::Answered) {
            self.response.apply(&mut x.answer_mut().flags);
        }
        Step::Next
    }
}

#[cfg(test)]
mod tests;
