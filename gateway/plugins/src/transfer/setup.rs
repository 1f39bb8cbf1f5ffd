//! From the directive's words to the plugin.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use config::value::Endpoint;
use config::{Diagnostic, Prop, Scheme, Word};
use engine::Setup;
use engine::metrics::describe;
use tokio::sync::Semaphore;

use super::told::{TRANSFERS, UNDER_WAY};
use super::{Stanza, Transfer, notify};
use crate::shared::zones::Zones;
use crate::shared::{host, tsig};

/// How many transfers may be under way at a time where nothing else is stated.
const AT_ONCE: usize = 16;

/// What one directive says.
#[derive(Default)]
struct Config {
    stanza: Stanza,
    /// The name of a key, and its algorithm.
    key: Option<(Word, Option<Word>)>,
    /// How many transfers may be under way at a time.
    at_once: Option<usize>,
}

/// The properties.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "to",
        words: "ADDRESS...",
        set: |Config { stanza, .. }, words| {
            let first = words.one()?;
            for word in std::iter::once(first).chain(words.rest()) {
                match &*word.text {
                    "*" => stanza.anyone = true,
                    _ => stanza.to.push(server(word)?),
                }
            }
            Ok(())
        },
    },
    Prop {
        name: "source",
        words: "IP",
        set: |Config { stanza, .. }, words| {
            if stanza.source.is_some() {
                return Err(words.name().wrong("is stated twice"));
            }
            words.parsed::<IpAddr>().map(|ip| stanza.source = Some(ip))
        },
    },
    Prop {
        name: "key",
        words: "NAME [ALGORITHM]",
        set: |config, words| {
            config.key = Some((words.one()?.clone(), words.maybe().cloned()));
            Ok(())
        },
    },
    Prop {
        name: "at_once",
        words: "MAX",
        set: |config, words| {
            let read = |text: &str| match text.parse::<usize>() {
                Ok(most @ 1..=10_000) => Ok(most),
                _ => Err("not a number of transfers, 1 to 10000"),
            };
            words.read(read).map(|most| config.at_once = Some(most))
        },
    },
];

/// Reads the address of a server, port 53 if it has none.
fn server(word: &Word) -> Result<SocketAddr, Diagnostic> {
    let wrong = || {
        let wrong = word.wrong("is no address of a server");
        wrong.help("write an IP address, with a port if it is not 53, or * for everybody; use acl for networks")
    };
    let endpoint: Endpoint = word.text.parse().map_err(|_| wrong())?;
    if endpoint.scheme != Scheme::Dns || word.text.contains("://") {
        return Err(wrong());
    }
    let port = endpoint.port_or_default();
    match (endpoint.address, &endpoint.scope) {
        (IpAddr::V6(ip), Some(scope)) => {
            let found = host::interfaces().unwrap_or_default();
            let index = found.iter().find(|one| one.name == *scope).map(|one| one.index);
            let index = index.or_else(|| scope.parse().ok());
            let index = index.ok_or_else(|| word.wrong("names an interface that is not there"))?;
            Ok(SocketAddrV6::new(ip, port, 0, index).into())
        }
        (ip, _) => Ok(SocketAddr::new(ip, port)),
    }
}

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directives.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let mut stanzas = Vec::new();
    let mut most = None;
    for directive in setup.directives() {
        let zones = Zones::new(setup.zones_of(&directive.args));
        let mut config = Config::default();
        directive.read_block(PROPS, &mut config)?;
        let Config { mut stanza, key, at_once } = config;
        most = most.max(at_once);
        stanza.zones = zones;
        if stanza.to.is_empty() && !stanza.anyone {
            let wrong = directive.name.wrong("says nobody who may copy the zone");
            return Err(wrong.help("write: transfer { to ADDRESS... }"));
        }
        if let Some((name, algorithm)) = key {
            stanza.key = Some(tsig::own(setup, &name, algorithm.as_ref())?);
        }
        stanzas.push(stanza);
    }
    let roles = setup.roles();
    if stanzas.iter().any(|stanza| !stanza.to.is_empty()) {
        let (stanzas, roles) = (stanzas.clone(), roles.clone());
        setup.task(|stop| notify::run(stanzas, roles, stop));
    }
    describe(TRANSFERS, "Transfers of zones to others, by kind.");
    describe(UNDER_WAY, "Transfers of zones to others that are under way.");
    let most = most.unwrap_or(AT_ONCE);
    // Those of the configuration before count on.
    let slots = setup
        .share(&format!("transfers at once: {most}"), || Ok(Arc::new(Semaphore::new(most))))?;
    setup.install(Transfer { stanzas, roles, slots });
    Ok(())
}
