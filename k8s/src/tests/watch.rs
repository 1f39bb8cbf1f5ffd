//! Watches against servers that misbehave.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{net::TcpListener, runtime::Handle, time::sleep};

use super::api::{Answer, Api, Asked, Step, gzip};
use crate::{Config, Keep, Kind, Limits, Probe, Source, State, Verdict, WatchSet, watch::Timing};

/// Short times.
pub(super) fn timing() -> Timing {
    Timing {
        watch: Duration::from_secs(4),
        slack: Duration::from_secs(1),
        silence: Duration::from_secs(2),
        doubt: Duration::from_millis(300),
        answer: Duration::from_millis(400),
        list: Duration::from_secs(1),
        quiet: Duration::from_millis(400),
        pause: Duration::from_millis(20),
        longest: Duration::from_millis(100),
        refused: Duration::from_millis(100),
        names: Duration::from_secs(30),
        grace: Duration::from_millis(150),
        recovered: Duration::from_millis(500),
        between: Duration::from_millis(800),
    }
}

/// The same for a server that may be slow on a busy machine, and is not to be taken for one that is away then.
fn lenient() -> Timing {
    let [answer, list, quiet] = [Duration::from_secs(10); 3];
    Timing { answer, list, quiet, ..timing() }
}

/// Remembers what it is told.
#[derive(Debug, Default)]
pub(super) struct Ear {
    pub(super) states: Mutex<Vec<(Kind, State)>>,
    pub(super) codes: Mutex<Vec<String>>,
    limited: Mutex<f64>,
    pub(super) verified: Mutex<Vec<Verdict>>,
    pub(super) unverified: Mutex<Vec<Kind>>,
}

impl Probe for Ear {
    fn state(&self, kind: Kind, state: State) {
        self.states.lock().unwrap().push((kind, state));
    }

    fn verified(&self, verdict: &Verdict) {
        self.verified.lock().unwrap().push(verdict.clone());
    }

    fn unverified(&self, kind: Kind) {
        self.unverified.lock().unwrap().push(kind);
    }

    fn request(&self, code: &str, method: &str, host: &str) {
        assert!(method == "GET" && host.starts_with("127.0.0.1:"));
        self.codes.lock().unwrap().push(code.to_owned());
    }

    fn limited(&self, _verb: &str, _host: &str, seconds: f64) {
        *self.limited.lock().unwrap() += seconds;
    }
}

/// The configuration of a server: services and namespaces alone.
pub(super) fn config(api: &Api) -> Config {
    let url = format!("http://{}", api.address);
    let limits = Limits { qps: 10_000.0, burst: 10_000, inflight: 0 };
    Config { keep: Keep::default(), limits, ..Config::new(Source::Endpoint { url, tls: None }) }
}

/// Follows a server.
pub(super) fn follow(config: &Config) -> (Arc<WatchSet>, Arc<Ear>) {
    let ear = Arc::new(Ear::default());
    let probe: Arc<dyn Probe> = Arc::clone(&ear) as _;
    (WatchSet::start_timed(config, probe, &Handle::current(), timing()), ear)
}

/// An event of a watch.
pub(super) fn event(word: &str, name: &str, version: u64) -> Vec<u8> {
    let metadata =
        json!({ "name": name, "namespace": "shop", "resourceVersion": version.to_string() });
    let spec = json!({ "clusterIP": "198.51.100.1", "ports": [{ "port": 80 }] });
    line(&json!({ "type": word, "object": { "metadata": metadata, "spec": spec } }))
}

/// A bookmark.
pub(super) fn bookmark(version: u64, end: bool) -> Vec<u8> {
    let annotations =
        if end { json!({ "k8s.io/initial-events-end": "true" }) } else { json!(null) };
    let metadata = json!({ "resourceVersion": version.to_string(), "annotations": annotations });
    line(&json!({ "type": "BOOKMARK", "object": { "metadata": metadata } }))
}

/// The event of an expired version.
pub(super) fn expired() -> Vec<u8> {
    let status =
        json!({ "kind": "Status", "code": 410, "reason": "Expired", "message": "too old" });
    line(&json!({ "type": "ERROR", "object": status }))
}

/// A line of JSON.
fn line(value: &serde_json::Value) -> Vec<u8> {
    (value.to_string() + "\n").into_bytes()
}

/// A list.
pub(super) fn list(names: &[&str], version: u64) -> Answer {
    let items: Vec<_> = names
        .iter()
        .map(|name| json!({ "metadata": { "name": name, "namespace": "shop" }, "spec": { "clusterIP": "None" } }))
        .collect();
    let metadata = json!({ "resourceVersion": version.to_string() });
    Answer::Whole(200, json!({ "metadata": metadata, "items": items }).to_string())
}

/// A refusal.
pub(super) fn status(code: u16, reason: &str, message: &str) -> Answer {
    let status = json!({ "kind": "Status", "code": code, "reason": reason, "message": message });
    Answer::Whole(code, status.to_string())
}

/// Answers for namespaces: there is `shop`, and nothing happens.
pub(super) fn namespaces() -> Answer {
    let name = json!({ "type": "ADDED", "object": { "metadata": { "name": "shop", "resourceVersion": "1" } } });
    Answer::Steps(
        "identity",
        vec![Step::Send(line(&name)), Step::Send(bookmark(1, true)), Step::Hold],
    )
}

/// Starts a server whose services are scripted; other kinds are quiet.
pub(super) async fn services(
    script: impl Fn(&Asked, usize) -> Answer + Send + Sync + 'static,
) -> Api {
    Api::start(
        move |asked, before| {
            if asked.path.contains("/services") { script(asked, before) } else { namespaces() }
        },
    )
    .await
}

/// Gives the names of services.
pub(super) fn names(set: &WatchSet) -> String {
    let reader = set.store().read();
    let names: Vec<_> =
        reader.services().iter().map(|service| service.name().escape_ascii().to_string()).collect();
    names.join(" ")
}

/// Waits until something is so.
pub(super) async fn until(what: &str, test: impl Fn() -> bool) {
    let start = Instant::now();
    while !test() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Steps of a stream that stays open.
pub(super) fn stream(pieces: Vec<Vec<u8>>) -> Answer {
    Answer::Steps("", pieces.into_iter().map(Step::Send).chain([Step::Hold]).collect())
}

/// Steps of a stream that ends.
pub(super) fn ends(pieces: Vec<Vec<u8>>) -> Answer {
    Answer::Steps("", pieces.into_iter().map(Step::Send).collect())
}

#[tokio::test]
async fn a_watch_goes_on_where_the_last_one_ended() {
    let api = services(|_, before| match before {
        0 => ends(vec![
            event("ADDED", "a", 3),
            event("ADDED", "b", 2),
            bookmark(5, true),
            event("ADDED", "c", 6),
        ]),
        1 => ends(vec![event("DELETED", "a", 7), bookmark(9, false)]),
        _ => stream(vec![event("MODIFIED", "d", 10)]),
    })
    .await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("the third watch", || names(&set) == "b c d").await;
    let asked = api.asked("/services");
    let version = |at: usize| asked[at].path.split("&resourceVersion=").nth(1).map(str::to_owned);
    assert_eq!((version(0), version(1), version(2)), (None, Some("6".into()), Some("9".into())));
    assert!(
        asked[0].path.contains("sendInitialEvents=true")
            && asked[0].path.contains("resourceVersionMatch=NotOlderThan")
    );
    assert!(
        asked[0].header.contains("user-agent: causeway/0.1.0 git_commit:"),
        "{}",
        asked[0].header
    );
    assert!(
        asked[0].header.contains("accept: application/vnd.kubernetes.protobuf,application/json")
    );
    assert!(!ear.states.lock().unwrap().iter().any(|(_, state)| *state == State::Failing));
    assert_eq!(set.store().state(Kind::Services), State::Watching);
}

#[tokio::test]
async fn an_expired_version_leads_to_a_list_and_no_gap() {
    for by_status in [false, true] {
        let api = services(move |_, before| match before {
            0 => ends(vec![event("ADDED", "a", 1), event("ADDED", "b", 2), bookmark(5, true)]),
            1 if by_status => status(410, "Expired", "too old"),
            1 => ends(vec![expired()]),
            _ => Answer::Steps(
                "",
                vec![
                    Step::Send(event("ADDED", "b", 2)),
                    Step::Wait(300),
                    Step::Send(event("ADDED", "c", 8)),
                    Step::Send(bookmark(9, true)),
                    Step::Hold,
                ],
            ),
        })
        .await;
        let (set, _ear) = follow(&config(&api));
        assert!(set.wait_synced(Duration::from_secs(5)).await);
        until("the second list", || api.asked("/services").len() == 3).await;
        while names(&set) == "a b" {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(names(&set).contains('b'), "{}", names(&set));
        until("the end of the list", || names(&set) == "b c").await;
        assert!(
            !api.asked("/services")[2].path.contains("&resourceVersion="),
            "the newest is asked for"
        );
        assert!(set.store().synced());
    }
}

#[tokio::test]
async fn servers_without_initial_events_are_listed_first() {
    let forbidden = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    for knows in [true, false] {
        let api = services(move |asked, _| {
            if !asked.path.contains("watch=true") {
                list(&["a", "b"], 100)
            } else if asked.path.contains("sendInitialEvents") {
                if knows { status(422, "Invalid", forbidden) } else { stream(vec![]) }
            } else {
                stream(vec![event("DELETED", "a", 101)])
            }
        })
        .await;
        let (set, _ear) = follow(&config(&api));
        assert!(set.wait_synced(Duration::from_secs(5)).await);
        until("the watch", || names(&set) == "b").await;
        let asked = api.asked("/services");
        assert!(asked[1].path.contains("?resourceVersion=0"), "from the cache: {}", asked[1].path);
        assert!(asked[2].path.contains("&resourceVersion=100"), "{}", asked[2].path);
    }
}

#[tokio::test]
async fn a_forbidden_kind_does_not_hold_up_the_others() {
    let granted = Arc::new(AtomicBool::new(false));
    let grant = Arc::clone(&granted);
    let api = Api::start(move |asked, _| {
        if asked.path.contains("/pods") && !grant.load(SeqCst) {
            status(
                403,
                "Forbidden",
                "pods is forbidden: User \"edge\" cannot watch resource \"pods\"",
            )
        } else if asked.path.contains("/services") {
            stream(vec![event("ADDED", "a", 1), bookmark(5, true)])
        } else {
            namespaces()
        }
    })
    .await;
    let (set, ear) =
        follow(&Config { keep: Keep { pods: true, ..Keep::default() }, ..config(&api) });
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("the refusal", || set.store().state(Kind::Pods) == State::Forbidden).await;
    assert_eq!(names(&set), "a");
    assert!(!set.store().listed(Kind::Pods));
    let pods = api.asked("/pods");
    assert!(pods[0].path.contains("fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed%2Cstatus.phase%21%3DUnknown"));
    granted.store(true, SeqCst);
    until("the grant", || set.store().listed(Kind::Pods)).await;
    assert!(ear.states.lock().unwrap().contains(&(Kind::Pods, State::Forbidden)));
    assert!(ear.codes.lock().unwrap().contains(&"403".to_owned()));
}

#[tokio::test]
async fn rights_that_come_late_are_waited_for_and_nothing_is_denied_meanwhile() {
    let granted = Arc::new(AtomicBool::new(false));
    let grant = Arc::clone(&granted);
    let api = Api::start(move |asked, _| {
        let late = asked.path.contains("/endpointslices") || asked.path.contains("/namespaces");
        if late && !grant.load(SeqCst) {
            status(403, "Forbidden", "not yet")
        } else if asked.path.contains("/services") {
            stream(vec![event("ADDED", "a", 1), bookmark(5, true)])
        } else if asked.path.contains("/namespaces") {
            namespaces()
        } else {
            stream(vec![bookmark(5, true)])
        }
    })
    .await;
    let keep = Keep { endpoints: true, ..Keep::default() };
    let (set, ear) = follow(&Config { keep, ..config(&api) });
    let store = set.store();
    assert!(!set.wait_synced(Duration::from_millis(500)).await, "not all is known");
    until("what needs no more", || store.answers()).await;
    assert_eq!(names(&set), "a");
    assert!(store.read().namespace(b"shop") && store.read().doubts(b"bare"));
    assert!(!store.knows_endpoints(false));
    assert!(ear.states.lock().unwrap().contains(&(Kind::Slices, State::Forbidden)));
    granted.store(true, SeqCst);
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    assert!(store.knows_endpoints(false) && !store.read().doubts(b"bare"));
    until("all are followed", || store.state(Kind::Slices) == State::Watching).await;
}

#[tokio::test]
async fn a_token_file_is_read_again_when_the_token_is_refused() {
    let folder = std::env::temp_dir().join(format!("causeway-k8s-token-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("token"), "tok-1\n").unwrap();
    let good = Arc::new(Mutex::new("tok-1"));
    let accepted = Arc::clone(&good);
    let api = services(move |asked, _| {
        if !asked
            .header
            .contains(&format!("authorization: bearer {}\r\n", accepted.lock().unwrap()))
        {
            return status(401, "Unauthorized", "Unauthorized");
        }
        Answer::Steps(
            "",
            vec![
                Step::Send(event("ADDED", "a", 1)),
                Step::Send(bookmark(5, true)),
                Step::Wait(200),
            ],
        )
    })
    .await;
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", api.address) } }],
        "users": [{ "name": "u", "user": { "tokenFile": "token" } }],
        "contexts": [{ "name": "edge", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();
    let source =
        Source::Kubeconfig { file: folder.join("config"), context: Some("edge".to_owned()) };
    let (set, ear) = follow(&Config { source, ..config(&api) });
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    *good.lock().unwrap() = "tok-2";
    until("a refusal", || ear.codes.lock().unwrap().contains(&"401".to_owned())).await;
    until("the state", || set.store().state(Kind::Services) == State::Failing).await;
    assert_eq!(names(&set), "a", "what is known is served");
    std::fs::write(folder.join("token.new"), "tok-2").unwrap();
    std::fs::rename(folder.join("token.new"), folder.join("token")).unwrap();
    until("the new token", || set.store().state(Kind::Services) == State::Watching).await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn another_server_that_a_refusal_leads_to_is_listed_anew() {
    let folder = std::env::temp_dir().join(format!("causeway-k8s-moves-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    let old = services(move |_, _| match is_gone.load(SeqCst) {
        false => ends(vec![event("ADDED", "a", 1), bookmark(5, true)]),
        true => status(401, "Unauthorized", "Unauthorized"),
    })
    .await;
    // It takes a version of the other server's for one of its own, and has nothing to tell of what was before.
    let new = services(|asked, _| match asked.path.contains("sendInitialEvents") {
        false => stream(Vec::new()),
        true => stream(vec![event("ADDED", "b", 1), bookmark(9, true)]),
    })
    .await;
    let write = |api: &Api| {
        let server = format!("http://{}", api.address);
        let kubeconfig = json!({
            "clusters": [{ "name": "c", "cluster": { "server": server } }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": "edge", "context": { "cluster": "c", "user": "u" } }],
            "current-context": "edge",
        });
        std::fs::write(folder.join("new"), kubeconfig.to_string()).unwrap();
        std::fs::rename(folder.join("new"), folder.join("config")).unwrap();
    };
    write(&old);
    let source = Source::Kubeconfig { file: folder.join("config"), context: None };
    let (set, _ear) = follow(&Config { source, ..config(&old) });
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    assert_eq!(names(&set), "a");
    // The refusal comes before the file has been looked at twice.
    write(&new);
    gone.store(true, SeqCst);
    until("the other server's services", || names(&set) == "b").await;
    until("its namespaces", || !new.asked("/namespaces").is_empty()).await;
    assert!(new.asked("/namespaces")[0].path.contains("sendInitialEvents"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_credential_program_is_run_again_when_its_token_is_refused() {
    let folder = std::env::temp_dir().join(format!("causeway-k8s-exec-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let script = "#!/bin/sh\necho run >> runs; n=$(wc -l < runs)\n[ -n \"$KUBERNETES_EXEC_INFO\" ] || exit 1\nprintf '{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"tok-%s\"}}' $n\n";
    std::fs::write(folder.join("cred.sh"), script).unwrap();
    let good = Arc::new(Mutex::new("tok-1"));
    let (accepted, renewed) = (Arc::clone(&good), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&renewed);
    let api = services(move |asked, _| {
        let token = *accepted.lock().unwrap();
        if !asked.header.contains(&format!("authorization: bearer {token}\r\n")) {
            return status(401, "Unauthorized", "Unauthorized");
        }
        if token == "tok-2" {
            count.fetch_add(1, SeqCst);
        }
        Answer::Steps(
            "",
            vec![
                Step::Send(event("ADDED", "a", 1)),
                Step::Send(bookmark(5, true)),
                Step::Wait(200),
            ],
        )
    })
    .await;
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", format!("cd {}; . ./cred.sh", folder.display())],
        "interactiveMode": "Never",
    });
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", api.address) } }],
        "users": [{ "name": "u", "user": { "exec": exec } }],
        "contexts": [{ "name": "edge", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "edge",
    });
    std::fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();
    let source = Source::Kubeconfig { file: folder.join("config"), context: None };
    let config = Config { source, ..config(&api) };
    let set =
        WatchSet::start_timed(&config, Arc::new(Ear::default()), &Handle::current(), lenient());
    assert!(set.wait_synced(Duration::from_secs(10)).await);
    let runs = || std::fs::read_to_string(folder.join("runs")).unwrap().lines().count();
    assert_eq!(runs(), 1, "two kinds share one run");
    *good.lock().unwrap() = "tok-2";
    until("the second run", || runs() == 2).await;
    until("watches with the second token", || renewed.load(SeqCst) >= 4).await;
    until("the state", || set.store().state(Kind::Services) == State::Watching).await;
    assert_eq!(runs(), 2, "it is not run for watches that end");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_credential_program_that_fails_is_run_for_all_kinds_together() {
    let folder = std::env::temp_dir().join(format!("causeway-k8s-fails-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let api = services(|_, _| stream(vec![event("ADDED", "a", 1), bookmark(5, true)])).await;
    let script = format!(
        "cd {}; echo run >> runs; [ $(wc -l < runs) -gt 2 ] || exit 3; printf '{{\"status\":{{\"token\":\"t\"}}}}'",
        folder.display()
    );
    let exec = json!({ "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script] });
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", api.address) } }],
        "users": [{ "name": "u", "user": { "exec": exec } }],
        "contexts": [{ "name": "edge", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "edge",
    });
    std::fs::write(folder.join("config"), kubeconfig.to_string()).unwrap();
    let source = Source::Kubeconfig { file: folder.join("config"), context: None };
    let start = Instant::now();
    let (set, _ear) = follow(&Config { source, ..config(&api) });
    assert!(set.wait_synced(Duration::from_secs(20)).await);
    assert!(start.elapsed() >= Duration::from_secs(4), "two pauses");
    assert_eq!(std::fs::read_to_string(folder.join("runs")).unwrap().lines().count(), 3);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_program_that_fails_holds_no_requests_up_and_is_left_alone() {
    let folder = std::env::temp_dir().join(format!("causeway-k8s-slow-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let api = services(|_, _| ends(vec![event("ADDED", "a", 1), bookmark(5, true)])).await;
    let write = |user: serde_json::Value| {
        let kubeconfig = json!({
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", api.address) } }],
            "users": [{ "name": "u", "user": user }],
            "contexts": [{ "name": "edge", "context": { "cluster": "c", "user": "u" } }],
            "current-context": "edge",
        });
        std::fs::write(folder.join("new"), kubeconfig.to_string()).unwrap();
        std::fs::rename(folder.join("new"), folder.join("config")).unwrap();
    };
    let program = |times: &str| {
        let script = format!("cd {}; echo run >> runs; {times}; exit 3", folder.display());
        let api = "client.authentication.k8s.io/v1";
        json!({ "exec": { "apiVersion": api, "command": "sh", "args": ["-c", script] } })
    };
    let runs = || std::fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count();
    write(json!({}));
    let source = Source::Kubeconfig { file: folder.join("config"), context: None };
    let config = Config { source, ..config(&api) };
    let set =
        WatchSet::start_timed(&config, Arc::new(Ear::default()), &Handle::current(), lenient());
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    write(program("sleep 2"));
    until("the program runs", || runs() == 1).await;
    let before = api.asked("/services").len();
    sleep(Duration::from_millis(1500)).await;
    let asked = api.asked("/services").len() - before;
    assert!(asked > 3, "{asked} requests while the program runs");
    // It ends, and is looked at several times.
    sleep(Duration::from_secs(4)).await;
    assert_eq!(runs(), 1);
    until("the old session is used", || set.store().state(Kind::Services) == State::Watching).await;
    // What has changed is tried at once.
    write(program("true"));
    let changed = Instant::now();
    until("the changed program runs", || runs() == 2).await;
    assert!(changed.elapsed() < Duration::from_secs(5), "{:?}", changed.elapsed());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn a_silent_server_is_left_and_found_again() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hang = Arc::clone(&hangs);
    let api = services(move |_, _| {
        if hang.load(SeqCst) {
            Answer::Silence
        } else {
            stream(vec![event("ADDED", "a", 1), bookmark(5, true)])
        }
    })
    .await;
    let (set, ear) = follow(&config(&api));
    assert!(!set.wait_synced(Duration::from_secs(1)).await);
    assert!(ear.codes.lock().unwrap().contains(&"<error>".to_owned()));
    hangs.store(false, SeqCst);
    assert!(set.wait_synced(Duration::from_secs(8)).await);
}

#[tokio::test]
async fn a_server_that_comes_later_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}");
    let config =
        Config { keep: Keep::default(), ..Config::new(Source::Endpoint { url, tls: None }) };
    let (set, _ear) = follow(&config);
    assert!(!set.wait_synced(Duration::from_millis(300)).await);
    assert_eq!(set.store().state(Kind::Services), State::Failing);
    let _api = Api::serve(TcpListener::bind(address).await.unwrap(), |asked, _| {
        if asked.path.contains("/services") {
            stream(vec![event("ADDED", "a", 1), bookmark(5, true)])
        } else {
            namespaces()
        }
    });
    assert!(set.wait_synced(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn gzip_of_many_members_is_read_as_it_comes_and_truncation_is_noticed() {
    let api = services(|asked, before| {
        assert!(asked.header.contains("accept-encoding: gzip"));
        let whole = [gzip(&event("ADDED", "a", 1)), gzip(&event("ADDED", "b", 2))].concat();
        let last = gzip(&bookmark(5, true));
        match before {
            // Cut within a member, once by the end of the connection and once by that of the body.
            0 => Answer::Steps(
                "gzip",
                vec![Step::Send([&whole[..], &last[..9]].concat()), Step::Cut],
            ),
            1 => Answer::Steps("gzip", vec![Step::Send([&whole[..], &last[..9]].concat())]),
            _ => Answer::Steps(
                "gzip",
                vec![
                    Step::Send(whole[..50].to_vec()),
                    Step::Wait(20),
                    Step::Send(whole[50..].to_vec()),
                    Step::Send(last),
                    Step::Send(gzip(&event("DELETED", "a", 6))),
                    Step::Hold,
                ],
            ),
        }
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    until("the event after the list", || names(&set) == "b").await;
    assert_eq!(api.asked("/services").len(), 3);
}

#[tokio::test]
async fn a_half_open_watch_is_left() {
    let api = services(|asked, before| match before {
        0 => stream(vec![event("ADDED", "a", 1), bookmark(5, true)]),
        _ => {
            assert!(asked.path.contains("&resourceVersion=5"), "{}", asked.path);
            stream(vec![event("ADDED", "b", 6)])
        }
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let start = Instant::now();
    until("the second watch", || names(&set) == "a b").await;
    let took = start.elapsed().as_secs_f64();
    assert!((1.5..4.0).contains(&took), "when it has been silent too long, two seconds: {took}");
    assert!(!set.store().freshness().any(|kind| kind.state == State::Failing));
}

#[tokio::test]
async fn a_watch_without_end_is_left_in_its_time() {
    let api = services(|_, before| {
        let mut steps = vec![Step::Send(bookmark(5, true))];
        for version in 0..400 {
            steps.push(Step::Send(event(
                "MODIFIED",
                if before == 0 { "a" } else { "b" },
                10 + version + 1000 * before as u64,
            )));
            steps.push(Step::Wait(50));
        }
        Answer::Steps("", steps)
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    until("the second watch", || names(&set) == "a b").await;
}

#[tokio::test]
async fn imports_are_taken_up_when_they_are_defined_and_dropped_when_not() {
    let stage = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&stage);
    let api = Api::start(move |asked, _| {
        let kinds = json!({ "resources": [{ "name": "serviceimports" }] }).to_string();
        match (&*asked.path, now.load(SeqCst)) {
            ("/apis/multicluster.x-k8s.io/v1alpha1", 1) => Answer::Whole(200, kinds),
            ("/apis/multicluster.x-k8s.io/v1beta1", 2) => Answer::Whole(200, kinds),
            (path, stage) if path.contains("/serviceimports?") => {
                assert!(asked.header.contains("accept: application/json\r\n"));
                let (version, name) = if stage == 2 { ("v1beta1", "far") } else { ("v1alpha1", "near") };
                if stage == 0 || !path.contains(version) {
                    return status(404, "NotFound", "the server could not find the requested resource");
                }
                let object = json!({ "metadata": { "name": name, "namespace": "shop", "resourceVersion": "3" },
                    "spec": { "type": "ClusterSetIP", "ips": ["198.51.100.7"], "ports": [{ "port": 80 }] } });
                let added = line(&json!({ "type": "ADDED", "object": object }));
                Answer::Steps("", vec![Step::Send(added), Step::Send(bookmark(4, true)), Step::Wait(300)])
            }
            (path, _) if path.starts_with("/apis/multicluster") => status(404, "NotFound", "not found"),
            _ => namespaces(),
        }
    })
    .await;
    let keep = Keep { multicluster: true, ..Keep::default() };
    let (set, _ear) = follow(&Config { keep, ..config(&api) });
    assert!(set.wait_synced(Duration::from_secs(5)).await, "an absent definition holds nothing up");
    assert_eq!(set.store().state(Kind::Imports), State::Absent);
    let found = || {
        let reader = set.store().read();
        reader.imports().iter().map(|import| import.name().to_vec()).collect::<Vec<_>>()
    };
    stage.store(1, SeqCst);
    until("the definition", || found() == [b"near"]).await;
    stage.store(2, SeqCst);
    until("the new version", || {
        let names = found();
        assert!(!names.is_empty(), "nothing is there until the other version has been listed");
        names == [b"far"]
    })
    .await;
    stage.store(0, SeqCst);
    until("the end", || found().is_empty()).await;
}

#[tokio::test]
async fn exports_are_followed_in_the_version_that_is_served() {
    let there = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&there);
    let api = Api::start(move |asked, _| {
        let kinds = json!({ "resources": [{ "name": "serviceexports" }] }).to_string();
        match (&*asked.path, now.load(SeqCst)) {
            ("/apis/multicluster.x-k8s.io/v1beta1", 1) => Answer::Whole(200, kinds),
            (path, 1) if path.contains("/v1beta1/serviceexports?") => {
                let object = json!({
                    "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "3",
                        "creationTimestamp": "2026-01-02T03:04:05Z" },
                    "status": { "conditions": [{ "type": "Valid", "status": "True" }] },
                });
                let added = line(&json!({ "type": "ADDED", "object": object }));
                Answer::Steps(
                    "",
                    vec![Step::Send(added), Step::Send(bookmark(4, true)), Step::Hold],
                )
            }
            (path, _) if path.starts_with("/apis/multicluster") => {
                status(404, "NotFound", "not found")
            }
            _ => namespaces(),
        }
    })
    .await;
    let keep = Keep { exports: true, ..Keep::default() };
    let (set, _ear) = follow(&Config { keep, ..config(&api) });
    assert!(set.wait_synced(Duration::from_secs(5)).await, "an absent definition holds nothing up");
    assert_eq!(set.store().state(Kind::Exports), State::Absent);
    there.store(1, SeqCst);
    until("the export", || {
        let reader = set.store().read();
        reader
            .export(b"\x03web\x04shop")
            .is_some_and(|export| (export.created(), export.invalid()) == (1_767_323_045, false))
    })
    .await;
}

#[tokio::test]
async fn a_server_that_has_gone_back_to_older_data_is_believed() {
    let api = services(|asked, before| match before {
        0 => ends(vec![event("ADDED", "a", 7), bookmark(9, true)]),
        // What a real server does with a watch from a version to come: nothing.
        _ if asked.path.contains("&resourceVersion=") => stream(Vec::new()),
        _ => stream(vec![event("ADDED", "b", 3), bookmark(4, true)]),
    })
    .await;
    api.newest.store(4, SeqCst);
    let (set, _ear) = follow(&config(&api));
    until("the older data", || names(&set) == "b").await;
}

#[tokio::test]
async fn a_watch_goes_on_at_a_server_that_is_slow_to_list_or_can_not() {
    // Longer than the first wait, and shorter than the second.
    for (delay, code) in [(600, 200), (0, 500), (0, 504)] {
        let api = services(|asked, before| match before {
            0 => ends(vec![event("ADDED", "a", 7), bookmark(9, true)]),
            _ if asked.path.contains("&resourceVersion=9") => stream(vec![event("ADDED", "b", 10)]),
            _ => Answer::Silence,
        })
        .await;
        api.telling.0.store(delay, SeqCst);
        api.telling.1.store(code, SeqCst);
        let (set, _ear) = follow(&config(&api));
        until(&format!("the next watch in spite of {delay} {code}"), || names(&set) == "a b").await;
    }
}

/// A server whose services were `a` at version 9 and, restored, are `b` at 4. It tells nothing to who asks for what comes after 9.
async fn restored(code: u16) -> Api {
    let api = services(|asked, before| match before {
        0 => ends(vec![event("ADDED", "a", 7), bookmark(9, true)]),
        _ if asked.path.contains("&resourceVersion=") => stream(Vec::new()),
        _ => stream(vec![event("ADDED", "b", 3), bookmark(4, true)]),
    })
    .await;
    api.newest.store(4, SeqCst);
    api.telling.1.store(code, SeqCst);
    api
}

/// Times with which nothing is found out by silence, or by a comparison.
fn slow() -> Timing {
    let [silence, watch, recovered] = [Duration::from_secs(60); 3];
    Timing { silence, watch, recovered, ..timing() }
}

/// Follows a server with these.
fn follow_slowly(config: &Config) -> (Arc<WatchSet>, Arc<Ear>) {
    let ear = Arc::new(Ear::default());
    let probe: Arc<dyn Probe> = Arc::clone(&ear) as _;
    (WatchSet::start_timed(config, probe, &Handle::current(), slow()), ear)
}

/// How often the server answered with a code.
fn answered(ear: &Ear, code: u16) -> usize {
    let code = code.to_string();
    ear.codes.lock().unwrap().iter().filter(|other| **other == code).count()
}

#[tokio::test]
async fn a_server_that_starts_is_asked_again_how_far_it_is() {
    for code in [403, 500, 503] {
        let api = restored(code).await;
        let (set, ear) = follow_slowly(&config(&api));
        until("refusals", || answered(&ear, code) >= 2).await;
        assert_eq!(names(&set), "a", "served on");
        // Its roles are loaded, or its database is there.
        api.telling.1.store(200, SeqCst);
        until(&format!("the older data after {code}"), || names(&set) == "b").await;
        until("it is followed", || set.store().state(Kind::Services) == State::Watching).await;
        if code == 403 {
            assert!(api.asked("&resourceVersion=9").is_empty(), "no watch from a version to come");
        }
    }
}

#[tokio::test]
async fn who_may_only_watch_begins_anew() {
    let api = restored(403).await;
    let (set, ear) = follow_slowly(&config(&api));
    until("the older data", || names(&set) == "b").await;
    until("it is followed", || set.store().state(Kind::Services) == State::Watching).await;
    let refusals = answered(&ear, 403);
    assert!((2..=6).contains(&refusals), "asked again, and not for ever: {refusals}");
    sleep(Duration::from_millis(600)).await;
    assert_eq!((answered(&ear, 403), api.asked("/services").len()), (refusals, 2), "it goes on");
}

#[tokio::test]
async fn a_right_to_list_that_has_ended_is_asked_for_now_and_then() {
    let api = services(|asked, before| match (asked.path.contains("watch=true"), before) {
        (true, _) if asked.path.contains("sendInitialEvents") => {
            status(400, "BadRequest", "sendInitialEvents: Forbidden")
        }
        (true, 2) => ends(vec![event("ADDED", "b", 10)]),
        (true, _) => stream(vec![event("ADDED", "unseen", 11)]),
        (false, 1) => list(&["a"], 9),
        (false, _) => status(403, "Forbidden", "no longer"),
    })
    .await;
    api.telling.1.store(403, SeqCst);
    let (set, ear) = follow_slowly(&config(&api));
    until("the refusal", || set.store().state(Kind::Services) == State::Forbidden).await;
    until("the lists", || answered(&ear, 403) >= 8).await;
    let before = answered(&ear, 403);
    sleep(Duration::from_secs(1)).await;
    let more = answered(&ear, 403) - before;
    assert!((1..=13).contains(&more), "{more} in a second with pauses of 80 to 120 ms");
    assert_eq!(names(&set), "a b", "served on");
    assert_eq!(set.store().state(Kind::Services), State::Forbidden);
}

#[tokio::test]
async fn a_server_whose_database_fails_is_watched_and_asked_all_the_same() {
    let api = restored(500).await;
    let (set, _ear) = follow_slowly(&config(&api));
    until("a watch", || api.asked("&resourceVersion=9").len() >= 2).await;
    assert_eq!(names(&set), "a");
    api.telling.1.store(200, SeqCst);
    until("the older data", || names(&set) == "b").await;
}

#[tokio::test]
async fn a_busy_server_is_given_the_time_that_it_asks_for() {
    let api = services(|_, before| match before {
        0 => status(429, "TooManyRequests", "slow down"),
        1 => status(500, "InternalError", "etcd is away"),
        2 => status(504, "Timeout", "Too large resource version: 9, current: 1"),
        _ => stream(vec![event("ADDED", "a", 1), bookmark(5, true)]),
    })
    .await;
    let (set, ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    assert_eq!(names(&set), "a");
    let codes = ear.codes.lock().unwrap().clone();
    assert!(["429", "500", "504"].iter().all(|code| codes.contains(&(*code).to_owned())));
}

#[tokio::test]
async fn garbage_is_survived() {
    let api = services(|_, before| match before {
        0 => ends(vec![b"<html>\n".to_vec()]),
        1 => Answer::Steps("gzip", vec![Step::Send(b"not gzip at all, not gzip at all".to_vec())]),
        2 => Answer::Steps("br", vec![Step::Hold]),
        3 => ends(vec![
            event("ADDED", "x", 1),
            b"{\"type\":\"ADDED\",\"object\":{\"metadata\":7}}\n".to_vec(),
        ]),
        4 => Answer::Whole(503, "<html>".to_owned()),
        5 => Answer::Whole(200, String::new()),
        _ => stream(vec![event("ADDED", "a", 1), bookmark(5, true)]),
    })
    .await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    assert_eq!(names(&set), "a", "what an unfinished list named is gone");
}

#[tokio::test]
async fn limits_hold_for_all_kinds_of_a_connection() {
    let api = Api::start(|asked, _| {
        if asked.path.contains("/services") {
            stream(vec![bookmark(5, true)])
        } else {
            namespaces()
        }
    })
    .await;
    let keep = Keep { endpoints: true, pods: true, ..Keep::default() };
    let limits = Limits { qps: 10.0, burst: 1, inflight: 1 };
    let start = Instant::now();
    let (set, ear) = follow(&Config { keep, limits, ..config(&api) });
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let took = start.elapsed();
    assert!(took > Duration::from_millis(290), "four requests at ten a second: {took:?}");
    assert_eq!(api.open.1.load(SeqCst), 1, "one at a time");
    let limited = *ear.limited.lock().unwrap();
    assert!(limited > 0.1, "{limited}");
}

#[tokio::test]
async fn a_dropped_set_asks_for_nothing_more() {
    let api = services(|_, _| ends(vec![bookmark(5, true)])).await;
    let (set, _ear) = follow(&config(&api));
    assert!(set.wait_synced(Duration::from_secs(5)).await);
    let store = set.store().clone();
    drop(set);
    sleep(Duration::from_millis(100)).await;
    let before = api.asked("").len();
    sleep(Duration::from_millis(300)).await;
    assert_eq!(api.asked("").len(), before);
    assert!(store.synced(), "the store outlives its tasks");
}
