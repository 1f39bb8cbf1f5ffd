//! How a cluster is reached: the words of a `cluster://NAME` block, which a plugin's own block may have as well.

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::{Diagnostic, Directive, Prop, Word, Words};
use engine::{ClusterBlock, Setup};
use k8s::{Limits, Snapshot, Tls};
use wire::Name;

use super::words::{once_each, private};
use crate::shared::file;

/// How long the start waits for the cluster where nothing else is stated.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How old a snapshot may be where nothing else is stated.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// The least that may be stated: shorter than an outage takes to be noticed is no use.
const MIN_AGE: Duration = Duration::from_secs(60);
/// How often what is known may be compared with a new list at most.
const SHORTEST: Duration = Duration::from_secs(60);
/// What a declared cluster calls itself where nothing else is stated.
const DOMAIN: &str = "cluster.local";
/// The service account that pods have.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// The environment by which pods know their API server.
const ENVIRONMENT: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];
/// What is written where a way to connect is missing.
const WAYS: &str = "write: kubeconfig FILE, endpoint URL, in_cluster, or manifests DIR";

/// How a cluster is reached, and what holds for it however it is used.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The API server.
    endpoint: Option<Word>,
    /// The files to authenticate both sides by.
    tls: Option<(Word, Tls)>,
    /// A kubeconfig file and a context in it.
    pub(super) kubeconfig: Option<(Word, Option<String>)>,
    /// A folder of manifests.
    manifests: Option<Word>,
    /// That the cluster is the one around this process.
    in_cluster: Option<Word>,
    /// Limits on requests.
    pub(super) limits: Limits,
    /// How long the start waits for the cluster.
    pub(super) startup_timeout: Duration,
    /// Where its last known state is kept over restarts.
    pub(super) snapshot: Option<Snapshot>,
    /// How often what is known is compared with a new list; never if none.
    pub(super) verify: Option<Duration>,
    /// What the cluster calls itself.
    pub(super) domain: Option<Name>,
    /// What is odd about all that.
    warnings: Vec<Diagnostic>,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            endpoint: None,
            tls: None,
            kubeconfig: None,
            manifests: None,
            in_cluster: None,
            limits: Limits::default(),
            startup_timeout: STARTUP_TIMEOUT,
            snapshot: None,
            verify: Some(k8s::VERIFY),
            domain: None,
            warnings: Vec::new(),
        }
    }
}

/// The properties.
pub(crate) const PROPS: &[Prop<Connection>] = &[
    Prop {
        name: "endpoint",
        words: "URL",
        set: |connection, words| {
            let first = words.one()?.clone();
            connection.warnings.extend(endpoint(&first)?);
            if let [more, ..] = words.rest() {
                let odd = match private(more) {
                    true => more.fault("a second address is passed over"),
                    false => more.wrong("is passed over: only the first API server is used"),
                };
                let odd = odd.help("name one address, of a load balancer if there are more");
                connection.warnings.push(hidden(&first, hidden(more, odd)));
            }
            connection.endpoint = Some(first);
            Ok(())
        },
    },
    Prop {
        name: "tls",
        words: "CERT KEY CACERT",
        set: |connection, words| {
            let first = words.peek().cloned();
            let mut file = || words.one().map(|word| PathBuf::from(&word.text));
            let tls = Tls { certificate: file()?, key: file()?, authorities: file()? };
            connection.tls = first.map(|word| (word, tls));
            Ok(())
        },
    },
    Prop {
        name: "kubeconfig",
        words: "FILE [CONTEXT]",
        set: |connection, words| {
            let file = words.one()?.clone();
            connection.kubeconfig = Some((file, words.maybe().map(|word| word.text.clone())));
            Ok(())
        },
    },
    Prop {
        name: "manifests",
        words: "DIR",
        set: |connection, words| words.one().map(|word| connection.manifests = Some(word.clone())),
    },
    Prop {
        name: "in_cluster",
        words: "",
        set: |connection, words| {
            connection.in_cluster = Some(words.name().clone());
            Ok(())
        },
    },
    Prop {
        name: "apiserver_qps",
        words: "QPS",
        set: |connection, words| {
            let rate = |text: &str| match text.parse::<f64>() {
                Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
                _ => Err("not a number of requests a second, 0 or more"),
            };
            words.read(rate).map(|rate| connection.limits.qps = rate)
        },
    },
    Prop {
        name: "apiserver_burst",
        words: "BURST",
        set: |connection, words| words.read(count).map(|count| connection.limits.burst = count),
    },
    Prop {
        name: "apiserver_max_inflight",
        words: "MAX",
        set: |connection, words| words.read(count).map(|count| connection.limits.inflight = count),
    },
    Prop {
        name: "startup_timeout",
        words: "DURATION",
        set: |connection, words| words.duration().map(|limit| connection.startup_timeout = limit),
    },
    Prop {
        name: "snapshot",
        words: "DIR [MAX_AGE]",
        set: |connection, words| snapshot(words).map(|read| connection.snapshot = Some(read)),
    },
    Prop {
        name: "verify",
        words: "DURATION|off",
        set: |connection, words| {
            if words.peek().is_some_and(|word| word.text == "off") {
                connection.verify = words.one().map(|_| None)?;
                return Ok(());
            }
            let word = words.peek();
            let every = words.duration()?;
            if let (Some(word), true) = (word, every < SHORTEST) {
                let wrong = word.wrong("is too often: each time everything is listed");
                return Err(wrong.help("write a minute or more, or `off`"));
            }
            connection.verify = Some(every);
            Ok(())
        },
    },
    Prop {
        name: "domain",
        words: "NAME",
        set: |connection, words| {
            let word = words.one()?;
            let domain = Name::parse(&word.text).filter(|name| !name.is_root());
            let wrong = || word.wrong("is no domain").help("write a name such as cluster.local");
            connection.domain = Some(domain.ok_or_else(wrong)?);
            Ok(())
        },
    },
];

/// Reads a number of requests.
fn count(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "not a whole number, 0 or more")
}

/// Hides the line of a word that is private.
fn hidden(word: &Word, wrong: Diagnostic) -> Diagnostic {
    if private(word) { wrong.hide() } else { wrong }
}

/// Checks the address of an API server; gives what is odd about it. The text may have a password in it, so it is not told.
fn endpoint(word: &Word) -> Result<Option<Diagnostic>, Diagnostic> {
    let bare = !word.text.contains("://");
    let text = if bare { format!("http://{}", word.text) } else { word.text.clone() };
    let Some(url) = k8s::address(&text) else {
        let wrong = word.fault("the address of the API server is no URL of http or https");
        return Err(hidden(word, wrong.help("write: endpoint https://198.51.100.1:6443")));
    };
    let odd = bare && url.port().is_none();
    Ok(odd.then(|| {
        let odd = word.fault(
            "the address of the API server has neither scheme nor port: it is asked in clear at port 80, or beside `tls` at 443",
        );
        hidden(word, odd.help("write: endpoint https://HOST:6443, or http://HOST if that is meant"))
    }))
}

/// Reads where snapshots are kept, and how old one may be.
fn snapshot(words: &mut Words<'_>) -> Result<Snapshot, Diagnostic> {
    let dir = words.one()?;
    let max_age = if words.is_empty() { MAX_AGE } else { words.duration()? };
    if max_age < MIN_AGE {
        let wrong = words.name().wrong("has a maximum age of less than a minute");
        return Err(wrong.help("write: snapshot DIR 24h"));
    }
    let path = Path::new(&dir.text);
    if dir.text.is_empty() {
        return Err(dir.wrong("is no folder").help("write: snapshot /var/lib/causeway 24h"));
    }
    if path.exists() && !path.is_dir() {
        return Err(dir.wrong("is no folder").help("name a folder that this process may write to"));
    }
    Ok(Snapshot { dir: path.to_path_buf(), max_age })
}

/// What is wrong with a declared cluster, for those that nobody uses.
///
/// # Errors
/// Wrong lines, and any number of ways to connect but one.
pub(crate) fn check(block: &ClusterBlock) -> Result<(), Diagnostic> {
    Connection::declared(block).map(drop)
}

impl Connection {
    /// Reads the block of a declared cluster.
    ///
    /// # Errors
    /// Wrong lines, and any number of ways to connect but one.
    pub(super) fn declared(block: &ClusterBlock) -> Result<Self, Diagnostic> {
        let mut connection = Self::default();
        let read = |line: &Directive| line.read_line(PROPS, &mut connection).err();
        let wrong: Vec<_> = block.lines().iter().filter_map(read).collect();
        Diagnostic::joined(wrong).map_or(Ok(()), Err)?;
        once_each(block.lines(), |_| true)?;
        let file = connection.kubeconfig.as_ref().map(|(file, _)| file);
        let ways = [&connection.endpoint, &connection.manifests, &connection.in_cluster];
        let ways: Vec<&Word> = ways.into_iter().flatten().chain(file).collect();
        match &ways[..] {
            [] => {
                let wrong = block.key().wrong("says no way to connect to the cluster");
                return Err(wrong.help(WAYS));
            }
            [_] => {}
            [_, second, ..] => {
                let wrong = match private(second) {
                    true => second.fault("there is a second way to connect to the cluster").hide(),
                    false => second.wrong("is a second way to connect to the cluster"),
                };
                let help = "a cluster has one of kubeconfig, endpoint, in_cluster and manifests";
                return Err(wrong.help(help));
            }
        }
        if let (Some((word, _)), None) = (&connection.tls, &connection.endpoint) {
            let wrong = word.fault("tls stands without the address that it is for");
            return Err(wrong.help("write `endpoint URL` beside it, or take it away"));
        }
        connection.domain.get_or_insert_with(|| Name::parse(DOMAIN).unwrap_or(Name::ROOT));
        Ok(connection)
    }

    /// The line of a directive's block that says how to connect, if one does.
    pub(crate) fn stated(directive: &Directive) -> Option<&Word> {
        let mut names = directive.lines().iter().map(|line| &line.name);
        names.find(|name| PROPS.iter().any(|prop| prop.name == name.text))
    }

    /// Tells what is odd about the lines.
    pub(crate) fn warn(&self, setup: &mut Setup<'_>) {
        self.warnings.iter().for_each(|odd| setup.warn(odd.clone()));
    }

    /// Tells what the file lacks.
    pub(super) fn warn_of_file(&self, setup: &mut Setup<'_>, source: &k8s::Source) {
        if let (Some((file, _)), Some(odd)) = (&self.kubeconfig, source.odd()) {
            setup.warn(
                file.wrong(odd)
                    .help("make it with deploy/remote/kubeconfig.sh, or name another context"),
            );
        }
    }

    /// Where the cluster is, in words; nowhere if it is a folder of manifests. No file is looked at.
    pub(super) fn place(&self) -> Option<String> {
        if self.manifests.is_some() {
            return None;
        }
        Some(match (&self.kubeconfig, &self.endpoint) {
            (Some((_, Some(context))), _) => context.clone(),
            (Some((file, None)), _) => file.text.clone(),
            (None, Some(url)) => {
                let host = url.text.split_once("://").map_or(&*url.text, |(_, rest)| rest);
                // An address may carry a password, which is nobody's to see.
                host.rsplit_once('@').map_or(host, |(_, host)| host).to_owned()
            }
            (None, None) => "in-cluster".to_owned(),
        })
    }

    /// Where the cluster is. A kubeconfig file is stronger than an address, and without either it is the one around this
    /// process.
    ///
    /// # Errors
    /// A connection that cannot be made from what is stated.
    pub(super) fn source(&self) -> Result<k8s::Source, Diagnostic> {
        let beside = self.endpoint.is_some() || self.kubeconfig.is_some();
        if let Some(folder) = &self.manifests {
            if beside || self.in_cluster.is_some() {
                let wrong = folder.wrong("stands beside the address of a cluster");
                return Err(wrong.help("take `manifests` away, or `endpoint` and `kubeconfig`"));
            }
            let path = Path::new(&folder.text);
            if !path.is_dir() {
                let wrong = folder.wrong("is not a folder");
                return Err(wrong.help("name a folder of Kubernetes manifests, YAML files"));
            }
            return Ok(k8s::Source::Manifests(path.to_path_buf()));
        }
        if let (Some(word), true) = (&self.in_cluster, beside) {
            let wrong = word.wrong("stands beside the address of a cluster");
            return Err(wrong.help("take `in_cluster` away, or `endpoint` and `kubeconfig`"));
        }
        if let Some((file, context)) = &self.kubeconfig {
            readable(Path::new(&file.text)).map_err(|error| {
                let wrong = file.wrong(format_args!("cannot be read: {error}"));
                wrong.help("name a kubeconfig file that this process may read")
            })?;
            let file = Path::new(&file.text).to_path_buf();
            return Ok(k8s::Source::Kubeconfig { file, context: context.clone() });
        }
        if let Some(url) = &self.endpoint {
            let tls = self.tls.as_ref().map(|(word, tls)| {
                for file in [&tls.certificate, &tls.key, &tls.authorities] {
                    readable(file).map_err(|error| {
                        let file = file.display();
                        word.fault(format!("'{file}' cannot be read: {error}"))
                            .help("write: tls CERT KEY CACERT, three PEM files")
                    })?;
                }
                Ok(tls.clone())
            });
            let tls = tls.transpose()?;
            let scheme = if tls.is_some() { "https" } else { "http" };
            let text = match url.text.contains("://") {
                true => url.text.clone(),
                false => format!("{scheme}://{}", url.text),
            };
            return Ok(k8s::Source::Endpoint { url: text, tls });
        }
        let known = ENVIRONMENT.iter().all(|name| std::env::var_os(name).is_some());
        if known && readable(Path::new(ACCOUNT)).is_ok() {
            return Ok(k8s::Source::InCluster);
        }
        Err(match &self.in_cluster {
            Some(word) => word
                .wrong("is said, but this process does not run in a cluster")
                .help("write: kubeconfig FILE, endpoint URL, or manifests DIR"),
            None => Diagnostic::new("no cluster is stated, and this process does not run in one")
                .help("write: kubeconfig FILE, endpoint URL, or manifests DIR"),
        })
    }
}

/// Whether a file can be opened and has an end.
fn readable(path: &Path) -> std::io::Result<()> {
    file::open(path).map(drop)
}
