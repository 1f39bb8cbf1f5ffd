//! A plugin's entry in the registry, and its set-up: its directives in, its parts out.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use config::{Diagnostic, Directive, Place, Word};
use foldhash::fast::FixedState;
use wire::Name;

use crate::admin::{Handler, Page};
use crate::build::Origin;
use crate::cluster::ClusterBlock;
use crate::control::{Control, Controlled};
use crate::door::Door;
use crate::everywhere::{Everywhere, Pass};
use crate::exchange::Transport;
use crate::gate::MakeGate;
use crate::layout::Layout;
use crate::live::Link;
use crate::plugin::{Metadata, Observer, Plugin, Provided, Provider, Providers, Role, Roles, View};
use crate::process::Process;
use crate::route::{Classes, Routes};
use crate::seal::Keyring;
use crate::shutdown::Stop;
use crate::spec::{ListenSpec, Tls};

/// A plugin's entry in the registry.
#[derive(Debug)]
pub struct Descriptor {
    /// Its name in the Corefile.
    pub name: &'static str,
    /// Its documentation; the Corefiles in it are started by a test.
    pub readme: &'static str,
    /// Makes it from its directives.
    pub setup: fn(&mut Setup<'_>) -> Result<(), Diagnostic>,
}

/// One key of a server block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockKey {
    /// The zone.
    pub zone: Name,
    /// The transport; `dns://` is [`Transport::Udp`], and TCP with it.
    pub transport: Transport,
    /// The port.
    pub port: u16,
}

/// Something that runs beside the queries.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something that the start waits for, and that may forbid it.
pub type Wait = Pin<Box<dyn Future<Output = Result<(), Diagnostic>> + Send>>;

/// Makes a task when the configuration goes live.
pub(crate) type MakeTask = Box<dyn FnOnce(Stop) -> Task + Send>;

/// Called when all plugins of a block are set up.
type Later = Box<dyn FnOnce(&Roles) -> Result<(), Diagnostic>>;

/// State that outlives a reload, by type and key. What the new configuration does not ask for goes with the old one.
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<Kept>>);

/// What is shared, by type and key.
type Kept = HashMap<(TypeId, String), Arc<dyn Any + Send + Sync>, FixedState>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// What is kept under `key`.
    pub(crate) fn get<T: Any + Send + Sync>(&self, key: &str) -> Option<Arc<T>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.get(&(TypeId::of::<T>(), key.to_owned()))?).downcast().ok()
    }

    /// Keeps `value` under `key`.
    fn put<T: Any + Send + Sync>(&self, key: &str, value: Arc<T>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((TypeId::of::<T>(), key.to_owned()), value);
    }
}

/// A server block under construction.
#[derive(Default)]
pub(crate) struct SiteBuilder {
    pub(crate) chain: Vec<Link>,
    /// How many links of the chain are there for the sake of other blocks.
    pub(crate) foreign: usize,
    /// The names of the plugins that take part in queries, in registry order.
    pub(crate) parts: Vec<&'static str>,
    pub(crate) observers: Vec<Box<dyn Observer>>,
    pub(crate) providers: Providers,
    pub(crate) views: Vec<Box<dyn View>>,
    pub(crate) offered: Vec<(&'static str, Role)>,
    pub(crate) metadata: Metadata,
    pub(crate) metadata_zones: Option<Vec<Name>>,
    pub(crate) roles: Roles,
    pub(crate) routes: Routes,
    pub(crate) listen: ListenSpec,
    pub(crate) door: Option<Arc<dyn Door>>,
    /// What stands before the plugins that ask others, with the name of the plugin that it is of.
    pub(crate) gate: Option<(&'static str, MakeGate)>,
    /// The zones that it takes beside those of its keys.
    pub(crate) claims: Vec<Name>,
    /// The zones that its plugins answer for themselves.
    pub(crate) own: Vec<Name>,
    pub(crate) keyring: Option<Arc<dyn Keyring>>,
    pub(crate) classes: Classes,
    /// Whether answers depend on who asks.
    pub(crate) selective: bool,
    pub(crate) root: PathBuf,
    pub(crate) timeout: Option<Duration>,
    pub(crate) later: Vec<Later>,
}

/// A configuration under construction, beyond its blocks.
#[derive(Default)]
pub(crate) struct Whole {
    pub(crate) lost: Vec<Box<dyn Observer>>,
    pub(crate) pages: Vec<Page>,
    /// What the control socket answers.
    pub(crate) controls: Vec<Controlled>,
    pub(crate) tasks: Vec<(&'static str, MakeTask)>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) warnings: Vec<Diagnostic>,
    pub(crate) lameduck: Duration,
    pub(crate) layout: Layout,
    /// Links of all chains, until they are put there.
    pub(crate) everywhere: Vec<Everywhere>,
    pub(crate) pass: Pass,
    /// What plugins have noted, by their name and a key.
    pub(crate) notes: HashMap<(&'static str, String), String>,
    pub(crate) shared: Shared,
    pub(crate) debug: bool,
    pub(crate) stacktrace: bool,
}

/// A plugin's set-up in one server block, called once with all its directives there.
pub struct Setup<'a> {
    pub(crate) name: &'static str,
    pub(crate) directives: &'a [&'a Directive],
    pub(crate) block: &'a [Directive],
    pub(crate) keys: &'a [BlockKey],
    pub(crate) zones: &'a [Name],
    pub(crate) clusters: &'a [ClusterBlock],
    pub(crate) site: &'a mut SiteBuilder,
    pub(crate) whole: &'a mut Whole,
    pub(crate) previous: Option<&'a Shared>,
    pub(crate) process: &'a Arc<Process>,
    pub(crate) origin: &'a Arc<Origin>,
}

impl fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a> Setup<'a> {
    /// The first directive of this plugin in the block.
    pub fn directive(&self) -> &'a Directive {
        // Set-up is only called for plugins that the block has.
        self.directives[0]
    }

    /// All directives of this plugin in the block, in order.
    pub fn directives(&self) -> &'a [&'a Directive] {
        self.directives
    }

    /// The only directive.
    ///
    /// # Errors
    /// If there is a second one.
    pub fn once(&self) -> Result<&'a Directive, Diagnostic> {
        match self.directives {
            [_, second, ..] => {
                Err(second.name.wrong("this plugin can only be used once per Server Block"))
            }
            _ => Ok(self.directive()),
        }
    }

    /// The directives `name` of the block, for a plugin that goes by what another one is told.
    pub fn others(&self, name: &str) -> impl Iterator<Item = &'a Directive> {
        self.block.iter().filter(move |directive| directive.name.text == name)
    }

    /// Whether the block has a directive `name`.
    pub fn has(&self, name: &str) -> bool {
        self.block.iter().any(|directive| directive.name.text == name)
    }

    /// Everything that the block says, its keys included: two blocks with equal text answer alike. State that depends on
    /// more than one directive is shared under it.
    pub fn block_text(&self) -> String {
        let mut text = String::new();
        for BlockKey { zone, transport, port } in self.keys {
            text.push_str(&format!("{transport:?} {zone} {port}\n"));
        }
        for directive in self.block {
            text.push_str(&directive.fingerprint());
            text.push('\n');
        }
        text
    }

    /// The block's keys, CIDR keys taken apart.
    pub fn keys(&self) -> &'a [BlockKey] {
        self.keys
    }

    /// The block's zones, each once.
    pub fn zones(&self) -> &'a [Name] {
        self.zones
    }

    /// The zones that a plugin's ZONES arguments name: scheme and port are dropped, networks become reverse zones, words that
    /// are no zones are passed over; without words the block's own.
    pub fn zones_of(&self, words: &[Word]) -> Vec<Name> {
        if words.is_empty() {
            return self.zones.to_vec();
        }
        let texts = words.iter().flat_map(|word| zone_texts(&word.text));
        let mut seen = HashSet::new();
        texts
            .filter_map(|text| Name::parse(&text))
            .filter(|zone| seen.insert(zone.clone()))
            .collect()
    }

    /// Appends `plugin` to the chain.
    pub fn install(&mut self, plugin: impl Plugin) {
        self.site.chain.push(Link { name: self.name, plugin: Box::new(plugin) });
        self.take_part();
    }

    /// Has `observer` see every exchange of the block.
    pub fn observe(&mut self, observer: impl Observer) {
        self.site.observers.push(Box::new(observer));
        self.take_part();
    }

    /// Has `observer` see every exchange that no block takes, unless a plugin of this name has asked for that already.
    pub fn observe_lost(&mut self, make: impl FnOnce() -> Box<dyn Observer>) {
        if self.whole.lost.is_empty() {
            self.whole.lost.push(make());
        }
    }

    /// Has `provider` answer for the metadata labels `<name>/…`, where `metadata` is on.
    pub fn provide(&mut self, provider: impl Provider) {
        self.provided(self.name, provider, false);
    }

    /// The same for the labels `<prefix>/…`, for what several plugins have in common.
    pub fn provide_as(&mut self, prefix: &'static str, provider: impl Provider) {
        self.provided(prefix, provider, false);
    }

    /// The same, whether `metadata` is on or not.
    pub fn provide_always(&mut self, provider: impl Provider) {
        self.provided(self.name, provider, true);
    }

    /// Adds a provider.
    fn provided(&mut self, prefix: &'static str, provider: impl Provider, always: bool) {
        let provider = Box::new(provider);
        self.site.providers.push(Provided { prefix, always, provider });
        self.take_part();
    }

    /// Turns the block's metadata on for `zones`.
    pub fn enable_metadata(&mut self, zones: Vec<Name>) {
        self.site.metadata_zones = Some(zones);
        self.take_part();
    }

    /// The block's metadata, for later.
    pub fn metadata(&self) -> Metadata {
        self.site.metadata.clone()
    }

    /// Lets only what `view` admits into the block.
    pub fn admit(&mut self, view: impl View) {
        self.site.views.push(Box::new(view));
        self.take_part();
    }

    /// Offers `role` to the block's other plugins.
    pub fn offer(&mut self, role: Role) {
        self.site.offered.push((self.name, role));
    }

    /// What the block's plugins offer, complete when all are set up.
    pub fn roles(&self) -> Roles {
        self.site.roles.clone()
    }

    /// The block's routes, for the labels of metrics; complete when all its plugins are set up.
    pub fn routes(&self) -> Routes {
        self.site.routes.clone()
    }

    /// Calls `check` when all plugins of the block are set up: for what depends on the others.
    pub fn later(&mut self, check: impl FnOnce(&Roles) -> Result<(), Diagnostic> + 'static) {
        self.site.later.push(Box::new(check));
    }

    /// State under `key` that other blocks and the next configuration share: found if there, else made. The key says
    /// everything that the state depends on.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn share<T: Any + Send + Sync>(
        &mut self,
        key: &str,
        make: impl FnOnce() -> Result<Arc<T>, Diagnostic>,
    ) -> Result<Arc<T>, Diagnostic> {
        if let Some(known) = self.whole.shared.get(key) {
            return Ok(known);
        }
        let made = match self.previous.and_then(|previous| previous.get(key)) {
            Some(kept) => kept,
            None => make()?,
        };
        self.whole.shared.put(key, Arc::clone(&made));
        Ok(made)
    }

    /// Runs a task beside the queries, from when the configuration goes live until it is replaced or the process
    /// stops, whichever [`Stop`] says first.
    pub fn task<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        run: impl FnOnce(Stop) -> F + Send + 'static,
    ) {
        self.whole.tasks.push((self.name, Box::new(move |stop| Box::pin(run(stop)))));
    }

    /// Has the configuration wait for `ready`, together with all that others wait for, before it serves.
    pub fn before_serving(&mut self, ready: impl Future<Output = ()> + Send + 'static) {
        self.whole.waits.push(Box::pin(async {
            ready.await;
            Ok(())
        }));
    }

    /// The same for what may turn out to be wrong: then the configuration does not go live.
    pub fn prove_before_serving(
        &mut self,
        ready: impl Future<Output = Result<(), Diagnostic>> + Send + 'static,
    ) {
        let (name, place) = (self.name, self.directive().name.place.clone());
        self.whole
            .waits
            .push(Box::pin(async move { ready.await.map_err(|wrong| named(wrong, name, &place)) }));
    }

    /// Whether the configuration is to replace one that is at work.
    pub fn is_reload(&self) -> bool {
        self.previous.is_some()
    }

    /// Answers HTTP requests for `path` at an admin listener.
    pub fn admin(&mut self, addr: std::net::SocketAddr, path: &str, handler: Arc<dyn Handler>) {
        let page = Page { addr, path: path.to_owned(), plugin: self.name, handler, tls: None };
        self.whole.pages.push(page);
    }

    /// The same over TLS, with all other pages of the listener. What is wrapped is what the listener is configured by.
    pub fn admin_over(
        &mut self,
        addr: std::net::SocketAddr,
        path: &str,
        handler: Arc<dyn Handler>,
        tls: Tls,
    ) {
        let (path, tls) = (path.to_owned(), Some(tls));
        self.whole.pages.push(Page { addr, path, plugin: self.name, handler, tls });
    }

    /// Has `handler` answer `verb` about `subject`, such as a cluster's name, at the control socket of the process. Blocks that
    /// share a subject may each ask for it: the first one counts. Subjects of `status` are `SECTION/ANYTHING`: reports of one
    /// section stand together.
    pub fn control(
        &mut self,
        verb: &'static str,
        subject: impl Into<String>,
        handler: Arc<dyn Control>,
    ) {
        let (subject, plugin) = (subject.into(), self.name);
        let controls = &mut self.whole.controls;
        if !controls.iter().any(|own| own.verb == verb && own.subject == subject) {
            controls.push(Controlled { verb, subject, plugin, handler });
        }
    }

    /// The admin pages so far, over all blocks.
    pub fn pages(&self) -> &[Page] {
        &self.whole.pages
    }

    /// What the block says of its listeners.
    pub fn listener(&mut self) -> &mut ListenSpec {
        &mut self.site.listen
    }

    /// Has `door` find who asks at the block's listeners. Blocks that share a listener have the same one.
    pub fn door(&mut self, door: Arc<dyn Door>) {
        self.site.door = Some(door);
        self.take_part();
    }

    /// Has the block's listeners check the signatures of queries by `keyring`, beside those of other blocks.
    pub fn keyring(&mut self, keyring: Arc<dyn Keyring>) {
        self.site.keyring = Some(keyring);
    }

    /// Notes that the block's answers depend on who asks, beyond views and identities: HTTP tells caches on the way.
    pub fn selective(&mut self) {
        self.site.selective = true;
    }

    /// Lets class CH into the chains of the block's listeners.
    pub fn allow_chaos(&mut self) {
        self.site.classes.chaos = true;
    }

    /// Lets every class into the chains of the block's listeners.
    pub fn allow_classes(&mut self) {
        self.site.classes.all = true;
    }

    /// Bounds how long a query of the block may take.
    pub fn deadline(&mut self, timeout: Duration) {
        self.site.timeout = Some(timeout);
    }

    /// Has the process go on serving for so long after it was told to stop.
    pub fn lameduck(&mut self, duration: Duration) {
        self.whole.lameduck = self.whole.lameduck.max(duration);
    }

    /// Turns debug logging on for the whole process.
    pub fn debug(&mut self) {
        self.whole.debug = true;
    }

    /// Has a caught panic's place logged.
    pub fn stacktrace(&mut self) {
        self.whole.stacktrace = true;
    }

    /// The directory that relative file arguments start from (`root`).
    pub fn root(&self) -> &Path {
        &self.site.root
    }

    /// Sets that directory.
    pub fn set_root(&mut self, root: PathBuf) {
        self.site.root = root;
    }

    /// `file` seen from the root.
    pub fn path(&self, file: &str) -> PathBuf {
        self.site.root.join(file)
    }

    /// The process.
    pub fn process(&self) -> &Arc<Process> {
        self.process
    }

    /// The files that the configuration was read from.
    pub fn origin(&self) -> &Arc<Origin> {
        self.origin
    }

    /// Notes that this plugin takes part in the block's queries.
    pub(crate) fn take_part(&mut self) {
        if self.site.parts.last() != Some(&self.name) {
            self.site.parts.push(self.name);
        }
    }

    /// Says something that does not stop the start.
    pub fn warn(&mut self, mut warning: Diagnostic) {
        warning.what = format!("plugin/{}: {}", self.name, warning.what);
        // What several blocks use is odd once.
        if !self.whole.warnings.contains(&warning) {
            self.whole.warnings.push(warning);
        }
    }
}

/// What is wrong, with the plugin's name before it; at this place if it has none.
pub(crate) fn named(mut wrong: Diagnostic, plugin: &str, place: &Place) -> Diagnostic {
    if !wrong.what.starts_with("plugin/") {
        wrong.what = format!("plugin/{plugin}: {}", wrong.what);
    }
    wrong.place.get_or_insert_with(|| place.clone());
    let also = std::mem::take(&mut wrong.also);
    wrong.also = also.into_iter().map(|one| named(one, plugin, place)).collect();
    wrong
}

/// The zones that one ZONES argument names, in presentation form; none if it is no zone.
fn zone_texts(text: &str) -> Vec<String> {
    let bare = text.split_once("://").map_or(text, |(_, rest)| rest);
    if let Ok(zones) = config::value::cidr_zones(bare) {
        return zones;
    }
    let bare = match bare.rsplit_once(':') {
        Some((zone, port)) if port.parse::<u16>().is_ok() => zone,
        _ => bare,
    };
    match config::value::cidr_zones(bare) {
        Ok(zones) => zones,
        Err(_) => config::value::fqdn(bare).into_iter().collect(),
    }
}
