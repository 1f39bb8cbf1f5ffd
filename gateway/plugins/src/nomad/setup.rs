//! From the directive's words, and the environment, to the plugin.

use std::env::var;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::value::TlsFiles;
use config::{Diagnostic, Prop};
use engine::{Role, Setup};
use tokio::sync::Semaphore;
use wire::Name;

use super::Nomad;
use super::agent::{Agents, Manner, Place};
use super::metrics::Figures;
use crate::shared::{client_tls, ttl};

/// The zone where none is stated.
const ZONE: &str = "service.nomad";
/// Where an agent is if nothing else is stated.
const ADDRESS: &str = "http://127.0.0.1:4646";
/// The time to live of records where none is stated, in seconds.
const TTL: u32 = 30;
/// How many queries may wait for Nomad.
const ROOM: usize = 512;
/// What can be written as an address.
const FORMS: &str = "write http://HOST:PORT, https://HOST:PORT or unix:// and the path of a socket";

/// What a directive says.
#[derive(Debug, Default)]
struct Config {
    /// Where agents are.
    places: Vec<Place>,
    /// How they are asked.
    manner: Manner,
    /// The time to live of records, in seconds.
    ttl: Option<u32>,
}

/// The properties.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "address",
        words: "URL...",
        set: |config, words| {
            words.clone().one()?;
            for word in words.rest() {
                let place = Place::read(&word.text);
                let place =
                    place.ok_or_else(|| word.wrong("is no address of Nomad").help(FORMS))?;
                if !config.places.contains(&place) {
                    config.places.push(place);
                }
            }
            Ok(())
        },
    },
    Prop {
        name: "filter",
        words: "EXPRESSION",
        set: |config, words| {
            words.one().map(|word| word.text.clone_into(&mut config.manner.filter))
        },
    },
    Prop {
        name: "token",
        words: "TOKEN",
        set: |config, words| words.one().map(|word| word.text.clone_into(&mut config.manner.token)),
    },
    Prop {
        name: "ttl",
        words: "TTL",
        set: |config, words| ttl::read(words).map(|ttl| config.ttl = Some(ttl)),
    },
];

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directive. A Nomad that does not answer is none.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        let mut config = Config::default();
        directive.read_block(PROPS, &mut config)?;
        if let [_, more, ..] = &*directive.args {
            return Err(more
                .wrong("is one zone too many")
                .help("write one directive for each zone"));
        }
        let zone = match directive.args.first() {
            None => Name::parse(ZONE),
            Some(word) => setup.zones_of(std::slice::from_ref(word)).into_iter().next(),
        };
        let Some(zone) = zone else {
            let word = directive.args.first().unwrap_or(&directive.name);
            return Err(word.wrong("is no zone").help("write a zone such as service.nomad"));
        };
        setup.own([zone.clone()]);
        let agents = agents(setup, &mut config)?;
        setup.offer(Role::Ready(Arc::clone(&agents) as _));
        let looking = Arc::clone(&agents);
        setup.task(move |stop| looking.look(stop));
        let figures = Figures::new(setup.routes());
        let ttl = config.ttl.unwrap_or(TTL);
        setup.install(Nomad { zone, ttl, agents, figures, room: Semaphore::new(ROOM) });
    }
    Ok(())
}

/// The agents that a directive and the environment mean: those of another block or of the configuration before if they are the
/// same.
fn agents(setup: &mut Setup<'_>, config: &mut Config) -> Result<Arc<Agents>, Diagnostic> {
    let stated = |name: &str| var(name).ok().filter(|value| !value.is_empty());
    let word = &setup.directive().name;
    if config.places.is_empty() {
        let place = match stated("NOMAD_ADDR") {
            None => Place::read(ADDRESS),
            Some(text) => Some(Place::read(&text).ok_or_else(|| {
                word.fault(format!("NOMAD_ADDR: {text:?} is no address of Nomad")).help(FORMS)
            })?),
        };
        config.places.extend(place);
    }
    let manner = &mut config.manner;
    if manner.token.is_empty() {
        manner.token = stated("NOMAD_TOKEN").unwrap_or_default();
    }
    manner.region = stated("NOMAD_REGION").unwrap_or_default();
    manner.login = match stated("NOMAD_HTTP_AUTH") {
        Some(pair) if pair.contains(':') => format!("Basic {}", STANDARD.encode(pair)),
        Some(user) => format!("Basic {}", STANDARD.encode(format!("{user}:"))),
        None => String::new(),
    };
    let signs = |text: &str| text.bytes().all(|byte| (b' '..0x7f).contains(&byte));
    if !signs(&manner.token) {
        return Err(word
            .fault("the token of Nomad has signs that none can have")
            .help("write it as Nomad shows it"));
    }
    let pair = stated("NOMAD_CLIENT_CERT").zip(stated("NOMAD_CLIENT_KEY"));
    let client = pair.map(|(cert, key)| (PathBuf::from(cert), PathBuf::from(key)));
    let files = TlsFiles { client, ca: stated("NOMAD_CACERT").map(PathBuf::from) };
    let tls = match config.places.iter().any(Place::is_encrypted) {
        true => Some(client_tls::open(setup, Some(&(word.clone(), files.clone())))?),
        false => None,
    };
    let Manner { token, login, filter, region } = &config.manner;
    let key =
        format!("nomad {:?} {files:?} {token:?} {login:?} {filter:?} {region:?}", config.places);
    let places = std::mem::take(&mut config.places);
    setup.share(&key, || Ok(Arc::new(Agents::new(places, config.manner.clone(), tls))))
}
