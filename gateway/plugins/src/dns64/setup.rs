//! From directives to a prefix.

use config::{Diagnostic, Prop, Word};
use engine::Setup;

use super::handler::{Dns64, Rules};
use super::prefix::Prefix;

/// What a block may say.
pub(super) const PROPS: &[Prop<Draft>] = &[
    Prop { name: "prefix", words: "PREFIX", set: |draft, words| draft.prefix(words.one()?) },
    Prop {
        name: "translate_all",
        words: "",
        set: |draft, _| {
            draft.rules.translate_all = true;
            Ok(())
        },
    },
    Prop {
        name: "allow_ipv4",
        words: "",
        set: |draft, _| {
            draft.rules.allow_ipv4 = true;
            Ok(())
        },
    },
];

/// What the directives say so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    rules: Rules,
    /// What is odd about a prefix.
    odd: Option<Diagnostic>,
}

impl Draft {
    /// Reads a prefix; the last one counts.
    fn prefix(&mut self, word: &Word) -> Result<(), Diagnostic> {
        let help =
            "write a network of IPv6 with 32, 40, 48, 56, 64 or 96 bits, such as 64:ff9b::/96";
        let prefix = Prefix::read(&word.text).map_err(|why| word.wrong(why).help(help))?;
        self.odd = (!prefix.is_standard())
            .then(|| word.wrong("has a length that RFC 6052 does not have").help(help));
        self.rules.prefix = prefix;
        Ok(())
    }
}

/// Sets the plugin up; several directives add up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut draft = Draft::default();
    for directive in setup.directives() {
        let mut words = directive.words();
        if let Some(word) = words.maybe() {
            draft.prefix(word)?;
        }
        words.end()?;
        directive.read_block(PROPS, &mut draft)?;
    }
    if let Some(odd) = draft.odd {
        setup.warn(odd);
    }
    if !draft.rules.allow_ipv4 {
        // Clients of IPv4 and of IPv6 get different answers.
        setup.selective();
    }
    setup.install(Dns64::new(draft.rules, setup.routes()));
    Ok(())
}
