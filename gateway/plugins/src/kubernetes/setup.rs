//! From the directive's words to the plugin.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use config::value::ResolvConf;
use config::{Diagnostic, Directive, Prop, Word};
use engine::{Role, Setup, Stage};
use k8s::{Keep, Selector};
use wire::Name;

use super::nameserver::Servers;
use super::reach::LACKS;
use super::{Cluster, Kubernetes, Pods, conflicts};
use crate::shared::cluster::address::is_reverse;
use crate::shared::cluster::connection::{self, Connection};
use crate::shared::cluster::member::{Member, Members};
use crate::shared::cluster::pointers::Pointers;
use crate::shared::cluster::reach::{Order, Way};
use crate::shared::cluster::rights::Follows;
use crate::shared::cluster::source::{self, Want};
use crate::shared::cluster::words::{self, Namespaces};
use crate::shared::cluster::{Calls, View};
use crate::shared::fall::Fall;
use crate::shared::journal::Journals;
use crate::shared::zones::Zones;
use crate::shared::{file, host, ttl};

/// The time to live of records where none is stated, in seconds.
const TTL: u32 = 5;
/// Words that CoreDNS does not have: of its own the last line counts, or all do.
const OWN: [&str; 7] = ["reach", "ptr", "manifests", "in_cluster", "snapshot", "verify", "domain"];
/// Where the machine's own search domains are.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// What a directive says.
#[derive(Debug)]
pub(super) struct Config {
    /// How the cluster is reached.
    pub(super) connection: Connection,
    /// Declared clusters in place of that, the first one first.
    pub(super) clusters: Vec<Word>,
    /// What reverse zones say of addresses that several of them have, and where that is said.
    pointers: Option<(Word, Pointers)>,
    /// The namespaces to expose; all if none is listed.
    pub(super) namespaces: Namespaces,
    /// What labels of namespaces must fulfil, and where that is said.
    pub(super) namespace_labels: Option<(Word, Selector)>,
    /// What labels of objects must fulfil.
    pub(super) labels: Option<Selector>,
    /// What names of pods give.
    pods: Pods,
    /// Whether endpoints are called after their pods.
    pod_names: bool,
    /// The time to live of records, in seconds.
    ttl: u32,
    /// Which addresses the names of services give, and where that is said.
    reach: Option<(Word, Order)>,
    /// The stated name servers.
    servers: Servers,
    /// Whether endpoints are left alone.
    no_endpoints: Option<Word>,
    /// Whether services without ready endpoints are not there.
    ignore_empty: bool,
    /// The zones that fall through; all if it names none.
    fall: Option<Vec<Word>>,
    /// The zones of cluster sets.
    multicluster: Vec<Word>,
    /// Whether headless services have names for topology zones.
    zonal: Option<Word>,
    /// What is odd about all that.
    warnings: Vec<Diagnostic>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connection: Connection::default(),
            clusters: Vec::new(),
            pointers: None,
            namespaces: Namespaces::default(),
            namespace_labels: None,
            labels: None,
            pods: Pods::Disabled,
            pod_names: false,
            ttl: TTL,
            reach: None,
            servers: Servers::default(),
            no_endpoints: None,
            ignore_empty: false,
            fall: None,
            multicluster: Vec::new(),
            zonal: None,
            warnings: Vec::new(),
        }
    }
}

/// The properties.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "cluster",
        words: "NAME...",
        set: |config, given| words::clusters(given, &mut config.clusters),
    },
    Prop {
        name: "ptr",
        words: "one|all",
        set: |config, words| {
            let modes = [("one", Pointers::One), ("all", Pointers::All)];
            let mode = words.choice(&modes)?;
            config.pointers = Some((words.name().clone(), mode));
            Ok(())
        },
    },
    Prop {
        name: "namespaces",
        words: "NAMESPACE...",
        set: |config, given| config.namespaces.read(given),
    },
    Prop {
        name: "namespace_labels",
        words: "EXPRESSION",
        set: |config, given| {
            config.namespace_labels = Some((given.name().clone(), words::selector(given)?));
            Ok(())
        },
    },
    Prop {
        name: "labels",
        words: "EXPRESSION",
        set: |config, given| words::selector(given).map(|labels| config.labels = Some(labels)),
    },
    Prop {
        name: "pods",
        words: "disabled|insecure|verified",
        set: |config, words| {
            let modes = [
                ("disabled", Pods::Disabled),
                ("insecure", Pods::Insecure),
                ("verified", Pods::Verified),
            ];
            words.choice(&modes).map(|mode| config.pods = mode)
        },
    },
    Prop {
        name: "endpoint_pod_names",
        words: "",
        set: |config, _| {
            config.pod_names = true;
            Ok(())
        },
    },
    Prop {
        name: "ttl",
        words: "TTL",
        set: |config, words| ttl::read(words).map(|ttl| config.ttl = ttl),
    },
    Prop {
        name: "reach",
        words: "KIND...",
        set: |config, words| {
            config.reach = Some((words.name().clone(), Order::read(words, LACKS)?));
            Ok(())
        },
    },
    Prop {
        name: "nameserver",
        words: "NAME [ADDRESS...]",
        set: |config, words| config.servers.read(words),
    },
    Prop {
        name: "noendpoints",
        words: "",
        set: |config, words| {
            config.no_endpoints = Some(words.name().clone());
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
    Prop {
        name: "ignore",
        words: "empty_service",
        set: |config, words| {
            words.choice(&[("empty_service", ())])?;
            config.ignore_empty = true;
            Ok(())
        },
    },
    Prop {
        name: "multicluster",
        words: "[ZONES...]",
        set: |config, words| {
            let zones = words.rest();
            config.multicluster = zones.to_vec();
            if zones.is_empty() {
                let odd = words.name().wrong("names no zone, so nothing is imported");
                config.warnings.push(odd.help("write: multicluster clusterset.local"));
            }
            Ok(())
        },
    },
    Prop {
        name: "zonal",
        words: "",
        set: |config, words| {
            config.zonal = Some(words.name().clone());
            Ok(())
        },
    },
];

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directive.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    set_up_with(setup, |setup, config, keep| {
        let want = config.want(keep);
        let sources = match &config.clusters[..] {
            [] => vec![source::stated(setup, &config.connection, want)?],
            names => names
                .iter()
                .map(|name| source::declared(setup, name, want.clone()))
                .collect::<Result<_, _>>()?,
        };
        Ok(sources.iter().map(Member::of).collect())
    })
}

/// Reads what a directive follows, as it stands.
///
/// # Errors
/// Wrong lines.
pub(crate) fn follows(directive: &Directive) -> Result<Follows, Diagnostic> {
    let (config, connection) = Config::read(directive)?;
    let keep = config.keep(false);
    Ok(Follows { clusters: config.clusters, connection, keep })
}

/// Sets the plugin up with the clusters that `connect` gives.
///
/// # Errors
/// What is wrong with the directive, and what `connect` says.
pub(super) fn set_up_with(
    setup: &mut Setup<'_>,
    connect: impl FnOnce(&mut Setup<'_>, &Config, Keep) -> Result<Vec<Member>, Diagnostic>,
) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let (mut config, connection) = Config::read(directive)?;
    connection.warn(setup);
    config.connection = connection;
    config.warnings.drain(..).for_each(|odd| setup.warn(odd));
    let zones = setup.zones_of(&directive.args);
    let multicluster = config.check(setup, &zones)?;
    let primary = |zone: &&Name| !is_reverse(zone) && !multicluster.contains(zone);
    let forward = |zone: &&Name| !is_reverse(zone);
    let Some(primary) = zones.iter().find(primary).or_else(|| zones.iter().find(forward)).cloned()
    else {
        let wrong = directive.name.fault("non-reverse zone name must be used");
        return Err(wrong.help("add a zone such as cluster.local, which reverse names lead to"));
    };
    let keep = config.keep(setup.has("metadata"));
    let members = Arc::new(Members::new(connect(setup, &config, keep)?));
    let fall = Fall::of_zones(setup, config.fall.as_deref(), &zones);
    let own = host::own_addresses(setup);
    let calls = Calls { pod_names: config.pod_names };
    let copied: Vec<Name> =
        zones.iter().filter(|zone| !multicluster.contains(zone)).cloned().collect();
    let pointers = config.pointers.map_or(Pointers::One, |(_, mode)| mode);
    let reach = config.reach.map(|(_, order)| order).unwrap_or_default();
    let settings = format!(
        "kubernetes {} {primary} {} {} {reach:?} {calls:?} {:?} {:?} {own:?}",
        members.text(),
        config.ttl,
        config.ignore_empty,
        config.servers,
        pointers
    );
    let journals = Journals::set_up(setup, &copied, &settings)?;
    let cluster = Cluster {
        zones: Zones::new(zones),
        primary,
        multicluster: Zones::new(multicluster),
        fall,
        ttl: config.ttl,
        pods: config.pods,
        zonal: config.zonal.is_some(),
        ignore_empty: config.ignore_empty,
        reach,
        calls,
        servers: config.servers,
        own,
        search: search_domains(Path::new(RESOLV_CONF)),
        members,
        pointers,
        journals,
        told: AtomicBool::new(false),
    };
    let plugin = Kubernetes(Arc::new(cluster));
    if plugin.0.members.are_several() {
        let cluster = Arc::<Cluster>::clone(&plugin.0);
        setup.task(|mut stop| async move {
            tokio::select! {
                () = stop.reached(Stage::Draining) => {}
                () = conflicts::watch(cluster) => {}
            }
        });
    }
    plugin.0.journals.keep_up(setup, Arc::<Cluster>::clone(&plugin.0));
    setup.offer(Role::Known(Arc::new(plugin.0.view())));
    setup.offer(Role::Ready(Arc::new(plugin.clone())));
    setup.offer(Role::Transfer(Arc::new(plugin.clone())));
    if config.pods == Pods::Verified {
        setup.offer(Role::SearchPath(Arc::new(plugin.clone())));
    }
    setup.provide(plugin.clone());
    setup.install(plugin);
    Ok(())
}

impl Cluster {
    /// What the block's other plugins see of the cluster.
    fn view(&self) -> View {
        View {
            members: Arc::clone(&self.members),
            pointers: self.pointers,
            calls: self.calls,
            ignore_empty: self.ignore_empty,
            own: self.own.clone(),
        }
    }
}

impl Config {
    /// Reads a directive's block.
    fn read(directive: &Directive) -> Result<(Self, Connection), Diagnostic> {
        let (mut config, mut connection) = (Self::default(), Connection::default());
        directive.read_block_of((PROPS, &mut config), (connection::PROPS, &mut connection))?;
        words::once_each(directive.lines(), |name| OWN.contains(&name))?;
        let wrong = std::mem::take(&mut config.namespaces.wrong);
        // Without any other all names would be exposed, where none is meant to be.
        if config.namespaces.names.is_empty() {
            Diagnostic::joined(wrong).map_or(Ok(()), Err)?;
        } else {
            config.warnings.extend(wrong);
        }
        Ok((config, connection))
    }

    /// Refuses what does not go together; gives the zones of cluster sets.
    fn check(&self, setup: &mut Setup<'_>, zones: &[Name]) -> Result<Vec<Name>, Diagnostic> {
        if let ([cluster, ..], Some(word)) =
            (&self.clusters[..], Connection::stated(setup.directive()))
        {
            let wrong = word.wrong(format_args!("stands beside the declared cluster '{cluster}'"));
            return Err(wrong.help(format!("write it in the block cluster://{cluster}")));
        }
        if let (Some((word, _)), false) = (&self.namespace_labels, self.namespaces.names.is_empty())
        {
            let wrong = word.wrong("and namespaces cannot both be set");
            return Err(wrong.help("keep the one that says which namespaces are meant"));
        }
        if let (Some(zonal), Some(none)) = (&self.zonal, &self.no_endpoints) {
            let wrong = zonal.wrong(format_args!("needs endpoints, which {none} leaves out"));
            return Err(wrong.help(format!("take {zonal} or {none} away")));
        }
        if let (Some(none), true) = (&self.no_endpoints, self.ignore_empty) {
            setup.warn(
                none.wrong("makes every service an empty one, which `ignore empty_service` hides"),
            );
        }
        if let (Some((word, Pointers::All)), [] | [_]) = (&self.pointers, &self.clusters[..]) {
            let odd =
                word.wrong("all has no effect: one cluster alone has all names of an address");
            setup.warn(odd.help("take it away, or name the clusters: cluster NAME NAME..."));
        }
        if let (Some((word, order)), Some(none)) = (&self.reach, &self.no_endpoints)
            && order.has(Way::Endpoints)
        {
            let wrong = word.wrong(format_args!("endpoints needs what {none} leaves out"));
            return Err(wrong.help(format!("take endpoints or {none} away")));
        }
        self.servers.check(zones)?;
        let mut multicluster = Vec::new();
        for word in &self.multicluster {
            for zone in setup.zones_of(std::slice::from_ref(word)) {
                if !zones.contains(&zone) {
                    let wrong = word
                        .wrong("is a multicluster zone that the plugin is not authoritative for");
                    return Err(wrong.help("name it among the plugin's ZONES, or the block's"));
                }
                multicluster.push(zone);
            }
        }
        Ok(multicluster)
    }

    /// What is wanted of a cluster.
    fn want(&self, keep: Keep) -> Want {
        Want {
            keep,
            labels: self.labels.clone(),
            namespace_labels: self.namespace_labels.as_ref().map(|(_, labels)| labels.clone()),
        }
    }

    /// What the store has to hold.
    fn keep(&self, metadata: bool) -> Keep {
        Keep {
            namespaces: self.namespaces.names.clone(),
            endpoints: self.no_endpoints.is_none(),
            pods: self.pods == Pods::Verified,
            multicluster: !self.multicluster.is_empty(),
            pod_names: self.pod_names,
            pod_labels: self.pods == Pods::Verified && metadata,
            zones: self.zonal.is_some(),
            exports: false,
        }
    }
}

/// The search domains of a file in the form of resolv.conf; none if it cannot be read.
fn search_domains(path: &Path) -> Box<[Name]> {
    let text = file::text(path).unwrap_or_default();
    ResolvConf::read(&text).search.iter().filter_map(|domain| Name::parse(domain)).collect()
}
