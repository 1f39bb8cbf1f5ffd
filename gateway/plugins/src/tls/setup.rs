//! From the directive to TLS of the block's listeners.

use std::path::PathBuf;
use std::sync::Arc;

use certs::{Challenge, ClientAuth, Options, ServerTls, Source};
use config::{Diagnostic, Directive, Prop, Word, Words};
use engine::{Setup, Tls};

use super::figures::Served;
use super::{TARGET, acme, own};

/// What the directive says.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Certificates with their keys.
    pairs: Vec<(Word, Word)>,
    client_auth: Option<(Word, ClientAuth)>,
    client_ca: Option<Word>,
    keylog: Option<Word>,
    /// The names of a certificate that is signed by itself.
    own: Option<(Word, Vec<Word>)>,
    /// Domains whose certificates are obtained by ACME, and how.
    pub(super) acme: acme::Wanted,
}

/// The properties of the block.
static PROPS: &[Prop<Wanted>] = &[
    Prop {
        name: "certificate",
        words: "CERT KEY",
        set: |wanted, words| {
            wanted.pairs.push((words.one()?.clone(), words.one()?.clone()));
            Ok(())
        },
    },
    Prop {
        name: "self_signed",
        words: "[NAME...]",
        set: |wanted, words| {
            let name = words.name();
            once(&mut wanted.own, name, words.rest().to_vec())
                .map_err(|wrong| wrong.help("write all names in one line"))
        },
    },
    Prop {
        name: "acme",
        words: "DOMAIN...",
        set: |wanted, words| {
            let name = words.name();
            words.clone().one()?;
            once(&mut wanted.acme.domains, name, words.rest().to_vec())
        },
    },
    Prop {
        name: "email",
        words: "ADDRESS",
        set: |wanted, words| once(&mut wanted.acme.email, words.name(), words.one()?.clone()),
    },
    Prop {
        name: "ca",
        words: "URL",
        set: |wanted, words| once(&mut wanted.acme.directory, words.name(), words.one()?.clone()),
    },
    Prop {
        name: "storage",
        words: "FOLDER",
        set: |wanted, words| once(&mut wanted.acme.storage, words.name(), words.one()?.clone()),
    },
    Prop {
        name: "ca_root",
        words: "FILE",
        set: |wanted, words| once(&mut wanted.acme.ca_root, words.name(), words.one()?.clone()),
    },
    Prop {
        name: "resolver",
        words: "HOST:PORT",
        set: |wanted, words| once(&mut wanted.acme.resolver, words.name(), words.one()?.clone()),
    },
    Prop {
        name: "challenge",
        words: "dns-01|http-01 [ADDRESS]|tls-alpn-01",
        set: |wanted, words| {
            let name = words.name();
            let word = words.clone().one()?.clone();
            let challenge = words.choice(CHALLENGES)?;
            let page = if challenge == Challenge::Http { words.maybe().cloned() } else { None };
            once(&mut wanted.acme.challenge, name, acme::Way { word, challenge, page })
        },
    },
    Prop {
        name: "client_auth",
        words: "nocert|request|require|verify_if_given|require_and_verify",
        set: |wanted, words| {
            let word = words.clone().one()?.clone();
            wanted.client_auth = Some((word, words.choice(MODES)?));
            Ok(())
        },
    },
    Prop {
        name: "client_ca",
        words: "FILE",
        set: |wanted, words| {
            let word = words.one()?;
            if wanted.client_ca.is_some() {
                return Err(word
                    .wrong("is a second file of client CAs")
                    .help("put all CAs into one file"));
            }
            wanted.client_ca = Some(word.clone());
            Ok(())
        },
    },
    Prop {
        name: "keylog",
        words: "FILE",
        set: |wanted, words| {
            wanted.keylog = Some(words.one()?.clone());
            Ok(())
        },
    },
];

/// Sets what may be said once; `name` is its first word.
fn once<T>(slot: &mut Option<(Word, T)>, name: &Word, value: T) -> Result<(), Diagnostic> {
    if slot.is_some() {
        return Err(name.wrong("stands here twice"));
    }
    *slot = Some((name.clone(), value));
    Ok(())
}

/// The words of `challenge`.
static CHALLENGES: &[(&str, Challenge)] = &[
    ("dns-01", Challenge::Dns),
    ("http-01", Challenge::Http),
    ("tls-alpn-01", Challenge::TlsAlpn),
];

/// The words of `client_auth`.
static MODES: &[(&str, ClientAuth)] = &[
    ("nocert", ClientAuth::None),
    ("request", ClientAuth::Request),
    ("require", ClientAuth::Require),
    ("verify_if_given", ClientAuth::VerifyIfGiven),
    ("require_and_verify", ClientAuth::RequireAndVerify),
];

/// Reads the directive.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.directive();
    if let [_, second, ..] = setup.directives() {
        return Err(second.name.fault("TLS already configured").help(
            "for several certificates write `certificate CERT KEY` in the block of the first",
        ));
    }
    let mut wanted = Wanted::default();
    line(directive.words(), &mut wanted)?;
    directive.read_block(PROPS, &mut wanted)?;
    let mode = mode(setup, &wanted)?;
    let (sources, told) = sources(setup, directive, &wanted, mode)?;
    let client_ca = wanted.client_ca.as_ref().map(|word| setup.path(&word.text));
    let keylog = wanted.keylog.as_ref().map(|word| setup.path(&word.text));
    if let Some(path) = &keylog {
        let what = format!("Writing TLS Key Log to {path:?}");
        setup.warn(Diagnostic::new(what));
    }
    let key = format!("{told} {mode:?} {client_ca:?} {keylog:?}");
    let served = setup.share(&key, || {
        let options = Options {
            sources,
            client_auth: mode,
            client_ca: client_ca.clone(),
            keylog: keylog.clone(),
            target: TARGET,
        };
        let tls = ServerTls::new(options).map_err(|error| {
            let of = |path: &Option<PathBuf>| error.file.is_some() && error.file == *path;
            let word = if of(&client_ca) {
                wanted.client_ca.as_ref()
            } else if of(&keylog) {
                wanted.keylog.as_ref()
            } else {
                None
            };
            wrong(word.unwrap_or(&directive.name), error)
        })?;
        Ok(Served::new(tls))
    })?;
    let tls = Tls::new(Arc::clone(&served.tls));
    setup.listener().tls.push(tls);
    Ok(())
}

/// Reads the words of the line, `CERT KEY [CA]`.
fn line(mut words: Words<'_>, wanted: &mut Wanted) -> Result<(), Diagnostic> {
    if words.is_empty() {
        return Ok(());
    }
    let help = |diagnostic: Diagnostic| diagnostic.help("write: tls CERT KEY [CA]");
    let (chain, key) = (words.one().map_err(help)?, words.one().map_err(help)?);
    wanted.pairs.push((chain.clone(), key.clone()));
    wanted.client_ca = words.maybe().cloned();
    words.end().map_err(help)
}

/// What is asked of clients; CAs are there if they are needed.
fn mode(setup: &mut Setup<'_>, wanted: &Wanted) -> Result<ClientAuth, Diagnostic> {
    let mode = wanted.client_auth.as_ref().map_or(ClientAuth::None, |(_, mode)| *mode);
    match (&wanted.client_auth, &wanted.client_ca) {
        (Some((word, _)), None) if mode.verifies() => Err(word
            .wrong("needs a CA to check clients by")
            .help("write `tls CERT KEY CA`, or `client_ca FILE` in the block")),
        (_, Some(word)) if !mode.verifies() => {
            let what = format!(
                "is not used: client_auth is {}, and only verify_if_given and require_and_verify check certificates",
                mode.word()
            );
            setup.warn(word.wrong(what));
            Ok(mode)
        }
        _ => Ok(mode),
    }
}

/// Where the certificates come from, and a text that tells this from all else.
fn sources(
    setup: &mut Setup<'_>,
    directive: &Directive,
    wanted: &Wanted,
    mode: ClientAuth,
) -> Result<(Vec<Source>, String), Diagnostic> {
    let own = wanted.own.as_ref().map(|(word, _)| word);
    let acme = wanted.acme.domains.as_ref().map(|(word, _)| word);
    let files = (!wanted.pairs.is_empty()).then_some(&directive.name);
    // Files are named first, so that the word which is wrong is another one.
    if let [_, second, ..] = [files, own, acme].iter().flatten().collect::<Vec<_>>()[..] {
        return Err(second
            .wrong("stands beside certificates that come from elsewhere")
            .help("keep one of them; another block at the same listener may have the other"));
    }
    if acme.is_some() {
        return acme::sources(setup, &wanted.acme, mode);
    }
    wanted.acme.refuse_alone()?;
    match &wanted.own {
        None if wanted.pairs.is_empty() => Err(directive
            .name
            .fault("Wrong argument count or unexpected line ending after 'tls'")
            .help("write `tls CERT KEY [CA]`, or in the block `certificate CERT KEY`, `self_signed` or `acme DOMAIN`")),
        None => self::files(setup, &wanted.pairs),
        Some((word, names)) => {
            let (source, told) = own::source(setup, word, names)?;
            Ok((vec![Source::clone(&source)], told))
        }
    }
}

/// The certificates of files, each read once for all blocks that name it; everything that is wrong with them.
fn files(
    setup: &mut Setup<'_>,
    pairs: &[(Word, Word)],
) -> Result<(Vec<Source>, String), Diagnostic> {
    let (mut sources, mut told, mut all_wrong) = (Vec::new(), String::new(), Vec::new());
    for (chain, key) in pairs {
        let (chain_path, key_path) = (setup.path(&chain.text), setup.path(&key.text));
        let name = format!("{chain_path:?} {key_path:?}");
        let source = setup.share(&name, || {
            let source = Source::files(chain_path, key_path.clone(), TARGET);
            source.map(Arc::new).map_err(|error| {
                let is_key = error.file.as_ref() == Some(&key_path);
                wrong(if is_key { key } else { chain }, error)
            })
        });
        match source {
            Ok(source) => {
                for odd in source.oddities() {
                    setup.warn(chain.fault(odd));
                }
                told.push_str(&name);
                sources.push(Source::clone(&source));
            }
            Err(diagnostic) => all_wrong.push(diagnostic),
        }
    }
    Diagnostic::joined(all_wrong).map_or(Ok((sources, told)), Err)
}

/// What is wrong with certificates, at a word.
pub(super) fn wrong(word: &Word, error: certs::Error) -> Diagnostic {
    let diagnostic = word.fault(error.to_string());
    match error.help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}
