//! Follows one kind of objects: lists it, watches it, and starts over as often as that takes.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use http::StatusCode;
use http_body_util::BodyExt as _;
use tokio::{
    sync::{Mutex as Turns, Notify, watch::Sender},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    client::{Connection, Reply},
    end::{End, broken, refused},
    gzip::Decoder,
    object::{Event, Kind},
    order::Order,
    probe::{Probe, State},
    proto::{ListCutter, Part, Status},
    silence::Silence,
    store::{Keep, Store, Writer},
    stream::{self, Note},
};

/// The group whose versions tell which ServiceImport and ServiceExport are served.
const MULTICLUSTER: &str = "/apis/multicluster.x-k8s.io";
/// The versions of both that are understood, the best first.
const VERSIONS: [&str; 2] = ["v1beta1", "v1alpha1"];

/// How much before its time a watch may end for no reason.
const EARLY: Duration = Duration::from_secs(2);

/// How long a watch must last to be taken for an established one.
const SETTLED: Duration = Duration::from_secs(1);

/// How often the question where a server is may go without an answer before something else is done.
const CHECKS: u32 = 6;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// What is asked of the server as the length of a watch: this to twice this.
    pub(crate) watch: Duration,
    /// What a watch may take longer than that.
    pub(crate) slack: Duration,
    /// How long a watch may be silent: bookmarks come once a minute.
    pub(crate) silence: Duration,
    /// How long the next list waits that an event out of its order asks for.
    pub(crate) doubt: Duration,
    /// How long the first wait for the response to a watch, or to what is asked before it, may be; the next ones are longer, up to six times this.
    pub(crate) answer: Duration,
    /// How long a list's response may take to begin.
    pub(crate) list: Duration,
    /// How long a watch may be silent before the first initial event, and a body may stall.
    pub(crate) quiet: Duration,
    /// The first pause after a failure; it doubles.
    pub(crate) pause: Duration,
    /// The longest pause: a server that comes back is found soon.
    pub(crate) longest: Duration,
    /// The pause while a kind is forbidden or its definition is absent.
    pub(crate) refused: Duration,
    /// How long between two looks at which of the namespaces are there.
    pub(crate) names: Duration,
    /// How long a change may be on its way before it counts as a difference from a list.
    pub(crate) grace: Duration,
    /// How long after a server is back all is compared with it.
    pub(crate) recovered: Duration,
    /// The least time between the end of such a comparison and the next one.
    pub(crate) between: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            watch: Duration::from_secs(300),
            slack: Duration::from_secs(30),
            silence: Duration::from_secs(180),
            doubt: Duration::from_secs(60),
            answer: Duration::from_secs(5),
            list: Duration::from_secs(30),
            quiet: Duration::from_secs(10),
            pause: Duration::from_millis(250),
            longest: Duration::from_secs(2),
            refused: Duration::from_secs(5),
            names: Duration::from_secs(300),
            grace: Duration::from_secs(5),
            recovered: Duration::from_secs(60),
            between: Duration::from_secs(60),
        }
    }
}

/// What a watch set's followers share.
#[derive(Debug)]
pub(crate) struct Common {
    /// The connection.
    pub(crate) connection: Arc<Connection>,
    /// The writer.
    pub(crate) writer: Mutex<Writer>,
    /// The store, for states.
    pub(crate) store: Store,
    /// Is told of states.
    pub(crate) probe: Arc<dyn Probe>,
    /// Wakes those who wait for the store.
    pub(crate) progress: Sender<()>,
    /// Whether the server is taken to know of watches with initial events.
    pub(crate) initial: AtomicBool,
    /// Whose turn it is to tell what the watches of namespaces do that are followed by themselves.
    pub(crate) telling: Mutex<()>,
    /// Has the namespaces looked up again.
    pub(crate) look: Notify,
    /// How long things may take.
    pub(crate) timing: Timing,
    /// Asks for a new list of a kind, by [`Kind::index`].
    pub(crate) repair: [Sender<()>; Kind::COUNT],
    /// Tells that a server that was away is back.
    pub(crate) recovered: Notify,
    /// Who has it compares with the server.
    pub(crate) verifying: Turns<()>,
}

impl Common {
    /// Applies one event.
    pub(crate) fn apply(&self, event: &Event<'_>) {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).apply(event);
    }

    /// Notes what the watch of a kind does.
    pub(crate) fn set_state(&self, kind: Kind, state: State) {
        if self.store.state(kind) != state {
            self.store.set_state(kind, state);
            self.probe.state(kind, state);
        }
        self.progress.send_replace(());
    }
}

/// Follows one kind.
#[derive(Debug)]
pub(crate) struct Follower {
    /// What all share.
    pub(crate) common: Arc<Common>,
    /// The kind.
    pub(crate) kind: Kind,
    /// The namespace, with its number, if it is followed by itself.
    pub(crate) namespace: Option<(usize, String)>,
    /// Whether namespaces are looked up by their names.
    pub(crate) by_name: bool,
    /// Whether the rights are there; none before that is known.
    pub(crate) granted: Option<bool>,
    /// What the store holds.
    keep: Keep,
    /// `labelSelector` and `fieldSelector` as a query's text.
    selectors: String,
    /// Where a watch goes on; none before a list.
    pub(crate) version: Option<String>,
    /// Whether the last watch ended in its time, so that the server is the one that it was.
    timely: bool,
    /// How often in succession the server would not say where it is.
    unanswered: u32,
    /// The version that a list must at least have; empty if any will do.
    pub(crate) least: String,
    /// Whether the server was away, or its data another's, since the last progress.
    pub(crate) lost: bool,
    /// What is waited after each piece of a list.
    pub(crate) pace: Duration,
    /// When the last list was asked for by an event out of its order.
    pub(crate) doubted: Option<Instant>,
    /// Whether a list must be the newest, since the server knows no more of `least`.
    pub(crate) newest: bool,
    /// Whether lists come as a watch's initial events, as far as this kind is concerned.
    pub(crate) initial: bool,
    /// The version of a custom resource that is served.
    pub(crate) served: Option<&'static str>,
    /// Failures since the last progress.
    pub(crate) failures: u32,
    /// Times that the kind was forbidden in succession.
    pub(crate) refusals: u32,
    /// Waits for a response that were too short.
    pub(crate) silences: u32,
    /// What is known of how the server tells of the kind.
    pub(crate) silence: Silence,
    /// What has been said of a trouble that goes on.
    pub(crate) said: Vec<String>,
    /// A seed for chance.
    pub(crate) chance: u64,
}

impl Follower {
    /// Makes a follower of a kind, with selectors as a query's text (`&labelSelector=…`).
    pub(crate) fn new(
        common: Arc<Common>,
        kind: Kind,
        namespace: Option<(usize, String)>,
        selectors: String,
    ) -> Self {
        let keep = common.store.keep().clone();
        let (_, nanoseconds) = crate::store::unix_time();
        let chance = u64::from(nanoseconds) << 8 | kind.index() as u64;
        Self {
            common,
            kind,
            by_name: kind == Kind::Namespaces && !keep.apart().is_empty(),
            namespace,
            granted: None,
            keep,
            selectors,
            version: None,
            timely: false,
            unanswered: 0,
            least: String::new(),
            lost: false,
            pace: Duration::ZERO,
            doubted: None,
            newest: false,
            initial: true,
            served: None,
            failures: 0,
            refusals: 0,
            silences: 0,
            silence: Silence::default(),
            said: Vec::new(),
            chance,
        }
    }

    /// Follows for ever.
    pub(crate) async fn run(mut self) {
        let mut repair = self.common.repair[self.kind.index()].subscribe();
        let connection = Arc::clone(&self.common.connection);
        let mut generation = connection.generation();
        let mut moves = connection.moves();
        loop {
            generation.borrow_and_update();
            // Another server's versions are of another history.
            let before = std::mem::replace(&mut moves, connection.moves());
            if moves != before {
                self.start_over();
                self.silence = Silence::default();
            }
            let turn = async {
                let end = tokio::select! {
                    Ok(()) = repair.changed() => End::Repair,
                    end = self.turn() => end.err().unwrap_or(End::Closed),
                };
                let pause = match self.sort_silence(end) {
                    End::Forbidden(cause)
                        if self.kind == Kind::Namespaces && !self.keep.apart().is_empty() =>
                    {
                        self.assume(&cause)
                    }
                    end => self.judge(end),
                };
                sleep(pause).await;
            };
            tokio::select! {
                () = turn => {}
                // What was read with other credentials ends here, and goes on with those of now.
                Ok(()) = generation.changed() => self.failures = 0,
            }
        }
    }

    /// Lists and watches once.
    async fn turn(&mut self) -> Result<(), End> {
        if self.by_name {
            match self.look_up().await {
                // Who may list all of them needs no right on each.
                Err(End::Forbidden(_)) => self.by_name = false,
                end => return end,
            }
        }
        let path = self.path().await?;
        if !std::mem::take(&mut self.timely) {
            self.compare(&path).await?;
        }
        if self.version.is_none() {
            self.unanswered = 0;
            if !(self.initial && self.common.initial.load(Relaxed)) {
                self.list(&path).await?;
            }
        }
        self.watch(&path).await
    }

    /// Gives the path of the kind.
    async fn path(&mut self) -> Result<String, End> {
        Ok(match self.kind {
            Kind::Namespaces | Kind::Services | Kind::Pods => {
                format!("/api/v1/{}{}", self.within(), self.kind.resource())
            }
            Kind::Slices | Kind::ImportSlices => {
                format!("/apis/discovery.k8s.io/v1/{}{}", self.within(), self.kind.resource())
            }
            Kind::Imports | Kind::Exports => {
                let served = match self.served {
                    Some(served) => served,
                    None => self.discover().await?,
                };
                self.served = Some(served);
                format!("{MULTICLUSTER}/{served}/{}{}", self.within(), self.kind.resource())
            }
        })
    }

    /// Finds out which version of the custom resource is served.
    async fn discover(&self) -> Result<&'static str, End> {
        for version in VERSIONS {
            let reply =
                self.get(&format!("{MULTICLUSTER}/{version}"), self.common.timing.list).await;
            match reply {
                Ok(reply) if reply.json => {
                    let limited = http_body_util::Limited::new(reply.body, 1 << 20);
                    let body =
                        limited.collect().await.map_err(|error| End::Network(error.to_string()))?;
                    if stream::lists_resource(&body.to_bytes(), self.kind.resource()) {
                        return Ok(version);
                    }
                }
                Ok(_) => return Err(End::Broken("the API's description is not JSON".to_owned())),
                Err(End::Absent) => {}
                Err(end) => return Err(end),
            }
        }
        Err(End::Absent)
    }

    /// Asks for a path and sorts out what is no success.
    pub(crate) async fn get(&self, path: &str, wait: Duration) -> Result<Reply, End> {
        let reply = self.common.connection.get(path, self.kind.is_custom(), wait).await?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        let (code, session, after) = (reply.status, reply.session, reply.retry_after);
        let problem = reply.problem().await;
        let watch = path.contains("watch=true");
        if code == StatusCode::UNAUTHORIZED {
            self.common.connection.reject(session);
            return Err(End::Network(format!(
                "the credentials are not accepted (401 {}): {}",
                problem.message,
                self.common.connection.origin()
            )));
        }
        Err(match code {
            StatusCode::FORBIDDEN => {
                let verb = if watch { "watch" } else { "list" };
                End::Forbidden(self.forbidden(if self.by_name { "get" } else { verb }, &problem))
            }
            StatusCode::NOT_FOUND if self.kind.is_custom() || self.by_name => End::Absent,
            _ => refused(&problem, after, watch),
        })
    }

    /// Asks for a path and waits as long as suits what there was before: briefly at first, so that a server that hangs is left soon; a
    /// slow one gets its time at the fourth attempt.
    async fn patient(&mut self, path: &str) -> Result<Reply, End> {
        let wait = self.common.timing.answer * [1, 2, 3, 6][self.silences as usize % 4];
        let reply = self.get(path, wait).await;
        if matches!(reply, Err(End::Network(_))) {
            self.silences = self.silences.wrapping_add(1);
        }
        reply
    }

    /// Names the right that is missing.
    fn forbidden(&self, verb: &str, problem: &Status) -> String {
        format!(
            "forbidden: the verb {verb:?} on the resource {:?} of the API group {:?} is missing ({}); `causeway rbac` prints the roles",
            self.kind.resource(),
            self.kind.group(),
            problem.message
        )
    }

    /// Lists the kind, from the server's watch cache unless a version asks for more.
    async fn list(&mut self, path: &str) -> Result<(), End> {
        let version = if self.least.is_empty() && !self.newest { "0" } else { &self.least };
        let query = format!("{path}?resourceVersion={version}{}", self.selectors);
        let reply = self.get(&query, self.common.timing.list).await?;
        self.state(State::Listing);
        self.common.apply(&self.restart());
        let version = self.read(reply, &mut |event| self.common.apply(event)).await?;
        self.common.apply(&self.synced());
        self.note_told();
        self.silence.listed(self.common.store.version());
        self.least.clone_from(&version);
        self.version = Some(version);
        self.progress();
        Ok(())
    }

    /// Lists the newest of the kind for somebody else than the store.
    pub(crate) async fn newest(
        &mut self,
        apply: &mut (dyn FnMut(&Event<'_>) + Send),
    ) -> Result<(), End> {
        let path = self.path().await?;
        let query = format!("{path}?resourceVersion={}", self.selectors);
        let reply = self.get(&query, self.common.timing.list).await?;
        self.read(reply, apply).await.map(drop)
    }

    /// Refuses to go on where the last watch ended if the server has not come so far: its data are an older copy then, and
    /// it would say nothing of a watch from a version to come until it has caught up with that.
    async fn compare(&mut self, path: &str) -> Result<(), End> {
        let number = |version: &str| version.parse::<u64>().ok();
        let Some(ours) = self.version.as_deref().and_then(number) else { return Ok(()) };
        let reply = match self.patient(&format!("{path}?limit=1")).await {
            Err(end @ (End::Forbidden(_) | End::Busy { code: 500.., .. })) => {
                return self.go_unanswered(end);
            }
            reply => reply?,
        };
        let theirs = self.read(reply, &mut |_| ()).await?;
        // Its history may be another one, even if it has come as far.
        self.lost |= std::mem::take(&mut self.unanswered) > 0;
        match number(&theirs) {
            Some(theirs) if theirs < ours => Err(End::Ahead(format!(
                "the API server is at resource version {theirs}, older than {ours} that it told before; its data are taken as they are"
            ))),
            _ => Ok(()),
        }
    }

    /// Decides what to do at a server that would not say where it is: to ask again, since one that starts may not know its roles
    /// yet; to list, if it goes on to refuse, for who may only watch gets a list so too; or to watch without knowing, if it is its
    /// database that fails, and only for a while.
    fn go_unanswered(&mut self, end: End) -> Result<(), End> {
        self.unanswered = self.unanswered.saturating_add(1);
        let refused = matches!(end, End::Forbidden(_));
        // Where namespaces are followed one by one nobody asks again which of them there are for minutes.
        let apart = self.kind == Kind::Namespaces && !self.keep.apart().is_empty();
        if self.unanswered < CHECKS && !(refused && apart) {
            return Err(end);
        }
        if refused {
            self.start_over();
        }
        Ok(())
    }

    /// Reads a list object by object and gives its resource version.
    async fn read(
        &self,
        mut reply: Reply,
        apply: &mut (dyn FnMut(&Event<'_>) + Send),
    ) -> Result<String, End> {
        let timing = self.common.timing;
        let mut decoder = Decoder::new(&reply.encoding).map_err(broken)?;
        let mut cutter = ListCutter::default();
        let mut found = None;
        loop {
            let more = self
                .piece(&mut reply, &mut decoder, Instant::now() + timing.quiet.max(timing.list))
                .await?;
            if more && !self.pace.is_zero() {
                sleep(self.pace).await;
            }
            if reply.json {
                if more {
                    continue;
                }
                return stream::json_list(self.kind, decoder.bytes(), apply).map_err(broken);
            }
            let mut taken = 0;
            while let Some((part, len)) = cutter.next(&decoder.bytes()[taken..]).map_err(broken)? {
                match part {
                    Part::Version(version) => found = Some(version.into_owned()),
                    Part::Item(message) => {
                        let (object, _) =
                            crate::proto::object(self.kind, message, &self.keep).map_err(broken)?;
                        apply(&Event::Apply(object));
                    }
                    Part::Other => {}
                }
                taken += len;
            }
            decoder.consume(taken);
            if !more {
                if !cutter.complete() || !decoder.bytes().is_empty() {
                    return Err(End::Stalled("the connection ended within a list".to_owned()));
                }
                return found.ok_or_else(|| broken("a list without a resource version"));
            }
        }
    }

    /// Reads the next piece of a body into the decoder; says whether there may be more.
    async fn piece(
        &self,
        reply: &mut Reply,
        decoder: &mut Decoder,
        until: Instant,
    ) -> Result<bool, End> {
        match timeout_at(until, reply.body.frame()).await {
            Err(_) => Err(End::Stalled("the connection fell silent".to_owned())),
            Ok(None) => {
                decoder.finish().map_err(|error| {
                    End::Stalled(format!("the connection ended early: {error}"))
                })?;
                Ok(false)
            }
            Ok(Some(Err(error))) => {
                Err(End::Stalled(format!("the connection ended early: {error}")))
            }
            Ok(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    decoder.push(bytes).map_err(broken)?;
                }
                Ok(true)
            }
        }
    }

    /// Watches the kind until the watch ends.
    async fn watch(&mut self, path: &str) -> Result<(), End> {
        let timing = self.common.timing;
        let checked = self.unanswered == 0;
        let length = if checked { timing.watch } else { timing.quiet };
        let length =
            length + length.mul_f64(self.jitter(Duration::from_secs(1)).as_secs_f64() - 0.8);
        let mut query = format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}{}",
            length.as_secs().max(1),
            self.selectors
        );
        let mut initial = self.version.is_none();
        match &self.version {
            Some(version) => query += &format!("&resourceVersion={version}"),
            None => {
                query += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
                if !self.least.is_empty() {
                    query += &format!("&resourceVersion={}", self.least);
                }
            }
        }
        let mut reply = self.patient(&query).await?;
        let start = Instant::now();
        let deadline = start + length + if checked { timing.slack } else { Duration::ZERO };
        let mut decoder = Decoder::new(&reply.encoding).map_err(broken)?;
        let mut trusted = initial || self.trusts();
        let patience = self.patience();
        if initial {
            self.state(State::Listing);
            self.common.apply(&self.restart());
        } else if trusted {
            // That a watch is accepted is to be heard of, if not again and again.
            if !self.is_quiet() {
                self.hear();
            }
            self.state(State::Watching);
            self.common.connection.recover();
        }
        let mut order = Order::behind(self.version.as_deref());
        let (mut heard, mut periodic, mut any) = (start, false, false);
        let mut settled = initial || !trusted;
        // When the list is due that events out of their order ask for, and the first of those.
        let mut doubt: Option<(Instant, String)> = None;
        loop {
            let until = if initial {
                heard + timing.quiet * if any { 3 } else { 1 }
            } else {
                deadline.min(heard + if trusted { timing.silence } else { patience })
            };
            let until = if settled { until } else { until.min(start + SETTLED) };
            let due = doubt.as_ref().map(|(due, _)| *due);
            let until = due.map_or(until, |due| until.min(due));
            let more = match self.piece(&mut reply, &mut decoder, until).await {
                Ok(more) => more,
                Err(_) if due.is_some_and(|due| Instant::now() >= due) => {
                    return Err(self.doubt(doubt));
                }
                Err(_) if !settled && Instant::now() >= start + SETTLED => {
                    settled = true;
                    self.progress();
                    continue;
                }
                // A server that does not know of initial events may take this for a watch from now on.
                Err(End::Stalled(_)) if initial && !any && Instant::now() >= until => {
                    return Err(End::NoEvents);
                }
                Err(_) if !initial && Instant::now() >= deadline => return Ok(()),
                // A server without periodic bookmarks may have nothing to tell, or the way to it may have ended unnoticed: a new
                // watch tells which, and costs little.
                Err(End::Stalled(_)) if !initial && !periodic && Instant::now() >= until => {
                    return Ok(());
                }
                Err(End::Stalled(cause)) if !initial => return Err(End::Cut(cause)),
                Err(end) => return Err(end),
            };
            if !more {
                break;
            }
            let notes = self.take(&mut decoder, reply.json, &mut order)?;
            if let Some(late) = &notes.late
                && doubt.is_none()
            {
                let now = Instant::now();
                let due = self.doubted.map_or(now, |last| now.max(last + timing.doubt));
                doubt = Some((due, late.clone()));
            }
            if doubt.as_ref().is_some_and(|(due, _)| Instant::now() >= *due) {
                return Err(self.doubt(doubt));
            }
            if notes == Notes::default() {
                continue;
            }
            periodic |= notes.bookmark && !initial && heard.elapsed() > timing.silence / 8;
            if notes.bookmark && !initial && start.elapsed() > timing.silence / 8 {
                self.silence.expect_bookmarks();
            }
            (heard, any) = (Instant::now(), true);
            self.note_told();
            if let Some(version) = notes.version
                && (!initial || notes.end)
            {
                self.least.clone_from(&version);
                self.version = Some(version);
            }
            if initial && notes.end {
                initial = false;
                self.silence.listed(self.common.store.version());
                self.progress();
            } else if !initial && (notes.applied || !trusted) {
                self.progress();
            }
            trusted = true;
            if !initial && Instant::now() >= deadline {
                break;
            }
        }
        if initial {
            return Err(End::Stalled("the connection ended within the initial events".to_owned()));
        }
        self.timely = checked && start.elapsed() + EARLY >= length;
        // A watch that ends at once is counted as a failure, or the server would be asked in a tight loop.
        if start.elapsed() >= SETTLED {
            self.failures = 0;
        } else {
            self.failures = self.failures.max(1);
        }
        Ok(())
    }

    /// Ends a watch that told what was not in order.
    fn doubt(&mut self, doubt: Option<(Instant, String)>) -> End {
        self.doubted = Some(Instant::now());
        End::Late(doubt.map(|(_, cause)| cause).unwrap_or_default())
    }

    /// Applies the events that have come whole, and in order.
    fn take(&self, decoder: &mut Decoder, json: bool, order: &mut Order) -> Result<Notes, End> {
        let mut notes = Notes::default();
        let mut taken = 0;
        let mut writer = self.common.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut end = None;
        while let Some((frame, len)) =
            stream::frame(&decoder.bytes()[taken..], json).map_err(broken)?
        {
            taken += len;
            let place = *order;
            let mut passed = true;
            let mut apply = |event: &Event<'_>, version: &str| {
                passed = order.pass(version);
                if passed {
                    writer.apply(event);
                }
            };
            let note = stream::event(self.kind, frame, json, &self.keep, &mut apply);
            match note.map_err(broken)? {
                Note::Applied(version) if !passed => notes.doubt("an event", &version, place),
                Note::Applied(version) => (notes.version, notes.applied) = (Some(version), true),
                Note::Bookmark(version, true) => {
                    writer.apply(&self.synced());
                    *order = Order::behind(Some(&version));
                    (notes.version, notes.bookmark, notes.end) = (Some(version), true, true);
                }
                Note::Bookmark(version, false) if !order.pass(&version) => {
                    notes.doubt("a bookmark", &version, place);
                }
                Note::Bookmark(version, false) => {
                    (notes.version, notes.bookmark) = (Some(version), true);
                }
                Note::Error(problem) => {
                    end = Some(refused(&problem, None, true));
                    break;
                }
                Note::Nothing => {}
            }
        }
        drop(writer);
        decoder.consume(taken);
        end.map_or(Ok(notes), Err)
    }
}

/// What a piece of a watch had.
#[derive(Debug, Default, PartialEq, Eq)]
struct Notes {
    /// The last resource version.
    version: Option<String>,
    /// Whether an object came.
    applied: bool,
    /// Whether a bookmark came.
    bookmark: bool,
    /// Whether the initial events ended.
    end: bool,
    /// The first that was out of its order, in words.
    late: Option<String>,
}

impl Notes {
    /// Notes what was out of its order.
    fn doubt(&mut self, what: &str, version: &str, place: Order) {
        self.late.get_or_insert_with(|| {
            format!("the API server sent {what} of resource version {version} after {place}; listed again")
        });
    }
}
