//! Words of directives that several plugins have alike.

use std::iter::once;

use config::{Diagnostic, Word, Words};
use k8s::Selector;

/// Reads the names of declared clusters, behind those that are there.
///
/// # Errors
/// No name, and one that comes twice.
pub(crate) fn clusters(words: &mut Words<'_>, all: &mut Vec<Word>) -> Result<(), Diagnostic> {
    for word in once(words.one()?).chain(words.rest()) {
        if all.iter().any(|other| other.text == word.text) {
            return Err(word.wrong("stands there twice").help("name each cluster once"));
        }
        all.push(word.clone());
    }
    Ok(())
}

/// Reads names of namespaces, behind those that are there.
///
/// # Errors
/// No name.
pub(crate) fn namespaces(words: &mut Words<'_>, all: &mut Vec<String>) -> Result<(), Diagnostic> {
    all.extend(once(words.one()?).chain(words.rest()).map(|word| word.text.clone()));
    Ok(())
}

/// Reads the words that are left as a label selector.
///
/// # Errors
/// No word, and what is no selector.
pub(crate) fn selector(words: &mut Words<'_>) -> Result<Selector, Diagnostic> {
    let first = words.one()?;
    let texts: Vec<&str> = once(first).chain(words.rest()).map(|word| &*word.text).collect();
    texts.join(" ").parse().map_err(|error| first.wrong(format_args!("is wrong: {error}")))
}
