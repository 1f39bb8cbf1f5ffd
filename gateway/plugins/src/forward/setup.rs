//! `forward FROM TO… { … }`.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use config::value::{Endpoint, EndpointError, ResolvConf, integer};
use config::{Diagnostic, Directive, Prop, Scheme, Word, Words};
use engine::{Reach, Setup};
use transports::upstream::{Check, Protocol, Settings, Upstream};
use wire::{Name, rcode};

use super::flight::Flights;
use super::handler::{Forward, MAX_UPSTREAMS, Policy, Rcodes, Told};
use super::message::rcode_of;
use super::resolve;
use crate::shared::file;

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
    Prop { name: "policy", words: "random|round_robin|sequential", set: set_policy },
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
    Prop { name: "tls", words: "", set: refuse_tls },
    Prop { name: "tls_servername", words: "", set: refuse_tls },
    Prop { name: "doh_method", words: "", set: refuse_tls },
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
    words.clone().one()?;
    for word in words.rest() {
        let zones = config::value::zone_argument(&word.text).unwrap_or_default();
        let names: Vec<Name> = zones.iter().filter_map(|zone| Name::parse(zone)).collect();
        if names.is_empty() {
            return Err(word.wrong("is not a domain name"));
        }
        config.except.extend(names);
    }
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

/// `policy NAME`.
fn set_policy(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    config.policy = words.choice(&[
        ("random", Policy::Random),
        ("round_robin", Policy::RoundRobin),
        ("sequential", Policy::Sequential),
    ])?;
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
        let endpoint: Endpoint = word.text.parse().map_err(|wrong| word.wrong(wrong))?;
        config.resolvers.push(plain(&endpoint, word)?);
    }
    Ok(())
}

/// Refuses what needs TLS.
fn refuse_tls(_: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    Err(no_tls(words.name()))
}

/// What is wrong with a word that needs TLS.
fn no_tls(word: &Word) -> Diagnostic {
    word.wrong("needs an upstream over TLS or HTTPS, which this build does not speak")
        .help("use plain DNS: an address without scheme or with dns://")
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
    let from = match &*setup.zones_of(std::slice::from_ref(word)) {
        [] => return Err(word.wrong("is not a zone")),
        [one] => one.clone(),
        [first, ..] => {
            let kept = format!("stands for several zones, of which only {first} is forwarded");
            setup.warn(word.wrong(kept));
            first.clone()
        }
    };
    words.clone().one()?;
    let targets = words.rest();
    let mut config = Config::default();
    directive.read_block(PROPS, &mut config)?;
    if config.max_age.is_some_and(|age| age < config.expire) {
        let wrong = directive.name.fault("max_age must not be less than expire");
        return Err(wrong.help("make max_age longer, or expire shorter"));
    }
    let addrs = addresses(targets, &config, directive)?;
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
    let mut upstreams = Vec::with_capacity(addrs.len());
    for addr in addrs {
        let key = format!("forward {addr} {settings:?}");
        upstreams.push(setup.share(&key, || Ok(Upstream::new(addr, settings.clone())))?);
    }
    Ok(Forward {
        reach: Reach { from, except: config.except },
        attempts: config.attempts.unwrap_or(2 * upstreams.len()),
        upstreams: upstreams.into(),
        policy: config.policy,
        force_tcp: config.force_tcp,
        prefer_udp: config.prefer_udp,
        failfast: config.failfast,
        max_concurrent: config.max_concurrent,
        rcodes: config.rcodes,
        has_next,
        trust_ad: config.trust_ad,
        turn: AtomicUsize::new(0),
        running: AtomicUsize::new(0),
        flights: Flights::new(),
        broken: engine::metrics::counter(BROKEN, &[]),
        rejects: engine::metrics::counter(REJECTS, &[]),
    })
}

/// The addresses that the TO arguments mean, each once.
fn addresses(
    targets: &[Word],
    config: &Config,
    directive: &Directive,
) -> Result<Vec<SocketAddr>, Diagnostic> {
    let (mut addrs, mut seen) = (Vec::new(), HashSet::new());
    for word in targets {
        let found = target(word, config)?;
        addrs.extend(found.into_iter().filter(|addr| seen.insert(*addr)));
    }
    match addrs.len() {
        0 => {
            let first = targets.first().unwrap_or(&directive.name);
            Err(first.wrong("names no upstream").help("write the address of a DNS server"))
        }
        1..=MAX_UPSTREAMS => Ok(addrs),
        more => {
            Err(directive.name.fault(format!("more than {MAX_UPSTREAMS} TOs configured: {more}")))
        }
    }
}

/// The addresses that one TO argument means.
fn target(word: &Word, config: &Config) -> Result<Vec<SocketAddr>, Diagnostic> {
    let text = &*word.text;
    if let Some((scheme, _)) = text.split_once("://") {
        match scheme.parse() {
            Ok(Scheme::Dns) => {}
            Ok(Scheme::Tls | Scheme::Https | Scheme::Https3 | Scheme::Quic) => {
                return Err(no_tls(word));
            }
            _ => {
                let wrong = word.wrong("has a scheme that cannot be forwarded to");
                return Err(wrong.help("use plain DNS: an address without scheme or with dns://"));
            }
        }
    }
    match text.parse::<Endpoint>() {
        Ok(endpoint) => return Ok(vec![plain(&endpoint, word)?]),
        Err(EndpointError::Port) => return Err(word.wrong(EndpointError::Port)),
        Err(EndpointError::Address) => {}
    }
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    if Path::new(rest).exists() {
        let read = file::text(Path::new(rest));
        let read = read.map_err(|error| word.wrong(format_args!("cannot be read: {error}")))?;
        let servers = ResolvConf::read(&read).nameservers;
        return servers.iter().map(|server| plain(server, word)).collect();
    }
    resolve::host(rest, &config.resolvers).map_err(|why| {
        word.wrong(format_args!("is neither an address nor a file nor a host that can be found: {why}"))
            .help("write IP, IP:port, an IPv6 address with a port in brackets, or the path of a resolv.conf")
    })
}

/// The address of a plain server; that of a link-local one with its interface (RFC 4007 §11).
fn plain(endpoint: &Endpoint, word: &Word) -> Result<SocketAddr, Diagnostic> {
    if endpoint.scheme != Scheme::Dns {
        return Err(no_tls(word));
    }
    let port = endpoint.port_or_default();
    match (endpoint.address, &endpoint.scope) {
        (ip, None) => Ok(SocketAddr::new(ip, port)),
        (IpAddr::V6(ip), Some(scope)) => {
            let index = interface(scope);
            let index = index.ok_or_else(|| word.wrong("names an interface that is not there"))?;
            Ok(SocketAddrV6::new(ip, port, 0, index).into())
        }
        (IpAddr::V4(_), Some(_)) => Err(no_tls(word)),
    }
}

/// The number of an interface, given by its name or as a number.
fn interface(scope: &str) -> Option<u32> {
    if let Ok(number) = scope.parse() {
        return Some(number);
    }
    let all = crate::shared::host::interfaces().ok()?;
    all.into_iter().find(|one| one.name == scope).map(|one| one.index)
}
