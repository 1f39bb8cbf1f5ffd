//! `grpc FROM TO… { … }`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use certs::ClientTls;
use config::value::{Endpoint, EndpointError, ResolvConf, TlsFiles, tls_files};
use config::{Diagnostic, Prop, Scheme, Word, Words};
use engine::{Reach, Setup};
use transports::upstream::{Grpc, Identity, Spot};
use wire::Name;

use super::handler::{Called, Relay};
use crate::shared::fall::Fall;
use crate::shared::relay::flight::Flights;
use crate::shared::relay::policy::Policy;
use crate::shared::{client_tls, file, relay};

/// What can be written as TO.
const FORMS: &str = "write IP, IP:port, an IPv6 address with a port in brackets, unix:// and the path of a socket, or the path \
                     of a resolv.conf";

/// What the block says.
#[derive(Debug, Default)]
struct Config {
    except: Vec<Name>,
    policy: Policy,
    tls: Option<(Word, TlsFiles)>,
    server_name: Option<Word>,
    /// The words behind `fallthrough`.
    fall: Option<Vec<Word>>,
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "except",
        words: "NAMES...",
        set: |c, w| {
            c.except.extend(relay::except(w)?);
            Ok(())
        },
    },
    Prop {
        name: "policy",
        words: "random|round_robin|sequential",
        set: |c, w| {
            c.policy = Policy::read(w)?;
            Ok(())
        },
    },
    Prop {
        name: "tls",
        words: "[CERT KEY] [CA]",
        set: |c, w| {
            c.tls = Some((w.name().clone(), tls_files(w, None)?));
            Ok(())
        },
    },
    Prop {
        name: "tls_servername",
        words: "NAME",
        set: |c, w| {
            c.server_name = Some(w.one()?.clone());
            Ok(())
        },
    },
    Prop { name: "fallthrough", words: "[ZONES...]", set: set_fall },
];

/// `fallthrough [ZONES…]`.
fn set_fall(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    config.fall = Some(words.rest().to_vec());
    Ok(())
}

/// Makes the directive.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut words = directive.words();
    let word = words.one()?;
    let from = relay::from(setup, word)?;
    words.clone().one()?;
    let targets = words.rest();
    let mut config = Config::default();
    directive.read_block(PROPS, &mut config)?;
    let mut spots: Vec<Spot> = Vec::new();
    for word in targets {
        for spot in spots_of(word)? {
            if !spots.contains(&spot) {
                spots.push(spot);
            }
        }
    }
    relay::count(&spots, targets, &directive.name)?;
    let tls = match (&config.tls, &config.server_name) {
        (None, None) => None,
        (tls, _) => Some(client_tls::open(setup, tls.as_ref())?),
    };
    // The same words below another root are other files.
    let files = config.tls.as_ref().map(|(_, files)| (setup.root().to_owned(), files));
    let mut upstreams = Vec::with_capacity(spots.len());
    for spot in spots {
        let identity = match &tls {
            None => None,
            Some(tls) => Some(identity(tls, &config, &spot, &directive.name)?),
        };
        let key = format!("grpc {spot:?} {identity:?} {files:?}");
        let made = setup.share(&key, || Ok(Grpc::new(spot.clone(), identity.as_ref())))?;
        upstreams.push(Called::new(made));
    }
    let fall = match &config.fall {
        None => Fall::default(),
        Some(zones) => Fall::named(setup, zones),
    };
    let reach = Reach { from, except: config.except };
    let relay = Relay {
        reach: reach.clone(),
        upstreams: upstreams.into(),
        policy: config.policy,
        fall,
        turn: AtomicUsize::new(0),
        flights: Flights::new(),
        own: relay::Own::new(setup.layout()),
    };
    setup.install_upstream(&reach, relay);
    Ok(())
}

/// What an upstream's certificate has to be for.
fn identity(
    tls: &Arc<ClientTls>,
    config: &Config,
    spot: &Spot,
    directive: &Word,
) -> Result<Identity, Diagnostic> {
    let name = config.server_name.as_ref().map(|word| &*word.text);
    let addr = match (spot, name) {
        (Spot::Addr(addr), _) => *addr,
        (Spot::Unix(_), Some(_)) => SocketAddr::from(([0; 4], 0)),
        (Spot::Unix(_), None) => {
            let wrong = directive.fault(format!("{spot} has no name to check its certificate by"));
            return Err(wrong.help("add tls_servername NAME, or take tls away"));
        }
    };
    Identity::new(Arc::clone(tls), name, addr).ok_or_else(|| {
        let word = config.server_name.as_ref().unwrap_or(directive);
        word.wrong("cannot be the name in a server's certificate")
    })
}

/// The servers that one TO argument means.
fn spots_of(word: &Word) -> Result<Vec<Spot>, Diagnostic> {
    if let Some(path) = word.text.strip_prefix("unix://") {
        if path.is_empty() {
            return Err(word.wrong("names no socket").help(FORMS));
        }
        return Ok(vec![Spot::Unix(PathBuf::from(path))]);
    }
    let rest = match word.text.split_once("://") {
        None => &*word.text,
        Some((scheme, rest)) if matches!(scheme.parse(), Ok(Scheme::Dns | Scheme::Grpc)) => rest,
        Some(_) => return Err(word.wrong("has a scheme that gRPC does not go by").help(FORMS)),
    };
    match word.text.parse::<Endpoint>() {
        Ok(endpoint) => return Ok(vec![at(&endpoint, word)?]),
        Err(EndpointError::Port) => return Err(word.wrong(EndpointError::Port)),
        Err(EndpointError::Address) => {}
    }
    let read = file::text(Path::new(rest)).map_err(|error| {
        word.wrong(format_args!("is neither an address nor a file that can be read: {error}"))
            .help(FORMS)
    })?;
    ResolvConf::read(&read).nameservers.iter().map(|server| at(server, word)).collect()
}

/// The server at an address.
fn at(endpoint: &Endpoint, word: &Word) -> Result<Spot, Diagnostic> {
    if endpoint.scope.is_some() {
        return Err(word.wrong("has something behind a % that means nothing here").help(FORMS));
    }
    Ok(Spot::Addr((endpoint.address, endpoint.port_or_default()).into()))
}
