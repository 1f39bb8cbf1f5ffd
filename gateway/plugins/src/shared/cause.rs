//! Errors in words.

use std::error::Error;

/// An error with what caused it.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut at = Some(error);
    while let Some(one) = at {
        let text = one.to_string();
        // Some errors repeat what caused them.
        if !all.last().is_some_and(|last| last.contains(&text)) {
            all.push(text);
        }
        at = one.source();
    }
    all.join(": ")
}
