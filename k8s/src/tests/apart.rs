//! Namespaces that are followed one by one.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{runtime::Handle, time::sleep};

use super::{
    api::{Answer, Api, Asked, Step},
    watch::timing,
};
use crate::{
    Config, Event, Keep, Kind, Limits, Meta, Object, Probe, Quiet, Service, Source, Standing,
    State, WatchSet, Writer,
    client::Connection,
    watch::{Common, Timing},
};

/// Remembers which rights are there.
#[derive(Debug, Default)]
struct Ear(Mutex<Vec<(Kind, String, bool)>>);

impl Probe for Ear {
    fn granted(&self, kind: Kind, namespace: &str, granted: bool) {
        self.0.lock().unwrap().push((kind, namespace.to_owned(), granted));
    }
}

/// Follows these namespaces of a server: services and endpoints.
fn follow(api: &Api, namespaces: &[String]) -> (Arc<WatchSet>, Arc<Ear>) {
    follow_timed(api, namespaces, timing())
}

/// The same in other times.
fn follow_timed(api: &Api, namespaces: &[String], timing: Timing) -> (Arc<WatchSet>, Arc<Ear>) {
    let url = format!("http://{}", api.address);
    let limits = Limits { qps: 10_000.0, burst: 10_000, inflight: 0 };
    let keep = Keep { namespaces: namespaces.to_vec(), endpoints: true, ..Keep::default() };
    let config = Config { keep, limits, ..Config::new(Source::Endpoint { url, tls: None }) };
    let ear = Arc::new(Ear::default());
    let probe: Arc<dyn Probe> = Arc::clone(&ear) as _;
    (WatchSet::start_timed(&config, probe, &Handle::current(), timing), ear)
}

/// The two namespaces of most tests.
fn both() -> Vec<String> {
    vec!["shop".to_owned(), "edge".to_owned()]
}

/// A watch whose initial events are objects of these names and namespaces, and after which nothing happens.
fn watch(objects: &[(&str, &str)]) -> Answer {
    let mut steps: Vec<Step> = objects
        .iter()
        .map(|(name, namespace)| {
            let metadata = json!({ "name": name, "namespace": namespace, "resourceVersion": "1" });
            let spec = json!({ "clusterIP": "198.51.100.1", "ports": [{ "port": 80 }] });
            let object = json!({ "metadata": metadata, "spec": spec });
            Step::Send(
                (json!({ "type": "ADDED", "object": object }).to_string() + "\n").into_bytes(),
            )
        })
        .collect();
    let end = json!({ "k8s.io/initial-events-end": "true" });
    let metadata = json!({ "resourceVersion": "1", "annotations": end });
    let bookmark = json!({ "type": "BOOKMARK", "object": { "metadata": metadata } });
    steps.push(Step::Send((bookmark.to_string() + "\n").into_bytes()));
    steps.push(Step::Hold);
    Answer::Steps("identity", steps)
}

/// A refusal.
fn status(code: u16, reason: &str) -> Answer {
    let status = json!({ "kind": "Status", "code": code, "reason": reason, "message": "no" });
    Answer::Whole(code, status.to_string())
}

/// The path without its query.
fn path(asked: &Asked) -> &str {
    asked.path.split('?').next().unwrap_or_default()
}

/// What a server says that knows `shop` alone and lets a Role in each namespace read.
fn as_roles_allow(asked: &Asked) -> Answer {
    match path(asked) {
        "/api/v1/namespaces/shop" => Answer::Whole(200, "{}".to_owned()),
        "/api/v1/namespaces/edge" => status(404, "NotFound"),
        "/api/v1/namespaces/shop/services" => watch(&[("web", "shop")]),
        path if path.starts_with("/api/v1/namespaces/") && path.ends_with("/services") => {
            watch(&[])
        }
        path if path.starts_with("/apis/discovery.k8s.io/v1/namespaces/") => watch(&[]),
        _ => status(403, "Forbidden"),
    }
}

/// Waits until something is so.
async fn until(what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(10), "not so in time: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_role_in_each_namespace_is_enough() {
    let api = Api::start(|asked, _| as_roles_allow(asked)).await;
    let (set, ear) = follow(&api, &both());
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let store = set.store();
    {
        let reader = store.read();
        assert!(reader.service(b"\x03web\x04shop").is_some());
        assert!(reader.namespace(b"shop") && !reader.namespace(b"edge"));
        assert!(!reader.awaits(b"shop") && !reader.awaits(b"edge") && !reader.awaits(b"other"));
    }
    assert_eq!(Kind::ALL.map(|kind| store.state(kind))[..3], [State::Watching; 3]);
    assert!(api.asked("").iter().all(|asked| asked.path.contains("/namespaces/")));
    assert!(ear.0.lock().unwrap().iter().all(|(_, _, granted)| *granted));
}

#[tokio::test]
async fn a_namespace_that_is_made_later_is_found_by_its_first_service() {
    let made = Arc::new(AtomicBool::new(false));
    let there = Arc::clone(&made);
    let api = Api::start(move |asked, _| match path(asked) {
        "/api/v1/namespaces/edge" if there.load(SeqCst) => Answer::Whole(200, "{}".to_owned()),
        "/api/v1/namespaces/edge/services" if there.load(SeqCst) => watch(&[("new", "edge")]),
        // A watch that soon ends, so that the next one comes.
        "/api/v1/namespaces/edge/services" => {
            let Answer::Steps(encoding, mut steps) = watch(&[]) else { return watch(&[]) };
            steps.pop();
            steps.push(Step::Cut);
            Answer::Steps(encoding, steps)
        }
        _ => as_roles_allow(asked),
    })
    .await;
    let (set, _) = follow(&api, &both());
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    assert!(!set.store().read().namespace(b"edge"));
    made.store(true, SeqCst);
    until("the namespace is there", || set.store().read().namespace(b"edge")).await;
}

#[tokio::test]
async fn a_namespace_without_rights_does_not_hold_up_the_others() {
    let granted = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&granted);
    let api = Api::start(move |asked, _| match path(asked) {
        "/api/v1/namespaces/edge/services" if !now.load(SeqCst) => status(403, "Forbidden"),
        "/api/v1/namespaces/edge" => Answer::Whole(200, "{}".to_owned()),
        "/api/v1/namespaces/edge/services" => watch(&[("new", "edge")]),
        _ => as_roles_allow(asked),
    })
    .await;
    let (set, ear) = follow(&api, &both());
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let store = set.store();
    until("the others are followed", || store.state(Kind::Services) == State::Watching).await;
    {
        let reader = store.read();
        assert!(reader.service(b"\x03web\x04shop").is_some());
        assert!(reader.awaits(b"edge") && !reader.awaits(b"shop"));
    }
    let missing = (Kind::Services, "edge".to_owned(), false);
    assert!(ear.0.lock().unwrap().contains(&missing), "{ear:?}");
    granted.store(true, SeqCst);
    until("the service is there", || store.read().service(b"\x03new\x04edge").is_some()).await;
    assert!(!store.read().awaits(b"edge"));
    let there = (Kind::Services, "edge".to_owned(), true);
    assert!(ear.0.lock().unwrap().contains(&there), "{ear:?}");
}

#[tokio::test]
async fn which_namespaces_there_are_is_found_out_as_the_rights_allow() {
    for (listed, edge) in [(true, false), (false, true)] {
        let api = Api::start(move |asked, _| match path(asked) {
            "/api/v1/namespaces/shop" | "/api/v1/namespaces/edge" => status(403, "Forbidden"),
            "/api/v1/namespaces" if listed => watch(&[("shop", "")]),
            _ => as_roles_allow(asked),
        })
        .await;
        let (set, ear) = follow(&api, &both());
        assert!(set.wait_synced(Duration::from_secs(5)).await);
        let reader = set.store().read();
        assert!(reader.namespace(b"shop"));
        // Without any right to find out, it is taken to be there.
        assert_eq!(reader.namespace(b"edge"), edge);
        drop(reader);
        until("it is followed", || set.store().state(Kind::Namespaces) == State::Watching).await;
        until("all was heard of", || set.store().heard() > 0).await;
        let said = (Kind::Namespaces, String::new(), listed);
        until("the rights are told", || ear.0.lock().unwrap().contains(&said)).await;
    }
}

/// A list of services, of these names and namespaces.
fn list(objects: &[(&str, &str)]) -> Answer {
    let items: Vec<_> = objects
        .iter()
        .map(|(name, namespace)| {
            let metadata = json!({ "name": name, "namespace": namespace, "resourceVersion": "1" });
            let spec = json!({ "clusterIP": "198.51.100.1", "ports": [{ "port": 80 }] });
            json!({ "metadata": metadata, "spec": spec })
        })
        .collect();
    let metadata = json!({ "resourceVersion": "1" });
    Answer::Whole(200, json!({ "metadata": metadata, "items": items }).to_string())
}

/// A server whose rights in `edge` end when that is said: the watch of its services ends soon, and is refused from then on.
async fn revocable(revoked: &Arc<AtomicBool>) -> Api {
    let revoked = Arc::clone(revoked);
    Api::start(move |asked, _| match (path(asked), asked.path.contains("watch=true")) {
        ("/api/v1/namespaces/edge/services", _) if revoked.load(SeqCst) => status(403, "Forbidden"),
        ("/api/v1/namespaces/edge", _) => Answer::Whole(200, "{}".to_owned()),
        ("/api/v1/namespaces/edge/services", true) => {
            let Answer::Steps(encoding, mut steps) = watch(&[("old", "edge")]) else {
                return watch(&[]);
            };
            steps.pop();
            steps.push(Step::Wait(50));
            Answer::Steps(encoding, steps)
        }
        ("/api/v1/namespaces/edge/services", false) => list(&[("old", "edge")]),
        ("/api/v1/namespaces/shop/services", false) => list(&[("web", "shop")]),
        (path, false) if path.contains("/endpointslices") => list(&[]),
        _ => as_roles_allow(asked),
    })
    .await
}

#[tokio::test]
async fn a_namespace_whose_rights_end_tells_what_it_told_and_that_it_may_be_out_of_date() {
    let revoked = Arc::new(AtomicBool::new(false));
    let api = revocable(&revoked).await;
    let (set, _ear) = follow(&api, &both());
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let store = set.store();
    let late = |namespace: &[u8]| {
        let age = || store.shared.start.elapsed() + Duration::from_secs(11);
        store.refused_after(namespace, age).is_some()
    };
    assert!(!late(b""));
    revoked.store(true, SeqCst);
    until("the refusal", || store.state_in(Kind::Services, 1) == State::Forbidden).await;
    assert_eq!(store.refused_since(b"edge"), None, "not before ten seconds have passed");
    assert_eq!([&b"edge"[..], b"shop", b"other", b""].map(late), [true, false, false, true]);
    assert_eq!(store.standing(), Standing::Live);
    {
        let reader = store.read();
        assert!(reader.service(b"\x03old\x04edge").is_some() && !reader.awaits(b"edge"));
    }
    revoked.store(false, SeqCst);
    until("it is followed again", || !late(b"edge")).await;
}

#[test]
fn a_namespace_that_was_never_known_is_not_out_of_date() {
    let keep = Keep { namespaces: both(), ..Keep::default() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    writer.apply(&Event::Synced(Kind::Namespaces));
    writer.apply(&Event::SyncedIn(Kind::Services, "shop".into()));
    writer.apply(&Event::Refused(Kind::Services, "edge".into()));
    store.set_state_in(Kind::Services, 1, State::Forbidden);
    assert!(store.synced() && store.read().awaits(b"edge"));
    let late = |namespace: &[u8]| store.refused_after(namespace, || Duration::from_secs(3600));
    assert_eq!([late(b"edge"), late(b"")], [None; 2]);
    // One that a snapshot told of is.
    store.hear_in(Kind::Services, 1);
    assert!(late(b"edge").is_some());
}

#[test]
fn a_namespace_is_as_known_as_its_services_and_slices_are() {
    let keep = Keep { namespaces: both(), endpoints: true, pods: true, ..Keep::default() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    writer.apply(&Event::Synced(Kind::Namespaces));
    for kind in [Kind::Services, Kind::Slices, Kind::Pods] {
        writer.apply(&Event::SyncedIn(kind, "shop".into()));
        writer.apply(&Event::SyncedIn(kind, "edge".into()));
    }
    let late = || {
        let late =
            |space: &[u8]| store.refused_after(space, || Duration::from_secs(3600)).is_some();
        [late(b"edge"), late(b"")]
    };
    // Each of the kinds, refused and listed again.
    for (kind, counts) in [(Kind::Pods, false), (Kind::Services, true), (Kind::Slices, true)] {
        writer.apply(&Event::Refused(kind, "edge".into()));
        store.set_state_in(kind, 1, State::Forbidden);
        assert_eq!(late(), [counts; 2], "{kind}");
        writer.apply(&Event::SyncedIn(kind, "edge".into()));
        assert_eq!(late(), [false; 2], "{kind}");
    }
    // One of two that is back.
    writer.apply(&Event::Refused(Kind::Services, "edge".into()));
    writer.apply(&Event::Refused(Kind::Slices, "edge".into()));
    writer.apply(&Event::SyncedIn(Kind::Services, "edge".into()));
    assert_eq!(late(), [true; 2]);
    writer.apply(&Event::SyncedIn(Kind::Slices, "edge".into()));
    assert_eq!(late(), [false; 2]);
}

#[tokio::test]
async fn a_namespace_that_may_not_be_seen_is_left_out_of_comparisons() {
    let revoked = Arc::new(AtomicBool::new(false));
    let api = revocable(&revoked).await;
    let (set, _ear) = follow(&api, &both());
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("all are followed", || set.store().state(Kind::Services) == State::Watching).await;
    let compared = async || {
        let outcome = set.verify().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        outcome.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let slices = "endpointslices: 0 compared, equal";
    let spaces = "namespaces: left out, each is looked up by its name now and then";
    assert_eq!(compared().await, [spaces, "services: 2 compared, equal", slices]);
    // It may not be listed any more, which is found out by the comparison or before.
    revoked.store(true, SeqCst);
    assert_eq!(compared().await, [spaces, "services: 1 compared, equal", slices]);
    until("the refusal", || set.store().state_in(Kind::Services, 1) == State::Forbidden).await;
    assert!(set.store().read().service(b"\x03old\x04edge").is_some());
    assert_eq!(compared().await, [spaces, "services: 1 compared, equal", slices]);
}

#[tokio::test]
async fn what_may_not_be_seen_any_more_is_not_compared_and_no_failure() {
    let (lists, revoked) = (AtomicUsize::new(0), AtomicBool::new(false));
    let api = Api::start(move |asked, _| match (path(asked), asked.path.contains("watch=true")) {
        (path, _) if path.ends_with("/services") && revoked.load(SeqCst) => {
            status(403, "Forbidden")
        }
        (path, true) if path.ends_with("/services") => {
            let Answer::Steps(encoding, mut steps) = watch(&[]) else { return watch(&[]) };
            steps.pop();
            steps.push(Step::Wait(50));
            Answer::Steps(encoding, steps)
        }
        // The list of each namespace once, by which they differ from what is known.
        (path, false) if path.ends_with("/services") => {
            revoked.store(lists.fetch_add(1, SeqCst) == 1, SeqCst);
            if path.contains("/shop/") { list(&[("web", "shop")]) } else { list(&[]) }
        }
        (path, false) if path.contains("/endpointslices") => list(&[]),
        _ => as_roles_allow(asked),
    })
    .await;
    let timing = Timing { grace: Duration::from_secs(1), ..timing() };
    let (set, _ear) = follow_timed(&api, &both(), timing);
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("all are followed", || set.store().state(Kind::Services) == State::Watching).await;
    let outcome = set.verify().await;
    assert_eq!(set.store().state(Kind::Services), State::Forbidden);
    let words = outcome.iter().map(|one| one.as_ref().map(ToString::to_string));
    let spaces = "namespaces: left out, each is looked up by its name now and then".to_owned();
    let slices = "endpointslices: 0 compared, equal".to_owned();
    assert_eq!(words.collect::<Vec<_>>(), [Ok(spaces), Ok(slices)]);
}

/// Takes its time over a failure, and remembers in which order it was done with states.
#[derive(Debug, Default)]
struct Slow(Mutex<Vec<State>>);

impl Probe for Slow {
    fn state(&self, _kind: Kind, state: State) {
        if state == State::Failing {
            std::thread::sleep(Duration::from_millis(200));
        }
        self.0.lock().unwrap().push(state);
    }
}

#[test]
fn states_of_two_namespaces_at_once_are_told_in_their_order() {
    let keep = Keep { namespaces: both(), ..Keep::default() };
    let source = Source::Endpoint { url: "http://127.0.0.1:1".to_owned(), tls: None };
    let config = Config { keep: keep.clone(), ..Config::new(source) };
    let slow = Arc::new(Slow::default());
    let probe: Arc<dyn Probe> = Arc::<Slow>::clone(&slow);
    let (writer, store) = Writer::new(keep, Arc::clone(&probe));
    let common = Common {
        connection: Connection::open(&config, &probe),
        writer: Mutex::new(writer),
        store: store.clone(),
        probe,
        progress: tokio::sync::watch::channel(()).0,
        initial: AtomicBool::new(true),
        telling: Default::default(),
        look: Default::default(),
        timing: timing(),
        repair: Default::default(),
        recovered: Default::default(),
        verifying: Default::default(),
    };
    store.set_state_in(Kind::Services, 1, State::Watching);
    std::thread::scope(|scope| {
        scope.spawn(|| common.set_state_in(Kind::Services, 0, State::Failing));
        while store.state(Kind::Services) != State::Failing {
            std::thread::yield_now();
        }
        common.set_state_in(Kind::Services, 0, State::Watching);
    });
    assert_eq!(store.state(Kind::Services), State::Watching);
    assert_eq!(*slow.0.lock().unwrap(), [State::Failing, State::Watching]);
}

#[tokio::test]
async fn many_namespaces_are_followed_with_the_whole_cluster() {
    let api = Api::start(|_, _| watch(&[])).await;
    let names: Vec<String> = (0..65).map(|number| format!("n{number}")).collect();
    let (set, _) = follow(&api, &names);
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    assert!(!api.asked("/api/v1/services").is_empty());
    assert!(api.asked("/namespaces/").is_empty());
}

#[test]
fn a_list_of_one_namespace_leaves_the_others() {
    let keep = Keep { namespaces: both(), ..Keep::default() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    let apply = |writer: &mut Writer, name: &str, namespace: &str| {
        let meta = Meta {
            name: name.to_owned().into(),
            namespace: namespace.to_owned().into(),
            version: 1,
        };
        writer.apply(&Event::Apply(Object::Service(Service { meta, ..Service::default() })));
    };
    for name in ["shop", "edge"] {
        let meta = Meta { name: name.into(), ..Meta::default() };
        writer.apply(&Event::Apply(Object::Namespace(meta)));
    }
    writer.apply(&Event::Synced(Kind::Namespaces));
    // More lists than there are numbers for them, in one namespace while one of the other is under way.
    writer.apply(&Event::RestartIn(Kind::Services, "edge".into()));
    apply(&mut writer, "old", "edge");
    for round in 0..600 {
        writer.apply(&Event::RestartIn(Kind::Services, "shop".into()));
        apply(&mut writer, &format!("web{round}"), "shop");
        writer.apply(&Event::SyncedIn(Kind::Services, "shop".into()));
        assert!(!store.listed(Kind::Services));
        assert!(store.read().awaits(b"edge") && !store.read().awaits(b"shop"));
    }
    writer.apply(&Event::SyncedIn(Kind::Services, "edge".into()));
    assert!(store.synced());
    let names: Vec<String> = store
        .read()
        .services()
        .iter()
        .map(|service| service.name().escape_ascii().to_string())
        .collect();
    assert_eq!(names, ["old", "web599"]);
    // A list of everything counts for each.
    writer.apply(&Event::Restart(Kind::Services));
    apply(&mut writer, "old", "edge");
    writer.apply(&Event::Synced(Kind::Services));
    assert_eq!(store.read().services().len(), 1);
}

#[test]
fn rights_that_are_missing_everywhere_are_no_list() {
    let keep = Keep { namespaces: both(), ..Keep::default() };
    let (mut writer, store) = Writer::new(keep, Arc::new(Quiet));
    writer.apply(&Event::Synced(Kind::Namespaces));
    for name in ["shop", "edge"] {
        writer.apply(&Event::Refused(Kind::Services, name.into()));
        assert!(!store.listed(Kind::Services));
    }
    writer.apply(&Event::RestartIn(Kind::Services, "shop".into()));
    writer.apply(&Event::SyncedIn(Kind::Services, "shop".into()));
    assert!(store.synced());
}
