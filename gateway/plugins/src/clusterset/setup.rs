//! From the directive's words to the plugin.

use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Directive, Prop, Word};
use engine::{Role, Setup, Stage};
use k8s::{Keep, Selector, Standing, Store};

use super::conflicts::Watch;
use super::member::{Exports, Member, Stands};
use super::{Clusterset, Set};
use crate::shared::cluster::address::{Label, is_reverse};
use crate::shared::cluster::connection::Connection;
use crate::shared::cluster::reach::{Order, Way};
use crate::shared::cluster::rights::Follows;
use crate::shared::cluster::source::{self, Source, Want};
use crate::shared::cluster::words::{self, Namespaces};
use crate::shared::fall::Fall;
use crate::shared::zones::Zones;
use crate::shared::{host, ttl};

/// The time to live of records where none is stated, in seconds.
const TTL: u32 = 5;
/// How long the share of a cluster that is away stays where nothing else is stated.
const KEEP: Duration = Duration::from_secs(3600);
/// What is said of a service that none of the ways of `reach` leads to, before their words.
const LACKS: &str = "the service is exported, but no cluster has any of these addresses of it";

/// Where services of the set are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// In ServiceImports, which a controller has made.
    Imports,
    /// In exports.
    Exports,
}

/// What a directive says.
#[derive(Debug)]
struct Config {
    /// The clusters.
    clusters: Vec<Word>,
    /// Where services are found; both if it is not stated.
    sources: Vec<From>,
    /// How long the share of a cluster that is away stays.
    keep: Duration,
    /// What labels of a service mean that it is exported, and where that is said.
    label: Option<(Word, Selector)>,
    /// The namespaces of the set; all if none is listed.
    namespaces: Namespaces,
    /// Which addresses names give.
    reach: Order,
    /// The time to live of records, in seconds.
    ttl: u32,
    /// The zones that fall through; all if it names none.
    fall: Option<Vec<Word>>,
}

/// The properties.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "cluster",
        words: "NAME...",
        set: |config, given| words::clusters(given, &mut config.clusters),
    },
    Prop {
        name: "source",
        words: "imports|exports...",
        set: |config, words| {
            let first = words.one()?;
            config.sources.clear();
            for word in once(first).chain(words.rest()) {
                let from = match &*word.text {
                    "imports" => From::Imports,
                    "exports" => From::Exports,
                    _ => {
                        let wrong = word.wrong("is no source of services");
                        return Err(wrong.help("write: source imports exports, or one of the two"));
                    }
                };
                if config.sources.contains(&from) {
                    return Err(word.wrong("comes twice").help("name each source once"));
                }
                config.sources.push(from);
            }
            Ok(())
        },
    },
    Prop {
        name: "keep",
        words: "DURATION",
        set: |config, words| words.duration().map(|keep| config.keep = keep),
    },
    Prop {
        name: "label",
        words: "EXPRESSION",
        set: |config, given| {
            config.label = Some((given.name().clone(), words::selector(given)?));
            Ok(())
        },
    },
    Prop {
        name: "namespaces",
        words: "NAMESPACE...",
        set: |config, given| config.namespaces.read(given),
    },
    Prop {
        name: "reach",
        words: "KIND...",
        set: |config, words| Order::read(words, LACKS).map(|order| config.reach = order),
    },
    Prop {
        name: "ttl",
        words: "TTL",
        set: |config, words| ttl::read(words).map(|ttl| config.ttl = ttl),
    },
    Prop {
        name: "fallthrough",
        words: "[ZONES...]",
        set: |config, words| {
            config.fall = Some(words.rest().to_vec());
            Ok(())
        },
    },
];

/// A cluster's store, and what fills it.
pub(super) type Connected = (Store, Option<Arc<Source>>);

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directive, or with a cluster that it names.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let connect = |setup: &mut Setup<'_>, word: &Word, want: Want| {
        let source = source::declared(setup, word, want)?;
        Ok((source.store().clone(), Some(source)))
    };
    // One of which some is kept from us has no say: what it exports is not known.
    let stands: Stands =
        |_, store| if store.synced() { store.standing() } else { Standing::Unsynced };
    set_up_with(setup, connect, stands).map(drop)
}

/// Reads what a directive follows, as it stands.
///
/// # Errors
/// Wrong lines.
pub(crate) fn follows(directive: &Directive) -> Result<Follows, Diagnostic> {
    let config = Config::read(directive)?;
    let keep = Keep {
        multicluster: config.is_from(From::Imports),
        exports: config.is_from(From::Exports) && config.label.is_none(),
        namespaces: config.namespaces.names,
        endpoints: true,
        ..Keep::default()
    };
    Ok(Follows { clusters: config.clusters, connection: Connection::default(), keep })
}

/// Sets the plugin up with the stores that `connect` gives, whose state `stands` says.
///
/// # Errors
/// What is wrong with the directive, and what `connect` says.
pub(super) fn set_up_with(
    setup: &mut Setup<'_>,
    mut connect: impl FnMut(&mut Setup<'_>, &Word, Want) -> Result<Connected, Diagnostic>,
    stands: Stands,
) -> Result<Arc<Set>, Diagnostic> {
    let directive = setup.once()?;
    let config = Config::read(directive)?;
    let (reverse, zones): (Vec<_>, Vec<_>) =
        setup.zones_of(&directive.args).into_iter().partition(is_reverse);
    if zones.is_empty() {
        let wrong = directive.name.fault("non-reverse zone name must be used");
        return Err(wrong.help("add a zone such as clusterset.local"));
    }
    if !reverse.is_empty() {
        let odd = directive.name.wrong("has nothing in zones of addresses");
        setup.warn(odd.help("reverse names are `kubernetes`' to answer, cluster by cluster"));
    }
    let mut members = Vec::new();
    for word in &config.clusters {
        members.push(config.member(setup, word, &mut connect, stands)?);
    }
    let fall = Fall::of_zones(setup, config.fall.as_deref(), &zones);
    let set = Arc::new(Set {
        zones: Zones::new(zones),
        members: members.into(),
        keep: config.keep,
        fall,
        ttl: config.ttl,
        reach: config.reach,
        own: host::own_addresses(setup),
    });
    let watch = Watch::new(Arc::clone(&set));
    setup.task(|mut stop| async move {
        tokio::select! {
            () = stop.reached(Stage::Draining) => {}
            () = watch.run() => {}
        }
    });
    let plugin = Clusterset(Arc::clone(&set));
    setup.offer(Role::Ready(Arc::new(plugin.clone())));
    setup.install(plugin);
    Ok(set)
}

impl Config {
    /// Reads a directive.
    fn read(directive: &Directive) -> Result<Self, Diagnostic> {
        let mut config = Self {
            clusters: Vec::new(),
            sources: Vec::new(),
            keep: KEEP,
            label: None,
            namespaces: Namespaces::default(),
            reach: Order::new(vec![Way::Endpoints], LACKS),
            ttl: TTL,
            fall: None,
        };
        directive.read_block(PROPS, &mut config)?;
        // Those of which several lines add up are not replaced by any.
        words::once_each(directive.lines(), |name| !matches!(name, "cluster" | "namespaces"))?;
        let wrong = std::mem::take(&mut config.namespaces.wrong);
        Diagnostic::joined(wrong).map_or(Ok(()), Err)?;
        if config.clusters.is_empty() {
            let wrong = directive.name.wrong("names no cluster");
            let help = "write `cluster NAME...`, and declare each: cluster://NAME { … }";
            return Err(wrong.help(help));
        }
        config.check()?;
        Ok(config)
    }

    /// Whether services are found there. Both places are looked at unless one is stated; where a label is in place of exports,
    /// imports are not expected.
    fn is_from(&self, from: From) -> bool {
        match &*self.sources {
            [] => from == From::Exports || self.label.is_none(),
            stated => stated.contains(&from),
        }
    }

    /// Refuses what does not go together.
    fn check(&self) -> Result<(), Diagnostic> {
        match &self.label {
            Some((word, _)) if !self.is_from(From::Exports) => {
                let wrong = word.wrong("stands for exports, which `source` leaves out");
                Err(wrong.help("write: source exports, or take the label away"))
            }
            _ => Ok(()),
        }
    }

    /// Opens a cluster.
    fn member(
        &self,
        setup: &mut Setup<'_>,
        word: &Word,
        connect: &mut impl FnMut(&mut Setup<'_>, &Word, Want) -> Result<Connected, Diagnostic>,
        stands: Stands,
    ) -> Result<Member, Diagnostic> {
        // The name is a label of the endpoints' names (KEP-1645, Cluster ID).
        let text = word.text.as_bytes();
        let fits = text.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && !text.starts_with(b"-")
            && !text.ends_with(b"-");
        let Some(label) = Label::of(text).filter(|_| fits) else {
            let wrong = word.wrong("is no cluster ID: it has to be a label of names");
            let help =
                "give the cluster a name of at most 63 lower-case letters, digits and dashes";
            return Err(wrong.help(help));
        };
        let (imports, exports) = (self.is_from(From::Imports), self.is_from(From::Exports));
        let keep = |multicluster, exports| Keep {
            namespaces: self.namespaces.names.clone(),
            endpoints: true,
            multicluster,
            exports,
            ..Keep::default()
        };
        let mut sources = Vec::new();
        let mut open = |setup: &mut Setup<'_>, keep, labels| {
            let (store, source) = connect(setup, word, Want { keep, labels, ..Want::default() })?;
            sources.extend(source);
            Ok(store)
        };
        let (imports, exports) = match &self.label {
            // The label leaves out what else there is, imports too.
            Some((_, label)) => {
                let labelled = open(setup, keep(false, false), Some(label.clone()))?;
                let imported =
                    if imports { Some(open(setup, keep(true, false), None)?) } else { None };
                (imported, Some(Exports::Labelled(labelled)))
            }
            None => {
                let store = open(setup, keep(imports, exports), None)?;
                let imported = imports.then(|| store.clone());
                (imported, exports.then_some(Exports::Objects(store)))
            }
        };
        Ok(Member {
            name: word.text.as_str().into(),
            not_known: format!("cluster {word}: its objects are not known yet").into(),
            label,
            imports,
            exports,
            sources,
            stands,
        })
    }
}
