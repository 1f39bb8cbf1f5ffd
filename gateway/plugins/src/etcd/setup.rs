//! From the directive's words to the plugin.

use std::sync::Arc;

use config::value::{TlsFiles, tls_files};
use config::{Diagnostic, Prop, Word, Words};
use engine::Setup;
use http::Uri;
use tokio::sync::Semaphore;

use super::Etcd;
use super::client::{Account, Client};
use super::key::Path;
use super::record::Leases;
use crate::shared::client_tls;
use crate::shared::fall::Fall;
use crate::shared::zones::Zones;

/// Where keys are if nothing else is stated.
const PATH: &str = "/skydns";
/// Where etcd is if nothing else is stated.
const ENDPOINT: &str = "http://localhost:2379";
/// How many queries may wait for etcd.
const ROOM: usize = 512;
/// What can be written as an endpoint.
const FORMS: &str = "write http://HOST:PORT, https://HOST:PORT or HOST:PORT";

/// What a directive says.
#[derive(Debug, Default)]
struct Config {
    /// Where keys are.
    path: Option<String>,
    /// Where etcd is.
    endpoints: Vec<Word>,
    /// The user and the password.
    account: Option<Account>,
    /// The files to authenticate both sides by.
    tls: Option<(Word, TlsFiles)>,
    /// What leases mean for the time to live.
    leases: Leases,
    /// The zones that fall through; all if it names none.
    fall: Option<Vec<Word>>,
}

/// The properties.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "path",
        words: "PATH",
        set: |config, words| words.one().map(|word| config.path = Some(word.text.clone())),
    },
    Prop {
        name: "endpoint",
        words: "URL...",
        set: |config, words| {
            words.clone().one()?;
            config.endpoints = words.rest().to_vec();
            Ok(())
        },
    },
    Prop {
        name: "credentials",
        words: "USER PASSWORD",
        set: |config, words| {
            let mut text = || words.one().map(|word| word.text.clone());
            config.account = Some(Account { user: text()?, password: text()? });
            Ok(())
        },
    },
    Prop {
        name: "tls",
        words: "[CERT KEY] [CA]",
        set: |config, words| {
            config.tls = Some((words.name().clone(), tls_files(words, None)?));
            Ok(())
        },
    },
    Prop {
        name: "min-lease-ttl",
        words: "TTL",
        set: |config, words| {
            let least = lease(words, Leases::default().least)?;
            config.leases.least = least;
            Ok(())
        },
    },
    Prop {
        name: "max-lease-ttl",
        words: "TTL",
        set: |config, words| {
            let most = lease(words, Leases::default().most)?;
            config.leases.most = most;
            Ok(())
        },
    },
    Prop {
        name: "fallthrough",
        words: "[ZONES...]",
        set: |config, words| {
            config.fall = Some(words.rest().to_vec());
            Ok(())
        },
    },
    Prop { name: "stubzones", words: "", set: pass_over },
    Prop { name: "upstream", words: "[ADDRESS...]", set: pass_over },
    Prop { name: "debug", words: "", set: pass_over },
];

/// Takes the words of what was once a property, and means nothing.
fn pass_over(_: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    words.rest();
    Ok(())
}

/// Reads a time in seconds, or one with a unit; 0 is the default.
fn lease(words: &mut Words<'_>, default: u32) -> Result<u32, Diagnostic> {
    let seconds = |text: &str| {
        let seconds = match config::value::integer(text) {
            Ok(seconds) => u32::try_from(seconds).ok(),
            Err(_) => config::value::duration(text)
                .ok()
                .and_then(|time| u32::try_from(time.as_secs()).ok()),
        };
        seconds.ok_or("not a time: write seconds, or a number with a unit such as 5m")
    };
    words.read(seconds).map(|seconds| if seconds == 0 { default } else { seconds })
}

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directive. An etcd that does not answer is none.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        let mut config = Config::default();
        directive.read_block(PROPS, &mut config)?;
        let zones = setup.zones_of(&directive.args);
        let fall = Fall::of_zones(setup, config.fall.as_deref(), &zones);
        let plugin = Etcd {
            zones: Zones::new(zones),
            fall,
            path: Path::new(config.path.as_deref().unwrap_or(PATH)),
            leases: config.leases,
            client: client(setup, &config)?,
            room: Semaphore::new(ROOM),
        };
        setup.install(plugin);
    }
    Ok(())
}

/// The servers that a directive means: those of another block or of the configuration before if they are the same.
fn client(setup: &mut Setup<'_>, config: &Config) -> Result<Arc<Client>, Diagnostic> {
    let encrypted = config.tls.is_some();
    let mut servers = Vec::new();
    for word in &config.endpoints {
        let server = server(&word.text, encrypted)
            .ok_or_else(|| word.wrong("is no address of etcd").help(FORMS))?;
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    if servers.is_empty() {
        servers.push(ENDPOINT.to_owned());
    }
    let needs_tls = servers.iter().any(|server| server.starts_with("https://"));
    if let (Some((word, _)), false) = (&config.tls, needs_tls) {
        let odd = word.wrong("has no effect: no endpoint begins with https://");
        setup.warn(odd.help(FORMS));
    }
    let tls = match needs_tls {
        true => Some(client_tls::open(setup, config.tls.as_ref())?),
        false => None,
    };
    // The same words below another root are other files.
    let files = config.tls.as_ref().map(|(_, files)| (setup.root().to_owned(), files.clone()));
    let account = config.account.as_ref().map(|one| (&*one.user, &*one.password));
    let key = format!("etcd {servers:?} {files:?} {account:?}");
    setup.share(&key, || Ok(Arc::new(Client::new(servers, tls, config.account.clone()))))
}

/// Reads an endpoint: a URL without a path, or a host and a port.
fn server(text: &str, encrypted: bool) -> Option<String> {
    let scheme = if encrypted { "https" } else { "http" };
    let url = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority()?;
    let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
    let is_good = is_plain && !authority.host().is_empty() && !authority.as_str().contains('@');
    match uri.scheme_str()? {
        scheme @ ("http" | "https") if is_good => Some(format!("{scheme}://{authority}")),
        _ => None,
    }
}
