//! `ddr [NAME…] { … }`.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use certs::ServerTls;
use config::{Diagnostic, Prop, Words};
use engine::{Exchange, Layout, Plugin, Setup, Step, Transport};
use wire::Name;

use super::handler::{Ddr, RESOLVER, Title};
use super::offer::WhyNot;

/// The extended errors that the gateway gives (RFC 8914), for the resolver information.
const ERRORS: &str = "exterr=0,3,13-15,17-24";

/// What the block says.
#[derive(Debug)]
struct Config {
    addresses: Vec<IpAddr>,
    transports: Vec<Transport>,
    ttl: u32,
    opportunistic: bool,
    info: Vec<u8>,
    canary: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            // What most clients speak goes first.
            transports: vec![Transport::Tls, Transport::Https, Transport::Quic, Transport::Https3],
            ttl: 300,
            opportunistic: false,
            info: Vec::new(),
            canary: false,
        }
    }
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop { name: "address", words: "IP...", set: set_addresses },
    Prop { name: "transports", words: "tls|https|quic|https3...", set: set_transports },
    Prop { name: "ttl", words: "SECONDS", set: set_ttl },
    Prop { name: "opportunistic", words: "", set: |c, _| set(&mut c.opportunistic) },
    Prop { name: "info", words: "[URL]", set: set_info },
    Prop { name: "canary", words: "", set: |c, _| set(&mut c.canary) },
];

/// Sets a flag.
fn set(flag: &mut bool) -> Result<(), Diagnostic> {
    *flag = true;
    Ok(())
}

/// `address IP…`.
fn set_addresses(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    config.addresses.push(words.parsed()?);
    while !words.is_empty() {
        config.addresses.push(words.parsed()?);
    }
    Ok(())
}

/// `transports NAME…`.
fn set_transports(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    config.transports.clear();
    loop {
        let one = words.choice(&[
            ("tls", Transport::Tls),
            ("https", Transport::Https),
            ("quic", Transport::Quic),
            ("https3", Transport::Https3),
        ])?;
        if !config.transports.contains(&one) {
            config.transports.push(one);
        }
        if words.is_empty() {
            return Ok(());
        }
    }
}

/// `ttl SECONDS`.
fn set_ttl(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.clone().one()?.clone();
    // RFC 2181 §8.
    let ttl =
        u32::try_from(words.seconds()?.as_secs()).ok().filter(|ttl| i32::try_from(*ttl).is_ok());
    config.ttl = ttl.ok_or_else(|| word.wrong("is more than a time to live can be"))?;
    Ok(())
}

/// `info [URL]`: one record of words with their lengths (RFC 9606 §4).
fn set_info(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let mut all = vec![ERRORS.to_owned()];
    if let Some(word) = words.maybe() {
        let is_url = word.text.starts_with("https://")
            && word.text.len() > "https://".len()
            && word.text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_url {
            return Err(word.wrong("is no URL that begins with https://"));
        }
        all.push(format!("infourl={}", word.text));
    }
    config.info.clear();
    for text in all {
        let len = u8::try_from(text.len());
        let len = len.map_err(|_| words.name().wrong("has a URL of more than 247 letters"))?;
        config.info.push(len);
        config.info.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

/// Shares what answers with what logs.
#[derive(Debug)]
struct Shared(Arc<Ddr>);

impl Plugin for Shared {
    fn query(&self, x: &mut Exchange) -> Step {
        self.0.query(x)
    }
}

/// Reads the directive.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut titles = Vec::new();
    for word in directive.words().rest() {
        let name = Name::parse(&word.text).filter(|_| !word.text.contains("://"));
        let title = name.and_then(Title::new).ok_or_else(|| {
            word.wrong("is not the name of a server").help("write a name that the certificate has")
        })?;
        if !titles.contains(&title) {
            titles.push(title);
        }
    }
    let mut config = Config::default();
    directive.read_block(PROPS, &mut config)?;
    if let Some(resolver) = Name::read(RESOLVER) {
        setup.claim(resolver.0);
    }
    titles.iter().for_each(|title| setup.claim(title.bindings.clone()));
    let ddr = Arc::new(Ddr {
        titles: OnceLock::new(),
        addresses: config.addresses,
        transports: config.transports,
        ttl: config.ttl,
        opportunistic: config.opportunistic,
        info: config.info,
        canary: config.canary,
        layout: setup.layout(),
    });
    let named = Arc::clone(&ddr);
    setup.later(move |_| {
        named.titles.get_or_init(|| match titles.is_empty() {
            true => certified(&named.layout).into(),
            false => titles.into(),
        });
        Ok(())
    });
    let told = Arc::clone(&ddr);
    setup.task(move |_| async move { told.log() });
    setup.install(Shared(ddr));
    Ok(())
}

/// The names of the certificates that listeners have, as far as they are a server's.
fn certified(layout: &Layout) -> Vec<Title> {
    let mut titles = Vec::new();
    let all = layout.listeners().iter().flat_map(|listening| &listening.spec.tls);
    for status in all.filter_map(|tls| tls.get::<ServerTls>()).flat_map(|tls| tls.status()) {
        let is_host = !status.name.starts_with('*')
            && status.name.contains('.')
            && status.name.parse::<IpAddr>().is_err();
        let name = Name::parse(&status.name).filter(|_| is_host);
        titles.extend(name.and_then(Title::new).filter(|title| !titles.contains(title)));
    }
    titles
}

impl Ddr {
    /// Logs which listeners are told, and why others are not.
    fn log(&self) {
        let mut told = false;
        for listening in self.listeners() {
            let own = listening.key.addr.map(|addr| addr.ip).filter(|ip| !ip.is_unspecified());
            let grants: Vec<_> = self
                .titles()
                .iter()
                .map(|title| (title, self.wish(title, own, true).grant(listening)))
                .collect();
            let first = grants.iter().find(|(_, granted)| granted.is_ok());
            if let Some((title, _)) = first {
                told = true;
                log::info!(target: "plugin/ddr", "{} is told to clients as {}", listening.key, title.name);
                continue;
            }
            let why = grants.iter().find_map(|(_, granted)| granted.as_ref().err().copied());
            let why = why.unwrap_or(WhyNot::Name);
            let level = if why == WhyNot::Identity { log::Level::Info } else { log::Level::Warn };
            log::log!(target: "plugin/ddr", level, "{} is not told to clients: {why}", listening.key);
        }
        if !told {
            log::warn!(
                target: "plugin/ddr",
                "there is no encrypted listener to tell of, so that clients stay with what they have"
            );
        }
    }
}
