//! From directives to what is to go wrong.

use std::sync::Arc;
use std::time::Duration;

use config::value::{NotNumber, integer};
use config::{Diagnostic, Prop, Words};
use engine::{Role, Setup};

use super::handler::{Count, Erratic, Faults};

/// How many queries an option is about one of, without a number.
const AMOUNT: u64 = 2;

/// How long a reply waits, without a duration.
const DELAY: Duration = Duration::from_millis(100);

/// What the directives say so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    faults: Faults,
    /// Whether `drop` is said.
    drops: bool,
    /// Whether `truncate` or `delay` is.
    others: bool,
}

/// What a block may say.
pub(super) const PROPS: &[Prop<Draft>] = &[
    Prop {
        name: "drop",
        words: "[AMOUNT]",
        set: |draft, words| {
            draft.drops = true;
            amount(words).map(|amount| draft.faults.drop = amount)
        },
    },
    Prop {
        name: "truncate",
        words: "[AMOUNT]",
        set: |draft, words| {
            draft.others = true;
            amount(words).map(|amount| draft.faults.truncate = amount)
        },
    },
    Prop {
        name: "delay",
        words: "[AMOUNT [DURATION]]",
        set: |draft, words| {
            draft.others = true;
            draft.faults.delay = amount(words)?;
            draft.faults.duration = if words.is_empty() { DELAY } else { words.duration()? };
            Ok(())
        },
    },
    Prop {
        name: "large",
        words: "",
        set: |draft, _| {
            draft.faults.large = true;
            Ok(())
        },
    },
];

/// Reads a number of queries, if there is one.
fn amount(words: &mut Words<'_>) -> Result<u64, Diagnostic> {
    if words.is_empty() {
        return Ok(AMOUNT);
    }
    words.read(|text| {
        let number = integer(text).map_err(|wrong: NotNumber| wrong.to_string())?;
        u64::try_from(number).map_err(|_| "it must not be negative".to_owned())
    })
}

/// Sets the plugin up; several directives add up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut draft = Draft::default();
    for directive in setup.directives() {
        directive.no_words()?;
        directive.read_block(PROPS, &mut draft)?;
    }
    if !draft.drops && !draft.others {
        draft.faults.drop = AMOUNT;
    }
    let count = Arc::new(Count::default());
    setup.offer(Role::Ready(Arc::<Count>::clone(&count)));
    setup.offer(Role::SearchPath(Arc::<Count>::clone(&count)));
    setup.install(Erratic { faults: draft.faults, count });
    Ok(())
}
