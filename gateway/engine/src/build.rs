//! From a parsed Corefile to a [`Live`] configuration.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use config::{Block, Diagnostic, Directive, Key, Scheme, Word};
use wire::Name;

use crate::admin::Page;
use crate::cluster::{self, CheckCluster, ClusterBlock};
use crate::door::Door;
use crate::everywhere;
use crate::exchange::Transport;
use crate::gateway::Common;
use crate::layout;
use crate::live::{Live, Site};
use crate::process::Process;
use crate::route::{Group, GroupKey, ListenerId, Route};
use crate::setup::{BlockKey, Descriptor, MakeTask, Setup, SiteBuilder, Task, Wait, Whole, named};
use crate::shutdown::{Stop, Stopper};
use crate::spec::{BindAddr, ListenSpec};

/// Where a configuration came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Every file that was read, with its text; the first is the Corefile itself.
    pub files: Vec<(PathBuf, String)>,
}

/// All that a configuration is built from, beside its Corefile.
#[derive(Clone, Debug)]
pub struct Build<'a> {
    /// The registry, in chain order.
    pub plugins: &'a [&'static Descriptor],
    /// The transports that can be served.
    pub transports: &'a [Transport],
    /// What declared clusters are checked by.
    pub check_cluster: CheckCluster,
    /// The port of `dns://` keys without one.
    pub port: u16,
    /// The process.
    pub process: Arc<Process>,
    /// What outlives every configuration.
    pub common: Arc<Common>,
    /// Where the Corefile came from.
    pub origin: Arc<Origin>,
    /// The configuration at work, whose listeners and state are taken over where they are the same.
    pub previous: Option<Arc<Live>>,
}

/// A configuration ready to go live.
pub struct Built {
    /// The configuration.
    pub live: Live,
    /// The pages of its admin listeners.
    pub pages: Vec<Page>,
    /// What has to be waited for before it serves; what fails keeps it from that.
    pub waits: Vec<Wait>,
    /// How long to go on serving after being told to stop.
    pub lameduck: Duration,
    /// What is odd about it.
    pub warnings: Vec<Diagnostic>,
    /// Whether debug messages are wanted.
    pub debug: bool,
    tasks: Vec<(&'static str, MakeTask)>,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built").field("live", &self.live).finish_non_exhaustive()
    }
}

impl Built {
    /// Makes the tasks of the configuration, which stop when it is dropped or the process stops; each with its
    /// plugin's name. To be called once, when it goes live.
    pub fn tasks(&mut self) -> Vec<(&'static str, Task)> {
        let stop: Stop = self.live.tasks.stop();
        self.tasks.drain(..).map(|(name, make)| (name, make(stop.clone()))).collect()
    }
}

/// One block on its way.
struct Draft<'a> {
    block: &'a Block,
    keys: Vec<BlockKey>,
    zones: Vec<Name>,
    site: SiteBuilder,
}

impl<'a> Draft<'a> {
    /// The words of its keys.
    fn words(&self) -> impl Iterator<Item = &'a Word> + use<'a> {
        self.block.keys.iter().map(|key| &key.word)
    }
}

impl Build<'_> {
    /// Sets all plugins of all blocks up, directive by directive in the registry's order over all blocks.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the Corefile.
    pub fn build(&self, blocks: &[Block]) -> Result<Built, Vec<Diagnostic>> {
        let mut wrong = Vec::new();
        let mut whole = Whole::default();
        let mut drafts = Vec::new();
        let clusters = cluster::declared(blocks, &mut wrong);
        for block in blocks.iter().filter(cluster::serves) {
            drafts.push(self.draft(block, &mut wrong));
        }
        for plugin in self.plugins {
            for draft in &mut drafts {
                if let Err(diagnostic) = self.set_up(plugin, draft, &clusters, &mut whole) {
                    wrong.extend(diagnostic.apart());
                }
            }
            let links = std::mem::take(&mut whole.everywhere);
            everywhere::place(&links, drafts.iter_mut().map(|draft| &mut draft.site));
        }
        cluster::unused(&clusters, self.check_cluster, &mut wrong, &mut whole.warnings);
        let (groups, routes) = self.groups(&drafts, &mut wrong);
        check_tls(&groups, &drafts, &routes, &mut wrong, &mut whole.warnings);
        whole.warnings.extend(drafts.iter().find_map(|draft| {
            layout::local_over_https(draft.keys.iter().zip(draft.words()), &draft.site.own)
        }));
        whole.layout.complete(&groups, drafts.iter().flat_map(|draft| &draft.site.own));
        let mut sites = Vec::new();
        for (draft, routes) in drafts.into_iter().zip(routes) {
            sites.push(finish(draft.site, routes.into(), &mut wrong));
        }
        if !wrong.is_empty() {
            wrong.sort_by_key(|one| {
                one.place.as_ref().map(|place| (place.file.to_path_buf(), place.line, place.column))
            });
            wrong.dedup();
            return Err(wrong);
        }
        let listeners: Vec<(ListenerId, String)> =
            groups.iter().map(|group| (group.id, group.key.to_string())).collect();
        whole.lost.iter_mut().for_each(|observer| observer.listeners(&listeners));
        let mut numbered: Vec<Option<Group>> = Vec::new();
        for group in groups {
            let at = group.id.0;
            numbered.resize_with(numbered.len().max(at + 1), || None);
            numbered[at] = Some(group);
        }
        let live = Live {
            sites,
            groups: numbered,
            lost: whole.lost,
            pass: whole.pass,
            controls: whole.controls,
            shared: whole.shared,
            stacktrace: whole.stacktrace,
            tasks: Stopper::new(Duration::ZERO),
            common: Arc::clone(&self.common),
        };
        Ok(Built {
            live,
            pages: whole.pages,
            waits: whole.waits,
            lameduck: whole.lameduck,
            warnings: whole.warnings,
            debug: whole.debug,
            tasks: whole.tasks,
        })
    }

    /// Reads a block's keys and finds directives that no plugin has.
    fn draft<'a>(&self, block: &'a Block, wrong: &mut Vec<Diagnostic>) -> Draft<'a> {
        let mut keys: Vec<BlockKey> = Vec::new();
        for key in &block.keys {
            match self.key(key) {
                Ok(key) => keys.push(key),
                Err(diagnostic) => wrong.push(diagnostic),
            }
        }
        let mut seen = HashSet::new();
        let zones: Vec<Name> = keys
            .iter()
            .map(|key| key.zone.clone())
            .filter(|zone| seen.insert(zone.clone()))
            .collect();
        for directive in &block.directives {
            let name = &*directive.name.text;
            if !self.plugins.iter().any(|plugin| plugin.name == name) {
                let known = self.plugins.iter().map(|plugin| plugin.name);
                let mut diagnostic = directive.name.wrong("is an unknown directive");
                diagnostic.what = format!("Unknown directive '{name}'");
                if ABSENT.contains(&name) {
                    diagnostic = diagnostic.help("CoreDNS has this plugin, Causeway not yet");
                } else if let Some(near) = config::value::nearest(name, known) {
                    diagnostic = diagnostic.help(format!("did you mean '{near}'?"));
                }
                wrong.push(diagnostic);
            }
        }
        Draft { block, keys, zones, site: SiteBuilder::default() }
    }

    /// Reads one key.
    fn key(&self, key: &Key) -> Result<BlockKey, Diagnostic> {
        let transport = match key.scheme {
            Scheme::Dns => Transport::Udp,
            Scheme::Tls => Transport::Tls,
            Scheme::Quic => Transport::Quic,
            Scheme::Grpc => Transport::Grpc,
            Scheme::Https => Transport::Https,
            Scheme::Https3 => Transport::Https3,
            Scheme::Unix | Scheme::Cluster => {
                return Err(key.word.wrong("has a scheme that cannot be served"));
            }
        };
        if !self.transports.contains(&transport) {
            return Err(key.word.wrong("has a scheme that this build does not serve"));
        }
        let default = || match key.scheme {
            Scheme::Dns => self.port,
            scheme => scheme.default_port().unwrap_or(self.port),
        };
        let port = key.port.unwrap_or_else(default);
        let zone =
            Name::parse(&key.zone).ok_or_else(|| key.word.wrong("is not a valid domain name"))?;
        Ok(BlockKey { zone, transport, port })
    }

    /// Sets one plugin up in one block, if the block has it.
    fn set_up(
        &self,
        plugin: &Descriptor,
        draft: &mut Draft<'_>,
        clusters: &[ClusterBlock],
        whole: &mut Whole,
    ) -> Result<(), Diagnostic> {
        let directives: Vec<&Directive> = draft
            .block
            .directives
            .iter()
            .filter(|directive| directive.name.text == plugin.name)
            .collect();
        if directives.is_empty() {
            return Ok(());
        }
        let mut setup = Setup {
            name: plugin.name,
            directives: &directives,
            block: &draft.block.directives,
            keys: &draft.keys,
            zones: &draft.zones,
            clusters,
            site: &mut draft.site,
            whole,
            previous: self.previous.as_ref().map(|live| &live.shared),
            process: &self.process,
            origin: &self.origin,
        };
        let place = &directives[0].name.place;
        (plugin.setup)(&mut setup).map_err(|diagnostic| named(diagnostic, plugin.name, place))
    }

    /// Groups the blocks' keys by listener; and gives the routes of each block, in the order of their numbers.
    fn groups(
        &self,
        drafts: &[Draft<'_>],
        wrong: &mut Vec<Diagnostic>,
    ) -> (Vec<Group>, Vec<Vec<Route>>) {
        let mut groups: Vec<Group> = Vec::new();
        let mut all_routes = Vec::with_capacity(drafts.len());
        let mut ids = self.ids();
        for (at, draft) in drafts.iter().enumerate() {
            let site = &draft.site;
            let mut routes = Vec::new();
            let mut is_told = false;
            let addrs: Vec<Option<BindAddr>> = match &*site.listen.bind {
                [] if site.listen.nowhere => Vec::new(),
                [] => vec![None],
                bind => bind.iter().copied().map(Some).collect(),
            };
            for key in &draft.keys {
                for addr in &addrs {
                    let group_key =
                        GroupKey { transport: key.transport, addr: *addr, port: key.port };
                    if let Some(diagnostic) = clash(&groups, drafts, at, group_key, key) {
                        wrong.push(diagnostic);
                        continue;
                    }
                    let found = groups.iter().position(|group| group.key == group_key);
                    let index = found.unwrap_or_else(|| {
                        let spec = ListenSpec::default();
                        groups.push(Group::new(ids(group_key), group_key, spec));
                        groups.len() - 1
                    });
                    let group = &mut groups[index];
                    if found.is_none() {
                        group.door.clone_from(&site.door);
                    } else if !is_told && !same_door(group.door.as_ref(), site.door.as_ref()) {
                        is_told = true;
                        wrong.extend(other_door(draft, group_key));
                    }
                    group.spec.merge(&site.listen);
                    // Once, however many keys the block has here.
                    let keyring = site.keyring.as_ref().filter(|own| {
                        group.keyrings.last().is_none_or(|last| !Arc::ptr_eq(last, own))
                    });
                    group.keyrings.extend(keyring.cloned());
                    group.selective |=
                        site.selective || site.door.is_some() || !site.views.is_empty();
                    group.classes.chaos |= site.classes.chaos;
                    group.classes.all |= site.classes.all;
                    group.add(key.zone.wire(), at, routes.len());
                    let view =
                        site.views.first().map(|view| view.name().to_owned()).unwrap_or_default();
                    routes.push(Route {
                        listener: group.id,
                        server: group_key.to_string(),
                        zone: key.zone.to_string(),
                        view,
                    });
                }
            }
            all_routes.push(routes);
        }
        for (at, (draft, routes)) in drafts.iter().zip(&mut all_routes).enumerate() {
            layout::claim(at, &draft.site.claims, routes, &mut groups);
        }
        (groups, all_routes)
    }

    /// Gives a listener the number that it had, or one that nobody has.
    fn ids(&self) -> impl FnMut(GroupKey) -> ListenerId + use<> {
        let known: HashMap<GroupKey, ListenerId> = match &self.previous {
            Some(live) => live.groups().map(|group| (group.key, group.id)).collect(),
            None => HashMap::new(),
        };
        let mut next = known.values().map(|id| id.0 + 1).max().unwrap_or(0);
        move |key| {
            known.get(&key).copied().unwrap_or_else(|| {
                next += 1;
                ListenerId(next - 1)
            })
        }
    }
}

/// Plugins of CoreDNS that may be missing here: a Corefile with one of them is not misspelt.
const ABSENT: &[&str] = &[
    "azure",
    "clouddns",
    "dns64",
    "dnssec",
    "erratic",
    "etcd",
    "geoip",
    "header",
    "k8s_external",
    "nomad",
    "on",
    "pprof",
    "route53",
    "shed",
    "sign",
];

/// Why a block cannot have a key: it or another one has it (without a view on either side), on all addresses or on one.
fn clash(
    groups: &[Group],
    drafts: &[Draft<'_>],
    at: usize,
    wanted: GroupKey,
    key: &BlockKey,
) -> Option<Diagnostic> {
    let word = &drafts[at].block.keys.first()?.word;
    let wrong = |why: String, other: usize| {
        let diagnostic = word.fault(why);
        let first = drafts[other].block.keys.first().filter(|_| other != at);
        Some(match first {
            Some(first) => diagnostic.help(format!("the other block is at {}", first.word.place)),
            None => diagnostic,
        })
    };
    let shown = key.zone.to_string();
    for group in groups
        .iter()
        .filter(|group| group.key.transport == wanted.transport && group.key.port == wanted.port)
    {
        for other in group.sites(key.zone.wire()) {
            if group.key == wanted {
                let has_view =
                    !drafts[other].site.views.is_empty() || !drafts[at].site.views.is_empty();
                if !has_view {
                    let text = format!("cannot serve {wanted} for {shown} - it is already defined");
                    return wrong(text, other);
                }
            } else if group.key.addr.is_none() != wanted.addr.is_none() {
                let text = format!(
                    "cannot serve {wanted} for {shown} - zone overlap listener capacity with {}",
                    group.key
                );
                return wrong(text, other);
            }
        }
    }
    None
}

/// Finds the listeners without a certificate: QUIC has no clear text; the others speak it, for a proxy in front that ends TLS.
fn check_tls(
    groups: &[Group],
    drafts: &[Draft<'_>],
    routes: &[Vec<Route>],
    wrong: &mut Vec<Diagnostic>,
    warnings: &mut Vec<Diagnostic>,
) {
    for group in groups.iter().filter(|group| group.spec.tls.is_empty()) {
        let transport = group.key.transport;
        let key = drafts.iter().zip(routes).find_map(|(draft, routes)| {
            routes.iter().find(|route| route.listener == group.id)?;
            let at = draft
                .keys
                .iter()
                .position(|key| (key.transport, key.port) == (transport, group.key.port))?;
            draft.block.keys.get(at)
        });
        let Some(key) = key else { continue };
        match transport {
            Transport::Quic | Transport::Https3 => wrong.push(
                key.word
                    .fault(format!("{} needs a certificate, since QUIC has no clear text", group.key))
                    .help("write `tls CERT KEY` in the block; or, for a first try, the line `self_signed` between the braces of `tls`"),
            ),
            Transport::Tls | Transport::Https => warnings.push(
                key.word
                    .fault(format!("{} has no `tls`: it speaks clear text, as behind a proxy that ends TLS", group.key))
                    .help("write `tls CERT KEY` in the block if clients ask it directly"),
            ),
            Transport::Udp | Transport::Tcp | Transport::Grpc => {}
        }
    }
}

/// Whether two blocks have the same door, or none.
fn same_door(one: Option<&Arc<dyn Door>>, other: Option<&Arc<dyn Door>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// What is wrong with a block whose clients are known otherwise than those of a block before it at the same listener.
fn other_door(draft: &Draft<'_>, key: GroupKey) -> Option<Diagnostic> {
    let own = draft.block.directives.iter().find(|directive| directive.name.text == "identity");
    let word = own.map(|directive| &directive.name);
    let word = word.or_else(|| draft.block.keys.first().map(|key| &key.word))?;
    let text = format!("another block at {key} has other `identity` lines, or none");
    Some(word.fault(text).help("write the same lines in all blocks of a listener"))
}

/// Completes a block.
fn finish(mut builder: SiteBuilder, routes: Box<[Route]>, wrong: &mut Vec<Diagnostic>) -> Site {
    let roles = builder.roles.clone();
    if roles.0.set(std::mem::take(&mut builder.offered)).is_err() {
        log::error!("a server block was completed twice");
    }
    for check in builder.later.drain(..) {
        wrong.extend(check(&roles).err());
    }
    let has_metadata = builder.metadata_zones.is_some();
    let is_known = builder.metadata.providers.set(std::mem::take(&mut builder.providers)).is_err();
    if is_known
        || builder
            .metadata_zones
            .take()
            .is_some_and(|zones| builder.metadata.zones.set(zones).is_err())
    {
        log::error!("a server block was completed twice");
    }
    for observer in &mut builder.observers {
        observer.routes(&routes);
        observer.plugins(&builder.parts);
    }
    if builder.routes.0.set(routes).is_err() {
        log::error!("a server block was completed twice");
    }
    Site {
        is_bare: builder.chain.len() == builder.foreign
            && builder.observers.is_empty()
            && !has_metadata,
        chain: builder.chain.into(),
        observers: builder.observers.into(),
        views: builder.views.into(),
        metadata: builder.metadata,
        roles,
        routes: builder.routes,
        timeout: builder.timeout,
    }
}
