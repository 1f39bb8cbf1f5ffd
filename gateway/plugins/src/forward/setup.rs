//! `forward FROM TO… { … }`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use certs::ClientTls;
use config::value::{TlsFiles, integer, tls_files};
use config::{Diagnostic, Directive, Prop, Scheme, Word, Words};
use engine::{Reach, Setup};
use transports::upstream::{Check, Identity, Protocol, Settings, Speech, Upstream, Verb};
use wire::{Name, rcode};

use super::handler::{Forward, Rcodes, Told};
use super::target::{self, Target};
use crate::shared::relay;
use crate::shared::relay::crowd::Crowd;
use crate::shared::relay::flight::Flights;
use crate::shared::relay::message::rcode_of;
use crate::shared::relay::policy::Policy;
use crate::shared::relay::taps::Taps;

/// The counter of queries that found all upstreams down.
const BROKEN: &str = "coredns_forward_healthcheck_broken_total";

/// The counter of queries over `max_concurrent`.
const REJECTS: &str = "coredns_forward_max_concurrent_rejects_total";

/// What one directive's block says.
#[derive(Debug)]
struct Config {
    except: Vec<Name>,
    force_tcp: bool,
    prefer_udp: bool,
    expire: Duration,
    max_age: Option<Duration>,
    max_idle: usize,
    read_timeout: Duration,
    max_fails: u32,
    attempts: Option<usize>,
    check: Check,
    failfast: bool,
    policy: Policy,
    max_concurrent: usize,
    rcodes: Rcodes,
    source: Option<IpAddr>,
    resolvers: Vec<SocketAddr>,
    trust_ad: bool,
    tls: Option<(Word, TlsFiles)>,
    server_name: Option<Word>,
    verb: Verb,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            except: Vec::new(),
            force_tcp: false,
            prefer_udp: false,
            expire: Duration::from_secs(10),
            max_age: None,
            max_idle: 0,
            read_timeout: Duration::from_secs(2),
            max_fails: 2,
            attempts: None,
            check: Check::default(),
            failfast: false,
            policy: Policy::Random,
            max_concurrent: 0,
            rcodes: Rcodes::default(),
            source: None,
            resolvers: Vec::new(),
            trust_ad: false,
            tls: None,
            server_name: None,
            verb: Verb::Post,
        }
    }
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop { name: "except", words: "NAMES...", set: set_except },
    Prop { name: "force_tcp", words: "", set: |c, _| set(&mut c.force_tcp, true) },
    Prop { name: "prefer_udp", words: "", set: |c, _| set(&mut c.prefer_udp, true) },
    Prop { name: "expire", words: "DURATION", set: |c, w| set(&mut c.expire, w.duration()?) },
    Prop {
        name: "max_age",
        words: "DURATION",
        set: |c, w| set(&mut c.max_age, Some(w.duration()?).filter(|age| !age.is_zero())),
    },
    Prop { name: "max_idle_conns", words: "INTEGER", set: |c, w| set(&mut c.max_idle, count(w)?) },
    Prop { name: "read_timeout", words: "DURATION", set: set_read_timeout },
    Prop { name: "max_fails", words: "INTEGER", set: |c, w| set(&mut c.max_fails, count(w)?) },
    Prop {
        name: "max_connect_attempts",
        words: "INTEGER",
        set: |c, w| set(&mut c.attempts, Some(count(w)?)),
    },
    Prop { name: "health_check", words: "DURATION [no_rec] [domain FQDN]", set: set_check },
    Prop {
        name: "failfast_all_unhealthy_upstreams",
        words: "",
        set: |c, _| set(&mut c.failfast, true),
    },
    Prop {
        name: "policy",
        words: "random|round_robin|sequential",
        set: |c, w| set(&mut c.policy, Policy::read(w)?),
    },
    Prop {
        name: "max_concurrent",
        words: "INTEGER",
        set: |c, w| set(&mut c.max_concurrent, count(w)?),
    },
    Prop { name: "next", words: "RCODE...", set: |c, w| set(&mut c.rcodes.next, rcodes(w)?) },
    Prop { name: "next_on_nodata", words: "", set: |c, _| set(&mut c.rcodes.next_on_nodata, true) },
    Prop { name: "failover", words: "RCODE...", set: set_failover },
    Prop { name: "source_address", words: "IP", set: |c, w| set(&mut c.source, Some(w.parsed()?)) },
    Prop { name: "resolver", words: "IP[:PORT]...", set: set_resolver },
    Prop { name: "trust_ad", words: "", set: |c, _| set(&mut c.trust_ad, true) },
    Prop { name: "tls", words: "[CERT KEY] [CA]", set: |c, w| set(&mut c.tls, Some(tls(w)?)) },
    Prop {
        name: "tls_servername",
        words: "NAME",
        set: |c, w| set(&mut c.server_name, Some(w.one()?.clone())),
    },
    Prop {
        name: "doh_method",
        words: "POST|GET",
        set: |c, w| set(&mut c.verb, w.choice(&[("POST", Verb::Post), ("GET", Verb::Get)])?),
    },
];

/// Sets a field.
fn set<T>(field: &mut T, value: T) -> Result<(), Diagnostic> {
    *field = value;
    Ok(())
}

/// Takes a number that is not negative.
fn count<T: TryFrom<i64>>(words: &mut Words<'_>) -> Result<T, Diagnostic> {
    let word = words.one()?;
    let number =
        integer(&word.text).map_err(|wrong| word.wrong(format_args!("is wrong: {wrong}")))?;
    T::try_from(number).map_err(|_| word.wrong("is wrong: not a number of 0 or more"))
}

/// `except NAMES…`.
fn set_except(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    config.except.extend(relay::except(words)?);
    Ok(())
}

/// `read_timeout DURATION`.
fn set_read_timeout(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.clone().one()?.clone();
    config.read_timeout = words.duration()?;
    if config.read_timeout.is_zero() {
        return Err(word.wrong("is wrong: read_timeout must be more than 0"));
    }
    Ok(())
}

/// `health_check DURATION [no_rec] [domain FQDN]`.
fn set_check(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    config.check.interval = words.duration()?;
    while let Some(word) = words.maybe() {
        match &*word.text {
            "no_rec" => config.check.recursion = false,
            "domain" => {
                let word = words.one()?;
                let name = Name::parse(&word.text);
                config.check.domain = name.ok_or_else(|| word.wrong("is not a domain name"))?;
            }
            _ => return Err(word.wrong("is unknown here")),
        }
    }
    Ok(())
}

/// Takes all words that are left, at least one, as response codes.
fn rcodes(words: &mut Words<'_>) -> Result<Vec<u16>, Diagnostic> {
    words.clone().one()?;
    let code = |word: &Word| {
        let known = rcode_of(&word.text);
        known.ok_or_else(|| {
            word.wrong("is not a response code").help("such as SERVFAIL, REFUSED or NXDOMAIN")
        })
    };
    words.rest().iter().map(code).collect()
}

/// `failover RCODE…`.
fn set_failover(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let name = words.name();
    config.rcodes.failover = rcodes(words)?;
    if config.rcodes.failover.contains(&rcode::NOERROR) {
        return Err(name.wrong("cannot be for NOERROR: that is an answer"));
    }
    Ok(())
}

/// `resolver IP[:PORT]…`.
fn set_resolver(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    words.clone().one()?;
    for word in words.rest() {
        config.resolvers.push(target::plain(word)?);
    }
    Ok(())
}

/// `tls [CERT KEY] [CA]`.
fn tls(words: &mut Words<'_>) -> Result<(Word, TlsFiles), Diagnostic> {
    Ok((words.name().clone(), tls_files(words, None)?))
}

/// Makes the block's directives.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    engine::metrics::describe(BROKEN, "Queries that found all upstreams down.");
    engine::metrics::describe(REJECTS, "Queries refused because too many were under way.");
    let directives = setup.directives();
    for (at, directive) in directives.iter().enumerate() {
        let forward = read(setup, directive, at + 1 < directives.len())?;
        let reach = forward.reach.clone();
        setup.install_upstream(&reach, forward);
    }
    setup.provide(Told);
    setup.allow_classes();
    Ok(())
}

/// Makes one directive.
fn read(
    setup: &mut Setup<'_>,
    directive: &Directive,
    has_next: bool,
) -> Result<Forward, Diagnostic> {
    let mut words = directive.words();
    let word = words.one()?;
    let from = relay::from(setup, word)?;
    words.clone().one()?;
    let targets = words.rest();
    let mut config = Config::default();
    directive.read_block(PROPS, &mut config)?;
    if config.max_age.is_some_and(|age| age < config.expire) {
        let wrong = directive.name.fault("max_age must not be less than expire");
        return Err(wrong.help("make max_age longer, or expire shorter"));
    }
    let found = target::all(targets, &config.resolvers)?;
    relay::count(&found, targets, &directive.name)?;
    if config.force_tcp {
        config.check.protocol = Protocol::Tcp;
    }
    let settings = Settings {
        proxy: "forward",
        read_timeout: config.read_timeout,
        expire: config.expire,
        max_age: config.max_age,
        max_idle: config.max_idle,
        source: config.source,
        max_fails: config.max_fails,
        check: config.check.clone(),
    };
    let tls = client(setup, &config, &found)?;
    // The same words below another root are other files.
    let files = config.tls.as_ref().map(|(_, files)| (setup.root().to_owned(), files));
    let mut upstreams = Vec::with_capacity(found.len());
    for target in found {
        let speech = speech(&target, &config, tls.as_ref(), &directive.name)?;
        let key = format!("forward {target:?} {speech:?} {files:?} {settings:?}");
        let new = || Ok(Upstream::new(target.addr, &speech, settings.clone()));
        upstreams.push(setup.share(&key, new)?);
    }
    Ok(Forward {
        reach: Reach { from, except: config.except },
        attempts: config.attempts.unwrap_or(2 * upstreams.len()),
        all_secure: upstreams.iter().all(|upstream| upstream.secure().is_some()),
        upstreams: upstreams.into(),
        policy: config.policy,
        force_tcp: config.force_tcp,
        prefer_udp: config.prefer_udp,
        failfast: config.failfast,
        rcodes: config.rcodes,
        has_next,
        trust_ad: config.trust_ad,
        turn: AtomicUsize::new(0),
        crowd: Crowd::new(config.max_concurrent, engine::metrics::counter(REJECTS, &[])),
        flights: Flights::new(),
        own: relay::Own::new(setup.layout()),
        taps: Taps::new(setup.roles()),
        broken: engine::metrics::counter(BROKEN, &[]),
    })
}

/// What encrypted upstreams are checked by, if there are any, or if files for it are named.
fn client(
    setup: &mut Setup<'_>,
    config: &Config,
    targets: &[Target],
) -> Result<Option<Arc<ClientTls>>, Diagnostic> {
    if config.tls.is_none() && targets.iter().all(|target| target.scheme == Scheme::Dns) {
        return Ok(None);
    }
    crate::shared::client_tls::open(setup, config.tls.as_ref()).map(Some)
}

/// How an upstream is spoken to.
fn speech(
    target: &Target,
    config: &Config,
    tls: Option<&Arc<ClientTls>>,
    word: &Word,
) -> Result<Speech, Diagnostic> {
    let name = match (&target.name, &config.server_name) {
        (Some(name), Some(word)) => {
            let wrong = word.fault(format!(
                "tls_servername and the name of an upstream, '{name}', exclude each other"
            ));
            return Err(wrong.help("write one of them"));
        }
        (Some(name), None) => Some(&**name),
        (None, Some(word)) => Some(&*word.text),
        (None, None) => None,
    };
    let Some(tls) = tls.filter(|_| target.scheme != Scheme::Dns) else { return Ok(Speech::Plain) };
    let identity = Identity::new(Arc::clone(tls), name, target.addr);
    let identity = identity.ok_or_else(|| {
        let word = config.server_name.as_ref().unwrap_or(word);
        let name = name.unwrap_or_default();
        word.fault(format!("'{name}' cannot be the name in a server's certificate"))
    })?;
    Ok(match target.scheme {
        Scheme::Https => Speech::Https(identity, config.verb),
        Scheme::Https3 => Speech::Https3(identity, config.verb),
        Scheme::Quic => Speech::Quic(identity),
        _ => Speech::Tls(identity),
    })
}
