//! TLS of a listener: certificates chosen by name, and who must show one.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use crate::demand::{Authority, ClientAuth, Demand};
use crate::keylog::KeyLogFile;
use crate::pair::Pair;
use crate::tickets::{Sessions, Tickets};
use crate::watched::{Watched, watch};
use crate::{ACME_ALPN, Answers, Error, Source, provider};

/// Whether a handshake for a TLS name (none if the client sent none) goes on.
pub type Gate = Arc<dyn Fn(Option<&str>) -> bool + Send + Sync>;

/// What TLS of a listener is made of.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where its certificates come from: at least one. The first serves clients that send no name, an address, or a name
    /// that none has.
    pub sources: Vec<Source>,
    /// What is asked of clients.
    pub client_auth: ClientAuth,
    /// The CAs of clients, a PEM file.
    pub client_ca: Option<PathBuf>,
    /// The file that the secrets of all sessions are written to.
    pub keylog: Option<PathBuf>,
    /// The target of log lines.
    pub target: &'static str,
}

/// How a file or another source of certificates is, for metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The file, or what else it comes from.
    pub source: String,
    /// The first name of the certificate; empty for CAs.
    pub name: String,
    /// Until when the certificate is valid, in seconds since 1970; none for CAs, and if there is no certificate yet.
    pub not_after: Option<i64>,
    /// How often another one was taken since the start.
    pub taken: u64,
    /// How often another one was refused.
    pub refused: u64,
    /// Whether what is there now is wrong, so that what was there before is in use.
    pub broken: bool,
}

/// TLS of one or more listeners. What it serves is replaced while it is in use.
pub struct ServerTls {
    chosen: Arc<Chosen>,
    demand: Arc<Demand>,
    keylog: Option<Arc<KeyLogFile>>,
    tickets: Arc<Tickets>,
    /// Those that it is merged of: they look at the files.
    _parts: Vec<Arc<Self>>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("demand", &self.demand).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// A certificate chain and its key, both in PEM files.
    ///
    /// # Errors
    /// If a file cannot be read, holds none, or they do not belong together.
    pub fn files(chain: PathBuf, key: PathBuf) -> Result<Arc<Self>, Error> {
        let source = Source::files(chain, key, "certs")?;
        Self::new(Options { sources: vec![source], target: "certs", ..Options::default() })
    }

    /// TLS as the options say. Its files are looked at, four times a second, as long as it is there, if it is made within a
    /// runtime of tokio.
    ///
    /// # Errors
    /// If there is no certificate, the client CAs cannot be read or are missing where they are needed, or the log of secrets
    /// cannot be written.
    pub fn new(options: Options) -> Result<Arc<Self>, Error> {
        let Options { sources, client_auth: mode, client_ca, keylog, target } = options;
        if sources.is_empty() {
            return Err(Error::new("there is no certificate"));
        }
        let authority = client_ca.map(|path| Watched::new([path], target)).transpose()?;
        if mode.verifies() && authority.is_none() {
            let what = format!("client_auth {} needs a CA to check clients by", mode.word());
            return Err(Error::new(what));
        }
        let made = Arc::new(Self {
            chosen: Arc::new(Chosen { sources }),
            demand: Arc::new(Demand { mode, authority }),
            keylog: keylog.map(KeyLogFile::open).transpose()?,
            tickets: Tickets::new(),
            _parts: Vec::new(),
        });
        watch(&made, Self::look);
        Ok(made)
    }

    /// Several in one, for a listener of several blocks: the certificate is chosen by name among all of them, and the first
    /// serves those who send none.
    ///
    /// # Errors
    /// If they differ in what they ask of clients.
    pub fn merge(all: &[Arc<Self>]) -> Result<Arc<Self>, Error> {
        let (first, rest) = match all {
            [] => return Err(Error::new("there is no certificate")),
            [one] => return Ok(Arc::clone(one)),
            [first, rest @ ..] => (first, rest),
        };
        for other in rest {
            if let Some(what) = first.differs(other) {
                return Err(Error::new(what)
                    .help("write the same in all blocks of a listener, or give one of them an address or a port of its own"));
            }
        }
        let sources = all.iter().flat_map(|one| one.chosen.sources.iter().cloned()).collect();
        Ok(Arc::new(Self {
            chosen: Arc::new(Chosen { sources }),
            demand: Arc::clone(&first.demand),
            keylog: first.keylog.clone(),
            tickets: Arc::clone(&first.tickets),
            _parts: all.to_vec(),
        }))
    }

    /// In what another one for the same listener differs, if it does.
    fn differs(&self, other: &Self) -> Option<String> {
        let file = |path: Option<&std::path::Path>| {
            path.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
        };
        let authority = |one: &Self| {
            let authority: Option<&Arc<Watched<Authority>>> = one.demand.authority.as_ref();
            file(authority.and_then(|one| one.files().first()).map(PathBuf::as_path))
        };
        let keylog = |one: &Self| file(one.keylog.as_deref().map(KeyLogFile::path));
        let both = [
            (
                "client_auth",
                self.demand.mode.word().to_owned(),
                other.demand.mode.word().to_owned(),
            ),
            ("the CA of clients", authority(self), authority(other)),
            ("keylog", keylog(self), keylog(other)),
        ];
        let (what, one, other) = both.into_iter().find(|(_, one, other)| one != other)?;
        Some(format!("the blocks of this listener differ in {what}: {one} and {other}"))
    }

    /// What a TLS listener is configured by, to be made once a listener and kept: what is served changes within it. `alpn` are
    /// the protocols in order of preference; a client without ALPN is served, one whose list has none of them is not
    /// (RFC 7301 §3.2). `gate` may end a handshake by its name. Sessions are resumed by tickets; there is no 0-RTT.
    /// Where CAs look by tls-alpn-01, [`ACME_ALPN`] is among the protocols: such a connection is to be closed at once.
    pub fn stream(self: &Arc<Self>, alpn: &[&[u8]], gate: Option<Gate>) -> Arc<ServerConfig> {
        let answers = self.chosen.sources.iter().find_map(Source::answers).cloned();
        let mut alpn = alpn.to_vec();
        // Without a list every client is served, whatever it asks for.
        if answers.is_some() && !alpn.is_empty() {
            alpn.push(ACME_ALPN);
        }
        let resolver = Resolver { chosen: Arc::clone(&self.chosen), gate, answers };
        let mut config = self.config(&alpn, resolver, &[&version::TLS13, &version::TLS12]);
        config.ticketer = Arc::clone(&self.tickets) as _;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Arc::new(config)
    }

    /// The same for QUIC: TLS 1.3 alone (RFC 9001 §4.2). `early` accepts 0-RTT, for which the sessions are kept here, each for
    /// one use.
    pub fn quic(
        self: &Arc<Self>,
        alpn: &[&[u8]],
        gate: Option<Gate>,
        early: bool,
    ) -> Arc<ServerConfig> {
        // No CA looks here (RFC 8737 §3 is about TCP).
        let resolver = Resolver { chosen: Arc::clone(&self.chosen), gate, answers: None };
        let mut config = self.config(alpn, resolver, &[&version::TLS13]);
        if early {
            config.max_early_data_size = u32::MAX;
            config.session_storage = Sessions::new(Arc::clone(&self.tickets));
        } else {
            config.ticketer = Arc::clone(&self.tickets) as _;
            config.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Arc::new(config)
    }

    /// Whether one of the certificates now served is good for `name`, a domain name or an IP address.
    pub fn covers(&self, name: &str) -> bool {
        self.chosen.sources.iter().filter_map(Source::pair).any(|pair| is_for(&pair, name))
    }

    /// Whether the certificate that clients get who send no name, or an address, is good for `name`.
    pub fn first_covers(&self, name: &str) -> bool {
        let first = self.chosen.sources.iter().find_map(Source::pair);
        first.is_some_and(|pair| is_for(&pair, name))
    }

    /// What is asked of clients.
    pub fn client_auth(&self) -> ClientAuth {
        self.demand.mode
    }

    /// How its certificates and CAs are.
    pub fn status(&self) -> Vec<Status> {
        let mut all: Vec<_> = self.chosen.sources.iter().map(Source::status).collect();
        if let Some(authority) = &self.demand.authority {
            let (taken, refused, broken) = authority.counts();
            let source = authority.files().first().map(|file| file.display().to_string());
            let (source, name) = (source.unwrap_or_default(), String::new());
            all.push(Status { source, name, not_after: None, taken, refused, broken });
        }
        all
    }

    /// Looks whether anything has changed.
    pub(crate) fn look(&self) {
        self.chosen.sources.iter().for_each(Source::look);
        if self.demand.authority.as_ref().is_some_and(|authority| authority.look()) {
            self.tickets.renew();
        }
    }

    /// Puts a configuration together.
    fn config(
        self: &Arc<Self>,
        alpn: &[&[u8]],
        resolver: Resolver,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            // The provider has suites of both versions.
            .unwrap_or_else(|_| ServerConfig::builder());
        let builder = match self.demand.mode {
            ClientAuth::None => builder.with_no_client_auth(),
            _ => builder.with_client_cert_verifier(Arc::clone(&self.demand) as _),
        };
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        if let Some(keylog) = &self.keylog {
            config.key_log = Arc::clone(keylog) as _;
        }
        config
    }
}

/// Whether a certificate is good for a domain name or an IP address.
fn is_for(pair: &Pair, name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let Ok(name) = rustls::pki_types::ServerName::try_from(name) else { return false };
    let leaf = pair.key.cert.first();
    let leaf = leaf.and_then(|leaf| rustls::server::ParsedCertificate::try_from(leaf).ok());
    leaf.is_some_and(|leaf| rustls::client::verify_server_name(&leaf, &name).is_ok())
}

/// The certificates in use.
#[derive(Debug)]
struct Chosen {
    sources: Vec<Source>,
}

impl Chosen {
    /// The certificate for a TLS name: one that has it, one whose wildcard stands for it, the first. Of several the first that
    /// the client can check.
    fn choose(&self, hello: &ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let pairs: Vec<Arc<Pair>> = self.sources.iter().filter_map(Source::pair).collect();
        let fits =
            |pair: &&Arc<Pair>| pair.key.key.choose_scheme(hello.signature_schemes()).is_some();
        let of = |good: &dyn Fn(&Pair) -> bool| {
            let mut good = pairs.iter().filter(|pair| good(pair));
            let first = good.clone().next();
            good.find(fits).or(first)
        };
        let found = match hello.server_name() {
            Some(name) => of(&|pair| pair.facts.has(name))
                .or_else(|| of(&|pair| pair.facts.has_wildcard(name))),
            None => None,
        };
        // Without a name every certificate but the first is for somebody else, unless the client cannot read that one.
        found.or_else(|| of(&|_| true)).map(|pair| Arc::clone(&pair.key))
    }
}

/// Chooses a certificate for a handshake.
struct Resolver {
    chosen: Arc<Chosen>,
    gate: Option<Gate>,
    /// What is shown to CAs.
    answers: Option<Arc<Answers>>,
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // No CA is kept out, and none gets anything else (RFC 8737 §3).
        let is_acme = hello
            .alpn()
            .is_some_and(|mut all| all.next() == Some(ACME_ALPN) && all.next().is_none());
        if let Some(answers) = self.answers.as_ref().filter(|_| is_acme) {
            return answers.certificate(hello.server_name()?);
        }
        if self.gate.as_ref().is_some_and(|gate| !gate(hello.server_name())) {
            return None;
        }
        self.chosen.choose(&hello)
    }
}
