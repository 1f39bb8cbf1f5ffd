//! What a watch set is configured by.

use std::path::PathBuf;

use kube::config::Kubeconfig;

use crate::{client::causes, limit::Limits, selector::Selector, store::Keep};

/// Where a cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// The cluster that this process runs in, by its service account.
    InCluster,
    /// An API server by its address.
    Endpoint {
        /// The address, such as `https://198.51.100.1:6443`.
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

impl Source {
    /// What the file of a kubeconfig lacks as it stands, without asking anybody: words behind its name. It may be mended later,
    /// so a watch set starts all the same.
    pub fn odd(&self) -> Option<String> {
        let Self::Kubeconfig { file, context } = self else { return None };
        let config = match Kubeconfig::read_from(file) {
            Ok(config) => config,
            Err(error) => return Some(format!("cannot be understood: {}", causes(&error))),
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
    /// Limits on requests.
    pub limits: Limits,
    /// The `User-Agent` of requests.
    pub agent: String,
}

impl Config {
    /// Makes the configuration of a source: services, namespaces and endpoints, without selectors or stated limits.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            keep: Keep { endpoints: true, ..Keep::default() },
            namespace_labels: None,
            labels: None,
            limits: Limits::default(),
            agent: agent(env!("CARGO_PKG_VERSION"), "unknown"),
        }
    }

    /// Gives a text that two configurations have in common exactly if they can share a watch set. It has no secrets.
    pub fn key(&self) -> String {
        let Self { keep, namespace_labels, labels, .. } = self;
        format!("{} {keep:?} {namespace_labels:?} {labels:?}", self.connection_key())
    }

    /// Gives a text that two configurations have in common exactly if they can share a connection and its limits.
    pub(crate) fn connection_key(&self) -> String {
        format!("{:?} {:?} {}", self.source, self.limits, self.agent)
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
