//! From the lines of the Corefile to who asks.

use std::collections::HashMap;
use std::sync::Arc;

use config::value::Network;
use config::{Diagnostic, Prop, Word, Words};
use engine::{Admission, Identity, Method, Setup};
use foldhash::fast::FixedState;
use wire::Name;

use super::door::{Doorkeeper, OPEN_HELP, Rules};
use super::files::{Files, Unread};
use super::metadata::Who;
use super::networks::Networks;
use super::words::unfit;

/// What the lines say, one by one.
#[derive(Default)]
struct Lines {
    authorities: Vec<Word>,
    secrets: Option<Word>,
    names: Vec<(Word, String)>,
    networks: Networks,
    keys: Vec<Word>,
    tsig: HashMap<Name, Arc<Identity>, FixedState>,
    default: Option<Admission>,
}

/// The properties of the block.
const PROPERTIES: &[Prop<Lines>] = &[
    Prop {
        name: "certificates",
        words: "CA [CA...]",
        set: |lines, words| {
            words.clone().one()?;
            lines.authorities.extend_from_slice(words.rest());
            Ok(())
        },
    },
    Prop {
        name: "secrets",
        words: "FILE",
        set: |lines, words| match lines.secrets.replace(words.one()?.clone()) {
            None => Ok(()),
            Some(_) => {
                Err(words.name().wrong("stands there twice").help("keep all secrets in one file"))
            }
        },
    },
    Prop {
        name: "names",
        words: "*.DOMAIN [*.DOMAIN...]",
        set: |lines, words| {
            words.clone().one()?;
            for word in words.rest() {
                lines.names.push((word.clone(), pattern(word)?));
            }
            Ok(())
        },
    },
    Prop { name: "networks", words: "NAME NETWORK [NETWORK...] [GROUP...]", set: networks },
    Prop { name: "tsig", words: "KEY NAME [GROUP...]", set: tsig },
    Prop {
        name: "default",
        words: "none|anonymous",
        set: |lines, words| {
            let choices = [("none", Admission::Views), ("anonymous", Admission::Open)];
            match lines.default.replace(words.choice(&choices)?) {
                None => Ok(()),
                Some(_) => Err(words.name().wrong("stands there twice").help("keep one of them")),
            }
        },
    },
];

/// Reads the block.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    let mut lines = Lines::default();
    directive.read_block(PROPERTIES, &mut lines)?;
    let knows_nobody = lines.authorities.is_empty()
        && lines.secrets.is_none()
        && lines.networks.is_empty()
        && lines.tsig.is_empty();
    if knows_nobody {
        return Err(directive
            .name
            .wrong("knows nobody")
            .help("write certificates, secrets, networks or tsig between its braces"));
    }
    if let (Some((name, _)), None) = (lines.names.first(), &lines.secrets) {
        return Err(name
            .fault("`names` needs `secrets`, where the labels are")
            .help("write secrets FILE; `causeway secret NAME` makes its lines"));
    }
    if let Some(key) = lines.keys.first().filter(|_| !setup.has("tsig")) {
        return Err(key
            .wrong("is a key of the plugin tsig, which the block does not have")
            .help("write tsig in the block, with this key"));
    }
    if !setup.has("tls")
        && let Some(word) =
            lines.authorities.first().or_else(|| lines.names.first().map(|(word, _)| word))
    {
        let what = "the block has no tls, so nobody shows a certificate or a TLS name";
        setup.warn(word.fault(what).help("write tls in the block, or take the line away"));
    }
    let door = door(setup, &directive.fingerprint(), lines)?;
    if door.has_files() {
        let watched = Arc::clone(&door);
        setup.task(move |stop| watched.watch(stop));
    }
    setup.door(door);
    setup.provide_always(Who);
    Ok(())
}

/// Who finds out who asks: one for all blocks with the same lines, and over reloads.
fn door(
    setup: &mut Setup<'_>,
    fingerprint: &str,
    lines: Lines,
) -> Result<Arc<Doorkeeper>, Diagnostic> {
    let path = |word: &Word| setup.path(&word.text);
    let files = Files {
        secrets: lines.secrets.as_ref().map(path),
        authorities: lines.authorities.iter().map(path).collect(),
    };
    if let Some(word) = lines.secrets.as_ref().filter(|_| files.are_open()) {
        setup.warn(word.wrong("can be read by everybody on this machine").help(OPEN_HELP));
    }
    let key = format!("{fingerprint}{files:?}");
    let secrets = files.secrets.clone();
    let names = lines.names.into_iter().map(|(_, suffix)| suffix).collect();
    let words: Vec<_> = lines.secrets.into_iter().chain(lines.authorities).collect();
    setup.share(&key, || {
        let rules = Rules {
            files,
            names,
            networks: lines.networks,
            tsig: lines.tsig,
            default: lines.default.unwrap_or(Admission::Views),
        };
        let at = |file: &std::path::Path| words.iter().find(|word| file.ends_with(&word.text));
        Doorkeeper::new(rules).map(Arc::new).map_err(|Unread { file, why, .. }| {
            let what = format!("{}{why}", file.display());
            let wrong = at(&file)
                .map_or_else(|| Diagnostic::new(what.clone()), |word| word.fault(what.clone()));
            wrong.help(if secrets.as_ref() == Some(&file) {
                "write lines as `causeway secret NAME` prints them"
            } else {
                "write a PEM file with the CAs of clients"
            })
        })
    })
}

/// Reads `*.DOMAIN`; gives what stands behind the star, in lower case.
fn pattern(word: &Word) -> Result<String, Diagnostic> {
    let wrong =
        || word.wrong("is no pattern").help("write *.DOMAIN, where the star stands for a label");
    let domain = word.text.strip_prefix("*.").ok_or_else(wrong)?;
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let name = Name::parse(domain).filter(|name| !name.is_root() && !domain.contains('*'));
    name.ok_or_else(wrong)?;
    Ok(format!(".{}", domain.to_ascii_lowercase()))
}

/// Reads `NAME NETWORK [NETWORK…] [GROUP…]`.
fn networks(lines: &mut Lines, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let name = word(words.one()?)?;
    let mut all = vec![network(words.one()?)?];
    while let Some(next) = words.peek().filter(|word| is_network(&word.text)) {
        words.one()?;
        all.push(network(next)?);
    }
    if let Some(late) = words.clone().rest().iter().find(|word| is_network(&word.text)) {
        return Err(late
            .wrong("stands behind a group")
            .help("write the networks before the groups"));
    }
    let identity = identity(name, words, Method::Network)?;
    for (word, network) in all {
        if !lines.networks.add(network, Arc::clone(&identity)) {
            return Err(word.wrong("is named already").help("a network stands for one name"));
        }
    }
    Ok(())
}

/// Reads `KEY NAME [GROUP…]`.
fn tsig(lines: &mut Lines, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let key = words.one()?;
    let parsed =
        Name::parse(&key.text).ok_or_else(|| key.wrong("is no domain name, as keys have"))?;
    let name = word(words.one()?)?;
    let identity = identity(name, words, Method::Tsig)?;
    lines.keys.push(key.clone());
    match lines.tsig.insert(parsed, identity) {
        None => Ok(()),
        Some(_) => Err(key.wrong("is named already").help("a key stands for one name")),
    }
}

/// The identity of a name whose groups are the words left.
fn identity(
    name: &Word,
    words: &mut Words<'_>,
    method: Method,
) -> Result<Arc<Identity>, Diagnostic> {
    let groups = words.rest().iter().map(|group| word(group).map(|group| group.text.clone()));
    let groups = groups.collect::<Result<_, _>>()?;
    Ok(Arc::new(Identity { name: name.text.clone(), groups, method }))
}

/// A word that can be a name or a group.
fn word(word: &Word) -> Result<&Word, Diagnostic> {
    match unfit(&word.text) {
        None => Ok(word),
        Some(why) => Err(word.wrong(why).help("write a plain name")),
    }
}

/// Whether a word is a network, or was meant to be.
fn is_network(text: &str) -> bool {
    text.contains('/') || text.parse::<std::net::IpAddr>().is_ok()
}

/// Reads a network, or an address alone.
fn network(word: &Word) -> Result<(&Word, Network), Diagnostic> {
    Network::or_address(&word.text).map(|network| (word, network)).map_err(|wrong| {
        word.wrong(wrong).help("write networks such as 10.8.0.0/16 behind the name, then groups")
    })
}
