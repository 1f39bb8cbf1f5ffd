//! The watches behind a plugin, shared by all server blocks that see the same of a cluster.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::config::Diagnostic;
use engine::Setup;
use k8s::{Keep, Store, WatchSet};

use super::metrics::Figures;
use super::setup::Config;
use crate::shared::file;

/// How often the log says that the start waits.
const REMIND: Duration = Duration::from_millis(500);
/// The service account that pods have.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// The environment by which pods know their API server.
const ENVIRONMENT: [&str; 2] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"];

/// A cluster's watches and the store that they fill.
#[derive(Debug)]
pub(super) struct Source {
    /// The watches; they end with this.
    watches: Arc<WatchSet>,
    /// Whether somebody tells the log that the start waits for it.
    told: AtomicBool,
}

/// Gives the watches that a directive asks for: those of another block or of the configuration before if they are the same.
///
/// # Errors
/// A connection that cannot be made from what is stated. A cluster that does not answer is none.
pub(super) fn share(
    setup: &mut Setup<'_>,
    config: &Config,
    keep: Keep,
) -> Result<Arc<Source>, Diagnostic> {
    let place = setup.directive();
    let source = config.source().map_err(|wrong| match wrong.place {
        Some(_) => wrong,
        None => Diagnostic {
            place: Some(place.name.place.clone()),
            span: place.name.text.len(),
            ..wrong
        },
    })?;
    if let (Some((file, _)), Some(odd)) = (&config.kubeconfig, source.odd()) {
        setup.warn(
            file.wrong(odd)
                .help("make it with deploy/remote/kubeconfig.sh, or name another context"),
        );
    }
    let watch = k8s::Config {
        keep,
        namespace_labels: config.namespace_labels.as_ref().map(|(_, labels)| labels.clone()),
        labels: config.labels.clone(),
        limits: config.limits,
        agent: k8s::agent(&setup.process().version, &setup.process().commit),
        ..k8s::Config::new(source)
    };
    setup.share(&watch.key(), || {
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|_| place.name.wrong("can only be started inside a runtime"))?;
        let figures = Figures::new(&watch.source);
        let watches = WatchSet::start(&watch, Arc::new(figures), &runtime);
        Ok(Arc::new(Source::new(watches)))
    })
}

impl Source {
    /// A source of these watches.
    pub(super) fn new(watches: Arc<WatchSet>) -> Self {
        Self { watches, told: AtomicBool::new(false) }
    }

    /// The store.
    pub(super) fn store(&self) -> &Store {
        self.watches.store()
    }

    /// Waits until the cluster is known, for `limit` at most. Only the first who waits says so in the log.
    pub(super) fn wait(
        self: &Arc<Self>,
        limit: Duration,
    ) -> impl Future<Output = ()> + Send + use<> {
        let source = Arc::clone(self);
        async move {
            if source.watches.wait_synced(REMIND.min(limit)).await {
                return;
            }
            let tells = !source.told.swap(true, Ordering::Relaxed);
            let mut left = limit.saturating_sub(REMIND);
            while !left.is_zero() {
                if tells {
                    log::info!(target: "plugin/kubernetes", "waiting for Kubernetes API before starting server");
                }
                if source.watches.wait_synced(REMIND.min(left)).await {
                    return;
                }
                left = left.saturating_sub(REMIND);
            }
            if tells {
                log::warn!(target: "plugin/kubernetes", "starting server with unsynced Kubernetes API");
            }
        }
    }
}

impl Config {
    /// Where the cluster is. A kubeconfig file is stronger than an address, and without either it is the one around this
    /// process.
    fn source(&self) -> Result<k8s::Source, Diagnostic> {
        if let Some(folder) = &self.manifests {
            if self.endpoint.is_some() || self.kubeconfig.is_some() {
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
        let wrong = "no cluster is stated, and this process does not run in one";
        Err(Diagnostic::new(wrong).help("write: kubeconfig FILE, endpoint URL, or manifests DIR"))
    }
}

/// Whether a file can be opened and has an end.
fn readable(path: &Path) -> std::io::Result<()> {
    file::open(path).map(drop)
}
