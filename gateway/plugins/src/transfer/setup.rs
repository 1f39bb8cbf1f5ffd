//! From the directive's words to the plugin.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use config::value::Endpoint;
use config::{Diagnostic, Prop, Scheme, Word};
use engine::Setup;

use super::{Stanza, Transfer, notify};
use crate::shared::host;
use crate::shared::zones::Zones;

/// The properties.
const PROPS: &[Prop<Stanza>] = &[
    Prop {
        name: "to",
        words: "ADDRESS...",
        set: |stanza, words| {
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
        set: |stanza, words| {
            if stanza.source.is_some() {
                return Err(words.name().wrong("is stated twice"));
            }
            words.parsed::<IpAddr>().map(|ip| stanza.source = Some(ip))
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
    for directive in setup.directives() {
        let zones = Zones::new(setup.zones_of(&directive.args));
        let mut stanza = Stanza { zones, ..Stanza::default() };
        directive.read_block(PROPS, &mut stanza)?;
        if stanza.to.is_empty() && !stanza.anyone {
            let wrong = directive.name.wrong("says nobody who may copy the zone");
            return Err(wrong.help("write: transfer { to ADDRESS... }"));
        }
        stanzas.push(stanza);
    }
    let roles = setup.roles();
    if stanzas.iter().any(|stanza| !stanza.to.is_empty()) {
        let (stanzas, roles) = (stanzas.clone(), roles.clone());
        setup.task(|stop| notify::run(stanzas, roles, stop));
    }
    setup.install(Transfer { stanzas, roles });
    Ok(())
}
