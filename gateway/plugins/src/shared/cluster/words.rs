//! Words of directives that several plugins have alike.

use std::iter::once;

use config::value::is_label;
use config::{Diagnostic, Directive, Word, Words};
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

/// Namespaces that are listed.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    /// Those that a cluster can have, each once.
    pub(crate) names: Vec<String>,
    /// Words that no namespace is called by, so that none can be meant.
    pub(crate) wrong: Vec<Diagnostic>,
}

impl Namespaces {
    /// Reads names, behind those that are there. Those of wrong words end in no request: they would change what it asks for.
    ///
    /// # Errors
    /// No name.
    pub(crate) fn read(&mut self, words: &mut Words<'_>) -> Result<(), Diagnostic> {
        for word in once(words.one()?).chain(words.rest()) {
            if !is_label(&word.text) {
                self.wrong.push(no_namespace(word));
            } else if !self.names.contains(&word.text) {
                self.names.push(word.text.clone());
            }
        }
        Ok(())
    }
}

/// What is wrong with a word that no namespace is called by.
fn no_namespace(word: &Word) -> Diagnostic {
    let wrong = word.wrong("is no namespace: it has to be a label of names in lower case");
    let lower = word.text.to_ascii_lowercase();
    wrong.help(match is_label(&lower) {
        true => format!("write: {lower}"),
        false => "write at most 63 lower-case letters, digits and dashes, no dash first or last"
            .to_owned(),
    })
}

/// Refuses lines that take the place of one before them.
///
/// # Errors
/// The second line of each name that `counts`.
pub(crate) fn once_each(
    lines: &[Directive],
    counts: impl Fn(&str) -> bool,
) -> Result<(), Diagnostic> {
    let twice = |(at, line): (usize, &Directive)| {
        let name = &line.name;
        let again =
            counts(&name.text) && lines.iter().take(at).any(|other| other.name.text == name.text);
        again.then(|| {
            let wrong = name.wrong("comes twice").help("keep the line that is meant");
            if line.args.iter().any(private) { wrong.hide() } else { wrong }
        })
    };
    let wrong: Vec<_> = lines.iter().enumerate().filter_map(twice).collect();
    Diagnostic::joined(wrong).map_or(Ok(()), Err)
}

/// Whether a word may be an address with a password, which is nobody's to see.
pub(crate) fn private(word: &Word) -> bool {
    word.text.contains('@')
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
