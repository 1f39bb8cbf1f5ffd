//! `trace [zipkin|datadog|otlp] [ENDPOINT] { … }`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use certs::ClientTls;
use config::{Diagnostic, Directive, Prop, Words};
use engine::Setup;

use super::datadog::{self, Datadog};
use super::handler::{Told, Trace};
use super::otlp::{self, Otlp};
use super::report::{Encode, PATIENCE, Reporter, Reports};
use super::zipkin::{self, Zipkin};
use crate::shared::fetch::{self, Fetch};

/// What the block says.
#[derive(Debug)]
struct Config {
    every: u64,
    service: String,
    client_server: bool,
    /// How many of Datadog's traces are kept for search.
    rate: f64,
    backlog: usize,
    batch: usize,
    interval: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            every: 1,
            service: "coredns".to_owned(),
            client_server: false,
            rate: 0.0,
            backlog: 1000,
            batch: 100,
            interval: Duration::from_secs(1),
        }
    }
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "every",
        words: "AMOUNT",
        set: |c, w| {
            c.every = w.parsed()?;
            Ok(())
        },
    },
    Prop {
        name: "service",
        words: "NAME",
        set: |c, w| {
            c.service = w.one()?.text.to_string();
            Ok(())
        },
    },
    Prop {
        name: "client_server",
        words: "[true|false]",
        set: |c, w| {
            c.client_server = w.is_empty() || w.choice(FLAGS)?;
            Ok(())
        },
    },
    Prop { name: "datadog_analytics_rate", words: "RATE", set: set_rate },
    Prop { name: "zipkin_max_backlog_size", words: "SIZE", set: |c, w| size(&mut c.backlog, w) },
    Prop { name: "zipkin_max_batch_size", words: "SIZE", set: |c, w| size(&mut c.batch, w) },
    Prop { name: "zipkin_max_batch_interval", words: "DURATION", set: set_interval },
];

/// The words for yes and no, as Go reads them.
const FLAGS: &[(&str, bool)] = &[
    ("true", true),
    ("false", false),
    ("1", true),
    ("0", false),
    ("t", true),
    ("f", false),
    ("T", true),
    ("F", false),
    ("TRUE", true),
    ("FALSE", false),
    ("True", true),
    ("False", false),
];

/// `datadog_analytics_rate RATE`.
fn set_rate(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.clone().one()?.clone();
    config.rate = words.parsed()?;
    match (0.0..=1.0).contains(&config.rate) {
        true => Ok(()),
        false => Err(word.wrong("is no rate from 0 to 1")),
    }
}

/// Takes a number, of which 0 leaves the default.
fn size(value: &mut usize, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let number: usize = words.parsed()?;
    if number > 0 {
        *value = number.min(1 << 20);
    }
    Ok(())
}

/// `zipkin_max_batch_interval DURATION`; 0 leaves the default.
fn set_interval(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let interval = words.duration()?;
    if !interval.is_zero() {
        config.interval = interval;
    }
    Ok(())
}

/// The kinds of collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Zipkin,
    Datadog,
    Otlp,
}

/// Their names.
const KINDS: &[(&str, Kind)] =
    &[("zipkin", Kind::Zipkin), ("datadog", Kind::Datadog), ("otlp", Kind::Otlp)];

impl Kind {
    /// The URL that an endpoint means.
    fn url(self, endpoint: &str) -> String {
        let or =
            |default: &'static str| if endpoint.is_empty() { default } else { endpoint }.to_owned();
        match self {
            Self::Zipkin => {
                let endpoint = or("localhost:9411");
                match endpoint.contains("http") {
                    true => endpoint,
                    false => format!("http://{endpoint}/api/v2/spans"),
                }
            }
            Self::Datadog => {
                let endpoint = or("localhost:8126");
                let base = match endpoint.contains("://") {
                    true => endpoint,
                    false => format!("http://{endpoint}"),
                };
                format!("{}/v0.4/traces", base.trim_end_matches('/'))
            }
            Self::Otlp => {
                let endpoint = or("localhost:4318");
                match endpoint.contains("://") {
                    true => endpoint,
                    false => format!("http://{endpoint}/v1/traces"),
                }
            }
        }
    }

    /// A trace's number in words.
    fn number(self) -> fn(u128) -> String {
        match self {
            Self::Zipkin => zipkin::number,
            Self::Datadog => datadog::number,
            Self::Otlp => otlp::number,
        }
    }
}

/// Sets the plugin up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let (kind, url) = collector(setup, directive)?;
    let mut config = Config::default();
    directive.read_block(PROPS, &mut config)?;
    let reports = reports(setup, kind, url, &config)?;
    setup.install(Trace {
        every: config.every,
        count: AtomicU64::new(0),
        parents: match kind {
            Kind::Zipkin => Some(false),
            Kind::Otlp => Some(true),
            Kind::Datadog => None,
        },
        reports,
    });
    setup.provide(Told(kind.number()));
    Ok(())
}

/// Reads the words of the line.
fn collector(setup: &mut Setup<'_>, directive: &Directive) -> Result<(Kind, String), Diagnostic> {
    let mut words = directive.words();
    let mut kind = Kind::Zipkin;
    if words.len() > 1 {
        let word = words.one()?;
        let name = word.text.to_ascii_lowercase();
        let found = KINDS.iter().find(|(known, _)| *known == name);
        kind = found.map(|(_, kind)| *kind).ok_or_else(|| {
            word.wrong("is no kind of collector").help("write zipkin, datadog or otlp")
        })?;
    }
    let word = words.maybe();
    words.end()?;
    if let Some(word) = word.filter(|_| directive.args.len() == 1)
        && KINDS.iter().any(|(name, _)| *name == word.text)
    {
        let odd = word.wrong("is read as the host of a Zipkin collector");
        setup.warn(odd.help(format!("write: trace {} HOST:PORT", word.text)));
    }
    let url = kind.url(word.map(|word| &*word.text).unwrap_or_default());
    let place = word.unwrap_or(&directive.name);
    let url = fetch::endpoint(&url)
        .map_err(|why| place.wrong(format_args!("is no endpoint: {url} {why}")))?;
    Ok((kind, url))
}

/// The queue of a collector, and who empties it.
fn reports(
    setup: &mut Setup<'_>,
    kind: Kind,
    url: String,
    config: &Config,
) -> Result<Arc<Reports>, Diagnostic> {
    let tls = match url.starts_with("https:") {
        true => crate::shared::client_tls::open(setup, None)?,
        false => ClientTls::unchecked(),
    };
    let process = Arc::clone(setup.process());
    let service = config.service.clone();
    let local = local(setup);
    let encode: Encode = match kind {
        Kind::Zipkin => {
            let zipkin = Zipkin { service, local, shares: config.client_server };
            Box::new(move |all| zipkin.encode(all))
        }
        Kind::Datadog => {
            let datadog = Datadog { service, rate: config.rate };
            Box::new(move |all| datadog.encode(all))
        }
        Kind::Otlp => {
            let otlp = Otlp { service, version: process.version.clone() };
            Box::new(move |all| otlp.encode(all))
        }
    };
    let key = format!("trace {kind:?} {url} {local:?} {config:?}");
    let fetch = Fetch::new(&tls).within(PATIENCE);
    let reports = setup.share(&key, || Ok(Reports::new(&url, config.backlog)))?;
    let (begun, batch, interval) = (Arc::clone(&reports), config.batch, config.interval);
    setup.task(move |_| {
        // Whoever comes first with this configuration or one before empties it; it ends when nobody fills it.
        let traced = begun.take();
        let board = Arc::clone(&begun.board);
        drop(begun);
        let (stop, _linger) = (process.stop(), process.linger());
        async move {
            if let Some(traced) = traced {
                let reporter =
                    Reporter { fetch, url, encode, traced, board, batch, interval, stop, _linger };
                reporter.run().await;
            }
            // It looks after the files of the system as long as it is there.
            drop(tls);
        }
    });
    Ok(reports)
}

/// Where the block listens, if it says so.
fn local(setup: &mut Setup<'_>) -> Option<SocketAddr> {
    let port = setup.keys().first()?.port;
    let first = setup.listener().bind.first()?;
    Some(SocketAddr::new(first.ip, port))
}
