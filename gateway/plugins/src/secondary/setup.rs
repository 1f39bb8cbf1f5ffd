//! `secondary [ZONES…] { transfer from ADDRESS…; … }`.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use config::value::{Endpoint, TlsFiles, tls_files};
use config::{Diagnostic, Directive, Prop, Scheme, Word};
use engine::{Role, Setup};
use transports::upstream::{Identity, Way};
use wire::Name;

use super::book::{Book, Fixed};
use super::handler::{Dropped, Secondary};
use super::held::Held;
use super::primary::Primaries;
use crate::shared::fall::Fall;
use crate::shared::zones::Zones;
use crate::shared::{client_tls, host, tsig};

/// What can be written for an address.
const FORMS: &str =
    "write IP or IP:port, an IPv6 address with a port in brackets, with tls:// before it for TLS";

/// What the properties say, beside `fallthrough`.
#[derive(Default)]
struct Options {
    /// The addresses, each where it stands.
    from: Vec<(Word, Endpoint)>,
    /// The zones that members of a catalog may be.
    catalog: Option<Vec<Name>>,
    /// The name of a key, and its algorithm.
    key: Option<(Word, Option<Word>)>,
    tls: Option<(Word, TlsFiles)>,
    server_name: Option<Word>,
}

/// The properties.
const PROPS: &[Prop<Options>] = &[
    Prop {
        name: "transfer",
        words: "from ADDRESS...",
        set: |options, words| {
            let from = words.one()?;
            if from.text != "from" {
                return Err(from.wrong("is not known here"));
            }
            let first = words.one()?;
            for word in std::iter::once(first).chain(words.rest()) {
                options.from.push((word.clone(), endpoint(word)?));
            }
            Ok(())
        },
    },
    Prop {
        name: "catalog",
        words: "[ZONES...]",
        set: |options, words| {
            let name = |word: &Word| {
                let name = config::value::fqdn(&word.text).ok();
                let name = name.and_then(|name| Name::parse(&name));
                name.ok_or_else(|| word.wrong("is not a domain name"))
            };
            let names = words.rest().iter().map(name).collect::<Result<Vec<_>, _>>()?;
            options.catalog.get_or_insert_default().extend(names);
            Ok(())
        },
    },
    Prop {
        name: "key",
        words: "NAME [ALGORITHM]",
        set: |options, words| {
            options.key = Some((words.one()?.clone(), words.maybe().cloned()));
            Ok(())
        },
    },
    Prop {
        name: "tls",
        words: "[CERT KEY] [CA]",
        set: |options, words| {
            options.tls = Some((words.name().clone(), tls_files(words, None)?));
            Ok(())
        },
    },
    Prop {
        name: "tls_servername",
        words: "NAME",
        set: |options, words| {
            options.server_name = Some(words.one()?.clone());
            Ok(())
        },
    },
];

/// Reads the address of a server.
fn endpoint(word: &Word) -> Result<Endpoint, Diagnostic> {
    let wrong = || word.wrong("is no address of a server").help(FORMS);
    let endpoint: Endpoint = word.text.parse().map_err(|_| wrong())?;
    match endpoint.scheme {
        Scheme::Dns | Scheme::Tls => Ok(endpoint),
        _ => Err(wrong()),
    }
}

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directives.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let (mut fixed, mut seen, mut key) = (Vec::new(), HashSet::new(), "secondary".to_owned());
    for directive in setup.directives() {
        stanza(setup, directive, &mut fixed, &mut seen, &mut key)?;
    }
    let book = setup.share(&key, || Ok(Book::new(fixed)))?;
    let kept = Arc::clone(&book);
    setup.task(move |stop| kept.keep(stop));
    let dropped = Arc::new(Dropped::new(tokio::time::Instant::now().into_std()));
    let plugin = Secondary { book, dropped };
    setup.offer(Role::Transfer(Arc::new(plugin.clone())));
    setup.provide_as("zone", plugin.clone());
    setup.install(plugin);
    Ok(())
}

/// Reads one directive, and adds its zones; `print` comes to say all that they depend on.
fn stanza(
    setup: &mut Setup<'_>,
    directive: &Directive,
    fixed: &mut Vec<Fixed>,
    seen: &mut HashSet<Name>,
    print: &mut String,
) -> Result<(), Diagnostic> {
    let zones = setup.zones_of(&directive.args);
    let (mut options, mut fall) = (Options::default(), None);
    for line in directive.lines() {
        if line.name.text == "fallthrough" {
            line.no_block()?;
            fall = Some(Fall::read(setup, &mut line.words())?);
        } else {
            line.read_line(PROPS, &mut options)?;
        }
    }
    if options.from.is_empty() {
        let wrong = directive.name.wrong("says no server that the zone is copied from");
        return Err(wrong.help("write: secondary { transfer from ADDRESS... }"));
    }
    let (primaries, depends) = primaries(setup, &options)?;
    let primaries = Arc::new(primaries);
    print.push_str(&format!(" [{depends} {:?} {fall:?}", options.catalog));
    if fall.is_none() {
        setup.own(zones.iter().cloned());
    }
    let fall = fall.unwrap_or_default();
    for zone in zones {
        print.push_str(&format!(" {zone}"));
        let of = Arc::clone(&primaries);
        let is_catalog = options.catalog.is_some();
        let make = || Ok(Arc::new(Held::new(zone.clone(), of, is_catalog)));
        let held = setup.share(&format!("secondary {zone} {depends} {is_catalog}"), make)?;
        // Of two directives with the same zone the last one counts.
        if !seen.insert(zone.clone()) {
            fixed.retain(|known| *known.held.name() != zone);
        }
        let catalog = options.catalog.clone().map(Zones::new);
        fixed.push(Fixed { held, fall: fall.clone(), catalog });
    }
    print.push(']');
    Ok(())
}

/// The servers that the options name, and in a text all that they depend on.
fn primaries(setup: &mut Setup<'_>, options: &Options) -> Result<(Primaries, String), Diagnostic> {
    let key = match &options.key {
        Some((name, algorithm)) => Some(tsig::own(setup, name, algorithm.as_ref())?),
        None => None,
    };
    let is_secure = |(_, endpoint): &(Word, Endpoint)| endpoint.scheme == Scheme::Tls;
    let tls = if options.from.iter().any(is_secure) || options.tls.is_some() {
        Some(client_tls::open(setup, options.tls.as_ref())?)
    } else {
        None
    };
    let mut ways = Vec::new();
    for (word, endpoint) in &options.from {
        let (addr, own_name) = address(word, endpoint)?;
        let name =
            own_name.as_ref().or_else(|| options.server_name.as_ref().map(|word| &word.text));
        let identity = match tls.as_ref().filter(|_| endpoint.scheme == Scheme::Tls) {
            Some(tls) => {
                let name = name.map(|name| &**name);
                let identity = Identity::new(Arc::clone(tls), name, addr);
                Some(identity.ok_or_else(|| {
                    let word = options.server_name.as_ref().unwrap_or(word);
                    word.wrong("is no name that can be in a server's certificate")
                })?)
            }
            None => None,
        };
        ways.push(Way::new(addr, None, identity.as_ref()));
    }
    let files = options.tls.as_ref().map(|(_, files)| (setup.root().to_owned(), files));
    let depends = format!("{ways:?} {files:?} {:?}", key.as_ref().map(tsig::Key::print));
    Ok((Primaries { ways, key }, depends))
}

/// The address that is meant, and the name of the server if it stands there: what is behind `%` is an interface of a link-local
/// address (RFC 4007 §11), or a name.
fn address(word: &Word, endpoint: &Endpoint) -> Result<(SocketAddr, Option<String>), Diagnostic> {
    let port = endpoint.port_or_default();
    match (endpoint.address, &endpoint.scope) {
        (ip, None) => Ok((SocketAddr::new(ip, port), None)),
        (IpAddr::V6(ip), Some(scope))
            if endpoint.scheme == Scheme::Dns || host::is_link_local(ip.into()) =>
        {
            let found = host::interfaces().unwrap_or_default();
            let index = found.iter().find(|one| one.name == *scope).map(|one| one.index);
            let index = index.or_else(|| scope.parse().ok());
            let index = index.ok_or_else(|| word.wrong("names an interface that is not there"))?;
            Ok((SocketAddrV6::new(ip, port, 0, index).into(), None))
        }
        (ip, Some(name)) if endpoint.scheme == Scheme::Tls => {
            Ok((SocketAddr::new(ip, port), Some(name.clone())))
        }
        (_, Some(_)) => {
            let wrong = word.wrong("has a server name, which only encrypted servers have");
            Err(wrong.help("put tls:// before it"))
        }
    }
}
