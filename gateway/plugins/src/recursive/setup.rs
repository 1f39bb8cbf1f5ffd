//! `recursive [FROM] { … }`.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Prop, Word, Words};
use engine::metrics::{TIME_BUCKETS, counter, describe, histogram};
use engine::{Reach, Setup};
use hickory_resolver::proto::dnssec::TrustAnchors;
use hickory_resolver::recursor::{DnssecConfig, DnssecPolicy, RecursorOptions};
use ipnet::IpNet;
use wire::Name;

use super::handler::{Figures, Plan, Recursive, Walkers};
use super::roots;
use crate::shared::host;
use crate::shared::relay;
use crate::shared::relay::crowd::Crowd;
use crate::shared::relay::flight::Flights;

/// The counter of what came out.
const QUERIES: &str = "causeway_recursive_queries_total";

/// The histogram of how long it took.
const DURATION: &str = "causeway_recursive_duration_seconds";

/// What the block says.
#[derive(Debug)]
struct Config {
    except: Vec<Name>,
    hints: Option<(Word, PathBuf)>,
    anchors: Option<(Word, PathBuf)>,
    dnssec: bool,
    allow: Vec<IpNet>,
    case: bool,
    cache: u64,
    max_concurrent: usize,
    patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            except: Vec::new(),
            hints: None,
            anchors: None,
            dnssec: true,
            allow: Vec::new(),
            case: false,
            cache: 65_536,
            max_concurrent: 1000,
            patience: Duration::from_secs(8),
        }
    }
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
    Prop { name: "hints", words: "FILE", set: |c, w| file(&mut c.hints, w) },
    Prop { name: "anchors", words: "FILE", set: |c, w| file(&mut c.anchors, w) },
    Prop { name: "dnssec", words: "on|off", set: |c, w| switch(&mut c.dnssec, w) },
    Prop { name: "allow_servers", words: "NETWORKS...", set: set_allow },
    Prop { name: "random_case", words: "on|off", set: |c, w| switch(&mut c.case, w) },
    Prop {
        name: "cache_size",
        words: "ANSWERS",
        set: |c, w| {
            c.cache = number(w, 1, 1 << 24)?;
            Ok(())
        },
    },
    Prop {
        name: "max_concurrent",
        words: "QUERIES",
        set: |c, w| {
            c.max_concurrent = usize::try_from(number(w, 0, 1 << 20)?).unwrap_or(usize::MAX);
            Ok(())
        },
    },
    Prop {
        name: "timeout",
        words: "DURATION",
        set: |c, w| {
            let word = w.clone().one()?.clone();
            c.patience = w.duration()?;
            match c.patience.is_zero() {
                true => Err(word.wrong("is wrong: it must be more than 0")),
                false => Ok(()),
            }
        },
    },
];

/// Takes the name of a file.
fn file(slot: &mut Option<(Word, PathBuf)>, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.one()?;
    *slot = Some((word.clone(), PathBuf::from(&*word.text)));
    Ok(())
}

/// Turns something on or off.
fn switch(part: &mut bool, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    *part = words.choice(&[("on", true), ("off", false)])?;
    Ok(())
}

/// Takes a number within bounds.
fn number(words: &mut Words<'_>, least: u64, most: u64) -> Result<u64, Diagnostic> {
    let word = words.one()?;
    let number = word.text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| word.wrong(format_args!("is no number from {least} to {most}")))
}

/// `allow_servers NETWORKS…`.
fn set_allow(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    words.clone().one()?;
    for word in words.rest() {
        let net = word.text.parse::<IpNet>().ok();
        let net = net.or_else(|| word.text.parse::<IpAddr>().ok().map(IpNet::from));
        config.allow.push(net.map(|net| net.trunc()).ok_or_else(|| {
            word.wrong("is no network and no address").help("write a network such as 10.0.0.0/8")
        })?);
    }
    Ok(())
}

/// Sets the plugin up.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut words = directive.words();
    let from = match words.maybe() {
        Some(word) => relay::from(setup, word)?,
        None => Name::ROOT,
    };
    words.end()?;
    let mut config = Config::default();
    directive.read_block(PROPS, &mut config)?;
    if let Some((word, _)) = config.anchors.as_ref().filter(|_| !config.dnssec) {
        return Err(word.wrong("is for nothing: nothing is checked with `dnssec off`"));
    }
    let walkers = walkers(setup, &config)?;
    let reach = Reach { from, except: config.except };
    let crowd = Crowd::new(config.max_concurrent, counter(QUERIES, &[("outcome", "rejected")]));
    let plugin = Recursive {
        reach: reach.clone(),
        walkers,
        patience: config.patience,
        crowd,
        flights: Flights::new(),
        own: relay::Own::new(setup.layout()),
        figures: figures(),
    };
    setup.install_upstream(&reach, plugin);
    Ok(())
}

/// The recursors, with what the files hold now.
fn walkers(setup: &mut Setup<'_>, config: &Config) -> Result<Arc<Walkers>, Diagnostic> {
    let read = |word: &Word, path: &PathBuf| {
        let path = setup.root().join(path);
        let read = std::fs::read_to_string(&path);
        read.map_err(|error| word.fault(format!("cannot read {}: {error}", path.display())))
    };
    let (roots, hints) = match &config.hints {
        None => (roots::known(), String::new()),
        Some((word, path)) => {
            let text = read(word, path)?;
            let roots = roots::read(&text)
                .map_err(|why| word.wrong(format_args!("is no file of root hints: {why}")))?;
            (roots, text)
        }
    };
    let (anchors, text) = match &config.anchors {
        None => (None, String::new()),
        Some((word, path)) => {
            let text = read(word, path)?;
            let anchors: TrustAnchors = text
                .parse()
                .map_err(|error| word.wrong(format_args!("has no trust anchors: {error}")))?;
            if anchors.is_empty() {
                let wrong = word.wrong("has no trust anchors");
                return Err(wrong.help("put the root's DNSKEY records in it, as a zone file does"));
            }
            (Some(Arc::new(anchors)), text)
        }
    };
    let policy = match config.dnssec {
        false => DnssecPolicy::SecurityUnaware,
        true => {
            let mut dnssec = DnssecConfig::default();
            dnssec.trust_anchor = anchors;
            DnssecPolicy::ValidateWithStaticKey(dnssec)
        }
    };
    let mut options = RecursorOptions {
        response_cache_size: config.cache,
        allow_server: config.allow.clone(),
        case_randomization: config.case,
        ..RecursorOptions::default()
    };
    let six = has_ipv6();
    if !six {
        // Nobody is there whom it would reach.
        options.deny_server.push(IpNet::new_assert(Ipv6Addr::UNSPECIFIED.into(), 0));
    }
    let key = format!("recursive {config:?} {six} {hints} {text}");
    setup.share(&key, || Ok(Walkers::new(Plan { roots, options, policy })))
}

/// Whether the machine has an address of IPv6 that others can answer to.
fn has_ipv6() -> bool {
    // If the system does not say, it is tried.
    host::interfaces().is_ok_and(|all| {
        all.iter().any(|one| match one.ip {
            IpAddr::V6(ip) => !ip.is_loopback() && !host::is_link_local(one.ip),
            IpAddr::V4(_) => false,
        })
    })
}

/// The figures.
fn figures() -> Figures {
    describe(QUERIES, "Queries that were resolved from the root, by what came out.");
    describe(DURATION, "How long resolving took.");
    let of = |outcome: &'static str| counter(QUERIES, &[("outcome", outcome)]);
    Figures {
        secure: of("secure"),
        insecure: of("insecure"),
        bogus: of("bogus"),
        failed: of("failed"),
        duration: histogram(DURATION, &[], &TIME_BUCKETS),
    }
}
