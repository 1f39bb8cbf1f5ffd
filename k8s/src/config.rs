//! What a watch set is configured by.

use std::{
    fmt,
    io::{Error, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use kube::config::{Kubeconfig, KubeconfigError};

use crate::{
    client::causes,
    limit::Limits,
    selector::Selector,
    snapshot::Snapshot,
    store::Keep,
    url::{self, bare},
};

/// How often a store is compared with its cluster where nothing is stated.
pub const VERIFY: Duration = Duration::from_secs(6 * 3600);

/// The largest kubeconfig that is read, in octets.
const LARGEST: u64 = 16 << 20;

/// Reads a kubeconfig. What is wrong with its text is told by the place alone: the YAML reader would quote lines, which hold
/// credentials.
///
/// # Errors
/// Words behind the file's name.
pub(crate) fn kubeconfig(file: &Path) -> Result<Kubeconfig, String> {
    let found = std::fs::metadata(file).and_then(|found| {
        let refused = |why| Err(Error::new(ErrorKind::InvalidInput, why));
        match found {
            found if !found.is_file() => refused("it is no regular file"),
            found if found.len() > LARGEST => refused("it is larger than 16 MiB"),
            _ => Ok(()),
        }
    });
    found.map_err(|error| format!("cannot be read: {error}"))?;
    Kubeconfig::read_from(file).map_err(|error| match &error {
        KubeconfigError::Parse(wrong) => {
            let place = wrong.location().map_or_else(String::new, |place| {
                format!(": look at line {}, column {}", place.line(), place.column())
            });
            format!("is no YAML of a kubeconfig{place}")
        }
        KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
        error => causes(error),
    })
}

/// Where a cluster is. Its debug form has no password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// The cluster that this process runs in, by its service account.
    InCluster,
    /// An API server by its address.
    Endpoint {
        /// The address, such as `https://198.51.100.1:6443`; a name and password in it are used as those of a kubeconfig are.
        url: String,
        /// Files to authenticate both sides by.
        tls: Option<Tls>,
    },
    /// A context of a kubeconfig file.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The context; the file's current one if none.
        context: Option<String>,
    },
    /// A folder of manifests.
    Manifests(PathBuf),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InCluster => f.write_str("InCluster"),
            Self::Endpoint { url, tls } => {
                f.debug_struct("Endpoint").field("url", &bare(url)).field("tls", tls).finish()
            }
            Self::Kubeconfig { file, context } => {
                let mut form = f.debug_struct("Kubeconfig");
                form.field("file", file).field("context", context).finish()
            }
            Self::Manifests(folder) => f.debug_tuple("Manifests").field(folder).finish(),
        }
    }
}

impl Source {
    /// Gives the cluster in a word, for metrics and names of files. It has no secrets, and two clusters have two words: kubeconfigs
    /// may call their contexts the same, and a host may stand before several.
    pub fn word(&self) -> String {
        match self {
            Self::InCluster => "in-cluster".to_owned(),
            Self::Endpoint { url, .. } => {
                let host = url.split_once("://").map_or(&**url, |(_, rest)| rest);
                // An address may carry a password, with any sign in it.
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
                let host = host.split(['?', '#']).next().unwrap_or_default();
                host.trim_end_matches('/').to_owned()
            }
            Self::Kubeconfig { file, context: None } => file.display().to_string(),
            Self::Kubeconfig { file, context: Some(context) } => {
                format!("{}#{context}", file.display())
            }
            Self::Manifests(folder) => folder.display().to_string(),
        }
    }

    /// What the file of a kubeconfig lacks as it stands, without asking anybody: words behind its name. It may be mended later,
    /// so a watch set starts all the same.
    pub fn odd(&self) -> Option<String> {
        let Self::Kubeconfig { file, context } = self else { return None };
        let config = match kubeconfig(file) {
            Ok(config) => config,
            Err(wrong) => return Some(wrong),
        };
        let Some(wanted) = context.as_ref().or(config.current_context.as_ref()) else {
            return Some("has no current context".to_owned());
        };
        let Some(named) = config.contexts.iter().find(|one| one.name == *wanted) else {
            let names: Vec<_> = config.contexts.iter().map(|one| &*one.name).collect();
            return Some(format!("has no context '{wanted}' (it has: {})", names.join(", ")));
        };
        let Some(context) = &named.context else {
            return Some(format!("has an empty context '{wanted}'"));
        };
        if !config.clusters.iter().any(|one| one.name == context.cluster) {
            return Some(format!("has no cluster '{}'", context.cluster));
        }
        let user = context.user.as_ref()?;
        let missing = !config.auth_infos.iter().any(|one| one.name == *user);
        missing.then(|| format!("has no user '{user}'"))
    }

    /// Gives the context of a kubeconfig as the file stands, and its server's address without a name and password; what cannot
    /// be found out is empty.
    fn leads_to(&self) -> (String, String) {
        let Self::Kubeconfig { file, context } = self else { return Default::default() };
        let stated = context.clone().unwrap_or_default();
        let Ok(config) = kubeconfig(file) else { return (stated, String::new()) };
        let Some(wanted) = context.clone().or(config.current_context) else {
            return Default::default();
        };
        let named = config.contexts.iter().find(|one| one.name == wanted);
        let cluster = named.and_then(|one| one.context.as_ref()).map(|one| &one.cluster);
        let cluster = config.clusters.iter().find(|one| Some(&one.name) == cluster);
        let server = cluster.and_then(|one| one.cluster.as_ref()?.server.as_deref());
        (wanted, server.map(bare).unwrap_or_default())
    }
}

/// PEM files of a TLS client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Tls {
    /// The client's certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authorities that the API server's certificate is checked by.
    pub authorities: PathBuf,
}

/// What a watch set is to follow and keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where the cluster is.
    pub source: Source,
    /// What the store holds.
    pub keep: Keep,
    /// What labels of namespaces must fulfil.
    pub namespace_labels: Option<Selector>,
    /// What labels of Services, EndpointSlices, ServiceImports and Pods must fulfil.
    pub labels: Option<Selector>,
    /// Where the last known state is kept over restarts; nowhere if none.
    pub snapshot: Option<Snapshot>,
    /// Limits on requests.
    pub limits: Limits,
    /// The `User-Agent` of requests.
    pub agent: String,
    /// How often the store is compared with a new list, in the background; never if none.
    pub verify: Option<Duration>,
}

impl Config {
    /// Makes the configuration of a source: services, namespaces and endpoints, without selectors or stated limits.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            keep: Keep { endpoints: true, ..Keep::default() },
            namespace_labels: None,
            labels: None,
            snapshot: None,
            limits: Limits::default(),
            agent: agent(env!("CARGO_PKG_VERSION"), "unknown"),
            verify: Some(VERIFY),
        }
    }

    /// Gives a text that two configurations have in common exactly if they can share a watch set, which the latest of them says
    /// how often to verify. It has no secrets.
    pub fn key(&self) -> String {
        let Self { keep, namespace_labels, labels, .. } = self;
        let snapshot = self.snapshot.as_ref().map(|snapshot| &snapshot.dir);
        format!("{} {keep:?} {namespace_labels:?} {labels:?} {snapshot:?}", self.connection_key())
    }

    /// Gives a text that says what a store's content is of, the same over versions of the program. It has no secrets. A
    /// kubeconfig is read for it: its current context and the addresses in it may change while its name stays.
    pub(crate) fn identity(&self) -> String {
        let source = match &self.source {
            Source::InCluster => "the cluster around".to_owned(),
            Source::Endpoint { url, .. } => format!("endpoint {}", bare(url)),
            Source::Kubeconfig { file, .. } => {
                let (context, server) = self.source.leads_to();
                format!("kubeconfig {} {context} {server}", file.display())
            }
            Source::Manifests(folder) => format!("manifests {}", folder.display()),
        };
        let Keep {
            namespaces,
            endpoints,
            pods,
            multicluster,
            exports,
            pod_names,
            pod_labels,
            zones,
        } = &self.keep;
        let mut text = format!("{source}; namespaces {}", namespaces.join(","));
        let kept = [
            ("endpoints", endpoints),
            ("pods", pods),
            ("multicluster", multicluster),
            ("exports", exports),
            ("pod names", pod_names),
            ("pod labels", pod_labels),
            ("zones", zones),
        ];
        kept.iter().filter(|(_, kept)| **kept).for_each(|(word, _)| text += &format!("; {word}"));
        for (word, labels) in
            [("namespace labels", &self.namespace_labels), ("labels", &self.labels)]
        {
            if let Some(labels) = labels {
                text += &format!("; {word} {labels}");
            }
        }
        text
    }

    /// Gives a text that two configurations have in common exactly if they can share a connection and its limits. It has no
    /// secrets: a password in an address is in it as a number alone.
    pub(crate) fn connection_key(&self) -> String {
        let login = match &self.source {
            Source::Endpoint { url, .. } => url::number(url),
            Source::InCluster | Source::Kubeconfig { .. } | Source::Manifests(_) => 0,
        };
        format!("{:?} {login:x} {:?} {}", self.source, self.limits, self.agent)
    }
}

/// Makes the `User-Agent` of requests: the program's version, the commit it was built from, and the platform.
pub fn agent(version: &str, commit: &str) -> String {
    format!(
        "Causeway/{version} git_commit:{commit} ({}/{})",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}
