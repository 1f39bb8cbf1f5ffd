//! Environment variables in words: `{$NAME}` and `{%NAME%}`.

use std::borrow::Cow;

/// How often a word is filled in: a value may hold references too, even to itself.
const ROUNDS: usize = 100;

/// The most octets that a word may grow to.
const LENGTH: usize = 1 << 20;

/// A variable whose value refers to itself, or grows without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endless;

/// Fills in the variables of a word; one that is not set is empty.
///
/// # Errors
///
/// If it does not come to an end.
pub(super) fn fill<'a>(
    text: &'a str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, Endless> {
    let text = fill_form(Cow::Borrowed(text), "{%", "%}", env)?;
    fill_form(text, "{$", "}", env)
}

/// Fills in the variables of one of the two forms.
fn fill_form<'a>(
    mut text: Cow<'a, str>,
    open: &str,
    close: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, Endless> {
    for _ in 0..ROUNDS {
        let Some((before, behind)) = text.split_once(open) else { return Ok(text) };
        // A reference that is not closed stays, and one without a name stays with all that follows.
        let Some((name, _)) = behind.split_once(close).filter(|(name, _)| !name.is_empty()) else {
            return Ok(text);
        };
        let reference = &text[before.len()..before.len() + open.len() + name.len() + close.len()];
        let value = env(name).unwrap_or_default();
        let times = text.matches(reference).count();
        if text.len() + times * value.len() > LENGTH {
            return Err(Endless);
        }
        text = Cow::Owned(text.replace(reference, &value));
    }
    if text.contains(open) { Err(Endless) } else { Ok(text) }
}
