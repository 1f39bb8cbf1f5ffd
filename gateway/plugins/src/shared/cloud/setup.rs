//! What the set-ups of these plugins have in common.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Directive, Word, Words};
use engine::{Role, Setup};
use secrecy::SecretString;
use wire::Name;

use super::{Api, Cloud, Copy, Source};
use crate::shared::client_tls;
use crate::shared::fall::Fall;
use crate::shared::fetch::Fetch;

/// The zone that a word names, in whatever case and with or without its last dot.
pub(crate) fn zone(word: &Word, text: &str) -> Result<Name, Diagnostic> {
    let name = Name::parse(text).filter(|_| !text.is_empty());
    name.ok_or_else(|| word.wrong("does not begin with a domain name"))
}

/// Takes a word that nobody may see, nor the line that it stands in. An empty one is refused.
pub(crate) fn secret(word: &Word) -> Result<SecretString, Diagnostic> {
    if word.text.is_empty() {
        return Err(word.fault("a credential is empty").hide());
    }
    Ok(word.text.clone().into())
}

/// Has nobody see the line of what is wrong with one that holds a secret, nor a word of it.
pub(crate) fn hidden(line: &Directive, wrong: Diagnostic) -> Diagnostic {
    let what = match wrong.help {
        Some(_) => "has wrong words".to_owned(),
        None => "has wrong words, or too many".to_owned(),
    };
    let hidden = line.name.wrong(what).hide();
    match wrong.help {
        Some(help) => hidden.help(help),
        None => hidden,
    }
}

/// A property of old files that says nothing: names outside of the zones are asked for anyway.
pub(crate) fn passed_over<T>(_options: &mut T, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    words.rest();
    Ok(())
}

/// The zones that stand behind a directive. Each is read by `read`, which also gives what tells it from others of its name; `what` and
/// `form` say what is needed if there are none.
///
/// # Errors
/// Those of `read`, a zone that is stated twice, also in another directive of the block, and none at all.
pub(crate) fn copies(
    directive: &Directive,
    seen: &mut HashSet<(Name, String)>,
    (what, form): (&str, &str),
    read: impl Fn(&Word) -> Result<(String, Copy), Diagnostic>,
) -> Result<Vec<Copy>, Diagnostic> {
    let mut copies = Vec::new();
    for word in &directive.args {
        let (id, copy) = read(word)?;
        if !seen.insert((copy.zone().clone(), id)) {
            return Err(word.wrong("is stated twice"));
        }
        copies.push(copy);
    }
    if copies.is_empty() {
        return Err(directive.name.wrong(format_args!("needs {what}")).help(form));
    }
    Ok(copies)
}

/// Reads `fallthrough [ZONES...]`.
///
/// # Errors
/// A block behind it.
pub(crate) fn fall(setup: &Setup<'_>, line: &Directive) -> Result<Fall, Diagnostic> {
    line.no_block()?;
    Fall::read(setup, &mut line.words())
}

/// A client for APIs, which trusts the system's authorities.
pub(crate) fn fetch(setup: &mut Setup<'_>) -> Result<Fetch, Diagnostic> {
    Ok(Fetch::new(&*client_tls::open(setup, None)?))
}

/// What a directive asks for.
pub(crate) struct Wish {
    /// The target of log lines: `plugin/NAME`.
    pub(crate) target: &'static str,
    /// The zones.
    pub(crate) copies: Vec<Copy>,
    /// How often they are refreshed.
    pub(crate) interval: Duration,
    /// The names that go on where they have nothing.
    pub(crate) fall: Option<Fall>,
}

/// Puts the zones of a directive into the chain, and has them refreshed. They are kept over a reload that leaves the directive as it
/// is.
///
/// # Errors
/// Those of `make`.
pub(crate) fn install(
    setup: &mut Setup<'_>,
    directive: &Directive,
    wish: Wish,
    make: impl FnOnce(&mut Setup<'_>) -> Result<Box<dyn Api>, Diagnostic>,
) -> Result<(), Diagnostic> {
    let Wish { target, copies, interval, fall } = wish;
    let api = make(setup)?;
    let key = format!("{target} {}", directive.fingerprint());
    let source = setup.share(&key, || Ok(Arc::new(Source::new(target, api, copies, interval))))?;
    let (first, name, is_reload) = (Arc::clone(&source), directive.name.clone(), setup.is_reload());
    setup.prove_before_serving(async move {
        let Err(failure) = first.start().await else { return Ok(()) };
        // What the API refuses is a slip. Nothing of this is worth giving up a configuration that serves.
        if failure.is_final() || is_reload {
            return Err(name.fault(format!("cannot load zones: {failure}")));
        }
        log::error!(target: target, "Failed to load zones: {failure}; they are SERVFAIL until it succeeds");
        Ok(())
    });
    let refreshed = Arc::clone(&source);
    setup.task(move |stop| refreshed.run(stop));
    if fall.is_none() {
        setup.own(source.copies().iter().map(|copy| copy.zone().clone()));
    }
    let cloud = Cloud::new(source, fall.unwrap_or_default());
    setup.offer(Role::Ready(Arc::new(cloud.clone())));
    setup.provide_as("zone", cloud.clone());
    setup.install(cloud);
    Ok(())
}
